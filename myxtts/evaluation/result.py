"""The result of an evaluation: every sentence, and the figures over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.evaluation.judges import Judgements
from myxtts.inference.vocoder import Vocoder

# What judges hear, by the key in JSON.
RECORDING, CEILING, OURS, TEXTS = "recording", "ceiling", "ours", "texts"
# The same in tables.
TITLES = {
    RECORDING: "recording",
    CEILING: "its mel through the vocoder",
    OURS: "ours",
    TEXTS: "ours, sentences of the text file",
}


@dataclass(frozen=True, eq=False)
class SentenceResult:
    """One sentence, recorded and generated.

    Attributes:
        id, text, speaker, language, audio_path: of the clip.
        mcd: of the generated speech against the recording, in dB.
        mcd_ceiling: the same of the recording's own mel through the vocoder.
        mcd_floor: the same of another recorded sentence; None if the data set has no other.
        rank: of its own clip among clips of about the same length; None if there are too few.
        mel, true_mel: generated and recorded, float32 [F, n_mels], natural log.
        part: where the clip starts in its audio file and how long it is, in seconds; no length: to the end.
    """

    id: str
    text: str
    speaker: str
    language: str
    audio_path: str
    mcd: float
    mcd_ceiling: float
    mcd_floor: float | None
    rank: int | None
    mel: np.ndarray = field(repr=False)
    true_mel: np.ndarray = field(repr=False)
    part: tuple[float, float | None] = (0.0, None)

    @property
    def duration_ratio(self) -> float:
        return len(self.mel) / len(self.true_mel)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the mels."""
        return {
            "id": self.id,
            "text": self.text,
            "speaker": self.speaker,
            "language": self.language,
            "mcd": _rounded(self.mcd),
            "mcd_ceiling": _rounded(self.mcd_ceiling),
            "mcd_floor": _rounded(self.mcd_floor),
            "duration_ratio": _rounded(self.duration_ratio),
            "rank": self.rank,
        }


