"""`myxtts vocode` and `myxtts import-vocoder`: what a vocoder alone makes of a recording, and others' vocoders."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli.machine_config import start_tensorflow
from myxtts.cli.options import ConfigOptions, VocoderOption, command
from myxtts.cli.output import emit
from myxtts.cli.synthesize import check_wav_path, wav_file
from myxtts.errors import UsageError


@command("config", "preset", "settings")
def vocode(
    recording: Annotated[Path, typer.Argument(metavar="IN.wav", help="Recording to take the mel of.")],
    output: Annotated[Path, typer.Argument(metavar="OUT.wav", help="WAV file to write.")],
    given: ConfigOptions,
    vocoder: VocoderOption = "auto",
) -> None:
    """Write what a vocoder makes of the mel of a recording: the best that a voice can sound with it.

    Example: myxtts vocode recording.wav vocoded.wav --vocoder hifigan.onnx
    """
    from myxtts.audio.mel import MelSettings, log_mel
    from myxtts.audio.reading import read_audio
    from myxtts.inference.vocoder import create_vocoder, find_vocoder
    from myxtts.runtime.bundle import is_bundle
    from myxtts.runtime.chunked_vocoder import WHOLE_CHUNK

    check_wav_path(output)
    settings = MelSettings.from_config(given.load().config.data)
    found = find_vocoder(vocoder, settings)
    mel = log_mel(read_audio(recording, settings.sample_rate), settings)
    if not len(mel):
        raise UsageError(f"{recording}: shorter than a frame of {settings.hop_length} samples")
    if found is not None and found.is_dir() and not is_bundle(found):
        start_tensorflow()
    opened = create_vocoder(vocoder, settings)

    began, samples = time.perf_counter(), 0
    with wav_file(output, settings.sample_rate) as write:
        for piece in opened.stream(mel, WHOLE_CHUNK):
            write(piece)
            samples += len(piece)
    compute, seconds = time.perf_counter() - began, samples / settings.sample_rate
    result = {
        "input": str(recording),
        "output": str(output),
        "vocoder": opened.name,
        "sample_rate": settings.sample_rate,
        "seconds": round(seconds, 3),
        "compute_seconds": round(compute, 3),
        "real_time_factor": round(compute / seconds, 4),
    }
    summary = (
        f"{output}: {seconds:.1f} s by {opened.name} in {compute:.2f} s (real-time factor {compute / seconds:.3f})"
    )
    emit(result, lambda console: console.print(summary))


@command()
def import_vocoder(
    weights: Annotated[
        Path, typer.Argument(help="PyTorch checkpoint (.pth, .pt, .bin, .ckpt) or .safetensors file.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder to write, for --vocoder.")],
    config: Annotated[
        Path | None, typer.Option(help="Configuration published with the weights (JSON or YAML).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a vocoder that is there already.")] = False,
) -> None:
    """Import a HiFi-GAN or Vocos that was trained with PyTorch.

    PyTorch's own files need the 'torch' extra. Nothing in a file is executed.

    Example: myxtts import-vocoder generator_v1.pth vocoders/hifigan --config config.json
    """
    from myxtts.models.import_vocoder import import_vocoder as read
    from myxtts.models.import_vocoder import read_state_dict
    from myxtts.models.vocoder_folder import is_imported, write_vocoder

    if out.exists() and not (force and is_imported(out)):
        hint = "--force replaces it" if is_imported(out) else "choose another name"
        raise UsageError(f"{out} exists; {hint}")
    # Report what is wrong with the file before TensorFlow takes seconds to load.
    state = read_state_dict(weights)
    start_tensorflow()
    found = read(weights, config, state)
    try:
        write_vocoder(out, found.network, found.settings, weights.name)
    except OSError as error:
        raise UsageError(f"{error.filename or out}: cannot be written ({error.strerror})") from None
    settings = found.settings
    result = {
        "output": str(out),
        "network": found.network.architecture,
        "parameters": found.network.count_params(),
        "sample_rate": settings.sample_rate,
        "n_mels": settings.n_mels,
        "hop_length": settings.hop_length,
        "mel_fmin": settings.fmin,
        "mel_fmax": settings.fmax,
    }
    summary = (
        f"{out}: {found.network.architecture}, {found.network.count_params() / 1e6:.1f} million weights, "
        f"for mels of {settings.n_mels} bands from {settings.fmin:g} to {settings.fmax:g} Hz, "
        f"{settings.hop_length} samples a frame at {settings.sample_rate} Hz"
    )
    emit(result, lambda console: console.print(summary))
