"""What a command reads, it reads once: the metadata, and the manifest by which a store is opened."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from small_corpus import configure, make_corpus

from myxtts.data.precompute import precompute

# Counts what a process opens, by the name of the file, and prints it last.
COUNT = """
import atexit, collections, json, os, sys
opened = collections.Counter()
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened[os.path.basename(arguments[0])] += 1
sys.addaudithook(note)
atexit.register(lambda: print(json.dumps({name: opened[name] for name in ("metadata.csv", "manifest.json")})))
"""
COMMAND = "from myxtts.cli.app import main\nsys.exit(main())\n"
# All that `myxtts train --auto-batch` does with its data before the first step.
TRAINING = """
from pathlib import Path
from myxtts.cli.machine_config import resolve_for_machine
from myxtts.cli.options import ConfigOptions
given = ConfigOptions(data_path=Path(sys.argv[1]), checkpoint_dir=Path(sys.argv[2]), batch_size=4, device="cpu")
resolved = resolve_for_machine(given, text_symbols="graphemes", size="tiny")
from myxtts.training.trainer import XTTSTrainer
resolved.dataset.batches("train", resolved.config)
resolved.config.data.max_frames_per_batch = 1000
trainer = XTTSTrainer(resolved.config)
train, val = trainer.prepare_datasets(None, resolved.dataset)
next(iter(train)), next(iter(val))
trainer.close()
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_corpus(tmp_path_factory.mktemp("once") / "data", clips=40)
    precompute(configure(folder))
    return folder


def opened(python: str, program: str, *arguments: object) -> dict[str, int]:
    """How often a program opens the metadata and a manifest."""
    command = [python, "-c", COUNT + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("command", "manifests"),
    [("check-data", 0), ("precompute", 1), ("verify-cache --quick", 1)],
)
def test_a_command_reads_the_metadata_and_opens_the_store_once(
    corpus: Path, python: str, command: str, manifests: int
) -> None:
    place = [corpus] if command == "check-data" else ["--data-path", corpus]
    counts = opened(python, COMMAND, *command.split(), *place, "--set", "text_symbols=graphemes", "--json", "--quiet")
    assert counts == {"metadata.csv": int(command != "verify-cache --quick"), "manifest.json": manifests}


def test_loading_a_split_opens_the_store_once(corpus: Path, python: str) -> None:
    program = (
        "from myxtts.config.config import DataConfig\n"
        "from myxtts.data.ljspeech import LJSpeechDataset\n"
        "dataset = LJSpeechDataset(sys.argv[1], DataConfig(text_symbols='graphemes'))\n"
        "dataset.prepare()\n"
        "dataset.prepare(config=dataset.config.model_copy(update={'batch_size': 3}))\n"
        "dataset.get_performance_report()\n"
    )
    assert opened(python, program, corpus) == {"metadata.csv": 1, "manifest.json": 1}


def test_training_reads_the_metadata_and_opens_the_store_once(
    corpus: Path, tmp_path: Path, python_with_tensorflow: str
) -> None:
    assert opened(python_with_tensorflow, TRAINING, corpus, tmp_path / "run") == {
        "metadata.csv": 1,
        "manifest.json": 1,
    }
