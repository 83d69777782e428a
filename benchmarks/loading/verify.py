"""Makes sure that a row delivers what it should: the first batch, compared with the clips it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from loading.data import BenchData
from loading.rows import Row
from loading.source import Source
from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.reading import read_audio, read_pcm16

TOLERANCE = 5e-3  # between librosa's mel and ours


def verify(row: Row, data: BenchData, source: Source, batch: Any) -> None:
    """Compares every clip of a batch.

    Raises:
        RuntimeError: one of them is not what it should be.
    """
    if row.kind == "limit":
        return
    ours = isinstance(batch, dict)
    rows = batch["index"].numpy() if ours else np.asarray(source.first_rows)
    for place in np.flatnonzero(rows >= 0):
        if ours and "audio" in batch:
            length = int(batch["audio_lengths"][place])
            found, true = batch["audio"][place, :length].numpy(), read_pcm16(data.wav_paths()[rows[place]], 22050)
        else:
            mel, lengths = (batch["mel"], batch["mel_lengths"]) if ours else batch
            found = np.asarray(mel[place])[: int(lengths[place])]
            true = _true_mel(row, data, int(rows[place]))
        if found.shape != true.shape or not np.allclose(found, true, rtol=0, atol=TOLERANCE if row.runtime else 0):
            raise RuntimeError(f"{row.name}: place {place} of the first batch is not clip {rows[place]}")


def _true_mel(row: Row, data: BenchData, clip: int) -> np.ndarray:
    if not row.runtime:
        return data.store(row.dtype).mel(clip)
    settings = MelSettings()
    return log_mel(read_audio(data.wav_paths()[clip], settings.sample_rate), settings)
