"""What to do about each culprit: in words, and as the lines of a pipeline to change."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.performance import diagnosis as found


@dataclass(frozen=True)
class Remedy:
    """A change in words, as lines of a `tf.data` pipeline, and as lines around another kind of loader."""

    text: str
    tf_data: tuple[str, ...]
    iterable: tuple[str, ...] = ()


REMEDIES: dict[str, Remedy] = {
    found.PYTHON_FUNCTION: Remedy(
        "take the work out of Python: TensorFlow operations in the map, or features computed once and stored",
        ("dataset = dataset.map(load_in_graph, num_parallel_calls=tf.data.AUTOTUNE)  # tf.io, tf.signal, no Python",),
        ("DataLoader(..., num_workers=4)  # processes, each with an interpreter lock of its own",),
    ),
    found.NO_PREFETCH: Remedy(
        "prepare batches while the step runs",
        ("dataset = dataset.prefetch(tf.data.AUTOTUNE)  # the last line of the pipeline",),
        ("DataLoader(..., num_workers=2, prefetch_factor=2)  # or a thread that keeps a queue filled",),
    ),
    found.LOW_PARALLELISM: Remedy(
        "let more calls run at once",
        (
            "dataset = dataset.map(function, num_parallel_calls=16)",
            "options.threading.private_threadpool_size = 16  # for calls that wait: by default one per CPU",
        ),
        ("DataLoader(..., num_workers=4)",),
    ),
    found.SHUFFLE_REFILL: Remedy(
        "shuffle what is cheap (numbers or paths) before loading, not what is loaded",
        ("dataset = paths.shuffle(len(paths)).map(load, num_parallel_calls=tf.data.AUTOTUNE)",),
    ),
    found.SLOW_STORAGE: Remedy(
        "read from something faster: a local disk, one packed file in place of many, or memory",
        ("dataset = dataset.cache()  # after reading, where it fits; or .cache('/local/disk/file')",),
        ("copy the data to a local disk, packed into one file",),
    ),
    found.PER_CLIP_WORK: Remedy(
        "work on whole batches, or do the work once and keep the result",
        (
            "dataset = dataset.batch(n).map(work_on_a_batch, num_parallel_calls=tf.data.AUTOTUNE)  # batch first",
            "dataset = dataset.map(work).cache()  # or once",
        ),
        ("compute features once and store them; load whole batches",),
    ),
    found.PADDING: Remedy(
        "put clips of similar length into a batch",
        ("dataset = dataset.bucket_by_sequence_length(length, boundaries, batch_sizes)",),
        ("a batch sampler that groups clips of similar length",),
    ),
    found.RECOMPILATION: Remedy(
        "pad batches to a few fixed lengths, so that the step is compiled for each once",
        ("dataset = dataset.bucket_by_sequence_length(..., pad_to_bucket_boundary=True, drop_remainder=True)",),
        ("pad every batch up to one of a few lengths",),
    ),
    found.EAGER_STEP: Remedy("compile the step", ("@tf.function(jit_compile=True)", "def step(batch): ...")),
    found.SLOW_CLIPS: Remedy(
        "mend or leave out the slow clips, or have more batches in reserve",
        ("dataset = dataset.filter(not_one_of_them)  # or re-encode these files",),
        ("leave out or re-encode these clips",),
    ),
    found.STARVED_CPU: Remedy(
        "give the process more CPU: end what competes with it, or raise its quota, its affinity or its priority",
        ("taskset, cpu.max of the cgroup, --cpus of the container",),
        ("taskset, cpu.max of the cgroup, --cpus of the container",),
    ),
}
