"""Vocoders in ONNX and LiteRT files, whatever toolkit made them.

A file does not say what its tensors mean, so it is recognised by their shapes, and by what comes out of a short mel:

- **Input**: one tensor of float32 or float16, [1, n_mels, T], [1, T, n_mels], [n_mels, T] or [T, n_mels]. T may be
  free or fixed; with a fixed T, mels are cut into pieces of T frames.
- **Output**: audio, one tensor of any shape that has one length besides ones: `hop_length` samples a frame, or a
  fixed number of samples more or less, half of it at either end. Or a spectrum, as Vocos is often exported: three
  tensors [1, n_fft / 2 + 1, T], which are magnitude, cosine and sine of the phase; its inverse is computed here.
- **Context**, the frames that a sample depends on: measured, by changing a few frames in the middle of a mel.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.errors import VocoderError
from myxtts.runtime.chunked_vocoder import ChunkedVocoder
from myxtts.runtime.model_files import ModelFile, first_line, open_model_file

SUFFIXES = (".onnx", ".tflite")
# Frames of the two mels that a file is tried with.
_TRIALS = (32, 48)
# Frames of the mels that the context is measured with, the next if it does not show in one.
_MEASURED = (64, 192, 576)
_CHANGED = 4
# A difference of less than this share of the loudest sample is rounding.
_ROUNDING = 1e-6


class MelLayout(NamedTuple):
    """How a mel [F, n_mels] lies in the input."""

    rank: int
    bands_first: bool
    frames: int | None  # None: any number

    def arrange(self, mel: np.ndarray) -> np.ndarray:
        value = np.ascontiguousarray(mel.T) if self.bands_first else mel
        return value[None] if self.rank == 3 else value


def open_vocoder_file(path: str | Path, settings: MelSettings, threads: int | None = None) -> FileVocoder:
    """Opens a `.onnx` or `.tflite` file.

    Args:
        path: of the file.
        settings: of the mels.
        threads: to compute with; None: as many as there are CPUs.

    Raises:
        VocoderError: it is missing, damaged, or not a vocoder for mels of these settings.
        MissingExtraError: the `vocoders` extra is not installed.
    """
    return FileVocoder(open_model_file(Path(path), threads), settings)


class FileVocoder(ChunkedVocoder):
    """A vocoder in a file.

    Args:
        model: the opened file.
        settings: of the mels.

    Raises:
        VocoderError: it is not a vocoder for mels of these settings.
    """

    def __init__(self, model: ModelFile, settings: MelSettings) -> None:
        super().__init__(model.path.name, settings)
        self._model = model
        self._check_metadata()
        self._layout = self._find_layout()
        self.most_frames = self._layout.frames
        # Samples that a mel gives beyond hop_length a frame, which may be negative.
        self._surplus = self._measure_surplus()
        if self.most_frames is not None and not self._fits(self.most_frames):
            raise self._refusal(
                f"it takes exactly {self.most_frames} frames, too few for the number that a sample depends on",
                "a file with a free number of frames",
            )

    @functools.cached_property
    def context(self) -> int | None:
        for frames in _MEASURED if self.most_frames is None else (self.most_frames,):
            found = self._reach(frames)
            if found is not None:
                return found + 1
        return None

    def vocode(self, mel: np.ndarray) -> np.ndarray:
        frames, hop = len(mel), self.settings.hop_length
        if self.most_frames is not None:
            silence = ((0, self.most_frames - frames), (0, 0))
            mel = np.pad(mel, silence, constant_values=self.settings.padding_value)
        before, after = self._surplus // 2, self._surplus - self._surplus // 2
        audio = self._audio(mel)
        if self._surplus > 0:
            audio = audio[before : len(audio) - after]
        elif self._surplus < 0:
            audio = np.pad(audio, (-before, -after))
        return audio[: frames * hop]

    def _fits(self, frames: int) -> bool:
        return self.context is not None and 2 * self.context < frames

    def _reach(self, frames: int) -> int | None:
        """The distance in frames over which a change of frames in the middle is heard; None: from end to end."""
        if frames <= _CHANGED + 2:
            return None
        generator = np.random.default_rng(0)
        mel = generator.normal(-5, 1.5, (frames, self.settings.n_mels)).astype(np.float32)
        first = (frames - _CHANGED) // 2
        changed = mel.copy()
        changed[first : first + _CHANGED] = generator.normal(-5, 1.5, (_CHANGED, self.settings.n_mels))
        audio = self.vocode(mel)
        difference = np.abs(self.vocode(changed) - audio).reshape(frames, -1).max(axis=1)
        heard = np.flatnonzero(difference > _ROUNDING * np.abs(audio).max())
        if not len(heard):
            return 0
        if heard[0] == 0 or heard[-1] == frames - 1:
            return None
        return max(first - int(heard[0]), int(heard[-1]) - (first + _CHANGED - 1), 0)

    def _check_metadata(self) -> None:
        """Compares what some exporters write into an ONNX file."""
        for key in ("sample_rate", "hop_length", "n_mels"):
            found, wanted = self._model.metadata.get(key), getattr(self.settings, key)
            if found is not None and found.isdigit() and int(found) != wanted:
                raise self._refusal(f"its {key} is {found}", str(wanted))

    def _find_layout(self) -> MelLayout:
        """The layout of the input, tried with a mel if its shape does not say which."""
        bands = self.settings.n_mels
        needed = f"one input of float32 or float16, [1, {bands}, T] or [1, T, {bands}]"
        if len(self._model.inputs) != 1:
            names = ", ".join(map(str, self._model.inputs))
            raise self._refusal(f"it takes {len(self._model.inputs)} inputs ({names})", needed)
        (given,) = self._model.inputs
        candidates = _layouts(given.shape, bands) if given.dtype in ("float32", "float16") else []
        if not candidates:
            raise self._refusal(f"it takes {given}", needed)
        for layout in candidates:
            try:
                self._run(self._trial(layout.frames or _TRIALS[0]), layout)
                return layout
            except Exception as error:  # each runtime has exceptions of its own, of no common type
                failure = error
        raise self._refusal(f"it fails on a mel of {bands} bands ({first_line(failure)})", needed)

    def _measure_surplus(self) -> int:
        hop, lengths = self.settings.hop_length, []
        trials = list(_TRIALS) if self.most_frames is None else [self.most_frames]
        for frames in trials:
            audio = self._audio(self._trial(frames))
            if not np.isfinite(audio).all():
                raise self._refusal("it makes values that are not finite numbers", "audio")
            lengths.append(len(audio))
        if len(lengths) == 2 and lengths[1] - lengths[0] != hop * (trials[1] - trials[0]):
            found = (lengths[1] - lengths[0]) / (trials[1] - trials[0])
            raise self._refusal(f"it makes {found:g} samples of a frame", f"{hop} (hop_length)")
        surplus = lengths[0] - hop * trials[0]
        if abs(surplus) > self.settings.n_fft:
            raise self._refusal(f"it makes {lengths[0]} samples of {trials[0]} frames", f"{hop * trials[0]}")
        return surplus

    def _trial(self, frames: int) -> np.ndarray:
        return np.full((frames, self.settings.n_mels), -5, np.float32)

    def _run(self, mel: np.ndarray, layout: MelLayout) -> list[np.ndarray]:
        return self._model.run(layout.arrange(mel).astype(self._model.inputs[0].dtype))

    def _audio(self, mel: np.ndarray) -> np.ndarray:
        outputs = self._run(mel, self._layout)
        if len(outputs) == 3:
            return self._audio_of_spectrum(outputs, len(mel))
        audio = np.squeeze(outputs[0])
        if len(outputs) != 1 or audio.ndim != 1 or audio.dtype.kind != "f":
            raise self._refusal(f"it gives {_shapes(outputs)} for {len(mel)} frames", "audio, [1, samples]")
        return audio.astype(np.float32, copy=False)

    def _audio_of_spectrum(self, outputs: list[np.ndarray], frames: int) -> np.ndarray:
        hop = self.settings.hop_length
        bins = outputs[0].shape[1] if outputs[0].ndim == 3 else 0
        n_fft = 2 * (bins - 1)
        if {output.shape for output in outputs} != {(1, bins, frames)} or n_fft < hop or (n_fft - hop) % 2:
            needed = "audio, or magnitude, cosine and sine [1, n_fft / 2 + 1, T]"
            raise self._refusal(f"it gives {_shapes(outputs)} for {frames} frames", needed)
        magnitude, cosine, sine = (output[0].T.astype(np.float32) for output in outputs)
        return inverse_spectrum(magnitude * (cosine + 1j * sine), hop)

    def _refusal(self, found: str, needed: str) -> VocoderError:
        return VocoderError(f"{self._model.path}: not a vocoder for these mels: {found}; needed: {needed}")


def inverse_spectrum(spectrum: np.ndarray, hop: int) -> np.ndarray:
    """Audio float32 [F * hop] whose frames have spectra complex64 [F, n_fft / 2 + 1], as Vocos makes it.

    Frame f is centred at (f + 1/2) * hop, as in our mels, and has a Hann window before and after the transforms.
    """
    frames, n_fft = len(spectrum), 2 * (spectrum.shape[1] - 1)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)).astype(np.float32)
    pieces = np.fft.irfft(spectrum, n_fft, axis=1).astype(np.float32) * window
    audio, weight = np.zeros((2, (frames - 1) * hop + n_fft), np.float32)
    for frame, piece in enumerate(pieces):
        place = slice(frame * hop, frame * hop + n_fft)
        audio[place] += piece
        weight[place] += window * window
    edge = (n_fft - hop) // 2
    inside = slice(edge, len(audio) - edge)
    return audio[inside] / np.maximum(weight[inside], 1e-11)


def _layouts(shape: tuple[int | None, ...], bands: int) -> list[MelLayout]:
    """The layouts that an input of this shape may have, the likelier first."""
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[0] not in (1, None)):
        return []
    one, other = shape[-2:]
    rank = len(shape)
    if bands in (one, other):
        return [MelLayout(rank, one == bands, other if one == bands else one)]
    if one is None and other is None:
        return [MelLayout(rank, True, None), MelLayout(rank, False, None)]
    return []


def _shapes(outputs: list[np.ndarray]) -> str:
    return ", ".join(str(list(output.shape)) for output in outputs)
