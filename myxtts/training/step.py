"""One training step, compiled: batch in, weights moved, nothing read back.

Losses are summed on the device and fetched on request (`TrainingStep.read`). A step returns three numbers, which can
be read as soon as the device has completed it, and the alignment it found.

A step whose loss or gradient is not finite moves no weight. It is counted. With gradient accumulation such a batch
counts as one of its optimizer step's batches, with a gradient of zero.

Under XLA the step is two programs in one graph: the gradient, compiled for every shape of batch, and the update,
which does not depend on the shape and is compiled once. As one program, every shape would take 1.5 times as long to
compile.

Where several processes train together, each computes the gradient of its share of the batch, and between the two
programs gradients and losses are summed over all of them. So the update is the same everywhere: it moves the same
weights, skips the same steps. With the sum travels what the processes tell each other (`rank_reports.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.training.alignment_cache import AlignmentCache
from myxtts.training.background_compilation import BackgroundCompilation
from myxtts.training.collective import Collective
from myxtts.training.losses import TOTAL
from myxtts.training.objective import Batch, Objective, Shape
from myxtts.training.optimizer import FlatWeights
from myxtts.training.rank_reports import REPORTED

# What `totals` holds after the losses: sums over the batches since the last reading, and the last learning rate.
_AFTER_LOSSES = ("gradient_norm", "batches", "learning_rate")

# At this scale or below, lowering the loss scale does not help: the gradient itself is not finite.
_LEAST_LOSS_SCALE = 1.0


class StepResult(NamedTuple):
    """What a step returns, on the device. All float32: TensorFlow keeps int32 results on the host, so that the call
    itself would have to wait for them."""

    completion: tf.Tensor  # [3]: steps in a row that were skipped, clips, frames; for `steps_in_flight` to read
    durations: tf.Tensor  # [B, T], by the step's alignment


class _Gradient(NamedTuple):
    """What the update takes. Nothing of it has a batch's shape, or the update would be compiled for every shape."""

    gradients: list[tf.Tensor]  # of the loss, as vectors, scaled if the optimizer scales it
    losses: tf.Tensor  # [L], the total first
    clips: tf.Tensor
    frames: tf.Tensor


_GradientOf: TypeAlias = "Callable[[Batch], tuple[_Gradient, tf.Tensor]]"
_UpdateBy: TypeAlias = "Callable[[_Gradient], tf.Tensor]"


@dataclass(frozen=True)
class MeanLosses:
    """Means over the batches since the last reading, without those that were skipped.

    Attributes:
        losses: by name, the total first.
        gradient_norm: before clipping.
        batches: how many; if 0, because all were skipped, the means are 0 too.
        learning_rate: of the last batch.
    """

    losses: Mapping[str, float]
    gradient_norm: float
    batches: int
    learning_rate: float

    @property
    def total(self) -> float:
        return self.losses[TOTAL]

    @classmethod
    def of(cls, totals: tf.Tensor, names: Sequence[str]) -> MeanLosses:
        """From the result of `TrainingStep.read` and the names of the losses; waits for the device."""
        *sums, batches, learning_rate = totals.numpy().tolist()
        *losses, gradient_norm = (value / max(batches, 1.0) for value in sums)
        return cls(dict(zip(names, losses, strict=True)), gradient_norm, int(batches), learning_rate)

    def to_dict(self) -> dict[str, float]:
        """For a line of the log file."""
        return {**self.losses, **{name: getattr(self, name) for name in _AFTER_LOSSES}}


