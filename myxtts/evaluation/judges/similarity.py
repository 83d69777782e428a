"""Speaker similarity: how near the voice of speech is to the voice in the speaker's recordings.

The voice of a clip is a vector of length 1 (`speaker_encoder`). A clip's similarity is the mean of its cosines with
the recordings of its speaker, those of the same sentence left out. So the recordings' own figure is the ceiling: each
is compared with the others. The nearest speaker is the one with the highest mean.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from myxtts.evaluation.judges.judge import Figure, Observation


class SimilarityJudge:
    """Cosine similarity to the speaker's recordings, and whether the nearest speaker is the right one."""

    name: ClassVar[str] = "similarity"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("similarity", "similarity", "mean cosine of the voice to the speaker's recordings; 1 is the same"),
        Figure("nearest_speaker", "right speaker", "clips whose nearest speaker is their own", is_share=True),
    )
    needs_text: ClassVar[bool] = False
    needs_recordings: ClassVar[bool] = True
    languages: ClassVar[frozenset[str] | None] = None

    def __init__(self) -> None:
        from myxtts.evaluation.judges.speaker_encoder import SpeakerEncoder

        self._encoder = SpeakerEncoder()

    @classmethod
    def missing(cls) -> str | None:
        # The weights are all that is used of the package. What it asks pip for (PyTorch, a compiler) is not needed.
        missing = importlib.util.find_spec("resemblyzer") is None
        return "resemblyzer not installed: pip install --no-deps Resemblyzer==0.1.4" if missing else None

    def observe(self, audio: np.ndarray, text: str, language: str) -> Mapping[str, Any]:
        return {"voice": self._encoder(audio)}

    @classmethod
    def summarize(cls, observed: Sequence[Observation], recordings: Sequence[Observation]) -> dict[str, float | None]:
        return voice_figures(observed, recordings)


def voice_figures(observed: Sequence[Observation], recordings: Sequence[Observation]) -> dict[str, float | None]:
    """`similarity` and `nearest_speaker` of clips whose `voice` is a vector of length 1.

    A clip whose speaker has no recording of another sentence does not count. With one speaker there is no nearest.
    """
    own, right = [], []
    for clip in observed:
        means = _similarities(clip, recordings)
        if clip.speaker in means:
            own.append(means[clip.speaker])
            if len(means) > 1:
                right.append(max(means, key=lambda speaker: means[speaker]) == clip.speaker)
    return {
        "similarity": float(np.mean(own)) if own else None,
        "nearest_speaker": float(np.mean(right)) if right else None,
    }


def _similarities(clip: Observation, recordings: Sequence[Observation]) -> dict[str, float]:
    """By speaker the mean cosine to the recordings of other sentences."""
    voices: dict[str, list[np.ndarray]] = {}
    for recording in recordings:
        if not (clip.id and recording.id == clip.id):
            voices.setdefault(recording.speaker, []).append(recording.values["voice"])
    return {speaker: float(np.mean(vectors, axis=0) @ clip.values["voice"]) for speaker, vectors in voices.items()}
