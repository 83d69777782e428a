"""The windows of a store in parts, for one split."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from myxtts.data.batches.clip_table import ClipTable
from myxtts.data.batches.window_plan import WINDOW_CLIPS, LengthSummary, WindowLengths, group_parts
from myxtts.data.clips.metadata import Split
from myxtts.data.store.parted_store import PartedStore
from myxtts.data.store.parts import SPLIT_CODES

SUMMARY_FOLDER = "lengths"
# In the order of the fields of `WindowClips`.
_INDEX_COLUMNS = ("mel_offset", "mel_length", "token_offset", "token_length", "speaker", "language")


@dataclass(frozen=True, eq=False)
class WindowClips:
    """The clips of one split in a window, as columns; entry i everywhere is the same clip.

    Attributes:
        rows: int64 [N], what they are called in the whole store.
        data_sets: int64 [N], numbers of their data sets.
        languages: codes, to which `language_ids` are positions.

    The others are as those of a `FeatureStore`.
    """

    rows: np.ndarray
    data_sets: np.ndarray
    mel_offsets: np.ndarray
    mel_lengths: np.ndarray
    token_offsets: np.ndarray
    token_lengths: np.ndarray
    speaker_ids: np.ndarray
    language_ids: np.ndarray
    languages: Sequence[str]

    def __len__(self) -> int:
        return len(self.rows)


class StoreWindows:
    """What a `WindowedPlan` deals out of a store in parts: the clips of one split.

    Args:
        store: all of its parts.
        split: whose clips are dealt out, and serve as references.
        weights: of the data sets, how often their clips come in an epoch; empty: once.
        extra_languages: those beside the built-in ones.
        window_clips: about as many clips are in a window.
    """

    def __init__(
        self,
        store: PartedStore,
        split: Split,
        weights: Sequence[int] = (),
        extra_languages: Sequence[str] = (),
        window_clips: int = WINDOW_CLIPS,
    ) -> None:
        self._store = store
        self._code = SPLIT_CODES[split]
        self._weights = np.array(weights, np.int64)
        self._extra_languages = extra_languages
        parts = (store.select([number]) for number in store.parts)
        counts = [int(np.count_nonzero(part.split_codes() == self._code)) for part in parts]
        self._groups = group_parts(counts, window_clips)
        self._last: tuple[int, WindowClips] | None = None
        manifest = store.parts_manifest
        checksums = [part.manifest_checksum for part in manifest.parts]
        content = [checksums, manifest.splits_checksum, split, list(weights), self._groups]
        self.identity = xxhash.xxh3_128_hexdigest(json.dumps(content).encode())

    def __len__(self) -> int:
        return len(self._groups)

    def lengths(self, window: int) -> WindowLengths:
        clips = self._clips(window)
        repeats = self._weights[clips.data_sets] if len(self._weights) else None
        return WindowLengths(clips.mel_lengths, clips.token_lengths, np.arange(len(clips)), repeats)

    def names(self, window: int) -> np.ndarray:
        return self._clips(window).rows

    def table(self, window: int) -> ClipTable:
        return ClipTable.build(self._clips(window), None, self._extra_languages)

    def _clips(self, window: int) -> WindowClips:
        if self._last is None or self._last[0] != window:
            self._last = window, self._read(window)
        return self._last[1]

    def _read(self, window: int) -> WindowClips:
        """Reads part by part, so that nothing is held of the clips of other splits."""
        pieces = []
        for number in self._groups[window]:
            part = self._store.select([self._store.parts[number]])
            kept = np.flatnonzero(part.split_codes() == self._code)
            columns = [part.rows_in_whole(), part.data_sets(), *(part.index[name] for name in _INDEX_COLUMNS)]
            pieces.append([column[kept] for column in columns])
        rows, data_sets, *columns = (np.concatenate(column) for column in zip(*pieces, strict=True))
        mel_offsets, mel_lengths, token_offsets, token_lengths, speakers, languages = columns
        return WindowClips(
            rows,
            data_sets,
            mel_offsets,
            mel_lengths,
            token_offsets,
            token_lengths,
            speakers,
            languages,
            self._store.languages,
        )

    def summary(self, max_mel_frames: int | None, max_tokens: int | None, long_clips: str) -> LengthSummary:
        """Of all lengths; counted once, and kept beside the store's versions where that can be written to."""
        content = json.dumps([self.identity, max_mel_frames, max_tokens, long_clips])
        path = self._store.path.parent / SUMMARY_FOLDER / f"{xxhash.xxh3_64_hexdigest(content.encode())}.npz"
        try:
            with np.load(path) as saved:
                because = json.loads(str(saved["skipped_because"]))
                return LengthSummary(saved["counts"], saved["most_tokens"], because)
        except (OSError, ValueError, KeyError, EOFError):
            pass
        made = LengthSummary.of(self, max_mel_frames=max_mel_frames, max_tokens=max_tokens, long_clips=long_clips)
        with contextlib.suppress(OSError):
            _save(path, made)
        return made


def _save(path: Path, summary: LengthSummary) -> None:
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        because = json.dumps(summary.skipped_because)
        np.savez(file, counts=summary.counts, most_tokens=summary.most_tokens, skipped_because=np.array(because))
    temporary.replace(path)
