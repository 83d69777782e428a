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
        clip_by_clip: whether a batch is worked through one clip at a time, which on a CPU takes half as long
            because the frames of one clip stay in the cache; a GPU wants the batch at once. By default clip by
            clip unless TensorFlow sees a GPU.

    Example:

        mel = LogMel(MelSettings())(audio, lengths)  # [B, n], [B] -> [B, n // hop_length, n_mels]
    """

    def __init__(self, settings: MelSettings, *, clip_by_clip: bool | None = None) -> None:
        if clip_by_clip is None:
            clip_by_clip = not tf.config.list_physical_devices("GPU")
        self._settings = settings
        self._clip_by_clip = clip_by_clip
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
            one_length = None if lengths is None else tf.reshape(lengths, [1])
            return self(audio[tf.newaxis], one_length)[0]

        settings = self._settings
        scale = 1 / PCM16_SCALE if audio.dtype == tf.int16 else 1.0
        audio = tf.cast(audio, tf.float32)
        if lengths is not None:
            lengths = tf.cast(lengths, tf.int32)
        samples = _mirrored(audio, lengths, settings.padding)
        frames = _size(audio, 1) // settings.hop_length
        samples = samples[:, : 1 + frames * settings.hop_length + 2 * settings.padding]
        weights = tf.constant(self._weights * np.float32(scale))
        if self._clip_by_clip and audio.shape[0] != 1:
            shape = tf.TensorSpec([_static(frames), settings.n_mels], tf.float32)
            mel = tf.map_fn(
                lambda clip: self._mel(clip[tf.newaxis], frames, weights)[0], samples, fn_output_signature=shape
            )
        else:
            mel = self._mel(samples, frames, weights)
        if lengths is not None:
            inside = tf.range(frames) < (lengths // settings.hop_length)[:, tf.newaxis]
            mel = tf.where(inside[:, :, tf.newaxis], mel, settings.padding_value)
        return tf.ensure_shape(mel, [audio.shape[0], _static(frames), settings.n_mels])

    def _mel(self, samples: tf.Tensor, frames: int | tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """From mirrored clips [B, 1 + n], beginning with the sample before the first, to [B, frames, n_mels]."""
        settings = self._settings
        earlier, now = samples[:, :-1], samples[:, 1:]
        emphasised = now - EMPHASIS * earlier
        windowed = self._windowed(emphasised, earlier, frames)
        last = now[:, settings.n_fft - 1 :: settings.hop_length][:, :frames, tf.newaxis]
        spectrum = tf.signal.rfft(windowed)[:, :, : self._weights.shape[0]]
        # What belongs into the first sample of a frame comes from its other end; there it adds the same to each bin.
        real = tf.math.real(spectrum) + last * float(self._slope[0])
        magnitude = tf.sqrt(tf.square(real) + tf.square(tf.math.imag(spectrum)))
        # One product for all: a batch of products is several times slower on a CPU.
        mel = tf.matmul(tf.reshape(magnitude, [-1, self._weights.shape[0]]), weights)
        mel = tf.reshape(mel, [_size(samples, 0), frames, settings.n_mels])
        # Raised to the floor after the logarithm, so that whatever lies below it has exactly one value.
        logarithm = tf.math.log(tf.maximum(mel, np.finfo(np.float32).tiny))
        return tf.maximum(logarithm, settings.padding_value)

    def _windowed(self, emphasised: tf.Tensor, earlier: tf.Tensor, frames: int | tf.Tensor) -> tf.Tensor:
        """Emphasised frames [B, frames, n_fft], without what belongs into their first sample."""
        n_fft, hop = self._settings.n_fft, self._settings.hop_length
        slope = np.where(np.arange(n_fft) == 0, np.float32(0), self._slope)
        if n_fft % hop:
            return (
                tf.signal.frame(emphasised, n_fft, hop) * self._window + tf.signal.frame(earlier, n_fft, hop) * slope
            )
        # Frames are made of whole blocks: cutting these out needs no gathering of samples.
        parts = n_fft // hop
        blocks = [_size(emphasised, 0), frames + parts - 1, hop]
        emphasised, earlier = tf.reshape(emphasised, blocks), tf.reshape(earlier, blocks)
        columns = []
        for part in range(parts):
            span = slice(part * hop, (part + 1) * hop)
            columns.append(
                emphasised[:, part : part + frames] * self._window[span]
                + earlier[:, part : part + frames] * slope[span]
            )
        return tf.concat(columns, axis=2)


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
    """[B, 1 + padding + n + padding]: each clip between its mirrored ends, and one sample (zero) before it all.

    The mirror of a clip begins at its own end, not at that of the batch. Where a clip is too short to fill the
    mirror, zeros lie beyond.
    """
    batch, samples = _size(audio, 0), _size(audio, 1)
    if lengths is not None:
        audio = tf.where(tf.range(samples) < lengths[:, tf.newaxis], audio, 0.0)
    before = audio[:, 1 : 1 + padding][:, ::-1]
    before = tf.pad(before, [[0, 0], [1 + padding - _size(before, 1), 0]])
    if lengths is None:
        reach = (
            tf.clip_by_value(samples - 1, 0, padding) if tf.is_tensor(samples) else min(max(samples - 1, 0), padding)
        )
        after = audio[:, samples - 1 - reach : samples - 1][:, ::-1]
        return tf.concat([before, audio, tf.pad(after, [[0, 0], [0, padding - reach]])], axis=1)
    offsets = tf.range(padding)
    source = lengths[:, tf.newaxis] - 2 - offsets
    after = tf.gather(audio, tf.maximum(source, 0), batch_dims=1)
    after = tf.where(source >= 0, after, 0.0)
    rows = tf.broadcast_to(tf.range(batch)[:, tf.newaxis], tf.shape(source))
    places = tf.stack([rows, 1 + padding + lengths[:, tf.newaxis] + offsets], axis=2)
    whole = tf.concat([before, audio, tf.zeros([batch, padding])], axis=1)
    return tf.tensor_scatter_nd_update(whole, places, after)


def _size(tensor: tf.Tensor, axis: int) -> int | tf.Tensor:
    """A dimension as a number where it is known while tracing, so that what follows has static shapes."""
    static = tensor.shape[axis]
    return tf.shape(tensor)[axis] if static is None else static


def _static(size: int | tf.Tensor) -> int | None:
    return None if tf.is_tensor(size) else size
