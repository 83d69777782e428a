"""A voice's graphs, and the little that lies between them: text in symbols and a voice in, a mel out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.models.mel_scale import MEL_DEVIATION, MEL_MEAN, NOISE, TEMPERATURE
from myxtts.runtime.graphs import Graph

DEFAULT_VOICE = "default"


class SpokenMel(NamedTuple):
    """What a model says."""

    mel: np.ndarray  # float32 [F, n_mels], natural log
    alignment: np.ndarray  # int32 [F], the token of each frame


class SpeechModel:
    """Speaks with the graphs of a checkpoint or of a bundle.

    The noise of a flow decoder is made here, so that a seed sounds the same whoever runs the graphs.

    Args:
        graphs: `plan` and `voice`, and `decoder` or `velocity`; by their names in `GRAPHS`.
        padding_value: smallest value of a mel.
        flow_steps: Euler steps of the flow decoder; more are finer.
    """

    def __init__(self, graphs: Mapping[str, Graph], padding_value: float, flow_steps: int) -> None:
        self._graphs = graphs
        self._padding_value = np.float32(padding_value)
        self.flow_steps = flow_steps

    def speak(
        self,
        tokens: np.ndarray,
        language: int,
        voice: np.ndarray,
        speed: float = 1.0,
        seed: Sequence[int] = (0, 0),
        temperature: float = TEMPERATURE,
    ) -> SpokenMel:
        """
        Args:
            tokens: int32 [T].
            language: its id.
            voice: float32 [D].
            speed: 2 is twice as fast.
            seed: of the flow decoder's noise.
            temperature: scale of that noise; less is calmer.
        """
        voice = np.asarray(voice, np.float32)
        mean, features, alignment = self._graphs["plan"](
            np.asarray(tokens, np.int32), np.int32(language), voice, np.float32(speed)
        )
        if "velocity" in self._graphs:
            point = self._follow_flow(mean, features, voice, seed, temperature)
        else:
            (point,) = self._graphs["decoder"](features, mean, voice)
        mel = point * np.float32(MEL_DEVIATION) + np.float32(MEL_MEAN)
        return SpokenMel(np.maximum(mel, self._padding_value), alignment)

    def voice(self, crops: np.ndarray) -> np.ndarray:
        """The voice in crops of a recording [n, R, n_mels], natural log: float32 [D]."""
        (voices,) = self._graphs["voice"](np.asarray(crops, np.float32))
        return voices.mean(axis=0)

    def _follow_flow(
        self, mean: np.ndarray, features: np.ndarray, voice: np.ndarray, seed: Sequence[int], temperature: float
    ) -> np.ndarray:
        noise = np.random.default_rng(seed).standard_normal(mean.shape, np.float32)
        point = mean + np.float32(temperature * NOISE) * noise
        for step in range(self.flow_steps):
            (velocity,) = self._graphs["velocity"](point, np.float32(step / self.flow_steps), features, mean, voice)
            point = point + velocity / np.float32(self.flow_steps)
        return point


@dataclass(frozen=True)
class OpenedVoice:
    """A voice that is ready to speak, whatever it was opened from.

    Attributes:
        path: of the checkpoint or bundle.
        config: what it was trained with.
        model: makes mels.
        voices: float32 [D] by name; the first is `default`.
        languages: codes of those that it was trained for; the first is the default.
    """

    path: Path
    config: XTTSConfig
    model: SpeechModel
    voices: Mapping[str, np.ndarray]
    languages: tuple[str, ...]
