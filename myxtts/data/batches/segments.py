"""Segment requests to batches of segments, in graph: successive frames of clips and the samples under them.

From a store that has its audio, a batch is two gathers of rows with the same numbers, since the mapped samples can be
seen as rows of a hop each. Without a store the files are read, and the mel is computed from each segment and the
samples around it, so that it has the values that the clip's mel has there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.audio.reading import PCM16_SCALE
from myxtts.data.batches.clip_files import ClipFiles
from myxtts.data.batches.host_tensor import HostTensor
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.batches.segment_plan import SegmentPlan
from myxtts.data.store import FeatureStore
from myxtts.data.store.columns import AUDIO_COLUMN


class StoreSegmentLoader:
    """Batches of segments from a store.

    Args:
        store: an open store that has its audio.
        plan: of its clips.
        hop_length: samples of a frame.
        mels: frames to use in place of the store's, in the same rows: [mel_rows, n_mels], the padding row included.
    """

    def __init__(
        self, store: FeatureStore, plan: SegmentPlan, hop_length: int, mels: np.ndarray | None = None
    ) -> None:
        self._plan = plan
        self._hop_length = hop_length
        samples = store.data(AUDIO_COLUMN)[:-1]  # without the padding row, which is a single sample
        self._audio = HostTensor(samples.reshape(-1, hop_length))
        self._mels = HostTensor(store.mel_data if mels is None else mels)
        self._padding_row = store.mel_rows - 1
        self._clips = tf.constant(np.stack([store.mel_offsets, store.mel_lengths]), tf.int64)  # [2, N]

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.segment_requests` asks for."""
        first_frame = request["first_frame"]
        offset, length = tf.unstack(tf.gather(self._clips, request["rows"], axis=1), num=2)
        frame = first_frame[:, tf.newaxis] + tf.range(self._plan.frames, dtype=tf.int64)  # [B, S]
        exists = frame < length[:, tf.newaxis]
        row = offset[:, tf.newaxis] + frame
        audio = tf.gather(self._audio.tensor(), tf.where(exists, row, 0))  # [B, S, hop_length]
        if self._plan.shortest < self._plan.frames:
            audio = tf.where(exists[:, :, tf.newaxis], audio, tf.constant(0, tf.int16))
        return {
            "mel": tf.gather(self._mels.tensor(), tf.where(exists, row, self._padding_row)),
            "audio": tf.reshape(audio, [self._plan.batch_size, self._plan.frames * self._hop_length]),
            "mel_lengths": tf.cast(tf.minimum(length - first_frame, self._plan.frames), tf.int32),
            "first_frame": tf.cast(first_frame, tf.int32),
            "index": request["rows"],
        }


