"""`myxtts split`: cut a long reading and its text into clips."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from myxtts.cli.options import command
from myxtts.cli.output import duration_text, emit, progress

if TYPE_CHECKING:
    from myxtts.recordings.split import SplitReport

_SHOWN = 10


@command()
def split(
    recording: Annotated[Path, typer.Argument(help="Audio file of the reading; hours are fine.")],
    out: Annotated[Path, typer.Argument(help="Folder of the data set: new, empty, or one to complete.")],
    text: Annotated[Path, typer.Option(help="File with the text that is read, in UTF-8.")],
    language: Annotated[str, typer.Option(help="Language of the text, e.g. fa.")] = "en",
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line of the text is a clip; default: every sentence.")
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Align with this voice (a checkpoint or run) instead of espeak-ng.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Leave doubtful clips out of metadata.csv.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parallel processes; default: the CPUs this process may use.")
    ] = None,
) -> None:
    """Cut hours of reading and their text into clips, in the pauses between sentences.

    Doubtful clips, text that is not read and speech that is not in the text are listed. An interrupted run continues.
    Needs the 'prepare' and 'speech' extras.

    Example: myxtts split book.flac ./data/book --text book.txt --language de
    """
    from myxtts.recordings.split import SplitSettings, split_reading

    if checkpoint is not None:
        from myxtts.cli.machine_config import start_tensorflow
        from myxtts.models.checkpoint import read_checkpoint

        read_checkpoint(checkpoint)
        start_tensorflow()
    settings = SplitSettings(language, lines, None if checkpoint is None else str(checkpoint.absolute()))
    with progress("splitting", 100, "%") as bar:
        report = split_reading(
            recording, text, out, settings, strict=strict, workers=workers, on_progress=bar.advance
        )
    emit(report.to_dict(), lambda console: _render(console, report))


def _render(out: Console, report: SplitReport) -> None:
    seconds = sum(clip.end - clip.begin for clip in report.clips)
    out.print(
        f"{len(report.clips):,} clips, {duration_text(seconds)} of {duration_text(report.seconds)}: {report.path}"
    )
    if report.doubtful:
        left_out = ", left out of metadata.csv" if report.strict else ""
        out.print(f"\n{len(report.doubtful):,} clips are doubtful{left_out}:")
        for clip in report.doubtful[:_SHOWN]:
            out.print(f"{clip.id}  {clip.confidence:.2f}  {clip.text}")
    if report.unplaced:
        out.print(f"\n{len(report.unplaced):,} sentences are in no clip:")
        for one in report.unplaced[:_SHOWN]:
            out.print(f"{one['reason']}: {one['text']}")
    if report.other_speech:
        out.print(f"\n{len(report.other_speech):,} stretches of speech fit no text, in seconds:")
        out.print(", ".join(f"{begin:.1f} to {end:.1f}" for begin, end in report.other_speech[:_SHOWN]))
    out.print(f"\nall of it: {report.path}/report.json, the least certain clips: {report.path}/report.html")
