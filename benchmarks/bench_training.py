"""Real training: the cost of each way of loading, and of the loop itself.

    .venv/bin/python benchmarks/bench_training.py [--clips 400] [--steps 40] [--rounds 3] [--json training.json]

Steps of the tiny model run on batches from the store, on batches whose mels are computed every time (on the host, and
inside the step), and on batches from a pipeline that calls soundfile and librosa for every clip. Each is compared
with the same batches replayed from memory: a ratio of 1 means that loading costs nothing. Before each measurement,
steps that are not timed empty the buffers. The rows take turns, so that noise affects all of them alike; figures are
medians over the rounds. The stall share is measured by the trainer.

A second table compares the step run eagerly, as a graph and under XLA on one batch. The last lines give the time that
the trainer's loop takes per batch, besides waiting and the compiled step, in a real run that reads losses every 10
steps.

Clips are as long as LJSpeech's. Everything runs on the device that training would choose.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from common import describe_machine, parser, print_table, write_json
from loading.data import write_audio
from loading.peers_runtime import load

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.data.batch_source import BatchSource
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.models.create import create_model
from myxtts.training.device import prepare_device
from myxtts.training.measured_steps import StepRunner
from myxtts.training.objective import SpeechObjective
from myxtts.training.optimizer import create_optimizer
from myxtts.training.step import TrainingStep
from myxtts.training.step_times import Rates
from myxtts.training.trainer import XTTSTrainer

SEED = 0
BOUND = 0.98
UNTIMED = 12  # more batches than any of the pipelines buffers

Batch = dict[str, tf.Tensor]


@dataclass
class Row:
    """A way of loading, and its rates in each round."""

    name: str
    dataset: tf.data.Dataset
    replayed: list[Batch] = field(default_factory=list)
    rates: list[Rates] = field(default_factory=list)
    replay_rates: list[Rates] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Clips per second, over those of the same batches replayed from memory."""
        pairs = zip(self.rates, self.replay_rates, strict=True)
        return statistics.median(one.clips_per_second / other.clips_per_second for one, other in pairs)

    @property
    def stall_share(self) -> float:
        return statistics.median(rates.stall_share for rates in self.rates)


