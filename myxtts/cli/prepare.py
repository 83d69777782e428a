"""`myxtts prepare`: make a data set of recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from myxtts.cli.options import ConfigOptions, command
from myxtts.cli.output import duration_text, emit, progress, say, table_text

if TYPE_CHECKING:
    from myxtts.recordings.prepare import PrepareReport

_SHOWN = 10


@command("language", "config", "settings")
def prepare(
    given: ConfigOptions,
    recordings: Annotated[Path, typer.Argument(help="Folder of the recordings and their metadata; only read.")],
    out: Annotated[Path, typer.Argument(help="Folder of the data set: new, empty, or one to complete.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Leave out clips that are clipped, noisy, band-limited or near-empty.")
    ] = False,
    one_take: Annotated[
        bool, typer.Option("--one-take", help="Of several takes of a sentence keep the best one.")
    ] = False,
    sample_rate: Annotated[
        int | None, typer.Option(min=8000, max=96000, help="Samples per second; default: each clip's own.")
    ] = None,
    loudness: Annotated[float, typer.Option(help="Loudness of every clip in LUFS (ITU-R BS.1770).")] = -23.0,
    silence: Annotated[float, typer.Option(help="Seconds of silence before and after the speech.")] = 0.1,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parallel processes; default: the CPUs this process may use.")
    ] = None,
) -> None:
    """Make a data set of recordings as people have them, and report the bad ones.

    Loudness and silent ends become the same everywhere, DC and rumble are removed. Nothing is changed in place; an
    interrupted run continues. Needs the 'prepare' extra.

    Example: myxtts prepare ./recordings ./data/my-voice --strict
    """
    from myxtts.data.clips.metadata import read_metadata
    from myxtts.recordings.prepare import PrepareSettings, prepare_recordings

    settings = PrepareSettings(sample_rate, loudness, silence)
    metadata = read_metadata(given.load(data_path=recordings).config.data)
    with progress("preparing", len(metadata.clips)) as bar:
        report = prepare_recordings(
            metadata,
            recordings,
            out,
            settings,
            strict=strict,
            one_take=one_take,
            workers=workers,
            on_progress=bar.advance,
        )
    emit(report.summary(), lambda console: _render(console, report))
    if report.cleaned < len(report.clips):
        say(f"{len(report.clips) - report.cleaned:,} clips existed already")


def _render(out: Console, report: PrepareReport) -> None:
    kept = report.kept
    out.print(
        f"{len(kept):,} of {len(report.clips):,} clips, {duration_text(sum(clip.seconds for clip in kept))}: "
        f"{report.path}"
    )
    out.print(", ".join(f"{fault} {count:,}" for fault, count in report.faults.items()))
    if report.takes:
        clips = sum(map(len, report.takes))
        out.print(f"{len(report.takes):,} sentences have several takes, {clips:,} clips in all")
    faulty = [clip for clip in report.worst(_SHOWN) if clip.faults]
    if faulty:
        rows = [
            [
                clip.clip.id,
                f"{clip.before.snr_db:.1f}",
                str(clip.before.flat_peaks),
                f"{clip.before.bandwidth_hz:,.0f}",
                f"{clip.before.speech_seconds:.1f}",
                ", ".join(clip.faults),
            ]
            for clip in faulty
        ]
        out.print()
        out.print(table_text(["clip", "SNR dB", "flat peaks", "to Hz", "speech s", "faults"], rows))
    if report.problems:
        out.print(f"\n{len(report.problems):,} lines of metadata gave no clip:")
        for problem in report.problems[:_SHOWN]:
            out.print(problem)
        if len(report.problems) > _SHOWN:
            out.print(f"and {len(report.problems) - _SHOWN:,} more, in report.json")
    out.print(f"\nthe worst clips: {report.path}/report.html")