@dataclass(frozen=True, eq=False)
class SpokenText:
    """A sentence that was generated and that nobody recorded.

    Attributes:
        text, language: what was spoken.
        speaker: whose voice.
        mel: float32 [F, n_mels], natural log.
        audio: float32 [n], the vocoder's.
    """

    text: str
    language: str
    speaker: str
    mel: np.ndarray = field(repr=False)
    audio: np.ndarray = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without mel and audio."""
        return {"text": self.text, "speaker": self.speaker, "language": self.language}


@dataclass(frozen=True)
class VoiceResult:
    """One sentence spoken with the voice of another recording.

    Attributes:
        id: of the clip with the same sentence and voice.
        speaker: whose voice.
        seen: whether the speaker was in the training data.
        rank: of the right voice among all that were compared; 1 is the nearest.
        voices: how many were compared.
    """

    id: str
    speaker: str
    seen: bool
    rank: int
    voices: int


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of an evaluation. Shares are from 0 to 1, and None where they do not apply.

    Attributes:
        checkpoint: what was evaluated.
        data_path: the data set it was evaluated on.
        subset: which of its clips, in words.
        seed: of all random choices.
        mel_settings: of the mels.
        vocoder: made audio of recorded and generated mels alike.
        retrieval_candidates: how many clips each sentence was compared with, its own included.
        results: the sentences.
        voice_results: the voice trials.
        voices_known: whether the training voices are known; if not, there are no voice trials.
        texts: sentences of a text file.
        judgements: what judges say of recordings, ceiling and generated speech; None if nobody was asked.
    """

    checkpoint: str
    data_path: str
    subset: str
    seed: int
    mel_settings: MelSettings
    vocoder: Vocoder = field(repr=False)
    retrieval_candidates: int
    results: tuple[SentenceResult, ...]
    voice_results: tuple[VoiceResult, ...] = ()
    voices_known: bool = True
    texts: tuple[SpokenText, ...] = ()
    judgements: Judgements | None = None

    @property
    def sentences(self) -> int:
        return len(self.results)

    @property
    def mcd(self) -> float:
        """Mean over the sentences, in dB."""
        return float(np.mean([result.mcd for result in self.results]))

    @property
    def mcd_ceiling(self) -> float:
        return float(np.mean([result.mcd_ceiling for result in self.results]))

    @property
    def mcd_floor(self) -> float | None:
        return _mean([result.mcd_floor for result in self.results if result.mcd_floor is not None])

    @property
    def mcd_position(self) -> float | None:
        """Where `mcd` lies between the floor (0) and the ceiling (1)."""
        floor = self.mcd_floor
        if floor is None or floor <= self.mcd_ceiling:
            return None
        return (floor - self.mcd) / (floor - self.mcd_ceiling)

    @property
    def duration_ratio(self) -> float:
        """Length of all generated speech over that of all recordings."""
        return sum(len(one.mel) for one in self.results) / sum(len(one.true_mel) for one in self.results)

    @property
    def retrieval(self) -> float | None:
        """Share of sentences that are nearest to their own recording."""
        return _mean([result.rank == 1 for result in self._ranked])

    @property
    def retrieval_sentences(self) -> int:
        """Sentences with enough candidates."""
        return len(self._ranked)

    @property
    def voice_top1_seen(self) -> float | None:
        return _share(self.trials(True), 1)

    @property
    def voice_top3_seen(self) -> float | None:
        return _share(self.trials(True), 3)

    @property
    def voice_top1_unseen(self) -> float | None:
        return _share(self.trials(False), 1)

    @property
    def voice_top3_unseen(self) -> float | None:
        return _share(self.trials(False), 3)

    def trials(self, seen: bool) -> list[VoiceResult]:
        """The trials with voices seen in training, or with unseen ones."""
        return [trial for trial in self.voice_results if trial.seen is seen]

    @property
    def voices_compared(self) -> int | None:
        """The smallest number of voices in any trial."""
        return min((trial.voices for trial in self.voice_results), default=None)

    def summary(self) -> list[tuple[str, str, str]]:
        """The figures for people: name, value, and what it means. Those that do not apply are left out."""
        found = f"{sum(result.rank == 1 for result in self._ranked)} of {self.retrieval_sentences} sentences"
        rows = [
            (
                "retrieval",
                _percent(self.retrieval),
                f"{found}: nearest to their own clip among {self.retrieval_candidates}",
            ),
            (
                "duration_ratio",
                f"{self.duration_ratio:.3f}",
                "generated over recorded length, all sentences together",
            ),
            ("mcd", f"{self.mcd:.2f} dB", f"mean of {self.sentences} sentences, through {self.vocoder.name}"),
            ("mcd_ceiling", f"{self.mcd_ceiling:.2f} dB", f"the recordings' own mels through {self.vocoder.name}"),
            ("mcd_floor", _decibels(self.mcd_floor), "another recorded sentence of about the same length"),
            ("mcd_position", _percent(self.mcd_position), "of the way from the floor to the ceiling"),
        ]
        for seen, name in ((True, "seen"), (False, "unseen")):
            trials = self.trials(seen)
            voices = len({trial.speaker for trial in trials})
            for top in (1, 3):
                right = sum(trial.rank <= top for trial in trials)
                where = "nearest" if top == 1 else "among the 3 nearest"
                meaning = (
                    f"{right} of {len(trials)} trials, {voices} {name} voices: {where} of {self.voices_compared}"
                )
                rows.append((f"voice_top{top}_{name}", _percent(_share(trials, top)), meaning))
        return [row for row in rows if row[1]]

    def notes(self) -> list[str]:
        """What a reader should know besides the figures, a line each."""
        notes = []
        skipped = self.sentences - self.retrieval_sentences
        if skipped:
            notes.append(
                f"{skipped} of {self.sentences} sentences do not count for retrieval: their speaker has fewer than "
                f"{self.retrieval_candidates - 1} other clips of about their length"
            )
        if not self.voices_known:
            notes.append("the checkpoint does not say which voices it was trained on: no voice was compared")
        if self.judgements is not None:
            notes += self.judgements.notes
        return notes

    def judged(self, group: str, place: int) -> Mapping[str, Any]:
        """What judges observed of one clip of a group; empty if it was not judged."""
        found = None if self.judgements is None else self.judgements.groups.get(group)
        return {} if found is None else found.per_clip[place]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        voices: dict[str, Any] = {}
        for name, trials in (("seen", self.trials(True)), ("unseen", self.trials(False))):
            voices |= {
                f"voice_top1_{name}": _rounded(_share(trials, 1)),
                f"voice_top3_{name}": _rounded(_share(trials, 3)),
                f"voice_trials_{name}": len(trials),
                f"voices_{name}": len({trial.speaker for trial in trials}),
            }
        return {
            "checkpoint": self.checkpoint,
            "data_path": self.data_path,
            "subset": self.subset,
            "seed": self.seed,
            "vocoder": self.vocoder.name,
            "sentences": self.sentences,
            "mcd": _rounded(self.mcd),
            "mcd_ceiling": _rounded(self.mcd_ceiling),
            "mcd_floor": _rounded(self.mcd_floor),
            "mcd_position": _rounded(self.mcd_position),
            "duration_ratio": _rounded(self.duration_ratio),
            "retrieval": _rounded(self.retrieval),
            "retrieval_sentences": self.retrieval_sentences,
            "retrieval_candidates": self.retrieval_candidates,
            **voices,
            "voices_compared": self.voices_compared,
            "judges": None if self.judgements is None else self.judgements.to_dict(),
            "per_sentence": [
                result.to_dict() | {"judges": {name: self.judged(name, place) for name in (RECORDING, CEILING, OURS)}}
                for place, result in enumerate(self.results)
            ],
            "per_text": [
                text.to_dict() | {"judges": self.judged(TEXTS, place)} for place, text in enumerate(self.texts)
            ],
        }

    @property
    def _ranked(self) -> list[SentenceResult]:
        return [result for result in self.results if result.rank is not None]


def _share(trials: Sequence[VoiceResult], top: int) -> float | None:
    """In which the right voice is among the `top` nearest."""
    return _mean([trial.rank <= top for trial in trials])


def _mean(values: Sequence[float | bool]) -> float | None:
    return float(np.mean(values)) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _decibels(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} dB"
