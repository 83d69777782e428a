"""One training step: eager, as a graph, compiled by XLA; and the cost of the alignment search in each.

    .venv/bin/python benchmarks/bench_step.py [--size tiny] [--decoder auto] [--clips 16] [--frames 400] …

The batch is random, without empty places, and has references. The step is the one that training runs: forward pass,
gradients, AdamW with clipping and averaged weights, counters. The search's share is the time that a step saves when
durations are given to it (`freeze_alignment_after`).
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from common import describe_machine, parser, print_table, write_json

from myxtts.config.config import XTTSConfig
from myxtts.models.create import create_model
from myxtts.models.xtts import XTTS
from myxtts.training.objective import SpeechObjective
from myxtts.training.optimizer import create_optimizer
from myxtts.training.step import TrainingStep


def random_batch(model: XTTS, clips: int, tokens: int, frames: int) -> dict[str, tf.Tensor]:
    rng = np.random.default_rng(0)
    mel = rng.normal(-5, 2, (clips, frames, model.n_mels))
    return {
        "tokens": tf.constant(rng.integers(1, model.vocab_size, (clips, tokens)), tf.int32),
        "token_lengths": tf.fill([clips], tokens),
        "mel": tf.constant(mel, tf.float16),
        "mel_lengths": tf.fill([clips], frames),
        "language": tf.zeros([clips], tf.int32),
        "reference_mel": tf.constant(mel[:, : min(frames, 258)], tf.float16),
    }


def make_step(config: XTTSConfig, batch: dict[str, tf.Tensor], **changes: bool) -> TrainingStep:
    changed = config.model_copy(update={"training": config.training.model_copy(update=changes)})
    spec = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in batch.items()}
    return TrainingStep(
        SpeechObjective(create_model(changed), changed), create_optimizer(changed.training, 100_000), changed, spec
    )


def measure(step: TrainingStep, batch: dict[str, tf.Tensor], steps: int) -> tuple[float, float]:
    """Milliseconds of the first step, which traces and compiles, and the median of the others."""
    times = []
    for _ in range(steps + 1):
        start = time.perf_counter()
        step(batch).completion.numpy()
        times.append(1000 * (time.perf_counter() - start))
    return times[0], statistics.median(times[1:])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", default="tiny", choices=("tiny", "base"))
    options.add_argument("--decoder", default="auto", choices=("auto", "regression", "flow"))
    options.add_argument("--clips", type=int, default=16)
    options.add_argument("--frames", type=int, default=400)
    options.add_argument("--tokens", type=int, default=150)
    options.add_argument("--steps", type=int, default=15)
    given = options.parse_args()

    config = XTTSConfig(size=given.size, decoder=given.decoder)
    model = create_model(config)
    batch = random_batch(model, given.clips, given.tokens, given.frames)
    known = {**batch, "durations": tf.function(model.align, autograph=False)(batch)}
    ways: dict[str, tuple[dict[str, bool], int]] = {
        "eager": ({"enable_graph_mode": False}, min(2, given.steps)),
        "graph": ({"enable_xla_compilation": False}, given.steps),
        "XLA": ({"enable_xla_compilation": True}, given.steps),
    }
    results: dict[str, dict[str, Any]] = {}
    for name, (changes, steps) in ways.items():
        first, searched = measure(make_step(config, batch, **changes), batch, steps)
        _, given_durations = measure(make_step(config, known, **changes), known, steps)
        results[name] = {
            "first_step_ms": first,
            "step_ms": searched,
            "with_durations_ms": given_durations,
            "search_share": 1 - given_durations / searched,
            "clips_per_second": 1000 * given.clips / searched,
            "times_faster_than_eager": results["eager"]["step_ms"] / searched if results else 1.0,
        }

    print(describe_machine())
    print(
        f"{given.size}, {model.decoder_kind}, {model.count_params():,} parameters; "
        f"{given.clips} clips of {given.frames} frames and {given.tokens} tokens"
    )
    rows = [
        [
            name,
            f"{row['step_ms']:,.0f}",
            f"{row['times_faster_than_eager']:.1f}",
            f"{row['clips_per_second']:.0f}",
            f"{row['with_durations_ms']:,.0f}",
            f"{100 * row['search_share']:.1f} %",
            f"{row['first_step_ms'] / 1000:.1f}",
        ]
        for name, row in results.items()
    ]
    columns = ["step", "ms", "× eager", "clips/s", "ms, durations given", "search's share", "first step, s"]
    print_table("Training step", columns, rows)
    write_json(given.json, {"options": vars(given) | {"json": str(given.json)}, "results": results})


if __name__ == "__main__":
    main()
