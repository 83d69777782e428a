"""A recording to clone a voice from: checked, and cut to the length that the model was trained with."""

from __future__ import annotations

import os

import numpy as np

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.reading import read_audio
from myxtts.config.config import XTTSConfig
from myxtts.errors import AudioError, UsageError
from myxtts.runtime.speech_model import SpeechModel

SHORTEST_SECONDS = 1.0
# The rest of a longer recording adds nothing to the voice.
LONGEST_SECONDS = 60.0
# Peaks below -60 dB of full scale mean that the microphone was off.
SILENT_PEAK = 1e-3


def reference_mels(
    reference: str | os.PathLike[str] | np.ndarray, settings: MelSettings, seconds: float
) -> np.ndarray:
    """Crops of a recording, like those that the reference encoder was trained with.

    Args:
        reference: an audio file, or float32 [n] at the settings' sample rate.
        settings: of the model's mels.
        seconds: length of a crop; one crop for a shorter recording.

    Returns:
        float32 [crops, R, n_mels]; the last crop ends where the recording does.

    Raises:
        AudioError: there is no such file, it is not audio, silent, or shorter than a second.
    """
    if isinstance(reference, np.ndarray):
        name, audio = "the reference", np.asarray(reference, np.float32)
        if audio.ndim != 1 or not np.isfinite(audio).all():
            raise AudioError(f"{name}: should be finite samples of one channel (got shape {audio.shape})")
    else:
        name, audio = str(reference), read_audio(reference, settings.sample_rate)
    length = len(audio) / settings.sample_rate
    if length < SHORTEST_SECONDS:
        raise AudioError(f"{name}: {length:.2f} s long; a reference needs at least a second, better 3 to 10")
    if np.abs(audio).max() < SILENT_PEAK:
        raise AudioError(f"{name}: silent; record the voice again, or check the file")
    return reference_crops(log_mel(audio[: int(LONGEST_SECONDS * settings.sample_rate)], settings), settings, seconds)


def reference_voice(
    model: SpeechModel, reference: str | os.PathLike[str] | np.ndarray, config: XTTSConfig
) -> np.ndarray:
    """The voice in a recording: float32 [D].

    Raises:
        AudioError: as `reference_mels`.
        UsageError: the model was trained without references.
    """
    settings, seconds = MelSettings.from_config(config.data), config.data.reference_seconds
    if not settings.frames(int(seconds * settings.sample_rate)):
        raise UsageError(f"this checkpoint was trained without references (reference_seconds: {seconds:g})")
    return model.voice(reference_mels(reference, settings, seconds))


def reference_crops(mel: np.ndarray, settings: MelSettings, seconds: float) -> np.ndarray:
    """A mel [F, n_mels] in crops of `seconds`, or as one shorter crop: [crops, R, n_mels]; the last crop ends where
    the mel does."""
    frames = min(len(mel), settings.frames(int(seconds * settings.sample_rate)))
    starts = [*range(0, len(mel) - frames, frames), len(mel) - frames]
    return np.stack([mel[start : start + frames] for start in starts])
