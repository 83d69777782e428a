"""The clips that every row loads, in the form that each of them wants.

    <folder>/
        description.json      how many clips, the batch sizes
        store-float32/, store-float16/    a version of a feature store each
        npy/000000.npy, …     a file per clip, float32
        tfrecord/             two shards, float32, in the order of `BenchData.clip_batches`
        runtime/              a data set in LJSpeech layout, 16-bit WAV

Values are random, lengths are LJSpeech's: what loading costs depends on the second only.
"""

from __future__ import annotations

import json
import wave
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from loading.source import Source
from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.batches.plan import BatchPlan
from myxtts.data.clips import Clip
from myxtts.data.store import FeatureStore
from myxtts.data.store.builder import write_version
from myxtts.data.store.format import MEL_FILE, TOKENS_FILE
from myxtts.data.store.records import RECORD
from myxtts.data.store.target import Target

SEED = 0
NUM_BUCKETS = 6
FRAMES_PER_TOKEN = 6
TFRECORD_SHARDS = 2
NPY_HEADER_BYTES = 128
CLIP_EPOCHS = 8
DESCRIPTION = "description.json"
TEXT = "Printing, in the only sense with which we are at present concerned, differs from most if not from all."


@dataclass(frozen=True)
class BenchData:
    """The generated data, opened.

    Attributes:
        folder: where it lies.
        clips: clips with features.
        runtime_clips: clips with audio.
        batch_size: clips per batch of features.
        runtime_batch_size: clips per batch where mels are computed.
    """

    folder: str
    clips: int
    runtime_clips: int
    batch_size: int
    runtime_batch_size: int

    @classmethod
    def open(cls, folder: Path) -> BenchData:
        return cls(**json.loads((folder / DESCRIPTION).read_text()))

    @property
    def path(self) -> Path:
        return Path(self.folder)

    def store(self, dtype: str) -> FeatureStore:
        return FeatureStore.open(self.path / f"store-{dtype}")

    def plan(self, num_buckets: int = NUM_BUCKETS, batch_size: int | None = None) -> BatchPlan:
        """The plan of our own rows, which is also where the peers' batches come from."""
        store = self.store("float32")
        return BatchPlan(
            store.mel_lengths, store.token_lengths, batch_size=batch_size or self.batch_size, num_buckets=num_buckets
        )

    @cached_property
    def clip_batches(self) -> np.ndarray:
        """The clips of the peers' batches, int64 [K, batch size], several epochs.

        They are those of our own bucketed plan, so that peers pad as little as we do (less, for they pad to the
        longest clip of a batch). Only full batches, so that `padded_batch` over the flat order cuts it at the same
        places; what is left over in each epoch is sorted by length and makes the last batches.
        """
        plan = self.plan()
        lengths = self.store("float32").mel_lengths
        full: list[np.ndarray] = []
        left_over: list[np.ndarray] = []
        for epoch in range(CLIP_EPOCHS):
            for batch in plan.epoch(SEED, epoch):
                (full if (batch >= 0).all() else left_over).append(batch[batch >= 0])
        rest = np.concatenate([np.zeros(0, np.int64), *left_over])
        rest = rest[np.argsort(lengths[rest], kind="stable")]
        rest = rest[: len(rest) - len(rest) % self.batch_size].reshape(-1, self.batch_size)
        return np.concatenate([np.array(full, np.int64).reshape(-1, self.batch_size), rest])

    @cached_property
    def peers_padding(self) -> float:
        """Share of padding where a batch is as long as its longest clip."""
        return padding_share(self.store("float32").mel_lengths[self.clip_batches])

    def peer_source(self, batches: Iterator[Any]) -> Source:
        """The source of a peer that delivers `clip_batches` in their order, as pairs of mel and lengths."""
        return Source(batches, self.batch_size, self.peers_padding, first_rows=self.clip_batches[0])

    def npy_path(self, row: int) -> str:
        return str(self.path / "npy" / f"{row:06d}.npy")

    def tfrecord_paths(self) -> list[str]:
        return [str(self.path / "tfrecord" / f"{shard}.tfrecord") for shard in range(TFRECORD_SHARDS)]

    def wav_paths(self) -> list[str]:
        return sorted(str(path) for path in (self.path / "runtime" / "wavs").iterdir())

    def runtime_config(self) -> DataConfig:
        """The data set of WAV files, mels to be computed in every batch."""
        return DataConfig(dataset_path=str(self.path / "runtime"), text_symbols="graphemes")


def padding_share(lengths: np.ndarray) -> float:
    """Of batches [K, B] of clips of these lengths, each padded to its longest."""
    return float(1 - lengths.sum() / (lengths.max(axis=1) * lengths.shape[1]).sum())


