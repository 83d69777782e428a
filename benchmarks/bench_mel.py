"""What one log-mel costs, and how far it is from the truth: ours against librosa, torch and tf.signal.

    .venv/bin/python benchmarks/bench_mel.py [--audio clip.wav] [--rounds 15] [--json mel.json]

A clip of 6.57 s (the mean of LJSpeech) at 22,050 Hz; without --audio it is made here: voiced and noisy stretches, 16
bits. One thread each, and the time is that of the process on the CPU, the median over all rounds; in a round every
row has its turn, so that a disturbance of the machine hits all alike. The error is the largest difference from the
definition in float64. A second table has the cost of reading such a clip from a 16-bit WAV file in the page cache.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import tensorflow as tf
from common import describe_machine, parser, print_table, write_json

from myxtts.audio.mel import MelSettings, log_mel, mel_filterbank
from myxtts.audio.mel_tf import LogMel
from myxtts.audio.reading import read_audio, read_pcm16, to_pcm16
from myxtts.audio.wav_tf import decode_pcm16

SETTINGS = MelSettings()
SAMPLES = 144_869
BATCH = 16
Row = tuple[str, Callable[[], np.ndarray], int]


def speech_like() -> np.ndarray:
    """int16 [SAMPLES]: syllables of a gliding voice with overtones up to 4 kHz, some hissed."""
    generator = np.random.default_rng(1)
    seconds = np.arange(SAMPLES) / SETTINGS.sample_rate
    phase = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 0.7 * seconds)) / SETTINGS.sample_rate
    voice = sum(np.sin(k * phase) / k**1.5 for k in range(1, 30))
    syllable = np.clip(np.sin(2 * np.pi * 2 * seconds), 0, None) ** 0.5
    hiss = generator.standard_normal(SAMPLES) * np.clip(np.sin(2 * np.pi * 1.1 * seconds + 2), 0, None)
    noise = generator.standard_normal(SAMPLES)
    return to_pcm16((0.3 * voice * syllable + 0.03 * hiss * syllable + 1e-4 * noise).astype(np.float32))


def definition(audio: np.ndarray) -> np.ndarray:
    """float64, as docs/mel.md has it."""
    padded = np.pad(audio.astype(np.float64), SETTINGS.padding, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SETTINGS.n_fft) / SETTINGS.n_fft)
    frames = np.lib.stride_tricks.sliding_window_view(padded, SETTINGS.n_fft)[:: SETTINGS.hop_length]
    magnitude = np.abs(np.fft.rfft(frames * window))
    return np.log(np.maximum(magnitude @ mel_filterbank(SETTINGS).T.astype(np.float64), SETTINGS.log_floor))


def librosa_row(audio: np.ndarray) -> Row | None:
    try:
        import librosa
    except ImportError:
        return None
    bands = librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0, fmax=8000)

    def compute() -> np.ndarray:
        padded = np.pad(audio, SETTINGS.padding, mode="reflect")
        magnitude = np.abs(librosa.stft(padded, n_fft=1024, hop_length=256, center=False))
        return np.log(np.maximum(bands @ magnitude, SETTINGS.log_floor)).T

    return "librosa", compute, 1


def torch_row(audio: np.ndarray) -> Row | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    window, bands = torch.hann_window(1024), torch.from_numpy(mel_filterbank(SETTINGS).copy())
    tensor = torch.from_numpy(audio)

    def compute() -> np.ndarray:
        padded = torch.nn.functional.pad(tensor[None], (SETTINGS.padding, SETTINGS.padding), mode="reflect")[0]
        spectrum = torch.stft(padded, 1024, 256, 1024, window, center=False, return_complex=True)
        return torch.log(torch.clamp(bands @ spectrum.abs(), min=SETTINGS.log_floor)).T.numpy()

    return "torch (HiFi-GAN's own way)", compute, 1


def tf_signal_row(audio: np.ndarray) -> Row:
    bands = tf.constant(mel_filterbank(SETTINGS).T)
    tensor = tf.constant(audio)

    @tf.function
    def compute(clip: tf.Tensor) -> tf.Tensor:
        padded = tf.pad(clip, [[SETTINGS.padding, SETTINGS.padding]], mode="REFLECT")
        spectrum = tf.signal.stft(padded, 1024, 256, 1024)
        return tf.math.log(tf.maximum(tf.abs(spectrum) @ bands, SETTINGS.log_floor))

    return "tf.signal.stft, graph", lambda: compute(tensor).numpy(), 1


def our_rows(pcm: np.ndarray, audio: np.ndarray) -> list[Row]:
    clip, batch = tf.constant(pcm), tf.constant(np.stack([pcm] * BATCH))
    lengths = tf.fill([BATCH], SAMPLES)
    rows: list[Row] = [
        ("ours, NumPy, float32", lambda: log_mel(audio, SETTINGS), 1),
        ("ours, NumPy, int16", lambda: log_mel(pcm, SETTINGS), 1),
    ]

    def of_clip(mel: Callable[..., tf.Tensor]) -> Callable[[], np.ndarray]:
        return lambda: mel(clip).numpy()

    def of_batch(mel: Callable[..., tf.Tensor]) -> Callable[[], np.ndarray]:
        return lambda: mel(batch, lengths).numpy()[-1]

    for compiled in (False, True):
        kind = "XLA" if compiled else "graph"
        one = tf.function(LogMel(SETTINGS), jit_compile=compiled)
        rows.append((f"ours, {kind}, one clip", of_clip(one), 1))
        for clip_by_clip in (True, False):
            many = tf.function(LogMel(SETTINGS, clip_by_clip=clip_by_clip), jit_compile=compiled)
            way = "clip by clip" if clip_by_clip else "at once"
            name = f"ours, {kind}, padded batch of {BATCH}, {way}"
            rows.append((name, of_batch(many), BATCH))
    return rows


def reading_rows(path: Path) -> list[Row]:
    name = tf.constant(str(path))
    decode = tf.function(lambda file: decode_pcm16(tf.io.read_file(file))[0])
    library = tf.function(lambda file: tf.audio.decode_wav(tf.io.read_file(file))[0])
    return [
        ("soundfile, float32", lambda: soundfile.read(path, dtype="float32")[0], 1),
        ("soundfile, int16", lambda: soundfile.read(path, dtype="int16")[0], 1),
        ("tf.audio.decode_wav, float32", lambda: library(name).numpy(), 1),
        ("ours, read_audio, float32", lambda: read_audio(path, SETTINGS.sample_rate), 1),
        ("ours, read_pcm16, int16", lambda: read_pcm16(path, SETTINGS.sample_rate), 1),
        ("ours, in graph, int16", lambda: decode(name).numpy(), 1),
    ]


def measure(rows: list[Row], rounds: int) -> dict[str, float]:
    """Milliseconds per clip, by row."""
    times: dict[str, list[float]] = {name: [] for name, _, _ in rows}
    for _ in range(rounds):
        for name, compute, clips in rows:
            compute()
            for _ in range(1 if clips > 1 else 5):
                start = time.process_time()
                compute()
                times[name].append(1000 * (time.process_time() - start) / clips)
    return {name: float(np.median(values)) for name, values in times.items()}


def with_one_thread() -> None:
    """Starts again where numerical libraries are told to use one thread: they read it when they are loaded."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    if not limits.items() <= os.environ.items():
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, **limits}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--audio", type=Path, help="a clip to use; repeated or cut to 6.57 s")
    arguments.add_argument("--rounds", type=int, default=15)
    options = arguments.parse_args()
    with_one_thread()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

    pcm = speech_like() if options.audio is None else read_pcm16(options.audio, SETTINGS.sample_rate)
    pcm = np.resize(pcm, SAMPLES)
    audio = pcm / np.float32(32768)
    peers = [librosa_row(audio), torch_row(audio), tf_signal_row(audio)]
    rows = [row for row in peers if row is not None] + our_rows(pcm, audio)
    truth = definition(audio)
    errors = {name: float(np.abs(compute() - truth).max()) for name, compute, _ in rows}
    costs = measure(rows, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.wav"
        soundfile.write(path, pcm, SETTINGS.sample_rate, subtype="PCM_16")
        reading = measure(reading_rows(path), options.rounds)

    print(describe_machine())
    first = next(iter(costs.values()))
    print_table(
        f"log-mel of a clip of {SAMPLES / SETTINGS.sample_rate:.2f} s, one thread",
        ["", "CPU ms per clip", "speed", "× real time", "largest error"],
        [
            (name, f"{ms:.2f}", f"{first / ms:.2f}", f"{SAMPLES / 22.05 / ms:,.0f}", f"{errors[name]:.1e}")
            for name, ms in costs.items()
        ],
    )
    for name, row in zip(("librosa", "torch"), peers, strict=False):
        if row is None:
            print(f"{name}: not installed")
    first = next(iter(reading.values()))
    print_table(
        "reading it from a 16-bit WAV file in the page cache",
        ["", "CPU ms per clip", "speed"],
        [(name, f"{ms:.3f}", f"{first / ms:.2f}") for name, ms in reading.items()],
    )
    write_json(options.json, {"log_mel_ms": costs, "log_mel_error": errors, "reading_ms": reading})


if __name__ == "__main__":
    main()
