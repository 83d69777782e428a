"""`myxtts precompute`: compute the features of a data set once, into its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from myxtts.cli.options import ConfigOptions, command
from myxtts.cli.output import StageProgress, duration_text, emit, say
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.data.precompute import PrecomputeResult

_LABEL_WIDTH = 14


@command(
    "data_path",
    "data_layout",
    "language",
    "preprocessing_mode",
    "num_workers",
    "cache_dir",
    "config",
    "preset",
    "settings",
)
def precompute(
    given: ConfigOptions,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Compute everything again, also what is up to date.")
    ] = False,
    verify_source: Annotated[
        bool,
        typer.Option("--verify-source", help="Detect changed audio files by their content, not by size and time."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="If another process builds this store: wait for it, or fail.")
    ] = True,
) -> None:
    """Compute the features of a data set into its store; only what is new or changed.

    If it is interrupted or killed, run it again: it continues where it stopped. The exit code is 1 if a clip could
    not be computed; with `--preprocessing-mode auto` such clips are left out instead.

    Example: myxtts precompute --data-path ./data/ljspeech --num-workers 8
    """
    from myxtts.data.clips.metadata import read_metadata
    from myxtts.data.precompute import precompute as compute
    from myxtts.data.store.columns import columns_of

    data = given.load().config.data
    if given.preprocessing_mode == "runtime":
        raise UsageError("--preprocessing-mode runtime computes nothing ahead; leave it out, or use auto")
    metadata = read_metadata(data)
    say(f"layout {metadata.layout}")
    with StageProgress() as progress:
        done = compute(
            data,
            metadata,
            overwrite=[column.name for column in columns_of(data)] if overwrite else (),
            verify_source=verify_source,
            wait=wait,
            progress=progress,
        )
    emit(done.to_dict(), lambda out: _render(out, done))
    if given.preprocessing_mode != "auto" and not done.complete:
        raise typer.Exit(1)


def _render(out: Console, done: PrecomputeResult) -> None:
    from myxtts.data.store.columns import COLUMNS
    from myxtts.data.store.folder import readable_bytes

    def line(label: str, text: str) -> None:
        out.print(f"{label:<{_LABEL_WIDTH}}{text}")

    line("store", f"{done.version}{'' if done.published else ' (up to date)'}")
    line("clips", f"{done.clips:,} ({readable_bytes(done.size_bytes)})")
    for name, counts in done.columns.items():
        line(COLUMNS[name].plural, f"{counts.computed:,} computed, {counts.reused:,} reused")
    if done.audio_seconds:
        speed = done.audio_seconds / done.seconds
        line("audio", f"{duration_text(done.audio_seconds)} in {done.seconds:.1f} s, {speed:,.0f} × real time")
    missing = len(done.failed) + len(done.problems)
    if missing:
        line("left out", f"{missing:,}")
        for entry in done.failed:
            line("", f"{entry.id}: {entry.reason}")
        for problem in done.problems:
            line("", str(problem))
