"""Long mels in chunks: the same samples as from the whole, in memory that does not grow with the length."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from myxtts.audio.mel import MelSettings

# Frames of a chunk of a whole mel: enough that the context at either end costs little.
WHOLE_CHUNK = 512
# Frames of a chunk of a stream, 0.6 s by default: few, so that the first one is ready soon.
STREAM_CHUNK = 48


class ChunkedVocoder(abc.ABC):
    """A vocoder whose every sample depends on a limited number of neighbouring frames.

    A chunk is computed with `context` further frames on either side, whose samples are thrown away. Where the mel
    begins or ends there are fewer, as in the whole.

    Args:
        name: for people.
        settings: of the mels.
    """

    # The most frames that `vocode` takes; None: any number.
    most_frames: int | None = None

    def __init__(self, name: str, settings: MelSettings) -> None:
        self.name = name
        self.settings = settings

    @property
    def sample_rate(self) -> int:
        return self.settings.sample_rate

    @property
    @abc.abstractmethod
    def context(self) -> int | None:
        """Frames on either side that a sample depends on; None: on all of them, so that nothing can be cut."""

    @abc.abstractmethod
    def vocode(self, mel: np.ndarray) -> np.ndarray:
        """Audio float32 [F * hop_length] of a mel float32 [F, n_mels] in one piece, F > 0."""

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Natural-log mel float32 [F, n_mels] → audio float32 [F * hop_length]."""
        audio = np.empty(len(mel) * self.settings.hop_length, np.float32)
        done = 0
        for piece in self.stream(mel, WHOLE_CHUNK):
            audio[done : done + len(piece)] = piece
            done += len(piece)
        return audio

    def stream(self, mel: np.ndarray, chunk_frames: int = STREAM_CHUNK) -> Iterator[np.ndarray]:
        """The same audio in pieces of `chunk_frames` frames, or all in one if nothing can be cut."""
        frames, hop = len(mel), self.settings.hop_length
        if frames and frames <= min(chunk_frames, self.most_frames or chunk_frames):
            yield self.vocode(mel)
            return
        context, chunk = self.context, chunk_frames
        if context is None:
            context, chunk = 0, frames
        elif self.most_frames is not None:
            chunk = min(chunk, self.most_frames - 2 * context)
        for part in chunks(frames, chunk, context, self.most_frames):
            yield self.vocode(mel[part.with_context])[part.inside.start * hop : part.inside.stop * hop]


class Chunk(NamedTuple):
    """A part of a mel."""

    frames: slice  # that it has
    with_context: slice  # and that it is computed from
    inside: slice  # where its own frames are among those


def chunks(frames: int, size: int, context: int, exactly: int | None = None) -> Iterator[Chunk]:
    """The parts of so many frames, each of `size` and computed with `context` more on either side, or with as many
    more as it takes to have `exactly` so many frames."""
    for start in range(0, frames, max(size, 1)):
        stop = min(start + size, frames)
        first, last = max(0, start - context), min(frames, stop + context)
        if exactly is not None and frames >= exactly:
            # So that no frame has to be made up.
            first = min(first, frames - exactly)
            last = first + exactly
        yield Chunk(slice(start, stop), slice(first, last), slice(start - first, stop - first))
