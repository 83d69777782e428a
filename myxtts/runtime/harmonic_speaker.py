"""The vocoder of our own as it speaks: two graphs, and between and after them NumPy.

`pitch` scores classes of pitch, `filters` says how pulses and noise sound; the path through the classes, the pulses,
the noise and the Fourier transforms are computed here. `models/harmonic_vocoder.py` has the same in TensorFlow, for
training.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.models.harmonic_definition import (
    AT_A_PULSE,
    CLASS_PITCHES,
    CLASSES,
    LEAST_ENVELOPE,
    LOUDEST,
    NEIGHBOURS,
    NOISE_FRAMES,
    SCORE_CHANGE,
    USUAL_PITCH,
    change_costs,
    noise_spectra,
    phase_of_pitch,
)
from myxtts.runtime.chunked_vocoder import LONGEST_PIECE, STREAM_CHUNK, WHOLE_CHUNK, ChunkedVocoder, chunks
from myxtts.runtime.frame_transform import FrameTransform
from myxtts.runtime.graphs import Graph


class HarmonicGraphs(NamedTuple):
    """The two networks, and how many frames at either side each depends on."""

    pitch: Graph
    filters: Graph
    pitch_context: int
    context: int


class HarmonicSpeaker(ChunkedVocoder):
    """A vocoder of pulses and noise.

    The pitch is found in parts that do not depend on how the sound is cut: the phase of the pulses is a sum over all
    frames before, so a rounding error of the pitch would grow. Each part is found when the sound needs it.

    Args:
        name: for people.
        settings: of the mels.
        graphs: with their weights.
    """

    def __init__(self, name: str, settings: MelSettings, graphs: HarmonicGraphs) -> None:
        super().__init__(name, settings)
        self._graphs = graphs
        self._transform = FrameTransform(settings, LEAST_ENVELOPE)

    @property
    def context(self) -> int:
        return self._graphs.context

    def vocode(self, mel: np.ndarray) -> np.ndarray:
        return np.concatenate(list(self.stream(mel, len(mel))))

    def stream(self, mel: np.ndarray, chunk_frames: int = STREAM_CHUNK) -> Iterator[np.ndarray]:
        parts = chunks(len(mel), WHOLE_CHUNK, self._graphs.pitch_context)
        pitch, voiced = np.zeros((2, len(mel)), np.float32)
        known, hop = 0, self.settings.hop_length
        for chunk in chunks(len(mel), chunk_frames, self.context, longest=LONGEST_PIECE):
            here = chunk.with_context
            while known < here.stop:
                part = next(parts)
                found = self._track(mel[part.with_context])
                pitch[part.frames], voiced[part.frames] = (values[part.inside] for values in found)
                known = part.frames.stop
            phase = phase_of_pitch(pitch[: here.stop], self.settings)[here.start :]
            sound = self._sound(mel[here], Source(pitch[here], voiced[here], phase), here.start)
            yield sound[chunk.inside.start * hop : chunk.inside.stop * hop]

    def _track(self, mel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pitch and voicing, 0 or 1: float32 [F] each."""
        scores, voicing = self._graphs.pitch(mel)
        return predicted_pitch(scores), (voicing > 0).astype(np.float32)

    def _sound(self, mel: np.ndarray, source: Source, first: int) -> np.ndarray:
        """The samples of frames, of which the first has this number: float32 [F · hop_length]."""
        frames = len(mel)
        pulse_gain, noise_gain, turn = self._graphs.filters(mel, source.pitch, source.voiced)
        pulse_gain, noise_gain = (np.exp(np.minimum(gain, np.float32(LOUDEST))) for gain in (pulse_gain, noise_gain))
        spectrum = self._transform.analyse(pulses(source, self.settings))
        spectrum *= pulse_gain * np.cos(turn) + 1j * (pulse_gain * np.sin(turn))
        spectrum += noise_spectra(self.settings)[(first + np.arange(frames)) % NOISE_FRAMES] * noise_gain
        samples = self._transform.synthesise(spectrum, self._transform.envelope(frames))
        return self._transform.inside(samples, frames)