class TrainingStep:
    """The compiled step of a run, and its counters.

    Args:
        objective: what is trained.
        optimizer: built here, for the model's weights.
        config: `training` sets the seed and how the step is run.
        spec: the `element_spec` of the batches.
        collective: the processes that train together; None: this one alone.
        in_background: under XLA, compute steps as a plain graph until a thread has compiled them.

    Attributes:
        weights: of the model, as the vectors that the optimizer was built for.
        state: by name, the variables that a resumed run needs besides weights and optimizer.
        shapes: how often each shape was seen, in order of first use.
        in_background: whether a thread compiles, while steps go on.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: keras.optimizers.Optimizer,
        config: XTTSConfig,
        spec: Mapping[str, tf.TensorSpec],
        collective: Collective | None = None,
        in_background: bool = False,
    ) -> None:
        self._collective = collective
        self.in_background = in_background and collective is None
        self.objective = objective
        self.optimizer = optimizer
        self.weights = FlatWeights(objective.model.trainable_variables)
        optimizer.build(self.weights.vectors)
        self._scales_loss = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        self._accumulates = config.training.gradient_accumulation_steps > 1
        self._seed = fold_seed(config.training.seed)
        self._batches = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._skipped = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._skipped_in_a_row = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._totals = tf.Variable(tf.zeros([len(objective.names) + len(_AFTER_LOSSES)]), trainable=False)
        self.state = {
            "batches": self._batches,
            "skipped": self._skipped,
            "skipped_in_a_row": self._skipped_in_a_row,
            "totals": self._totals,
        }
        self.shapes: dict[Shape, int] = {}
        self._spec = {name: any_length(one) for name, one in spec.items()}
        self._training = config.training
        self._known_alignments: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None
        self._run = self._compile()
        self._read = tf.function(self._read_totals, autograph=False).get_concrete_function()

    def __call__(self, batch: Batch, report: np.ndarray | None = None) -> StepResult:
        """Dispatches a step. On a GPU it returns before the step is done, on a CPU after.

        Args:
            batch: or this process's share of it.
            report: where several processes train together, what this one tells the others: float32
                [ranks, REPORTED], zeros but for its own row. Their sum comes with the step's `completion`.
        """
        return self._run(batch) if report is None else self._run(batch, tf.constant(report))

    def note_shape(self, batch: Batch) -> tuple[Shape, bool]:
        """The batch's shape, and whether it is new, that is, whether the step will be compiled for it."""
        shape = self.objective.shape(batch)
        seen = self.shapes.get(shape, 0)
        self.shapes[shape] = seen + 1
        return shape, not seen

    def is_ready(self, shape: Shape) -> bool:
        """Whether a step of a shape that was seen before is computed as steps are from now on."""
        return not isinstance(self._run, BackgroundCompilation) or self._run.is_ready(shape)

    def close(self) -> None:
        """Ends the compilation in the background."""
        if isinstance(self._run, BackgroundCompilation):
            self._run.close()

    def enter(self, phase: int) -> None:
        """Computes the losses of a phase of the objective from now on."""
        self.objective.enter(phase)
        self.close()
        self._run = self._compile()
        self.shapes.clear()

    def use_alignments(self, cache: AlignmentCache) -> None:
        """From now on, take the alignment of every clip from `cache` instead of searching for it."""
        self._known_alignments = cache.on_device()
        self.close()
        self._run = self._compile()
        self.shapes.clear()

    def read(self) -> tf.Tensor:
        """The sums since the last reading, for `MeanLosses.of`; then they start again at zero. Does not wait
        for the device."""
        return self._read()

    @property
    def skipped(self) -> int:
        """Steps skipped since the run began; waits for the device."""
        return int(self._skipped)

    def _compile(self) -> Callable[..., StepResult]:
        """The step, run as the configuration says: eagerly, or as a graph that is traced once for all shapes."""
        if self._training.enable_eager_debug or not self._training.enable_graph_mode:
            return self._step_of(self._gradient, self._update)
        if not self._training.enable_xla_compilation:
            return self._graph_of(self._gradient, self._update)
        # Traced once for both forms of the step.
        traced = tf.function(self._gradient, input_signature=[self._spec], autograph=False)
        gradient = tf.function(
            lambda batch: traced(batch), input_signature=[self._spec], jit_compile=True, autograph=False
        )
        update = tf.function(self._update, jit_compile=True, autograph=False)
        if not self.in_background:
            return self._graph_of(gradient, update)
        # Called one after the other and not in a graph, which would not find what the thread has compiled.
        compiled = self._step_of(gradient, update)

        def compile_for(batch: Batch) -> None:
            with tf.device(self._totals.device):  # a thread does not inherit the device
                gradient(batch)

        return BackgroundCompilation(
            self._graph_of(traced, self._update), compiled, compile_for, self.objective.shape
        )

    def _graph_of(self, gradient: _GradientOf, update: _UpdateBy) -> Callable[..., StepResult]:
        signature: list[Any] = [self._spec]
        if self._collective is not None:
            signature.append(tf.TensorSpec([self._collective.ranks, REPORTED]))
        return tf.function(self._step_of(gradient, update), input_signature=signature, autograph=False)

    def _step_of(self, gradient: _GradientOf, update: _UpdateBy) -> Callable[..., StepResult]:
        def step(batch: Batch, report: tf.Tensor | None = None) -> StepResult:
            computed, durations = gradient(batch)
            if self._collective is None:
                return StepResult(update(computed), durations)
            summed, told = _sum(computed, report, self._collective)
            return StepResult(tf.concat([update(summed), told], axis=0), durations)

        return step

    def _gradient(self, batch: Batch) -> tuple[_Gradient, tf.Tensor]:
        """The gradient, and the durations [B, T] of the alignment that it was computed for."""
        if self._known_alignments is not None:
            batch = {**batch, "durations": self._known_alignments(batch["index"], batch["tokens"])}
        seed = tf.stack([self._seed, tf.cast(self._batches.read_value() % 2**31, tf.int32)])
        with tf.GradientTape(persistent=True) as tape:
            found = self.objective(batch, seed, training=True)
            scaled = [(self.optimizer.scale_loss(loss), weights) for loss, weights in found.minimised]
        of_weight = {
            id(weight): gradient
            for loss, weights in scaled
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True)
        }
        gradients = [of_weight.get(id(weight)) for weight in self.objective.model.trainable_variables]
        losses = tf.stack(list(found.losses.values()))
        return _Gradient(self.weights.flatten(gradients), losses, found.clips, found.frames), found.durations

    def _update(self, gradient: _Gradient) -> tf.Tensor:
        """Moves the weights and counts; returns the step's `completion`."""
        scale = tf.constant(1.0)
        unscaled = gradient.gradients
        if self._scales_loss:
            scale = tf.convert_to_tensor(self.optimizer.dynamic_scale)
            unscaled = [one / scale for one in unscaled]
        norm = tf.linalg.global_norm(unscaled)
        finite_loss = tf.math.is_finite(gradient.losses[0])
        finite = finite_loss & tf.math.is_finite(norm)
        learning_rate = tf.cast(self.optimizer.learning_rate, tf.float32)
        self._apply(finite, gradient.gradients)

        # A gradient that overflows under a large loss scale is no failure: this is how the scale is found.
        failed = ~finite & (~finite_loss | (scale <= _LEAST_LOSS_SCALE))
        sums = tf.concat([gradient.losses, [norm, 1.0]], axis=0)
        sums = tf.where(finite, sums, tf.zeros_like(sums)) + self._totals[:-1]
        self._totals.assign(tf.concat([sums, learning_rate[None]], axis=0))
        self._batches.assign_add(1)
        self._skipped.assign_add(tf.cast(~finite, tf.int64))
        in_a_row = tf.where(failed, self._skipped_in_a_row + 1, tf.zeros([], tf.int64))
        self._skipped_in_a_row.assign(in_a_row)
        return tf.stack([tf.cast(in_a_row, tf.float32), gradient.clips, gradient.frames])

    def _apply(self, finite: tf.Tensor, gradients: list[tf.Tensor]) -> None:
        vectors = self.weights.vectors
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)

        def apply() -> tf.Tensor:
            inner.apply(gradients, vectors)
            return tf.constant(0)

        def skip() -> tf.Tensor:
            if self._accumulates:
                # Keras ends an optimizer step after a number of calls, so a batch that adds nothing is a call too.
                inner.apply([tf.zeros_like(one) for one in gradients], vectors)
            return tf.constant(0)

        self.weights.gather()
        if not self._scales_loss:
            tf.cond(finite, apply, skip)
        else:
            self.optimizer.apply(gradients, vectors)  # skips the step itself, and lowers the scale
            if self._accumulates:
                tf.cond(self.optimizer.check_finite(gradients), lambda: tf.constant(0), skip)
        self.weights.scatter()

    def _read_totals(self) -> tf.Tensor:
        totals = tf.identity(self._totals)
        with tf.control_dependencies([totals]):
            self._totals.assign(tf.zeros_like(totals))
        return totals


def fold_seed(seed: int) -> int:
    """A seed of up to 63 bits as 31 bits, the most that a seed in a graph can have."""
    return (seed ^ (seed >> 31)) & 0x7FFFFFFF


def _sum(computed: _Gradient, report: tf.Tensor, collective: Collective) -> tuple[_Gradient, tf.Tensor]:
    """The gradient of the whole batch, and what `steps_in_flight` reads after the three numbers of a step's
    completion: the seconds that the sum took, this process's clips, and the reports of all."""
    numbers = tf.concat([computed.losses, [computed.clips, computed.frames]], axis=0)
    summed, seconds = collective.timed_sum([*computed.gradients, report, numbers])
    *gradients, reports, numbers = summed
    told = tf.concat([[seconds, computed.clips], tf.reshape(reports, [-1])], axis=0)
    return computed._replace(gradients=gradients, losses=numbers[:-2], clips=numbers[-2], frames=numbers[-1]), told


def any_length(spec: tf.TensorSpec) -> tf.TensorSpec:
    """The spec with any number of clips, tokens, frames and samples; only the number of mel bands stays fixed."""
    return tf.TensorSpec([None] * min(2, spec.shape.rank) + spec.shape.as_list()[2:], spec.dtype)
