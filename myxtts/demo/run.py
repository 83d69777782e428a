"""Runs the demo, stage by stage. A demo that was interrupted continues after the last finished stage."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.corpus.sentences import sentences
from myxtts.corpus.voices import VOICES
from myxtts.demo.plan import SENTENCES_PER_VOICE, DemoSize, Folders, Stage, stages
from myxtts.demo.recordings import Recordings
from myxtts.errors import DataError, MyXTTSError
from myxtts.output_folder import claim, write_text

RECORDS = "stages.json"
MADE_OF = "recordings.json"


@dataclass(frozen=True)
class StageResult:
    """A finished stage.

    Attributes:
        name: of the stage.
        command: that was run.
        result: the JSON that the command printed.
        seconds: how long it took.
        before: whether an earlier call of the demo ran it.
    """

    name: str
    command: tuple[str, ...]
    result: Mapping[str, Any]
    seconds: float
    before: bool = False


def run_demo(
    folders: Folders,
    size: DemoSize,
    on_begin: Callable[[Stage], None],
    on_done: Callable[[StageResult], None],
    *,
    recordings: Recordings | None = None,
    greeting: Collection[str] = ("en",),
    vocoder: str | None = None,
) -> list[StageResult]:
    """Runs every stage that is not finished yet.

    Args:
        folders: for everything that the demo makes; created if needed.
        size: of the demo.
        on_begin: called before each stage that runs.
        on_done: called after each stage, also for those that an earlier call finished.
        recordings: to train on; None: a corpus is generated.
        greeting: the languages of the voice that comes with MyXTTS.
        vocoder: for the stages that make audio of mels, as `--vocoder` takes it; None: each chooses its own.

    Raises:
        UsageError: the folder has a demo of other recordings.
        MyXTTSError: a stage failed; its command has printed why.
    """
    if recordings is not None:
        # A finished stage is known by its command, which does not change when the recordings do.
        made_of = {"recordings": str(recordings.folder.resolve()), "clips": recordings.clips}
        claim(folders.work, MADE_OF, {**made_of, "texts": recordings.identity}, "a demo")
    for needed in (folders.work, folders.samples):
        needed.mkdir(parents=True, exist_ok=True)
    _write_config(folders, size)
    _write_sentences(folders, size)
    records = _Records(folders.work / RECORDS)
    finished = []
    plan = stages(
        size,
        folders,
        reference=_reference(folders, size),
        recordings=recordings,
        greeting=greeting,
        vocoder=vocoder,
    )
    for stage in plan:
        done = records.get(stage)
        if done is None:
            begun = any(folders.run.glob("step-*"))
            next_one = replace(stage, command=stage.to_continue) if begun and stage.to_continue else stage
            on_begin(next_one)
            done = replace(_run(next_one), command=stage.command)
            records.put(done)
        on_done(done)
        finished.append(done)
    return finished


def _write_config(folders: Folders, size: DemoSize) -> None:
    values = {
        "data_path": str(folders.corpus),
        "checkpoint_dir": str(folders.run),
        "size": "tiny",
        "batch_size": 16,
        "learning_rate": 2e-3,
        "max_steps": size.steps,
        "warmup_steps": min(100, size.steps // 8),
        "validate_every": size.steps,
        "save_every": max(100, size.steps // 10),
        "log_every": max(5, size.steps // 20),
    }
    if folders.features is not None:
        values["cache_dir"] = str(folders.features)
    XTTSConfig(**{**values, **size.settings}).to_yaml(folders.config)


def _write_sentences(folders: Folders, size: DemoSize) -> None:
    if size.longest_sentence is None:
        return
    (language,) = size.languages
    wanted, found = size.clips, list[str]()
    while len(found) < size.clips:
        wanted *= 2
        found = [one for one in sentences(language, 0, wanted) if len(one) <= size.longest_sentence]
    folders.sentences.write_text("\n".join(found[: size.clips]) + "\n", encoding="utf-8")


def _reference(folders: Folders, size: DemoSize) -> Path | None:
    if not size.unseen:
        return None
    last = size.speakers + size.unseen - 1
    return folders.voices / "wavs" / f"{VOICES[last].name}-{SENTENCES_PER_VOICE * last + 1:05d}.wav"


def _run(stage: Stage) -> StageResult:
    began = time.perf_counter()
    command = [sys.executable, "-m", "myxtts", *stage.command, "--json"]
    # In its own session: Ctrl-C reaches the stage only through this process, which waits until it has saved.
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            printed, _ = process.communicate()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            try:
                process.wait()
            except KeyboardInterrupt:
                process.kill()
            raise
    found_problems = stage.may_find_problems and process.returncode == 1 and printed
    if process.returncode and not found_problems:
        raise MyXTTSError(
            f"the stage '{stage.name}' ended with {process.returncode}: myxtts {shlex.join(stage.command)}\n"
            "Start the demo again to continue from there"
        )
    result = json.loads(printed)
    if result.get("obstacles"):
        raise DataError(f"training cannot start: {result['obstacles'][0]}")
    return StageResult(stage.name, stage.command, result, time.perf_counter() - began)


class _Records:
    """The finished stages, in a file that is replaced in one step."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._done = {name: StageResult(**values) for name, values in json.loads(path.read_text("utf-8")).items()}
        except (OSError, ValueError, TypeError):
            self._done = {}

    def get(self, stage: Stage) -> StageResult | None:
        """The result of a stage, unless its command has changed."""
        found = self._done.get(stage.name)
        if found is None or tuple(found.command) != stage.command:
            return None
        return StageResult(found.name, stage.command, found.result, found.seconds, before=True)

    def put(self, done: StageResult) -> None:
        self._done[done.name] = done
        text = json.dumps({name: asdict(one) for name, one in self._done.items()}, ensure_ascii=False, indent=2)
        write_text(self._path, text + "\n")
