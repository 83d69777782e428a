"""Generates a data set in LJSpeech's layout with espeak-ng: no download, any size, many voices.

    OUT/corpus.json     the settings, written first
    OUT/wavs/<id>.wav   mono, 16-bit PCM, each put in place by rename
    OUT/metadata.csv    written last, by rename: if it exists, the corpus is complete

The same settings give the same bytes, with any number of workers: clips are spoken in chunks of a fixed size, each in
its own process (`worker.py` says why). A run that was interrupted continues with the incomplete chunks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from myxtts.child_program import run_tasks
from myxtts.corpus.plan import CorpusSettings, PlannedClip, plan_corpus
from myxtts.corpus.voices import first_voices
from myxtts.errors import MissingExtraError, MyXTTSError
from myxtts.hardware import usable_cpus
from myxtts.output_folder import claim, locked, write_text
from myxtts.text.espeak import Espeak, available

CHUNK_CLIPS = 256
DESCRIPTION_FILE = "corpus.json"
METADATA_FILE = "metadata.csv"
WAVS_DIR = "wavs"
_FORMAT = 1
_WAV_HEADER_BYTES = 44


@dataclass(frozen=True)
class Corpus:
    """A complete corpus.

    Attributes:
        path: its folder.
        clips: number of clips.
        spoken: number of clips that this run made; the others existed.
        seconds: length of the speech.
        speakers: their names.
        languages: their codes.
    """

    path: str
    clips: int
    spoken: int
    seconds: float
    speakers: tuple[str, ...]
    languages: tuple[str, ...]


def make_corpus(
    out: str | os.PathLike[str],
    settings: CorpusSettings,
    workers: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Generates a corpus, or completes one that was interrupted.

    Args:
        out: folder that is new, empty, or holds a corpus with the same settings.
        settings: of the corpus.
        workers: number of parallel processes; None: the CPUs this process may use.
        on_progress: called with the number of clips finished since the last call; by worker threads, one at a
            time.

    Raises:
        MissingExtraError: the `speech` extra is not installed.
        UsageError: the settings cannot be met, or the folder holds something else.
        DataError: the text file cannot be used.
    """
    if not available():
        raise MissingExtraError("generating a corpus", "speech")
    espeak = Espeak()
    for language in settings.languages:
        espeak.phonemes((), language)  # refuses an unknown language before anything is written
    plan = plan_corpus(settings)
    description = _describe(settings, plan, espeak.version)
    folder = Path(out).absolute()
    try:
        claim(folder, DESCRIPTION_FILE, description, "a corpus")
        with locked(folder, "make-corpus"):
            return _complete(folder, settings, plan, workers or usable_cpus(), on_progress)
    except OSError as error:
        raise MyXTTSError(f"{error.filename or folder}: {error.strerror}") from error


def _describe(settings: CorpusSettings, plan: Sequence[PlannedClip], espeak_version: str) -> dict[str, Any]:
    """The content of the description file. The hash covers what the settings do not show: words and voices."""
    content = json.dumps([CHUNK_CLIPS, [asdict(clip) for clip in plan]]).encode()
    return {
        "format": _FORMAT,
        "clips": len(plan),
        "speakers": settings.speakers,
        "languages": list(settings.languages),
        "seed": settings.seed,
        "sample_rate": settings.sample_rate,
        "text_file": settings.text_file is not None,
        "same_sentences": settings.same_sentences,
        "espeak_ng": espeak_version,
        "content": xxhash.xxh3_128_hexdigest(content),
    }


def _complete(
    folder: Path,
    settings: CorpusSettings,
    plan: Sequence[PlannedClip],
    workers: int,
    on_progress: Callable[[int], None] | None,
) -> Corpus:
    wavs = folder / WAVS_DIR
    wavs.mkdir(exist_ok=True)
    chunks = [plan[start : start + CHUNK_CLIPS] for start in range(0, len(plan), CHUNK_CLIPS)]
    present = {
        entry.name for entry in os.scandir(wavs) if entry.is_file() and entry.stat().st_size > _WAV_HEADER_BYTES
    }
    missing = [chunk for chunk in chunks if any(f"{clip.id}.wav" not in present for clip in chunk)]
    metadata = folder / METADATA_FILE
    spoken = sum(map(len, missing))
    if on_progress is not None:
        on_progress(len(plan) - spoken)
    if missing:
        metadata.unlink(missing_ok=True)
        _speak_chunks(missing, wavs, settings.sample_rate, workers, on_progress)
    for part in wavs.glob("*.part"):  # left by a run that was killed
        part.unlink()
    if not metadata.exists():
        write_text(metadata, _metadata_text(settings, plan))
    frames = sum((wavs / f"{clip.id}.wav").stat().st_size - _WAV_HEADER_BYTES for clip in plan) // 2
    speakers = tuple(voice.name for voice in first_voices(settings.speakers))
    return Corpus(str(folder), len(plan), spoken, frames / settings.sample_rate, speakers, settings.languages)


def _speak_chunks(
    chunks: Sequence[Sequence[PlannedClip]],
    wavs: Path,
    sample_rate: int,
    workers: int,
    on_progress: Callable[[int], None] | None,
) -> None:
    def finished(_chunk: int, _line: str) -> None:
        if on_progress is not None:
            on_progress(1)

    def failed(number: int, reason: str, _code: int) -> None:
        chunk = chunks[number]
        raise MyXTTSError(f"clips {chunk[0].id} to {chunk[-1].id} could not be spoken: {reason}")

    tasks = [_task(chunk, wavs, sample_rate) for chunk in chunks]
    run_tasks("myxtts.corpus.worker", tasks, workers, finished, failed)


def _task(chunk: Sequence[PlannedClip], wavs: Path, sample_rate: int) -> str:
    clips = [
        {
            "path": str(wavs / f"{clip.id}.wav"),
            "text": clip.text,
            "voice": clip.speaker.speaking(clip.language),
            "rate_wpm": clip.speaker.rate_wpm,
            "pitch": clip.speaker.pitch,
        }
        for clip in sorted(chunk, key=lambda clip: clip.language)  # changing the voice takes as long as speaking
    ]
    return json.dumps({"sample_rate": sample_rate, "clips": clips})


def _metadata_text(settings: CorpusSettings, plan: Sequence[PlannedClip]) -> str:
    """LJSpeech's three columns; named columns if there are several speakers or another language."""
    if settings.speakers == 1 and settings.languages == ("en",):
        rows = [[clip.id, clip.text, clip.text] for clip in plan]
    else:
        rows = [["id", "text", "speaker", "language"]]
        rows += [[clip.id, clip.text, clip.speaker.name, clip.language] for clip in plan]
    return "".join("|".join(row) + "\n" for row in rows)
