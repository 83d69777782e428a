"""Opens a store in parts: the stores that its manifest names, as one.

The features of all parts are mapped side by side, so a gather takes rows of any of them. What grows with the clips is
read part by part when somebody asks for it: opening looks at the manifests and the sizes of files only, and `select`
gives some of the parts as a store, with the row numbers of features that they have in the whole.
"""

from __future__ import annotations

import resource
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

import numpy as np
import xxhash

from myxtts.data.store.columns import AUDIO_COLUMN
from myxtts.data.store.feature_store import FeatureStore, Verify, hold_version, read_index, resolve_version
from myxtts.data.store.format import INDEX_FILE, MANIFEST_FILE, MEL_FILE, Column, FailedClip, Manifest, check_sizes
from myxtts.data.store.index import Ids, Index
from myxtts.data.store.parts import SPLITS_FILE, PartsManifest
from myxtts.data.store.side_by_side import first_rows, map_side_by_side
from myxtts.errors import StoreError

_KEPT_INDEXES = 64  # parts
_SPARE_FILES = 256


@dataclass(frozen=True, eq=False)
class _OpenPart:
    """A part whose version is held. `speakers` and `languages` are int32, the numbers of its names in the whole."""

    version: Path
    manifest: Manifest
    hold: IO[bytes]
    data_set: int
    name: str
    speakers: np.ndarray
    languages: np.ndarray

    def in_whole(self, name: str) -> str:
        """A clip's id or a speaker, as the whole store calls it."""
        return f"{self.name}/{name}" if self.name else name


class _Parts:
    """What a store in parts and its selections share."""

    def __init__(self, version: Path, manifest: PartsManifest, verify: Verify, memory_map: bool) -> None:
        self.version = version
        self.manifest = manifest
        self.verify: Verify = verify
        self.memory_map = memory_map
        self.parts: list[_OpenPart] = []
        self.first_clip = [0, *accumulate(part.clips for part in manifest.parts)]
        self._indexes: OrderedDict[int, Index] = OrderedDict()
        self._lock = threading.Lock()
        speakers: dict[str, int] = {}
        languages: dict[str, int] = {}
        _allow_open_files(len(manifest.parts) + _SPARE_FILES)
        try:
            for number in range(len(manifest.parts)):
                self.parts.append(self._open(number, speakers, languages))
        except BaseException:
            self.close()
            raise
        self.speakers, self.languages = tuple(speakers), tuple(languages)
        self.splits = self._map_splits()

    def _open(self, number: int, speakers: dict[str, int], languages: dict[str, int]) -> _OpenPart:
        part, names = self.manifest.parts[number], self.manifest.data_sets
        folder = self.version.parent / part.store
        try:
            version = resolve_version(folder)
            hold = hold_version(version)
        except (StoreError, OSError):
            raise _changed(self.version, folder, "is gone") from None
        raw = hold.read()
        if xxhash.xxh3_128_hexdigest(raw) != part.manifest_checksum:
            hold.close()
            raise _changed(self.version, folder, "is another than it was")
        manifest = Manifest.from_bytes(raw, version / MANIFEST_FILE)
        if manifest.clips != part.clips or (self.parts and manifest.columns != self.parts[0].manifest.columns):
            hold.close()
            raise StoreError(f"{folder}: does not fit the other parts of {self.version}; run `myxtts precompute`")
        check_sizes(version, manifest)
        name = names[part.data_set] if names else ""
        own = [f"{name}/{speaker}" if name else speaker for speaker in manifest.speakers]
        return _OpenPart(
            version=version,
            manifest=manifest,
            hold=hold,
            data_set=part.data_set,
            name=name,
            speakers=np.array([speakers.setdefault(one, len(speakers)) for one in own], np.int32),
            languages=np.array([languages.setdefault(one, len(languages)) for one in manifest.languages], np.int32),
        )

    def _map_splits(self) -> np.ndarray:
        path = self.version / SPLITS_FILE
        splits = map_side_by_side([path], [0], max(1, self.manifest.clips), self.memory_map)
        if path.stat().st_size != self.manifest.clips or (
            self.verify == "quick" and xxhash.xxh3_128_hexdigest(splits.data) != self.manifest.splits_checksum
        ):
            raise StoreError(f"{path}: is damaged; `myxtts precompute` writes it again")
        return splits

    def index(self, number: int) -> Index:
        """The index of a part, read when it is first asked for; the last few are kept."""
        with self._lock:
            if number not in self._indexes:
                part = self.parts[number]
                self._indexes[number] = read_index(part.version, part.manifest, self.verify, self.memory_map)
                if len(self._indexes) > _KEPT_INDEXES:
                    self._indexes.popitem(last=False)
            self._indexes.move_to_end(number)
            return self._indexes[number]

    def first_rows(self, name: str) -> list[int]:
        """The first row of each part in a column of the whole, and behind them the number of all rows."""
        if name == AUDIO_COLUMN:
            # A clip's first sample is in row `hop_length · mel_offset`, in the whole as in each part.
            hop = int(self.manifest.settings["mel"]["hop_length"])
            begins = [hop * begin for begin in self.first_rows("mel")[:-1]]
            return [*begins, begins[-1] + self.parts[-1].manifest.rows[name]]
        return first_rows([part.manifest.rows[name] for part in self.parts])

    def close(self) -> None:
        for part in self.parts:
            part.hold.close()


