"""The audio files of clips, read in graph: runtime mode's counterpart of a mapped store.

16-bit PCM WAV files at the target rate are read and decoded by the graph. A batch that has another kind of file is
read by one Python call, the whole batch at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import trim
from myxtts.audio.wav import CHUNK_HEADER
from myxtts.audio.wav_tf import decode_pcm16
from myxtts.data.batches.runtime_clips import CHANNELS, DATA_OFFSET, SAMPLES, RuntimeClips

_CHANGED = "the audio file changed after it was checked, and can no longer be read in graph:"


class ClipFiles:
    """The files of runtime mode's clips; a row of −1 is an empty place, which has no samples.

    Args:
        clips: the data set.
        settings: what a mel is, and so which samples of a clip are used.

    Attributes:
        at_once: all files have one channel and nothing to trim. A batch of them can then be decoded at once, at the
            places known from the headers (`contents`), which takes about half the time of going through them clip
            by clip (`decode`).
    """

    def __init__(self, clips: RuntimeClips, settings: MelSettings) -> None:
        self._settings = settings
        self._empty = len(clips)
        self._paths = tf.constant([*clips.audio_paths, ""])
        self._through_python = tf.constant(np.append(~clips.graph_readable, False))
        self._any_through_python = not clips.graph_readable.all()
        self.at_once = not settings.trim_silence and bool((clips.pcm[:, CHANNELS] <= 1).all())
        self._pcm = tf.constant(np.vstack([clips.pcm, np.zeros((1, 3), np.int64)]))

    def choose(
        self,
        rows: tf.Tensor,
        in_graph: Callable[[], tuple[tf.Tensor, ...]],
        through_python: Callable[[], tuple[tf.Tensor, ...]],
    ) -> tuple[tf.Tensor, ...]:
        """A batch goes through Python if it has a file that the graph cannot decode; most data sets have none."""
        if not self._any_through_python:
            return in_graph()
        return tf.cond(tf.reduce_any(tf.gather(self._through_python, self._place(rows))), through_python, in_graph)

    def contents(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Contents of one-channel files [B], and where their samples begin and how many there are, in bytes."""
        place = self._place(rows)
        paths, pcm = tf.gather(self._paths, place), tf.gather(self._pcm, place)
        contents = tf.map_fn(
            lambda path: tf.cond(tf.equal(path, ""), lambda: tf.constant(""), lambda: tf.io.read_file(path)), paths
        )
        begin, size = pcm[:, DATA_OFFSET], 2 * pcm[:, SAMPLES]
        too_short = tf.cast(tf.strings.length(contents), tf.int64) < begin + size
        with tf.control_dependencies([_assert_none(too_short, paths)]):
            label = tf.strings.substr(contents, tf.maximum(begin - CHUNK_HEADER, 0), tf.minimum(begin, 4))
        with tf.control_dependencies([_assert_none((begin > 0) & (label != b"data"), paths)]):
            return tf.identity(contents), begin, size

    def decode(self, row: tf.Tensor) -> tf.Tensor:
        """One clip's samples in graph, int16 [n]; none for an empty place."""
        return tf.cond(
            row < 0, lambda: tf.zeros([0], tf.int16), lambda: read_clip(self._paths[row], self._settings, _CHANGED)
        )

    def _place(self, rows: tf.Tensor) -> tf.Tensor:
        """Where clips are in the columns, whose last entry is the empty place."""
        return tf.where(rows < 0, tf.constant(self._empty, tf.int64), rows)


def read_clip(path: tf.Tensor, settings: MelSettings, refusal: str) -> tf.Tensor:
    """One 16-bit PCM WAV file at the settings' rate, int16 [n], trimmed if they say so; for any other file an error
    that begins with `refusal`."""
    audio, rate, _, ok = decode_pcm16(tf.io.read_file(path))
    usable = tf.logical_and(ok, tf.equal(rate, settings.sample_rate))
    with tf.control_dependencies([tf.debugging.Assert(usable, [refusal, path])]):
        return trim(tf.identity(audio), settings)


def _assert_none(changed: tf.Tensor, paths: tf.Tensor) -> tf.Operation:
    return tf.debugging.Assert(tf.logical_not(tf.reduce_any(changed)), [_CHANGED, tf.boolean_mask(paths, changed)])
