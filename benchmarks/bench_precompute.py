"""Precomputing a data set: ours against a pool of processes with soundfile, librosa and `np.save`.

    python benchmarks/bench_precompute.py [--hours 1] [--workers 2] [--repetitions 5] [--json results.json]

The corpus is generated: 16-bit WAV at 22,050 Hz with the lengths of LJSpeech. Both sides compute the same mels
(HiFi-GAN's convention) with one thread per process, from a warm page cache. Ours includes everything that `myxtts
precompute` does: starting the workers, headers, tokens, hashes of the sources, checksums, the journal, and waiting
for the disk at the end. Both are run several times in turn, and the medians count.

A second table shows the anonymous memory of the program and its workers together, at its peak, for a small and a
large data set. A third one shows where a worker's time goes, which is what limits the first.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
import wave
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from common import describe_machine, parser, print_table, write_json
from loading.memory import anonymous_bytes

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.reading import read_audio
from myxtts.config.config import DataConfig
from myxtts.data.precompute import precompute
from myxtts.data.store.columns import read_stamp

RATE = 22050
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
TEXT = "Printing, in the only sense with which we are at present concerned, differs from most if not from all."


def make_corpus(folder: Path, clips: int, seconds: Callable[[np.random.Generator], float]) -> float:
    """Writes a data set in LJSpeech layout; returns its length in seconds."""
    random = np.random.default_rng(0)
    (folder / "wavs").mkdir(parents=True)
    noise = random.normal(size=RATE * 12).astype(np.float32)
    time_axis = np.arange(RATE * 12, dtype=np.float32) / RATE
    total = 0.0
    lines = []
    for number in range(clips):
        samples = int(seconds(random) * RATE)
        pitch = random.uniform(80, 250)
        voice = sum(np.sin(2 * np.pi * pitch * k * time_axis[:samples]) / k for k in (1, 2, 3, 5))
        audio = 0.1 * voice * (1 + np.sin(8 * time_axis[:samples])) + 0.01 * noise[:samples]
        name = f"clip-{number:06d}"
        with wave.open(str(folder / "wavs" / f"{name}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((audio * 16000).astype("<i2").tobytes())
        lines.append(f"{name}|{TEXT[: 20 + number % 80]}")
        total += samples / RATE
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return total


def ljspeech_length(random: np.random.Generator) -> float:
    """LJSpeech: 1.1 to 10.1 s, 6.57 s on average."""
    return float(np.clip(random.normal(6.7, 2.2), 1.1, 10.1))


def librosa_clip(job: tuple[str, str]) -> None:
    """One clip of the peer: the same mel, written as one file."""
    import librosa
    import soundfile

    source, target = job
    audio, rate = soundfile.read(source, dtype="float32")
    padded = np.pad(audio, (1024 - 256) // 2, mode="reflect")
    mel = librosa.feature.melspectrogram(
        y=padded, sr=rate, n_fft=1024, hop_length=256, n_mels=80, fmin=0, fmax=8000, power=1.0, center=False
    )
    np.save(target, np.log(np.maximum(mel, 1e-5)).T)


def run_librosa_pool(folder: Path, workers: int) -> float:
    """Seconds the pool takes, its start included."""
    out = folder / "npy"
    out.mkdir()
    jobs = [(str(path), str(out / path.stem)) for path in sorted((folder / "wavs").iterdir())]
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for _ in pool.imap_unordered(librosa_clip, jobs, chunksize=8):
            pass
    elapsed = time.perf_counter() - start
    shutil.rmtree(out)
    return elapsed


def run_ours(folder: Path, workers: int, dtype: str) -> float:
    """Seconds `precompute` takes."""
    shutil.rmtree(folder / "cached_features", ignore_errors=True)
    config = DataConfig(dataset_path=str(folder), mel_dtype=dtype, num_workers=workers, text_symbols="graphemes")
    start = time.perf_counter()
    result = precompute(config)
    elapsed = time.perf_counter() - start
    if not result.complete:
        raise SystemExit(f"{len(result.failed)} clips failed: {result.failed[0].reason}")
    return elapsed


def cpu_seconds() -> float:
    """Used so far by this process and the children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def peak_anonymous_bytes(work: Callable[[], object]) -> int:
    """The largest sum of anonymous memory of a process that does the work, and of all its children."""
    process = multiprocessing.get_context("fork").Process(target=work)
    peak = 0
    process.start()
    tree = psutil.Process(process.pid)
    while process.is_alive():
        try:
            members = [tree, *tree.children(recursive=True)]
        except psutil.NoSuchProcess:
            break
        peak = max(peak, sum(map(anonymous_bytes, members)))
        time.sleep(0.05)
    process.join()
    return peak


