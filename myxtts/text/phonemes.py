"""From a normalised text to its phonemes, punctuation kept, in bulk.

espeak-ng drops punctuation, so a text is cut into clauses at the marks it would pause at, each clause is phonemised
as a whole (its words depend on each other: "the apple", "les amis"), and the marks go back between them. Quotes and
parentheses inside a clause, and words that a lexicon knows, are put in place by counting words where the count
agrees with espeak-ng's, and otherwise by phonemising the parts between them.

A character espeak-ng cannot read in a language (a Chinese character in a Persian text, an emoji) is not given to
it, because it would spell out "Chinese letter"; it stays in the result, where the tokenizer counts it as unknown.

Persian is read word by word by `myxtts.text.persian_reading`, which knows the sentence; espeak-ng says the words that
its tables do not have.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from myxtts.text.espeak import Espeak
from myxtts.text.ipa import canonical_ipa
from myxtts.text.lexicon import Lexicon
from myxtts.text.persian_reading.reader import PersianReader, ReadWord, missing_file
from myxtts.text.persian_tables import NUMBER_WORDS
from myxtts.text.symbols import shared_punctuation
from myxtts.text.words import UNSPACED, tokens

_log = logging.getLogger(__name__)
_STRESS = str.maketrans("", "", "ˈˌ")


@dataclass
class _Clause:
    """Words between two pauses.

    Attributes:
        words: as written.
        gaps: what stands before each word, and after the last.
        fixed: the phonemes of words that are not espeak-ng's business, by place.
    """

    words: list[str]
    gaps: list[str]
    fixed: dict[int, str]

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def is_plain(self) -> bool:
        return not self.fixed and all(gap == " " for gap in self.gaps[1:-1])

    def runs(self) -> list[tuple[int, int]]:
        """Ranges of words with nothing but spaces between them and no fixed word in them."""
        found: list[tuple[int, int]] = []
        for place in range(len(self.words)):
            if place in self.fixed:
                continue
            if found and found[-1][1] == place and self.gaps[place] == " ":
                found[-1] = (found[-1][0], place + 1)
            else:
                found.append((place, place + 1))
        return found


class Phonemizer:
    """espeak-ng with lexicons before it.

    Args:
        lexicons: by language code.

    Raises:
        MissingExtraError: the `speech` extra is not installed.
    """

    def __init__(self, lexicons: Mapping[str, Lexicon]) -> None:
        self._espeak = Espeak()
        self._lexicons = lexicons
        self._alone: dict[tuple[str, str], str] = {}
        self._persian: PersianReader | None = None

    def phonemes(self, texts: Sequence[str], language: str) -> list[str]:
        """IPA of each normalised text, with its punctuation.

        The result for a text does not depend on the others in the list.
        """
        reader = self._persian_reader(language)
        if reader is not None:
            return _read_persian(texts, reader)
        lexicon = self._lexicons.get(language)
        parsed = [_parse(text, language, lexicon) for text in texts]
        clauses = [part for parts in parsed for part in parts if isinstance(part, _Clause)]
        spoken = self._espeak.phonemes((clause.text for clause in clauses), language)
        said = iter(self._assemble(clauses, spoken, language))
        return [
            " ".join("".join(next(said) if isinstance(part, _Clause) else part for part in parts).split())
            for parts in parsed
        ]

    @property
    def unknown_words(self) -> Counter[str]:
        return self._persian.unknown_words if self._persian is not None else Counter()

    @property
    def ambiguous_words(self) -> Counter[str]:
        return self._persian.ambiguous_words if self._persian is not None else Counter()

    def words(self, texts: Sequence[str], language: str) -> list[list[ReadWord]]:
        """The words of each normalised text and how they are read; none for languages other than Persian."""
        reader = self._persian_reader(language)
        if reader is None:
            return [[] for _ in texts]
        return reader.read([_persian_tokens(list(tokens("fa").finditer(text))) for text in texts])

    def _persian_reader(self, language: str) -> PersianReader | None:
        if language != "fa":
            return None
        missing = missing_file()
        if missing is not None:
            _warn_missing(str(missing))
            return None
        if self._persian is None:
            self._persian = PersianReader(self._espeak, self._lexicons.get(language))
        return self._persian

    def _assemble(self, clauses: Sequence[_Clause], spoken: Sequence[str], language: str) -> list[str]:
        result = []
        for clause, ipa in zip(clauses, spoken, strict=True):
            if clause.is_plain():
                result.append(_between(clause.gaps[0], [ipa], clause.gaps[-1:]))
                continue
            words = ipa.split(" ")
            if len(words) == len(clause.words) and self._in_place(clause, words, language):
                for place, fixed in clause.fixed.items():
                    words[place] = fixed
                result.append(_between(clause.gaps[0], words, clause.gaps[1:]))
            else:
                result.append(self._by_runs(clause, language))
        return result

    def _in_place(self, clause: _Clause, words: Sequence[str], language: str) -> bool:
        """Whether what stands in the place of each fixed word is what espeak-ng says for that word."""
        for place in clause.fixed:
            key = (language, clause.words[place])
            if key not in self._alone:
                self._alone[key] = self._espeak.phonemes([key[1]], language)[0].translate(_STRESS)
            if words[place].translate(_STRESS) != self._alone[key]:
                return False
        return True

    def _by_runs(self, clause: _Clause, language: str) -> str:
        runs = clause.runs()
        spoken = self._espeak.phonemes((" ".join(clause.words[start:end]) for start, end in runs), language)
        # Each part ends before the gap with its number.
        parts = {end: ipa for (_, end), ipa in zip(runs, spoken, strict=True)}
        parts |= {place + 1: fixed for place, fixed in clause.fixed.items()}
        ends = sorted(parts)
        return _between(clause.gaps[0], (parts[end] for end in ends), (clause.gaps[end] for end in ends))


def _read_persian(texts: Sequence[str], reader: PersianReader) -> list[str]:
    parsed = [list(tokens("fa").finditer(text)) for text in texts]
    result = []
    for matches, read in zip(parsed, reader.read([_persian_tokens(found) for found in parsed]), strict=True):
        words = iter(read)
        said = []
        for match in matches:
            kind, token = match.lastgroup, match.group()
            if kind == "word":
                said.append(next(words).ipa)
            elif kind == "ipa":
                said.append(canonical_ipa(token[2:-2]))
            else:
                said.append(" " if token.isspace() else shared_punctuation(token))
        result.append(" ".join("".join(said).split()))
    return result


def _persian_tokens(matches: Iterable[re.Match[str]]) -> list[tuple[str, bool]]:
    """The words and marks among matches of `tokens`; phonemes by hand are neither."""
    return [
        (token, kind == "word")
        for token, kind in ((match.group(), match.lastgroup) for match in matches)
        if kind == "word" or (kind != "ipa" and not token.isspace())
    ]


@lru_cache(maxsize=8)
def _warn_missing(path: str) -> None:
    _log.warning("Persian is read by espeak-ng alone, without ezafe: %s is missing; reinstall myxtts", path)


def _between(first: str, words: Iterable[str], gaps: Iterable[str]) -> str:
    return first + "".join(word + gap for word, gap in zip(words, gaps, strict=True))


def _parse(text: str, language: str, lexicon: Lexicon | None) -> list[_Clause | str]:
    """`text` as clauses and what stands between them."""
    if lexicon and language in UNSPACED:
        text = lexicon.mark(text)
    parts: list[_Clause | str] = []
    clause = _Clause([], [""], {})

    def end_clause() -> None:
        nonlocal clause
        if clause.words:
            if language == "fa":
                _say_and_between_numbers(clause)
            parts.append(clause)
        else:
            parts.append(clause.gaps[0])
        clause = _Clause([], [""], {})

    for match in tokens(language).finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "word":
            fixed = lexicon.find(token) if lexicon else None
            if fixed:
                clause.fixed[len(clause.words)] = fixed
            clause.words.append(token)
            clause.gaps.append("")
        elif kind == "gap":
            clause.gaps[-1] += " " if token.isspace() else shared_punctuation(token)
        else:
            end_clause()
            parts.append(canonical_ipa(token[2:-2]) if kind == "ipa" else shared_punctuation(token))
    end_clause()
    return parts


def _say_and_between_numbers(clause: _Clause) -> None:
    """In a number «و» is said /o/; espeak-ng says /va/ wherever it stands alone."""
    for place in range(1, len(clause.words) - 1):
        if (
            clause.words[place] == "و"
            and clause.words[place - 1] in NUMBER_WORDS
            and clause.words[place + 1] in NUMBER_WORDS
        ):
            clause.fixed.setdefault(place, "o")
