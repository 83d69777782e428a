"""Batch requests to padded batches from audio files, in graph: runtime mode.

`clip_files` reads them. Mels are computed from the padded batch of samples, on the host, or with
`feature_device: accelerator` inside the compiled step (`add_device_features`), which then gets int16 samples.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel, size
from myxtts.audio.reading import PCM16_SCALE
from myxtts.data.batches.clip_files import ClipFiles
from myxtts.data.batches.clip_table import ClipTable, TableInGraph
from myxtts.data.batches.runtime_clips import RuntimeClips, crop_samples
from myxtts.data.batches.share import WHOLE, Share


class AudioLoader:
    """Batches from audio files.

    Args:
        clips: the data set.
        table: its clips.
        settings: what a mel is.
        mel_dtype: type of the mels in a batch, `float16` or `float32`.
        on_device: leave the mels to the compiled step: the batch carries `audio` int16 [B, S] and `audio_lengths` in
            place of `mel`, and `reference_audio` in place of `reference_mel`.
        reference_frames: frames of `reference_mel`; 0 for none.
        share: which places of a batch are loaded.
    """

    def __init__(
        self,
        clips: RuntimeClips,
        table: ClipTable,
        settings: MelSettings,
        mel_dtype: str,
        on_device: bool = False,
        reference_frames: int = 0,
        share: Share = WHOLE,
    ) -> None:
        self._clips = clips
        self._table = TableInGraph.of(table, share)
        self._settings = settings
        self._mel_dtype = tf.as_dtype(mel_dtype)
        self._on_device = on_device
        self._reference_frames = reference_frames
        # Compiled once per batch shape, which saves a quarter of the time; on the host a clip at a time is quicker.
        self._log_mel = tf.function(LogMel(settings, clip_by_clip=True), jit_compile=True, autograph=False)
        self._tokens = tf.constant(clips.token_data)
        self._files = ClipFiles(clips, settings)

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.batch_requests` asks for."""
        rows = self._table.rows(request)
        columns = self._table.columns(rows)
        batch = self._table.text(rows, columns, request["tokens"], self._tokens)
        frames = request["frames"]
        # The last frame's window reaches beyond its hop, also where a long clip is cropped.
        samples = frames * self._settings.hop_length + self._settings.n_fft
        audio, lengths = self._read(rows, samples)
        batch["mel_lengths"] = tf.minimum(self._settings.frames(lengths), frames)
        if self._on_device:
            batch |= {"audio": audio, "audio_lengths": lengths}
        else:
            batch["mel"] = tf.cast(self._log_mel(audio, lengths)[:, :frames], self._mel_dtype)
        if self._reference_frames:
            chosen, _, frame = self._table.references(request, columns, self._reference_frames)
            crops = self._read_crops(chosen, tf.cast(frame[:, 0], tf.int64))
            if self._on_device:
                batch["reference_audio"] = crops
            else:
                batch["reference_mel"] = tf.cast(self._log_mel(crops), self._mel_dtype)
        return batch | self._table.whole_batch(request)

    def _read(self, rows: tf.Tensor, samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Samples of clips [B], zero-padded to `samples`: int16 or float32 [B, S], and their lengths, int32 [B]."""

        def one(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            audio = self._files.decode(row)[:samples]
            return tf.pad(audio, [[0, samples - tf.size(audio)]]), tf.size(audio)

        def in_graph() -> tuple[tf.Tensor, tf.Tensor]:
            if self._files.at_once:
                audio, lengths = self._decode_at_once(rows, samples)
                return self._from_pcm16(audio), tf.minimum(lengths, samples)
            signature = (tf.TensorSpec([None], tf.int16), tf.TensorSpec([], tf.int32))
            audio, lengths = tf.map_fn(one, rows, fn_output_signature=signature)
            return self._from_pcm16(audio), lengths

        def in_python(rows: np.ndarray, samples: np.int32) -> tuple[np.ndarray, np.ndarray]:
            audio = np.zeros((len(rows), samples), self._sample_dtype.as_numpy_dtype)
            lengths = np.zeros(len(rows), np.int32)
            for place in np.flatnonzero(rows >= 0):
                clip = self._read_file(rows[place])[:samples]
                audio[place, : len(clip)] = clip
                lengths[place] = len(clip)
            return audio, lengths

        def through_python() -> tuple[tf.Tensor, tf.Tensor]:
            return tuple(tf.numpy_function(in_python, [rows, samples], [self._sample_dtype, tf.int32]))

        audio, lengths = self._files.choose(rows, in_graph, through_python)
        return tf.ensure_shape(audio, [rows.shape[0], None]), tf.ensure_shape(lengths, [rows.shape[0]])

    def _read_crops(self, rows: tf.Tensor, first_frame: tf.Tensor) -> tf.Tensor:
        """Samples under the reference frames of clips [B]: int16 or float32 [B, reference_frames · hop_length]."""
        settings, frames = self._settings, self._reference_frames
        samples = frames * settings.hop_length

        def one(place: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            row, first = place
            audio = self._files.decode(row)
            whole = tf.maximum(settings.frames(tf.size(audio)), 1) * settings.hop_length
            position = (tf.cast(first, tf.int32) * settings.hop_length + tf.range(samples)) % whole
            return tf.gather(tf.pad(audio, [[0, 1]]), tf.minimum(position, tf.maximum(tf.size(audio) - 1, 0)))

        def in_graph() -> tuple[tf.Tensor]:
            if self._files.at_once:
                return (self._from_pcm16(self._crop_at_once(rows, first_frame)),)
            signature = tf.TensorSpec([samples], tf.int16)
            return (self._from_pcm16(tf.map_fn(one, (rows, first_frame), fn_output_signature=signature)),)

        def in_python(rows: np.ndarray, first_frame: np.ndarray) -> np.ndarray:
            crops = np.zeros((len(rows), samples), self._sample_dtype.as_numpy_dtype)
            for place in np.flatnonzero(rows >= 0):
                crops[place] = crop_samples(self._read_file(rows[place]), int(first_frame[place]), frames, settings)
            return crops

        def through_python() -> tuple[tf.Tensor]:
            return (tf.numpy_function(in_python, [rows, first_frame], self._sample_dtype),)

        (crops,) = self._files.choose(rows, in_graph, through_python)
        return tf.ensure_shape(crops, [rows.shape[0], samples])

    def _decode_at_once(self, rows: tf.Tensor, samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Samples of one-channel clips, cut or zero-padded to `samples`: int16 [B, S]; their lengths, int32 [B]."""
        contents, begin, size = self._files.contents(rows)
        audio = tf.io.decode_raw(tf.strings.substr(contents, begin, size), tf.int16, fixed_length=2 * samples)
        return audio, tf.cast(size // 2, tf.int32)

    def _crop_at_once(self, rows: tf.Tensor, first_frame: tf.Tensor) -> tf.Tensor:
        """As `crop_samples` does with one clip: int16 [B, reference_frames · hop_length]."""
        contents, begin, size = self._files.contents(rows)
        hop = 2 * self._settings.hop_length  # in bytes, as everything here
        wanted, whole, first = self._reference_frames * hop, size // hop * hop, first_frame * hop

        def missing(crop: tf.Tensor) -> tf.Tensor:
            return tf.where(whole > 0, wanted - tf.cast(tf.strings.length(crop), tf.int64), 0)

        def begin_again(crop: tf.Tensor) -> tuple[tf.Tensor]:
            more = tf.strings.substr(contents, begin, tf.clip_by_value(missing(crop), 0, whole))
            return (tf.strings.join([crop, more]),)

        crop = tf.strings.substr(contents, begin + first, tf.minimum(whole - first, wanted))
        (crop,) = tf.while_loop(lambda crop: tf.reduce_any(missing(crop) > 0), begin_again, [crop])
        return tf.io.decode_raw(crop, tf.int16, fixed_length=wanted)

    def _read_file(self, row: int) -> np.ndarray:
        dtype = np.int16 if self._on_device else np.float32
        return self._clips.read_samples(row, self._settings, dtype)

    @property
    def _sample_dtype(self) -> tf.DType:
        """On the host what Python reads keeps its full precision; the device is sent 16 bits."""
        return tf.int16 if self._on_device else tf.float32

    def _from_pcm16(self, audio: tf.Tensor) -> tf.Tensor:
        return audio if self._on_device else tf.cast(audio, tf.float32) / PCM16_SCALE


def add_device_features(
    batch: Mapping[str, tf.Tensor], log_mel: LogMel, settings: MelSettings
) -> dict[str, tf.Tensor]:
    """Computes `mel` and `reference_mel` of a batch that carries samples; called inside the compiled step.

    Args:
        batch: of an `AudioLoader` with `on_device`; a batch with mels is returned as it is.
        log_mel: made once, outside.
        settings: its settings.
    """
    features = dict(batch)
    if "audio" in features:
        audio = features.pop("audio")
        mel = log_mel(audio, features.pop("audio_lengths"))
        frames = (size(audio, 1) - settings.n_fft) // settings.hop_length
        features["mel"] = mel[:, :frames]
    if "reference_audio" in features:
        features["reference_mel"] = log_mel(features.pop("reference_audio"))
    return features
