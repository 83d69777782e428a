"""Reads Markdown documents as a reader would: their commands, code blocks, links and headings, with line numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]

_FENCE = re.compile(r"^(```+)(\w*)[^\n]*\n(.*?)^\1 *$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r'(?:(?<!`)`([^`]+)`(?!`))|<code dir="ltr">(.+?)</code>', re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)|\bhref=\"([^\"]+)\"|\bsrc=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_PROGRAM = re.compile(r"^(?:\$ +)?(?:\.venv/bin/)?myxtts +")

_AFTERWARDS = (">", "|", "&&", "&", ";")  # what the shell does with a command is not its own


@dataclass(frozen=True)
class CommandLine:
    """A call of the program.

    Attributes:
        line: where it begins in its document.
        words: what follows `myxtts`.
        complete: whether it could be run as it stands; those inside a sentence may leave things out.
    """

    line: int
    words: list[str]
    complete: bool

    def __str__(self) -> str:
        return shlex.join(["myxtts", *self.words])


class Document:
    """A Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        # Blanked, so that what follows keeps its place.
        self.prose = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), self.text)

    def blocks(self, *languages: str) -> Iterator[tuple[int, str]]:
        """Line and content of the fenced code blocks in one of these languages; "" is one without."""
        for match in _FENCE.finditer(self.text):
            if match[2] in languages:
                yield self._line(match.start(3)), match[3]

    def inline(self) -> Iterator[tuple[int, str]]:
        """Line and content of the code inside sentences."""
        for match in _INLINE.finditer(self.prose):
            yield self._line(match.start()), " ".join((match[1] or match[2]).split())

    def commands(self) -> Iterator[CommandLine]:
        for first, block in self.blocks("", "bash", "sh"):
            lines = block.replace("\\\n", "  ").split("\n")
            for number, line in enumerate(lines, first):
                if _PROGRAM.match(line):
                    words = shlex.split(_PROGRAM.sub("", line), comments=True)
                    ends = [words.index(sign) for sign in _AFTERWARDS if sign in words]
                    yield CommandLine(number, words[: min(ends, default=None)], True)
        for number, code in self.inline():
            if _PROGRAM.match(code):
                yield CommandLine(number, shlex.split(_PROGRAM.sub("", code)), False)

    def links(self) -> Iterator[tuple[int, str]]:
        """Line and target of the links and pictures."""
        for match in _LINK.finditer(self.prose):
            yield self._line(match.start()), next(target for target in match.groups() if target)

    def anchors(self) -> set[str]:
        """The names that headings have in links, as GitHub makes them."""
        headings = (re.sub(r"[^\w\- ]", "", match[1].lower()) for match in _HEADING.finditer(self.prose))
        return {heading.replace(" ", "-") for heading in headings}

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1
