"""Looks at a data set before any work is done on it: how much there is, of what, and what is wrong.

Only headers are read of the audio. Texts go through the tokenizer, as they will when features are computed, so that
symbols it does not know are found here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any
from unicodedata import normalize

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.clips import Problem
from myxtts.data.clips.audio_headers import probe_audio
from myxtts.data.clips.metadata import SPLITS, Metadata
from myxtts.data.clips.text_inspection import inspect_texts
from myxtts.errors import DataError

_BIN_SECONDS = (0.25, 0.5, 1, 2, 5, 10, 30, 60)
_MAX_BINS = 12


@dataclass(frozen=True)
class Portion:
    """How much of a data set belongs to one speaker or language."""

    clips: int
    seconds: float


@dataclass(frozen=True)
class DataReport:
    """What a data set consists of.

    Attributes:
        path: its folder.
        layout: how it is laid out, in one line.
        clips: that can be used.
        splits: clips per split.
        lengths: float64, seconds of each clip.
        speakers: share of each, by name.
        languages: share of each, by code.
        sample_rates: clips at each rate in Hz.
        channels: clips with each number of channels.
        characters: how often each character occurs in the texts, in NFC.
        text_symbols: `graphemes` or `phonemes`, whichever the texts were turned into.
        unknown_symbols: how often each symbol occurs that the symbol table does not have.
        unknown_words: how often each Persian word occurs whose sounds are guessed from its letters.
        ambiguous_words: how often each Persian word occurs of whose readings nothing in its sentence chooses one.
        too_long: clips over `max_mel_frames` or `max_tokens`.
        problems: what leaves single clips out.
        obstacles: what keeps training from starting at all.
        notes: what a person may want to know besides.
    """

    path: str
    layout: str
    clips: int
    splits: dict[str, int]
    lengths: np.ndarray
    speakers: dict[str, Portion]
    languages: dict[str, Portion]
    sample_rates: dict[int, int]
    channels: dict[int, int]
    characters: Counter[str]
    text_symbols: str
    unknown_symbols: Counter[str]
    unknown_words: Counter[str]
    ambiguous_words: Counter[str]
    too_long: int
    problems: list[Problem]
    obstacles: list[str]
    notes: list[str]

    @property
    def seconds(self) -> float:
        """Of audio in all."""
        return float(self.lengths.sum())

    @property
    def ok(self) -> bool:
        """Whether training would start in every mode, `precompute` included, with every clip."""
        return not self.problems and not self.obstacles

    def histogram(self) -> list[tuple[float, float, int]]:
        """Clips by length: from, to (seconds), how many; bins of one round width from 0 to the longest clip."""
        if not len(self.lengths):
            return []
        longest = float(self.lengths.max())
        width = next((width for width in _BIN_SECONDS if longest < width * _MAX_BINS), longest / _MAX_BINS)
        counts = np.bincount((self.lengths / width).astype(np.int64))
        return [(index * width, (index + 1) * width, int(count)) for index, count in enumerate(counts)]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        lengths = self.lengths if len(self.lengths) else np.zeros(1)
        return {
            "path": self.path,
            "layout": self.layout,
            "ok": self.ok,
            "clips": self.clips,
            "seconds": round(self.seconds, 3),
            "hours": round(self.seconds / 3600, 4),
            "splits": self.splits,
            "length": {
                "min": round(float(lengths.min()), 3),
                "median": round(float(np.median(lengths)), 3),
                "max": round(float(lengths.max()), 3),
                "histogram": [{"from": low, "to": high, "clips": count} for low, high, count in self.histogram()],
            },
            "speakers": {name: asdict(share) for name, share in self.speakers.items()},
            "languages": {code: asdict(share) for code, share in self.languages.items()},
            "sample_rates": self.sample_rates,
            "channels": self.channels,
            "characters": dict(self.characters.most_common()),
            "text_symbols": self.text_symbols,
            "unknown_symbols": dict(self.unknown_symbols.most_common()),
            "unknown_words": dict(self.unknown_words.most_common()),
            "ambiguous_words": dict(self.ambiguous_words.most_common()),
            "too_long": self.too_long,
            "problems": [asdict(problem) for problem in self.problems],
            "obstacles": self.obstacles,
            "notes": self.notes,
        }


def inspect_data(
    metadata: Metadata, config: DataConfig, on_progress: Callable[[int], None] | None = None
) -> DataReport:
    """Reads every header, tokenizes every text, and adds it all up.

    Args:
        metadata: as `read_metadata(config)` gives it.
        config: where the data set is, and how texts and audio are turned into features.
        on_progress: called with the number of clips whose header was read since the last call, from a thread.
    """
    clips = metadata.clips
    with ThreadPoolExecutor(max_workers=1) as background:
        probing = background.submit(probe_audio, clips, config.workers, on_progress)
        texts = inspect_texts(clips, config, config.workers)
        headers = probing.result()
    problems = [clips[place].problem("unusable-text", reason) for place, reason in texts.failures.items()]
    metadata = metadata.leave_out([*headers.problems, *problems])
    kept = {clip.id for clip in metadata.clips}
    usable = np.array([clip.id in kept for clip in clips], dtype=bool)

    obstacles = []
    try:
        metadata.require_usable()
    except DataError as error:
        obstacles.append(str(error).splitlines()[0].rstrip(":"))
    lengths = headers.seconds[usable]
    rates = headers.sample_rate[usable]
    mel = MelSettings.from_config(config)
    frames = mel.frames(headers.samples_at(mel.sample_rate)[usable])
    tokens = np.array(texts.counts, dtype=np.int64)[usable]
    too_long = (frames > config.max_mel_frames) | (tokens > config.max_tokens)
    split_counts = Counter(metadata.splits)
    return DataReport(
        path=", ".join(config.dataset_paths),
        layout=metadata.layout,
        clips=len(metadata.clips),
        splits={split: split_counts[split] for split in SPLITS},
        lengths=lengths,
        speakers=_shares([clip.speaker for clip in metadata.clips], lengths),
        languages=_shares([clip.language for clip in metadata.clips], lengths),
        sample_rates=_counts(rates),
        channels=_counts(headers.channels[usable]),
        characters=Counter(normalize("NFC", "".join(clip.text for clip in metadata.clips))),
        text_symbols=texts.symbols,
        unknown_symbols=texts.unknown,
        unknown_words=texts.unknown_words,
        ambiguous_words=texts.ambiguous_words,
        too_long=int(too_long.sum()),
        problems=sorted(metadata.problems, key=lambda problem: (problem.file, problem.line)),
        obstacles=obstacles,
        notes=metadata.notes,
    )


def _shares(names: Sequence[str], lengths: np.ndarray) -> dict[str, Portion]:
    clips = Counter(names)
    seconds: dict[str, float] = dict.fromkeys(clips, 0.0)
    for name, length in zip(names, lengths.tolist(), strict=True):
        seconds[name] += length
    return {name: Portion(clips[name], round(seconds[name], 3)) for name in sorted(clips)}


def _counts(values: np.ndarray) -> dict[int, int]:
    return {int(value): int(count) for value, count in zip(*np.unique(values, return_counts=True), strict=True)}
