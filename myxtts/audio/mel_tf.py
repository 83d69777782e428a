"""The log-mel spectrogram in a TensorFlow graph, for runtime mode on the host and for features on the device.

The same definition as `mel` (see `docs/mel.md`), the same windows and weights, and the same emphasis of the frames,
so the two differ only by rounding.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import EMPHASIS, MelSettings, band_weights, silence_ratio, windows
from myxtts.audio.reading import PCM16_SCALE


class LogMel:
    """Log-mels of a clip or of a padded batch, in graph; works under `jit_compile=True`.

    Args:
        settings: the audio is taken to be at their sample rate. It is not trimmed.
        clip_by_clip: whether a batch is worked through one clip at a time, which takes half as long on a CPU,
            because the frames of one clip stay in the cache; a GPU wants the batch at once. By default clip by clip
            unless TensorFlow sees a GPU: say so where a pipeline computes mels on the host of one. (A hop that does
            not divide n_fft is always done clip by clip.)

    Example:

        mel = LogMel(MelSettings())(audio, lengths)  # [B, n], [B] -> [B, n // hop_length, n_mels]
    """

    def __init__(self, settings: MelSettings, *, clip_by_clip: bool | None = None) -> None:
        if clip_by_clip is None:
            clip_by_clip = not tf.config.list_physical_devices("GPU")
        self._settings = settings
        self._clip_by_clip = clip_by_clip or settings.n_fft % settings.hop_length != 0
        self._window, self._slope = windows(settings)
        self._weights = band_weights(settings)

    def __call__(self, audio: tf.Tensor, lengths: tf.Tensor | None = None) -> tf.Tensor:
        """The log-mel.

        Args:
            audio: [n] or [B, n], int16, or floating point of full scale ±1.
            lengths: integer [B] (or scalar, for one clip): samples of each clip; what lies beyond is not looked at.
                None: all of them. Padding a clip further does not change its mel.

        Returns:
            float32 [n // hop_length, n_mels], or the same with B before it. Frames beyond the
            lengths // hop_length of a clip hold `settings.padding_value`.
        """
        audio = tf.convert_to_tensor(audio)
        if audio.shape.rank not in (1, 2):
            raise ValueError(f"audio should have one or two dimensions (got shape {audio.shape})")
        if audio.dtype != tf.int16 and not audio.dtype.is_floating:
            raise TypeError(f"audio should be int16 or floating point (got {audio.dtype.name})")
        if audio.shape.rank == 1:
            return self(audio[tf.newaxis], None if lengths is None else tf.reshape(lengths, [1]))[0]

        settings = self._settings
        weights = self._weights_for(audio.dtype)
        audio = tf.cast(audio, tf.float32)
        frames = size(audio, 1) // settings.hop_length
        if lengths is not None:
            lengths = tf.cast(lengths, tf.int32)
        signals = _mirrored(audio, lengths, settings.padding)
        mel = self._mels(signals[:, : frames * settings.hop_length + 2 * settings.padding], frames, weights)
        if lengths is not None:
            inside = tf.range(frames) < (lengths // settings.hop_length)[:, tf.newaxis]
            mel = tf.where(inside[:, :, tf.newaxis], mel, settings.padding_value)
        return tf.ensure_shape(mel, [audio.shape[0], _static(frames), settings.n_mels])

    def in_context(self, audio: tf.Tensor) -> tf.Tensor:
        """The log-mel of parts of clips, the same as the whole clips have there.

        Args:
            audio: [B, padding + n + padding], int16, or floating point of full scale ±1: n samples, a multiple of
                `hop_length`, and `settings.padding` on either side, mirrored where the clip begins or ends.

        Returns:
            float32 [B, n // hop_length, n_mels].
        """
        frames = (size(audio, 1) - 2 * self._settings.padding) // self._settings.hop_length
        return self._mels(tf.cast(audio, tf.float32), frames, self._weights_for(audio.dtype))

    def _weights_for(self, dtype: tf.DType) -> tf.Tensor:
        return tf.constant(self._weights * np.float32(1 / PCM16_SCALE if dtype == tf.int16 else 1.0))

    def _mels(self, signals: tf.Tensor, frames: int | tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """From signals with what lies around them [B, frames · hop_length + 2 · padding] to [B, frames, n_mels]."""
        settings = self._settings
        if signals.shape[0] == 1:
            return self._mel(signals[0], weights)[tf.newaxis]
        if self._clip_by_clip:
            signature = tf.TensorSpec([_static(frames), settings.n_mels], tf.float32)
            return tf.map_fn(lambda signal: self._mel(signal, weights), signals, fn_output_signature=signature)
        # The clips one after the other, as if they were one; frames that reach into the next clip are left out.
        overlap = settings.n_fft // settings.hop_length - 1
        mel = self._mel(tf.reshape(signals, [-1]), weights)
        mel = tf.reshape(tf.pad(mel, [[0, overlap], [0, 0]]), [size(signals, 0), frames + overlap, settings.n_mels])
        return mel[:, :frames]

    def _mel(self, signal: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """From a mirrored signal [n] to [1 + (n - n_fft) // hop_length, n_mels]."""
        settings = self._settings
        earlier = tf.concat([[0.0], signal[:-1]], axis=0)
        windowed = self._windowed(signal - EMPHASIS * earlier, earlier)
        last = signal[settings.n_fft - 1 :: settings.hop_length, tf.newaxis]
        spectrum = tf.signal.rfft(windowed)[:, : self._weights.shape[0]]
        # What belongs in the first sample of a frame comes from its other end; it adds the same to every bin.
        real = tf.math.real(spectrum) + last * float(self._slope[0])
        magnitude = tf.sqrt(tf.square(real) + tf.square(tf.math.imag(spectrum)))
        mel = tf.matmul(magnitude, weights)
        # Raised to the floor after the logarithm, so that whatever lies below it has exactly one value.
        logarithm = tf.math.log(tf.maximum(mel, np.finfo(np.float32).tiny))
        return tf.maximum(logarithm, settings.padding_value)

    def _windowed(self, emphasised: tf.Tensor, earlier: tf.Tensor) -> tf.Tensor:
        """Emphasised frames [frames, n_fft], without what belongs in their first sample."""
        n_fft, hop = self._settings.n_fft, self._settings.hop_length
        slope = np.where(np.arange(n_fft) == 0, np.float32(0), self._slope)
        if n_fft % hop:
            emphasised, earlier = tf.signal.frame(emphasised, n_fft, hop), tf.signal.frame(earlier, n_fft, hop)
            return emphasised * self._window + earlier * slope
        # Frames are made of whole blocks, which can be taken as they lie in memory.
        parts = n_fft // hop
        emphasised, earlier = tf.reshape(emphasised, [-1, hop]), tf.reshape(earlier, [-1, hop])
        frames = size(emphasised, 0) - parts + 1
        columns = []
        for part in range(parts):
            rows, samples = slice(part, part + frames), slice(part * hop, (part + 1) * hop)
            columns.append(emphasised[rows] * self._window[samples] + earlier[rows] * slope[samples])
        return tf.concat(columns, axis=1)


def trim(audio: tf.Tensor, settings: MelSettings) -> tf.Tensor:
    """One clip [n], int16 or float32, without the silence at its ends: exactly what `mel.trim` leaves."""
    if not settings.trim_silence:
        return audio
    hop, count = settings.hop_length, tf.size(audio)
    pcm = audio if audio.dtype == tf.int16 else tf.clip_by_value(tf.round(audio * PCM16_SCALE), -32768, 32767)
    blocks = tf.maximum(1, (count + hop - 1) // hop)
    padded = tf.pad(tf.cast(pcm, tf.float64), [[0, blocks * hop - count]])
    energy = tf.reduce_sum(tf.square(tf.reshape(padded, [blocks, hop])), axis=1)
    loudest = tf.reduce_max(energy)
    sound = tf.cast(energy * silence_ratio(settings) >= loudest, tf.int32)
    first = tf.argmax(sound, output_type=tf.int32)
    last = blocks - 1 - tf.argmax(sound[::-1], output_type=tf.int32)
    start = tf.maximum(0, first * hop - settings.padding)
    stop = tf.minimum(count, (last + 1) * hop + settings.padding)
    silent = tf.equal(loudest, 0)
    return audio[tf.where(silent, 0, start) : tf.where(silent, count, stop)]


def _mirrored(audio: tf.Tensor, lengths: tf.Tensor | None, padding: int) -> tf.Tensor:
    """[B, padding + n + padding]: each clip between its mirrored ends.

    The mirror of a clip begins at its own end, not at that of the batch. Where a clip is too short to fill the
    mirror, zeros lie beyond.
    """
    batch, samples = size(audio, 0), size(audio, 1)
    if lengths is not None:
        audio = tf.where(tf.range(samples) < lengths[:, tf.newaxis], audio, 0.0)
    before = audio[:, 1 : 1 + padding][:, ::-1]
    before = tf.pad(before, [[0, 0], [padding - size(before, 1), 0]])
    if lengths is None:
        after = audio[:, -1 - padding : -1][:, ::-1]
        return tf.concat([before, audio, tf.pad(after, [[0, 0], [0, padding - size(after, 1)]])], axis=1)
    offsets = tf.range(padding)
    source = lengths[:, tf.newaxis] - 2 - offsets
    after = tf.where(source >= 0, tf.gather(audio, tf.maximum(source, 0), batch_dims=1), 0.0)
    rows = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(source))
    places = tf.stack([rows, padding + lengths[:, tf.newaxis] + offsets], axis=2)
    whole = tf.concat([before, audio, tf.zeros([batch, padding])], axis=1)
    return tf.tensor_scatter_nd_update(whole, places, after)


def size(tensor: tf.Tensor, axis: int) -> int | tf.Tensor:
    """A dimension as a number where it is known while tracing, so that what follows has static shapes."""
    static = tensor.shape[axis]
    return tf.shape(tensor)[axis] if static is None else static


def _static(size: int | tf.Tensor) -> int | None:
    return None if tf.is_tensor(size) else size
