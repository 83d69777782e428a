"""What an epoch's plan costs, and how much padding its buckets leave.

    .venv/bin/python benchmarks/bench_plan.py [--clips 1000000] [--json plan.json]

The first table times one epoch's order for a million clips against other ways to make one; the second
compares ways to place the bucket boundaries. Lengths are spread as in LJSpeech: 1 to 10 seconds, long clips
the most frequent. Memory is the peak of Python's and NumPy's allocations while an epoch is made, without the
lengths. The bounds: an epoch of a million clips in under 1 s and 200 MB.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import describe_machine, parser, print_table, write_json

from myxtts.data.batches.plan import BatchPlan

BATCH_SIZE = 32
NUM_BUCKETS = 6
SEED = 1
REPEATS = 3


def speech_lengths(clips: int) -> tuple[np.ndarray, np.ndarray]:
    """Mel frames and tokens of each clip, as LJSpeech has them at a hop of 256 and 22,050 Hz."""
    frames = (np.random.default_rng(SEED).beta(2.6, 1.5, clips) * 775 + 95).astype(np.int32)
    return frames, frames // 6


def python_buckets(frames: np.ndarray, boundaries: np.ndarray) -> Iterator[list[int]]:
    """A bucketing batch sampler as it is commonly written: clip by clip."""
    bucket_of_clip = np.searchsorted(boundaries, frames).tolist()
    order = list(range(len(frames)))
    random.Random(SEED).shuffle(order)
    waiting: dict[int, list[int]] = defaultdict(list)
    batches = []
    for clip in order:
        batch = waiting[bucket_of_clip[clip]]
        batch.append(clip)
        if len(batch) == BATCH_SIZE:
            batches.append(batch)
            waiting[bucket_of_clip[clip]] = []
    batches.extend(batch for batch in waiting.values() if batch)
    random.Random(SEED).shuffle(batches)
    return iter(batches)


def sorted_chunks(frames: np.ndarray) -> np.ndarray:
    """Sort by length with a little noise, cut into batches, shuffle these: every batch has its own shape."""
    generator = np.random.default_rng(SEED)
    order = np.argsort(frames + generator.uniform(0, 8, len(frames)))
    batches = order[: len(order) // BATCH_SIZE * BATCH_SIZE].reshape(-1, BATCH_SIZE)
    return batches[generator.permutation(len(batches))]


def torch_batches(clips: int) -> list[list[int]] | None:
    """PyTorch's own sampler: shuffled, not bucketed."""
    try:
        from torch.utils.data import BatchSampler, RandomSampler
    except ImportError:
        return None
    return list(BatchSampler(RandomSampler(range(clips)), BATCH_SIZE, drop_last=False))


def measure(work: Callable[[], Any]) -> tuple[float, float]:
    """Best seconds of a few runs, and the peak of allocated bytes in a run of its own."""
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return min(seconds), peak


def padding_of(frames: np.ndarray, boundaries: np.ndarray) -> float:
    """Padding share of batches that are padded to these boundaries, empty places included."""
    clips = np.bincount(np.searchsorted(boundaries, frames), minlength=len(boundaries))
    padded = (-(-clips // BATCH_SIZE) * BATCH_SIZE * boundaries).sum()
    return float(1 - frames.sum() / padded)


def padding_of_sorted(frames: np.ndarray) -> float:
    """The least there is: neighbours in length share a batch, and each is padded to its own longest clip."""
    ordered = np.sort(frames)
    longest = ordered[
        np.minimum(np.arange(BATCH_SIZE - 1, len(frames) + BATCH_SIZE - 1, BATCH_SIZE), len(frames) - 1)
    ]
    return float(1 - frames.sum() / (np.int64(BATCH_SIZE) * longest).sum())


def rounded(boundaries: np.ndarray) -> np.ndarray:
    return np.unique(-(-boundaries.astype(np.int64) // 8) * 8)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--clips", type=int, default=1_000_000)
    arguments = options.parse_args()

    frames, tokens = speech_lengths(arguments.clips)
    plan = BatchPlan(frames, tokens, batch_size=BATCH_SIZE, num_buckets=NUM_BUCKETS)
    boundaries = np.array([bucket.frames for bucket in plan.buckets])
    budgeted = BatchPlan(frames, tokens, max_frames_per_batch=int(BATCH_SIZE * frames.mean()))

    ways: dict[str, Callable[[], Any]] = {
        "bucketing batch sampler in Python, clip by clip": lambda: python_buckets(frames, boundaries),
        "PyTorch RandomSampler + BatchSampler, not bucketed": lambda: torch_batches(arguments.clips),
        "NumPy: sorted with noise, one shape per batch": lambda: sorted_chunks(frames),
        "ours, one epoch": lambda: plan.epoch(SEED, 0),
        "ours, one epoch, frame budget": lambda: budgeted.epoch(SEED, 0),
        "ours, not shuffled": lambda: plan.epoch(SEED, 0, shuffle=False),
        "ours, the plan itself (once per run)": lambda: BatchPlan(frames, tokens, batch_size=BATCH_SIZE),
        "ours, the plan and one epoch": (lambda: BatchPlan(frames, tokens, batch_size=BATCH_SIZE).epoch(SEED, 0)),
    }
    costs: dict[str, tuple[float, float] | None] = {}
    for name, work in ways.items():
        if "PyTorch" in name and torch_batches(1) is None:
            costs[name] = None
        else:
            costs[name] = measure(work)

    first = next(iter(costs.values()))
    assert first is not None
    print(describe_machine())
    print_table(
        f"\nOrder of one epoch, {arguments.clips:,} clips, batch {BATCH_SIZE}",
        ("", "ms", "ratio", "peak MB"),
        [
            (name, "not installed", "", "")
            if cost is None
            else (name, f"{1e3 * cost[0]:,.0f}", f"{first[0] / cost[0]:.1f}", f"{cost[1] / 1e6:,.0f}")
            for name, cost in costs.items()
        ],
    )

    longest = int(frames.max())
    placements = {
        "one shape": rounded(np.array([longest])),
        f"{NUM_BUCKETS} of equal width": rounded(np.linspace(0, longest, NUM_BUCKETS + 1)[1:]),
        f"{NUM_BUCKETS} with equally many clips": rounded(
            np.quantile(frames, np.linspace(0, 1, NUM_BUCKETS + 1)[1:])
        ),
    }
    padding = {name: (len(places), padding_of(frames, places)) for name, places in placements.items()}
    for count in (4, NUM_BUCKETS, 8, 12):
        chosen = BatchPlan(frames, tokens, batch_size=BATCH_SIZE, num_buckets=count)
        padding[f"ours, at most {count}"] = (len(chosen.buckets), chosen.padding_share)
    padding["limit: every batch its own shape, clips sorted"] = (
        len(np.unique(frames)),
        padding_of_sorted(frames),
    )
    print_table(
        f"\nPadding, batch {BATCH_SIZE}",
        ("boundaries", "shapes", "padding %"),
        [(name, f"{shapes:,}", f"{100 * share:.1f}") for name, (shapes, share) in padding.items()],
    )

    write_json(
        arguments.json,
        {
            "benchmark": "plan",
            "clips": arguments.clips,
            "batch_size": BATCH_SIZE,
            "order": {
                name: None if cost is None else {"seconds": cost[0], "peak_bytes": cost[1]}
                for name, cost in costs.items()
            },
            "padding": {name: {"shapes": shapes, "share": share} for name, (shapes, share) in padding.items()},
        },
    )


if __name__ == "__main__":
    main()
