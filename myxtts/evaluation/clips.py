"""The clips of a data set for evaluation: the length of each, and the mels of those that are compared.

Mels come from the store if there is one with the checkpoint's settings, and are computed otherwise. Nothing is
written.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

import numpy as np

from myxtts.audio.mel import MelSettings, log_mel, trim
from myxtts.audio.reading import read_audio
from myxtts.config.config import DataConfig
from myxtts.data.clips import Clip, Problem
from myxtts.data.clips.audio_headers import AudioHeaders, probe_audio
from myxtts.data.clips.metadata import Metadata
from myxtts.data.store import FeatureStore
from myxtts.data.store.target import store_folders
from myxtts.errors import AudioError, StoreError

logger = logging.getLogger(__name__)


class EvaluationClips:
    """The usable clips of a data set.

    Args:
        config: of the data set, with the checkpoint's settings of text and mel.
        metadata: of the data set.

    Attributes:
        metadata: without clips whose audio cannot be read or is too short, or that failed when the store was built.
        lengths: int64 [N], frames of each clip's mel; for a clip that is not in the store, before silence is trimmed.
    """

    def __init__(self, config: DataConfig, metadata: Metadata) -> None:
        self.settings = MelSettings.from_config(config)
        self._store = _open_store(config)
        self._rows = {} if self._store is None else {clip_id: row for row, clip_id in enumerate(self._store.ids)}
        unknown = [clip for clip in metadata.clips if clip.id not in self._rows]
        headers = probe_audio(unknown)
        frames = self.settings.frames(headers.samples_at(self.settings.sample_rate))
        self.metadata = metadata.leave_out([*headers.problems, *self._unusable(unknown, headers, frames)])
        lengths = dict(zip((clip.id for clip in unknown), frames.tolist(), strict=True))
        if self._store is not None:
            lengths |= zip(self._rows, self._store.mel_lengths.tolist(), strict=True)
        self.lengths = np.array([lengths[clip.id] for clip in self.metadata.clips], np.int64)
        self._mels: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.metadata.clips)

    def __getitem__(self, row: int) -> Clip:
        return self.metadata.clips[row]

    def mel(self, row: int) -> np.ndarray:
        """The recorded mel of a clip, float32 [F, n_mels], which is kept for the next time.

        Raises:
            AudioError: the audio cannot be read, or is too short for a single frame.
        """
        if row not in self._mels:
            self._mels[row] = self.load_mel(row)
        return self._mels[row]

    def load_mel(self, row: int) -> np.ndarray:
        """The same without keeping it, for work on all clips of a data set."""
        stored = self._rows.get(self[row].id)
        if self._store is not None and stored is not None and self._unchanged(row, stored):
            return self._store.mel(stored).astype(np.float32)
        mel = log_mel(self.audio(row), self.settings)
        if not len(mel):
            raise AudioError(_too_short(self[row]))
        return mel

    def audio(self, row: int) -> np.ndarray:
        """The recording, float32 [n] at the mel's sample rate, with silence trimmed as for the mel."""
        clip = self[row]
        audio = read_audio(clip.audio_path, self.settings.sample_rate, clip.start, clip.duration)
        return trim(audio, self.settings)

    def _unusable(self, clips: Sequence[Clip], headers: AudioHeaders, frames: np.ndarray) -> Iterator[Problem]:
        """The clips whose header can be read but that cannot be used."""
        failed = {} if self._store is None else {entry.id: entry for entry in self._store.manifest.failed}
        stamps = zip(headers.size.tolist(), headers.mtime_ns.tolist(), strict=True)
        unreadable = {problem.clip_id for problem in headers.problems}
        for clip, stamp, length in zip(clips, stamps, frames, strict=True):
            known = failed.get(clip.id)
            if clip.id in unreadable:
                continue
            if known is not None and (known.size, known.mtime_ns) == stamp:
                yield clip.problem("unreadable-audio", known.reason)
            elif not length:
                yield clip.problem("empty-audio", _too_short(clip))

    def _unchanged(self, row: int, stored: int) -> bool:
        """Whether the audio file is still the one that is in the store."""
        assert self._store is not None
        try:
            status = os.stat(self[row].audio_path)
        except OSError as error:
            raise AudioError(f"{self[row].audio_path}: cannot be read: {error.strerror}") from None
        index = self._store.index
        return (status.st_size, status.st_mtime_ns) == (
            int(index["source_size"][stored]),
            int(index["source_mtime_ns"][stored]),
        )


def _too_short(clip: Clip) -> str:
    return f"{clip.audio_path}: the audio is too short for a single frame"


def _open_store(config: DataConfig) -> FeatureStore | None:
    for folder in store_folders(config):
        version = folder.current()
        if version is not None:
            try:
                return FeatureStore.open(version)
            except StoreError as error:
                logger.warning("mels are computed again: %s", str(error).splitlines()[0])
    return None
