"""Batch requests to padded batches from audio files, in graph: runtime mode.

16-bit PCM WAV files at the target rate are read and decoded by the graph. A batch that has another kind of file is
read by one Python call, the whole batch at once. Mels are computed from the padded batch of samples, on the host, or
with `feature_device: accelerator` inside the compiled step (`add_device_features`), which then gets int16 samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel, size, trim
from myxtts.audio.reading import PCM16_SCALE
from myxtts.audio.wav import CHUNK_HEADER
from myxtts.audio.wav_tf import decode_pcm16
from myxtts.data.batches.clip_table import ClipTable, TableInGraph
from myxtts.data.batches.runtime_clips import CHANNELS, DATA_OFFSET, SAMPLES, RuntimeClips, crop_samples

_CHANGED = "the audio file changed after it was checked, and can no longer be read in graph:"


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
    """

    def __init__(
        self,
        clips: RuntimeClips,
        table: ClipTable,
        settings: MelSettings,
        mel_dtype: str,
        on_device: bool = False,
        reference_frames: int = 0,
    ) -> None:
        self._clips = clips
        self._table = TableInGraph(table)
        self._settings = settings
        self._mel_dtype = tf.as_dtype(mel_dtype)
        self._on_device = on_device
        self._reference_frames = reference_frames
        # Compiled once per batch shape, which saves a quarter of the time; on the host a clip at a time is quicker.
        self._log_mel = tf.function(LogMel(settings, clip_by_clip=True), jit_compile=True, autograph=False)
        self._tokens = tf.constant(clips.token_data)
        self._paths = tf.constant([*clips.audio_paths, ""])
        self._through_python = tf.constant(np.append(~clips.graph_readable, False))
        self._any_through_python = not clips.graph_readable.all()
        # One channel and nothing to trim: a batch of files is then decoded at once, at the places known from the
        # headers, which takes about half the time of going through them clip by clip.
        self._at_once = not settings.trim_silence and bool((clips.pcm[:, CHANNELS] <= 1).all())
        self._pcm = tf.constant(np.vstack([clips.pcm, np.zeros((1, 3), np.int64)]))

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.batch_requests` asks for."""
        rows = request["rows"][: request["size"]]
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
            chosen, _, frame = self._table.references(rows, columns, request["draw"], self._reference_frames)
            crops = self._read_crops(chosen, tf.cast(frame[:, 0], tf.int64))
            if self._on_device:
                batch["reference_audio"] = crops
            else:
                batch["reference_mel"] = tf.cast(self._log_mel(crops), self._mel_dtype)
        return batch

    def _read(self, rows: tf.Tensor, samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Samples of clips [B], zero-padded to `samples`: int16 or float32 [B, S], and their lengths, int32 [B]."""

        def one(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            audio = self._decode(row)[:samples]
            return tf.pad(audio, [[0, samples - tf.size(audio)]]), tf.size(audio)

        def in_graph() -> tuple[tf.Tensor, tf.Tensor]:
            if self._at_once:
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

        audio, lengths = self._choose(rows, in_graph, through_python)
        return tf.ensure_shape(audio, [rows.shape[0], None]), tf.ensure_shape(lengths, [rows.shape[0]])

    def _read_crops(self, rows: tf.Tensor, first_frame: tf.Tensor) -> tf.Tensor:
        """Samples under the reference frames of clips [B]: int16 or float32 [B, reference_frames · hop_length]."""
        settings, frames = self._settings, self._reference_frames
        samples = frames * settings.hop_length

        def one(place: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            row, first = place
            audio = self._decode(row)
            whole = tf.maximum(settings.frames(tf.size(audio)), 1) * settings.hop_length
            position = (tf.cast(first, tf.int32) * settings.hop_length + tf.range(samples)) % whole
            return tf.gather(tf.pad(audio, [[0, 1]]), tf.minimum(position, tf.maximum(tf.size(audio) - 1, 0)))

        def in_graph() -> tuple[tf.Tensor]:
            if self._at_once:
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

        (crops,) = self._choose(rows, in_graph, through_python)
        return tf.ensure_shape(crops, [rows.shape[0], samples])

    def _decode_at_once(self, rows: tf.Tensor, samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Samples of one-channel clips, cut or zero-padded to `samples`: int16 [B, S]; their lengths, int32 [B]."""
        contents, begin, size = self._files(rows)
        audio = tf.io.decode_raw(tf.strings.substr(contents, begin, size), tf.int16, fixed_length=2 * samples)
        return audio, tf.cast(size // 2, tf.int32)

    def _crop_at_once(self, rows: tf.Tensor, first_frame: tf.Tensor) -> tf.Tensor:
        """As `crop_samples` does with one clip: int16 [B, reference_frames · hop_length]."""
        contents, begin, size = self._files(rows)
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

    def _files(self, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
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

    def _decode(self, row: tf.Tensor) -> tf.Tensor:
        """One clip's samples in graph, int16 [n]; none for an empty place."""

        return tf.cond(
            row < 0, lambda: tf.zeros([0], tf.int16), lambda: read_clip(self._paths[row], self._settings, _CHANGED)
        )

    def _read_file(self, row: int) -> np.ndarray:
        dtype = np.int16 if self._on_device else np.float32
        return self._clips.read_samples(row, self._settings, dtype)

    def _choose(
        self,
        rows: tf.Tensor,
        in_graph: Callable[[], tuple[tf.Tensor, ...]],
        through_python: Callable[[], tuple[tf.Tensor, ...]],
    ) -> tuple[tf.Tensor, ...]:
        """A batch goes through Python if it has a file that the graph cannot decode; most data sets have none."""
        if not self._any_through_python:
            return in_graph()
        return tf.cond(tf.reduce_any(tf.gather(self._through_python, self._place(rows))), through_python, in_graph)

    def _place(self, rows: tf.Tensor) -> tf.Tensor:
        """Where clips are in the columns, whose last entry is the empty place."""
        return tf.where(rows < 0, tf.constant(len(self._clips), tf.int64), rows)

    @property
    def _sample_dtype(self) -> tf.DType:
        """On the host what Python reads keeps its full precision; the device is sent 16 bits."""
        return tf.int16 if self._on_device else tf.float32

    def _from_pcm16(self, audio: tf.Tensor) -> tf.Tensor:
        return audio if self._on_device else tf.cast(audio, tf.float32) / PCM16_SCALE


def read_clip(path: tf.Tensor, settings: MelSettings, refusal: str) -> tf.Tensor:
    """One 16-bit PCM WAV file at the settings' rate, int16 [n], trimmed if they say so; for any other file an error
    that begins with `refusal`."""
    audio, rate, _, ok = decode_pcm16(tf.io.read_file(path))
    usable = tf.logical_and(ok, tf.equal(rate, settings.sample_rate))
    with tf.control_dependencies([tf.debugging.Assert(usable, [refusal, path])]):
        return trim(tf.identity(audio), settings)


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


def _assert_none(changed: tf.Tensor, paths: tf.Tensor) -> tf.Operation:
    return tf.debugging.Assert(tf.logical_not(tf.reduce_any(changed)), [_CHANGED, tf.boolean_mask(paths, changed)])
