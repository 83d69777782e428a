"""Finds the store of a configuration and checks it; mends it on request."""

from __future__ import annotations

from dataclasses import dataclass, replace

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.building.store_target import Target
from myxtts.data.precompute import Precomputed, Progress, Silent, repair
from myxtts.data.store import POINTER_FILE
from myxtts.data.verify import Damage, Examination, examine, quick_check
from myxtts.errors import StoreError
from myxtts.text import TextSettings


@dataclass(frozen=True)
class Checked:
    """The state of a store.

    Attributes:
        target: where it is.
        examination: what was found.
        repaired: the new version that was made, or None.
    """

    target: Target
    examination: Examination
    repaired: Precomputed | None = None


def check_store(
    config: DataConfig,
    *,
    quick: bool = False,
    fix: bool = False,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> Checked:
    """Checks the store that a configuration asks for.

    Args:
        config: the data set, its audio and text settings, where the store is.
        quick: only sizes, index and manifest; otherwise every byte.
        fix: make a new version if anything is damaged, computing only what is.
        num_workers: threads that check and processes that compute; none: as configured.
        progress: watches both.

    Raises:
        StoreError: there is no store, or it cannot be mended.
    """
    watcher = progress or Silent()
    workers = num_workers or config.workers
    target = _find(config)
    versions = target.folder.versions()
    current = target.folder.current()
    version = current or versions[0]
    examination = quick_check(version)
    if current is None:
        path = target.folder.path / POINTER_FILE
        examination.damage.append(Damage(POINTER_FILE, f"{path}: names no version of the store"))
    if not quick or (fix and not examination.sound):
        watcher.stage("checking", 2 * examination.clips)
        found = examine(version, target.layout, workers, watcher.advance)
        pointer = [damage for damage in examination.damage if damage.file == POINTER_FILE]
        examination = replace(found, damage=pointer + found.damage)
    if not fix or examination.sound:
        return Checked(target, examination)
    mended = repair(config, target, examination, num_workers=num_workers, progress=progress)
    return Checked(target, examination, mended)


def _find(config: DataConfig) -> Target:
    targets = Target.candidates(config, MelSettings.from_config(config), TextSettings.from_config(config))
    for target in targets:
        if target.folder.versions():
            return target
    places = " or ".join(str(target.cache.path) for target in targets)
    raise StoreError(f"{places}: no store with these settings; `myxtts precompute` makes one")
