"""Batch requests to padded batches through Python, a whole batch per call.

What `use_tf_native_loading: false` selects, and what is used when the graph cannot be built. The batches are those
of the graph, from the same table and the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.data.batches.clip_table import (
    FIRST_MEMBER,
    LANGUAGE,
    MEL_LENGTH,
    MEMBER,
    MEMBERS,
    SPEAKER,
    TOKEN_LENGTH,
    TOKEN_OFFSET,
    ClipTable,
)
from myxtts.data.batches.order import keys
from myxtts.data.batches.runtime_clips import RuntimeClips, crop_samples, read_samples
from myxtts.data.store import FeatureStore

# The mel of a clip, of at most so many frames; and so many frames of it, as a reference.
Mel = Callable[[int, int], np.ndarray]
Crop = Callable[[int, np.ndarray], np.ndarray]


class PythonLoader:
    """Batches from a store or from audio files, made with NumPy.

    Args:
        clips: a store, or what stands for one in runtime mode.
        table: its clips.
        settings: what a mel is.
        mel_dtype: type of the mels in a batch, `float16` or `float32`.
        reference_frames: frames of `reference_mel`; 0 for none.
    """

    def __init__(
        self,
        clips: FeatureStore | RuntimeClips,
        table: ClipTable,
        settings: MelSettings,
        mel_dtype: str,
        reference_frames: int = 0,
    ) -> None:
        self._clips = clips
        self._table = table
        self._settings = settings
        self._mel_dtype = np.dtype(mel_dtype)
        self._reference_frames = reference_frames
        self._mel, self._crop = (
            self._from_store(clips) if isinstance(clips, FeatureStore) else self._from_audio(clips)
        )
        self._types = {
            "tokens": tf.int32,
            "token_lengths": tf.int32,
            "speaker": tf.int32,
            "language": tf.int32,
            "index": tf.int64,
            "mel": tf.as_dtype(self._mel_dtype),
            "mel_lengths": tf.int32,
        }
        if reference_frames:
            self._types["reference_mel"] = self._types["mel"]

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.batch_requests` asks for."""
        inputs = [request[name] for name in ("rows", "size", "frames", "tokens", "draw")]
        outputs = tf.numpy_function(self._load, inputs, list(self._types.values()))
        batch = dict(zip(self._types, outputs, strict=True))
        size = request["rows"].shape[0]
        for name, value in batch.items():
            shapes = {
                "tokens": [size, None],
                "mel": [size, None, self._settings.n_mels],
                "reference_mel": [size, self._reference_frames, self._settings.n_mels],
            }
            value.set_shape(shapes.get(name, [size]))
        return batch

    def _load(
        self, rows: np.ndarray, size: np.int32, frames: np.int32, tokens: np.int32, draw: np.uint64
    ) -> list[np.ndarray]:
        rows = rows[:size]
        clips = self._table.values[rows]  # row -1, an empty place, is the table's last
        text = np.zeros((size, tokens), np.int32)
        mel = np.full((size, frames, self._settings.n_mels), self._settings.padding_value, self._mel_dtype)
        token_lengths = np.minimum(clips[:, TOKEN_LENGTH], tokens).astype(np.int32)
        mel_lengths = np.zeros(size, np.int32)
        for place, row in enumerate(rows):
            if row < 0:
                continue
            start = clips[place, TOKEN_OFFSET]
            text[place, : token_lengths[place]] = self._clips.token_data[start : start + token_lengths[place]]
            clip_mel = self._mel(row, int(frames))
            mel[place, : len(clip_mel)] = clip_mel
            mel_lengths[place] = len(clip_mel)
        speaker, language = clips[:, SPEAKER].astype(np.int32), clips[:, LANGUAGE].astype(np.int32)
        loaded = [text, token_lengths, speaker, language, rows, mel, mel_lengths]
        if self._reference_frames:
            loaded.append(self._load_references(rows, clips, int(draw)))
        return loaded

    def _load_references(self, rows: np.ndarray, clips: np.ndarray, draw: int) -> np.ndarray:
        """As `TableInGraph.references`, and the crops themselves."""
        count, frames = len(rows), self._reference_frames
        drawn = (keys(draw, 2 * count) >> np.uint64(1)).astype(np.int64)
        crops = np.full((count, frames, self._settings.n_mels), self._settings.padding_value, self._mel_dtype)
        for place in range(count):
            members = clips[place, MEMBERS]
            if members == 0:
                continue
            other = (clips[place, MEMBER] + 1 + drawn[place] % max(members - 1, 1)) % members
            row = self._table.members[clips[place, FIRST_MEMBER] + other]
            length = self._table.values[row, MEL_LENGTH]
            first = drawn[count + place] % max(length - frames + 1, 1)
            crops[place] = self._crop(int(row), (first + np.arange(frames)) % length)
        return crops

    def _from_store(self, store: FeatureStore) -> tuple[Mel, Crop]:
        return lambda row, frames: store.mel(row)[:frames], lambda row, chosen: store.mel(row)[chosen]

    def _from_audio(self, clips: RuntimeClips) -> tuple[Mel, Crop]:
        settings = self._settings

        def mel(row: int, frames: int) -> np.ndarray:
            return log_mel(read_samples(clips.audio_paths[row], settings, np.float32), settings)[:frames]

        def crop(row: int, chosen: np.ndarray) -> np.ndarray:
            audio = read_samples(clips.audio_paths[row], settings, np.float32)
            return log_mel(crop_samples(audio, int(chosen[0]), len(chosen), settings), settings)

        return mel, crop