class AudioSegmentLoader:
    """Batches of segments from audio files.

    With `trim_silence` the length of a clip is known only when it is read. A segment that would begin too late then
    begins elsewhere in the clip, and the batches are not those that a store gives.

    Args:
        clips: the data set.
        plan: of its clips.
        settings: what a mel is.
        mel_dtype: type of the mels in a batch, `float16` or `float32`.
    """

    def __init__(self, clips: RuntimeClips, plan: SegmentPlan, settings: MelSettings, mel_dtype: str) -> None:
        self._clips = clips
        self._plan = plan
        self._settings = settings
        self._mel_dtype = tf.as_dtype(mel_dtype)
        self._files = ClipFiles(clips, settings)
        log_mel = LogMel(settings, clip_by_clip=True)
        self._log_mel = tf.function(log_mel.in_context, jit_compile=True, autograph=False)
        self._samples = plan.frames * settings.hop_length
        self._width = self._samples + 2 * settings.padding  # with what lies around a segment

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.segment_requests` asks for."""
        settings, plan = self._settings, self._plan
        rows = request["rows"]
        audio, samples, first_frame = self._read(rows, request["first_frame"])
        audio = self._mirror(audio, samples, first_frame)
        length = tf.clip_by_value(settings.frames(samples) - first_frame, 0, plan.frames)  # [B]
        exists = (tf.range(plan.frames, dtype=tf.int64) < length[:, tf.newaxis])[:, :, tf.newaxis]
        mel = tf.where(exists, self._log_mel(audio), settings.padding_value)
        segment = audio[:, settings.padding : settings.padding + self._samples]
        pcm = tf.cast(tf.clip_by_value(tf.round(segment * PCM16_SCALE), -PCM16_SCALE, PCM16_SCALE - 1), tf.int16)
        hops = tf.reshape(pcm, [plan.batch_size, plan.frames, settings.hop_length])
        return {
            "mel": tf.cast(mel, self._mel_dtype),
            "audio": tf.reshape(tf.where(exists, hops, tf.constant(0, tf.int16)), [plan.batch_size, self._samples]),
            "mel_lengths": tf.cast(length, tf.int32),
            "first_frame": tf.cast(first_frame, tf.int32),
            "index": rows,
        }

    def _read(self, rows: tf.Tensor, first_frame: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Segments and as much of their clips around them as a mel needs.

        Returns:
            float32 [B, width], from `_span`'s first sample on and zeros after its last; the samples of the clips,
            int64 [B]; and where the segments begin, int64 [B].
        """

        def one(place: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            row, first = place
            audio = self._files.decode(row)
            samples = tf.size(audio, tf.int64)
            first = first % tf.maximum(self._settings.frames(samples) - self._plan.frames + 1, 1)
            begin, end = self._span(first, samples)
            return tf.pad(audio[begin:end], [[0, self._width - (end - begin)]]), samples, first

        def in_graph() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            if self._files.at_once:
                contents, data, size = self._files.contents(rows)
                begin, end = self._span(first_frame, size // 2)
                pieces = tf.strings.substr(contents, data + 2 * begin, 2 * (end - begin))
                audio = tf.io.decode_raw(pieces, tf.int16, fixed_length=2 * self._width)
                return tf.cast(audio, tf.float32) / PCM16_SCALE, size // 2, first_frame
            number = tf.TensorSpec([], tf.int64)
            signature = (tf.TensorSpec([self._width], tf.int16), number, number)
            audio, samples, first = tf.map_fn(one, (rows, first_frame), fn_output_signature=signature)
            return tf.cast(audio, tf.float32) / PCM16_SCALE, samples, first

        def in_python(rows: np.ndarray, first_frame: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            audio = np.zeros((len(rows), self._width), np.float32)
            samples, first = np.zeros(len(rows), np.int64), first_frame.copy()
            for place, row in enumerate(rows):
                clip = self._clips.read_samples(row, self._settings, np.float32)
                samples[place] = len(clip)
                first[place] %= max(self._settings.frames(len(clip)) - self._plan.frames + 1, 1)
                begin = max(first[place] * self._settings.hop_length - self._settings.padding, 0)
                piece = clip[begin:][: self._width]
                audio[place, : len(piece)] = piece
            return audio, samples, first

        def through_python() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            return tuple(tf.numpy_function(in_python, [rows, first_frame], [tf.float32, tf.int64, tf.int64]))

        audio, samples, first = self._files.choose(rows, in_graph, through_python)
        places = self._plan.batch_size
        audio = tf.ensure_shape(audio, [places, self._width])
        return audio, tf.ensure_shape(samples, [places]), tf.ensure_shape(first, [places])

    def _span(self, first_frame: tf.Tensor, samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The first sample of a clip that a segment's mel needs, and the one after the last."""
        begin = first_frame * self._settings.hop_length - self._settings.padding
        return tf.maximum(begin, 0), tf.minimum(begin + self._width, samples)

    def _mirror(self, audio: tf.Tensor, samples: tf.Tensor, first_frame: tf.Tensor) -> tf.Tensor:
        """What `_read` gave with the samples before a clip's first and after its last, as the mel mirrors them."""
        begin, _ = self._span(first_frame, samples)
        first = first_frame * self._settings.hop_length - self._settings.padding
        sample = first[:, tf.newaxis] + tf.range(self._width, dtype=tf.int64)  # [B, width], numbers in the clip
        last = samples[:, tf.newaxis] - 1
        sample = tf.where(sample < 0, -sample, tf.where(sample > last, 2 * last - sample, sample))
        place = tf.clip_by_value(sample - begin[:, tf.newaxis], 0, self._width - 1)
        exists = (sample >= 0) & (sample <= last)  # a short clip does not fill its mirror
        return tf.where(exists, tf.gather(audio, place, batch_dims=1), 0.0)
