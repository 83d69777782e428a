"""What the step itself loses: time spent compiling for new shapes, and time spent running operations one by one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.performance import diagnosis as found
from myxtts.performance.diagnosis import number
from myxtts.performance.step_run import StepRun

# In the second half of a run every shape of a well-planned pipeline has been seen. A straggler is no fault.
_FEWEST_NEW = 4
_MANY_OPERATIONS = 20
_WORTH_COMPILING = 0.2


@dataclass(frozen=True)
class StepLoss:
    """Time lost in the step.

    Attributes:
        culprit: its documented name.
        share: of step time, 0 to 1.
        text: in words.
        evidence: what was measured.
        measured: whether the share was measured by trying the change.
    """

    culprit: str
    share: float
    text: str
    evidence: tuple[str, ...]
    measured: bool


def recompilation_loss(run: StepRun, compiling: np.ndarray, new_shapes: Sequence[int]) -> StepLoss | None:
    """What compiling costs in the long run, judged by the second half of the steps.

    Args:
        run: the steps.
        compiling: float [N], seconds by which steps with a new shape took longer than others.
        new_shapes: the steps with one.
    """
    half = len(run) // 2
    late = [position for position in new_shapes if position >= half and compiling[position] > 0]
    total = float(run.step_times[half:].sum())
    if len(late) < _FEWEST_NEW or not total:
        return None
    share = float(compiling[half:].sum()) / total
    mean = float(np.mean(compiling[late]))
    return StepLoss(
        found.RECOMPILATION,
        share,
        f"new batch shapes keep coming, and the step is compiled for each ({len(set(run.shapes))} shapes in "
        f"{len(run)} steps)",
        (f"{len(late)} of the last {len(run) - half} steps had a new shape and took {number(1e3 * mean)} ms longer",),
        measured=True,
    )


def eager_loss(step: Callable[[Any], Any], batches: Sequence[Any], computing: float) -> StepLoss | None:
    """What running the step's operations one by one costs, by compiling the step and comparing.

    Args:
        step: the step.
        batches: to run it on.
        computing: share of step time that is the step's.
    """
    if "tensorflow" not in sys.modules or not batches:
        return None
    from myxtts.performance.experiments import eager_operations, gain_by_graph

    operations = eager_operations(step, batches[0])
    if operations < _MANY_OPERATIONS:
        return None
    try:
        gain = gain_by_graph(step, batches)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0][:80]
        note = f"the step runs {operations} operations one by one and cannot be compiled as it is ({reason})"
        return StepLoss(found.EAGER_STEP, 0.0, "", (note,), measured=False)
    if gain < _WORTH_COMPILING:
        return None
    return StepLoss(
        found.EAGER_STEP,
        gain * computing,
        f"the step runs {operations} operations one by one, each dispatched from Python",
        (f"as a tf.function the step takes {100 * gain:.0f} % less time (measured)",),
        measured=True,
    )
