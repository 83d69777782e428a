"""The README's commands, as a newcomer types them."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_corpus import make_corpus

ROOT = Path(__file__).resolve().parents[1]
# What makes a command that trains for days end soon.
SHORTER = {
    "train": "--max-steps 2 --batch-size 4 --optimization-level basic --set num_buckets=1 --set max_mel_frames=300 "
    "--set enable_tensorboard=false",
    "diagnose": "--num-batches 10 --batch-size 4 --set optimization_level=basic --set num_buckets=1",
}


def samples() -> dict[str, str]:
    """The text of each sample, by name, as the tool that makes them has it."""
    spec = importlib.util.spec_from_file_location("make_samples", ROOT / "tools" / "make_samples.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool  # where dataclasses look their types up
    spec.loader.exec_module(tool)
    return {name: sample.text for name, sample in tool.SAMPLES.items()}


@pytest.mark.parametrize("readme", ["README.md", "README.fa.md"])
def test_what_can_be_heard_is_what_the_tool_makes(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    for name, said in samples().items():
        assert f"[{name}.mp3](docs/samples/{name}.mp3)" in text
        assert f"| {said} |" in text
        assert (ROOT / "docs" / "samples" / f"{name}.txt").read_text(encoding="utf-8") == f"{said}\n"


def test_what_can_be_heard_is_small_and_nothing_is_left_over() -> None:
    files = list((ROOT / "docs" / "samples").iterdir())
    assert {file.stem for file in files} == samples().keys()
    assert sum(file.stat().st_size for file in files) < 1e6


def commands() -> list[list[str]]:
    """The commands for one's own recordings, without comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"## Your own recordings\n\n```\n(.*?)```", text, re.DOTALL)
    assert block is not None
    return [shlex.split(line, comments=True) for line in block.group(1).splitlines()]


def run(command: list[str], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=3000, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"


def test_the_commands_for_own_recordings_end_in_speech(tmp_path: Path, python_with_tensorflow: str) -> None:
    make_corpus(tmp_path / "my-voice", clips=60)
    listed = commands()
    assert [command[1] for command in listed] == ["check-data", "diagnose", "train", "synthesize"]
    for program, name, *arguments in listed:
        assert program == ".venv/bin/myxtts"
        # Training starts as it does for a user, with all its imports.
        python = sys.executable if name == "train" else python_with_tensorflow
        run([python, "-m", "myxtts", name, *arguments, *SHORTER.get(name, "").split()], tmp_path)
    assert (tmp_path / "hello.wav").stat().st_size > 1000


@pytest.mark.soak
def test_from_a_fresh_clone_in_a_fresh_environment(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    run(["git", "clone", "--quiet", str(ROOT), str(clone)], tmp_path)
    # Nothing of the environment that runs this test may be seen by the fresh one.
    path = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if not one.startswith(sys.prefix))
    python = shutil.which("python3", path=path)
    assert python is not None
    run(["make", "demo", f"PYTHON={python}"], clone, PATH=path, VIRTUAL_ENV="", PYTHONPATH="")
    assert (clone / "demo" / "report.json").is_file()
    make_corpus(clone / "my-voice", clips=60)
    for command in commands():
        run([*command, *SHORTER.get(command[1], "").split()], clone, PATH=path)
    assert (clone / "hello.wav").stat().st_size > 1000
