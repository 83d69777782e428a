"""How much arithmetic a training step is, by the usual rule: six operations per weight and position.

Two of them are the forward pass, four the backward pass. A position is a token in the encoder and the duration
predictor, a patch of frames in the decoder and the reference encoder. Alignment and optimizer are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from myxtts.models.xtts import XTTS

OPERATIONS_PER_WEIGHT = 6


def step_flops(model: XTTS, clips: int, frames: float, tokens: float, reference_frames: float) -> float:
    """Floating-point operations of a step.

    Args:
        model: what is trained.
        clips: per batch.
        frames, tokens: of a clip, padding included.
        reference_frames: of its reference crop.
    """
    sizes = model.sizes
    per_clip = (
        (model.encoder.count_params() + model.mean_head.count_params()) * tokens
        + model.duration_predictor.count_params() * tokens
        + model.decoder.count_params() * frames / sizes.patch
        + model.reference_encoder.count_params() * reference_frames / sizes.reference_patch
    )
    return OPERATIONS_PER_WEIGHT * clips * per_clip
