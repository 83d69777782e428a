"""Which written word each symbol says.

    written      Pay $3.50 on the spot.
    normalised   Pay three dollars and fifty cents on the spot.
    symbols      pˈeɪ θɹˈiː dˈɑːlɚz ænd fˈɪfti sˈɛnts ɔnðə spˈɑːt.

Neither step says where its words come from, and espeak-ng joins some ("ɔnðə"). So each written word takes both
steps alone as well, and `character_matching` finds it again in the whole. Lexicon words and `[[ipa]]` need no rule
of their own: alone they sound as in the sentence.

In languages without spaces between words, a character takes the place of a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np

from myxtts.text.character_matching import match_parts
from myxtts.text.normalization import normalize
from myxtts.text.tokenizer import Tokenizer
from myxtts.text.words import UNSPACED

_WITHOUT_WORD_BREAKS = UNSPACED | {"hak", "km", "lo", "my", "th", "yue"}
_IPA = r"\[\[[^\[\]]+\]\]"
_DASH = "\u2012\u2013\u2014\u2015"
# A dash ends a word, except between digits ("1914–18").
_SPACED = re.compile(rf"{_IPA}|(?:(?!--|\[\[)[^\s{_DASH}…]|(?<=\d)[{_DASH}](?=\d))+")
_SMALL_KANA = "ぁぃぅぇぉゃゅょゎァィゥェォャュョヮー"
_UNSPACED = re.compile(
    rf"{_IPA}|[$€£¥#+-]?[0-9０-９A-Za-zÀ-ɏ](?:[0-9０-９A-Za-zÀ-ɏ'’-]|[.,:/](?=[0-9０-９A-Za-z]))*[%‰°]?"
    rf"|[^\s][{_SMALL_KANA}]*"
)
# Signs among the punctuation that are read aloud.
_SPOKEN_SIGNS = frozenset("%٪‰&@#/§")
_DOTTED = re.compile(r"\.[^\W\d_]\.$")  # "U.S." keeps its last stop
_MOST_WORDS = 20_000


@dataclass(frozen=True)
class WrittenWord:
    """A word as it is written.

    Attributes:
        first: place of its first character in the text.
        last: place after its last one.
        start: the same, with the punctuation written against the word.
        stop: the same, with the punctuation written against the word.
    """

    first: int
    last: int
    start: int
    stop: int


def written_words(text: str, language: str) -> list[WrittenWord]:
    """The words of a text as written, in their order; marks that stand alone are words too."""
    unspaced = language.partition("-")[0] in _WITHOUT_WORD_BREAKS
    words: list[WrittenWord] = []
    for match in (_UNSPACED if unspaced else _SPACED).finditer(text):
        start, stop = match.span()
        if words and words[-1].stop == start and unicodedata.category(text[start])[0] == "M":
            last = words[-1]  # a vowel sign or accent belongs to the letter before it
            words[-1] = WrittenWord(last.first, stop, last.start, stop)
            continue
        first, last_place = _without_punctuation(text, start, stop)
        words.append(WrittenWord(first, last_place, start, stop))
    return words


def _without_punctuation(text: str, start: int, stop: int) -> tuple[int, int]:
    if text.startswith("[[", start):
        return start, stop
    first, last = start, stop
    while first < last and _is_punctuation(text[first]):
        first += 1
    while first < last and _is_punctuation(text[last - 1]):
        last -= 1
    if first == last:
        return start, stop
    dotted = _DOTTED.search(text, first, min(last + 1, stop))
    return first, dotted.end() if dotted else last


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] == "P" and character not in _SPOKEN_SIGNS


class SpokenWords:
    """Finds the written word of each character that is spoken.

    Args:
        tokenizer: gives the symbols of what is spoken.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._alone: dict[tuple[str, str], str] = {}

    def in_normalized(self, written: str, words: Sequence[WrittenWord], normalized: str, language: str) -> np.ndarray:
        """The number of the written word that each character of the normalised text says: int32 [len(normalized)].

        Args:
            written: the text.
            words: from `written_words`.
            normalized: the same text, from `normalize`.
            language: its code.
        """
        texts = [written[word.start : word.stop] for word in words]
        alone = [_normalized_alone(text, language) for text in texts]
        unchanged = [text == said for text, said in zip(texts, alone, strict=True)]
        spaced = language.partition("-")[0] not in _WITHOUT_WORD_BREAKS
        return match_parts(alone, normalized, certain=unchanged, spaced=spaced, whole_words=spaced)

    def in_symbols(self, normalized: str, owners: np.ndarray, symbols: str, language: str) -> np.ndarray:
        """The same for the symbols of a normalised text: int32 [len(symbols)].

        Args:
            normalized: the text.
            owners: of its characters, from `in_normalized`.
            symbols: the same text, from `Tokenizer.transcribe`.
            language: its code.
        """
        numbers, parts = [], []
        for number, places in groupby(range(len(normalized)), key=lambda place: int(owners[place])):
            run = list(places)
            part = normalized[run[0] : run[-1] + 1].strip()
            if part:
                numbers.append(number)
                parts.append(part)
        matched = match_parts(self._symbols_alone(parts, language), symbols)
        return np.asarray([*numbers, -1], np.int32)[matched]

    def has_sound(self, written: str, language: str) -> bool:
        """Whether a written word, by itself, is more than punctuation."""
        symbols = self._symbols_alone([_normalized_alone(written, language)], language)[0]
        return any(symbol.isalnum() for symbol in symbols)

    def _symbols_alone(self, parts: Sequence[str], language: str) -> list[str]:
        if len(self._alone) > _MOST_WORDS:
            self._alone.clear()
        new = list(dict.fromkeys(part for part in parts if (language, part) not in self._alone))
        for part, symbols in zip(new, self._tokenizer.transcribe(new, language), strict=True):
            self._alone[language, part] = symbols
        return [self._alone[language, part] for part in parts]


@lru_cache(maxsize=_MOST_WORDS)
def _normalized_alone(word: str, language: str) -> str:
    return normalize(word, language)
