"""`myxtts verify-cache`: is the store of a data set as it was written, and if not, what is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli import options
from myxtts.cli.output import emit
from myxtts.cli.stage_progress import StageProgress

if TYPE_CHECKING:
    from myxtts.data.precompute import StoreCheck


def verify_cache(
    data_path: options.DataPathOption = None,
    config: options.ConfigOption = None,
    preset: options.PresetOption = None,
    settings: options.SetOption = None,
    language: options.LanguageOption = None,
    num_workers: options.NumWorkersOption = None,
    cache_dir: options.CacheDirOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only sizes, index and manifest; otherwise every byte.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Compute what is damaged again, into a new version of the store.")
    ] = False,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Check the store of a data set, and list each damaged clip.

    Ends with 1 if anything is damaged, unless `--fix` has repaired it.

    Example: myxtts verify-cache --data-path ./data/ljspeech --fix
    """
    from myxtts.data.precompute import check_store

    data = options.load_config(
        config,
        preset,
        settings,
        data_path=data_path,
        language=language,
        num_workers=num_workers,
        cache_dir=cache_dir,
    ).config.data
    with StageProgress() as progress:
        checked = check_store(data, quick=quick, fix=fix, progress=progress)
    emit(_to_dict(checked, quick), as_json, lambda out: _render(out, checked, quick))
    if not checked.examination.sound and checked.repair is None:
        raise typer.Exit(1)


def _to_dict(checked: StoreCheck, quick: bool) -> dict[str, Any]:
    examination = checked.examination
    return {
        "store": str(examination.version),
        "check": "quick" if quick else "full",
        "clips": examination.clips,
        "damaged": [
            {"file": damage.file, "clip": damage.clip, "reason": damage.reason} for damage in examination.damage
        ],
        "repaired": None if checked.repair is None else checked.repair.to_dict(),
    }


def _render(out: Console, checked: StoreCheck, quick: bool) -> None:
    from myxtts.data.store.columns import COLUMNS

    examination = checked.examination
    what = "sizes, index and manifest" if quick else "every byte"
    verdict = "sound" if examination.sound else f"{len(examination.damage):,} damaged"
    out.print(f"{examination.version}: {examination.clips:,} clips, {what}: {verdict}", markup=False)
    for damage in examination.damage:
        out.print(f"  {damage}", markup=False)
    if checked.repair is not None:
        done = checked.repair
        counts = [f"{counts.computed:,} {COLUMNS[name].plural}" for name, counts in done.columns.items()]
        out.print(f"repaired in {done.version}: {' and '.join(counts)} computed again", markup=False)
    elif not examination.sound:
        out.print("--fix computes them again", markup=False)
