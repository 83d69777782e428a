"""What there is to do for a store: the clips it should hold, the settings, whether a store already has them all.

A clip is recognised by its id and the place of its audio file. Whether its features are still right is seen from the
file's size and time, or from the hash of its content, and from the hash of its text. Nothing here writes: `builder`
does the work in one place, with the lock held.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import xxhash

from myxtts.config.config import DataConfig
from myxtts.data.clips import Clip, Problem, number_names
from myxtts.data.clips.audio_headers import in_threads
from myxtts.data.clips.metadata import Metadata, read_metadata
from myxtts.data.store.columns import AUDIO, COLUMNS, TEXT, is_part, read_stamp
from myxtts.data.store.feature_store import FeatureStore, Verify
from myxtts.data.store.folder import StorageError
from myxtts.data.store.format import FailedClip, NewerStoreError
from myxtts.data.store.records import RECORD
from myxtts.data.store.target import PartNumber, Target
from myxtts.errors import DataError, StoreError

_CHUNK = 256  # files that a thread looks at in one go


class WorkProgress(Protocol):
    """What watches work that goes over the clips of a data set."""

    def stage(self, name: str, clips: int) -> None:
        """A part of the work begins that goes over so many clips."""

    def advance(self, clips: int, audio_seconds: float = 0.0) -> None:
        """Some of them are done."""


class NoProgress:
    """Watches nothing."""

    def stage(self, name: str, clips: int) -> None:
        pass

    def advance(self, clips: int, audio_seconds: float = 0.0) -> None:
        pass


class TooManyFailuresError(DataError):
    """So many clips cannot be read that the data set is probably not complete."""


class ColumnCounts(NamedTuple):
    """Clips of a column."""

    computed: int
    reused: int


@dataclass(frozen=True)
class PrecomputeResult:
    """A store that is up to date, and what it took.

    Attributes:
        version: folder of the version.
        clips: in the store.
        failed: clips of the data set that could not be computed.
        problems: lines of the metadata that give no clip.
        columns: by name, how many clips were computed and how many reused.
        audio_seconds: of the clips whose audio was read.
        seconds: it took.
        size_bytes: of the store.
        published: a new version was made; otherwise the store was up to date.
    """

    version: Path
    clips: int
    failed: tuple[FailedClip, ...]
    problems: tuple[Problem, ...]
    columns: Mapping[str, ColumnCounts]
    audio_seconds: float
    seconds: float
    size_bytes: int
    published: bool

    @property
    def complete(self) -> bool:
        """Every line of the metadata has its features in the store."""
        return not self.failed and not self.problems

    def to_dict(self) -> dict[str, Any]:
        """For JSON; of each column, `mels_computed` and `mels_reused` and the like."""
        counts = {
            f"{COLUMNS[name].plural}_{what}": count
            for name, clips in self.columns.items()
            for what, count in clips._asdict().items()
        }
        return {
            "store": str(self.version),
            "clips": self.clips,
            "failed": [asdict(entry) for entry in self.failed],
            "problems": [str(problem) for problem in self.problems],
            **counts,
            "audio_seconds": self.audio_seconds,
            "seconds": self.seconds,
            "size_bytes": self.size_bytes,
            "published": self.published,
        }


@dataclass(frozen=True)
class ClipList:
    """The clips that a store should hold, in the order of the data set, and what each is recognised by.

    Attributes:
        clips: the clips.
        records: by name of a `columns.ClipSource`, RECORD [N] with `clip` and what is known of the source.
        by_content: audio is recognised by its content instead of its size and time.
    """

    clips: Sequence[Clip]
    records: Mapping[str, np.ndarray]
    by_content: bool = False

    @classmethod
    def of(cls, clips: Sequence[Clip], root: str, workers: int) -> tuple[ClipList, list[FailedClip]]:
        """The clips of the data set in `root`, and those whose audio cannot even be looked at."""
        audio, text = np.zeros(len(clips), RECORD), np.zeros(len(clips), RECORD)
        prefix = os.path.join(root, "")
        audio["clip"] = text["clip"] = [clip_key(clip, prefix) for clip in clips]
        text["content"] = [text_hash(clip) for clip in clips]
        found = list(in_threads(_stat, [clip.audio_path for clip in clips], workers, chunk=_CHUNK))
        stamps = [(-1, -1) if isinstance(one, str) else one for one in found]
        audio["size"], audio["mtime"] = np.array(stamps, np.int64).reshape(-1, 2).T
        failed = [FailedClip(clip.id, one) for clip, one in zip(clips, found, strict=True) if isinstance(one, str)]
        return cls(clips, {AUDIO.name: audio, TEXT.name: text}).without([entry.id for entry in failed]), failed

    def hashed(self, workers: int, on_progress: Callable[[int], None]) -> tuple[ClipList, list[FailedClip]]:
        """The same by content: every audio file is read and hashed."""
        if self.by_content:
            return self, []
        audio = self.records[AUDIO.name].copy()
        failed = []
        paths = [clip.audio_path for clip in self.clips]
        for row, found in enumerate(in_threads(_hash, paths, workers, on_progress, _CHUNK)):
            if isinstance(found, str):
                failed.append(FailedClip(self.clips[row].id, found, *self.stamp(row)))
            else:
                audio["size"][row], audio["mtime"][row], audio["content"][row] = found
        hashed = replace(self, records={**self.records, AUDIO.name: audio}, by_content=True)
        return hashed.without([entry.id for entry in failed]), failed

    def stamp(self, row: int) -> tuple[int, int]:
        """Size and time of a clip's audio file."""
        audio = self.records[AUDIO.name]
        return int(audio["size"][row]), int(audio["mtime"][row])

    def without(self, ids: Sequence[str]) -> ClipList:
        """The same without some clips."""
        if not ids:
            return self
        left_out = set(ids)
        return self.only([row for row, clip in enumerate(self.clips) if clip.id not in left_out])

    def only(self, rows: Sequence[int] | np.ndarray) -> ClipList:
        """The clips in these rows."""
        clips = [self.clips[row] for row in rows]
        return replace(self, clips=clips, records={name: records[rows] for name, records in self.records.items()})