class PartedStore(FeatureStore):
    """A store in parts, or some of its parts; in everything else a store like any other.

    Attributes:
        parts: numbers of the parts that are meant.
    """

    def __init__(self, shared: _Parts, parts: Sequence[int], hold: IO[bytes] | None) -> None:
        self.path = shared.version
        self.parts = tuple(parts)
        self.memory_map = shared.memory_map
        self._shared = shared
        self._hold = hold
        self._data = {}
        self.index = Index(_JoinedColumns(shared, self.parts), np.zeros(0, np.uint8))
        self.manifest = self._whole_manifest()

    def _whole_manifest(self) -> Manifest:
        """As that of a single store with the clips of these parts and the rows of all."""
        shared = self._shared
        first = shared.parts[0].manifest
        rows = {column.name: shared.first_rows(column.name)[-1] for column in first.columns}
        return replace(
            first,
            fingerprint=shared.manifest.fingerprint,
            settings=shared.manifest.settings,
            clips=sum(shared.parts[number].manifest.clips for number in self.parts),
            mel_rows=rows["mel"],
            token_count=rows["token"],
            index_checksum="",
            speakers=shared.speakers,
            languages=shared.languages,
            failed=tuple(self._failed()),
            optional_columns=tuple(replace(one, rows=rows[one.name]) for one in first.optional_columns),
        )

    def _failed(self) -> Iterator[FailedClip]:
        for number in self.parts:
            part = self._shared.parts[number]
            yield from (replace(entry, id=part.in_whole(entry.id)) for entry in part.manifest.failed)

    def select(self, parts: Sequence[int]) -> PartedStore:
        """Some of the parts, by number; clip 0 is the first clip of the first of them. It is open as long as this."""
        selected = PartedStore(self._shared, parts, None)
        for name in ("mel", "token"):
            selected._data[name] = self.data(name)
        return selected

    @property
    def parts_manifest(self) -> PartsManifest:
        return self._shared.manifest

    @cached_property
    def ids(self) -> Sequence[str]:
        return _JoinedIds(self._shared, self.parts)

    @property
    def size_bytes(self) -> int:
        parts = [self._shared.parts[number] for number in self.parts]
        indexes = [INDEX_FILE, *(one.column.index_file for one in self.manifest.optional_columns)]
        return sum(
            sum(part.manifest.data_bytes.values()) + sum((part.version / name).stat().st_size for name in indexes)
            for part in parts
        )

    def clips_of_parts(self) -> list[int]:
        """How many clips each of the parts has."""
        return [self._shared.parts[number].manifest.clips for number in self.parts]

    def rows_in_whole(self) -> np.ndarray:
        """What the clips are called in the whole store, int64 [N]."""
        return self._of_clips(lambda number: np.arange(*self._shared.first_clip[number : number + 2]), np.int64)

    def split_codes(self) -> np.ndarray:
        """The split of each clip, as in `parts.SPLIT_CODES`, uint8 [N]."""
        return self._of_clips(self._split_codes_of, np.uint8)

    def has_split(self, code: int) -> bool:
        """Whether any clip is in a split; looks no further than to the first part that has one."""
        return any(code in self._split_codes_of(number) for number in self.parts)

    def _split_codes_of(self, number: int) -> np.ndarray:
        first, last = self._shared.first_clip[number : number + 2]
        return self._shared.splits[first:last]

    def data_sets(self) -> np.ndarray:
        """The number of each clip's data set, int64 [N]."""
        counts = self.clips_of_parts()
        return np.repeat([self._shared.parts[number].data_set for number in self.parts], counts).astype(np.int64)

    def mel_place(self, row: int) -> tuple[Path, int, int]:
        """The file of a clip's mel, and its first row and its rows there."""
        number, first, length = self._mel_of(row)
        part = self._shared.parts[number]
        return part.version / MEL_FILE, first, length

    def mel_span(self, row: int) -> tuple[int, int]:
        """The first row of a clip's mel among the rows of all parts, and its rows."""
        number, first, length = self._mel_of(row)
        return self._shared.first_rows("mel")[number] + first, length

    def _mel_of(self, row: int) -> tuple[int, int, int]:
        """The part of a clip, and its first row and its rows there; without an array for the clips of all parts."""
        place = int(np.searchsorted(self._clip_ends, row, side="right"))
        local = row - (self._clip_ends[place - 1] if place else 0)
        index = self._shared.index(self.parts[place])
        return self.parts[place], int(index["mel_offset"][local]), int(index["mel_length"][local])

    @cached_property
    def _clip_ends(self) -> list[int]:
        return list(accumulate(self.clips_of_parts()))

    def close(self) -> None:
        """Releases the versions of all parts."""
        if self._hold is not None:
            self._shared.close()
        super().close()

    def __enter__(self) -> PartedStore:
        return self

    def _of_clips(self, of_part: Callable[[int], np.ndarray], dtype: type[np.generic]) -> np.ndarray:
        return np.concatenate([np.zeros(0, dtype), *(of_part(number) for number in self.parts)])

    def _map(self, column: Column) -> np.ndarray:
        *begins, rows = self._shared.first_rows(column.name)
        files = [part.version / column.file for part in self._shared.parts]
        offsets = [begin * column.row_bytes for begin in begins]
        return map_side_by_side(files, offsets, rows * column.row_bytes, self.memory_map).view(column.numpy_dtype)


