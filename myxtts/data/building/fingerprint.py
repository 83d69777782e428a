"""What a store was made with: every setting that changes its bytes, and what differs between two stores.

The settings are in three sections. `mel` and `text` are what features are computed with; a store whose sections
equal those of another can take its features over. `data` is which clips there are, so that a subset of a data set,
or another data set in the same cache folder, has a store of its own and does not replace this one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.metadata import DEFAULT_METADATA_FILE
from myxtts.data.store_format import FORMAT_VERSION
from myxtts.text import TextSettings

Settings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Change:
    """A setting that two stores do not share."""

    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self.old)} → {_shown(self.new)}"


def settings_of(config: DataConfig, mel: MelSettings, text: TextSettings, root: str | None) -> Settings:
    """The settings of the store that a configuration asks for.

    Args:
        config: where the metadata and the audio are, the stored type.
        mel: audio settings.
        text: text settings.
        root: the data set's folder, if the store lies outside of it; a store inside moves with its data set.
    """
    if config.metadata_train_file is not None and config.metadata_eval_file is not None:
        sets = [
            [config.metadata_train_file, config.wavs_train_dir or config.wavs_dir],
            [config.metadata_eval_file, config.wavs_eval_dir or config.wavs_dir],
        ]
    else:
        sets = [[config.metadata_file or DEFAULT_METADATA_FILE, config.wavs_dir]]
    settings = {
        "mel": {**mel.fingerprint(), "mel_dtype": config.mel_dtype},
        "text": text.fingerprint(),
        "data": {"root": root, "sets": sets},
    }
    return json.loads(json.dumps(settings))  # as a manifest gives them back


def fingerprint(settings: Settings) -> str:
    """The hash of settings, which names the folder of their store: 16 hexadecimal digits."""
    content = json.dumps([FORMAT_VERSION, settings], sort_keys=True, ensure_ascii=False)
    return xxhash.xxh3_64_hexdigest(content.encode("utf-8"))


def changes(old: Settings, new: Settings, section: str) -> list[Change]:
    """What differs in one section."""
    before, after = old.get(section, {}), new.get(section, {})
    names = sorted(before.keys() | after.keys())
    return [Change(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def nearest(stores: Sequence[Settings], wanted: Settings, section: str) -> list[Change]:
    """The changes of a section against the store that needs the fewest; none if a store has the same."""
    return min((changes(settings, wanted, section) for settings in stores), key=len, default=[])


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
