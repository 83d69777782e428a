"""Batch requests to padded batches through Python, a whole batch per call.

What `use_tf_native_loading: false` selects, and what is used when the graph cannot be built. The batches are those
of the graph, from the same table and the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.data.batches.clip_table import (
    FIRST_MEMBER,
    LANGUAGE,
    MEL_LENGTH,
    MEL_OFFSET,
    MEMBER,
    MEMBERS,
    SPEAKER,
    TOKEN_LENGTH,
    TOKEN_OFFSET,
    ClipTable,
    TableInGraph,
)
from myxtts.data.batches.order import keys
from myxtts.data.batches.runtime_clips import RuntimeClips, crop_samples
from myxtts.data.batches.share import WHOLE, Share
from myxtts.data.store import FeatureStore


class PythonLoader:
    """Batches from a store or from audio files, made with NumPy.

    Args:
        clips: a store, or what stands for one in runtime mode.
        table: its clips; none: each request brings the table of its window.
        settings: what a mel is.
        mel_dtype: type of the mels in a batch, `float16` or `float32`.
        reference_frames: frames of `reference_mel`; 0 for none.
        share: which places of a batch are loaded.
        exact: take references of audio files from the mel of the whole clip, as a store has it. Otherwise only their
            own samples are read, and the first and the last frames are slightly different.
    """

    def __init__(
        self,
        clips: FeatureStore | RuntimeClips,
        table: ClipTable | None,
        settings: MelSettings,
        mel_dtype: str,
        reference_frames: int = 0,
        share: Share = WHOLE,
        exact: bool = False,
    ) -> None:
        self._clips = clips
        self._table = table
        self._settings = settings
        self._mel_dtype = np.dtype(mel_dtype)
        self._reference_frames = reference_frames
        self._share = share
        self._exact = exact
        # What `_load` returns, in its order: the type, and the shape of one place.
        mel = tf.as_dtype(self._mel_dtype)
        self._outputs: dict[str, tuple[tf.DType, list[int | None]]] = {
            "tokens": (tf.int32, [None]),
            "token_lengths": (tf.int32, []),
            "speaker": (tf.int32, []),
            "language": (tf.int32, []),
            "index": (tf.int64, []),
            "mel": (mel, [None, settings.n_mels]),
            "mel_lengths": (tf.int32, []),
        }
        if reference_frames:
            self._outputs["reference_mel"] = (mel, [reference_frames, settings.n_mels])
        self._in_graph: TableInGraph | None = None
        if table is not None and not share.is_whole:
            with tf.device("/CPU:0"):
                self._in_graph = TableInGraph.of(table, share)

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.batch_requests` asks for."""
        names = ("rows", "size", "frames", "tokens", "draw")
        inputs = [request[name] for name in (names if self._table else (*names, "table", "members", "names"))]
        values = tf.numpy_function(self._load, inputs, [dtype for dtype, _ in self._outputs.values()])
        batch = dict(zip(self._outputs, values, strict=True))
        for name, (_, shape) in self._outputs.items():
            batch[name].set_shape([None, *shape])
        if self._share.is_whole:
            return batch
        return batch | (self._in_graph or TableInGraph.of_request(request, self._share)).whole_batch(request)

    def _load(
        self,
        rows: np.ndarray,
        whole: np.int32,
        frames: np.int32,
        tokens: np.int32,
        draw: np.uint64,
        values: np.ndarray | None = None,
        members: np.ndarray | None = None,
        names: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        table = self._table if values is None or members is None else ClipTable(values.T, members)
        assert table is not None
        rows = self._share.take(rows[:whole])
        size = len(rows)
        clips = table.values[rows]  # row -1, an empty place, is the table's last
        text = np.zeros((size, tokens), np.int32)
        mel = np.full((size, frames, self._settings.n_mels), self._settings.padding_value, self._mel_dtype)
        token_lengths = np.minimum(clips[:, TOKEN_LENGTH], tokens).astype(np.int32)
        mel_lengths = np.zeros(size, np.int32)
        for place, row in enumerate(rows):
            if row < 0:
                continue
            start = clips[place, TOKEN_OFFSET]
            text[place, : token_lengths[place]] = self._clips.token_data[start : start + token_lengths[place]]
            clip_mel = self._mel(row, clips[place], int(frames))
            mel[place, : len(clip_mel)] = clip_mel
            mel_lengths[place] = len(clip_mel)
        speaker, language = clips[:, SPEAKER].astype(np.int32), clips[:, LANGUAGE].astype(np.int32)
        loaded = [text, token_lengths, speaker, language, rows if names is None else names[rows], mel, mel_lengths]
        if self._reference_frames:
            loaded.append(self._load_references(table, clips, int(draw), int(whole)))
        return loaded

    def _load_references(self, table: ClipTable, clips: np.ndarray, draw: int, whole: int) -> np.ndarray:
        """As `TableInGraph.references`, and the crops themselves."""
        count, frames = len(clips), self._reference_frames
        places = self._share.places(whole)
        drawn = (keys(draw, 2 * whole + self._share.ranks) >> np.uint64(1)).astype(np.int64)
        which, where = drawn[places], drawn[whole + places]
        crops = np.full((count, frames, self._settings.n_mels), self._settings.padding_value, self._mel_dtype)
        for place in range(count):
            members = clips[place, MEMBERS]
            if members == 0:
                continue
            other = (clips[place, MEMBER] + 1 + which[place] % max(members - 1, 1)) % members
            row = table.members[clips[place, FIRST_MEMBER] + other]
            length = table.values[row, MEL_LENGTH]
            first = where[place] % max(length - frames + 1, 1)
            crops[place] = self._crop(int(row), table.values[row], (first + np.arange(frames)) % length)
        return crops

    def _mel(self, row: int, clip: np.ndarray, frames: int) -> np.ndarray:
        """The mel of a clip, whose row of the table is `clip`, of at most so many frames."""
        if isinstance(self._clips, FeatureStore):
            return self._clips.mel_data[clip[MEL_OFFSET] :][: min(clip[MEL_LENGTH], frames)]
        audio = self._clips.read_samples(row, self._settings, np.float32)
        return log_mel(audio, self._settings)[:frames]

    def _crop(self, row: int, clip: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """These frames of a clip, as a reference."""
        if isinstance(self._clips, FeatureStore):
            return self._clips.mel_data[clip[MEL_OFFSET] + frames]
        audio = self._clips.read_samples(row, self._settings, np.float32)
        if self._exact:
            return log_mel(audio, self._settings)[frames]
        return log_mel(crop_samples(audio, int(frames[0]), len(frames), self._settings), self._settings)
