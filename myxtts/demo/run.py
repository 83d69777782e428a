"""Runs the demonstration, stage after stage; what is done stays done when it is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.corpus.sentences import sentences
from myxtts.corpus.voices import VOICES
from myxtts.demo.plan import SENTENCES_PER_VOICE, DemoSize, Folders, Stage, stages
from myxtts.errors import MyXTTSError

RECORDS = "stages.json"


@dataclass(frozen=True)
class Done:
    """A stage that has been run.

    Attributes:
        name: of the stage.
        command: what was run.
        result: what it printed.
        seconds: how long it took.
        before: whether that was in an earlier call.
    """

    name: str
    command: tuple[str, ...]
    result: Mapping[str, Any]
    seconds: float
    before: bool = False


def run_demo(
    folder: Path, size: DemoSize, on_begin: Callable[[Stage], None], on_done: Callable[[Done], None]
) -> list[Done]:
    """Runs what has not been run yet.

    Args:
        folder: for everything; made if needed.
        size: how much to do.
        on_begin: called before each stage that runs.
        on_done: called after each stage, those of earlier calls included.

    Raises:
        MyXTTSError: a stage failed; it has said why.
    """
    folders = Folders(folder, folder / size.name)
    for needed in (folders.work, folders.samples):
        needed.mkdir(parents=True, exist_ok=True)
    _write_config(folders, size)
    _write_sentences(folders, size)
    records = _Records(folders.work / RECORDS)
    finished = []
    for stage in stages(size, folders, _reference(folders, size)):
        done = records.get(stage)
        if done is None:
            on_begin(stage)
            done = _run(stage)
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


def _run(stage: Stage) -> Done:
    began = time.perf_counter()
    command = [sys.executable, "-m", "myxtts", *stage.command, "--json"]
    # In a session of its own: a Ctrl-C reaches the stage once, through here, and it may take its time to save.
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
    if process.returncode:
        raise MyXTTSError(
            f"the stage '{stage.name}' ended with {process.returncode}: myxtts {' '.join(stage.command)}\n"
            "Start the demo again to go on from there"
        )
    return Done(stage.name, stage.command, json.loads(printed), time.perf_counter() - began)


class _Records:
    """What has been run, in a file that is never half written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._done = {name: Done(**values) for name, values in json.loads(path.read_text("utf-8")).items()}
        except (OSError, ValueError, TypeError):
            self._done = {}

    def get(self, stage: Stage) -> Done | None:
        """The stage's record, unless its command was another one."""
        found = self._done.get(stage.name)
        if found is None or tuple(found.command) != stage.command:
            return None
        return Done(found.name, stage.command, found.result, found.seconds, before=True)

    def put(self, done: Done) -> None:
        self._done[done.name] = done
        text = json.dumps({name: asdict(one) for name, one in self._done.items()}, ensure_ascii=False, indent=2)
        new = self._path.with_suffix(".new")
        new.write_text(text + "\n", encoding="utf-8")
        new.replace(self._path)
