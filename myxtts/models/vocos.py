"""Vocos (Siuzdak 2023) for mels, to run weights that others have trained."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

_KERNEL = 7
_LOUDEST = 100.0


class Vocos(keras.Model):
    """ConvNeXt blocks at the rate of the mel, then the inverse Fourier transform of what they say.

    Frame f of the spectrum is centred at (f + 1/2) * hop_length, as in our mels. What Vocos calls the padding `same`
    is this; its `center` gives the same samples without half a hop at either end.

    The published names of the layers are the keys of `layers_by_name`.

    Args:
        n_mels: bands of the mel.
        width: channels of the blocks.
        inner_width: channels inside a block.
        blocks: number of blocks.
        n_fft: samples of a frame.
        hop_length: samples from one frame to the next; n_fft - hop_length is even.
    """

    architecture = "vocos"
    exported_outputs = ("magnitude", "phase_cosine", "phase_sine")

    def __init__(
        self, n_mels: int, width: int, inner_width: int, blocks: int, n_fft: int, hop_length: int, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.n_mels = n_mels
        self.width = width
        self.inner_width = inner_width
        self.n_fft = n_fft
        self.hop_length = hop_length
        self.embed = keras.layers.Conv1D(width, _KERNEL, padding="same")
        self.embed.build((None, None, n_mels))
        self.norm = _normalisation(width)
        self.blocks = [VocosBlock(width, inner_width) for _ in range(blocks)]
        self.final_norm = _normalisation(width)
        self.out = keras.layers.Dense(n_fft + 2)
        self.out.build((None, None, width))
        self.layers_by_name: dict[str, keras.layers.Layer] = {
            "backbone.embed": self.embed,
            "backbone.norm": self.norm,
            **{
                f"backbone.convnext.{number}.{name}": layer
                for number, block in enumerate(self.blocks)
                for name, layer in block.layers_by_name.items()
            },
            "backbone.final_layer_norm": self.final_norm,
            "head.out": self.out,
        }
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
        self._window = window.astype(np.float32)
        self.built = True

    @property
    def context(self) -> int:
        """Frames on either side that a sample depends on."""
        return (len(self.blocks) + 1) * (_KERNEL // 2) + math.ceil(self.n_fft / self.hop_length / 2)

    def call(self, mel: tf.Tensor) -> tf.Tensor:
        """[B, F, n_mels] → [B, F * hop_length]."""
        magnitude, phase = self._spectrum(mel)
        return self._inverse(tf.complex(magnitude * tf.cos(phase), magnitude * tf.sin(phase)))

    def exported(self, mel: tf.Tensor) -> dict[str, tf.Tensor]:
        """[1, F, n_mels] → magnitude, cosine and sine of the phase, [1, bins, F] each: complex numbers and inverse
        transforms are not for other runtimes."""
        magnitude, phase = (tf.transpose(value, [0, 2, 1]) for value in self._spectrum(mel))
        return {"magnitude": magnitude, "phase_cosine": tf.cos(phase), "phase_sine": tf.sin(phase)}

    def _spectrum(self, mel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Magnitude and phase, [B, F, bins] each."""
        x = self.norm(self.embed(mel))  # [B, F, width]
        for block in self.blocks:
            x = block(x)
        log_magnitude, phase = tf.split(self.out(self.final_norm(x)), 2, axis=-1)  # [B, F, bins] each
        return tf.minimum(tf.exp(log_magnitude), _LOUDEST), phase

    def get_config(self) -> dict[str, Any]:
        return {
            "n_mels": self.n_mels,
            "width": self.width,
            "inner_width": self.inner_width,
            "blocks": len(self.blocks),
            "n_fft": self.n_fft,
            "hop_length": self.hop_length,
        }

    def _inverse(self, spectrum: tf.Tensor) -> tf.Tensor:
        frames = tf.signal.irfft(spectrum, [self.n_fft]) * self._window  # [B, F, n_fft]
        squared = tf.broadcast_to(tf.square(self._window), tf.shape(frames)[1:])
        audio = tf.signal.overlap_and_add(frames, self.hop_length)
        weight = tf.signal.overlap_and_add(squared, self.hop_length)
        edge = (self.n_fft - self.hop_length) // 2
        stop = tf.shape(audio)[1] - edge
        return audio[:, edge:stop] / tf.maximum(weight[edge:stop], 1e-11)


class VocosBlock(keras.layers.Layer):
    """Residual block: mix over time in each channel, normalise, mix over channels.

    Args:
        width: channels of input and output.
        inner_width: channels in between.
    """

    def __init__(self, width: int, inner_width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mix_time = keras.layers.DepthwiseConv1D(_KERNEL, padding="same")
        self.mix_time.build((None, None, width))
        self.norm = _normalisation(width)
        self.widen = keras.layers.Dense(inner_width)
        self.widen.build((None, None, width))
        self.narrow = keras.layers.Dense(width)
        self.narrow.build((None, None, inner_width))
        self.layers_by_name: dict[str, keras.layers.Layer] = {
            "dwconv": self.mix_time,
            "norm": self.norm,
            "pwconv1": self.widen,
            "pwconv2": self.narrow,
        }
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, F, width] → [B, F, width]."""
        inner = _gelu(self.widen(self.norm(self.mix_time(x))))  # [B, F, inner_width]
        return x + self.narrow(inner)


def _gelu(x: tf.Tensor) -> tf.Tensor:
    """By the error function: TensorFlow's own takes its complement, which ONNX does not have."""
    return 0.5 * x * (1 + tf.math.erf(x / math.sqrt(2)))


def _normalisation(width: int) -> keras.layers.Layer:
    layer = keras.layers.LayerNormalization(epsilon=1e-6)
    layer.build((None, None, width))
    return layer
