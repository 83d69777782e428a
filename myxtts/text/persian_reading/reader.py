"""How each word of a Persian sentence is read: its sounds, whether it carries an ezafe, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from myxtts.text.espeak import Espeak
from myxtts.text.lexicon import Lexicon, Reading
from myxtts.text.persian_reading.ezafe import CERTAIN, EzafeModel, TaggedSentence, ezafe_log_odds
from myxtts.text.persian_reading.readings import GUESS, choose
from myxtts.text.persian_reading.sounds import (
    ezafe_ending,
    is_persian,
    plain_sounds,
    stressed,
    with_single_end,
    without_ezafe,
)
from myxtts.text.persian_reading.tagger import Tagger
from myxtts.text.persian_reading.word_parts import (
    ENCLITICS,
    ENDINGS,
    NO_EZAFE,
    UNSTRESSED,
    parts_of_word,
)
from myxtts.text.persian_tables import HAMZA_ABOVE, NUMBER_WORDS, ZWNJ

_FOLDER = Path(__file__).parent
READINGS = _FOLDER / "readings.tsv"
_WORD_LISTS = ("words.tsv", "reference_words.tsv")
_KASRE = "\u0650"
_VOWEL_MARK = re.compile("[\u064c-\u0651\u0670]")
_ANY_MARK = re.compile("[\u064b-\u0655\u0670]")
_CLAUSE_END = frozenset(".،؛:؟!…—")
_MOST_WORDS = 100_000

Token = tuple[str, bool]  # its text, and whether it is a word


@dataclass(frozen=True)
class ReadWord:
    """A word of a sentence as it is read.

    Attributes:
        written: as it stands in the normalised text.
        ipa: what is said, ezafe and stress included.
        ezafe: whether it carries an ezafe, written or not.
        part_of_speech: the tagger's label, such as `N` (noun), `AJ` (adjective) or `V` (verb).
        why: where the sounds come from.
        known: False for a word that no table and no vocabulary has, so that its letters were guessed from.
        ambiguous: True for a word with several readings of which nothing in the sentence chose one.
    """

    written: str
    ipa: str
    ezafe: bool
    part_of_speech: str
    why: str
    known: bool
    ambiguous: bool


@dataclass(frozen=True)
class _Form:
    """A word as it is written: its parts for the tagger, whether its ezafe is written, and it without that."""

    parts: list[str]
    ezafe: bool
    bare: str


@dataclass(frozen=True)
class _Entry:
    """What is known of a word, whatever its sentence."""

    sounds: str
    why: str
    known: bool = True
    readings: tuple[Reading, ...] = ()
    ending: str = ""


@dataclass(frozen=True)
class _Tables:
    """What is read from the files beside this one, once per process."""

    tagger: Tagger
    ezafe: EzafeModel
    readings: Lexicon
    words: tuple[Lexicon, ...]


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    return _Tables(
        Tagger(_FOLDER / "tagger.npz"),
        EzafeModel(_FOLDER / "ezafe.tsv"),
        Lexicon(_FOLDER / "readings.tsv", "fa", normalized=True),
        tuple(Lexicon(_FOLDER / name, "fa", normalized=True) for name in _WORD_LISTS),
    )


def missing_file() -> Path | None:
    """The first of the reader's files that is not there, or None."""
    names = ("tagger.npz", "ezafe.tsv", "readings.tsv", *_WORD_LISTS)
    return next((_FOLDER / name for name in names if not (_FOLDER / name).is_file()), None)


