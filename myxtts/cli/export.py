"""`myxtts export`: a voice as files that need no TensorFlow, or as TensorFlow's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from myxtts.cli.machine_config import start_tensorflow
from myxtts.cli.options import CheckpointOption, VocoderOption, command
from myxtts.cli.output import emit, say
from myxtts.cli.synthesize import name_and_file
from myxtts.errors import UsageError


@command()
def export(
    checkpoint: CheckpointOption,
    output: Annotated[Path, typer.Option(help="Folder of the bundle to write.")],
    vocoder: VocoderOption = "auto",
    runs_with: Annotated[str, typer.Option("--format", help="onnx, litert or saved-model.")] = "onnx",
    quantize: Annotated[
        str | None,
        typer.Option(help="decoder: its weights as integers of 8 bits; a smaller bundle, not a faster one."),
    ] = None,
    voice: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Recording of a voice to keep in the bundle; repeatable."),
    ] = None,
) -> None:
    """Export a voice to a bundle that speaks without TensorFlow.

    Example: myxtts export --checkpoint runs/voice/best --output voice-bundle
    """
    from myxtts.audio.mel import MelSettings
    from myxtts.audio.reading import audio_info
    from myxtts.export.options import DECODER, ExportOptions, check_output
    from myxtts.inference.vocoder import find_vocoder
    from myxtts.models.checkpoint import read_checkpoint

    if quantize not in (None, DECODER):
        raise UsageError(
            f"--quantize {quantize}: should be decoder; rounding a duration would shift all that follows"
        )
    voices = dict(name_and_file(entry) for entry in voice or ())
    options = ExportOptions(vocoder, runs_with, quantize is not None, voices)
    check_output(output)
    for recording in voices.values():
        audio_info(recording)
    read = read_checkpoint(checkpoint)
    find_vocoder(vocoder, MelSettings.from_config(read.config.data), read.path)

    start_tensorflow()
    from myxtts.export.export import export_voice

    try:
        agreement = export_voice(read, output, options, say)
    except OSError as error:
        raise UsageError(f"{error.filename or output}: cannot be written ({error.strerror})") from None
    size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file())
    result = {
        "output": str(output),
        "format": runs_with,
        "bytes": size,
        "sentences": agreement.sentences,
        "difference": agreement.difference,
    }

    def render(console: Console) -> None:
        console.print(
            f"{output}: {size / 1e6:.1f} MB for {runs_with}; agrees with the model in {agreement.sentences} "
            f"sentences (mels differ by {agreement.difference:.1g} at most)"
        )

    emit(result, render)
