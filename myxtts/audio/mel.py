"""The log-mel spectrogram, computed with NumPy, and with SciPy if it is installed. `docs/mel.md` defines it; `mel_tf`
does it in graph.

HiFi-GAN's convention: magnitudes of a Hann-windowed Fourier transform, Slaney-normalised mel bands, natural
logarithm with a floor; `(n_fft - hop_length) / 2` samples are mirrored at either end, so that a clip of n samples
has n // hop_length frames.

The transform is made in float32 by `scipy.fft`, which works on several frames in one vector register (NumPy's
own takes four times as long), a block of frames at a time that stays in the cache. One thread, and the same bytes
however many threads the numerical libraries may use.

Speech is loud below 1 kHz, and the rounding errors of a float32 transform are alike in all bins, so they would
show where the bands above are near the floor. Each windowed frame p is therefore transformed as
p[n] - EMPHASIS · p[n - 1], indices modulo n_fft, which multiplies bin k by 1 - EMPHASIS · exp(-2πi k / n_fft)
exactly; the bands' weights are divided by that factor's magnitude. With window w and signal x this is

    w[n] · (x[n] - EMPHASIS · x[n - 1])  +  EMPHASIS · (w[n] - w[n - 1]) · x[n - 1]

whose first bracket is exact in float32 for 16-bit audio. The largest errors on speech are a third of what they
would be.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from myxtts.audio.reading import PCM16_SCALE, RESAMPLER_QUALITY, to_pcm16
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.config.config import DataConfig

_Count = TypeVar("_Count", int, np.ndarray)

# To be raised with every change that gives other numbers from the same audio and settings.
DEFINITION = 1
EMPHASIS = 0.5
_BLOCK_BYTES = 1 << 18
_ROWS = 8
# OpenBLAS gives a product of no more multiplications than this to one thread, so that the result cannot depend
# on how many threads there are.
_ONE_THREAD_PRODUCT = 1 << 18
_COMPILED = "scipy.fft._pocketfft.pypocketfft"
_loading = threading.Lock()


@dataclass(frozen=True)
class MelSettings:
    """Everything the log-mel of a clip depends on besides the clip. Names are those of the configuration.

    Attributes:
        sample_rate: in Hz.
        n_fft: samples of a frame.
        win_length: samples under the Hann window, which lies in the middle of the frame; at most n_fft.
        hop_length: samples from one frame to the next; n_fft - hop_length is even and not negative.
        n_mels: bands.
        fmin: lower edge of the lowest band, in Hz (`mel_fmin`).
        fmax: upper edge of the highest band, in Hz (`mel_fmax`); at most half the sample rate.
        log_floor: what a band's magnitude is raised to before the logarithm.
        trim_silence: whether `trim` cuts the silence at both ends.
        trim_db: how far below the loudest block silence lies, in dB.

    Raises:
        ConfigError: a value is out of its range, or a band is so narrow that no Fourier bin lies in it.
    """

    sample_rate: int = 22050
    n_fft: int = 1024
    win_length: int = 1024
    hop_length: int = 256
    n_mels: int = 80
    fmin: float = 0.0
    fmax: float = 8000.0
    log_floor: float = 1e-5
    trim_silence: bool = False
    trim_db: float = 40.0

    def __post_init__(self) -> None:
        for key in ("sample_rate", "n_fft", "win_length", "hop_length", "n_mels"):
            _require(getattr(self, key) >= 1, key, "at least 1", getattr(self, key))
        _require(self.win_length <= self.n_fft, "win_length", f"at most n_fft ({self.n_fft})", self.win_length)
        even = self.n_fft >= self.hop_length and (self.n_fft - self.hop_length) % 2 == 0
        _require(even, "hop_length", f"n_fft ({self.n_fft}) less an even number", self.hop_length)
        nyquist = self.sample_rate / 2
        _require(0 < self.fmax <= nyquist, "mel_fmax", f"above 0 and at most {nyquist:g}", self.fmax)
        _require(0 <= self.fmin < self.fmax, "mel_fmin", f"from 0 to below mel_fmax ({self.fmax:g})", self.fmin)
        _require(1e-30 <= self.log_floor <= 1, "log_floor", "from 1e-30 to 1", self.log_floor)
        _require(0 < self.trim_db < math.inf, "trim_db", "above 0", self.trim_db)
        empty = np.flatnonzero(~mel_filterbank(self).any(axis=1))
        if len(empty):
            raise ConfigError(
                f"n_mels: no Fourier bin lies in band {empty[0]} of {self.n_mels}; "
                f"use fewer bands, a larger n_fft, or a wider range from mel_fmin to mel_fmax"
            )

    @classmethod
    def from_config(cls, config: DataConfig) -> MelSettings:
        return cls(
            sample_rate=config.sample_rate,
            n_fft=config.n_fft,
            win_length=config.win_length,
            hop_length=config.hop_length,
            n_mels=config.n_mels,
            fmin=config.mel_fmin,
            fmax=config.mel_fmax,
            log_floor=config.log_floor,
            trim_silence=config.trim_silence,
            trim_db=config.trim_db,
        )

    def frames(self, samples: _Count) -> _Count:
        """The number of frames of a clip of so many samples (after trimming): samples // hop_length."""
        return samples // self.hop_length

    @property
    def padding(self) -> int:
        """Samples that are mirrored at either end."""
        return (self.n_fft - self.hop_length) // 2

    @property
    def padding_value(self) -> float:
        """The logarithm of the floor, in float32: the smallest value, and what frames after a clip hold."""
        return float(np.float32(math.log(self.log_floor)))

    def fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """What changes the numbers, by configuration key; `trim_db` is None where it has no effect."""
        return {
            "mel_definition": DEFINITION,
            "resampler": f"soxr-{RESAMPLER_QUALITY.lower()}",
            "sample_rate": self.sample_rate,
            "n_fft": self.n_fft,
            "win_length": self.win_length,
            "hop_length": self.hop_length,
            "n_mels": self.n_mels,
            "mel_fmin": float(self.fmin),
            "mel_fmax": float(self.fmax),
            "log_floor": float(self.log_floor),
            "trim_silence": self.trim_silence,
            "trim_db": float(self.trim_db) if self.trim_silence else None,
        }


