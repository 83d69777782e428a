"""Recordings as people have them → a data set in LJSpeech's layout.

    OUT/prepare.json     the settings, written first
    OUT/prepare.jsonl    a line for each clip whose file is in place: its figures and the checksum of its file
    OUT/wavs/<id>.wav    mono, 16-bit PCM, each put in place by rename
    OUT/report.json      all figures, faults and takes
    OUT/report.html      the worst clips, to see and to hear
    OUT/metadata.csv     written last: if it exists, the data set is complete

A run that was interrupted continues. So does one whose recordings have changed since, or become more.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

import xxhash

from myxtts.child_program import run_tasks
from myxtts.data.clips import Clip
from myxtts.data.clips.metadata import Metadata
from myxtts.errors import DataError, MissingExtraError, MyXTTSError, UsageError
from myxtts.hardware import usable_cpus
from myxtts.output_folder import claim, locked, write_text
from myxtts.recordings.measurement import FAULTS, Fault, Measurement
from myxtts.recordings.prepare_page import prepare_page
from myxtts.recordings.voice_activity import available

CHUNK_CLIPS = 32  # one process cleans these; starting it takes as long as cleaning one or two
DESCRIPTION_FILE = "prepare.json"
JOURNAL_FILE = "prepare.jsonl"
METADATA_FILE = "metadata.csv"
WAVS_DIR = "wavs"
_FORMAT = 1
_DEATHS = 2  # of processes, after which the clip they were at is given up


@dataclass(frozen=True)
class PrepareSettings:
    """What every clip is made into.

    Attributes:
        sample_rate: in Hz; None: each clip keeps its own.
        loudness: in LUFS (ITU-R BS.1770).
        silence: seconds before and after the speech.
    """

    sample_rate: int | None = None
    loudness: float = -23.0
    silence: float = 0.1

    def __post_init__(self) -> None:
        if self.sample_rate is not None and not 8000 <= self.sample_rate <= 96000:
            raise UsageError(f"sample_rate is {self.sample_rate}; it should be 8000 to 96000 Hz")
        if not -40 <= self.loudness <= -10:
            raise UsageError(f"loudness is {self.loudness:g}; it should be -40 to -10 LUFS")
        if not 0 <= self.silence <= 2:
            raise UsageError(f"silence is {self.silence:g}; it should be 0 to 2 seconds")


@dataclass(frozen=True)
class CleanClip:
    """A clip whose cleaned file is in place.

    Attributes:
        clip: as the metadata has it.
        before: its figures as it was recorded.
        seconds: its length now.
        loudness: now, in LUFS; None for silence.
        faults: what is wrong with the recording.
        left_out: why the new data set does not have it; None if it has.
    """

    clip: Clip
    before: Measurement
    seconds: float
    loudness: float | None
    faults: tuple[Fault, ...]
    left_out: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        clip = self.clip
        return {
            "id": clip.id,
            "text": clip.text,
            "speaker": clip.speaker,
            "language": clip.language,
            "recording": clip.audio_path,
            "before": asdict(self.before),
            "seconds": self.seconds,
            "loudness": self.loudness,
            "faults": list(self.faults),
            "left_out": self.left_out,
        }


@dataclass(frozen=True)
class PrepareReport:
    """What became of the recordings.

    Attributes:
        path: folder of the new data set.
        clips: in the order of the metadata.
        takes: ids of clips of one speaker with the same words, the best one first.
        problems: why lines of the metadata gave no clip.
        cleaned: how many clips this run made; the others existed.
    """

    path: str
    clips: list[CleanClip]
    takes: list[list[str]]
    problems: list[str]
    cleaned: int

    @property
    def kept(self) -> list[CleanClip]:
        """The clips that the new data set has."""
        return [clip for clip in self.clips if clip.left_out is None]

    @property
    def faults(self) -> dict[str, int]:
        """How many clips have each fault."""
        counts = Counter(fault for clip in self.clips for fault in clip.faults)
        return {fault: counts[fault] for fault in FAULTS}

    def worst(self, count: int) -> list[CleanClip]:
        """The clips with most faults first, then the noisiest."""
        return sorted(self.clips, key=lambda clip: (-len(clip.faults), clip.before.snr_db))[:count]

    def summary(self) -> dict[str, Any]:
        """The totals, as JSON values."""
        return {
            "path": self.path,
            "clips": len(self.clips),
            "kept": len(self.kept),
            "cleaned": self.cleaned,
            "seconds": round(sum(clip.seconds for clip in self.kept), 2),
            "faults": self.faults,
            "takes": self.takes,
            "problems": self.problems,
        }


def prepare_recordings(
    metadata: Metadata,
    recordings: str | os.PathLike[str],
    out: str | os.PathLike[str],
    settings: PrepareSettings,
    *,
    strict: bool = False,
    one_take: bool = False,
    workers: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> PrepareReport:
    """Makes a data set of recordings, or completes one.

    Args:
        metadata: of the recordings.
        recordings: their folder, which is only read.
        out: folder that is new, empty, or was made from the same recordings with the same settings.
        settings: of the clips.
        strict: leave out clips with faults.
        one_take: of several takes of a sentence, leave out all but the best.
        workers: parallel processes; None: the CPUs this process may use.
        on_progress: called with the number of clips finished since the last call, one call at a time.

    Raises:
        MissingExtraError: the `prepare` extra is not installed.
        UsageError: the folder holds something else.
        DataError: there is no usable clip.
        MyXTTSError: a file cannot be written.
    """
    if not available():
        raise MissingExtraError("preparing recordings", "prepare")
    if metadata.validation_ids is not None:
        raise UsageError(
            "the data set has a validation set of its own; prepare the training and the validation set by themselves"
        )
    if not metadata.clips:
        metadata.require_usable()
    folder = Path(out).absolute()
    source = Path(recordings).absolute()
    if folder.resolve() == source.resolve():
        raise UsageError(f"{folder}: holds the recordings, and nothing is changed in place; choose another folder")
    description = {"format": _FORMAT, "recordings": str(source), **asdict(settings)}
    try:
        claim(folder, DESCRIPTION_FILE, description, "prepared recordings")
        with locked(folder, "prepare"):
            records, failures, cleaned = _clean_all(
                metadata.clips, folder, settings, workers or usable_cpus(), on_progress
            )
            clips = _select(metadata.clips, records, strict, takes := _takes(metadata.clips, records), one_take)
            problems = [str(problem) for problem in metadata.problems] + failures
            report = PrepareReport(str(folder), clips, takes, problems, cleaned)
            _publish(folder, report, description)
    except OSError as error:
        raise MyXTTSError(f"{error.filename or folder}: {error.strerror}") from error
    if not report.kept:
        raise DataError(f"{folder}: no clip is left; report.html there shows why")
    return report


def _clean_all(
    clips: Sequence[Clip],
    folder: Path,
    settings: PrepareSettings,
    workers: int,
    on_progress: Callable[[int], None] | None,
) -> tuple[dict[str, dict[str, Any]], list[str], int]:
    """The record of each clip, by id; why others have none; and how many were made now."""
    wavs = folder / WAVS_DIR
    wavs.mkdir(exist_ok=True)
    records = _read_journal(folder / JOURNAL_FILE, clips, wavs)
    missing = [clip for clip in clips if clip.id not in records]
    if on_progress is not None:
        on_progress(len(clips) - len(missing))
    pending = [missing[start : start + CHUNK_CLIPS] for start in range(0, len(missing), CHUNK_CLIPS)]
    failures: list[str] = []
    deaths: Counter[str] = Counter()

    def task(number: int) -> str | None:
        if not pending[number]:
            return None
        asked = [
            {"id": clip.id, "path": clip.audio_path, "start": clip.start, "duration": clip.duration}
            for clip in pending[number]
        ]
        return json.dumps({"settings": asdict(settings), "wavs": str(wavs), "clips": asked})

    def settle(number: int, reason: str | None) -> None:
        clip = pending[number].pop(0)
        if reason is not None:
            failures.append(str(clip.problem("unreadable-audio", reason)))
        if on_progress is not None:
            on_progress(1)

    def answered(number: int, line: str) -> None:
        record = json.loads(line)
        if "error" not in record:
            journal.write(line)
            journal.flush()
            records[record["id"]] = record
        settle(number, record.get("error"))

    def failed(number: int, reason: str, code: int) -> str | None:
        if code > 0 or not pending[number]:
            raise MyXTTSError(f"the recordings could not be cleaned: {reason}")
        first = pending[number][0]
        deaths[first.id] += 1
        if deaths[first.id] == _DEATHS:
            settle(number, f"{first.audio_path}: a process that read it was ended by signal {-code}, twice")
        return task(number)

    if missing:
        (folder / METADATA_FILE).unlink(missing_ok=True)
    with open(folder / JOURNAL_FILE, "a", encoding="utf-8") as journal:
        tasks = [text for text in map(task, range(len(pending))) if text is not None]
        run_tasks("myxtts.recordings.prepare_worker", tasks, workers, answered, failed)
    for part in wavs.rglob("*.part"):  # left by a process that was killed
        part.unlink()
    return records, failures, len(missing) - len(failures)


def _read_journal(path: Path, clips: Iterable[Clip], wavs: Path) -> dict[str, dict[str, Any]]:
    """The records of clips whose recording has not changed and whose file is whole."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    known = {}
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:  # the last line of a run that was killed
            continue
        known[record["id"]] = record
    return {clip.id: known[clip.id] for clip in clips if clip.id in known and _is_whole(clip, known[clip.id], wavs)}


