"""The symbol table: which number each character of a symbol string has, the same for all languages.

One table serves letters and phonemes. A character has one number whether it stands for a letter or a sound (`s` is
both), so a lexicon's IPA inside a text of letters shares what the letters have learned.

Numbers never change within a version: add at the end, and raise `SYMBOLS_VERSION` for anything else.
"""

from __future__ import annotations

import unicodedata

SYMBOLS_VERSION = 1

PAD, UNKNOWN, BEGIN, END, BLANK = range(5)
_SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>", "<blank>")

_PUNCTUATION = " .,;:!?¡¿…—-'\"()"
_DIGITS = "0123456789"
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_LATIN_ACCENTED = "àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿßāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįıĵķĺļľłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷźżžșțơư"
_IPA_VOWELS = "ɨʉɯɪʏʊɘɵɤəɛɜɞʌɔɐɶɑɒɚɝᵻ"
_IPA_CONSONANTS = "ʈɖɟɡɢʔɱɳɲɴʙʀⱱɾɽɸβθʃʒʂʐʝɣχʁʕɦɬɮʋɹɻɰɭʎʟʍɥɕʑɺɧɫʡʢʜɓɗʄɠʛʘǀǃǂǁ"
_IPA_MODIFIERS = "ˈˌːˑʰʲʷˠˤ˞ʼⁿˡᵝ"
_IPA_TONES = "˥˦˧˨˩ꜛꜜ"
# Combining: tilde, syllabic, non-syllabic, voiceless, voiced, dental, apical, laminal, raised, lowered, advanced,
# retracted, centralised, mid-centralised, more and less rounded, velarised, ring above, tense, extra short, breathy,
# creaky, linguolabial, advanced and retracted tongue root, acute, grave, circumflex, caron, macron, dot above,
# hook above, dot below, line below.
_COMBINING = (
    "\u0303\u0329\u032f\u0325\u032c\u032a\u033a\u033b\u031d\u031e\u031f\u0320\u0308\u033d\u0339\u031c\u0334\u030a"
    "\u0348\u0306\u0324\u0330\u033c\u0318\u0319\u0301\u0300\u0302\u030c\u0304\u0307\u0309\u0323\u0331"
)
_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґўђјљњћџѓќѕ"
_GREEK = "αγδεζηικλμνξοπρσςτυφψωάέήίόύώϊϋΐΰ"  # β, θ and χ are among the phonemes
_ARABIC = "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىيپچژکگیڤٹڈڑںھہے"
_ARABIC_MARKS = "\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0653\u0654\u0655\u0670"
_ZWNJ = "\u200c"
_HEBREW = "אבגדהוזחטיךכלםמןנסעףפץצקרשת"
_HIRAGANA = "".join(map(chr, range(0x3041, 0x3097))) + "ーゝゞ"
_HANGUL = "".join(map(chr, (*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A8, 0x11C3))))

GROUPS: dict[str, tuple[str, ...]] = {
    "special": _SPECIAL,
    "punctuation": tuple(_PUNCTUATION),
    "digits": tuple(_DIGITS),
    "Latin letters": tuple(_LATIN),
    "Latin letters with accents": tuple(_LATIN_ACCENTED),
    "IPA vowels": tuple(_IPA_VOWELS),
    "IPA consonants": tuple(_IPA_CONSONANTS),
    "IPA modifiers": tuple(_IPA_MODIFIERS),
    "IPA tones": tuple(_IPA_TONES),
    "combining marks": tuple(_COMBINING),
    "Cyrillic": tuple(_CYRILLIC),
    "Greek": tuple(_GREEK),
    "Arabic and Persian": tuple(_ARABIC),
    "Arabic marks, ZWNJ": tuple(_ARABIC_MARKS + _ZWNJ),
    "Hebrew": tuple(_HEBREW),
    "hiragana": tuple(_HIRAGANA),
    "Hangul letters": tuple(_HANGUL),
}
SYMBOLS: tuple[str, ...] = tuple(symbol for group in GROUPS.values() for symbol in group)
SYMBOL_IDS: dict[str, int] = {symbol: number for number, symbol in enumerate(SYMBOLS)}

_PHONEMES = frozenset(
    _PUNCTUATION
    + _DIGITS
    + _LATIN
    + "æçðøħŋœ"
    + _IPA_VOWELS
    + _IPA_CONSONANTS
    + _IPA_MODIFIERS
    + _IPA_TONES
    + _COMBINING
)
# A letter that reaches the ids of a phonemised text is one that could not be read, even if the table has it.
PHONEME_IDS: dict[str, int] = {symbol: number for symbol, number in SYMBOL_IDS.items() if symbol in _PHONEMES}

# What single languages write for a symbol of the table.
ALIASES = {
    "،": ",",
    "؛": ";",
    "؟": "?",
    "«": '"',
    "»": '"',
    "。": ".",
    "、": ",",
    "・": " ",
    "।": ".",
    "॥": ".",
    "՞": "?",
    "։": ".",
    "–": "—",
    "ª": "a",
    "º": "o",
    "ٱ": "ا",
    "ڪ": "ك",
    "’": "'",
}
_ALIAS_TABLE = str.maketrans(ALIASES)
_TURKISH_CAPITALS = str.maketrans({"I": "ı", "İ": "i"})
_KATAKANA = str.maketrans({code: code - 0x60 for code in range(0x30A1, 0x30F7)} | {0x30FD: 0x309D, 0x30FE: 0x309E})


def shared_punctuation(text: str) -> str:
    """`text` with each language's own punctuation as the one of the table."""
    return text.translate(_ALIAS_TABLE)


def graphemes(text: str, language: str) -> str:
    """The letters of a normalised text as symbols: lower case, Hangul as its letters, katakana as hiragana."""
    base = language.partition("-")[0]
    if base in ("tr", "az"):
        text = text.translate(_TURKISH_CAPITALS)
    text = text.lower().translate(_ALIAS_TABLE)
    if base == "ko":
        return unicodedata.normalize("NFD", text)
    if base == "ja":
        return text.translate(_KATAKANA)
    return text


def resolve(character: str, ids: dict[str, int]) -> tuple[int, ...] | None:
    """The numbers of a character that `ids` lacks but whose parts it has (`ế` as e and two accents)."""
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 1:
        return None
    numbers = tuple(ids.get(part, UNKNOWN) for part in parts)
    return None if UNKNOWN in numbers else numbers
