"""Peers of runtime mode: soundfile and librosa for every clip of every batch."""

from __future__ import annotations

import itertools

import librosa
import numpy as np
import soundfile

from loading.data import NUM_BUCKETS, SEED, BenchData, padding_share
from loading.source import Source
from myxtts.audio.mel import MelSettings
from myxtts.data.batches.plan import BatchPlan
from myxtts.hardware import usable_cpus

SETTINGS = MelSettings()


def load(path: str) -> np.ndarray:
    """One clip's mel, HiFi-GAN's convention, float32 [F, n_mels]."""
    audio, rate = soundfile.read(path, dtype="float32")
    mel = librosa.feature.melspectrogram(
        y=np.pad(audio, SETTINGS.padding, mode="reflect"),
        sr=rate,
        n_fft=SETTINGS.n_fft,
        hop_length=SETTINGS.hop_length,
        n_mels=SETTINGS.n_mels,
        fmin=SETTINGS.fmin,
        fmax=SETTINGS.fmax,
        power=1.0,
        center=False,
    )
    return np.log(np.maximum(mel, SETTINGS.log_floor)).T


def through_python(data: BenchData) -> Source:
    """`numpy_function` and `padded_batch`, clip by clip."""
    import tensorflow as tf

    def mel_of(path: bytes) -> tuple[np.ndarray, np.int32]:
        mel = load(path.decode())
        return mel, np.int32(len(mel))

    def per_clip(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mel, frames = tf.numpy_function(mel_of, [path], [tf.float32, tf.int32])
        return tf.ensure_shape(mel, [None, SETTINGS.n_mels]), tf.ensure_shape(frames, [])

    rows, padding = _batches(data)
    paths = tf.data.Dataset.from_tensor_slices(np.array(data.wav_paths())[rows.ravel()]).repeat()
    clips = paths.map(per_clip, num_parallel_calls=tf.data.AUTOTUNE)
    padded = clips.padded_batch(data.runtime_batch_size).prefetch(tf.data.AUTOTUNE)
    return Source(iter(padded), data.runtime_batch_size, padding, first_rows=rows[0])


def torch_workers(data: BenchData) -> Source:
    """PyTorch's DataLoader, one worker process per CPU."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    from loading.peers_torch import PREFETCH, EndlessBatches, pad

    rows, padding = _batches(data)
    paths = data.wav_paths()

    class Clips(Dataset):
        def __getitem__(self, row: int) -> torch.Tensor:
            return torch.from_numpy(load(paths[row]))

    loader = DataLoader(
        Clips(),
        batch_sampler=EndlessBatches(rows),
        collate_fn=pad,
        num_workers=usable_cpus(),
        prefetch_factor=PREFETCH,
    )
    return Source(iter(loader), data.runtime_batch_size, padding, first_rows=rows[0])


def _batches(data: BenchData) -> tuple[np.ndarray, float]:
    """Full batches of clips of similar length, int64 [K, batch size], and their padding."""
    lengths = np.array([SETTINGS.frames(soundfile.info(path).frames) for path in data.wav_paths()])
    plan = BatchPlan(lengths, np.ones_like(lengths), batch_size=data.runtime_batch_size, num_buckets=NUM_BUCKETS)
    batches = itertools.chain.from_iterable(plan.epoch(SEED, epoch) for epoch in range(2))
    full = np.array([batch for batch in batches if (batch >= 0).all()])
    return full, padding_share(lengths[full])
