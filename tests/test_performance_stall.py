"""The arithmetic of stalls."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.performance import stall
from myxtts.performance.stall import StepTimeline, input_verdict


def test_a_batch_ready_before_the_previous_step_completes_stalls_nothing():
    assert StepTimeline([0.0, 0.5, 1.9], [1.0, 2.0, 3.0]).stalls.tolist() == [0.0, 0.0]


def test_a_late_batch_stalls_from_the_previous_completion_until_it_is_ready():
    timeline = StepTimeline([0.0, 1.5, 3.25], [1.0, 2.5, 4.25])
    assert timeline.stalls.tolist() == [0.5, 0.75]
    assert timeline.step_times.tolist() == [1.5, 1.75]
    assert timeline.stall_share == pytest.approx(1.25 / 3.25)


def test_variation_is_the_standard_deviation_of_step_times_over_their_mean():
    assert StepTimeline([0, 0, 0], [0.0, 1.0, 4.0]).variation == pytest.approx(1.0 / 2.0)
    assert StepTimeline([0, 0, 0], [0.0, 1.0, 2.0]).variation == 0.0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=2, max_size=50))
def test_a_stall_is_never_negative_nor_longer_than_its_step(waits_and_works):
    """For any device that begins a step when the batch is ready and the step before is done."""
    ready: list[float] = []
    completed: list[float] = []
    now = 0.0
    for wait, work in waits_and_works:
        ready.append((ready[-1] if ready else 0.0) + wait)
        now = max(now, ready[-1]) + work
        completed.append(now)
    timeline = StepTimeline(ready, completed)
    assert (timeline.stalls >= 0).all()
    assert (timeline.stalls <= timeline.step_times + 1e-9).all()
    assert 0 <= timeline.stall_share <= 1 + 1e-9


def test_no_time_at_all_is_no_stall():
    timeline = StepTimeline([0.0, 0.0], [0.0, 0.0])
    assert (timeline.stall_share, timeline.variation) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("ready", "completed", "message"),
    [
        ([0.0], [1.0], "at least two steps"),
        ([0.0, 1.0], [1.0, 2.0, 3.0], "one time each"),
        ([0.0, 1.0], [2.0, 1.0], "in order"),
        (np.zeros((2, 2)), np.zeros((2, 2)), "one time each"),
    ],
)
def test_times_that_are_no_timeline_are_refused(ready, completed, message):
    with pytest.raises(ValueError, match=message):
        StepTimeline(ready, completed)


@pytest.mark.parametrize(
    ("share", "verdict"),
    [
        (0.0, "not input-bound"),
        (0.0499, "not input-bound"),
        (0.05, "moderately input-bound"),
        (0.1999, "moderately input-bound"),
        (0.20, "highly input-bound"),
        (1.0, "highly input-bound"),
    ],
)
def test_the_verdict_follows_tensorflow_profilers_thresholds(share, verdict):
    assert input_verdict(share) == verdict


def test_the_example_in_the_docstring_holds():
    results = doctest.testmod(stall)
    assert results.attempted > 0
    assert results.failed == 0
