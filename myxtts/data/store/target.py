"""Which store a configuration asks for, where it is or would be, and what it can reuse of other stores.

A store is known by its settings: everything that changes its bytes, in sections. Each column has one, which it is
computed with; a store whose section equals that of another can reuse its column. `data` is which clips there are,
so that a subset of a data set, or another data set in the same cache folder, has a store of its own and does not
replace this one. The hash of all of them, the fingerprint, names the store's folder.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import metadata_sets
from myxtts.data.store.columns import ColumnEntry, columns_of
from myxtts.data.store.feature_store import FeatureStore
from myxtts.data.store.folder import StoreFolder, existing_parent
from myxtts.data.store.format import FIRST_FORMAT_VERSION, MANIFEST_FILE, PARTS_FORMAT_VERSION, Column
from myxtts.data.store.records import ReusableClips, index_records
from myxtts.data.store.verify import Examination, examine
from myxtts.errors import StoreError

logger = logging.getLogger(__name__)

FOLDER_IN_DATA_SET = "cached_features"

Settings = Mapping[str, Mapping[str, Any]]
PartNumber = tuple[int, int]  # which block of the data set's clips, from 0, and the most clips of a block


@dataclass(frozen=True)
class Target:
    """The store of a configuration in one cache folder.

    Attributes:
        folder: the store's folder in it, which need not exist.
        settings: what its features are made with.
        entries: its columns, in the order in which they are built.
        columns: how each lies in its data file.
    """

    folder: StoreFolder
    settings: Settings
    entries: tuple[ColumnEntry, ...]
    columns: tuple[Column, ...]

    @classmethod
    def candidates(cls, config: DataConfig, part: PartNumber | None = None) -> list[Target]:
        """One target per cache folder, the preferred one first; for the whole data set, or a part of its clips."""
        entries = tuple(columns_of(config))
        columns = tuple(entry.layout(config) for entry in entries)
        found = []
        for cache, root in cache_folders(config):
            settings = settings_of(config, entries, root, part)
            found.append(cls(StoreFolder(cache / fingerprint(settings)), settings, entries, columns))
        return found

    @property
    def cache(self) -> Path:
        """The cache folder."""
        return self.folder.path.parent

    def writable(self) -> bool:
        """Whether a store could be built here, as far as permissions tell."""
        folder = existing_parent(self.cache)
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK, effective_ids=True)

    def siblings(self) -> Iterator[Path]:
        """The current versions of the other stores in the cache folder that may have the same clips."""
        try:
            folders = sorted(path for path in self.cache.iterdir() if path != self.folder.path)
        except OSError:
            return
        for path in folders:
            version = StoreFolder(path).current()
            if version is not None and self._may_share(version):
                yield version

    def _may_share(self, version: Path) -> bool:
        """Whether a version has features, and is not of other clips of the same data set."""
        try:
            content = json.loads((version / MANIFEST_FILE).read_bytes())
            if content["format_version"] == PARTS_FORMAT_VERSION:
                return False
            part = content["settings"]["data"].get("part")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return True  # opening it says what is wrong
        own = self.settings["data"].get("part")
        return own is None or part in (None, own)


@dataclass
class ReusableColumns:
    """What a build may reuse. The versions stay open, so that nobody removes them meanwhile.

    Attributes:
        by_column: clips with the same settings, by name of the column.
        trusted: false if some come from a damaged version: then clips are recognised by content only.
    """

    by_column: dict[str, list[ReusableClips]]
    trusted: bool = True
    _opened: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """Closes the versions."""
        self._opened.close()

    @classmethod
    def of_examination(cls, examination: Examination, target: Target) -> ReusableColumns:
        """What is left of a version that was checked byte by byte."""
        found = {}
        for entry, column in zip(target.entries, target.columns, strict=True):
            one = examination.reusable(column, entry.source)
            found[entry.name] = [] if one is None else [one]
        return cls(found, examination.trusted)

    @classmethod
    def of_target(cls, target: Target, config: DataConfig, workers: int) -> ReusableColumns:
        """The store's own versions, the newest first, then the other stores of the data set.

        Raises:
            StoreError: the store does not exist yet, others do, and the configuration forbids to rebuild what they
                do not have.
            NewerStoreError: a newer MyXTTS made the store.
        """
        reusable = cls({entry.name: [] for entry in target.entries})
        for version in target.folder.versions():
            store = reusable._open(version)
            if store is not None:
                reusable._add(store, target)
            elif version == target.folder.current():
                reusable._add_examined(examine(version, target.columns, workers), target)
        others = []
        for version in target.siblings():
            store = reusable._open(version)
            if store is not None and store.manifest.settings["data"]["root"] == target.settings["data"]["root"]:
                reusable._add(store, target)
                others.append(store.manifest.settings)
        if not target.folder.versions():
            _refuse_unwanted_rebuild(target, config, others)
        return reusable

    def _open(self, version: Path) -> FeatureStore | None:
        try:
            return self._opened.enter_context(FeatureStore.open(version))
        except StoreError as error:
            logger.debug("%s cannot be used: %s", version, error)
            return None

    def _add(self, store: FeatureStore, target: Target) -> None:
        made_with, stored = store.manifest.settings, set(store.manifest.rows)
        for entry, column in zip(target.entries, target.columns, strict=True):
            if entry.name in stored and made_with.get(entry.section) == target.settings[entry.section]:
                records = index_records(column.name, entry.source, store.index)
                self.by_column[entry.name].append(ReusableClips(store.path / column.file, records, whole=True))

    def _add_examined(self, examination: Examination, target: Target) -> None:
        logger.warning("%s: %s; what is intact is reused", examination.version, examination.damage[0].reason)
        rest = ReusableColumns.of_examination(examination, target)
        for name, reusable in rest.by_column.items():
            self.by_column[name] += reusable
        self.trusted = self.trusted and rest.trusted


def cache_folders(config: DataConfig) -> list[tuple[Path, str | None]]:
    """Where a store may be, the preferred place first; and the data set's folder where data sets share the place.

    `cache_dir` if it is set. Otherwise `cached_features` in the data set's folder, and the user's cache folder for
    data sets that cannot be written to.
    """
    root = os.path.realpath(config.dataset_folder)
    if config.cache_dir is not None:
        return [(Path(os.path.abspath(os.path.expanduser(config.cache_dir))), root)]
    return [
        (Path(os.path.abspath(config.dataset_folder)) / FOLDER_IN_DATA_SET, None),
        (user_cache_folder(FOLDER_IN_DATA_SET), root),
    ]


def user_cache_folder(name: str) -> Path:
    """`$XDG_CACHE_HOME/myxtts/NAME`, with `~/.cache` where the variable is not set."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "myxtts" / name


