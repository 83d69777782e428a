"""Finds out whether a training loop waits for its input, and why.

The method is differential (docs/diagnose.md): the same step with its real input, and with batches replayed from
memory. Only if time is lost between the two is the input looked into: run alone, its nodes timed, changes tried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.performance import diagnosis as found
from myxtts.performance.batches import Source
from myxtts.performance.diagnosis import Diagnosis, Fix, Pattern, Series, Split
from myxtts.performance.differential import FEWEST_STEPS, Measured, close, measure
from myxtts.performance.page_cache import drop
from myxtts.performance.pattern import find_pattern
from myxtts.performance.remedies import REMEDIES
from myxtts.performance.stall import MODERATELY_INPUT_BOUND, input_verdict
from myxtts.performance.step_run import run_steps
from myxtts.performance.step_side import StepLoss, eager_loss

_MOST_FIXES = 3
_CLEARLY = 0.025  # nobody is accused of a share that may as well be nothing
_COLD_SECONDS = 20.0


def diagnose(
    dataset: Iterable[Any],
    step: Callable[[Any], Any],
    num_batches: int = 100,
    *,
    files: Sequence[Path] = (),
    report: Callable[[str], None] = lambda what: None,
) -> Diagnosis:
    """Measures a training loop's input and names what holds it back.

    ```python
    from myxtts.performance import diagnose

    print(diagnose(dataset, train_step))
    ```

    Args:
        dataset: a `tf.data` pipeline, or any Python iterable of batches, such as PyTorch's DataLoader. One that ends
            is begun anew, as an epoch loop does.
        step: called with a batch; trains as it would anyway, a few times `num_batches` steps. It may return when its
            work is done, or dispatch it to a GPU and return something of its result.
        num_batches: steps to measure.
        files: what the pipeline reads. They are taken out of the page cache for a run of their own, whose difference
            is what fetching costs; without them, fetching is what the pipeline waits without working.
        report: is told what is being measured, for a progress line.

    Raises:
        ValueError: the dataset has too few batches to measure anything.
    """
    if num_batches < FEWEST_STEPS:
        raise ValueError(f"num_batches is {num_batches}; at least {FEWEST_STEPS} are needed")
    measured = measure(Source(dataset), step, num_batches, report)
    diagnosis = _judge(measured, step, report)
    return _with_cold_cache(diagnosis, measured, step, files, report)


def _judge(measured: Measured, step: Callable[[Any], Any], report: Callable[[str], None]) -> Diagnosis:
    report("the step")
    losses = [loss for loss in (measured.recompilation, _eager(measured, step)) if loss is not None]
    step_side = max(losses, key=lambda loss: loss.share, default=None)
    evidence: list[str] = []
    fixes: list[Fix] = []
    culprit, culprit_text, slow_clips = found.NONE, "", ()
    nodes: tuple[found.NodeTime, ...] = ()
    split = Split(measured.share, 0.0, 0.0)
    total = measured.share + (step_side.share if step_side else 0.0)

    if measured.share >= MODERATELY_INPUT_BOUND and measured.share - measured.uncertainty >= _CLEARLY:
        from myxtts.performance.culprit import choose, suspects
        from myxtts.performance.investigation import investigate

        facts = investigate(
            measured.source, step, measured.run, measured.stall, measured.ceiling, measured.kept, report
        )
        named = choose(suspects(facts))
        nodes = tuple(node.to_time() for node in facts.alone.nodes)
        split = _split(measured, facts.alone.waiting if facts.alone.lock_held < 0.35 else 0.0, step)
        slow_clips = tuple(facts.spiky_steps.tolist()) if facts.slow else ()
        if named:
            culprit, culprit_text = named[0].culprit, named[0].text
            evidence.extend(named[0].evidence)
        for suspect in named[:_MOST_FIXES]:
            fixes.append(_fix(suspect.culprit, suspect.removed * measured.share, measured.source, suspect.measured))
    elif measured.share > 0:
        if measured.share >= MODERATELY_INPUT_BOUND:
            evidence.append("too uncertain to name a culprit; measure more steps")
        split = _split(measured, 0.0, step)
    for loss in losses:
        evidence.extend(loss.evidence)
    if step_side is not None and step_side.share >= max(MODERATELY_INPUT_BOUND, measured.share):
        evidence = list(step_side.evidence)
        culprit, culprit_text = step_side.culprit, step_side.text
        fixes.insert(0, _fix(step_side.culprit, step_side.share, measured.source, step_side.measured))
    steps = len(measured.run)
    simulated = bool(getattr(step, "simulated", False))
    return Diagnosis(
        verdict=input_verdict(measured.share),
        input_share=measured.share,
        uncertainty=measured.uncertainty,
        steps=steps,
        step_ms=1e3 * measured.step_seconds,
        ceiling_ms=1e3 * measured.ceiling,
        split=split,
        culprit=culprit,
        culprit_text=culprit_text,
        lost_share=min(1.0, total),
        evidence=tuple(evidence),
        pattern=_pattern(measured, slow_clips),
        fixes=tuple(fixes[:_MOST_FIXES]),
        nodes=nodes,
        series=Series(1e3 * measured.run.step_times, 1e3 * measured.run.stalls),
        simulated=simulated,
    )


def _with_cold_cache(
    diagnosis: Diagnosis,
    measured: Measured,
    step: Callable[[Any], Any],
    files: Sequence[Path],
    report: Callable[[str], None],
) -> Diagnosis:
    """Adds what fetching costs where the files of a pipeline are known."""
    if not files or measured.source.is_one_pass or not drop(files):
        return diagnosis
    report("a cold page cache")
    batches = measured.source.batches()
    run = run_steps(batches, step, len(measured.run), seconds=_COLD_SECONDS)
    close(batches)
    cold = max(0.0, float(run.stalls.mean()) - measured.replay_stall)
    share = cold / float(run.step_times.mean())
    fetch = max(0.0, share - measured.share)
    line = f"from a cold page cache {100 * share:.1f} % of step time waits, {100 * fetch:.1f} % for bytes"
    return replace(diagnosis, cold_fetch_share=fetch, evidence=(*diagnosis.evidence, line))


def _eager(measured: Measured, step: Callable[[Any], Any]) -> StepLoss | None:
    if getattr(step, "simulated", False):
        return None
    computing = measured.ceiling / measured.step_seconds if measured.step_seconds else 0.0
    return eager_loss(step, measured.kept.batches, min(1.0, computing))


def _fix(culprit: str, gain: float, source: Source, measured: bool) -> Fix:
    remedy = REMEDIES[culprit]
    lines = remedy.tf_data if source.is_tf_data or not remedy.iterable else remedy.iterable
    return Fix(culprit, remedy.text, gain, lines, measured)


def _split(measured: Measured, waiting: float, step: Callable[[Any], Any]) -> Split:
    """Copying is what replayed batches from the device's own memory would save over those from the host's."""
    from myxtts.performance.device_copy import copy_seconds

    copy = 0.0 if getattr(step, "simulated", False) else copy_seconds(measured.kept.batches)
    share = min(measured.share, copy / measured.step_seconds) if measured.step_seconds else 0.0
    fetch = (measured.share - share) * waiting
    return Split(measured.share - share - fetch, fetch, share)


def _pattern(measured: Measured, slow_clips: tuple[int, ...]) -> Pattern:
    run = measured.run
    shapes = len(set(run.shapes))
    events: dict[str, Any] = {}
    if measured.compiling.any():
        compiled = np.flatnonzero(measured.compiling).tolist()
        events[f"with a new batch shape ({len(measured.new_shapes)} new ones, {shapes} in all)"] = compiled
    if run.epoch_starts:
        events["with the start of an epoch"] = run.epoch_starts
    if slow_clips:
        events["with slow clips"] = slow_clips
    sizes = [sum(int(np.prod(shape)) for shape in one) for one in run.shapes]
    if len(set(sizes)) > 1:
        largest = np.quantile(sizes, 0.9)
        events["with the largest batches"] = [step for step, size in enumerate(sizes) if size >= largest]
    calls = run.calls
    busy = np.flatnonzero(calls > 3 * np.median(calls)).tolist() if np.median(calls) > 1e-3 else []
    if busy:
        events["in the step itself, not in its input (a checkpoint, logging?)"] = busy
    return find_pattern(run.step_times, events)
