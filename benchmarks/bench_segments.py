"""Random segments for a vocoder: ours against reading them file by file, on the same clips, in one run.

    .venv/bin/python benchmarks/bench_segments.py [--quick] [--json segments.json]

Batches of 16 segments of 32 frames (8,192 samples) with their float16 mels, from 16-bit WAV files of LJSpeech's
lengths and a store of them with `store_audio`, warm page cache. Repetitions are interleaved, and the median is taken.
Ratios are against the first row.

- soundfile: each segment is read from its file with `soundfile.read(start=…, frames=…)` and its frames from a mapped
  `.npy`, in a `numpy_function` for each, `AUTOTUNE` and prefetching.
- NumPy, in the training thread: the store's arrays, a loop over the places of a batch; the step waits for it.
- files: `preprocessing_mode: runtime`; whole files are read in graph, and the mel of each segment is computed.
- whole clips: our ordinary batches of 16 clips from the same store, mels and tokens, for comparison of MB/s.
- limit: copies as many bytes into memory that stays in the process, one thread.

CPU is that of all threads of the process; it says more than the rates do where other programs are running.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import tensorflow as tf
from common import describe_machine, parser, print_table, write_json
from loading.data import write_audio

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.batches.segment_plan import SegmentPlan, Segments
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.segment_source import SegmentSource
from myxtts.data.store import FeatureStore

FRAMES, BATCH = 32, 16
SEED = 1
Batches = Iterator[Any]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--clips", type=int, default=1000)
    options.add_argument("--repetitions", type=int, default=3)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--quick", action="store_true", help="fewer clips, one short repetition")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.clips, chosen.repetitions, chosen.seconds = 200, 1, 0.7
    print(describe_machine())
    with tempfile.TemporaryDirectory(prefix="bench-segments-") as folder:
        rows = ways(Path(folder), chosen.clips)
        found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        for repetition in range(chosen.repetitions):
            for title, make in list(rows.items())[:: 1 if repetition % 2 == 0 else -1]:
                found[title].append(measure(make(), chosen.seconds))
    results = {title: np.median(found[title], axis=0).tolist() for title in rows}
    first = next(iter(results.values()))[0]
    print_table(
        f"Segments, batches of {BATCH} × {FRAMES} frames, warm page cache",
        ["", "per second", "ratio", "MB/s", "ms/batch", "CPU s per 1,000"],
        [
            [title, f"{rate:,.0f}", f"{rate / first:.1f}", f"{size:,.0f}", f"{batch:.2f}", f"{cpu:.3f}"]
            for title, (rate, size, batch, cpu) in results.items()
        ],
    )
    names = ("per_second", "megabytes_per_second", "ms_per_batch", "cpu_seconds_per_1000")
    document = {title: dict(zip(names, values, strict=True)) for title, values in results.items()}
    write_json(chosen.json, {"benchmark": "segments", "clips": chosen.clips, "rows": document})


def ways(folder: Path, clips: int) -> dict[str, Callable[[], Batches]]:
    """What is compared: for each a function that starts it."""
    write_audio(folder, clips, MelSettings())
    config = DataConfig(dataset_path=str(folder), text_symbols="graphemes", store_audio=True, batch_size=BATCH)
    dataset = LJSpeechDataset(folder, config)
    stored = dataset.segments(frames=FRAMES, batch_size=BATCH)
    from_files = LJSpeechDataset(folder, config.model_copy(update={"preprocessing_mode": "runtime"}))
    runtime = from_files.segments(frames=FRAMES, batch_size=BATCH)
    store = stored.clips
    assert isinstance(store, FeatureStore)
    np.save(folder / "mel.npy", store.mel_data)
    paths = [clip.audio_path for clip in dataset.metadata.clips]
    return {
        "soundfile, a numpy_function per segment": lambda: iter(through_soundfile(stored, paths, folder / "mel.npy")),
        "store, NumPy, in the training thread": lambda: in_numpy(stored, store),
        "ours, files": lambda: iter(runtime.dataset(seed=SEED)),
        "ours, store": lambda: iter(stored.dataset(seed=SEED)),
        "ours, store, whole clips": lambda: iter(dataset.batches().dataset(seed=SEED)),
        "limit: copy the bytes of a batch": lambda: copies(store),
    }


def measure(batches: Batches, seconds: float) -> tuple[float, ...]:
    """Places per second, MB/s, ms per batch, and CPU seconds per 1,000 places, after a tenth of the time."""
    start = time.perf_counter()
    while time.perf_counter() - start < seconds / 10:
        next(batches)
    count, places, size = 0, 0, 0
    start, cpu_start = time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - start) < seconds:
        batch = next(batches)
        count += 1
        places += len(batch["mel"])
        size += sum(_bytes(value) for value in batch.values())
    cpu = time.process_time() - cpu_start
    return places / elapsed, size / elapsed / 1e6, 1e3 * elapsed / count, 1e3 * cpu / places


def batches_of(plan: SegmentPlan) -> Iterator[Segments]:
    """The segments of one batch after another, without end."""
    for number in itertools.count():
        yield plan.batch(SEED, *divmod(number, len(plan)))


def through_soundfile(source: SegmentSource, paths: list[str], mel_path: Path) -> tf.data.Dataset:
    """The same segments as ours, one after another."""
    mels, store, hop = np.load(mel_path, mmap_mode="r"), source.clips, source.config.hop_length
    assert isinstance(store, FeatureStore)

    def segments() -> Iterator[tuple[int, int]]:
        for drawn in batches_of(source.plan):
            yield from zip(drawn.rows, drawn.first_frame, strict=True)

    def read(row: np.int64, first: np.int64) -> tuple[np.ndarray, np.ndarray]:
        audio, _ = soundfile.read(paths[row], FRAMES * hop, int(first) * hop, dtype="int16")
        offset = store.mel_offsets[row] + first
        return audio, np.ascontiguousarray(mels[offset : offset + FRAMES])

    def load(row: tf.Tensor, first: tf.Tensor) -> dict[str, tf.Tensor]:
        audio, mel = tf.numpy_function(read, [row, first], [tf.int16, mels.dtype])
        return {"audio": tf.ensure_shape(audio, [FRAMES * hop]), "mel": tf.ensure_shape(mel, [FRAMES, mels.shape[1]])}

    numbers = tf.data.Dataset.from_generator(segments, output_signature=(tf.TensorSpec([], tf.int64),) * 2)
    return numbers.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def in_numpy(source: SegmentSource, store: FeatureStore) -> Batches:
    """Batches from the mapped arrays, made when they are asked for."""
    samples, hop = store.column("audio").data, source.config.hop_length
    for drawn in batches_of(source.plan):
        offsets = store.mel_offsets[drawn.rows] + drawn.first_frame
        yield {
            "mel": np.stack([store.mel_data[offset : offset + FRAMES] for offset in offsets]),
            "audio": np.stack([samples[offset * hop : (offset + FRAMES) * hop] for offset in offsets]),
        }


def copies(store: FeatureStore) -> Batches:
    mel, audio = store.mel_data[: BATCH * FRAMES], store.column("audio").data[: BATCH * FRAMES * 256]
    targets = np.empty_like(mel), np.empty_like(audio)
    while True:
        np.copyto(targets[0], mel)
        np.copyto(targets[1], audio)
        yield {"mel": targets[0].reshape(BATCH, FRAMES, -1), "audio": targets[1]}


def _bytes(value: Any) -> int:
    return value.dtype.size * value.shape.num_elements() if tf.is_tensor(value) else value.nbytes


if __name__ == "__main__":
    main()
