"""A user's pronunciations: one `word<TAB>ipa` per line, UTF-8, `#` for comments, one file per language."""

from __future__ import annotations

from pathlib import Path

import xxhash

from myxtts.errors import TextError
from myxtts.text.ipa import canonical_ipa
from myxtts.text.normalization import INLINE_IPA, normalize
from myxtts.text.symbols import PHONEME_IDS


class Lexicon:
    """Words of one language and how they are said.

    A word is found as it is written, or in lower case. Keys go through `normalize`, so that they match a
    normalised text (`كتاب` finds `کتاب`).

    Args:
        path: the file.
        language: the language its words are of.

    Raises:
        TextError: the file cannot be read, or a line is not a word, a tab and known IPA symbols.
    """

    def __init__(self, path: Path, language: str) -> None:
        self.path = path
        try:
            content = path.read_bytes()
            text = content.decode("utf-8-sig")
        except OSError as error:
            raise TextError(f"lexicon {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise TextError(f"lexicon {path} is not UTF-8 (byte {error.start})") from error
        self.content_hash = xxhash.xxh3_64_hexdigest(content)
        self._words: dict[str, str] = {}
        first_seen: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            word, ipa = self._entry(line, number, language)
            if self._words.setdefault(word, ipa) != ipa:
                raise TextError(
                    f"{path}:{number}: '{word}' already has another pronunciation in line {first_seen[word]}"
                )
            first_seen.setdefault(word, number)
        self._longest = max(map(len, self._words), default=0)

    def _entry(self, line: str, number: int, language: str) -> tuple[str, str]:
        word, tab, ipa = line.partition("\t")
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
        return word, ipa

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
