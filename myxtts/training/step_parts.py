"""What a training step spends its time on, part by part.

A compiled step cannot be taken apart: XLA fuses across the parts. So each part of the forward pass is compiled by
itself and timed on inputs of the shape and type that it has in the step, and larger programs around it: the forward
pass with the losses, the gradient, the whole step. What backward and optimizer take is the difference between two of
these. All programs take turns, call by call, and medians are given.

The parts need not add up to the forward pass: alone, each reads its inputs from memory and writes its outputs there.
The difference is given as `between the parts` (masks, gathers, noise, and what fusing saves, which may make it
negative).

`step_flops` says how much arithmetic a step is, without measuring.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.config.config import XTTSConfig
from myxtts.data.batches.audio_loader import add_device_features
from myxtts.models.alignment import monotonic_alignment
from myxtts.models.create import create_model
from myxtts.models.masking import length_mask
from myxtts.models.xtts import XTTS, Outputs
from myxtts.training.device import Device, precision_policy
from myxtts.training.losses import TOTAL, compute_losses
from myxtts.training.measured_steps import measured_step
from myxtts.training.objective import Shape

FORWARD, GRADIENT, STEP = "forward pass", "gradient", "step"
MELS = "mels on the device"
REST = "between the parts"
BACKWARD, OPTIMIZER = "backward", "optimizer"

OPERATIONS_PER_WEIGHT = 6
_SEED = (0, 1)

Batch = Mapping[str, tf.Tensor]
Program = Callable[[], Any]


@dataclass(frozen=True)
class StepParts:
    """Milliseconds of the parts of a step, medians.

    Attributes:
        shape: clips, frames and tokens of the batch.
        parts: in the order of a step; `between the parts` may be negative.
        forward_ms: forward pass and losses as one program.
        step_ms: the whole step.
        calls: that the medians are over.
        compiled: whether by XLA.
    """

    shape: Shape
    parts: Mapping[str, float]
    forward_ms: float
    step_ms: float
    calls: int
    compiled: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"parts": dict(self.parts)}


def measure_parts(
    config: XTTSConfig, batch: Batch, device: Device, calls: int = 10, on_program: Callable[[str], None] | None = None
) -> StepParts:
    """Builds the configured model and measures its step on one batch.

    Args:
        config: of the model and of how the step is run.
        batch: as the pipeline gives it.
        device: where to measure.
        calls: of each program, after those that compile it.
        on_program: called with the name of each program before it is compiled.
    """
    with tf.device(device.name):
        model = create_model(config, precision_policy(config.training, device))
        step = measured_step(model, config, batch)
        programs = _programs(model, config, batch)
        programs[STEP] = lambda: step(batch)
        shape, _ = step.note_shape(batch)
        medians = _measure(programs, calls, on_program)
    return StepParts(
        shape, _parts(medians), medians[FORWARD], medians[STEP], calls, config.training.enable_xla_compilation
    )


def _programs(model: XTTS, config: XTTSConfig, batch: Batch) -> dict[str, Program]:
    """Every part as a function without arguments, compiled as the step is, in the order of a step."""

    def compiled(function: Callable[..., Any], *arguments: Any) -> Program:
        run = tf.function(function, jit_compile=config.training.enable_xla_compilation, autograph=False)
        return lambda: run(*arguments)

    programs: dict[str, Program] = {}
    settings = MelSettings.from_config(config.data)
    log_mel = LogMel(settings)
    features = add_device_features(batch, log_mel, settings)
    if "audio" in batch:
        programs[MELS] = compiled(lambda one: add_device_features(one, log_mel, settings), dict(batch))

    clips, tokens = features["tokens"].shape
    frames = features["mel"].shape[1]
    kind = model.compute_dtype
    token_mask = length_mask(features["token_lengths"], tokens, kind)
    frame_mask = length_mask(features["mel_lengths"], frames, kind)
    voice = model.default_voice(clips)
    states = tf.zeros([clips, tokens, model.sizes.encoder_width], kind)
    scores = tf.random.stateless_normal([clips, tokens, frames], _SEED)
    per_frame = tf.zeros([clips, frames, model.sizes.encoder_width + 2], kind)
    mel = tf.zeros([clips, frames, model.n_mels])

    if "reference_mel" in features:
        programs["reference encoder"] = compiled(model.voice, features["reference_mel"])
    programs["text encoder"] = compiled(
        lambda *inputs: model.mean_head(model.encoder(*inputs, training=True, seed=tf.constant(_SEED))),
        features["tokens"],
        token_mask,
        features["language"],
        voice,
    )
    programs["duration predictor"] = compiled(
        lambda *inputs: model.duration_predictor(*inputs, training=True, seed=tf.constant(_SEED)),
        states,
        token_mask,
        voice,
    )
    programs["aligner"] = compiled(monotonic_alignment, scores, features["token_lengths"], features["mel_lengths"])
    flow = (mel, tf.zeros([clips])) if model.decoder_kind == "flow" else ()
    programs["decoder"] = compiled(model.decoder, *flow, per_frame, mel, frame_mask, voice)
    per_token = tf.zeros([clips, tokens])
    outputs = Outputs(
        mel=mel,
        mean=mel,
        prediction=mel,
        target=mel,
        log_durations=per_token,
        durations=tf.cast(per_token, tf.int32),
        alignment=tf.zeros([clips, frames], tf.int32),
        token_mask=token_mask,
        frame_mask=frame_mask,
        tokens=tf.reduce_sum(tf.cast(token_mask, tf.float32)),
        frames=tf.reduce_sum(tf.cast(frame_mask, tf.float32)),
    )
    programs["losses"] = compiled(lambda one: compute_losses(one, features, model.decoder_kind), outputs)

    def losses(one: Batch) -> Any:
        features = add_device_features(one, log_mel, settings)
        return compute_losses(model(features, training=True, seed=_SEED), features, model.decoder_kind)

    def gradient(one: Batch) -> Any:
        with tf.GradientTape() as tape:
            found = losses(one)
        return found, tape.gradient(found[TOTAL], model.trainable_variables)

    programs[FORWARD] = compiled(losses, dict(batch))
    programs[GRADIENT] = compiled(gradient, dict(batch))
    return programs


def _measure(
    programs: Mapping[str, Program], calls: int, on_program: Callable[[str], None] | None
) -> dict[str, float]:
    """Median milliseconds of each program."""
    for name, program in programs.items():
        if on_program is not None:
            on_program(name)
        program()
    wait = tf.test.experimental.sync_devices
    wait()
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(calls):
        for name, program in programs.items():
            began = time.perf_counter()
            program()
            wait()
            times[name].append(1e3 * (time.perf_counter() - began))
    return {name: statistics.median(taken) for name, taken in times.items()}


def _parts(medians: Mapping[str, float]) -> dict[str, float]:
    """The parts of the forward pass as measured, and the rest by difference."""
    parts = {name: taken for name, taken in medians.items() if name not in (FORWARD, GRADIENT, STEP)}
    parts[REST] = medians[FORWARD] - sum(parts.values())
    # A difference of two measurements may be below zero by noise.
    parts[BACKWARD] = max(0.0, medians[GRADIENT] - medians[FORWARD])
    parts[OPTIMIZER] = max(0.0, medians[STEP] - medians[GRADIENT])
    return parts


def step_flops(model: XTTS, clips: int, frames: float, tokens: float, reference_frames: float) -> float:
    """Floating-point operations of a step, by the usual rule: six per weight and position.

    Two of them are the forward pass, four the backward pass. A position is a token in the encoder and the duration
    predictor, a patch of frames in the decoder and the reference encoder. Alignment and optimizer are left out.

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
