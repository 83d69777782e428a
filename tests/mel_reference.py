"""The log-mel written down as `docs/mel.md` defines it, in float64 and without a thought for speed."""

from __future__ import annotations

import numpy as np

from myxtts.audio.mel import MelSettings, mel_filterbank

OTHER_SETTINGS = {
    "default": MelSettings(),
    "44.1 kHz": MelSettings(sample_rate=44100, n_fft=2048, win_length=2048, hop_length=512, n_mels=128, fmax=16000),
    "a window shorter than the frame": MelSettings(win_length=800),
    "an odd window": MelSettings(win_length=801),
    "a hop that does not divide the frame": MelSettings(n_fft=1024, hop_length=300, win_length=900),
    "no overlap": MelSettings(n_fft=512, win_length=512, hop_length=512, n_mels=40),
    "16 kHz, above 80 Hz": MelSettings(sample_rate=16000, fmin=80, fmax=7600),
    "few bands": MelSettings(n_mels=8, log_floor=1e-3),
}


def reference_log_mel(audio: np.ndarray, settings: MelSettings) -> np.ndarray:
    """float64 [n // hop_length, n_mels] of float audio, full scale ±1."""
    samples, padding = len(audio), (settings.n_fft - settings.hop_length) // 2
    window = np.zeros(settings.n_fft)
    start = (settings.n_fft - settings.win_length) // 2
    position = np.arange(settings.win_length)
    window[start : start + settings.win_length] = 0.5 - 0.5 * np.cos(2 * np.pi * position / settings.win_length)
    mel = np.empty((samples // settings.hop_length, settings.n_mels))
    for frame in range(len(mel)):
        at = frame * settings.hop_length - padding + np.arange(settings.n_fft)
        mirrored = np.where(at < 0, -at, np.where(at >= samples, 2 * (samples - 1) - at, at))
        inside = (mirrored >= 0) & (mirrored < samples)
        values = np.where(inside, audio[np.clip(mirrored, 0, samples - 1)], 0).astype(np.float64)
        magnitude = np.abs(np.fft.rfft(values * window))
        mel[frame] = np.log(np.maximum(mel_filterbank(settings).astype(np.float64) @ magnitude, settings.log_floor))
    return mel
