"""The simulated accelerator: its arithmetic on a clock of its own, its waiting on the real one."""

import doctest
import itertools
import json
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.performance import simulated_accelerator
from myxtts.performance.batches import leading_dimension, wait_until_ready
from myxtts.performance.simulated_accelerator import SimulatedAccelerator, SimulatedStep


class VirtualClock:
    """Time that passes only while someone waits for it."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def sleep_until(self, deadline):
        self.time = max(self.time, deadline)


def delayed(clock, delays):
    """A source without prefetch: each batch takes its delay after it is asked for."""
    for delay in delays:
        clock.time += delay
        yield np.zeros([4, 2])


def steady(clock, delay):
    """The same with one delay for all, without end."""
    return delayed(clock, itertools.repeat(delay))


def prefetched(clock, interval, ahead=0):
    """A source that works on its own: a batch every interval from now on, `ahead` of them there already."""
    begin = clock.now() - ahead * interval
    for k in itertools.count(1):
        clock.sleep_until(begin + k * interval)
        yield np.zeros([4, 2])


def simulate(step_seconds, source, clock, steps=50, **options):
    return SimulatedAccelerator(step_seconds, clock=clock, **options).run(source, steps, warmup=3)


def test_an_ideal_source_keeps_the_device_busy_all_the_time():
    clock = VirtualClock()
    run = simulate(0.010, steady(clock, 0.0), clock)
    assert run.busy_share == pytest.approx(1.0)
    assert run.stalls.max() == 0.0
    assert run.variation == pytest.approx(0.0, abs=1e-9)


def test_a_source_faster_than_the_device_stalls_nothing_although_the_host_waits():
    clock = VirtualClock()
    run = simulate(0.010, steady(clock, 0.004), clock)
    assert run.stalls.max() == 0.0
    assert run.busy_share == pytest.approx(1.0)
    assert run.fetch_seconds == pytest.approx(np.full(50, 0.004))
    assert run.dispatch_seconds == pytest.approx(np.full(50, 0.006))


def test_a_source_as_fast_as_the_device_is_just_enough():
    clock = VirtualClock()
    run = simulate(0.010, steady(clock, 0.010), clock)
    assert run.busy_share == pytest.approx(1.0)


@pytest.mark.parametrize("make_source", [steady, prefetched])
def test_a_source_slower_than_the_device_stalls_each_step_by_the_difference(make_source):
    clock = VirtualClock()
    run = simulate(0.010, make_source(clock, 0.013), clock)
    assert run.stalls == pytest.approx(np.full(50, 0.003))
    assert run.stall_share == pytest.approx(3 / 13)
    assert run.busy_share == pytest.approx(10 / 13)


def test_one_slow_batch_is_absorbed_by_the_steps_in_flight_up_to_their_length():
    clock = VirtualClock()
    delays = [0.0] * 20 + [0.035] + [0.0] * 29
    run = simulate(0.010, delayed(clock, delays), clock, steps=40)
    # Asked for when step 17 of the measured ones was dispatched, with two steps in flight.
    expected = np.zeros(40)
    expected[17] = 0.035 - 2 * 0.010
    assert run.stalls == pytest.approx(expected)


def test_at_most_two_steps_are_in_flight():
    clock = VirtualClock()
    asked_at = []

    def source():
        while True:
            asked_at.append(clock.now())
            yield np.zeros([4, 2])

    simulate(1.0, source(), clock, steps=5)
    # Two are dispatched at once, the third waits in hand for the first to complete.
    assert asked_at == pytest.approx([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=5, max_size=40),
    st.floats(0, 1),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_completions_follow_the_schedule_for_any_delays(delays, step, max_in_flight, warmup):
    clock = VirtualClock()
    accelerator = SimulatedAccelerator(step, max_in_flight, clock)
    run = accelerator.run(delayed(clock, delays), len(delays) - warmup, warmup=warmup)

    ready: list[float] = []
    dispatched: list[float] = []
    completed: list[float] = []
    for k, delay in enumerate(delays):
        ready.append((dispatched[-1] if k else 0.0) + delay)
        place_free = completed[k - max_in_flight] if k >= max_in_flight else 0.0
        dispatched.append(max(ready[k], place_free))
        completed.append(max(dispatched[k], completed[-1] if k else 0.0) + step)
    stalls = [max(0.0, ready[k] - completed[k - 1]) for k in range(warmup, len(delays))]
    assert run.timeline.completed == pytest.approx(completed[warmup - 1 :])
    assert run.stalls == pytest.approx(stalls)
    assert run.busy_share <= 1 + 1e-9


def test_a_host_that_is_late_with_a_batch_in_hand_costs_busy_share_but_is_no_stall():
    class Oversleeping(VirtualClock):
        def sleep_until(self, deadline):
            self.time = max(self.time, deadline + 0.015)

    clock = Oversleeping()
    run = simulate(0.010, steady(clock, 0.0), clock)
    assert run.busy_share < 0.9
    assert run.stall_share < 0.01


def test_sleeping_a_little_too_long_changes_nothing():
    class Oversleeping(VirtualClock):
        def sleep_until(self, deadline):
            self.time = max(self.time, deadline + 0.009)

    clock = Oversleeping()
    run = simulate(0.010, steady(clock, 0.0), clock)
    assert run.busy_share == pytest.approx(1.0)


def test_the_warm_up_is_not_measured():
    clock = VirtualClock()
    run = simulate(0.010, delayed(clock, [5.0, 5.0, 5.0] + [0.001] * 50), clock)
    assert run.steps == 50
    assert run.stalls.max() == 0.0
    assert run.first_batch_seconds == 5.0


def test_clips_are_counted_from_the_first_array_or_as_told():
    clock = VirtualClock()
    run = simulate(0.010, steady(clock, 0.0), clock)
    assert run.clips == 200
    assert run.clips_per_second == pytest.approx(400)
    accelerator = SimulatedAccelerator(0.010, clock=clock)
    run = accelerator.run(steady(clock, 0.0), 50, count_clips=lambda batch: 3)
    assert run.clips == 150


def test_a_source_that_ends_is_measured_as_far_as_it_goes():
    clock = VirtualClock()
    assert simulate(0.010, delayed(clock, [0.0] * 10), clock).steps == 7


def test_a_source_that_ends_in_the_warm_up_is_refused():
    clock = VirtualClock()
    with pytest.raises(ValueError, match="ended after 3 batches"):
        simulate(0.010, delayed(clock, [0.0] * 3), clock)


def test_an_iterator_is_continued_where_it_stands():
    clock = VirtualClock()
    source = iter(range(100))
    simulate(0.010, source, clock, steps=5)
    assert next(source) == 8


def test_an_error_of_the_source_is_passed_on():
    def failing():
        yield from range(5)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        simulate(0.010, failing(), VirtualClock())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SimulatedAccelerator(-0.1), "step_seconds"),
        (lambda: SimulatedAccelerator(0.1, max_in_flight=0), "max_in_flight"),
        (lambda: SimulatedAccelerator(0.1).run([], 0), "at least 1"),
        (lambda: SimulatedAccelerator(0.1).run([], 1, warmup=0), "at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_results_always_say_simulated():
    clock = VirtualClock()
    run = simulate(0.010, steady(clock, 0.013), clock)
    assert run.simulated
    assert "simulated" in str(run)
    result = json.loads(json.dumps(run.to_dict()))
    assert result["simulated"] is True
    assert result["verdict"] == "highly input-bound"
    assert result["stall_max"] == pytest.approx(0.003)


def test_no_more_batches_are_kept_than_are_in_flight_or_in_hand():
    class Batch:
        """Something that can be referred to weakly."""

    alive: weakref.WeakSet[Batch] = weakref.WeakSet()
    most = 0

    def source():
        nonlocal most
        for _ in range(60):
            batch = Batch()
            alive.add(batch)
            yield batch
            del batch
            most = max(most, len(alive))

    simulate(0.010, source(), VirtualClock(), steps=40)
    assert most <= 3


def test_a_batch_is_read_from_its_mapped_file_before_it_counts_as_ready(tmp_path):
    """Seen in the resident pages of the mapping."""
    path = tmp_path / "mel.bin"
    np.arange(4_000_000, dtype=np.float32).tofile(path)
    mapped = np.memmap(path, np.float32, "r")

    def resident_kb():
        lines = iter(Path("/proc/self/smaps").read_text().splitlines())
        for line in lines:
            if line.endswith(str(path)):
                return next(int(rest.split()[1]) for rest in lines if rest.startswith("Rss:"))
        raise AssertionError("not mapped")

    before = resident_kb()
    wait_until_ready({"mel": (np.asarray(mapped)[1_000_000:3_000_000],)})
    assert resident_kb() - before >= 8_000_000 // 1024 - 8


def test_a_batch_that_is_still_computed_is_waited_for():
    class Pending:
        waited = False

        def block_until_ready(self):
            self.waited = True

    batch: dict[str, Any] = {"mel": [Pending()], "tokens": (Pending(), np.zeros(3))}
    wait_until_ready(batch)
    assert batch["mel"][0].waited
    assert batch["tokens"][0].waited


@pytest.mark.parametrize(
    ("batch", "clips"),
    [
        (np.zeros([16, 3]), 16),
        ({"mel": np.zeros([8, 3, 2]), "n": np.zeros([])}, 8),
        ((np.zeros([5, 2]), np.zeros([7])), 5),
        (np.zeros([]), 1),
        ("text", 1),
        ([], 1),
    ],
)
def test_the_leading_dimension_is_that_of_the_first_array(batch, clips):
    assert leading_dimension(batch) == clips


def test_as_a_step_it_follows_the_same_schedule_and_the_caller_limits_the_steps_in_flight():
    clock = VirtualClock()
    step = SimulatedStep(0.010, clock=clock)
    results = [step(number) for number in range(3)]
    assert [result.completes_at for result in results] == pytest.approx([0.010, 0.020, 0.030])
    assert clock.now() == 0.0
    results[1].block_until_ready()
    assert clock.now() == pytest.approx(0.020)
    clock.time = 1.0
    assert step(4).completes_at == pytest.approx(1.010)


def test_on_the_real_clock_waiting_uses_no_cpu():
    worked = time.thread_time()
    run = SimulatedAccelerator(0.050).run(itertools.repeat(np.zeros([4])), 12, warmup=2)
    worked = time.thread_time() - worked
    assert run.step_times.min() >= 0.0499
    assert worked < 0.5 * run.timeline.seconds


@pytest.mark.soak
def test_on_the_real_clock_an_ideal_source_keeps_the_device_busy():
    run = SimulatedAccelerator(0.050).run(itertools.repeat(np.zeros([4])), 12, warmup=2)
    assert run.busy_share >= 0.995
    assert run.stalls.max() == 0.0
    assert run.dispatch_seconds.mean() > 0.5 * run.step_seconds


@pytest.mark.soak
def test_on_the_real_clock_the_stall_is_within_3_percent_of_the_true_one():
    step_seconds = 0.020
    true_stalls = []

    def source():
        while True:
            started = time.perf_counter()
            time.sleep(0.050)
            true_stalls.append(time.perf_counter() - started - step_seconds)
            yield np.zeros([4])

    run = SimulatedAccelerator(step_seconds).run(source(), 15, warmup=2)
    assert run.stalls.sum() == pytest.approx(sum(true_stalls[2:]), rel=0.03)


def test_on_the_real_clock_tensors_of_a_dataset_are_taken_as_they_come():
    import tensorflow as tf

    dataset = tf.data.Dataset.range(100).batch(5).prefetch(2)
    run = SimulatedAccelerator(0.002).run(dataset, 15, warmup=2)
    assert run.clips == 75


def test_the_example_in_the_docstring_holds():
    results = doctest.testmod(simulated_accelerator)
    assert results.attempted > 0
    assert results.failed == 0