class PersianReader:
    """Reads sentences.

    Args:
        espeak: says the words that no table has.
        lexicon: the user's pronunciations, which come first.

    Attributes:
        unknown_words: how often each word was read whose sounds were guessed from its letters.
        ambiguous_words: how often each word was read of whose readings nothing in the sentence chose one.
    """

    def __init__(self, espeak: Espeak, lexicon: Lexicon | None) -> None:
        self._tables = _tables()
        self._espeak = espeak
        self._lexicon = lexicon
        self._forms: dict[str, _Form] = {}
        self._entries: dict[str, _Entry] = {}
        self._read_words: dict[tuple[str, tuple[str, ...], tuple[bool, ...]], ReadWord] = {}
        self.unknown_words: Counter[str] = Counter()
        self.ambiguous_words: Counter[str] = Counter()

    def read(self, sentences: Sequence[Sequence[Token]]) -> list[list[ReadWord]]:
        """The words of each sentence, in their order; the sentences do not influence each other.

        Args:
            sentences: words and marks of normalised texts.
        """
        if not sentences:
            return []
        tagger = self._tables.tagger
        units = [self._units(sentence) for sentence in sentences]
        chances = np.concatenate(tagger.probabilities([[*words, "."] for words in units]))
        all_tags = [tagger.labels[number] for number in chances.argmax(axis=1).tolist()]
        all_odds = ezafe_log_odds(chances, tagger.labels).tolist()
        result = []
        start = 0
        for sentence, words in zip(sentences, units, strict=True):
            end = start + len(words) + 1
            tags = all_tags[start:end]
            carries = self._ezafes(words, tags, all_odds[start:end])
            result.append(self._read_sentence(sentence, words, tags, carries))
            start = end
        self.unknown_words.update(word.written for read in result for word in read if not word.known)
        self.ambiguous_words.update(word.written for read in result for word in read if word.ambiguous)
        return result

    def _units(self, sentence: Sequence[Token]) -> list[str]:
        """What the tagger is given: marks, and words as it knows them."""
        words: list[str] = []
        for text, is_word in sentence:
            if is_word:
                words += self._form(text).parts
            else:
                words.append(text)
        return words

    def _form(self, written: str) -> _Form:
        form = self._forms.get(written)
        if form is None:
            if len(self._forms) > _MOST_WORDS:
                self._forms.clear()
            ezafe, bare = _written_ezafe(written)
            form = self._forms[written] = _Form(parts_of_word(written, self._tables.tagger.knows), ezafe, bare)
        return form

    def _ezafes(self, words: Sequence[str], tags: Sequence[str], odds: Sequence[float]) -> list[bool]:
        """Which of the words carry an ezafe that is not written; `tags` and `odds` have the full stop after them."""
        sentence = TaggedSentence([*words, "."], tags)
        carries = [False] * len(words)
        for place in range(len(words) - 1):
            likely = odds[place]
            if likely <= -CERTAIN or words[place + 1] in _CLAUSE_END or _never_carries_ezafe(words[place]):
                continue
            if likely < CERTAIN:
                likely = self._tables.ezafe.log_odds(sentence, place, likely)
            carries[place] = likely > 0
        return carries

    def _read_sentence(
        self, sentence: Sequence[Token], words: Sequence[str], tags: Sequence[str], carries: Sequence[bool]
    ) -> list[ReadWord]:
        read = []
        place = 0
        for written, is_word in sentence:
            start, place = place, place + (len(self._form(written).parts) if is_word else 1)
            if not is_word:
                continue
            # A word that its neighbours do not change is read once for each tag, with and without ezafe.
            key = (written, tuple(tags[start:place]), tuple(carries[start:place]))
            word = self._read_words.get(key)
            if word is None:
                word, for_every_sentence = self._read_word(written, range(start, place), words, tags, carries)
                if for_every_sentence:
                    if len(self._read_words) > _MOST_WORDS:
                        self._read_words.clear()
                    self._read_words[key] = word
            read.append(word)
        return read

    def _read_word(
        self, written: str, places: range, words: Sequence[str], tags: Sequence[str], carries: Sequence[bool]
    ) -> tuple[ReadWord, bool]:
        """A word, and whether it is read so in every sentence in which it has these tags and ezafes."""
        form = self._form(written)
        last = places[-1]
        ezafe, tag = form.ezafe or carries[last], tags[last]
        given = self._user_reading(form.bare, words, last, tag) if self._lexicon else None
        if given is not None:
            ipa, why, ambiguous = given
            if ezafe and form.bare not in NO_EZAFE:
                ipa += ezafe_ending(ipa.rstrip("ː"))
            return ReadWord(written, ipa, ezafe, tag.removesuffix("e"), why, True, ambiguous), False
        said, reasons, known, ambiguous, for_every_sentence = "", [], True, False, True
        parts = [form.bare] if len(places) == 1 else form.parts
        for part, place in zip(parts, places, strict=True):
            entry = self._entry(part)
            sounds, why = entry.sounds, entry.why
            if entry.readings:
                reading, why = choose(entry.readings, words, place, tags[place])
                ambiguous |= why == GUESS
                sounds = plain_sounds(reading.ipa + entry.ending)
            elif part == "و" and _between_numbers(words, place):
                sounds, why = "o", "between numbers"
            for_every_sentence &= not entry.readings and part != "و"
            with_ezafe = ezafe if place == last else carries[place] and part not in UNSTRESSED
            said += _finished(sounds, part, tags[place] == "V", with_ezafe)
            reasons.append(why)
            known &= entry.known
        why = ", ".join(dict.fromkeys(reasons))
        return ReadWord(written, said, ezafe, tag.removesuffix("e"), why, known, ambiguous), for_every_sentence

    def _user_reading(self, word: str, words: Sequence[str], place: int, tag: str) -> tuple[str, str, bool] | None:
        assert self._lexicon is not None
        readings = self._lexicon.readings(word)
        if len(readings) > 1:
            reading, why = choose(readings, words, place, tag)
            return reading.ipa, f"lexicon: {why}", why == GUESS
        ipa = self._lexicon.find(word)
        return None if ipa is None else (ipa, "lexicon", False)

    def _entry(self, word: str) -> _Entry:
        entry = self._entries.get(word)
        if entry is None:
            if len(self._entries) > _MOST_WORDS:
                self._entries.clear()
            entry = self._entries[word] = self._look_up(word)
        return entry

    def _look_up(self, word: str) -> _Entry:
        tables = self._tables
        if not _ANY_MARK.sub("", word):
            return _Entry("", "no letters")  # espeak-ng would say the names of the marks
        if _VOWEL_MARK.search(word):
            return _Entry(self.guess(word), "vowel marks")
        readings = tables.readings.readings(word)
        if readings:
            return _Entry(readings[0].ipa, "", readings=tuple(readings))
        ipa = self._listed(word) or self._listed(word.replace(ZWNJ, ""))
        if ipa is not None:
            return _Entry(ipa, "word list")
        if word.endswith(("ای", "وی")) and (ipa := self._listed(word[:-1])) is not None:
            return _Entry(ipa + "j", "word list")
        guess = self.guess(word)
        for ending, sounds in ENDINGS:
            stem = word.removesuffix(ending).removesuffix(ZWNJ)
            if len(stem) < 2 or stem == word:
                continue
            readings = tables.readings.readings(stem)
            # Only where espeak-ng takes the word apart in the same way: «مردم» is no «مرد» with -am.
            if any(guess == plain_sounds(reading.ipa + sounds) for reading in readings):
                return _Entry(guess, "", readings=tuple(readings), ending=sounds)
            ipa = self._listed(stem)
            if ipa is not None and self.guess(stem) + sounds == guess:
                return _Entry(plain_sounds(ipa + sounds), "word list")
        return _Entry(guess, "espeak-ng", known=self._is_known(word))

    def _listed(self, word: str) -> str | None:
        return next((ipa for words in self._tables.words if (ipa := words.find(word)) is not None), None)

    def guess(self, word: str) -> str:
        """espeak-ng's sounds of a word, without stress and ezafe."""
        ipa = self._espeak.phonemes([word], "fa")[0]
        return without_ezafe(plain_sounds(ipa), word) if is_persian(ipa) else ipa

    def _is_known(self, word: str) -> bool:
        knows = self._tables.tagger.knows
        word = _ANY_MARK.sub("", word)
        if knows(word) or knows(word.replace(ZWNJ, "")) or word.isascii():
            return True
        if ZWNJ in word:
            return all(knows(part) for part in word.split(ZWNJ))
        stems = (word.removesuffix(ending) for ending, _ in ENDINGS if word.endswith(ending))
        return any(knows(stem) for stem in stems)


