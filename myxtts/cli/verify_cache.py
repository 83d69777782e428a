"""`myxtts verify-cache`: find damage in the store of a data set, and repair it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli.options import ConfigOptions, command
from myxtts.cli.output import StageProgress, emit

if TYPE_CHECKING:
    from myxtts.data.precompute import StoreCheck


@command("data_path", "data_layout", "language", "num_workers", "cache_dir", "config", "preset", "settings")
def verify_cache(
    given: ConfigOptions,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check only sizes, index and manifest, not every byte.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Compute damaged clips again, into a new version of the store.")
    ] = False,
) -> None:
    """Check the store of a data set, and list each damaged clip.

    The exit code is 1 if anything is damaged and `--fix` has not repaired it.

    Example: myxtts verify-cache --data-path ./data/ljspeech --fix
    """
    from myxtts.data.precompute import check_store

    data = given.load().config.data
    with StageProgress() as progress:
        checked = check_store(data, quick=quick, fix=fix, progress=progress)
    emit(_to_dict(checked, quick), lambda out: _render(out, checked, quick))
    if not checked.examination.sound and checked.repair is None:
        raise typer.Exit(1)


def _to_dict(checked: StoreCheck, quick: bool) -> dict[str, Any]:
    examination = checked.examination
    return {
        "store": str(examination.version),
        "check": "quick" if quick else "full",
        "clips": examination.clips,
        "damaged": [asdict(damage) for damage in examination.damage],
        "repaired": None if checked.repair is None else checked.repair.to_dict(),
    }


def _render(out: Console, checked: StoreCheck, quick: bool) -> None:
    from myxtts.data.store.columns import COLUMNS

    examination = checked.examination
    what = "sizes, index and manifest" if quick else "every byte"
    verdict = "no damage" if examination.sound else f"{len(examination.damage):,} damaged"
    out.print(f"{examination.version}: {examination.clips:,} clips, {what}: {verdict}")
    for damage in examination.damage:
        out.print(f"  {damage}")
    if checked.repair is not None:
        done = checked.repair
        counts = [f"{counts.computed:,} {COLUMNS[name].plural}" for name, counts in done.columns.items()]
        out.print(f"repaired in {done.version}: {' and '.join(counts)} computed again")
    elif not examination.sound:
        out.print("--fix computes the damaged clips again")
