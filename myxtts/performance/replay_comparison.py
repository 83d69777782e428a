"""The same step with its real input and with batches replayed from memory: what the input costs is the difference."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.performance.batches import BatchStream, ReplayBuffer, batch_shapes
from myxtts.performance.step_run import StepRun, drain, fetch, run_steps

FEWEST_STEPS = 5
_WARM_UP = 3
_REPLAYS = 2
_DRAIN_SECONDS = 5.0
_LONGEST_RUN = 180.0
_COLD_SECONDS = 20.0


@dataclass(frozen=True, eq=False)
class ReplayComparison:
    """What both runs gave. Times are seconds, per step unless said otherwise.

    Attributes:
        run: the steps on the real input.
        stall: waiting for data, beyond what a step waits on replayed batches.
        replay_stall: waiting on replayed batches.
        step_seconds: a step on the real input, without compiling.
        ceiling: a step with perfect input.
        share: `stall` over `step_seconds`, 0 to 1.
        uncertainty: half the width of its 95 % interval.
        compiling: float [N], of each step, the time spent on a new shape.
        new_shapes: the steps that had one.
    """

    run: StepRun
    stall: float
    replay_stall: float
    step_seconds: float
    ceiling: float
    share: float
    uncertainty: float
    compiling: np.ndarray
    new_shapes: tuple[int, ...]


def compare(
    stream: BatchStream, step: Callable[[Any], Any], steps: int, report: Callable[[str], None]
) -> tuple[ReplayComparison, ReplayBuffer]:
    """Runs the step with its real input, and before and after with replayed batches, which it returns as well."""
    buffer = ReplayBuffer()
    report("warming up")
    batches = stream.batches()
    seen = set(run_steps(batches, step, _WARM_UP, keep=buffer.add).shapes)
    # Batches that were ready in advance would look like a speed that the input cannot keep.
    for fetched in fetch(batches, stream.depth, least=1, seconds=_DRAIN_SECONDS):
        buffer.add(fetched.batch)
    report("replaying batches from memory")
    _compile_new(buffer, step)
    replays = [_replay(buffer, step, steps)]
    seen.update(batch_shapes(batch) for batch in buffer.batches)
    drain(batches, stream.depth, seconds=_DRAIN_SECONDS)  # made during the replay
    report("the real input")
    run = run_steps(batches, step, steps, epoch_of=lambda: stream.passes, keep=buffer.add, seconds=_LONGEST_RUN)
    batches.close()  # ends the threads of an input that is a generator
    report("replaying batches from memory")
    _compile_new(buffer, step)
    replays.append(_replay(buffer, step, steps))
    return _compare(run, replays, seen), buffer


def _compare(run: StepRun, replays: list[StepRun], seen: set[Any]) -> ReplayComparison:
    """`seen` are the shapes that the step was compiled for before the run."""
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
    return ReplayComparison(
        run=run,
        stall=stall,
        replay_stall=replay_stall,
        step_seconds=total / len(run),
        ceiling=_ceiling(run, replays),
        share=min(1.0, stall * len(run) / total) if total else 0.0,
        uncertainty=_uncertainty(run.stalls, run.step_times - compiling),
        compiling=compiling,
        new_shapes=tuple(new_shapes),
    )


def _replay(buffer: ReplayBuffer, step: Callable[[Any], Any], steps: int) -> StepRun:
    return run_steps(buffer.replay(), step, max(FEWEST_STEPS, steps // _REPLAYS), seconds=_DRAIN_SECONDS)


def _compile_new(buffer: ReplayBuffer, step: Callable[[Any], Any]) -> None:
    """Runs the step once for every new shape in the buffer, so that compiling is not measured."""
    for batch in buffer.take_new():
        run_steps(iter([batch, batch]), step, 1)


def _ceiling(run: StepRun, replays: list[StepRun]) -> float:
    """Seconds per step with perfect input, for the shapes that the real run had."""
    by_shape: dict[Any, list[float]] = {}
    for replay in replays:
        for shape, seconds in zip(replay.shapes, (replay.step_times - replay.stalls).tolist(), strict=True):
            by_shape.setdefault(shape, []).append(seconds)
    overall = float(np.mean([seconds for times in by_shape.values() for seconds in times]))
    # Medians within a shape, so that a short disturbance of the machine does not count.
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


def cold_share(
    stream: BatchStream, step: Callable[[Any], Any], comparison: ReplayComparison, files: Iterable[Path]
) -> float | None:
    """Share of step time that waits for data if these files have to be read from disk; None if that is unknown."""
    if stream.is_one_pass or not drop_from_page_cache(files):
        return None
    batches = stream.batches()
    run = run_steps(batches, step, len(comparison.run), seconds=_COLD_SECONDS)
    batches.close()
    stall = max(0.0, float(run.stalls.mean()) - comparison.replay_stall)
    return stall / float(run.step_times.mean())


def drop_from_page_cache(paths: Iterable[Path]) -> int:
    """Takes files out of the page cache as far as the system allows; what is mapped and in use stays.

    Returns for how many files the system accepted it.
    """
    if not hasattr(os, "posix_fadvise"):
        return 0
    dropped = 0
    for path in paths:
        try:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            continue
        dropped += 1
    return dropped