def _written_ezafe(word: str) -> tuple[bool, str]:
    """Whether the author wrote an ezafe, and the word without it."""
    if not _ANY_MARK.sub("", word):
        return False, word
    if word.endswith(_KASRE):
        word = word[:-1]
        return True, word.removesuffix(ZWNJ + "ی") if word.endswith("ه" + ZWNJ + "ی") else word
    if word.endswith(HAMZA_ABOVE):
        return True, word[:-1]
    return word.endswith("های"), word


@lru_cache(maxsize=50_000)
def _never_carries_ezafe(word: str) -> bool:
    return word in NO_EZAFE or word.endswith(ENCLITICS)


def _between_numbers(words: Sequence[str], place: int) -> bool:
    """In a number «و» is said /o/."""
    return 0 < place < len(words) - 1 and words[place - 1] in NUMBER_WORDS and words[place + 1] in NUMBER_WORDS


@lru_cache(maxsize=50_000)
def _finished(sounds: str, word: str, is_verb: bool, ezafe: bool) -> str:
    """`sounds` with the ezafe and the stress."""
    if not sounds or not is_persian(sounds):
        return sounds + (ezafe_ending(sounds) if ezafe and sounds else "")
    if ezafe and word not in NO_EZAFE:
        ending = ezafe_ending(sounds)
        return stressed(sounds + ending, len(ending), False)
    if word in UNSTRESSED:
        return sounds
    enclitic = next((said for written, said in ENDINGS if written in ENCLITICS and word.endswith(written)), "")
    tail = len(enclitic) if enclitic and sounds.endswith(enclitic) else 0
    return stressed(with_single_end(sounds), tail, is_verb)
