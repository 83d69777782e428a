"""Text files as programs on Windows save them: UTF-16, byte order marks, CRLF, and old code pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from myxtts.cli.synthesize import read_text_file
from myxtts.corpus.plan import CorpusSettings
from myxtts.errors import MyXTTSError
from myxtts.evaluation.speech_files import _with_text
from myxtts.recordings.reading_text import read_sentences
from myxtts.text.encoding import as_utf8
from myxtts.text.lexicon import Lexicon

WINDOWS = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"]


def as_windows(text: str, encoding: str) -> bytes:
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    return (mark + text.replace("\n", "\r\n")).encode(encoding)


READERS: dict[str, tuple[str, Callable[[Path], object], object]] = {
    "text to speak": ("Grüße. سلام.\n", lambda path: read_text_file(path).split(), ["Grüße.", "سلام."]),
    "text that was read aloud": (
        "Grüße.\nسلام.\n",
        lambda path: read_sentences(path, lines=True),
        ["Grüße.", "سلام."],
    ),
    "sentences of a corpus": (
        "Grüße.\nسلام.\n",
        lambda path: CorpusSettings(2, text_file=path).lines,
        ["Grüße.", "سلام."],
    ),
    "lexicon": ("Grüße\tɡʁˈyːsə\n", lambda path: len(Lexicon(path, "de")), 1),
    "text beside a recording": ("Grüße.\n", lambda path: _with_text(path.with_suffix(".wav"), {}).text, "Grüße."),
}


@pytest.mark.parametrize("encoding", WINDOWS)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_from_windows_is_read(tmp_path: Path, reader: str, encoding: str) -> None:
    text, read, expected = READERS[reader]
    path = tmp_path / "file.txt"
    path.write_bytes(as_windows(text, encoding))
    assert read(path) == expected


@pytest.mark.parametrize("data", ["Grüße.\n".encode("cp1252"), "Grüße.\n".encode("utf-16")[:-1]], ids=["1252", "cut"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_not_text_is_one_line(tmp_path: Path, reader: str, data: bytes) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(data)
    with pytest.raises(MyXTTSError, match="UTF-") as caught:
        READERS[reader][1](path)
    assert len(str(caught.value).splitlines()) == 1


def test_the_place_of_damage_is_counted_from_the_beginning() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        as_utf8("ab".encode("utf-16") + b"\x00\xd8")
    assert caught.value.start == 6


def test_half_a_character_at_a_cut_is_left_out() -> None:
    assert as_utf8("سلام".encode("utf-16")[:-1], cut=True) == "سلا".encode()
