"""A long reading and its text → clips with their texts, in LJSpeech's layout.

    OUT/split.json       the settings, written first
    OUT/work/            features of the reading and of its reference, in parts; gone when all is done
    OUT/wavs/<id>.wav    mono, 16-bit PCM, at the rate of the reading
    OUT/report.json      all clips with times and confidence, text that no audio fits, speech that no text fits
    OUT/report.html      the least certain clips, to see and to hear
    OUT/metadata.csv     written last: if it exists, all is done

espeak-ng, or a voice of ours, speaks the text; `forced_alignment` finds where the reading says the same; `placement`
cuts it in the pauses between. A run that was interrupted continues.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from myxtts.child_program import run_tasks
from myxtts.data.clips import Clip
from myxtts.data.clips.metadata import DEFAULT_SPEAKER
from myxtts.errors import DataError, MissingExtraError, MyXTTSError, TextError
from myxtts.hardware import usable_cpus
from myxtts.output_folder import claim, locked, write_text
from myxtts.recordings.forced_alignment import Alignment, Reference, align
from myxtts.recordings.long_audio import LongAudio
from myxtts.recordings.placement import Cut, cut_clips, place_sentences, speech_without_text
from myxtts.recordings.prepare import METADATA_FILE, WAVS_DIR, metadata_text
from myxtts.recordings.reading_features import FRAME_SECONDS, LEVEL_SECONDS, cepstra, stretched
from myxtts.recordings.reading_text import has_words, read_sentences
from myxtts.recordings.recogniser import agreement, can_recognise
from myxtts.recordings.split_page import split_page
from myxtts.recordings.split_worker import save_reference
from myxtts.recordings.voice_activity import CHUNK_SECONDS, available
from myxtts.recordings.wav_file import wav_bytes, write_bytes
from myxtts.text import espeak

DESCRIPTION_FILE = "split.json"
REPORT_FILE = "report.json"
DOUBTFUL = 0.7  # confidence below which a clip is listed
_FORMAT = 1
_WORK_DIR = "work"
_PART_SECONDS = 60  # of the reading; a whole number of frames of every kind
_PART_SENTENCES = 50
_COARSE_STATES = 1500  # of 40 ms each: the band of the first alignment, a minute wide
_FINE_STATES = 400  # of 20 ms each, around the first alignment
_LEAST_RATIO, _MOST_RATIO = 0.5, 2.0
_QUIET_PERCENTILE, _LOUD_PERCENTILE = 3, 80
_LOUD_SHARE = 0.8  # of the way from quiet to loud, in dB: surely speech


@dataclass(frozen=True)
class SplitSettings:
    """How a reading is split.

    Attributes:
        language: of the text.
        lines: every line of the text is a clip; otherwise sentences are.
        checkpoint: folder of a voice that speaks the reference; None: espeak-ng does.
    """

    language: str = "en"
    lines: bool = False
    checkpoint: str | None = None


@dataclass(frozen=True)
class SplitClip:
    """A clip of the reading.

    Attributes:
        id: its name.
        text: its words, as written.
        begin, end: in seconds of the reading, in pauses.
        confidence: that it is this text, 0 to 1.
        heard: what a recogniser hears in it; None: nobody was asked.
    """

    id: str
    text: str
    begin: float
    end: float
    confidence: float
    heard: str | None = None

    @property
    def doubtful(self) -> bool:
        return self.confidence < DOUBTFUL


@dataclass(frozen=True)
class SplitReport:
    """What became of a reading.

    Attributes:
        path: folder of the clips.
        seconds: length of the reading.
        clips: in order.
        unplaced: text that is in no clip, and why; in order.
        other_speech: begin and end in seconds of speech that no text fits.
        strict: doubtful clips are not in the metadata.
    """

    path: str
    seconds: float
    clips: list[SplitClip]
    unplaced: list[dict[str, str]]
    other_speech: list[tuple[float, float]]
    strict: bool

    @property
    def kept(self) -> list[SplitClip]:
        """The clips that the metadata has."""
        return [clip for clip in self.clips if not (self.strict and clip.doubtful)]

    @property
    def doubtful(self) -> list[SplitClip]:
        """The clips that a person should look at, the least certain first."""
        return sorted((clip for clip in self.clips if clip.doubtful), key=lambda clip: clip.confidence)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        clips = [asdict(clip) | {"doubtful": clip.doubtful} for clip in self.clips]
        return asdict(self) | {"clips": clips, "kept": len(self.kept), "doubtful": [one.id for one in self.doubtful]}


def split_reading(
    recording: str | os.PathLike[str],
    text: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: SplitSettings,
    *,
    strict: bool = False,
    workers: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> SplitReport:
    """Splits a reading into clips, or completes one that was interrupted.

    Args:
        recording: the audio file.
        text: what is read, in UTF-8.
        out: folder that is new, empty, or was begun with the same reading, text and settings.
        settings: of the split.
        strict: leave doubtful clips out of the metadata.
        workers: parallel processes; None: the CPUs this process may use.
        on_progress: called with the percent of the work done since the last call, one call at a time.

    Raises:
        MissingExtraError: the extras `prepare` and `speech` are not installed.
        UsageError: the folder holds something else.
        AudioError, DataError: reading or text cannot be used, or have nothing to do with each other.
        MyXTTSError: a file cannot be written.
    """
    if not available():
        raise MissingExtraError("splitting a reading", "prepare")
    if settings.checkpoint is None and not espeak.available():
        raise MissingExtraError("splitting a reading without a checkpoint", "speech")
    audio = LongAudio(recording)
    sentences = read_sentences(Path(text), settings.lines)
    if settings.checkpoint is None:
        espeak.Espeak().phonemes((), settings.language)  # refuses an unknown language before anything is written
    folder = Path(out).absolute()
    status = os.stat(recording)
    description = {
        "format": _FORMAT,
        "recording": str(Path(recording).absolute()),
        "bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "text": xxhash.xxh3_64_hexdigest("\n".join(sentences).encode()),
        **asdict(settings),
    }
    try:
        claim(folder, DESCRIPTION_FILE, description, "a split reading")
        with locked(folder, "split"):
            work = _Work(
                folder, audio, sentences, settings, workers or usable_cpus(), on_progress or (lambda _: None)
            )
            return work.run(strict)
    except OSError as error:
        raise MyXTTSError(f"{error.filename or folder}: {error.strerror}") from error


class _Work:
    """One run over one reading."""

    def __init__(
        self,
        folder: Path,
        audio: LongAudio,
        sentences: Sequence[str],
        settings: SplitSettings,
        workers: int,
        on_progress: Callable[[float], None],
    ) -> None:
        self._folder = folder
        self._audio = audio
        self._sentences = sentences
        self._spoken = [number for number, sentence in enumerate(sentences) if has_words(sentence)]
        self._settings = settings
        self._workers = workers
        self._on_progress = on_progress

    def run(self, strict: bool) -> SplitReport:
        if (self._folder / METADATA_FILE).exists():
            report = replace(self._read_report(), strict=strict)
        else:
            report = self._split(strict)
        self._publish(report)
        shutil.rmtree(self._folder / _WORK_DIR, ignore_errors=True)
        return report

    def _split(self, strict: bool) -> SplitReport:
        work = self._folder / _WORK_DIR
        work.mkdir(exist_ok=True)
        heard = self._listen(work)
        bands, levels, probability = (
            np.concatenate([part[name] for part in heard]) for name in ("bands", "levels", "probability")
        )
        spoken = self._speak(work)
        speech = _speech(levels, probability, len(bands))
        reference = _reference(spoken, probability)
        alignment, reference = _align_twice(cepstra(bands), speech, reference)
        self._on_progress(15)
        other = speech_without_text(alignment, reference, speech)
        placed = place_sentences(alignment, reference)
        cuts, without_pause = cut_clips(placed, levels, other, self._audio.seconds)
        if not cuts:
            raise DataError(f"{self._audio.path}: nothing of the text is found in it; is the language right?")
        clips = self._confirm(self._write_clips(cuts))
        unplaced = self._unplaced({number for cut in cuts for number in cut.sentences}, without_pause)
        return SplitReport(str(self._folder), round(self._audio.seconds, 2), clips, unplaced, other, strict)

    def _listen(self, work: Path) -> list[Any]:
        """What is computed of each minute of the reading."""
        whole = self._audio.seconds
        items: list[dict[str, Any]] = [
            {
                "recording": str(Path(self._audio.path).absolute()),
                "begin": begin,
                "end": min(begin + _PART_SECONDS, whole),
                "file": str(work / f"listen-{begin:06}.npz"),
            }
            for begin in range(0, max(1, int(whole)), _PART_SECONDS)
        ]
        self._run("listen", items, 60)
        return [np.load(item["file"]) for item in items]

    def _speak(self, work: Path) -> list[np.ndarray]:
        """The bands of each sentence that has words, spoken by the reference; [0, 26] if that is silent."""
        texts = [self._sentences[number] for number in self._spoken]
        language = self._settings.language
        items: list[dict[str, Any]] = [
            {
                "sentences": texts[first : first + _PART_SENTENCES],
                "language": language,
                "file": str(work / f"speak-{first:06}.npz"),
            }
            for first in range(0, len(texts), _PART_SENTENCES)
        ]
        if self._settings.checkpoint is None:
            self._run("speak", items, 20)
        else:
            self._speak_with(self._settings.checkpoint, items)
        spoken = []
        for item in items:
            part = np.load(item["file"])
            spoken += np.split(part["bands"], np.cumsum(part["lengths"])[:-1])
        return spoken

    def _speak_with(self, checkpoint: str, items: Sequence[dict[str, Any]]) -> None:
        from myxtts.inference import XTTSInference

        voice = None
        for item in items:
            if not os.path.exists(item["file"]):
                voice = voice or XTTSInference(checkpoint)
                spoken = []
                for sentence in item["sentences"]:
                    try:
                        spoken.append(voice.synthesize(sentence, language=item["language"]).audio)
                    except TextError:
                        spoken.append(np.zeros(0, np.float32))
                save_reference(Path(item["file"]), spoken, voice.sample_rate)
            self._on_progress(20 / len(items))

    def _run(self, kind: str, items: Sequence[dict[str, Any]], percent: float) -> list[str]:
        """Lets processes do what is missing; their answers, in the order of the items."""
        missing = [item for item in items if not os.path.exists(item.get("file", ""))]
        self._on_progress(percent * (1 - len(missing) / max(1, len(items))))
        answers: dict[int, str] = {}

        def answered(number: int, line: str) -> None:
            answers[number] = json.loads(line)
            self._on_progress(percent / len(items))

        def failed(_number: int, reason: str, _code: int) -> None:
            raise MyXTTSError(f"{self._audio.path}: could not be split: {reason}")

        tasks = [json.dumps({"kind": kind, "items": [item]}) for item in missing]
        run_tasks("myxtts.recordings.split_worker", tasks, self._workers, answered, failed)
        return [answers[number] for number in range(len(missing))]

    def _write_clips(self, cuts: Sequence[Cut]) -> list[SplitClip]:
        stem = "_".join(Path(self._audio.path).stem.replace("|", " ").split()) or "reading"
        clips = []
        for number, cut in enumerate(cuts, start=1):
            text = " ".join(self._sentences[self._spoken[place]] for place in cut.sentences)
            clip = SplitClip(f"{stem}-{number:05}", text, cut.begin, cut.end, cut.confidence)
            content = wav_bytes(self._audio.read(cut.begin, cut.end), self._audio.rate)
            write_bytes(self._folder / WAVS_DIR / f"{clip.id}.wav", content)
            clips.append(clip)
        return clips

    def _confirm(self, clips: list[SplitClip]) -> list[SplitClip]:
        """Asks a recogniser, where there is one, about the doubtful clips."""
        language = self._settings.language
        doubtful = [number for number, clip in enumerate(clips) if clip.doubtful]
        if not doubtful or not can_recognise(language):
            self._on_progress(5)
            return clips
        items = [{"path": str(self._folder / WAVS_DIR / f"{clips[number].id}.wav")} for number in doubtful]
        for number, heard in zip(doubtful, self._run("hear", items, 5), strict=True):
            clip = clips[number]
            confidence = round(agreement(clip.text, heard, language), 3)
            clips[number] = replace(clip, confidence=confidence, heard=heard)
        return clips

    def _unplaced(self, placed: set[int], without_pause: Sequence[int]) -> list[dict[str, str]]:
        place_of = {number: place for place, number in enumerate(self._spoken)}
        listed = []
        for number, sentence in enumerate(self._sentences):
            place = place_of.get(number)
            if place is None:
                listed.append({"text": sentence, "reason": "has no words"})
            elif place not in placed:
                reason = "no pause at its ends" if place in without_pause else "not found in the reading"
                listed.append({"text": sentence, "reason": reason})
        return listed

    def _publish(self, report: SplitReport) -> None:
        write_text(self._folder / REPORT_FILE, json.dumps(report.to_dict(), ensure_ascii=False, indent=1) + "\n")
        write_text(self._folder / "report.html", split_page(report, self._folder / WAVS_DIR))
        language = self._settings.language
        clips = [Clip(clip.id, "", clip.text, DEFAULT_SPEAKER, language, None, "", 0) for clip in report.kept]
        write_text(self._folder / METADATA_FILE, metadata_text(clips))

    def _read_report(self) -> SplitReport:
        path = self._folder / REPORT_FILE
        try:
            found = json.loads(path.read_text("utf-8"))
            names = ("id", "text", "begin", "end", "confidence", "heard")
            clips = [SplitClip(*(clip[name] for name in names)) for clip in found["clips"]]
            other = [(begin, end) for begin, end in found["other_speech"]]
            return SplitReport(str(self._folder), found["seconds"], clips, found["unplaced"], other, found["strict"])
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(f"{path}: is missing or damaged; remove metadata.csv there to split again") from None


def _speech(levels: np.ndarray, probability: np.ndarray, frames: int) -> np.ndarray:
    """float32 [frames], 0 where it is silent to 1 where somebody speaks: by voice activity, and by level, which sees
    shorter pauses."""
    times = (np.arange(frames) + 0.5) * FRAME_SECONDS
    active = probability[np.minimum((times / CHUNK_SECONDS).astype(np.int64), len(probability) - 1)]
    level = levels[np.minimum((times / LEVEL_SECONDS).astype(np.int64), len(levels) - 1)]
    quiet, loud = np.percentile(level, (_QUIET_PERCENTILE, _LOUD_PERCENTILE)).tolist()
    by_level = (level - quiet) / max(1e-3, _LOUD_SHARE * (loud - quiet))
    return np.minimum(active, np.clip(by_level, 0, 1)).astype(np.float32)


def _reference(spoken: Sequence[np.ndarray], probability: np.ndarray) -> Reference:
    """The reference at the speed of the reading."""
    frames = sum(map(len, spoken))
    if not frames:
        raise DataError("the text cannot be spoken; is the language right?")
    talking = float((probability > 0.5).sum()) * CHUNK_SECONDS / FRAME_SECONDS
    ratio = min(max(talking / frames, _LEAST_RATIO), _MOST_RATIO)
    width = next(part.shape[1] for part in spoken if len(part))
    parts = [stretched(part, ratio) if len(part) else np.zeros((0, width), np.float32) for part in spoken]
    features = cepstra(np.concatenate(parts))
    return Reference.join(np.split(features, np.cumsum([len(part) for part in parts])[:-1]))


def _align_twice(audio: np.ndarray, speech: np.ndarray, reference: Reference) -> tuple[Alignment, Reference]:
    """A coarse alignment with the reference as it is, then a fine one with one that sounds like the reader."""
    coarse, states = reference.every_second()
    path = states[align(audio[::2], speech[::2], coarse, _COARSE_STATES).path]
    adapted = reference.like(audio[::2], path)
    centre = np.repeat(path, 2)[: len(audio)]
    return align(audio, speech, adapted, _FINE_STATES, centre), adapted
