"""Whether what was exported says what the model says. Three of the ways to fail look like success."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from myxtts.errors import ExportError
from myxtts.runtime.chunked_vocoder import ChunkedVocoder
from myxtts.runtime.graphs import GRAPHS, Graph
from myxtts.runtime.speech_model import SpeechModel, SpokenMel
from myxtts.text.symbols import SYMBOLS

_Value = TypeVar("_Value")

# Largest difference of natural-log mels; of other outputs, in parts of their largest value if that is above 1.
EXACT = 1e-4
# With weights of 8 bits.
QUANTIZED = 0.3
# Symbols of the sentences, odd and even.
_SENTENCES = (1, 8, 17, 46)
# More of them, while the number of frames has not been both odd and even.
_FURTHER = range(2, 40)
# Frames of references and of what is vocoded: any remainder by the patches that frames are folded into.
_FRAMES = (1, 34, 63, 100, 129)


@dataclass(frozen=True)
class Agreement:
    """How well an exported voice agrees with its model.

    Attributes:
        sentences: that both spoke.
        difference: the largest, of natural-log mels.
    """

    sentences: int
    difference: float


def check_speech(
    model: SpeechModel, exported: SpeechModel, languages: Sequence[int], voice: np.ndarray, bound: float
) -> Agreement:
    """Lets both speak sentences of odd and even lengths in every language.

    Args:
        model: the original.
        exported: by its own runtime.
        languages: their ids.
        voice: float32 [D], a voice to speak with.
        bound: the most that mels may differ by.

    Raises:
        ExportError: they differ.
    """
    largest, count = 0.0, 0
    for language in languages:
        for tokens, wanted in _sentences(model, language, voice):
            found = _run(exported.speak, tokens, language, voice)
            what = f"{len(tokens)} symbols in language {language}"
            if not np.array_equal(wanted.alignment, found.alignment):
                raise ExportError(f"the exported voice times {what} differently from the model")
            difference = _difference(wanted.mel, found.mel)
            if not difference <= bound:
                raise ExportError(
                    f"the exported voice says {what} differently from the model: the mel differs by {difference:.2g} "
                    f"(at most {bound:g})"
                )
            largest, count = max(largest, difference), count + 1
    return Agreement(count, largest)


def check_voices(model: SpeechModel, exported: SpeechModel, bands: int) -> None:
    """Lets both hear references of several lengths.

    Raises:
        ExportError: they hear other voices.
    """
    for frames in _FRAMES:
        crops = _mels(frames, bands)[None]
        _compare("voice", frames, model.voice(crops), _run(exported.voice, crops))


def check_graph(name: str, graph: Graph, exported: Graph, bands: int) -> None:
    """Runs a graph of a harmonic vocoder as the model's and as exported.

    Raises:
        ExportError: they differ.
    """
    for frames in _FRAMES:
        values = {
            "mel": _mels(frames, bands),
            "pitch": np.linspace(80, 300, frames, dtype=np.float32),
            "voiced": (np.arange(frames) % 7 > 2).astype(np.float32),
        }
        given = [values[one] for one in GRAPHS[name].inputs]
        for wanted, found in zip(graph(*given), _run(exported, *given), strict=True):
            _compare(name, frames, wanted, found)


def check_sound(model: ChunkedVocoder, exported: ChunkedVocoder, bands: int) -> None:
    """Lets two vocoders speak the same mels.

    Raises:
        ExportError: they sound different.
    """
    for frames in _FRAMES[1:]:
        mel = _mels(frames, bands)
        _compare("vocoder", frames, model.vocode(mel), _run(exported.vocode, mel))


def _sentences(model: SpeechModel, language: int, voice: np.ndarray) -> Iterator[tuple[np.ndarray, SpokenMel]]:
    """Symbols, int32 [T] each, and what the model says of them: in odd and in even numbers of frames."""
    generator = np.random.default_rng(language)
    remainders: set[int] = set()
    for length in (*_SENTENCES, *_FURTHER):
        if length not in _SENTENCES and len(remainders) == 2:
            return
        tokens = generator.integers(1, len(SYMBOLS), length).astype(np.int32)
        spoken = model.speak(tokens, language, voice)
        remainders.add(len(spoken.mel) % 2)
        yield tokens, spoken


def _mels(frames: int, bands: int) -> np.ndarray:
    return np.random.default_rng(frames).normal(-5, 2, (frames, bands)).astype(np.float32)


def _compare(name: str, frames: int, wanted: np.ndarray, found: np.ndarray) -> None:
    difference = _difference(wanted, found)
    if not difference <= EXACT * max(1.0, float(np.abs(wanted).max())):
        raise ExportError(f"the exported {name} differs from the model's by {difference:.2g} for {frames} frames")


def _difference(wanted: np.ndarray, found: np.ndarray) -> float:
    if wanted.shape != found.shape:
        return float("inf")
    return float(np.abs(wanted - found).max(initial=0.0))


def _run(call: Callable[..., _Value], *values: Any) -> _Value:
    try:
        return call(*values)
    except Exception as error:  # each runtime has exceptions of its own, of no common type
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ExportError(f"the exported voice fails for an input of length {len(values[0])}: {line}") from error
