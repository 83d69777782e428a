"""Generates a data set in LJSpeech's layout with espeak-ng: no download, any size, many voices.

    OUT/corpus.json     the settings, written first
    OUT/wavs/<id>.wav   mono, 16-bit PCM, each put in place by rename
    OUT/metadata.csv    written last, by rename: if it exists, the corpus is complete

The same settings give the same bytes, with any number of workers: clips are spoken in chunks of a fixed size, each in
its own process (`worker.py` says why). A run that was interrupted continues with the incomplete chunks.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

import xxhash

from myxtts.child_program import child_command, child_environment
from myxtts.corpus.plan import CorpusSettings, PlannedClip, plan_corpus
from myxtts.corpus.voices import first_voices
from myxtts.errors import MissingExtraError, MyXTTSError, UsageError
from myxtts.hardware import usable_cpus
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
        _claim(folder, description)
        with _locked(folder):
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


def _claim(folder: Path, description: dict[str, Any]) -> None:
    """Refuses a folder with anything else in it, and writes the description of the corpus."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / DESCRIPTION_FILE
    if path.exists():
        try:
            existing = json.loads(path.read_text("utf-8"))
        except ValueError:
            existing = None
        if not isinstance(existing, dict):
            raise UsageError(f"{path}: is not the description of a corpus; choose another folder")
        keys = [key for key in description if existing.get(key) != description[key]]
        if keys:
            changes = ", ".join(f"{key} {existing.get(key)} (now {description[key]})" for key in keys)
            raise UsageError(f"{folder}: holds a corpus made with other settings: {changes}; choose another folder")
    elif any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty, and does not hold a corpus; choose another folder")
    else:
        _write_text(path, json.dumps(description, indent=2) + "\n")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{folder}: another make-corpus is writing to it") from None
        yield
    finally:
        os.close(handle)


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
        _write_text(metadata, _metadata_text(settings, plan))
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
    lock = threading.Lock()
    running: set[subprocess.Popen[str]] = set()
    stopped = False

    def speak(chunk: Sequence[PlannedClip]) -> None:
        with lock:
            if stopped:
                return
            process = subprocess.Popen(
                child_command("myxtts.corpus.worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                env=child_environment(),
            )
            running.add(process)
        with process:
            # A process that fails at once does not read its task; it has printed why.
            with suppress(BrokenPipeError), cast(IO[str], process.stdin) as stdin:
                stdin.write(_task(chunk, wavs, sample_rate))
            for _ in cast(IO[str], process.stdout):
                if on_progress is not None:
                    with lock:
                        on_progress(1)
            reason = cast(IO[str], process.stderr).read().strip()
        with lock:
            running.discard(process)
        if process.returncode != 0 and not stopped:
            last = reason.splitlines()[-1] if reason else f"the process ended with {process.returncode}"
            raise MyXTTSError(f"clips {chunk[0].id} to {chunk[-1].id} could not be spoken: {last}")

    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(speak, chunk) for chunk in chunks]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            with lock:
                stopped = True
                for process in running:
                    process.kill()
            raise


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


def _write_text(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    with open(part, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
