"""The sizes of models, and the default decoder of each. Needs no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from myxtts.config.config import ModelConfig


@dataclass(frozen=True)
class ModelSizes:
    """Widths and depths: `width` is the number of channels of a stack, `blocks` the number of its `ConvBlock`s.

    Attributes:
        patch: mel frames that the decoder handles as one position; more are cheaper, fewer are finer.
        reference_patch: the same for the reference encoder.
        voice: size of a voice (speaker embedding).
        dropout: share of activations dropped in training, in the encoder and the duration predictor.
    """

    encoder_width: int
    encoder_blocks: int
    duration_width: int
    duration_blocks: int
    decoder_width: int
    decoder_blocks: int
    reference_width: int
    reference_blocks: int
    voice: int
    kernel_size: int = 5
    patch: int = 2
    reference_patch: int = 4
    dropout: float = 0.0


SIZES = {
    "tiny": ModelSizes(
        encoder_width=128,
        encoder_blocks=4,
        duration_width=96,
        duration_blocks=2,
        decoder_width=160,
        decoder_blocks=5,
        reference_width=96,
        reference_blocks=3,
        voice=64,
    ),
    "base": ModelSizes(
        encoder_width=384,
        encoder_blocks=8,
        duration_width=256,
        duration_blocks=3,
        decoder_width=512,
        decoder_blocks=8,
        reference_width=256,
        reference_blocks=4,
        voice=192,
        dropout=0.1,
    ),
}


def resolve_decoder(config: ModelConfig) -> str:
    """`regression` or `flow`; `auto` is resolved by size."""
    if config.decoder == "auto":
        return "regression" if config.size == "tiny" else "flow"
    return config.decoder
