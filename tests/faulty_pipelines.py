"""Pipelines with one real fault each, beside the same pipeline without it, and healthy ones.

Where possible, a fault costs time without using the CPU (slow storage, latency, a C function that keeps the
interpreter lock while it waits), so that it shows on a busy machine as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from fault_case import STEP, Case, blocking_step, compute, simulated

from myxtts.performance.simulated_accelerator import SimulatedStep

MANY = 16
READY = 8
BANDS = 8


def clips(count: int = 1 << 20) -> tf.data.Dataset:
    return tf.data.Dataset.range(count)


def pooled(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """With threads enough for calls that wait; TensorFlow's own pool has one for each CPU."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = MANY
    return dataset.with_options(options)


def as_written(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Without TensorFlow's tuner, which puts a prefetch where there is none."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def as_clip(number: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.cast(number, tf.float32) + tf.range(24 * BANDS, dtype=tf.float32), [24, BANDS])


def through_python(function: Callable[..., Any], kind: tf.DType = tf.int64) -> Callable[[tf.Tensor], tf.Tensor]:
    def load(number: tf.Tensor) -> tf.Tensor:
        value = tf.numpy_function(function, [number], kind)
        value.set_shape([])
        return value

    return load


def wait(seconds: float) -> Callable[[Any], Any]:
    """Waits without the interpreter lock, as reading does."""

    def latency(number: Any) -> Any:
        time.sleep(seconds)
        return number

    return latency


# A Python function that keeps the interpreter lock, as C extensions do that do not release it.


def extract_features(number: Any) -> Any:
    ctypes.PyDLL(None).usleep(7_000)
    return number


def python_map_faulty() -> tf.data.Dataset:
    extracted = clips().map(through_python(extract_features), num_parallel_calls=MANY).map(as_clip)
    return pooled(extracted.batch(8).prefetch(READY))


def python_map_fixed() -> tf.data.Dataset:
    return clips().map(as_clip, num_parallel_calls=2).batch(8).prefetch(READY)


def tokenize(number: Any) -> Any:
    compute(0.008)
    return number


def python_work_faulty() -> tf.data.Dataset:
    return clips().map(through_python(tokenize), num_parallel_calls=4).map(as_clip).batch(6).prefetch(READY)


def generator_faulty() -> tf.data.Dataset:
    def read_clips() -> Iterator[np.ndarray]:
        for number in range(1 << 20):
            yield np.full([24, BANDS], extract_features(number), np.float32)

    signature = tf.TensorSpec([24, BANDS], tf.float32)
    return tf.data.Dataset.from_generator(read_clips, output_signature=signature).batch(8).prefetch(READY)


# Nothing is made ahead, and the step is one that blocks. A trivial Python function is there and must not be blamed.


def load_with_latency(number: tf.Tensor) -> tf.Tensor:
    return as_clip(through_python(wait(0.01))(number))


def no_prefetch_faulty() -> tf.data.Dataset:
    trivial = through_python(lambda number: number)
    numbered = clips().batch(4).map(lambda numbers: (trivial(numbers[0]), numbers))
    return as_written(numbered.map(lambda first, numbers: (load_with_latency(first), numbers)))


def no_prefetch_fixed() -> tf.data.Dataset:
    return no_prefetch_faulty().prefetch(READY)


class Loader:
    """Batches from a Python loop, as a data loader without workers gives them.

    Args:
        seconds: that every batch waits for its bytes.
        batches: of an epoch.
    """

    def __init__(self, seconds: float, batches: int = 1 << 20) -> None:
        self._seconds = seconds
        self._batches = batches

    def __iter__(self) -> Iterator[np.ndarray]:
        batch = np.random.default_rng(0).normal(size=[8, 24, BANDS])
        for _ in range(self._batches):
            time.sleep(self._seconds)
            yield batch


class Ahead:
    """The same, made ahead by a thread."""

    num_workers = 1

    def __init__(self, loader: Loader) -> None:
        from myxtts.performance.made_ahead import ThreadAhead

        self._ahead = ThreadAhead(loader, READY)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self._ahead)


# One call at a time, each with the latency of a remote store.


def low_parallelism_faulty() -> tf.data.Dataset:
    return clips().map(load_with_latency).batch(5).prefetch(READY)


def low_parallelism_fixed() -> tf.data.Dataset:
    return pooled(clips().map(load_with_latency, num_parallel_calls=MANY).batch(5).prefetch(READY))


# A buffer of loaded clips that is shuffled, and filled again in every epoch.


EPOCH = 240


