"""The registry of a store's columns: one entry has everything there is to know about a column.

`COLUMNS` has an entry for each: its name, the type and shape of its rows, what it is computed from and by what, and
which settings its bytes depend on. Whatever builds, checks, repairs or reuses stores goes through the entries and
knows none of them by name. To add a column, write a class that computes it, and `register` an entry.

What a column is computed from is given to its class as JSON values, since it comes through a pipe. A clip that cannot
be computed gives the reason in its place, one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import xxhash

from myxtts.audio.mel import MelSettings, log_mel, trim
from myxtts.audio.reading import RESAMPLER_QUALITY, read_audio, read_samples, to_pcm16
from myxtts.data.clips import Clip
from myxtts.data.store.format import MEL_DTYPES, TOKEN_DTYPE, Column, mel_column, optional_column, token_column
from myxtts.errors import AudioError, MyXTTSError, TextError
from myxtts.text import TextSettings, Tokenizer

if TYPE_CHECKING:
    from myxtts.config.config import DataConfig

AUDIO_COLUMN = "audio"
AUDIO_DTYPE = np.dtype("<i2")
# To be raised with every change that stores other samples of the same file and settings.
AUDIO_DEFINITION = 1

_HASH_BLOCK = 1 << 20
_TOKEN_BYTES_PER_LETTER = 10  # blanks between symbols, four bytes each, numbers written out


class AudioStamp(NamedTuple):
    """An audio file as it was read: its size, time and xxh3-64."""

    size: int
    mtime_ns: int
    content: int


class ClipRows(NamedTuple):
    """The rows of one clip in a column, and the audio file they come from, if any."""

    rows: np.ndarray
    source: AudioStamp | None = None


class Computer(Protocol):
    """Computes a column. It is made from the settings of its entry, in a worker process."""

    def compute(self, items: Sequence[Any]) -> Iterator[ClipRows | str]:
        """One result per item, in order: the clip's rows, or why there are none in one line."""


@dataclass(frozen=True)
class ClipSource:
    """What a column is computed from.

    Attributes:
        name: for code that groups columns by it.
        item: what a worker is given for a clip, as JSON values.
        index_entries: where the index says what a clip was computed from, by field of `records.RECORD`.
    """

    name: str
    item: Callable[[Clip], Any]
    index_entries: Mapping[str, str]

    @property
    def has_time(self) -> bool:
        """Whether a change can be seen from size and time, without reading the content."""
        return "mtime" in self.index_entries


# What a worker is given of a clip's audio: the file; or the file and its part, from where and how long, in seconds.
AudioItem = str | Sequence[Any]


def is_part(clip: Clip) -> bool:
    """Whether a clip is a part of its audio file, as far as its metadata says."""
    return bool(clip.start) or clip.duration is not None


def _audio_item(clip: Clip) -> AudioItem:
    return (clip.audio_path, clip.start, clip.duration) if is_part(clip) else clip.audio_path


AUDIO = ClipSource(
    "audio",
    _audio_item,
    {"size": "source_size", "mtime": "source_mtime_ns", "content": "source_hash"},
)
TEXT = ClipSource("text", lambda clip: (clip.text, clip.language, clip.ipa), {"content": "text_hash"})


@dataclass(frozen=True)
class ColumnEntry:
    """A column that stores can have.

    Attributes:
        name: a lower-case letter, then letters, digits or `_`; names its file and its entries in the index.
        plural: for messages and reports.
        stage: what computing it is called while it is watched.
        source: what it is computed from.
        section: of a store's settings that holds its fingerprint.
        layout: type and shape of its rows, and the padding.
        fingerprint: every setting that changes its bytes, as JSON values.
        computer: computes it, called with `settings` as keyword arguments. It has to be importable by its name.
        settings: for the computer, as JSON values.
        expected_bytes: at most, of a clip with so many samples at the configured rate; for asking the disk for room.
        seconds_per_row: of audio, for progress; 0 if its rows are not steps in time.
        clips_per_task: how many clips a worker gets at a time.
        rebuild_key: configuration key that, set to false, forbids to compute it again with other settings.
        wanted: whether a configuration asks for it; mels and tokens are always there.
    """

    name: str
    plural: str
    stage: str
    source: ClipSource
    section: str
    layout: Callable[[DataConfig], Column]
    fingerprint: Callable[[DataConfig], dict[str, Any]]
    computer: Callable[..., Computer]
    settings: Callable[[DataConfig], dict[str, Any]]
    expected_bytes: Callable[[DataConfig, Clip, int], int]
    seconds_per_row: Callable[[DataConfig], float] = lambda config: 0.0
    clips_per_task: int = 1
    rebuild_key: str | None = None
    wanted: Callable[[DataConfig], bool] = lambda config: True


