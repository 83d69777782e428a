"""The search for the fastest accelerator that a source keeps busy."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from test_performance_simulated_accelerator import VirtualClock, delayed, prefetched, steady

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))

from loading.highest_rate import SHORTEST_STEP_SECONDS, highest_rate  # noqa: E402


def search(make_source, clock, **options):
    return highest_rate(make_source, clock=clock, **({"tolerance": 0.01} | options))


@pytest.mark.parametrize("delay", [0.0001, 0.003, 0.2])
@pytest.mark.parametrize("target", [0.8, 0.95])
def test_a_source_of_known_speed_is_found_within_the_tolerance(delay, target):
    clock = VirtualClock()
    found = search(lambda: steady(clock, delay), clock, target=target)
    # The device is busy step / delay of the time, so target × delay is the shortest step that will do.
    assert found.step_seconds == pytest.approx(target * delay, rel=0.011)
    assert found.run.busy_share >= target
    assert found.clips_per_second == pytest.approx(4 / delay, rel=0.01)


def test_what_was_prefetched_before_does_not_pass_for_speed():
    """A buffer of 40 batches fills while nobody asks; its source sustains one batch in 10 ms."""
    clock = VirtualClock()
    found = search(lambda: prefetched(clock, 0.010, ahead=40), clock)
    assert found.step_seconds == pytest.approx(0.95 * 0.010, rel=0.03)


def test_a_source_with_slow_batches_now_and_then_needs_a_slower_accelerator():
    clock = VirtualClock()
    even = search(lambda: steady(clock, 0.010), clock)
    uneven = search(lambda: delayed(clock, itertools.cycle([0.001] * 9 + [0.091])), clock)
    assert uneven.step_seconds > 1.2 * even.step_seconds


def test_the_answer_was_measured_and_every_probe_is_listed():
    clock = VirtualClock()
    found = search(lambda: prefetched(clock, 0.005), clock)
    assert (found.step_seconds, found.run.busy_share) in found.tried
    result = json.loads(json.dumps(found.to_dict()))
    assert result["simulated"] is True
    assert result["run"]["simulated"] is True
    assert len(result["tried"]) == len(found.tried)


def test_a_source_that_ends_is_refused():
    clock = VirtualClock()
    with pytest.raises(ValueError, match="endless"):
        search(lambda: delayed(clock, [0.001] * 100), clock)


def test_a_source_that_takes_no_time_feeds_the_fastest_accelerator_there_is():
    clock = VirtualClock()
    assert search(lambda: itertools.repeat(np.zeros([4])), clock).step_seconds == SHORTEST_STEP_SECONDS


def test_a_source_that_is_never_twice_the_same_is_given_up():
    clock = VirtualClock()
    slower = itertools.accumulate(itertools.repeat(2.0), lambda delay, factor: delay * factor, initial=0.001)
    with pytest.raises(ValueError, match="changes too much"):
        search(lambda: steady(clock, next(slower)), clock)


@pytest.mark.parametrize("target", [0.0, 1.0, 1.5])
def test_a_target_that_is_no_share_is_refused(target):
    with pytest.raises(ValueError, match="target"):
        highest_rate(lambda: itertools.repeat(1), target=target)


@pytest.mark.soak
def test_on_the_real_clock_a_rate_is_found_for_an_in_memory_source():
    found = highest_rate(lambda: itertools.repeat(np.zeros([4])), probe_seconds=0.02, tolerance=0.3)
    assert found.run.busy_share >= 0.95
    assert found.clips_per_second > 0
