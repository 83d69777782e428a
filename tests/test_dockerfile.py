"""The Dockerfile, read as Docker would: Docker itself is not needed."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

INSTRUCTION = re.compile(r"^([A-Z]+) +(.+)$")


def instructions() -> list[tuple[str, str]]:
    """Each instruction and its arguments, without comments."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    matches = [INSTRUCTION.match(line) for line in lines]
    assert all(matches), lines
    return [(match[1], match[2]) for match in matches if match]


def of_kind(kind: str) -> list[str]:
    return [arguments for name, arguments in instructions() if name == kind]


def test_the_default_and_the_documented_variants_are_stages() -> None:
    stages = [words.split() for words in of_kind("FROM")]
    names = [words[2] for words in stages]
    page = (ROOT / "docs" / "docker.md").read_text("utf-8")
    documented = re.findall(r"^\| `(\w+)`(?: \(default\))? \|", page, re.M)[1:]
    assert of_kind("ARG")[0] == f"VARIANT={documented[0]}"
    assert names == ["base", *documented, "final"]
    assert stages[-1][0] == "${VARIANT}"
    assert all(words[0] == "base" for words in stages[1:-1])


def test_every_extra_exists_and_the_page_names_those_of_each_variant() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    installed = [re.search(r"'\.\[([\w,]+)\]'", arguments) for arguments in of_kind("RUN")[:-1]]
    extras = [match[1].split(",") for match in installed if match]
    assert len(extras) == 3
    assert {extra for listed in extras for extra in listed} <= project["optional-dependencies"].keys()
    page = (ROOT / "docs" / "docker.md").read_text("utf-8")
    for listed in extras[:2]:
        assert ", ".join(f"`{extra}`" for extra in listed) in page


def test_what_is_copied_exists_and_reaches_the_builder() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] not in ("", "#")]
    assert rules[0] == "*"
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    copied = {source for arguments in of_kind("COPY") for source in arguments.split()[:-1]}
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, rule) or source.startswith(f"{rule}/") for rule in kept), source
    assert set(kept) == {source.split("/")[0] for source in copied}


def test_it_does_not_run_as_root() -> None:
    names = [name for name, _ in instructions()]
    assert "USER" in names[names.index("COPY") :]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_the_linter_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
