"""`myxtts precompute`: compute the features of a data set once, into its store."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli.options import ConfigOptions, command
from myxtts.cli.output import StageProgress, duration_text, emit
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.data.precompute import Precomputed

_LABEL_WIDTH = 14


@command("data_path", "language", "preprocessing_mode", "num_workers", "cache_dir", "config", "preset", "settings")
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
    from myxtts.data.precompute import precompute as compute

    data = given.load().config.data
    if given.preprocessing_mode == "runtime":
        raise UsageError("--preprocessing-mode runtime computes nothing ahead; leave it out, or use auto")
    with StageProgress() as progress:
        done = compute(
            data,
            overwrite=("mel", "token") if overwrite else (),
            verify_source=verify_source,
            wait=wait,
            progress=progress,
        )
    emit(to_dict(done), lambda out: _render(out, done))
    if given.preprocessing_mode != "auto" and not done.complete:
        raise typer.Exit(1)


def to_dict(done: Precomputed) -> dict[str, Any]:
    """What was done, as values for JSON."""
    values = asdict(done)
    values["store"] = str(values.pop("version"))
    values["problems"] = [str(problem) for problem in done.problems]
    return values


def _render(out: Console, done: Precomputed) -> None:
    from myxtts.data.building.free_space import readable_bytes

    def line(label: str, text: str) -> None:
        out.print(f"{label:<{_LABEL_WIDTH}}{text}", markup=False)

    line("store", f"{done.version}{'' if done.published else ' (up to date)'}")
    line("clips", f"{done.clips:,} ({readable_bytes(done.size_bytes)})")
    line("mels", f"{done.mels_computed:,} computed, {done.mels_reused:,} reused")
    line("tokens", f"{done.tokens_computed:,} computed, {done.tokens_reused:,} reused")
    if done.mels_computed:
        speed = done.audio_seconds / done.seconds
        line("audio", f"{duration_text(done.audio_seconds)} in {done.seconds:.1f} s, {speed:,.0f} × real time")
    missing = len(done.failed) + len(done.problems)
    if missing:
        line("left out", f"{missing:,}")
        for entry in done.failed:
            line("", f"{entry.id}: {entry.reason}")
        for problem in done.problems:
            line("", str(problem))