def open_parts(version: Path, raw: bytes, hold: IO[bytes], verify: Verify, memory_map: bool) -> PartedStore:
    """Opens a version of a store in parts; what `FeatureStore.open` does when it meets one.

    Raises:
        StoreError: it is damaged, or a part is not what it was.
    """
    manifest = PartsManifest.from_bytes(raw, version / MANIFEST_FILE)
    shared = _Parts(version, manifest, verify, memory_map)
    try:
        store = PartedStore(shared, range(len(manifest.parts)), hold)
        for name in ("mel", "token"):
            store.data(name)
    except BaseException:
        shared.close()
        raise
    return store


class _JoinedColumns(Mapping[str, np.ndarray]):
    """The columns of the indexes of parts, each put together when it is first asked for."""

    def __init__(self, shared: _Parts, parts: Sequence[int]) -> None:
        self._shared = shared
        self._parts = parts
        self._joined: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._joined:
            self._joined[name] = np.concatenate([self._column(name, number) for number in self._parts])
        return self._joined[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shared.index(self._parts[0]).columns)

    def __len__(self) -> int:
        return len(self._shared.index(self._parts[0]).columns)

    def _column(self, name: str, number: int) -> np.ndarray:
        part, own = self._shared.parts[number], self._shared.index(number)[name]
        if name.endswith("_offset"):
            return own + self._shared.first_rows(name.removesuffix("_offset"))[number]
        numbers = {"speaker": part.speakers, "language": part.languages}
        return numbers[name][own] if name in numbers else own


class _JoinedIds(Sequence[str]):
    """The ids of the clips of parts, decoded one by one when they are asked for."""

    def __init__(self, shared: _Parts, parts: Sequence[int]) -> None:
        self._shared = shared
        self._parts = parts
        self._ends = list(accumulate(shared.parts[number].manifest.clips for number in parts))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[row] for row in range(*key.indices(len(self)))]
        row = key.__index__()
        row += len(self) if row < 0 else 0
        if not 0 <= row < len(self):
            raise IndexError(f"clip {key} of {len(self)}")
        place = int(np.searchsorted(self._ends, row, side="right"))
        number = self._parts[place]
        local = row - (self._ends[place - 1] if place else 0)
        return self._shared.parts[number].in_whole(Ids(self._shared.index(number))[local])

    def __iter__(self) -> Iterator[str]:
        for number in self._parts:
            yield from map(self._shared.parts[number].in_whole, Ids(self._shared.index(number)))


def _changed(version: Path, folder: Path, what: str) -> StoreError:
    return StoreError(f"{version}: its part {folder} {what}; `myxtts precompute` brings the store up to date")


def _allow_open_files(count: int) -> None:
    """Asks for as many open files as parts need, as far as the system's limit for this process allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == -1 else min(count, hard), hard))
