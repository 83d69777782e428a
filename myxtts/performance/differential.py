"""The same step with its real input and with batches replayed from memory: what the input costs is the difference."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from myxtts.performance.batches import Kept, Source
from myxtts.performance.step_run import StepRun, batch_shapes, run_steps
from myxtts.performance.step_side import StepLoss, recompilation_loss

FEWEST_STEPS = 5
_WARM_UP = 3
_REPLAYS = 2
_DRAIN_SECONDS = 5.0
_LONGEST_RUN = 180.0


@dataclass(frozen=True, eq=False)
class Measured:
    """The figures of both runs. Times are seconds, per step where nothing else is said.

    Attributes:
        source: of the batches.
        run: the steps on the real input.
        kept: the batches that were replayed.
        stall: waiting for data, beyond what a step waits on replayed batches.
        replay_stall: what that is.
        step_seconds: a step on the real input, without compiling.
        ceiling: a step with perfect input.
        share: `stall` over `step_seconds`, 0 to 1.
        uncertainty: half the width of its 95 % interval.
        compiling: float [N], of each step, the time spent on a new shape.
        new_shapes: the steps that had one.
        recompilation: what that comes to in the long run, if it is much.
    """

    source: Source
    run: StepRun
    kept: Kept
    stall: float
    replay_stall: float
    step_seconds: float
    ceiling: float
    share: float
    uncertainty: float
    compiling: np.ndarray
    new_shapes: list[int]
    recompilation: StepLoss | None


def measure(source: Source, step: Callable[[Any], Any], steps: int, report: Callable[[str], None]) -> Measured:
    """The step with its real input, and before and after with replayed batches."""
    kept = Kept()
    seen: set[Any] = set()
    report("warming up")
    batches = source.batches()
    warm = run_steps(batches, step, _WARM_UP, keep=kept)
    seen.update(warm.shapes)
    # Batches that were ready before anyone asked would pass for a pace that the source cannot keep.
    began = time.perf_counter()
    for batch in islice(batches, source.depth):
        kept(batch)
        if time.perf_counter() - began > _DRAIN_SECONDS:
            break
    report("replaying batches from memory")
    _compile_kept(kept, step)
    replays = [_replay(kept, step, steps)]
    seen.update(batch_shapes(batch) for batch in kept.batches)
    for _ in islice(batches, source.depth):  # made during the replay
        if time.perf_counter() - began > 2 * _DRAIN_SECONDS:
            break
    report("the real input")
    run = run_steps(batches, step, steps, epoch_of=lambda: source.passes, keep=kept, seconds=_LONGEST_RUN)
    close(batches)
    report("replaying batches from memory")
    _compile_kept(kept, step)
    replays.append(_replay(kept, step, steps))

    typical = float(np.median(np.concatenate([replay.calls for replay in replays])))
    new_shapes = []
    for position, shape in enumerate(run.shapes):
        if shape not in seen:
            seen.add(shape)
            new_shapes.append(position)
    compiling = np.zeros(len(run))
    for position in new_shapes:
        excess = run.calls[position] - typical
        if run.calls[position] > 3 * typical and excess > 2e-3:
            compiling[position] = excess
    replay_stall = min(float(replay.stalls.mean()) for replay in replays)
    total = float(run.step_times.sum() - compiling.sum())
    stall = max(0.0, float(run.stalls.mean()) - replay_stall)
    ceiling = _ceiling(run, replays)
    return Measured(
        source=source,
        run=run,
        kept=kept,
        stall=stall,
        replay_stall=replay_stall,
        step_seconds=total / len(run),
        ceiling=ceiling,
        share=min(1.0, stall * len(run) / total) if total else 0.0,
        uncertainty=_uncertainty(run.stalls, run.step_times - compiling),
        recompilation=recompilation_loss(run, compiling, new_shapes),
        compiling=compiling,
        new_shapes=new_shapes,
    )


def _replay(kept: Kept, step: Callable[[Any], Any], steps: int) -> StepRun:
    return run_steps(kept.replay(), step, max(FEWEST_STEPS, steps // _REPLAYS), seconds=_DRAIN_SECONDS)


def _compile_kept(kept: Kept, step: Callable[[Any], Any]) -> None:
    """A step for every shape among the kept batches that the step may not have seen: its compilation is no figure."""
    for batch in kept.take_new():
        run_steps(iter([batch, batch]), step, 1)


def _ceiling(run: StepRun, replays: list[StepRun]) -> float:
    """Seconds per step with perfect input, for the shapes that the real run had."""
    by_shape: dict[Any, list[float]] = {}
    for replay in replays:
        for shape, seconds in zip(replay.shapes, (replay.step_times - replay.stalls).tolist(), strict=True):
            by_shape.setdefault(shape, []).append(seconds)
    overall = float(np.mean([seconds for times in by_shape.values() for seconds in times]))
    # Medians within a shape: a hiccup of the machine is not what a step costs.
    return float(np.mean([np.median(by_shape[shape]) if shape in by_shape else overall for shape in run.shapes]))


def _uncertainty(stalls: np.ndarray, step_times: np.ndarray) -> float:
    """Half the 95 % interval of the stall share, by resampling blocks of consecutive steps."""
    block = max(1, len(stalls) // 10)
    blocks = len(stalls) // block
    if blocks < 3:
        return 1.0
    waited = stalls[: blocks * block].reshape(blocks, block).sum(axis=1)
    lasted = step_times[: blocks * block].reshape(blocks, block).sum(axis=1)
    picks = np.random.default_rng(0).integers(0, blocks, (500, blocks))
    shares = waited[picks].sum(axis=1) / lasted[picks].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(high - low) / 2


def close(batches: Iterator[Any]) -> None:
    """Ends a source's threads, where it is a generator."""
    close = getattr(batches, "close", None)
    if close is not None:
        close()