def worker_shares(folder: Path, clips: int = 200) -> list[tuple[str, float]]:
    """Milliseconds per clip of what a worker does."""
    settings = MelSettings()
    paths = [str(path) for path in sorted((folder / "wavs").iterdir())[:clips]]
    spent = dict.fromkeys(("hash of the source", "reading", "mel", "float16", "checksum and writing"), 0.0)
    log_mel(read_audio(paths[0], RATE), settings)
    with tempfile.TemporaryFile(dir=folder) as out:
        for path in paths:
            marks = [time.perf_counter()]
            read_stamp(path)
            marks.append(time.perf_counter())
            audio = read_audio(path, RATE)
            marks.append(time.perf_counter())
            mel = log_mel(audio, settings)
            marks.append(time.perf_counter())
            stored = mel.astype("<f2")
            marks.append(time.perf_counter())
            _checksum_and_write(out.fileno(), stored)
            marks.append(time.perf_counter())
            for name, taken in zip(spent, np.diff(marks), strict=True):
                spent[name] += taken * 1000 / len(paths)
    return list(spent.items())


def _checksum_and_write(descriptor: int, stored: np.ndarray) -> None:
    import xxhash

    xxhash.xxh3_64_intdigest(stored.data)
    os.write(descriptor, stored.data)


def main(arguments: argparse.Namespace) -> None:
    print(describe_machine())
    workers = arguments.workers
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        folder = Path(temporary) / "corpus"
        clips = round(arguments.hours * 3600 / 6.57)
        audio_seconds = make_corpus(folder, clips, ljspeech_length)
        runs = {
            f"soundfile + librosa + np.save, {workers} processes": lambda: run_librosa_pool(folder, workers),
            f"ours, precompute, float32, {workers} workers": lambda: run_ours(folder, workers, "float32"),
            f"ours, precompute, float16, {workers} workers": lambda: run_ours(folder, workers, "float16"),
        }
        taken_by, cpu_by = defaultdict(list), defaultdict(list)
        for _ in range(arguments.repetitions):
            for name, run in runs.items():
                before = cpu_seconds()
                taken_by[name].append(run())
                cpu_by[name].append(cpu_seconds() - before)
        times = {name: statistics.median(several) for name, several in taken_by.items()}
        cpu_times = {name: statistics.median(several) for name, several in cpu_by.items()}
        shares = worker_shares(folder)
        per_clip = sum(taken for _, taken in shares)
        limit = f"limit: a worker's own work, {workers} at a time"
        times[limit], cpu_times[limit] = per_clip / 1000 * clips / workers, per_clip / 1000 * clips
        first = next(iter(times.values()))
        rows = [
            [
                name,
                f"{taken:.1f}",
                f"{clips / taken:,.0f}",
                f"{audio_seconds / taken:,.0f}",
                f"{cpu_times[name] / clips * 1000:.1f}",
                f"{first / taken:.2f}",
            ]
            for name, taken in times.items()
        ]
        title = f"{clips:,} clips, {audio_seconds / 3600:.2f} hours"
        print_table(title, ["", "seconds", "clips/s", "× real time", "CPU ms per clip", "ratio"], rows)

        memory = {}
        for count in arguments.memory_clips:
            small = Path(temporary) / f"memory-{count}"
            make_corpus(small, count, lambda random: 2.0)
            memory[count] = peak_anonymous_bytes(partial(run_ours, small, workers, "float16"))
            shutil.rmtree(small)
        least = memory[arguments.memory_clips[0]]
        print_table(
            "anonymous memory",
            ["clips", "program and workers at their peak, MB", "ratio"],
            [[f"{count:,}", f"{peak / 1e6:.0f}", f"{peak / least:.2f}"] for count, peak in memory.items()],
        )
        print_table(
            "a worker's time per clip",
            ["", "ms", "share"],
            [[name, f"{taken:.2f}", f"{taken / per_clip:.0%}"] for name, taken in shares],
        )
        slowest, taken = max(shares, key=lambda share: share[1])
        print(f"What limits it: {slowest}, {taken / per_clip:.0%} of a worker's time; beyond that, more cores.")
    write_json(
        arguments.json,
        {
            "benchmark": "precompute",
            "clips": clips,
            "audio_seconds": audio_seconds,
            "seconds": times,
            "cpu_seconds": cpu_times,
            "peak_anonymous_bytes": memory,
            "worker_ms_per_clip": dict(shares),
        },
    )


if __name__ == "__main__":
    if SINGLE_THREADED.items() - os.environ.items():  # has to be set before NumPy loads
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | SINGLE_THREADED)
    options = parser(__doc__)
    options.add_argument("--hours", type=float, default=1.0, help="length of the corpus")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--repetitions", type=int, default=5)
    options.add_argument("--folder", type=Path, help="where to put the corpus; default: the temporary folder")
    options.add_argument("--memory-clips", type=int, nargs=2, default=[500, 5000])
    main(options.parse_args())
