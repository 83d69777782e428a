"""The manifest of a store in parts, which names the stores that it consists of.

Each part is a store like any other, with its own folder, versions, index and manifest. A store in parts adds a folder
of its own beside them, with a version of two files:

    manifest.json  the parts in order: where each is, the checksum of its manifest, its clips, its data set; the
                   settings of all; what a model remembers of the data set
    splits.bin     a byte for each clip, in order: its split

It has no features and no index. So parts are never copied or merged, a part that is repaired stays the same part, and
two stores in parts may share parts. `PartedStore` opens one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from myxtts.data.store.format import PARTS_FORMAT_VERSION, canonical_json, require
from myxtts.errors import StoreError

SPLITS_FILE = "splits.bin"
SPLIT_CODES = {"train": 0, "val": 1, "test": 2}


@dataclass(frozen=True)
class Part:
    """A part of a store.

    Attributes:
        store: folder of its store, relative to the folder of the store in parts, or absolute.
        manifest_checksum: xxh3-128 of its manifest file, hexadecimal.
        clips: how many.
        data_set: position in `PartsManifest.data_sets`.
    """

    store: str
    manifest_checksum: str
    clips: int
    data_set: int = 0


@dataclass(frozen=True)
class PartsManifest:
    """What a store in parts consists of.

    Attributes:
        fingerprint: hash of `settings`, the name of its folder.
        settings: everything that decides what the clips and their features are.
        data_sets: names of several data sets, which speakers and ids begin with; empty: one data set.
        parts: in the order of their clips.
        splits_checksum: xxh3-128 of splits.bin, hexadecimal.
        origin: what a model that is trained on the clips remembers of them (`Metadata.origin`).
    """

    fingerprint: str
    settings: Mapping[str, Mapping[str, Any]]
    data_sets: tuple[str, ...]
    parts: tuple[Part, ...]
    splits_checksum: str
    origin: Mapping[str, Any]

    def __post_init__(self) -> None:
        require(bool(self.parts), "list of parts")
        for part in self.parts:
            require(isinstance(part.store, str) and bool(part.store), "folder of a part")
            require(type(part.clips) is int and 0 <= part.clips < 2**62, f"number of clips: {part.clips!r}")
            require(0 <= part.data_set < max(1, len(self.data_sets)), f"data set of a part: {part.data_set!r}")

    @property
    def clips(self) -> int:
        return sum(part.clips for part in self.parts)

    def to_bytes(self) -> bytes:
        """The file: JSON with sorted keys whose `checksum` is the xxh3-128 of the rest, so written."""
        content = {"format": "myxtts-store", "format_version": PARTS_FORMAT_VERSION, **asdict(self)}
        return canonical_json(content | {"checksum": xxhash.xxh3_128_hexdigest(canonical_json(content))})

    @classmethod
    def from_bytes(cls, raw: bytes, path: Path) -> PartsManifest:
        """Reads a manifest; a single changed bit is found.

        Raises:
            StoreError: it is damaged.
        """
        try:
            content = json.loads(raw)
            stated = content.pop("checksum")
            if stated != xxhash.xxh3_128_hexdigest(canonical_json(content)):
                raise ValueError("checksum")
            if canonical_json(content | {"checksum": stated}) != raw:
                raise ValueError("form")
            del content["format"], content["format_version"]
            parts = tuple(Part(**entry) for entry in content.pop("parts"))
            return cls(**content | {"data_sets": tuple(content["data_sets"])}, parts=parts)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StoreError(f"{path}: the manifest is damaged; `myxtts precompute` writes it again") from None


def is_parts_manifest(raw: bytes) -> bool:
    """Whether a manifest file is that of a store in parts, damaged or not."""
    try:
        content = json.loads(raw)
        return content["format"] == "myxtts-store" and content["format_version"] == PARTS_FORMAT_VERSION
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
