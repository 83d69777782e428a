"""The command `myxtts text`, run as a user runs it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from myxtts.text.espeak import available

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_every_stage_is_shown(run_myxtts: Run) -> None:
    result = run_myxtts("text", "در ۱۴۰۳/۰۵/۱۲ آمد.", "--language", "fa", "--symbols", "graphemes")
    assert result.returncode == 0
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["written"] == "در ۱۴۰۳/۰۵/۱۲ آمد."
    assert lines["normalised"] == lines["graphemes"] == "در دوازدهم مرداد هزار و چهارصد و سه آمد."
    assert lines["ids"].split()[0] == "2"


def test_json_is_alone_on_standard_output(run_myxtts: Run) -> None:
    result = run_myxtts("text", "Room 5 🤠", "--symbols", "graphemes", "--json")
    shown = json.loads(result.stdout)
    assert shown["normalized"] == "Room five 🤠"
    assert shown["language_id"] == 0
    assert shown["symbols"][0] == "<bos>"
    assert len(shown["symbols"]) == len(shown["ids"])
    assert shown["unknown"] == {"🤠": 1}


def test_unknown_symbols_are_shown(run_myxtts: Run) -> None:
    assert "unknown     '🤠' 2x" in run_myxtts("text", "🤠 🤠", "--symbols", "graphemes").stdout


@pytest.mark.skipif(not available(), reason="espeak-ng is not installed")
def test_phonemes_lexicons_and_added_languages(run_myxtts: Run, tmp_path: Path) -> None:
    path = tmp_path / "fa.tsv"
    path.write_text("تهران\ttehrˈɒːn\n", encoding="utf-8")
    result = run_myxtts("text", "تهران", "--language", "fa", "--lexicon", f"fa={path}")
    assert "phonemes    tehrˈɒːn\n" in result.stdout
    assert "phonemes" in result.stderr
    assert run_myxtts("text", "hej", "--language", "sv", "--extra-language", "sv", "--quiet").stderr == ""


@pytest.mark.skipif(not available(), reason="espeak-ng is not installed")
def test_persian_is_shown_word_by_word(run_myxtts: Run) -> None:
    shown = json.loads(run_myxtts("text", "کشتی نوح در دریا بود.", "--language", "fa", "--json").stdout)
    first = shown["words"][0]
    assert [word["written"] for word in shown["words"]] == ["کشتی", "نوح", "در", "دریا", "بود"]
    assert (first["ipa"], first["ezafe"], first["known"], first["ambiguous"]) == ("keʃtˈije", True, True, False)
    assert shown["words"][1]["ezafe"] is False
    assert json.loads(run_myxtts("text", "،", "--language", "fa", "--json").stdout)["words"] == []
    table = run_myxtts("text", "کشتی نوح در دریا بود.", "--language", "fa").stdout
    assert "phonemes    keʃtˈije nˈuh dar darjˈɑ bˈud." in table
    assert any(line.startswith("keʃtˈije") and "near دریا" in line and "yes" in line for line in table.splitlines())


@pytest.mark.skipif(not available(), reason="espeak-ng is not installed")
def test_the_commands_in_the_document_run(run_myxtts: Run) -> None:
    document = (Path(__file__).parents[1] / "docs" / "text.md").read_text(encoding="utf-8")
    commands = [line for line in document.splitlines() if line.startswith("myxtts ")]
    assert len(commands) == 3
    for command in commands:
        assert run_myxtts(*shlex.split(command)[1:]).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["hi", "--language", "xx"], 2, "language 'xx' is none of"),
        (["hi", "--symbols", "letters"], 2, "auto, graphemes or phonemes"),
        (["hi", "--lexicon", "fa"], 2, "should be LANGUAGE=FILE"),
        (["hi", "--lexicon", "fa=nowhere.tsv"], 1, "nowhere.tsv cannot be read"),
        (["你好", "--language", "zh", "--symbols", "graphemes"], 1, "Chinese has no table"),
    ],
)
def test_a_mistake_gives_one_line(run_myxtts: Run, arguments: list[str], code: int, message: str) -> None:
    result = run_myxtts("text", *arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
