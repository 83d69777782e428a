"""`myxtts precompute`: compute the features of a data set once, into its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from myxtts.cli.options import ConfigOptions, command
from myxtts.cli.output import PRIVATE_NETWORK, StageProgress, duration_text, emit, say
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.data.precompute import PrecomputeResult, ShardResult

_LABEL_WIDTH = 14
_MANY = "Many machines"


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
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER/COUNT",
            help="Compute one of COUNT blocks of clips beside the store, e.g. 2/8; then run without it.",
            rich_help_panel=_MANY,
        ),
    ] = None,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="Compute in shards on Ray: on this machine, or on the cluster at ADDRESS.",
            rich_help_panel=_MANY,
        ),
    ] = False,
    address: Annotated[
        str | None,
        typer.Argument(help="Of a Ray cluster, with --ray: host:port, or auto.", rich_help_panel=_MANY),
    ] = None,
) -> None:
    """Compute the features of a data set into its store; only what is new or changed.

    If it is interrupted or killed, run it again: it continues where it stopped. The exit code is 1 if a clip could
    not be computed; with `--preprocessing-mode auto` such clips are left out instead.

    On many machines that share the folder: `--shard 1/8` to `--shard 8/8`, then without `--shard`; or `--ray`.

    Example: myxtts precompute --data-path ./data/ljspeech --num-workers 8
    """
    from myxtts.data.clips.metadata import read_metadata
    from myxtts.data.precompute import Shard, precompute_shard
    from myxtts.data.precompute import precompute as compute
    from myxtts.data.store.columns import columns_of

    data = given.load().config.data
    if given.preprocessing_mode == "runtime":
        raise UsageError("--preprocessing-mode runtime computes nothing ahead; leave it out, or use auto")
    if (shard is not None or ray) and (overwrite or verify_source):
        raise UsageError("shards compute what is missing; --overwrite and --verify-source work without them")
    if shard is not None and ray:
        raise UsageError("--ray makes the shards itself; leave out --shard")
    if address is not None and not ray:
        raise UsageError(f"{address}: an address is only for --ray")
    chosen = None if shard is None else Shard.parse(shard)
    metadata = read_metadata(data)
    say(f"layout {metadata.layout}")
    if chosen is not None:
        with StageProgress() as progress:
            part = precompute_shard(data, chosen, metadata, wait=wait, progress=progress)
        emit(part.to_dict(), lambda out: _render_shard(out, part))
        return
    if ray:
        from myxtts.data.ray_shards import compute_shards

        say("Ray on this machine" if address is None else f"Ray at {address}: {PRIVATE_NETWORK}")
        with StageProgress() as progress:
            given_up = compute_shards(data, metadata, address, progress)
        for line in given_up:
            say(f"{line}; what it lacks is computed here")
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


def _render_shard(out: Console, done: ShardResult) -> None:
    from myxtts.data.store.columns import COLUMNS

    if done.folder is None:
        out.print(f"{'shard':<{_LABEL_WIDTH}}{done.shard} (the store is up to date)")
        return
    out.print(f"{'shard':<{_LABEL_WIDTH}}{done.shard} in {done.folder}")
    out.print(f"{'clips':<{_LABEL_WIDTH}}{done.clips:,} in {done.seconds:.1f} s")
    for name, count in done.columns.items():
        out.print(f"{COLUMNS[name].plural:<{_LABEL_WIDTH}}{count:,}")
    for entry in done.failed:
        out.print(f"{'':<{_LABEL_WIDTH}}{entry.id}: {entry.reason}")
    out.print(f"{'next':<{_LABEL_WIDTH}}the same command without --shard, when all shards are done")


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
