"""A user's pronunciations: one `word<TAB>ipa` per line, UTF-8, `#` for comments, one file per language.

In a Persian lexicon a third column may say when the reading is meant, and a word may have several lines:
`word<TAB>ipa<TAB>verb after=… before=… near=…`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import xxhash

from myxtts.errors import TextError
from myxtts.text.encoding import as_utf8
from myxtts.text.ipa import canonical_ipa
from myxtts.text.normalization import INLINE_IPA, normalize
from myxtts.text.symbols import PHONEME_IDS

PARTS_OF_SPEECH = ("noun", "verb", "adjective", "adverb", "number", "pronoun", "preposition", "postposition")
_PLACES = ("after", "before", "near")


@dataclass(frozen=True)
class Reading:
    """One way to read a word, and when it is meant.

    Attributes:
        ipa: its sounds.
        parts_of_speech: what it is, of `PARTS_OF_SPEECH`.
        after: words one of which stands right before it.
        before: words one of which stands right after it.
        near: words that stand anywhere in its sentence.
    """

    ipa: str
    parts_of_speech: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()

    @property
    def has_hint(self) -> bool:
        return bool(self.parts_of_speech or self.after or self.before or self.near)


class Lexicon:
    """Words of one language and how they are said.

    A word is found as it is written, or in lower case. Keys go through `normalize`, so that they match a
    normalised text (`كتاب` finds `کتاب`).

    Args:
        path: the file.
        language: the language its words are of.
        normalized: its words are already as `normalize` gives them, which makes a large file quick to read.

    Raises:
        TextError: the file cannot be read, or a line is not a word, a tab, known IPA symbols and perhaps a hint.
    """

    def __init__(self, path: Path, language: str, normalized: bool = False) -> None:
        self.path = path
        try:
            content = path.read_bytes()
            text = as_utf8(content).decode()
        except OSError as error:
            raise TextError(f"lexicon {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise TextError(f"lexicon {path} is not UTF-8 (byte {error.start + 1}); save it as UTF-8") from error
        self.content_hash = xxhash.xxh3_64_hexdigest(content)
        self._words: dict[str, str] = {}
        self._readings: dict[str, list[Reading]] = {}
        first_seen: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            word, reading = _own_entry(line) if normalized else self._entry(line, number, language)
            readings = self._readings.setdefault(word, [])
            if not reading.has_hint:
                plain = [other.ipa for other in readings if not other.has_hint]
                if plain and plain[0] != reading.ipa:
                    raise TextError(
                        f"{path}:{number}: '{word}' already has another pronunciation in line {first_seen[word]}"
                    )
                first_seen.setdefault(word, number)
            readings.append(reading)
        for word, readings in self._readings.items():
            readings.sort(key=lambda reading: reading.has_hint)  # what is said without a hint comes first
            self._words[word] = readings[0].ipa
        self._longest = max(map(len, self._words), default=0)

    def _entry(self, line: str, number: int, language: str) -> tuple[str, Reading]:
        word, tab, rest = line.partition("\t")
        ipa, _, hint = rest.partition("\t")
        word, ipa = normalize(word, language), canonical_ipa(ipa)
        if not tab or not word or not ipa:
            raise TextError(f"{self.path}:{number}: expected word<TAB>ipa, found '{line.strip()[:60]}'")
        if any(character.isspace() for character in word):
            raise TextError(
                f"{self.path}:{number}: '{word}' is more than one word; give each word a line of its own, "
                "or write [[ipa]] in the text"
            )
        unknown = sorted({symbol for symbol in ipa if symbol not in PHONEME_IDS})
        if unknown:
            raise TextError(
                f"{self.path}:{number}: '{word}' has {', '.join(map(repr, unknown))}, not in the symbol table"
            )
        if hint.strip() and language != "fa":
            raise TextError(f"{self.path}:{number}: only a Persian lexicon can have hints, a third column")
        try:
            return word, _with_hint(ipa, hint, partial(normalize, language=language))
        except ValueError as error:
            raise TextError(f"{self.path}:{number}: {error}") from error

    def __len__(self) -> int:
        return len(self._words)

    def find(self, word: str) -> str | None:
        """The IPA of `word`, also without the apostrophes and hyphens around it, or None."""
        core = word.strip("'-")
        for written in (word, word.lower(), core, core.lower()):
            ipa = self._words.get(written)
            if ipa is not None:
                return ipa
        return None

    def readings(self, word: str) -> list[Reading]:
        """All readings of `word`, the one without a hint first; empty for an unknown word."""
        return self._readings.get(word, [])

    def mark(self, text: str) -> str:
        """`text` with each known word as `[[ipa]]`, the longest first, for writing without spaces."""
        marked = []
        for index, piece in enumerate(INLINE_IPA.split(text)):
            marked.append(piece if index % 2 else self._mark(piece))
        return "".join(marked)

    def _mark(self, text: str) -> str:
        marked = []
        place = 0
        while place < len(text):
            for length in range(min(self._longest, len(text) - place), 0, -1):
                ipa = self._words.get(text[place : place + length])
                if ipa is not None:
                    marked.append(f" [[{ipa}]] ")
                    place += length
                    break
            else:
                marked.append(text[place])
                place += 1
        return "".join(marked)


def _own_entry(line: str) -> tuple[str, Reading]:
    word, _, rest = line.partition("\t")
    ipa, _, hint = rest.partition("\t")
    return word, _with_hint(ipa, hint, str)


def _with_hint(ipa: str, hint: str, spell: Callable[[str], str]) -> Reading:
    if not hint:
        return Reading(ipa)
    parts: set[str] = set()
    places: dict[str, frozenset[str]] = {}
    for item in hint.split():
        name, equals, words = item.partition("=")
        if equals and name in _PLACES:
            spelled = (spell(word) for word in words.replace("،", ",").split(","))
            places[name] = places.get(name, frozenset()) | frozenset(word for word in spelled if word)
        elif item in PARTS_OF_SPEECH:
            parts.add(item)
        else:
            raise ValueError(
                f"'{item[:40]}' is not a hint; a hint is one of {', '.join(PARTS_OF_SPEECH)}, "
                "or after=, before=, near= and words with commas between them"
            )
    return Reading(ipa, frozenset(parts), **places)
