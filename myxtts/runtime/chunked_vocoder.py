"""Long mels in chunks: the same samples as from the whole, in memory that does not grow with the length."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from myxtts.audio.mel import MelSettings

# Frames of a chunk of a whole mel: enough that the context at either end costs little.
WHOLE_CHUNK = 512
# Frames of the first chunk of a stream, 0.6 s by default: few, so that it is ready soon.
STREAM_CHUNK = 48
# Frames that the later ones grow to: with the context at either end, few at a time cost twice as much as many.
LONGEST_PIECE = 192


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
        """The same audio in pieces, or all in one if nothing can be cut. The first has `chunk_frames` frames, each
        next one twice as many as the one before, up to `LONGEST_PIECE`."""
        frames, hop = len(mel), self.settings.hop_length
        if frames and frames <= min(chunk_frames, self.most_frames or chunk_frames):
            yield self.vocode(mel)
            return
        context, chunk = self.context, chunk_frames
        if context is None:
            context, chunk = 0, frames
        elif self.most_frames is not None:
            chunk = min(chunk, self.most_frames - 2 * context)
        longest = LONGEST_PIECE if self.most_frames is None else None
        for part in chunks(frames, chunk, context, self.most_frames, longest):
            yield self.vocode(mel[part.with_context])[part.inside.start * hop : part.inside.stop * hop]


class Chunk(NamedTuple):
    """A part of a mel."""

    frames: slice  # that it has
    with_context: slice  # and that it is computed from
    inside: slice  # where its own frames are among those


def chunks(
    frames: int, size: int, context: int, exactly: int | None = None, longest: int | None = None
) -> Iterator[Chunk]:
    """The parts of so many frames, computed with `context` more on either side, or with as many more as it takes to
    have `exactly` so many frames. Each is of `size`, or, as far as `longest`, twice as long as the one before."""
    start = 0
    while start < frames:
        stop = min(start + max(size, 1), frames)
        first, last = max(0, start - context), min(frames, stop + context)
        if exactly is not None and frames >= exactly:
            # So that no frame has to be made up.
            first = min(first, frames - exactly)
            last = first + exactly
        yield Chunk(slice(start, stop), slice(first, last), slice(start - first, stop - first))
        start, size = stop, max(size, min(2 * size, longest or 0))