class MelComputer:
    """Mels of audio files, stored as `float16` or `float32`; made with fields of `MelSettings`."""

    def __init__(self, dtype: str, **settings: Any) -> None:
        self._dtype = MEL_DTYPES[dtype]
        self._settings = MelSettings(**settings)

    def compute(self, items: Sequence[AudioItem]) -> Iterator[ClipRows | str]:
        """One result per item, in order."""
        for item in items:
            yield rows_or_reason(self._compute, item)

    def _compute(self, item: AudioItem) -> ClipRows:
        audio, source = read_stamped(item, self._settings.sample_rate, read_samples)
        mel = log_mel(trim(audio, self._settings), self._settings)
        if not len(mel):
            raise _too_short(item)
        return ClipRows(np.ascontiguousarray(mel, self._dtype), source)


class AudioComputer:
    """Samples of audio files, a row each: exactly those under the mel's frames, so frame `i` of a clip is above its
    samples from `i · hop_length` to before `(i + 1) · hop_length`; made with fields of `MelSettings`.

    What follows the last frame, less than a hop, is left out: with every clip a whole number of hops long, the file
    can also be read as rows of a hop each, which begin where the mel's rows do.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = MelSettings(**settings)

    def compute(self, items: Sequence[AudioItem]) -> Iterator[ClipRows | str]:
        """One result per item, in order."""
        for item in items:
            yield rows_or_reason(self._compute, item)

    def _compute(self, item: AudioItem) -> ClipRows:
        audio, source = read_stamped(item, self._settings.sample_rate, read_samples)
        audio = trim(audio, self._settings)
        frames = self._settings.frames(len(audio))
        if not frames:
            raise _too_short(item)
        samples = to_pcm16(audio[: frames * self._settings.hop_length])
        return ClipRows(np.ascontiguousarray(samples, AUDIO_DTYPE), source)


class TokenComputer:
    """Symbol ids of texts; made with fields of `TextSettings`."""

    def __init__(self, **settings: Any) -> None:
        self._tokenizer = Tokenizer(TextSettings(**settings))

    def compute(self, items: Sequence[tuple[str, str, str | None]]) -> Iterator[ClipRows | str]:
        """One result per (text, language, ipa), in order."""
        try:
            encoded = self._tokenizer.encode_batch(*map(list, zip(*items, strict=True)))
        except MyXTTSError:
            # One text of the batch cannot be encoded; one by one, the others still can.
            for text in items:
                yield rows_or_reason(lambda text: _token_rows(text, self._tokenizer.encode(*text)), text)
            return
        for text, ids in zip(items, encoded, strict=True):
            yield rows_or_reason(_token_rows, text, ids)


# In the order in which they are built: tokens are cheap, and a clip whose text fails is then not computed at all.
COLUMNS: dict[str, ColumnEntry] = {}


def register(entry: ColumnEntry) -> ColumnEntry:
    """Adds a column that stores can have from now on."""
    COLUMNS[entry.name] = entry
    return entry


def columns_of(config: DataConfig) -> list[ColumnEntry]:
    """The columns of the store that a configuration asks for, in the order in which they are built."""
    return [entry for entry in COLUMNS.values() if entry.wanted(config)]


def read_stamped(
    item: AudioItem, sample_rate: int, read: Callable[..., np.ndarray] = read_audio
) -> tuple[np.ndarray, AudioStamp]:
    """A clip's samples [n], as a function of `audio.reading` gives them, float32 by default; and their file.

    Raises:
        AudioError: the file cannot be read, or changes meanwhile.
        OSError: it cannot be opened.
    """
    if isinstance(item, str):
        path, stamp = item, read_stamp(item)
        audio = read(path, sample_rate)
    else:
        path = item[0]
        stamp = _stamp_of_parts(path, *_size_and_time(path))
        audio = read(path, sample_rate, *item[1:])
    if _size_and_time(path) != stamp[:2]:
        raise AudioError(f"{path}: changed while it was read")
    return audio, stamp


@lru_cache(maxsize=1)
def _stamp_of_parts(path: str, size: int, mtime_ns: int) -> AudioStamp:
    """The stamp of a file that a worker reads part by part, and hashes once."""
    return read_stamp(path)


def _size_and_time(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def read_stamp(path: str) -> AudioStamp:
    """Size, time and hash of an audio file.

    Raises:
        OSError: it cannot be read.
    """
    digest = xxhash.xxh3_64()
    with open(path, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        while block := file.read(_HASH_BLOCK):
            digest.update(block)
    return AudioStamp(status.st_size, status.st_mtime_ns, digest.intdigest())


def rows_or_reason(function: Callable[..., ClipRows], *arguments: Any) -> ClipRows | str:
    """The result, or why there is none in one line. Any failure is that of one clip; the others go on."""
    try:
        return function(*arguments)
    except MyXTTSError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    return " ".join(reason.split())


def token_settings(settings: TextSettings) -> dict[str, Any]:
    """The settings as `TokenComputer` takes them."""
    lexicons = {language: os.fspath(path) for language, path in settings.lexicons.items()}
    return vars(settings) | {"lexicons": lexicons, "extra_languages": list(settings.extra_languages)}


def _too_short(item: AudioItem) -> AudioError:
    path = item if isinstance(item, str) else item[0]
    return AudioError(f"{path}: the audio is too short for a single frame")


def _token_rows(text: tuple[str, str, str | None], ids: np.ndarray) -> ClipRows:
    if not len(ids):
        raise TextError(f"nothing in the text can be spoken: {text[0][:60]!r}")
    return ClipRows(np.ascontiguousarray(ids, TOKEN_DTYPE))


def _mel_layout(config: DataConfig) -> Column:
    return mel_column(config.n_mels, config.mel_dtype, MelSettings.from_config(config).padding_value)


def _mel_bytes(config: DataConfig, clip: Clip, samples: int) -> int:
    return samples // config.hop_length * config.n_mels * MEL_DTYPES[config.mel_dtype].itemsize


def _audio_fingerprint(config: DataConfig) -> dict[str, Any]:
    """Settings of the mel that change no sample are left out, so that they do not have the audio stored again."""
    return {
        "audio_definition": AUDIO_DEFINITION,
        "resampler": f"soxr-{RESAMPLER_QUALITY.lower()}",
        "sample_rate": config.sample_rate,
        "hop_length": config.hop_length,
        "n_fft": config.n_fft if config.trim_silence else None,
        "trim_silence": config.trim_silence,
        "trim_db": float(config.trim_db) if config.trim_silence else None,
    }


register(
    ColumnEntry(
        name="token",
        plural="tokens",
        stage="text",
        source=TEXT,
        section="text",
        layout=lambda config: token_column(),
        fingerprint=lambda config: dict(TextSettings.from_config(config).fingerprint()),
        computer=TokenComputer,
        settings=lambda config: token_settings(TextSettings.from_config(config)),
        expected_bytes=lambda config, clip, samples: len(clip.text) * _TOKEN_BYTES_PER_LETTER,
        clips_per_task=64,  # one call of the phonemiser
        rebuild_key="auto_rebuild_token_cache",
    )
)
register(
    ColumnEntry(
        name="mel",
        plural="mels",
        stage="mels",
        source=AUDIO,
        section="mel",
        layout=_mel_layout,
        fingerprint=lambda config: MelSettings.from_config(config).fingerprint() | {"mel_dtype": config.mel_dtype},
        computer=MelComputer,
        settings=lambda config: {"dtype": config.mel_dtype} | vars(MelSettings.from_config(config)),
        expected_bytes=_mel_bytes,
        seconds_per_row=lambda config: config.hop_length / config.sample_rate,
        clips_per_task=1,  # it takes milliseconds, and little is lost when the build is killed
        rebuild_key="auto_rebuild_mel_cache",
    )
)
register(
    ColumnEntry(
        name=AUDIO_COLUMN,
        plural="waveforms",
        stage="audio",
        source=AUDIO,
        section="audio",
        layout=lambda config: optional_column(AUDIO_COLUMN, AUDIO_DTYPE.name, (), 0.0),
        fingerprint=_audio_fingerprint,
        computer=AudioComputer,
        settings=lambda config: vars(MelSettings.from_config(config)),
        expected_bytes=lambda config, clip, samples: samples * AUDIO_DTYPE.itemsize,
        seconds_per_row=lambda config: 1 / config.sample_rate,
        wanted=lambda config: config.store_audio,
    )
)