def make_data(folder: Path, clips: int, runtime_clips: int, batch_size: int, runtime_batch_size: int) -> BenchData:
    """Writes everything but the TFRecords, which need TensorFlow (`peers_tensorflow.write_tfrecords`)."""
    data = BenchData(str(folder), clips, runtime_clips, batch_size, runtime_batch_size)
    settings = MelSettings()
    frames = ljspeech_frames(clips, settings)
    pool = random_mels(settings)
    random = np.random.default_rng(SEED + 1)
    first = random.integers(0, len(pool) - frames.max(), clips)
    mels = [pool[start : start + count] for start, count in zip(first, frames, strict=True)]
    for dtype in ("float32", "float16"):
        write_store(folder / f"store-{dtype}", mels, frames // FRAMES_PER_TOKEN + 1, dtype)
    (folder / "npy").mkdir()
    for row, mel in enumerate(mels):
        np.save(data.npy_path(row), mel)
    write_audio(folder / "runtime", runtime_clips, settings)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(data)))
    return data


def ljspeech_frames(clips: int, settings: MelSettings) -> np.ndarray:
    """Frames of clips that are as long as LJSpeech's: 1.1 to 10.1 s, 6.6 s on average; int64 [clips]."""
    seconds = np.clip(np.random.default_rng(SEED).normal(6.7, 2.2, clips), 1.1, 10.1)
    return settings.frames((seconds * settings.sample_rate).astype(np.int64))


def write_store(folder: Path, mels: Sequence[np.ndarray], token_lengths: np.ndarray, dtype: str) -> None:
    """One version of a store, written as precomputing writes it, without its audio.

    Args:
        mels: float32 [F, n_mels] per clip.
        token_lengths: int [N]; the tokens themselves are made up.
    """
    folder.mkdir(parents=True)
    checksums = np.zeros(len(mels), np.uint64)
    with open(folder / MEL_FILE, "wb") as file:
        for row, mel in enumerate(mels):
            stored = mel.astype(dtype)
            checksums[row] = xxhash.xxh3_64_intdigest(stored.data)
            file.write(stored.data)
        file.write(np.full(mels[0].shape[1], MelSettings().padding_value, dtype).data)
    _finish_store(folder, np.array([len(mel) for mel in mels]), checksums, token_lengths, dtype)


def write_sparse_store(folder: Path, frames: np.ndarray, token_lengths: np.ndarray, dtype: str) -> None:
    """The same with a mel.bin that is one hole but for its last row: the size of a store without its disk space."""
    folder.mkdir(parents=True)
    settings = MelSettings()
    padding = np.full(settings.n_mels, settings.padding_value, dtype)
    with open(folder / MEL_FILE, "wb") as file:
        file.seek(int(frames.sum()) * padding.nbytes)
        file.write(padding.data)
    _finish_store(folder, frames, np.zeros(len(frames), np.uint64), token_lengths, dtype)


def _finish_store(
    folder: Path, frames: np.ndarray, checksums: np.ndarray, token_lengths: np.ndarray, dtype: str
) -> None:
    """Tokens, index and manifest."""
    tokens = np.random.default_rng(SEED).integers(1, 100, int(token_lengths.sum()) + 1).astype("<i4")
    tokens[-1] = 0
    tokens.tofile(folder / TOKENS_FILE)
    records = np.zeros((2, len(frames)), RECORD)
    for record, lengths in zip(records, (frames, token_lengths), strict=True):
        record["length"] = lengths
        record["offset"] = np.cumsum(lengths) - lengths
    records["checksum"][0] = checksums
    config = DataConfig(mel_dtype=dtype, text_symbols="graphemes")
    clips = [Clip(f"clip-{row:06d}", "", "", "speaker", "en", None, "", row) for row in range(len(frames))]
    target = Target.candidates(config)[0]
    write_version(folder, clips, target, {"mel": records[0], "token": records[1]}, [])


def random_mels(settings: MelSettings) -> np.ndarray:
    """float32 [100,000, n_mels], in the range of log-mels."""
    values = np.random.default_rng(SEED).standard_normal((100_000, settings.n_mels), np.float32)
    return np.maximum(2 * values - 5, settings.padding_value).astype(np.float32)


def write_audio(folder: Path, clips: int, settings: MelSettings) -> None:
    (folder / "wavs").mkdir(parents=True)
    random = np.random.default_rng(SEED)
    rate = settings.sample_rate
    time_axis = np.arange(11 * rate, dtype=np.float32) / rate
    noise = 160 * random.standard_normal(len(time_axis), np.float32)
    voices = [
        1600 * sum(np.sin(2 * np.pi * pitch * k * time_axis) / k for k in (1, 2, 3, 5)) * (1 + np.sin(8 * time_axis))
        for pitch in np.linspace(80, 250, 16, dtype=np.float32)
    ]
    lines = []
    for number, frames in enumerate(ljspeech_frames(clips, settings)):
        samples = int(frames) * settings.hop_length
        with wave.open(str(folder / "wavs" / f"clip-{number:06d}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes((voices[number % len(voices)] + noise)[:samples].astype("<i2").tobytes())
        lines.append(f"clip-{number:06d}|{TEXT[: 20 + number % 80]}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
