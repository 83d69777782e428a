"""Which store a configuration asks for, where it is or would be, and what other stores could give it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.building.cache_location import CacheFolder, cache_folders
from myxtts.data.building.column import Reusable
from myxtts.data.building.fingerprint import Change, Settings, fingerprint, nearest, settings_of
from myxtts.data.store import FeatureStore
from myxtts.data.store_folder import StoreFolder
from myxtts.data.verify import Examination, Layout, examine
from myxtts.errors import StoreError
from myxtts.text import TextSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    """The store of a configuration in one cache folder.

    Attributes:
        cache: the cache folder.
        folder: the store's folder in it, which need not exist.
        settings: what its features are made with.
        layout: how its data files are laid out.
    """

    cache: CacheFolder
    folder: StoreFolder
    settings: Settings
    layout: Layout

    @classmethod
    def candidates(cls, config: DataConfig, mel: MelSettings, text: TextSettings) -> list[Target]:
        """One target per cache folder, the preferred one first."""
        layout = Layout.of(mel.n_mels, config.mel_dtype, mel.padding_value)
        found = []
        for cache in cache_folders(config):
            settings = settings_of(config, mel, text, cache.root)
            folder = StoreFolder(cache.path / fingerprint(settings))
            found.append(cls(cache, folder, settings, layout))
        return found

    def siblings(self) -> Iterator[Path]:
        """The current versions of the other stores in the cache folder."""
        try:
            folders = sorted(path for path in self.cache.path.iterdir() if path != self.folder.path)
        except OSError:
            return
        for path in folders:
            version = StoreFolder(path).current()
            if version is not None:
                yield version


@dataclass
class Sources:
    """What a build may take over. The versions stay open, so that nobody removes them meanwhile.

    Attributes:
        mel: clips with the same audio settings.
        token: clips with the same text settings.
        trusted: false if some come from a damaged version: then clips are recognised by content only.
    """

    mel: list[Reusable] = field(default_factory=list)
    token: list[Reusable] = field(default_factory=list)
    trusted: bool = True
    _opened: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """Lets the versions go."""
        self._opened.close()

    @classmethod
    def of_examination(cls, examination: Examination, layout: Layout) -> Sources:
        """What is left of a version that was checked byte by byte."""
        found = [examination.reusable(column) for column in layout.columns]
        mel, token = ([one] if one is not None else [] for one in found)
        return cls(mel, token, examination.trusted)

    @classmethod
    def of_target(cls, target: Target, config: DataConfig, workers: int) -> Sources:
        """The store's own versions, the newest first, then the other stores of the data set.

        Raises:
            StoreError: the store does not exist yet, others do, and the configuration forbids to rebuild what they
                do not have.
            NewerStoreError: a newer MyXTTS made the store.
        """
        sources = cls()
        for version in target.folder.versions():
            store = sources._open(version)
            if store is not None:
                sources._add(store, target.layout, target.settings)
            elif version == target.folder.current():
                sources._add_examined(examine(version, target.layout, workers), target.layout)
        others = []
        for version in target.siblings():
            store = sources._open(version)
            if store is not None and store.manifest.settings["data"]["root"] == target.cache.root:
                sources._add(store, target.layout, target.settings)
                others.append(store.manifest.settings)
        if not target.folder.versions():
            _refuse_unwanted_rebuild(target, config, others)
        return sources

    def _open(self, version: Path) -> FeatureStore | None:
        try:
            return self._opened.enter_context(FeatureStore.open(version))
        except StoreError as error:
            logger.debug("%s cannot be used: %s", version, error)
            return None

    def _add(self, store: FeatureStore, layout: Layout, wanted: Settings) -> None:
        made_with = store.manifest.settings
        if made_with["mel"] == wanted["mel"]:
            self.mel.append(Reusable.from_version(layout.mel, store.path, store.index))
        if made_with["text"] == wanted["text"]:
            self.token.append(Reusable.from_version(layout.token, store.path, store.index))

    def _add_examined(self, examination: Examination, layout: Layout) -> None:
        logger.warning("%s: %s; what is intact is taken over", examination.version, examination.damage[0].reason)
        rest = Sources.of_examination(examination, layout)
        self.mel += rest.mel
        self.token += rest.token
        self.trusted = self.trusted and rest.trusted


def store_folders(config: DataConfig) -> list[StoreFolder]:
    """Where the store of a configuration is or would be, the preferred place first."""
    mel, text = MelSettings.from_config(config), TextSettings.from_config(config)
    return [target.folder for target in Target.candidates(config, mel, text)]


def _refuse_unwanted_rebuild(target: Target, config: DataConfig, others: list[Settings]) -> None:
    for section, what, key, allowed in (
        ("mel", "mels", "auto_rebuild_mel_cache", config.auto_rebuild_mel_cache),
        ("text", "tokens", "auto_rebuild_token_cache", config.auto_rebuild_token_cache),
    ):
        changed = nearest(others, target.settings, section)
        if changed and not allowed:
            raise StoreError(_unwanted(target, what, key, changed))


def _unwanted(target: Target, what: str, key: str, changed: list[Change]) -> str:
    return (
        f"{target.cache.path}: the stored {what} were made with other settings, and {key} is false:\n"
        f"{'; '.join(map(str, changed))}\n"
        f"set {key} to true to compute them again, or set these back"
    )
