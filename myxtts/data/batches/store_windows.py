"""The windows of a store in parts, for one split."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xxhash

from myxtts.data.batches.clip_table import ClipTable
from myxtts.data.batches.window_plan import LengthSummary, WindowLengths, group_parts
from myxtts.data.clips.metadata import Split
from myxtts.data.store.parted_store import PartedStore
from myxtts.data.store.parts import SPLIT_CODES

SUMMARY_FOLDER = "lengths"


class StoreWindows:
    """What a `WindowedPlan` deals out of a store in parts.

    Args:
        store: all of its parts.
        split: whose clips are dealt out; only they serve as references.
        weights: of the data sets, how often their clips come in an epoch; empty: once.
        extra_languages: those beside the built-in ones.
        groups: the parts of each window; none: as `group_parts` says.
    """

    def __init__(
        self,
        store: PartedStore,
        split: Split,
        weights: Sequence[int] = (),
        extra_languages: Sequence[str] = (),
        groups: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self._store = store
        self._split = split
        self._weights = np.array(weights, np.int64)
        self._extra_languages = extra_languages
        self._groups = group_parts(store.clips_of_parts()) if groups is None else groups
        manifest = store.parts_manifest
        parts = [part.manifest_checksum for part in manifest.parts]
        content = [parts, manifest.splits_checksum, split, list(weights), [list(group) for group in self._groups]]
        self.identity = xxhash.xxh3_128_hexdigest(json.dumps(content).encode())

    def __len__(self) -> int:
        return len(self._groups)

    def lengths(self, window: int) -> WindowLengths:
        store = self._store.select(self._groups[window])
        rows = self._rows(store)
        repeats = self._weights[store.data_sets()[rows]] if len(self._weights) else None
        return WindowLengths(store.mel_lengths[rows], store.token_lengths[rows], rows, repeats)

    def names(self, window: int) -> np.ndarray:
        return self._store.select(self._groups[window]).rows_in_whole()

    def table(self, window: int) -> ClipTable:
        store = self._store.select(self._groups[window])
        return ClipTable.build(store, self._rows(store), self._extra_languages)

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

    def _rows(self, store: PartedStore) -> np.ndarray:
        return np.flatnonzero(store.split_codes() == SPLIT_CODES[self._split])


def _save(path: Path, summary: LengthSummary) -> None:
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        because = json.dumps(summary.skipped_because)
        np.savez(file, counts=summary.counts, most_tokens=summary.most_tokens, skipped_because=np.array(because))
    temporary.replace(path)
