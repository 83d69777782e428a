"""What comes with MyXTTS: a vocoder, and a voice to speak with at once and to begin others from."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent.parent / "shipped"

# Checkpoints.
SHIPPED_VOCODER = _FOLDER / "vocoder"
STARTER_VOICE = _FOLDER / "starter"
# The same voice with the vocoder, to speak with without TensorFlow.
STARTER_BUNDLE = _FOLDER / "starter-bundle"
# What users call it where a folder is expected.
STARTER = "starter"


def is_starter(path: str | Path) -> bool:
    """Whether `path` means the voice that comes with MyXTTS, and not a folder of that name."""
    return str(path) == STARTER and not Path(path).exists()