class BuildJob:
    """What is to be done, wherever it will be done."""

    def __init__(
        self,
        config: DataConfig,
        metadata: Metadata | None,
        num_workers: int | None,
        progress: WorkProgress | None,
        part: PartNumber | None = None,
    ) -> None:
        self.started = time.monotonic()
        self.config = config
        self.workers = num_workers or config.workers
        self.progress = progress or NoProgress()
        self.metadata = metadata or read_metadata(config)
        if not self.metadata.clips:
            self.metadata.require_usable()
        self.targets = Target.candidates(config, part)
        self.plan, self.failed = ClipList.of(self.metadata.clips, config.dataset_folder, self.workers)
        self._outdated: set[Path] = set()

    def hash_sources(self) -> None:
        """Recognises clips by content from now on."""
        self.progress.stage("reading audio", len(self.plan.clips))
        self.plan, failed = self.plan.hashed(self.workers, self.progress.advance)
        self.failed += failed
        self._outdated.clear()

    def find_up_to_date(self, retry_failed: bool) -> tuple[FeatureStore, PrecomputeResult] | None:
        """The open store, if there is nothing to do. A version that was found outdated is not opened again."""
        for target in self.targets:
            version = target.folder.current()
            if version is None or version in self._outdated:
                continue
            try:
                store = self.open(target)
            except NewerStoreError:
                raise
            except StoreError:
                continue  # the build that follows reuses what is left of it
            if self._is_up_to_date(store, retry_failed):
                known = {entry.id for entry in store.manifest.failed}
                new = [entry for entry in self.failed if entry.id not in known]
                return store, self.result(store, (*store.manifest.failed, *new))
            self._outdated.add(store.path)
            store.close()
        return None

    def open(self, target: Target) -> FeatureStore:
        """The store as the configuration wants it opened.

        Raises:
            StoreError: it cannot be opened.
        """
        verify: Verify = "quick" if self.config.cache_verification else "none"
        return FeatureStore.open(target.folder.path, verify, self.config.enable_memory_mapping)

    def place_to_build(self) -> Target:
        """The first place that can be written to."""
        for target in self.targets:
            if target.writable():
                return target
        tried = " and ".join(str(target.cache) for target in self.targets)
        raise StorageError(f"{tried}: cannot be written; choose another folder with --cache-dir")

    def result(
        self,
        store: FeatureStore,
        failed: Sequence[FailedClip],
        published: bool = False,
        computed: Mapping[str, int] | None = None,
        audio_seconds: float = 0.0,
    ) -> PrecomputeResult:
        """What became of the job, with this store at the end."""
        counts = dict.fromkeys((entry.name for entry in self.targets[0].entries), 0) | dict(computed or {})
        return PrecomputeResult(
            version=store.path,
            clips=len(store),
            failed=tuple(failed),
            problems=tuple(self.metadata.problems),
            columns={name: ColumnCounts(count, len(store) - count) for name, count in counts.items()},
            audio_seconds=audio_seconds,
            seconds=time.monotonic() - self.started,
            size_bytes=store.size_bytes,
            published=published,
        )

    def _is_up_to_date(self, store: FeatureStore, retry_failed: bool) -> bool:
        known = {entry.id: (entry.size, entry.mtime_ns) for entry in store.manifest.failed}
        plan = self.plan
        if known:
            rows = [row for row, clip in enumerate(plan.clips) if clip.id in known]
            unchanged = [row for row in rows if plan.stamp(row) == known[plan.clips[row].id]]
            if rows and (retry_failed or len(unchanged) < len(rows)):
                return False
            plan = plan.without([plan.clips[row].id for row in rows])
        index = store.index
        if len(plan.clips) != len(store) or not np.array_equal(plan.records[TEXT.name]["clip"], index["clip_key"]):
            return False
        same = [
            (plan.records[source.name][field], index[entry])
            for source in (TEXT, AUDIO)
            for field, entry in source.index_entries.items()
            if field != "content" or plan.by_content or not source.has_time
        ]
        speakers, speaker = number_names(clip.speaker for clip in plan.clips)
        languages, language = number_names(clip.language for clip in plan.clips)
        same += [(speaker, store.speaker_ids), (language, store.language_ids)]
        names = (speakers, languages) == (store.manifest.speakers, store.manifest.languages)
        return names and all(np.array_equal(*pair) for pair in same)


def clip_key(clip: Clip, prefix: str) -> int:
    """xxh3-64 of the id and the audio file's path, which is relative if the file lies below `prefix`; and of the part
    of the file, if the clip is one."""
    path = os.fsencode(clip.audio_path.removeprefix(prefix))
    if is_part(clip):
        path += f"\0{clip.start!r}\0{clip.duration!r}".encode()
    return xxhash.xxh3_64_intdigest(clip.id.encode("utf-8") + b"\0" + path)


def text_hash(clip: Clip) -> int:
    """xxh3-64 of everything a clip's tokens are made from."""
    text = "\0".join((clip.text, clip.language, clip.ipa or ""))
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def _stat(path: str) -> tuple[int, int] | str:
    try:
        status = os.stat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return status.st_size, status.st_mtime_ns


def _hash(path: str) -> tuple[int, int, int] | str:
    try:
        return read_stamp(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