def per_clip(source: BatchSource, audio: list[str]) -> tf.data.Dataset:
    """Soundfile and librosa for every clip, through Python, as in many pipelines, with the same batches as ours."""
    plan, batch_size = source.plan, source.config.batch_size
    orders = [plan.epoch(SEED, epoch) for epoch in range(4)]
    rows = np.concatenate([batch[batch >= 0] for order in orders for batch in order if (batch >= 0).all()])
    tokens = [
        np.asarray(source.clips.token_data[o : o + n])
        for o, n in zip(source.clips.token_offsets, source.clips.token_lengths, strict=True)
    ]
    frames = np.sort([bucket.frames for bucket in plan.buckets]).astype(np.int32)
    widths = np.sort([bucket.tokens for bucket in plan.buckets]).astype(np.int32)
    reference = source.reference_frames

    def read(row: np.int64) -> tuple[np.ndarray, np.ndarray]:
        return load(audio[row]).astype(np.float32), tokens[row].astype(np.int32)

    def clip(row: tf.Tensor) -> Batch:
        mel, ids = tf.numpy_function(read, [row], [tf.float32, tf.int32])
        mel, ids = tf.ensure_shape(mel, [None, 80]), tf.ensure_shape(ids, [None])
        crop = tf.pad(mel[:reference], [[0, tf.maximum(0, reference - tf.shape(mel)[0])], [0, 0]])
        zero = tf.constant(0)
        return {
            "tokens": ids,
            "token_lengths": tf.size(ids),
            "mel": mel,
            "mel_lengths": tf.shape(mel)[0],
            "speaker": zero,
            "language": zero,
            "index": row,
            "reference_mel": tf.ensure_shape(crop, [reference, 80]),
        }

    def to_bucket(batch: Batch) -> Batch:
        length, width = tf.shape(batch["mel"])[1], tf.shape(batch["tokens"])[1]
        place = tf.maximum(tf.searchsorted(frames, [length])[0], tf.searchsorted(widths, [width])[0])
        batch["mel"] = tf.pad(
            tf.cast(batch["mel"], tf.float16), [[0, 0], [0, tf.gather(frames, place) - length], [0, 0]]
        )
        batch["tokens"] = tf.pad(batch["tokens"], [[0, 0], [0, tf.gather(widths, place) - width]])
        batch["reference_mel"] = tf.cast(batch["reference_mel"], tf.float16)
        return batch

    dataset = tf.data.Dataset.from_tensor_slices(rows).repeat().map(clip, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.padded_batch(batch_size).map(to_bucket).prefetch(tf.data.AUTOTUNE)


def compare_ways(config: XTTSConfig) -> list[tuple[str, float, float]]:
    """The step eagerly, as a graph and under XLA on one batch: name, first call in s, ms."""
    source = LJSpeechDataset(None, config).batches("train")
    batch = next(iter(source.dataset(seed=SEED)))
    ways: tuple[tuple[str, dict[str, bool], int], ...] = (
        ("eager", {"enable_graph_mode": False}, 3),
        ("graph", {"enable_xla_compilation": False}, 10),
        ("XLA", {}, 10),
    )
    results = []
    for name, changes, calls in ways:
        changed = config.model_copy(update={"training": config.training.model_copy(update=changes)})
        step = make_step(changed, source.dataset(seed=SEED).element_spec)
        times = []
        for _ in range(calls + 1):
            began = time.perf_counter()
            step(batch).completion.numpy()
            times.append(time.perf_counter() - began)
        results.append((name, times[0], 1e3 * statistics.median(times[1:])))
    return results


def make_step(config: XTTSConfig, spec: Any) -> TrainingStep:
    return TrainingStep(
        SpeechObjective(create_model(config), config), create_optimizer(config.training, 100_000), config, spec
    )


def make_rows(config: XTTSConfig, folder: Path) -> list[Row]:
    def changed(**values: Any) -> XTTSConfig:
        return config.model_copy(update={"data": config.data.model_copy(update=values)})

    stored = changed(preprocessing_mode="precompute")
    runtime = changed(preprocessing_mode="runtime")
    on_device = changed(preprocessing_mode="runtime", feature_device="accelerator")
    sources = {
        name: LJSpeechDataset(None, one).batches("train")
        for name, one in (("store", stored), ("runtime", runtime), ("device", on_device))
    }
    audio = [str(folder / "wavs" / f"{clip}.wav") for clip in sources["runtime"].clips.ids]
    datasets = {
        "store (precompute)": sources["store"].dataset(seed=SEED),
        "runtime, mels on the host": sources["runtime"].dataset(seed=SEED),
        "runtime, mels inside the step": sources["device"].dataset(seed=SEED),
        "per clip: numpy_function, soundfile, librosa": per_clip(sources["runtime"], audio),
    }
    return [Row(name, dataset) for name, dataset in datasets.items()]


def measure_rows(rows: list[Row], runner: StepRunner, steps: int, rounds: int) -> None:
    for row in rows:
        row.replayed = list(itertools.islice(iter(row.dataset), UNTIMED, UNTIMED + steps))
        for batch in row.replayed:
            runner.prepare(batch)
    for _ in range(rounds):
        for row in rows:
            batches = iter(row.dataset)
            runner.run(batches, UNTIMED)
            row.rates.append(runner.run(batches, steps))
            row.replay_rates.append(runner.run(iter(row.replayed), steps))


def measure_overhead(config: XTTSConfig, folder: Path, steps: int) -> dict[str, float]:
    changes = {"checkpoint_dir": str(folder), "max_steps": steps, "log_every": 10, "enable_tensorboard": True}
    training = config.training.model_copy(update=changes)
    data = config.data.model_copy(update={"num_buckets": 1, "preprocessing_mode": "precompute"})
    trainer = XTTSTrainer(config.model_copy(update={"training": training, "data": data}))
    result = trainer.train(*trainer.prepare_datasets())
    return {"overhead_ms": result.overhead_ms, "step_ms": 1e3 * result.performance.step.mean}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--clips", type=int, default=400)
    options.add_argument("--steps", type=int, default=40, help="per row and round")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--buckets", type=int, default=3)
    options.add_argument("--batch-size", type=int, default=16)
    arguments = options.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "data"
        settings = MelSettings()
        write_audio(folder, arguments.clips, settings)
        config = XTTSConfig(
            data_path=str(folder),
            text_symbols="graphemes",
            batch_size=arguments.batch_size,
            num_buckets=arguments.buckets,
            warmup_steps=10,
        )
        device = prepare_device(config.training)
        print(f"{describe_machine()}; on {device.name}")
        rows = make_rows(config, folder)
        measure_rows(rows, StepRunner(config, device), arguments.steps, arguments.rounds)
        ways = compare_ways(config)
        overhead = measure_overhead(config, Path(temporary) / "run", 200)

    print_table(
        f"\nTraining the tiny model, {arguments.rounds} × {arguments.steps} steps of {arguments.batch_size} clips",
        ("", "clips/s", "replayed", "ratio", "stall %", "data ms", "step ms"),
        [
            (
                row.name,
                f"{statistics.median(rates.clips_per_second for rates in row.rates):.1f}",
                f"{statistics.median(rates.clips_per_second for rates in row.replay_rates):.1f}",
                f"{row.ratio:.3f}",
                f"{100 * row.stall_share:.1f}",
                f"{statistics.median(rates.data_ms for rates in row.rates):.1f}",
                f"{statistics.median(rates.step_ms for rates in row.rates):.0f}",
            )
            for row in rows
        ],
    )
    slowest = ways[0][2]
    print_table(
        "\nThe step",
        ("", "first call, s", "ms", "times eager"),
        [(name, f"{first:.1f}", f"{ms:.0f}", f"{slowest / ms:.1f}") for name, first, ms in ways],
    )
    print(
        f"\nthe loop itself, without waiting and the compiled step: {overhead['overhead_ms']:.3f} ms per batch "
        f"(bound 1 ms; a step takes {overhead['step_ms']:.0f} ms)"
    )
    print(f"from the store: {rows[0].ratio:.3f} of replayed batches (bound {BOUND})")
    write_json(
        arguments.json,
        {
            "benchmark": "training",
            "device": device.name,
            "rows": {
                row.name: {
                    "ratio": row.ratio,
                    "stall_share": row.stall_share,
                    "clips_per_second": [rates.clips_per_second for rates in row.rates],
                    "replayed_clips_per_second": [rates.clips_per_second for rates in row.replay_rates],
                }
                for row in rows
            },
            "step_ms": {name: ms for name, _, ms in ways},
            "first_call_seconds": {name: first for name, first, _ in ways},
            "loop": overhead,
        },
    )


if __name__ == "__main__":
    main()
