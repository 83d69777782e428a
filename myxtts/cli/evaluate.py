"""`myxtts evaluate`: measure how well a voice speaks sentences that it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from myxtts.cli.machine_config import start_tensorflow
from myxtts.cli.options import CheckpointOption, JudgesOption, VocoderOption, command
from myxtts.cli.output import StageProgress, emit, say, table_text
from myxtts.cli.synthesize import read_text_file
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.evaluation.result import Evaluation


@command()
def evaluate(
    checkpoint: CheckpointOption,
    data_path: Annotated[
        Path | None, typer.Option(help="Folder of the data set; default: the one it was trained on.")
    ] = None,
    sentences: Annotated[int, typer.Option(min=2, help="Number of sentences to speak; all if there are fewer.")] = 60,
    candidates: Annotated[
        int, typer.Option(min=2, help="Recordings to choose from when a spoken sentence is matched with its own.")
    ] = 20,
    voices: Annotated[
        int, typer.Option(min=2, help="Voices to choose from when a cloned voice is matched with its own.")
    ] = 20,
    subset: Annotated[
        str, typer.Option(help="train, val, test, all, or auto: clips that were not trained on.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the choice of sentences and candidates.")] = 0,
    vocoder: VocoderOption = "auto",
    text_file: Annotated[
        Path | None, typer.Option(help="Further sentences to speak, one a line; nobody needs to have recorded them.")
    ] = None,
    judges: JudgesOption = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the audio and the mels to this file.")] = None,
    samples: Annotated[Path | None, typer.Option(help="Write each sentence as WAV files into this folder.")] = None,
) -> None:
    """Measure how well a voice speaks sentences that it was not trained on.

    Example: myxtts evaluate --checkpoint runs/voice/best --data-path ./data/ljspeech --html report.html
    """
    # Report what is wrong with the options before TensorFlow takes seconds to load.
    from myxtts.audio.mel import MelSettings
    from myxtts.evaluation.held_out import SUBSETS, HeldOutData
    from myxtts.evaluation.judges import JudgePanel
    from myxtts.inference.vocoder import find_vocoder
    from myxtts.models.checkpoint import read_checkpoint

    panel = JudgePanel.choose(judges)
    texts = [] if text_file is None else [line for line in read_text_file(text_file).splitlines() if line.strip()]
    chosen = next((name for name in SUBSETS if name == subset), None)
    if chosen is None:
        raise UsageError(f"--subset {subset}: should be one of {', '.join(SUBSETS)}")
    if html is not None:
        from myxtts.inference.plot import require_plotting

        require_plotting("--html")
        if not html.absolute().parent.is_dir():
            raise UsageError(f"{html}: the folder {html.parent} does not exist")
    read = read_checkpoint(checkpoint)
    held_out = HeldOutData.find(read, data_path, chosen)
    held_out.rows(held_out.metadata)
    find_vocoder(vocoder, MelSettings.from_config(read.config.data), read.path)

    start_tensorflow()
    from myxtts.evaluation.evaluate import evaluate as measure

    with StageProgress() as progress:
        result = measure(
            read,
            held_out,
            sentences=sentences,
            candidates=candidates,
            voices=voices,
            seed=seed,
            vocoder=vocoder,
            texts=texts,
            panel=panel,
            progress=progress,
        )
        if samples is not None or html is not None:
            from myxtts.evaluation.report import write_page, write_samples

            if samples is not None:
                write_samples(result, samples, progress)
            if html is not None:
                write_page(result, html, progress)
    emit(result.to_dict(), lambda console: _render(console, result))
    if samples is not None:
        say(f"{samples}: {result.sentences} sentences, three files each")
    if html is not None:
        say(f"{html}: open it in any browser")


def _render(console: Console, result: Evaluation) -> None:
    from myxtts.evaluation.result import TITLES

    console.print(f"{result.checkpoint} on {result.data_path}: {result.subset}")
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    for row in result.summary():
        table.add_row(*row)
    console.print(table)
    if result.judgements is not None and result.judgements.groups:
        console.print()
        console.print(table_text(*result.judgements.table(TITLES)))
    for note in result.notes():
        console.print(note)
