"""HiFi-GAN's generator (Kong, Kim & Bae 2020), to run weights that others have trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

_SLOPE = 0.1
_LAST_SLOPE = 0.01


class HifiGan(keras.Model):
    """Raises the rate of a mel step by step with transposed convolutions, each followed by residual blocks.

    The published names of the layers are the keys of `layers_by_name`.

    Args:
        n_mels: bands of the mel.
        channels: after the first convolution; every step halves them.
        upsample_rates: factor of each step; their product is the hop length.
        upsample_kernels: samples that the transposed convolution of each step sees; rate and kernel are both even or
            both odd.
        block_kind: 1: the convolutions of a block come in pairs, dilated and plain; 2: dilated ones only.
        block_kernels: of the residual blocks after each step, whose outputs are averaged.
        block_dilations: of the convolutions in each of these blocks.
    """

    architecture = "hifi-gan"
    exported_outputs = ("audio",)

    def __init__(
        self,
        n_mels: int,
        channels: int,
        upsample_rates: Sequence[int],
        upsample_kernels: Sequence[int],
        block_kind: int,
        block_kernels: Sequence[int],
        block_dilations: Sequence[Sequence[int]],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.n_mels = n_mels
        self.channels = channels
        self.upsample_rates = tuple(upsample_rates)
        self.upsample_kernels = tuple(upsample_kernels)
        self.block_kind = block_kind
        self.block_kernels = tuple(block_kernels)
        self.block_dilations = tuple(tuple(dilations) for dilations in block_dilations)
        self.layers_by_name: dict[str, keras.layers.Layer] = {}
        self.first = self._convolution("conv_pre", n_mels, channels, 7)
        self.steps = []
        self.blocks = []
        for step, (rate, kernel) in enumerate(zip(self.upsample_rates, self.upsample_kernels, strict=True)):
            wide, channels = channels, channels // 2
            layer = keras.layers.Conv1DTranspose(channels, kernel, rate, padding="same", name=f"ups_{step}")
            layer.build((None, None, wide))
            self.steps.append(self._named(f"ups.{step}", layer))
            self.blocks.append(
                [
                    self._block(f"resblocks.{step * len(self.block_kernels) + number}", channels, size, dilations)
                    for number, (size, dilations) in enumerate(
                        zip(self.block_kernels, self.block_dilations, strict=True)
                    )
                ]
            )
        self.last = self._convolution("conv_post", channels, 1, 7)
        self.built = True

    @property
    def hop_length(self) -> int:
        return math.prod(self.upsample_rates)

    @property
    def context(self) -> int:
        """Frames on either side that a sample depends on."""
        pairs = 1 if self.block_kind == 1 else 0
        frames, rate = 3.0, 1
        for factor, kernel in zip(self.upsample_rates, self.upsample_kernels, strict=True):
            frames += kernel / factor / rate
            rate *= factor
            reaches = (
                (size - 1) / 2 * sum(dilation + pairs for dilation in dilations)
                for size, dilations in zip(self.block_kernels, self.block_dilations, strict=True)
            )
            frames += max(reaches) / rate
        return math.ceil(frames + 3 / rate)

    def call(self, mel: tf.Tensor) -> tf.Tensor:
        """[B, F, n_mels] → [B, F * hop_length]."""
        x = self.first(mel)  # [B, F, channels]
        for step, blocks in zip(self.steps, self.blocks, strict=True):
            x = step(tf.nn.leaky_relu(x, _SLOPE))  # [B, F * rate, channels / 2]
            x = tf.add_n([self._through(block, x) for block in blocks]) / len(blocks)
        return tf.tanh(self.last(tf.nn.leaky_relu(x, _LAST_SLOPE)))[..., 0]

    def exported(self, mel: tf.Tensor) -> dict[str, tf.Tensor]:
        """[1, F, n_mels] → audio [1, F * hop_length], by name."""
        return {"audio": self(mel)}

    def get_config(self) -> dict[str, Any]:
        return {
            "n_mels": self.n_mels,
            "channels": self.channels,
            "upsample_rates": self.upsample_rates,
            "upsample_kernels": self.upsample_kernels,
            "block_kind": self.block_kind,
            "block_kernels": self.block_kernels,
            "block_dilations": self.block_dilations,
        }

    def _through(self, block: list[list[keras.layers.Layer]], x: tf.Tensor) -> tf.Tensor:
        for convolutions in block:
            change = x
            for convolution in convolutions:
                change = convolution(tf.nn.leaky_relu(change, _SLOPE))
            x = x + change
        return x

    def _block(
        self, name: str, channels: int, kernel: int, dilations: Sequence[int]
    ) -> list[list[keras.layers.Layer]]:
        """A residual block: for each dilation, the convolutions that are added together."""
        if self.block_kind == 2:
            return [
                [self._convolution(f"{name}.convs.{number}", channels, channels, kernel, dilation)]
                for number, dilation in enumerate(dilations)
            ]
        return [
            [
                self._convolution(f"{name}.convs1.{number}", channels, channels, kernel, dilation),
                self._convolution(f"{name}.convs2.{number}", channels, channels, kernel),
            ]
            for number, dilation in enumerate(dilations)
        ]

    def _convolution(
        self, name: str, inputs: int, outputs: int, kernel: int, dilation: int = 1
    ) -> keras.layers.Layer:
        layer = keras.layers.Conv1D(
            outputs, kernel, padding="same", dilation_rate=dilation, name=name.replace(".", "_")
        )
        layer.build((None, None, inputs))
        return self._named(name, layer)

    def _named(self, name: str, layer: keras.layers.Layer) -> keras.layers.Layer:
        self.layers_by_name[name] = layer
        return layer
