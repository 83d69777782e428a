"""Statistics of a stream in bounded memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.performance.statistics import RunningStatistics, variation_verdict

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)


def statistics_of(stream, window=50):
    statistics = RunningStatistics(window)
    for value in stream:
        statistics.add(value)
    return statistics


@settings(max_examples=100, deadline=None)
@given(values)
def test_count_total_mean_deviation_and_extremes_cover_the_whole_stream(stream):
    summary = statistics_of(stream).summary()
    assert summary.count == len(stream)
    assert summary.total == pytest.approx(np.sum(stream))
    assert summary.mean == pytest.approx(np.mean(stream))
    assert summary.std == pytest.approx(np.std(stream), abs=1e-6 * max(1.0, *stream))
    assert (summary.minimum, summary.maximum) == (min(stream), max(stream))


@settings(max_examples=100, deadline=None)
@given(values)
def test_quantiles_cover_the_most_recent_values(stream):
    summary = statistics_of(stream).summary()
    expected = np.quantile(stream[-50:], [0.5, 0.95, 0.99])
    assert [summary.p50, summary.p95, summary.p99] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("variation", "verdict"),
    [(0.0, "stable"), (0.19, "stable"), (0.2, "moderate"), (0.5, "moderate"), (0.51, "high")],
)
def test_variation_is_judged_by_the_thresholds_of_the_reference_documents(variation, verdict):
    assert variation_verdict(variation) == verdict


def test_the_deviation_of_small_differences_between_large_values_survives():
    summary = statistics_of([1e9 + value for value in (1.0, 2.0, 3.0, 4.0) * 1000]).summary()
    assert summary.std == pytest.approx(np.std([1.0, 2.0, 3.0, 4.0]), rel=1e-6)


def test_an_empty_stream_is_all_zeros():
    assert set(RunningStatistics().summary().to_dict().values()) == {0}


def test_memory_does_not_grow_with_the_stream():
    statistics = statistics_of(range(100))
    tracemalloc.start()
    try:
        for value in range(100_000):
            statistics.add(float(value))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 2_000
