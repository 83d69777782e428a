"""The sentences of a text that somebody has read aloud."""

from __future__ import annotations

import re
from pathlib import Path

from myxtts.errors import DataError
from myxtts.inference.sentences import split_sentences
from myxtts.text.encoding import as_utf8

# A sentence that is longer is cut at a clause, so that clips stay under about 15 seconds.
_LONGEST_CHARACTERS = 200
_PARAGRAPH = re.compile(r"\n\s*\n")


def read_sentences(path: Path, lines: bool) -> list[str]:
    """The text in pieces, in order; together they are all of it.

    Args:
        path: of a file in UTF-8, or in UTF-16 with a byte order mark.
        lines: every line is one piece; otherwise sentences are, and single line breaks are spaces.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or has no words.
    """
    try:
        text = as_utf8(path.read_bytes()).decode()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from error
    if lines:
        sentences = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    else:
        paragraphs = [" ".join(part.split()) for part in _PARAGRAPH.split(text.replace("\r\n", "\n"))]
        sentences = [piece.text for part in paragraphs for piece in split_sentences(part, _LONGEST_CHARACTERS)]
    if not any(has_words(sentence) for sentence in sentences):
        raise DataError(f"{path}: has no words")
    return sentences


def has_words(text: str) -> bool:
    """Whether there is anything to say."""
    return any(character.isalnum() for character in text)