def load_from_afar(number: tf.Tensor) -> tf.Tensor:
    return as_clip(through_python(wait(0.018))(number))


def shuffle_faulty() -> tf.data.Dataset:
    loaded = clips(EPOCH).map(load_from_afar, num_parallel_calls=MANY)
    return pooled(loaded.shuffle(EPOCH).batch(8).prefetch(2))


def shuffle_fixed() -> tf.data.Dataset:
    loaded = clips(EPOCH).shuffle(EPOCH).map(load_from_afar, num_parallel_calls=MANY)
    return pooled(loaded.batch(8).prefetch(2))


# The same, in a pipeline that repeats itself, so that nobody sees an epoch begin.


def load_from_near(number: tf.Tensor) -> tf.Tensor:
    return as_clip(through_python(wait(0.001))(number))


def repeated_shuffle_faulty() -> tf.data.Dataset:
    return clips(960).map(load_from_near).shuffle(960).batch(16).repeat().prefetch(2)


def repeated_shuffle_fixed() -> tf.data.Dataset:
    loaded = clips(960).shuffle(960).map(load_from_near, num_parallel_calls=MANY)
    return pooled(loaded.batch(16).repeat().prefetch(READY))


# Storage that gives so many bytes a second, however many ask.


class Throttled:
    """Files behind a link of fixed bandwidth, shared by all who read."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._lock = threading.Lock()
        self._free = 0.0

    def read(self, size: int) -> bytes:
        with self._lock:
            self._free = max(self._free, time.perf_counter()) + size / self._rate
            ready = self._free
        time.sleep(max(0.0, ready - time.perf_counter()))
        return bytes(size)


def reading(rate: float) -> Callable[[], tf.data.Dataset]:
    def make() -> tf.data.Dataset:
        storage = Throttled(rate)

        def read_clip(number: Any) -> Any:
            return number + len(storage.read(24 * BANDS * 4)) * 0

        read = clips().map(through_python(read_clip), num_parallel_calls=MANY).map(as_clip)
        return pooled(read.batch(8).prefetch(READY))

    return make


# Every clip by itself, where a batch at once does the same.


def many_small_steps(values: tf.Tensor) -> tf.Tensor:
    values = tf.cast(values, tf.float32)[..., None] + tf.range(8, dtype=tf.float32)
    for shift in range(20):
        values = tf.maximum(values * 0.5, tf.cast(shift, tf.float32)) + tf.cast(shift, tf.float32)
    return values


def per_clip_faulty() -> tf.data.Dataset:
    return clips().map(many_small_steps, num_parallel_calls=2).batch(1024, drop_remainder=True).prefetch(READY)


def per_clip_fixed() -> tf.data.Dataset:
    return clips().batch(1024, drop_remainder=True).map(many_small_steps, num_parallel_calls=2).prefetch(READY)


# One long clip in every batch, and all others filled up to it.

LONG, SHORT = 36_000, 60


def clip_of(length: tf.Tensor) -> tf.Tensor:
    return tf.ones([length, 80]) + tf.cast(tf.range(length), tf.float32)[:, None]


def padding_faulty() -> tf.data.Dataset:
    lengths = clips().map(lambda number: tf.where(number % 24 == 0, LONG, SHORT))
    return lengths.map(clip_of, num_parallel_calls=2).padded_batch(24, drop_remainder=True).prefetch(2)


def padding_fixed() -> tf.data.Dataset:
    lengths = clips().map(lambda number: tf.where(number % 24 == 0, LONG, SHORT))
    loaded = lengths.map(clip_of, num_parallel_calls=2)
    return loaded.bucket_by_sequence_length(
        lambda clip: tf.shape(clip)[0], [SHORT + 1], [24, 1], drop_remainder=True
    ).prefetch(2)


# Every batch has another length, and the step is compiled for it.


def shapes(lengths: Callable[[tf.Tensor], tf.Tensor]) -> Callable[[], tf.data.Dataset]:
    def make() -> tf.data.Dataset:
        return clips().map(lambda number: tf.ones([4, lengths(number), BANDS])).prefetch(1)

    return make


def compiled_step() -> Callable[[Any], Any]:
    """Compiled on the host for every shape, and then run on a device."""
    device = SimulatedStep(STEP)

    @tf.function(jit_compile=True, reduce_retracing=True)
    def program(batch: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(batch * batch)

    def step(batch: tf.Tensor) -> Any:
        program(batch)
        return device(batch)

    return step


# A step of small operations, run one by one.


def layers(batch: tf.Tensor) -> tf.Tensor:
    for _ in range(300):
        batch = tf.tanh(batch * 0.9 + 0.1)
    return tf.reduce_sum(batch)


def small_batches() -> list[tf.Tensor]:
    """In memory already: with a step this short, handing over between threads would show."""
    return [tf.fill([4, 4], float(number)) for number in range(64)]


# A few clips that take forever.


def with_slow_clips(every: int | None) -> Callable[[], tf.data.Dataset]:
    def make() -> tf.data.Dataset:
        def decode(number: Any) -> Any:
            slow = every is not None and int(number) % every == every - 1
            time.sleep(0.6 if slow else 0.002)
            return number

        decoded = clips().map(through_python(decode), num_parallel_calls=MANY).map(as_clip)
        return pooled(decoded.batch(4).prefetch(READY))

    return make


# A pipeline that needs little, and competitors that leave it less.


@tf.autograph.experimental.do_not_convert
def spectra(number: tf.Tensor) -> tf.Tensor:
    """Some ten to twenty milliseconds of work, which a step of eighty leaves ample time for."""
    signal = tf.cast(tf.range(600_000), tf.float32) * tf.cast(number % 7 + 1, tf.float32)
    return tf.reduce_mean(tf.abs(tf.signal.stft(signal, 512, 128)), axis=0)


def computing() -> tf.data.Dataset:
    return clips().map(spectra).batch(1).prefetch(READY)


@contextlib.contextmanager
def starved(competitors: int = 16) -> Iterator[None]:
    """Puts this process on one CPU, together with others that never rest."""
    before = os.sched_getaffinity(0)
    _pin([min(before)])
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(competitors)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
        _pin(before)


def _pin(cpus: Any) -> None:
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread), cpus)


def healthy_in_graph() -> tf.data.Dataset:
    return clips().shuffle(1000).repeat().batch(8).map(tf.identity, num_parallel_calls=2).prefetch(READY)


def healthy_with_python() -> tf.data.Dataset:
    """A trivial Python function per batch is no fault."""
    numbers = clips().batch(8).map(lambda many: tf.numpy_function(lambda one: one + 1, [many], tf.int64))
    return numbers.prefetch(READY)


CASES: dict[str, Case] = {
    "a Python function that keeps the lock": Case("python-function", python_map_faulty, python_map_fixed),
    "work in Python itself": Case("python-function", python_work_faulty, python_map_fixed, num_batches=12),
    "a Python generator": Case("python-function", generator_faulty, python_map_fixed),
    "nothing made ahead": Case("no-prefetch", no_prefetch_faulty, no_prefetch_fixed, faulty_step=blocking_step),
    "a loader without workers": Case(
        "no-prefetch", lambda: Loader(0.01), lambda: Ahead(Loader(0.01)), faulty_step=blocking_step
    ),
    "one call at a time": Case("low-parallelism", low_parallelism_faulty, low_parallelism_fixed),
    "a shuffle of loaded clips": Case("shuffle-refill", shuffle_faulty, shuffle_fixed, num_batches=70),
    "a shuffle of loaded clips that repeats": Case(
        "shuffle-refill", repeated_shuffle_faulty, repeated_shuffle_fixed, num_batches=150
    ),
    "a throttled reader": Case("slow-storage", reading(100_000), reading(1e9)),
    "a loader on slow storage": Case("slow-storage", lambda: Loader(0.06), lambda: Loader(0.001)),
    "clip by clip": Case("per-clip-work", per_clip_faulty, per_clip_fixed, num_batches=20),
    "one long clip in every batch": Case("padding", padding_faulty, padding_fixed, simulated(0.016), num_batches=20),
    "a new length in every batch": Case(
        "recompilation",
        shapes(lambda number: tf.cast(number, tf.int32) + 20),
        shapes(lambda number: 20 + 40 * (tf.cast(number, tf.int32) % 2)),
        faulty_step=compiled_step,
        num_batches=12,
    ),
    "a step run eagerly": Case(
        "eager-step", small_batches, small_batches, lambda: layers, lambda: tf.function(layers), num_batches=20
    ),
    "a few slow clips": Case(
        "slow-clips", with_slow_clips(60), with_slow_clips(None), simulated(0.02), num_batches=80
    ),
    "a CPU shared with too many": Case(
        "starved-cpu", computing, computing, simulated(0.08), around=starved, num_batches=10
    ),
}

HEALTHY: dict[str, Callable[[], tf.data.Dataset]] = {
    "in graph": healthy_in_graph,
    "with a trivial Python function": healthy_with_python,
}
