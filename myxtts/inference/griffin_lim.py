"""Audio from a mel without a trained vocoder, as a graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings, mel_filterbank, windows


class GriffinLim:
    """Fast Griffin-Lim (Perraudin, Balazs & Søndergaard 2013): finds phases that agree with the magnitudes.

    One graph serves all lengths. The same mel gives the same audio.

    ```python
    audio = GriffinLim(MelSettings())(mel)      # [F, n_mels] → [F * hop_length]
    ```

    Args:
        settings: of the mels.
        iterations: transforms back and forth; more than about 30 gain little.
        momentum: share of the last change that is added again; 0 is the plain algorithm.
    """

    name = "Griffin-Lim"

    # Steps of the search for magnitudes whose mel is the given one.
    _MAGNITUDE_STEPS = 10
    _SMALL = 1e-8

    def __init__(self, settings: MelSettings, iterations: int = 32, momentum: float = 0.99) -> None:
        self.settings = settings
        self.iterations = iterations
        self.momentum = momentum
        bands = mel_filterbank(settings)  # [n_mels, bins]
        self._bands = tf.constant(bands)
        self._inverse = tf.constant(np.linalg.pinv(bands).T.astype(np.float32))  # [n_mels, bins]
        self._window = tf.constant(windows(settings)[0])
        self._invert = tf.function(
            self._sound, input_signature=[tf.TensorSpec([None, settings.n_mels], tf.float32)], autograph=False
        )

    @property
    def sample_rate(self) -> int:
        return self.settings.sample_rate

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Natural-log mel float32 [F, n_mels] → audio float32 [F * hop_length]."""
        if not len(mel):
            return np.zeros(0, np.float32)
        return self._invert(mel).numpy()

    def stream(self, mel: np.ndarray, chunk_frames: int = 0) -> Iterator[np.ndarray]:
        """All of the audio in one piece, whatever `chunk_frames`: each phase depends on all frames."""
        if len(mel):
            yield self(mel)

    def _sound(self, mel: tf.Tensor) -> tf.Tensor:
        magnitude = self._magnitude(tf.exp(mel))  # [F, bins]
        angle = tf.random.stateless_uniform(tf.shape(magnitude), [0, 0], 0.0, 2 * np.pi)
        spectrum = tf.complex(magnitude * tf.cos(angle), magnitude * tf.sin(angle))
        envelope = self._envelope(tf.shape(mel)[0])

        def improve(step: tf.Tensor, spectrum: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, ...]:
            consistent = self._analyse(self._synthesise(spectrum, envelope))
            ahead = consistent + self.momentum * (consistent - last)
            real, imaginary = tf.math.real(ahead), tf.math.imag(ahead)
            scale = magnitude * tf.math.rsqrt(tf.square(real) + tf.square(imaginary) + self._SMALL**2)
            return step + 1, tf.complex(real * scale, imaginary * scale), consistent

        _, spectrum, _ = tf.while_loop(lambda step, *_: step < self.iterations, improve, [0, spectrum, spectrum])
        sound = self._synthesise(spectrum, envelope)
        padding = self.settings.padding
        return sound[padding : tf.shape(sound)[0] - padding]

    def _magnitude(self, mel: tf.Tensor) -> tf.Tensor:
        """Non-negative magnitudes [F, bins] whose mel is near [F, n_mels]: multiplicative updates from the
        pseudo-inverse (Lee & Seung 2001)."""
        magnitude = tf.maximum(mel @ self._inverse, self._SMALL)
        wanted = mel @ self._bands  # [F, bins]

        def refine(step: tf.Tensor, magnitude: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            given = (magnitude @ tf.transpose(self._bands)) @ self._bands
            return step + 1, magnitude * wanted / (given + self._SMALL)

        return tf.while_loop(lambda step, _: step < self._MAGNITUDE_STEPS, refine, [0, magnitude])[1]

    def _analyse(self, sound: tf.Tensor) -> tf.Tensor:
        frames = tf.signal.frame(sound, self.settings.n_fft, self.settings.hop_length)
        return tf.signal.rfft(frames * self._window)  # [F, bins]

    def _synthesise(self, spectrum: tf.Tensor, envelope: tf.Tensor) -> tf.Tensor:
        frames = tf.signal.irfft(spectrum, [self.settings.n_fft]) * self._window
        return tf.signal.overlap_and_add(frames, self.settings.hop_length) / envelope

    def _envelope(self, frames: tf.Tensor) -> tf.Tensor:
        """The sum of the squared windows of all frames at each sample."""
        squared = tf.tile(tf.square(self._window)[None], [frames, 1])
        return tf.maximum(tf.signal.overlap_and_add(squared, self.settings.hop_length), 1e-3)
