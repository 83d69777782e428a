"""`myxtts precompute`: the features of a data set, computed once into its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from myxtts.cli import options
from myxtts.cli.output import duration_text, emit
from myxtts.cli.stage_progress import StageProgress
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.data.precompute import PrecomputeResult

_LABEL_WIDTH = 14


def precompute(
    data_path: options.DataPathOption = None,
    config: options.ConfigOption = None,
    preset: options.PresetOption = None,
    settings: options.SetOption = None,
    language: options.LanguageOption = None,
    preprocessing_mode: options.ModeOption = None,
    num_workers: options.NumWorkersOption = None,
    cache_dir: options.CacheDirOption = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Compute everything again, whatever exists.")
    ] = False,
    verify_source: Annotated[
        bool,
        typer.Option("--verify-source", help="Recognise audio files by their content, not by size and time."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="If another process builds this store: wait for it, or fail.")
    ] = True,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Compute the features of a data set into its store; only what is new or changed.

    Interrupted or killed, it continues where it stopped. Ends with 1 if a clip could not be computed;
    `--preprocessing-mode auto` leaves such clips out instead.

    Example: myxtts precompute --data-path ./data/ljspeech --num-workers 8
    """
    from myxtts.data.precompute import precompute as compute
    from myxtts.data.store.columns import columns_of

    data = options.load_config(
        config,
        preset,
        settings,
        data_path=data_path,
        language=language,
        preprocessing_mode=preprocessing_mode,
        num_workers=num_workers,
        cache_dir=cache_dir,
    ).config.data
    if preprocessing_mode == "runtime":
        raise UsageError("--preprocessing-mode runtime computes nothing ahead; leave it out, or use auto")
    with StageProgress() as progress:
        done = compute(
            data,
            overwrite=[column.name for column in columns_of(data)] if overwrite else (),
            verify_source=verify_source,
            wait=wait,
            progress=progress,
        )
    emit(done.to_dict(), as_json, lambda out: _render(out, done))
    if preprocessing_mode != "auto" and not done.complete:
        raise typer.Exit(1)


def _render(out: Console, done: PrecomputeResult) -> None:
    from myxtts.data.store.columns import COLUMNS
    from myxtts.data.store.folder import readable_bytes

    def line(label: str, text: str) -> None:
        out.print(f"{label:<{_LABEL_WIDTH}}{text}", markup=False)

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