class Source(NamedTuple):
    """Pulses, float32 [F] each."""

    pitch: np.ndarray  # Hz
    voiced: np.ndarray  # 0 to 1
    phase: np.ndarray  # radians, at the middle of the frame


def predicted_pitch(scores: np.ndarray) -> np.ndarray:
    """The pitch in Hz [F] of scores [F, CLASSES]: the mean of the classes around the best path."""
    near = np.abs(np.arange(CLASSES) - best_path(_log_softmax(scores))[:, None]) <= NEIGHBOURS
    shares = np.exp(_log_softmax(np.where(near, scores, np.float32(-1e9))))
    return np.exp(shares @ np.log(CLASS_PITCHES))


def best_path(scores: np.ndarray) -> np.ndarray:
    """The classes, one for each frame, whose scores [F, CLASSES] are highest in sum, less the costs of their changes
    (Viterbi): int [F]."""
    cost = change_costs(SCORE_CHANGE)
    origins = np.zeros(scores.shape, np.intp)
    ways, classes = np.empty_like(cost), np.arange(CLASSES)
    total = scores[0]
    for frame in range(1, len(scores)):
        np.subtract(total, cost, out=ways)  # [to, from]
        origins[frame] = ways.argmax(axis=1)
        total = ways[classes, origins[frame]] + scores[frame]
        total -= total.max()
    path = np.empty(len(scores), np.intp)
    path[-1] = total.argmax()
    for frame in range(len(scores) - 1, 0, -1):
        path[frame - 1] = origins[frame, path[frame]]
    return path


def pulses(source: Source, settings: MelSettings) -> np.ndarray:
    """A band-limited pulse train, float32 [(F - 1) · hop_length + n_fft]: every sample that the frames see."""
    hop, rate = settings.hop_length, settings.sample_rate
    radians = np.float32(2 * math.pi * hop / rate)  # a frame's, at 1 Hz
    advance = np.float32(0.5) * radians * (source.pitch[1:] + source.pitch[:-1])
    slip = _wrap(source.phase[1:] - source.phase[:-1] - advance)

    # The frames see up to `more` hops before the first middle and after the last one.
    more = math.ceil(settings.n_fft / (2 * hop))
    pitch, voiced = (np.pad(values, more, mode="edge") for values in (source.pitch, source.voiced))
    steps = np.arange(1, more + 1, dtype=np.float32)
    before = source.phase[0] - radians * source.pitch[0] * steps[::-1]
    after = source.phase[-1] + radians * source.pitch[-1] * steps
    phase = np.concatenate([before, source.phase, after])[:-1, None]
    slip = np.pad(slip, more)[:, None]

    between = np.arange(hop, dtype=np.float32) / np.float32(hop)  # from one middle to the next
    low, rise = pitch[:-1, None], np.diff(pitch)[:, None]
    phase = _wrap(phase + radians * (low * between + rise * (between**2 / 2)) + slip * between)
    pitch = low + rise * between
    voiced = voiced[:-1, None] + np.diff(voiced)[:, None] * between
    # The sum of the cosines of all harmonics below half the sample rate, in closed form.
    harmonics = np.floor(np.float32(rate / 2) / pitch)
    sine = np.sin(phase / 2)
    at_pulse = np.abs(sine) < AT_A_PULSE
    sine[at_pulse] = 1.0
    ratio = np.where(at_pulse, 2 * harmonics + 1, np.sin((harmonics + np.float32(0.5)) * phase) / sine)
    # A quiet voice has as much energy in a second at any pitch.
    train = np.float32(0.5) * (ratio - 1) * voiced * np.sqrt(pitch / np.float32(USUAL_PITCH))
    first = more * hop - settings.n_fft // 2
    return train.ravel()[first : first + (len(source.pitch) - 1) * hop + settings.n_fft]


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _wrap(phase: np.ndarray) -> np.ndarray:
    """Between -π and π."""
    turn = np.float32(2 * math.pi)
    return phase - turn * np.round(phase / turn)
