"""The culprits that `diagnose` can name: one entry each, with its rule and what to do about it.

A new culprit is one more entry here, its rule in `culprit_rules.py`, and a pipeline that has it beside its fixed twin
in `tests/faulty_pipelines.py` or `tests/faulty_loaders.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from myxtts.performance import culprit_rules as rules
from myxtts.performance.culprit_rules import Suspect
from myxtts.performance.facts import InputFacts, Measurements

# The first suspect of the table that would remove enough is the culprit; if none would, the one that removes most.
_ENOUGH = 0.75
_LEAST = 0.15

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class SettingsChange:
    """A change of our own configuration: its name in the documents, and `section.key`s with their new values."""

    name: str
    values: Mapping[str, Any]


_IN_GRAPH = SettingsChange("loading in graph", {"data.use_tf_native_loading": True})
_AHEAD = SettingsChange("prefetch", {"data.optimize_cpu_gpu_overlap": True, "data.prefetch_buffer_size": "auto"})
_WORKERS = SettingsChange("workers", {"data.optimize_cpu_gpu_overlap": True, "data.num_workers": "auto"})
_STORED = SettingsChange("precompute", {"data.preprocessing_mode": "precompute", "data.feature_device": "host"})
_BUCKETS = SettingsChange("buckets", {"data.num_buckets": 6})
_COMPILED = SettingsChange(
    "compiled step",
    {
        "training.enable_graph_mode": True,
        "training.enable_eager_debug": False,
        "training.enable_xla_compilation": True,
    },
)
# What makes any pipeline lighter.
LESS_WORK = (_STORED, _IN_GRAPH, _AHEAD, _WORKERS)


@dataclass(frozen=True)
class Culprit(Generic[Facts]):
    """A known reason for lost time.

    Attributes:
        name: as it is documented.
        meaning: in words.
        shown_by: the evidence that it rests on.
        rule: finds it in the facts.
        remedy: what to do, in words.
        tf_data: the same as lines of a `tf.data` pipeline; empty: only a PyTorch loader can have it.
        iterable: the same for other loaders; empty: as for `tf.data`.
        settings: changes of our own configuration; the first that differs from what is set is tried.
        with_settings: what these settings do instead of the remedy, in words; empty: they are the remedy.
    """

    name: str
    meaning: str
    shown_by: str
    rule: Callable[[Facts], Suspect | None]
    remedy: str
    tf_data: tuple[str, ...]
    iterable: tuple[str, ...] = ()
    settings: tuple[SettingsChange, ...] = ()
    with_settings: str = ""


def find_suspects(culprits: Iterable[Culprit[Facts]], facts: Facts) -> dict[str, Suspect]:
    """Everything that the facts point to, by name, in the order of the table."""
    found = ((culprit.name, culprit.rule(facts)) for culprit in culprits)
    return {name: suspect for name, suspect in found if suspect is not None}


def choose(suspects: Mapping[str, Suspect]) -> list[tuple[str, Suspect]]:
    """Suspects worth naming, the culprit first; empty if none would remove a fair part of the stall."""
    order = list(CULPRITS)
    named = sorted(
        ((name, suspect) for name, suspect in suspects.items() if suspect.removed >= _LEAST),
        key=lambda one: order.index(one[0]),
    )
    if not named:
        return []
    enough = [one for one in named if one[1].removed >= _ENOUGH]
    first = enough[0] if enough else max(named, key=lambda one: one[1].removed)
    return [first, *sorted((one for one in named if one is not first), key=lambda one: -one[1].removed)]


# From the most to the least specific, and the easier change before the harder one.
INPUT_CULPRITS: tuple[Culprit[InputFacts], ...] = (
    Culprit(
        name="no-prefetch",
        meaning="nothing is made ahead; every step waits for its batch",
        shown_by="waiting with a prefetch, measured",
        rule=rules.no_prefetch,
        remedy="prepare batches while the step runs",
        tf_data=("dataset = dataset.prefetch(tf.data.AUTOTUNE)  # the last line of the pipeline",),
        iterable=("DataLoader(..., num_workers=2, prefetch_factor=2)  # or a thread that keeps a queue filled",),
        settings=(_AHEAD, _WORKERS, _IN_GRAPH, _STORED),
    ),
    Culprit(
        name="shuffle-refill",
        meaning="a shuffle buffer of loaded clips is filled again in every epoch",
        shown_by="time to fill it; waits where epochs begin",
        rule=rules.shuffle_refill,
        remedy="shuffle what is cheap (numbers or paths) before loading, not what is loaded",
        tf_data=("dataset = paths.shuffle(len(paths)).map(load, num_parallel_calls=tf.data.AUTOTUNE)",),
    ),
    Culprit(
        name="slow-clips",
        meaning="a few clips take many times as long as the rest",
        shown_by="their names; each was timed again",
        rule=rules.slow_clips,
        remedy="repair or leave out the slow clips, or keep more batches ready",
        tf_data=("dataset = dataset.filter(not_one_of_them)  # or re-encode these files",),
        iterable=("leave out or re-encode these clips",),
        settings=(_STORED, _AHEAD, _WORKERS, _IN_GRAPH),
    ),
    Culprit(
        name="worker-start",
        meaning="every epoch of a PyTorch loader begins by starting its workers",
        shown_by="waits where epochs begin; waiting with persistent workers, measured",
        rule=rules.worker_start,
        remedy="keep the workers from one epoch to the next",
        tf_data=(),
        iterable=("DataLoader(..., persistent_workers=True)",),
    ),
    Culprit(
        name="too-many-workers",
        meaning="workers of a PyTorch loader compete for CPUs, memory or a disk",
        shown_by="waiting with fewer workers, measured",
        rule=rules.too_many_workers,
        remedy="use fewer workers",
        tf_data=(),
        iterable=("DataLoader(..., num_workers=len(os.sched_getaffinity(0)))",),
    ),
    Culprit(
        name="too-few-workers",
        meaning="the workers of a PyTorch loader are too few, or there are none",
        shown_by="waiting with more workers, measured",
        rule=rules.too_few_workers,
        remedy="use more workers",
        tf_data=(),
        iterable=("DataLoader(..., num_workers=4, persistent_workers=True)",),
    ),
    Culprit(
        name="low-parallelism",
        meaning="calls run one by one that could run side by side",
        shown_by="speed with 16 at once, measured",
        rule=rules.low_parallelism,
        remedy="let more calls run at once",
        tf_data=(
            "dataset = dataset.map(function, num_parallel_calls=16)",
            "options.threading.private_threadpool_size = 16  # for calls that wait: by default one per CPU",
        ),
        iterable=("DataLoader(..., num_workers=4)",),
        settings=(_WORKERS, _AHEAD, _IN_GRAPH, _STORED),
    ),
    Culprit(
        name="padding",
        meaning="most of a batch is padding",
        shown_by="share of padding; time of the batching node",
        rule=rules.padding,
        remedy="put clips of similar length into a batch",
        tf_data=("dataset = dataset.bucket_by_sequence_length(length, boundaries, batch_sizes)",),
        iterable=("a batch sampler that groups clips of similar length",),
        settings=(_BUCKETS,),
    ),
    Culprit(
        name="slow-collate",
        meaning="making a batch of its clips takes longer than the clips, in `collate_fn`",
        shown_by="times in the workers",
        rule=rules.slow_collate,
        remedy="let one call per field make the batch, without a loop in Python",
        tf_data=(),
        iterable=(
            "def collate(clips):  # DataLoader(..., collate_fn=collate)",
            "    return torch.nn.utils.rnn.pad_sequence([torch.as_tensor(clip) for clip in clips], batch_first=True)",
        ),
    ),
    Culprit(
        name="hand-over",
        meaning="handing batches over from the workers of a PyTorch loader takes long",
        shown_by="time to send and to receive a batch, objects in it",
        rule=rules.hand_over,
        remedy="hand over a few large tensors in place of many small ones, and no Python numbers, lists or strings",
        tf_data=(),
        iterable=(
            "return torch.stack(clips)  # in collate_fn: one tensor per field, others with offsets",
            'torch.multiprocessing.set_sharing_strategy("file_system")  # where tensors have to be many',
        ),
    ),
    Culprit(
        name="python-function",
        meaning="Python holds the interpreter lock",
        shown_by="share of the time that the lock is held",
        rule=rules.python_function,
        remedy="take the work out of Python: TensorFlow operations in the map, or features computed once and stored",
        tf_data=("dataset = dataset.map(load_in_graph, num_parallel_calls=tf.data.AUTOTUNE)  # tf.io, tf.signal",),
        iterable=("DataLoader(..., num_workers=4)  # processes, each with an interpreter lock of its own",),
        settings=(_IN_GRAPH, _STORED, _WORKERS, _AHEAD),
    ),
    Culprit(
        name="slow-storage",
        meaning="the pipeline waits for bytes",
        shown_by="it waits and uses no CPU, and more calls do not help",
        rule=rules.slow_storage,
        remedy="read from something faster: a local disk, one packed file instead of many, or memory",
        tf_data=("dataset = dataset.cache()  # after reading, where it fits; or .cache('/local/disk/file')",),
        iterable=("copy the data to a local disk, packed into one file",),
        settings=(_STORED, _WORKERS, _AHEAD, _IN_GRAPH),
    ),
    Culprit(
        name="starved-cpu",
        meaning="others keep the process from the CPU: other programs, a cgroup's quota, an affinity mask",
        shown_by="CPU time of others, time in the run queue, throttling",
        rule=rules.starved_cpu,
        remedy="give the process more CPU: end what competes with it, or raise its quota, affinity or priority",
        tf_data=("taskset, cpu.max of the cgroup, --cpus of the container",),
        settings=LESS_WORK,
        with_settings="or need less of it",
    ),
    Culprit(
        name="per-clip-work",
        meaning="every clip is worked on by itself, in every epoch",
        shown_by="calls per batch and their length",
        rule=rules.per_clip_work,
        remedy="work on whole batches, or do the work once and keep the result",
        tf_data=(
            "dataset = dataset.batch(n).map(work_on_a_batch, num_parallel_calls=tf.data.AUTOTUNE)  # batch first",
            "dataset = dataset.map(work).cache()  # or once",
        ),
        iterable=("compute features once and store them; load whole batches",),
        settings=(_STORED, _IN_GRAPH, _WORKERS, _AHEAD),
    ),
)

STEP_CULPRITS: tuple[Culprit[Measurements], ...] = (
    Culprit(
        name="recompilation",
        meaning="new batch shapes keep coming, and the step is compiled for each",
        shown_by="steps with a new shape in the second half of the run",
        rule=rules.recompilation,
        remedy="pad batches to a few fixed lengths, so that the step is compiled for each once",
        tf_data=(
            "dataset = dataset.bucket_by_sequence_length(..., pad_to_bucket_boundary=True, drop_remainder=True)",
        ),
        iterable=("pad every batch up to one of a few lengths",),
        settings=(_BUCKETS,),
    ),
    Culprit(
        name="eager-step",
        meaning="the step's operations run one by one from Python",
        shown_by="operations counted; the step as a `tf.function`, measured",
        rule=rules.eager_step,
        remedy="compile the step",
        tf_data=("@tf.function(jit_compile=True)", "def step(batch): ..."),
        settings=(_COMPILED,),
    ),
    Culprit(
        name="no-pin-memory",
        meaning="batches of a PyTorch loader are copied to the GPU from memory that is not pinned",
        shown_by="time of the copy from either memory, measured; only with a GPU",
        rule=rules.no_pin_memory,
        remedy="pin the memory of batches, and copy without waiting",
        tf_data=(),
        iterable=("DataLoader(..., pin_memory=True)", "batch = batch.to(device, non_blocking=True)  # in the step"),
    ),
)

_TABLE: tuple[Culprit[Any], ...] = INPUT_CULPRITS + STEP_CULPRITS
CULPRITS = {culprit.name: culprit for culprit in _TABLE}