def log_mel(audio: np.ndarray, settings: MelSettings) -> np.ndarray:
    """The log-mel of one clip.

    Args:
        audio: [n], float32 of full scale ±1, or int16, which gives the same as its 1/32768 in float32.
        settings: the clip is taken to be at their sample rate. It is not trimmed.

    Returns:
        float32 [n // hop_length, n_mels].
    """
    if audio.ndim != 1:
        raise ValueError(f"audio should have one dimension (got shape {audio.shape})")
    return _transform(settings)(audio)


def trim(audio: np.ndarray, settings: MelSettings) -> np.ndarray:
    """The clip without the silence at its ends (a view), or all of it if `trim_silence` is off."""
    if not settings.trim_silence:
        return audio
    start, stop = trim_bounds(audio, settings)
    return audio[start:stop]


def trim_bounds(audio: np.ndarray, settings: MelSettings) -> tuple[int, int]:
    """Where the sound of a clip [n] starts and stops, in samples.

    The clip on the 16-bit grid is taken in blocks of `hop_length`, the last one completed with zeros. A block
    whose energy lies more than `trim_db` below that of the loudest is silent. What remains is from the first
    block that is not silent to the last, and `padding` samples more on either side. A clip of zeros remains whole.

    The energies are integers below 2**53 and so exact in float64: the graph finds the very same bounds.
    """
    pcm = to_pcm16(audio)
    hop = settings.hop_length
    blocks = np.zeros((-(-len(pcm) // hop), hop), dtype=np.float64)
    blocks.ravel()[: len(pcm)] = pcm
    energy = np.einsum("bi,bi->b", blocks, blocks)
    loudest = energy.max(initial=0.0)
    if loudest == 0:
        return 0, len(pcm)
    sound = np.flatnonzero(energy * silence_ratio(settings) >= loudest)
    start = max(0, int(sound[0]) * hop - settings.padding)
    stop = min(len(pcm), (int(sound[-1]) + 1) * hop + settings.padding)
    return start, stop


def silence_ratio(settings: MelSettings) -> float:
    """How many times more energy the loudest block has than one at the limit of silence."""
    return float(10 ** (settings.trim_db / 10))


@lru_cache(maxsize=16)
def mel_filterbank(settings: MelSettings) -> np.ndarray:
    """Triangular bands of equal area on Slaney's mel scale: float32 [n_mels, n_fft // 2 + 1], read-only."""
    edges = _hertz(np.linspace(_mels(settings.fmin), _mels(settings.fmax), settings.n_mels + 2))
    bins = np.arange(settings.n_fft // 2 + 1) * (settings.sample_rate / settings.n_fft)
    width = np.diff(edges)[:, None]
    rising = (bins - edges[:-2, None]) / width[:-1]
    falling = (edges[2:, None] - bins) / width[1:]
    bands = np.maximum(0.0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]
    bands = bands.astype(np.float32)
    bands.setflags(write=False)
    return bands


@lru_cache(maxsize=16)
def windows(settings: MelSettings) -> tuple[np.ndarray, np.ndarray]:
    """What the emphasised signal and the signal one sample before are multiplied by, float32 [n_fft] each.

    The first is the periodic Hann window in the middle of the frame, the second EMPHASIS times its slope.
    """
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(settings.win_length) / settings.win_length)
    before = (settings.n_fft - settings.win_length) // 2
    window = np.pad(hann, (before, settings.n_fft - settings.win_length - before))
    return window.astype(np.float32), (EMPHASIS * (window - np.roll(window, 1))).astype(np.float32)


@lru_cache(maxsize=16)
def band_weights(settings: MelSettings) -> np.ndarray:
    """`mel_filterbank` for emphasised frames, as far as the highest bin in use: float32 [bins, n_mels]."""
    bands = mel_filterbank(settings)
    bins = np.flatnonzero(bands.any(axis=0))[-1] + 1
    gain = np.abs(1 - EMPHASIS * np.exp(-2j * np.pi * np.arange(bins) / settings.n_fft))
    return (bands[:, :bins] / gain).T.astype(np.float32)


class _Group(NamedTuple):
    """Neighbouring bands, and the bins they are made of."""

    bins: slice
    bands: slice
    weights: np.ndarray  # [bins, bands]


class _Transform:
    """Windows, weights and the memory to work in; for one thread.

    The memory is kept from clip to clip: asking the system for fresh pages costs as much as half the transform.
    """

    def __init__(self, settings: MelSettings) -> None:
        self._rfft = _fourier_transform()
        self._settings = settings
        self._block = max(1, _BLOCK_BYTES // (4 * settings.n_fft * _ROWS)) * _ROWS
        window, slope = windows(settings)
        self._window, self._slope = np.tile(window, (_ROWS, 1)), np.tile(slope, (_ROWS, 1))
        self._groups = _groups(settings, self._block)
        scale = np.float32(1 / PCM16_SCALE)
        self._pcm16_groups = [group._replace(weights=group.weights * scale) for group in self._groups]

        samples = (self._block - 1) * settings.hop_length + settings.n_fft
        self._samples = np.empty(1 + samples, dtype=np.float32)
        self._emphasised = np.empty(samples, dtype=np.float32)
        self._emphasised_frames = self._framed(self._emphasised)
        self._earlier_frames = self._framed(self._samples[:-1])
        self._last_samples = self._samples[settings.n_fft :: settings.hop_length]
        self._frames = np.empty((self._block // _ROWS, _ROWS, settings.n_fft), dtype=np.float32)
        self._sloped = np.empty_like(self._frames)
        self._magnitude = np.empty((self._block, self._groups[-1].bins.stop), dtype=np.float32)

    def __call__(self, audio: np.ndarray) -> np.ndarray:
        settings = self._settings
        frames = settings.frames(len(audio))
        groups = self._pcm16_groups if audio.dtype == np.int16 else self._groups
        mel = np.empty((frames, settings.n_mels), dtype=np.float32)
        for start in range(0, frames, self._block):
            stop = min(start + self._block, frames)
            self._take(audio, start * settings.hop_length - settings.padding - 1)
            magnitude = self._magnitudes(stop - start)
            for group in groups:
                np.matmul(magnitude[:, group.bins], group.weights, out=mel[start:stop, group.bands])
        # Raised to the floor after the logarithm, so that whatever lies below it has exactly one value.
        np.maximum(mel, np.finfo(np.float32).tiny, out=mel)
        np.log(mel, out=mel)
        return np.maximum(mel, np.float32(settings.padding_value), out=mel)

    def _take(self, audio: np.ndarray, first: int) -> None:
        """Samples from the one numbered `first` on, which is negative in the mirror before the clip."""
        target, samples = self._samples, len(audio)
        reach = min(self._settings.padding, samples - 1)
        last = first + len(target)
        begin, end = max(first, 0), min(last, samples)
        target[begin - first : end - first] = audio[begin:end]
        if first < 0:
            target[: -first - reach] = 0
            target[-first - reach : -first] = audio[reach:0:-1]
        if last > samples:
            mirrored = audio[samples - 1 - reach : samples - 1][::-1][: last - samples]
            target[samples - first :] = 0
            target[samples - first : samples - first + len(mirrored)] = mirrored

    def _magnitudes(self, count: int) -> np.ndarray:
        """Of the first `count` frames of the samples taken: [count, bins], those of emphasised frames."""
        np.multiply(self._samples[:-1], np.float32(-EMPHASIS), out=self._emphasised)
        np.add(self._emphasised, self._samples[1:], out=self._emphasised)
        rows = -(-count // _ROWS)
        frames, sloped = self._frames[:rows], self._sloped[:rows]
        # Copying and then multiplying many rows in one go takes three quarters of the time of doing it row by row.
        np.copyto(frames, self._emphasised_frames[:rows])
        np.multiply(frames, self._window, out=frames)
        np.copyto(sloped, self._earlier_frames[:rows])
        np.multiply(sloped, self._slope, out=sloped)
        np.add(frames, sloped, out=frames)
        flat, magnitude = frames.reshape(rows * _ROWS, -1)[:count], self._magnitude[:count]
        # The window is zero at n = 0: what is there comes from the other end of the frame.
        np.multiply(self._last_samples[:count], self._slope[0, 0], out=flat[:, 0])
        return np.abs(self._rfft(flat, axis=1)[:, : magnitude.shape[1]], out=magnitude)

    def _framed(self, samples: np.ndarray) -> np.ndarray:
        """A view [block / rows, rows, n_fft]."""
        every = np.lib.stride_tricks.sliding_window_view(samples, self._settings.n_fft)
        return every[:: self._settings.hop_length].reshape(-1, _ROWS, self._settings.n_fft)


def _fourier_transform() -> Callable[..., np.ndarray]:
    """SciPy's, or NumPy's where only what speaking needs is installed: a reference is short.

    Importing `scipy.fft` takes 0.2 s, as long as the mels of fifty clips, in every worker of a build, most of it for
    scipy.special and numpy.f2py. So the compiled module behind it is loaded alone, under its own name, where a later
    `import scipy.fft` finds it.
    """
    # Not at the top: loading SciPy takes longer than some commands that only need the settings.
    try:
        with _loading:
            transform = _compiled_transform()
        transform(np.zeros((1, 2), np.float32), 1)
        return transform
    except (ImportError, AttributeError, TypeError):
        pass  # this SciPy keeps it elsewhere, or calls it in another way
    try:
        from scipy.fft import rfft
    except ModuleNotFoundError:
        from numpy.fft import rfft
    return rfft


def _compiled_transform() -> Callable[..., np.ndarray]:
    """What `scipy.fft.rfft` calls, on one thread."""
    module = sys.modules.get(_COMPILED)
    if module is None:
        scipy = find_spec("scipy")
        roots = [] if scipy is None else scipy.submodule_search_locations or []
        found = PathFinder.find_spec(_COMPILED, [str(Path(root, "fft", "_pocketfft")) for root in roots])
        if found is None or found.loader is None:
            raise ImportError(_COMPILED)
        module = module_from_spec(found)
        found.loader.exec_module(module)
        sys.modules[_COMPILED] = module
    real_to_complex = module.r2c
    return lambda frames, axis: real_to_complex(frames, (axis,), True, 0, None, 1)


_of_thread = threading.local()


def _transform(settings: MelSettings) -> _Transform:
    if getattr(_of_thread, "settings", None) != settings:
        _of_thread.transform, _of_thread.settings = _Transform(settings), settings
    return _of_thread.transform


def _groups(settings: MelSettings, block: int) -> list[_Group]:
    """A band is a few bins wide: multiplying group by group leaves out most of the zeros."""
    weights = band_weights(settings)
    edges = [(int(used[0]), int(used[-1]) + 1) for used in map(np.flatnonzero, weights.T)]
    groups = []
    first = 0
    for last in range(1, settings.n_mels + 1):
        next_edge = edges[min(last, settings.n_mels - 1)][1]
        too_large = block * (last + 1 - first) * (next_edge - edges[first][0]) > _ONE_THREAD_PRODUCT
        if last == settings.n_mels or too_large:
            bins, bands = slice(edges[first][0], edges[last - 1][1]), slice(first, last)
            groups.append(_Group(bins, bands, np.ascontiguousarray(weights[bins, bands])))
            first = last
    return groups


def _mels(hertz: float) -> float:
    """Slaney's scale: linear to 1,000 Hz, logarithmic above."""
    return hertz * 3 / 200 if hertz < 1000 else 15 + math.log(hertz / 1000) * 27 / math.log(6.4)


def _hertz(mels: np.ndarray) -> np.ndarray:
    return np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * math.log(6.4) / 27))


def _require(condition: bool, key: str, allowed: str, value: float) -> None:
    if not condition:
        raise ConfigError(f"{key} should be {allowed} (got {value:g})")
