"""Finds out whether a training loop waits for its input, and why.

The method is differential (docs/diagnose.md): the same step with its real input, and with batches replayed from
memory. Only if time is lost between the two is the input investigated: run alone, its nodes timed, changes tried out.
`take_measurements` does all that; `judge` draws the conclusions and measures nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.performance.batches import BatchStream
from myxtts.performance.culprit_rules import LOCK_HELD, Suspect
from myxtts.performance.culprits import CULPRITS, INPUT_CULPRITS, STEP_CULPRITS, choose, find_suspects
from myxtts.performance.diagnosis import NONE, Diagnosis, Fix, Pattern, StallSplit, StepSeries
from myxtts.performance.facts import InputFacts, Measurements
from myxtts.performance.pattern import find_pattern
from myxtts.performance.replay_comparison import FEWEST_STEPS, ReplayComparison, cold_share, compare
from myxtts.performance.stall import MODERATELY_INPUT_BOUND, input_verdict
from myxtts.performance.trials import MeasuredLoop

_MOST_FIXES = 3
_CLEARLY = 0.025  # a smaller share may be chance, and no culprit is named for it


def diagnose(
    dataset: Iterable[Any],
    step: Callable[[Any], Any],
    num_batches: int = 100,
    *,
    files: Sequence[Path] = (),
    report: Callable[[str], None] = lambda what: None,
) -> Diagnosis:
    """Measures a training loop's input and names what slows it down.

    ```python
    from myxtts.performance import diagnose

    print(diagnose(dataset, train_step))
    ```

    Args:
        dataset: a `tf.data` pipeline, or any Python iterable of batches, such as PyTorch's DataLoader. At its end it
            starts again, as in an epoch loop.
        step: called with a batch; trains as it would anyway, a few times `num_batches` steps. It may return when its
            work is done, or dispatch it to a GPU and return something of its result.
        num_batches: steps to measure.
        files: what the pipeline reads. They are taken out of the page cache for a run of their own, whose difference
            is what reading costs; without them, reading is what the pipeline waits without working.
        report: called with what is being measured, for a progress line.

    Raises:
        ValueError: the dataset has too few batches to measure anything.
    """
    return judge(take_measurements(dataset, step, num_batches, files=files, report=report))


def take_measurements(
    dataset: Iterable[Any],
    step: Callable[[Any], Any],
    num_batches: int,
    *,
    files: Sequence[Path] = (),
    report: Callable[[str], None] = lambda what: None,
) -> Measurements:
    """Measures; the arguments are those of `diagnose`."""
    if num_batches < FEWEST_STEPS:
        raise ValueError(f"num_batches is {num_batches}; at least {FEWEST_STEPS} are needed")
    stream = BatchStream(dataset)
    comparison, buffer = compare(stream, step, num_batches, report)
    simulated = bool(getattr(step, "simulated", False))
    eager, copy_seconds, facts = None, 0.0, None
    if not simulated and "tensorflow" in sys.modules:
        from myxtts.performance.experiments import copy_seconds as measure_copy
        from myxtts.performance.experiments import eager_step

        report("the step")
        eager = eager_step(step, buffer.batches)
        copy_seconds = measure_copy(buffer.batches) if comparison.share > 0 else 0.0
    if _clearly_waits(comparison):
        facts = _investigate(MeasuredLoop(stream, step, comparison, buffer, report))
    cold = None
    if files:
        report("a cold page cache")
        cold = cold_share(stream, step, comparison, files)
    pinned = None
    if stream.is_torch_loader and not simulated:
        from myxtts.performance.torch_loader import pinned_copy

        pinned = pinned_copy(stream.dataset, buffer.batches)
    return Measurements(comparison, facts, eager, copy_seconds, cold, stream.is_tf_data, simulated, pinned)


def judge(measurements: Measurements) -> Diagnosis:
    """Draws the conclusions from what was measured."""
    comparison, facts = measurements.comparison, measurements.input
    run, share, step_seconds = comparison.run, comparison.share, comparison.step_seconds
    in_step = find_suspects(STEP_CULPRITS, measurements)
    in_input = choose(find_suspects(INPUT_CULPRITS, facts)) if facts is not None else []
    culprit, text, evidence, waiting = NONE, "", list[str](), 0.0
    fixes = [_fix(name, one, one.removed * share, measurements) for name, one in in_input]
    if in_input:
        culprit, text = in_input[0][0], in_input[0][1].text
        evidence.extend(in_input[0][1].evidence)
    if facts is not None:
        waiting = facts.alone.waiting if facts.alone.lock_held < LOCK_HELD else 0.0
    elif share >= MODERATELY_INPUT_BOUND:
        evidence.append("too uncertain to name a culprit; measure more steps")
    for one in in_step.values():
        evidence.extend(one.evidence)
    worst = max(in_step, key=lambda name: in_step[name].removed, default=None)
    lost = share
    if worst is not None:
        suspect = in_step[worst]
        lost = min(1.0, share + suspect.removed)
        if suspect.removed >= max(MODERATELY_INPUT_BOUND, share):
            culprit, text, evidence = worst, suspect.text, list(suspect.evidence)
            fixes.insert(0, _fix(worst, suspect, suspect.removed, measurements))
    cold_fetch = None
    if measurements.cold_share is not None:
        cold_fetch = max(0.0, measurements.cold_share - share)
        waits = f"{100 * measurements.cold_share:.1f} % of step time waits"
        evidence.append(f"from a cold page cache {waits}, {100 * cold_fetch:.1f} % for bytes")
    return Diagnosis(
        verdict=input_verdict(share),
        input_share=share,
        uncertainty=comparison.uncertainty,
        steps=len(run),
        step_ms=1e3 * step_seconds,
        ceiling_ms=1e3 * comparison.ceiling,
        split=_split(comparison, waiting, measurements.copy_seconds),
        culprit=culprit,
        culprit_text=text,
        lost_share=lost,
        evidence=tuple(evidence),
        pattern=_pattern(comparison, facts),
        fixes=tuple(fixes[:_MOST_FIXES]),
        nodes=() if facts is None else tuple(node.to_time() for node in facts.alone.nodes),
        series=StepSeries(1e3 * run.step_times, 1e3 * run.stalls),
        simulated=measurements.simulated,
        cold_fetch_share=cold_fetch,
    )


def _investigate(loop: MeasuredLoop) -> InputFacts:
    """Each kind of input has its own tools, and needs no other framework than its own."""
    if loop.stream.is_tf_data:
        from myxtts.performance.investigate_tf_data import investigate
    elif loop.stream.is_torch_loader:
        from myxtts.performance.investigate_torch import investigate
    else:
        from myxtts.performance.investigate_iterable import investigate
    return investigate(loop)


def _clearly_waits(comparison: ReplayComparison) -> bool:
    return comparison.share >= MODERATELY_INPUT_BOUND and comparison.share - comparison.uncertainty >= _CLEARLY


def _fix(name: str, suspect: Suspect, gain: float, measurements: Measurements) -> Fix:
    culprit = CULPRITS[name]
    lines = culprit.tf_data if measurements.is_tf_data or not culprit.iterable else culprit.iterable
    return Fix(name, culprit.remedy, gain, suspect.lines or lines, suspect.measured)


def _split(comparison: ReplayComparison, waiting: float, copy_seconds: float) -> StallSplit:
    """Copying is the time by which replayed batches in the device's own memory would be faster than in the host's."""
    copy = min(comparison.share, copy_seconds / comparison.step_seconds) if comparison.step_seconds else 0.0
    fetch = (comparison.share - copy) * waiting
    return StallSplit(comparison.share - copy - fetch, fetch, copy)


def _pattern(comparison: ReplayComparison, facts: InputFacts | None) -> Pattern:
    run = comparison.run
    shapes = len(set(run.shapes))
    events: dict[str, Sequence[int]] = {}
    if comparison.compiling.any():
        compiled = np.flatnonzero(comparison.compiling).tolist()
        events[f"with a new batch shape ({len(comparison.new_shapes)} new ones, {shapes} in all)"] = compiled
    if run.epoch_starts:
        events["with the start of an epoch"] = run.epoch_starts
    if facts is not None and facts.slow is not None and len(facts.spiky_steps):
        events["with slow clips"] = facts.spiky_steps.tolist()
    sizes = [sum(int(np.prod(shape)) for shape in one) for one in run.shapes]
    if len(set(sizes)) > 1:
        largest = np.quantile(sizes, 0.9)
        events["with the largest batches"] = [step for step, size in enumerate(sizes) if size >= largest]
    calls = run.calls
    busy = np.flatnonzero(calls > 3 * np.median(calls)).tolist() if np.median(calls) > 1e-3 else []
    if busy:
        events["in the step itself, not in its input (a checkpoint, logging?)"] = busy
    return find_pattern(run.step_times, events)