def _is_whole(clip: Clip, record: dict[str, Any], wavs: Path) -> bool:
    try:
        status = os.stat(clip.audio_path)
        content = (wavs / f"{clip.id}.wav").read_bytes()
    except OSError:
        return False
    same = record["source"] == [status.st_size, status.st_mtime_ns]
    return same and record["checksum"] == xxhash.xxh3_64_hexdigest(content)


def _takes(clips: Iterable[Clip], records: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The ids of clips of one speaker with the same words, whatever their marks and capitals; the best one first."""

    def rank(clip_id: str) -> tuple[int, float]:
        before = Measurement(**records[clip_id]["before"])
        return len(before.faults()), -before.snr_db

    sentences: dict[tuple[str, str, str], list[str]] = {}
    for clip in clips:
        if clip.id in records:
            folded = normalize("NFKC", clip.text or clip.ipa or "").casefold()
            words = "".join(letter for letter in folded if letter.isalnum())
            sentences.setdefault((clip.speaker, clip.language, words), []).append(clip.id)
    return [sorted(ids, key=rank) for ids in sentences.values() if len(ids) > 1]


def _select(
    clips: Iterable[Clip],
    records: dict[str, dict[str, Any]],
    strict: bool,
    takes: Iterable[Sequence[str]],
    one_take: bool,
) -> list[CleanClip]:
    better = {other: ids[0] for ids in takes for other in ids[1:]} if one_take else {}
    selected = []
    for clip in clips:
        if clip.id not in records:
            continue
        record = records[clip.id]
        before = Measurement(**record["before"])
        faults = tuple(before.faults())
        left_out = f"{clip.id} is {' and '.join(faults)}" if strict and faults else None
        if left_out is None and clip.id in better:
            left_out = f"{better[clip.id]} is a better take of the same sentence"
        selected.append(CleanClip(clip, before, record["seconds"], record["loudness"], faults, left_out))
    return selected


def _publish(folder: Path, report: PrepareReport, description: dict[str, Any]) -> None:
    whole = {"settings": description} | report.summary() | {"clips": [clip.to_dict() for clip in report.clips]}
    write_text(folder / "report.json", json.dumps(whole, ensure_ascii=False, indent=1) + "\n")
    write_text(folder / "report.html", prepare_page(report, folder / WAVS_DIR))
    write_text(folder / METADATA_FILE, metadata_text(clip.clip for clip in report.kept))


def metadata_text(clips: Iterable[Clip]) -> str:
    """The metadata file of clips, with a header row."""
    clips = list(clips)
    columns = ["id", "text", "speaker", "language"] + ["ipa"] * any(clip.ipa for clip in clips)
    rows = [columns]
    for clip in clips:
        cells = [clip.id, clip.text, clip.speaker, clip.language, clip.ipa or ""]
        # A `|` or a line break inside a text cannot be written in this format, and says nothing.
        rows.append([" ".join(cell.replace("|", " ").split()) for cell in cells[: len(columns)]])
    return "".join("|".join(row) + "\n" for row in rows)
