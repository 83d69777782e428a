"""From a text to the numbers a model reads."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from myxtts.errors import MissingExtraError, TextError, UsageError
from myxtts.text import espeak
from myxtts.text.ipa import canonical_ipa
from myxtts.text.languages import LANGUAGES, canonical_language, known_language
from myxtts.text.lexicon import Lexicon
from myxtts.text.normalization import NORMALIZER_VERSION, normalize
from myxtts.text.persian_reading import PERSIAN_READING_VERSION
from myxtts.text.symbols import (
    BEGIN,
    BLANK,
    END,
    PHONEME_IDS,
    SYMBOL_IDS,
    SYMBOLS,
    SYMBOLS_VERSION,
    UNKNOWN,
    graphemes,
    resolve,
    shared_punctuation,
)
from myxtts.text.words import UNSPACED, tokens

if TYPE_CHECKING:
    from myxtts.config.config import DataConfig
    from myxtts.text.persian_reading.reader import ReadWord
    from myxtts.text.phonemes import Phonemizer

_log = logging.getLogger(__name__)
_logged: set[str] = set()

SymbolKind = Literal["auto", "graphemes", "phonemes"]


@dataclass(frozen=True)
class TextSettings:
    """Every setting that changes the numbers a text becomes.

    Attributes:
        symbols: `phonemes` (needs the `speech` extra), `graphemes`, or `auto`: phonemes when the extra is there.
        add_blank: put a blank symbol before, between and after all symbols, as monotonic aligners like it.
        lexicons: a pronunciation file per language code.
        extra_languages: codes beyond `LANGUAGES` that espeak-ng knows, numbered after them.

    Raises:
        UsageError: a wrong value of `symbols`, or a lexicon or extra language that is no language.
    """

    symbols: SymbolKind = "auto"
    add_blank: bool = True
    lexicons: Mapping[str, Path] = field(default_factory=dict)
    extra_languages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.symbols not in ("auto", "graphemes", "phonemes"):
            raise UsageError(f"text_symbols is '{self.symbols}'; it can be auto, graphemes or phonemes")
        extra = tuple(canonical_language(code) for code in self.extra_languages)
        repeated = [code for code, count in Counter((*LANGUAGES, *extra)).items() if count > 1]
        if repeated:
            raise UsageError(f"extra_languages: '{repeated[0]}' is already a language; leave it out")
        object.__setattr__(self, "extra_languages", extra)
        lexicons = {known_language(code, extra): Path(path) for code, path in self.lexicons.items()}
        object.__setattr__(self, "lexicons", lexicons)

    @classmethod
    def from_config(cls, config: DataConfig) -> TextSettings:
        """The text settings of a data configuration."""
        return cls(
            symbols=config.text_symbols,
            add_blank=config.add_blank,
            lexicons={code: Path(path) for code, path in config.lexicons.items()},
            extra_languages=tuple(config.extra_languages),
        )

    def resolved_symbols(self) -> Literal["graphemes", "phonemes"]:
        """`graphemes` or `phonemes`, with `auto` decided; the decision is logged once per process.

        Raises:
            MissingExtraError: phonemes are asked for and the `speech` extra is not installed.
        """
        if self.symbols == "graphemes":
            return "graphemes"
        if espeak.available():
            if self.symbols == "auto":
                _log_once(logging.INFO, "text symbols: phonemes, by espeak-ng")
            return "phonemes"
        if self.symbols == "phonemes":
            raise MissingExtraError("phonemes", "speech")
        _log_once(
            logging.WARNING, "text symbols: graphemes; for phonemes install the extra: pip install 'myxtts[speech]'"
        )
        return "graphemes"

    def fingerprint(self) -> dict[str, str | int | bool]:
        """What the numbers depend on, by name; equal fingerprints mean equal numbers for every text."""
        symbols = self.resolved_symbols()
        result: dict[str, str | int | bool] = {
            "text_symbols": symbols,
            "add_blank": self.add_blank,
            "symbol_table": SYMBOLS_VERSION,
            "normalizer": NORMALIZER_VERSION,
            "extra_languages": ",".join(self.extra_languages),
        }
        for code, path in sorted(self.lexicons.items()):
            result[f"lexicon_{code}"] = Lexicon(path, code).content_hash
        if symbols == "phonemes":
            result["espeak_ng"] = espeak.Espeak().version
            result["persian_reading"] = PERSIAN_READING_VERSION
        return result


class Tokenizer:
    """Texts to ids and back.

    The ids of a text are begin, its symbols, end; with `add_blank` a blank stands around every symbol. Id 0 is
    padding and never occurs. A symbol the table lacks gets the id of `<unk>` and is counted in `unknown`.

    ```python
    tokenizer = Tokenizer(TextSettings(symbols="graphemes"))
    ids = tokenizer.encode("Room 5.", "en")
    tokenizer.decode(ids)      # ['<bos>', 'r', 'o', 'o', 'm', ' ', 'f', 'i', 'v', 'e', '.', '<eos>']
    ```

    Args:
        settings: see `TextSettings`.

    Attributes:
        symbols: `graphemes` or `phonemes`.
        unknown: how often each symbol outside the table was met so far.
        vocab_size: the number of ids.

    Raises:
        MissingExtraError: phonemes are asked for without the `speech` extra.
        TextError: a lexicon is wrong.
        UsageError: espeak-ng does not know an extra language.
    """

    def __init__(self, settings: TextSettings) -> None:
        self.settings = settings
        self.symbols = settings.resolved_symbols()
        self.unknown: Counter[str] = Counter()
        self.vocab_size = len(SYMBOLS)
        self._lexicons = {code: Lexicon(path, code) for code, path in settings.lexicons.items()}
        self._languages: dict[str, str] = {}
        self._phonemizer: Phonemizer | None = None
        if self.symbols == "phonemes":
            from myxtts.text.phonemes import Phonemizer

            self._phonemizer = Phonemizer(self._lexicons)
            for code in settings.extra_languages:
                self._phonemizer.phonemes([""], code)

    @property
    def unknown_words(self) -> Counter[str]:
        """How often each Persian word was met whose sounds were guessed from its letters."""
        return self._phonemizer.unknown_words if self._phonemizer is not None else Counter()

    @property
    def ambiguous_words(self) -> Counter[str]:
        """How often each Persian word was met of whose readings nothing in its sentence chose one."""
        return self._phonemizer.ambiguous_words if self._phonemizer is not None else Counter()

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[TextSettings]]:
        # espeak-ng cannot be pickled; another process loads its own.
        return Tokenizer, (self.settings,)

    def encode(self, text: str, language: str, ipa: str | None = None, *, normalized: bool = False) -> np.ndarray:
        """The ids of one text, int32 [n]. See `encode_batch`."""
        return self.encode_batch([text], [language], [ipa], normalized=normalized)[0]

    def encode_batch(
        self,
        texts: Sequence[str],
        languages: Sequence[str],
        ipas: Sequence[str | None] | None = None,
        *,
        normalized: bool = False,
    ) -> list[np.ndarray]:
        """The ids of many texts, each int32 [n], much faster than one by one.

        Args:
            texts: as written; they are normalised here, unless `normalized`.
            languages: a code for each.
            ipas: for each its phonemes in IPA, taken as they are in place of the text, or None.
            normalized: whether the texts come from `normalize`.

        Raises:
            UsageError: an unknown language, or lists of different lengths.
            TextError: letters of Chinese, which has too many for a table.
        """
        if len(texts) != len(languages) or (ipas is not None and len(ipas) != len(texts)):
            raise UsageError("encode_batch needs a language, and with ipas an entry, for each text")
        result: list[np.ndarray | None] = [None] * len(texts)
        places: dict[str, list[int]] = {}
        for place, language in enumerate(languages):
            given = ipas[place] if ipas else None
            if given and given.strip():
                self._language(language)
                result[place] = self._ids(shared_punctuation(canonical_ipa(given)), PHONEME_IDS)
            else:
                places.setdefault(self._language(language), []).append(place)
        table = PHONEME_IDS if self.symbols == "phonemes" else SYMBOL_IDS
        for language, chosen in places.items():
            written = [texts[place] if normalized else normalize(texts[place], language) for place in chosen]
            for place, symbols in zip(chosen, self.transcribe(written, language), strict=True):
                result[place] = self._ids(symbols, table)
        return cast("list[np.ndarray]", result)

    def transcribe(self, texts: Sequence[str], language: str) -> list[str]:
        """Normalised texts as strings of symbols: letters or phonemes, with shared punctuation.

        Raises:
            UsageError: an unknown language.
            TextError: letters of Chinese, which has too many for a table.
        """
        language = self._language(language)
        if self._phonemizer is not None:
            return self._phonemizer.phonemes(texts, language)
        if language == "zh":
            raise TextError(
                "Chinese has no table of graphemes: use phonemes (text_symbols: phonemes, "
                "pip install 'myxtts[speech]'), or give IPA"
            )
        return [self._letters(text, language) for text in texts]

    def encode_symbols(self, symbols: str) -> tuple[np.ndarray, np.ndarray]:
        """The ids of a string of symbols from `transcribe`, and the character that each of them stands for.

        Returns:
            Ids int32 [n], the same as those of `encode`, and places in `symbols` int32 [n]: -1 for begin, end and
            blanks. A character that is taken apart has several ids.
        """
        table = PHONEME_IDS if self.symbols == "phonemes" else SYMBOL_IDS
        ids = self._ids(symbols, table)
        counts = [len(_known_parts(symbol, table) or (UNKNOWN,)) for symbol in symbols]
        places = np.full(len(ids), -1, np.int32)
        inside = slice(2, -1, 2) if self.settings.add_blank else slice(1, -1)
        places[inside] = np.repeat(np.arange(len(symbols)), counts)
        return ids, places

    def words(self, texts: Sequence[str], language: str) -> list[list[ReadWord]]:
        """The words of each normalised text: what is said, ezafe, and why. Of Persian phonemes; otherwise none.

        Raises:
            UsageError: an unknown language.
        """
        language = self._language(language)
        return [[] for _ in texts] if self._phonemizer is None else self._phonemizer.words(texts, language)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The symbol of each id.

        Raises:
            UsageError: an id outside the table.
        """
        try:
            return [SYMBOLS[number] for number in _checked(ids)]
        except IndexError as error:
            raise UsageError(f"ids go from 0 to {self.vocab_size - 1}") from error

    def _language(self, code: str) -> str:
        known = self._languages.get(code)
        if known is None:
            known = self._languages[code] = known_language(code, self.settings.extra_languages)
        return known

    def _letters(self, text: str, language: str) -> str:
        lexicon = self._lexicons.get(language)
        if lexicon is None and "[[" not in text:
            return graphemes(text, language)
        if lexicon is not None and language in UNSPACED:
            text = lexicon.mark(text)
        said = []
        for match in tokens(language).finditer(text):
            token = match.group()
            ipa = lexicon.find(token) if lexicon is not None and match.lastgroup == "word" else None
            if match.lastgroup == "ipa":
                ipa = canonical_ipa(token[2:-2])
            said.append(ipa or graphemes(token, language))
        return " ".join("".join(said).split())

    def _ids(self, symbols: str, table: dict[str, int]) -> np.ndarray:
        get = table.get
        numbers = [get(symbol, UNKNOWN) for symbol in symbols]
        if UNKNOWN in numbers:
            numbers = self._with_unknown(symbols, table)
        count = len(numbers)
        if self.settings.add_blank:
            ids = np.full(2 * count + 3, BLANK, np.int32)
            ids[2:-1:2] = numbers
        else:
            ids = np.empty(count + 2, np.int32)
            ids[1:-1] = numbers
        ids[0], ids[-1] = BEGIN, END
        return ids

    def _with_unknown(self, symbols: str, table: dict[str, int]) -> list[int]:
        numbers: list[int] = []
        for symbol in symbols:
            parts = _known_parts(symbol, table)
            if parts is None:
                self.unknown[symbol] += 1
                parts = (UNKNOWN,)
            numbers.extend(parts)
        return numbers


def _known_parts(symbol: str, table: dict[str, int]) -> tuple[int, ...] | None:
    known = table.get(symbol)
    return (known,) if known is not None else resolve(symbol, table)


def _checked(ids: Iterable[int]) -> Iterable[int]:
    for number in ids:
        if number < 0:
            raise IndexError
        yield int(number)


def _log_once(level: int, message: str) -> None:
    if message not in _logged:
        _logged.add(message)
        _log.log(level, message)