def settings_of(
    config: DataConfig, entries: Sequence[ColumnEntry], root: str | None, part: PartNumber | None = None
) -> Settings:
    """The settings of the store that a configuration asks for. `root` is the data set's folder if the store lies
    outside of it; a store inside moves with its data set."""
    settings = {entry.section: entry.fingerprint(config) for entry in entries}
    settings["data"] = {"root": root, "sets": metadata_sets(config)}
    if part is not None:
        settings["data"]["part"] = part
    if config.data_layout != "auto":
        settings["data"]["layout"] = config.data_layout
    return json.loads(json.dumps(settings))  # as a manifest gives them back


def fingerprint(settings: Settings) -> str:
    """The hash of settings, which names the folder of their store: 16 hexadecimal digits."""
    content = json.dumps([FIRST_FORMAT_VERSION, settings], sort_keys=True, ensure_ascii=False)
    return xxhash.xxh3_64_hexdigest(content.encode("utf-8"))


def store_folders(config: DataConfig) -> list[StoreFolder]:
    """Where the store of a configuration is or would be, in parts or not, the preferred place first."""
    if config.in_parts:
        return [StoreFolder(cache / fingerprint(settings)) for cache, settings in parts_candidates(config)]
    return [target.folder for target in Target.candidates(config)]


def parts_candidates(config: DataConfig) -> list[tuple[Path, Settings]]:
    """Where the manifest of a store in parts may be, the preferred place first: a cache folder of the first data set;
    and its settings there: what the clips are, of which splits, and what their features are made with."""
    members = config.for_each_data_set()
    entries = columns_of(config)
    found: list[tuple[Path, Settings]] = []
    for cache, root in cache_folders(members[0]):
        roots = [root] if len(members) == 1 else [os.path.realpath(path) for path in config.dataset_paths]
        data_sets = [settings_of(one, entries, place) for one, place in zip(members, roots, strict=True)]
        settings = dict(data_sets[0]) | {
            "data": {
                "data_sets": [one["data"] for one in data_sets],
                "max_clips_per_part": config.max_clips_per_part,
                "splits": [config.train_split, config.val_split, config.split_seed],
            }
        }
        found.append((cache, settings))
    return found


def _refuse_unwanted_rebuild(target: Target, config: DataConfig, others: list[Settings]) -> None:
    for entry in target.entries:
        made_with = [settings[entry.section] for settings in others if entry.section in settings]
        # Against the store that needs the fewest; none if a store has the same settings.
        wanted = target.settings[entry.section]
        changed = min((_changes(settings, wanted) for settings in made_with), key=len, default=[])
        if changed and entry.rebuild_key is not None and not getattr(config, entry.rebuild_key):
            raise StoreError(
                f"{target.cache}: the stored {entry.plural} were made with other settings, "
                f"and {entry.rebuild_key} is false:\n{'; '.join(changed)}\n"
                f"set {entry.rebuild_key} to true to compute them again, or set these back"
            )


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs, a text for each setting."""
    changed = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    return [f"{name}: {_shown(old.get(name))} → {_shown(new.get(name))}" for name in changed]


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
