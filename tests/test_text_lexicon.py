"""Lexicon files: what they may hold, and every way they can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from myxtts.errors import TextError
from myxtts.text.lexicon import Lexicon


def lexicon(folder: Path, content: str | bytes, language: str = "en") -> Lexicon:
    path = folder / "words.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Lexicon(path, language)


def test_words_comments_blank_lines_bom_and_crlf(tmp_path: Path) -> None:
    words = lexicon(tmp_path, "\ufeff# names\r\nLinux\tlˈɪnəks\r\n\r\n  # more\r\nGIF\tdʒˈɪf\r\n")
    assert len(words) == 2
    assert words.find("Linux") == "lˈɪnəks"


def test_a_word_is_found_as_written_and_in_lower_case(tmp_path: Path) -> None:
    words = lexicon(tmp_path, "us\tʌs\nUS\tjuːˈɛs\n")
    assert (words.find("us"), words.find("US"), words.find("Us")) == ("ʌs", "juːˈɛs", "ʌs")
    assert words.find("bus") is None


def test_a_word_is_found_inside_quotes_and_hyphens(tmp_path: Path) -> None:
    words = lexicon(tmp_path, "linux\tlˈɪnəks\n")
    assert words.find("'Linux'") == words.find("-linux") == "lˈɪnəks"


def test_keys_are_normalised_like_the_text(tmp_path: Path) -> None:
    assert lexicon(tmp_path, "كتاب\tketˈɒːb\n", "fa").find("کتاب") == "ketˈɒːb"


def test_ipa_is_brought_to_one_spelling(tmp_path: Path) -> None:
    assert lexicon(tmp_path, "chess\tt͡ʃɛs\n").find("chess") == "tʃɛs"


def test_an_empty_file_is_an_empty_lexicon(tmp_path: Path) -> None:
    words = lexicon(tmp_path, "")
    assert len(words) == 0
    assert words.mark("abc") == "abc"


def test_the_longest_word_wins_in_writing_without_spaces(tmp_path: Path) -> None:
    words = lexicon(tmp_path, "日本\ta\n日本語\tb\n", "ja")
    assert words.mark("日本語と日本[[日本]]").split() == ["[[b]]", "と", "[[a]]", "[[日本]]"]


def test_the_same_line_twice_is_harmless(tmp_path: Path) -> None:
    assert len(lexicon(tmp_path, "a\tb\na\tb\n")) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no tab here\n", r"words.tsv:1: expected word<TAB>ipa"),
        ("a\tb\n\tb\n", r"words.tsv:2: expected word<TAB>ipa"),
        ("a\t\n", r"words.tsv:1: expected word<TAB>ipa"),
        ("New York\tnjuː\n", r"words.tsv:1: 'New York' is more than one word"),
        ("a\tж\n", r"words.tsv:1: 'a' has 'ж', not in the symbol table"),
        ("a\tb\n\na\tc\n", r"words.tsv:3: 'a' already has another pronunciation in line 1"),
        (b"\xff\xfe\x00", r"words.tsv is not UTF-8"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(TextError, match=message):
        lexicon(tmp_path, content)


def test_a_missing_file_or_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"nowhere.tsv cannot be read"):
        Lexicon(tmp_path / "nowhere.tsv", "en")
    with pytest.raises(TextError, match="cannot be read"):
        Lexicon(tmp_path, "en")
