"""What every text goes through first, whatever its language: one spelling for what looks or means the same.

- NFC; digits of every script become 0 to 9; full-width, ligature and presentation forms become plain letters.
- Kashida, control and formatting characters that nobody sees are removed; ZWNJ and ZWJ only where `joiners` is false.
- Quotes become `"` and `'`, dashes between words ` — `, hyphens and minus `-`, three or more dots `…`.
- Repeated punctuation is said once, and spaces stand after it, not before it.
- Brackets become parentheses.

Characters with no reading (emoji, box drawing) stay, so that the tokenizer can count them as unknown.
"""

from __future__ import annotations

import re
import unicodedata

_ZWNJ, _ZWJ = 0x200C, 0x200D
_KEEP_AS_THEY_ARE = frozenset("№™®©℠ªº²³¹")
_QUOTES = dict.fromkeys("“”„‟〝〞〟「」『』《》〈〉«»‹›″＂", '"') | dict.fromkeys("‘’‚‛′´`ʼʻ＇", "'")
_DASHES = dict.fromkeys("‐‑−﹣－", "-") | dict.fromkeys("‒–—―⸺⸻", "—")
_BRACKETS = dict.fromkeys("[{【〔〖", "(") | dict.fromkeys("]}】〕〗", ")")
_KASHIDA = "\u0640"
_PUNCTUATION = {"‥": "..", "‼": "!", "⁇": "?", "⁈": "?", "⁉": "?", "⁄": "/", "∕": "/", "•": ",", "‣": ","}
_COMPATIBILITY_BLOCKS = (
    (0x2100, 0x214F),  # letter-like symbols: ℃ ℓ
    (0x2160, 0x2188),  # Roman numerals
    (0x2460, 0x24FF),  # enclosed numbers and letters
    (0x3200, 0x33FF),  # enclosed and squared East Asian
    (0xFB00, 0xFDFF),  # ligatures and Arabic presentation forms A
    (0xFE30, 0xFEFE),  # small forms and Arabic presentation forms B
    (0xFF01, 0xFFEE),  # half and full width
    (0x1D400, 0x1D7FF),  # mathematical alphanumerics
)


class _CharacterTable(dict[int, "str | None"]):
    """For `str.translate`; fills itself with each character it meets."""

    def __init__(self, joiners: bool, quotes: bool) -> None:
        super().__init__()
        replacements = (_QUOTES if quotes else {}) | _DASHES | _BRACKETS | _PUNCTUATION
        self.update({ord(character): text for character, text in replacements.items()})
        self[ord(_KASHIDA)] = None
        if joiners:
            self.update({_ZWNJ: "\u200c", _ZWJ: "\u200d"})

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        category = unicodedata.category(character)
        replacement: str | None = character
        if category == "Nd":
            replacement = str(unicodedata.digit(character))
        elif category in ("Zs", "Zl", "Zp") or character in "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85":
            replacement = " "
        elif category in ("Cc", "Cf") or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
            replacement = None
        elif category == "Cs":
            replacement = "\ufffd"
        elif category == "No" and "⁄" in unicodedata.normalize("NFKC", character):
            replacement = " " + unicodedata.normalize("NFKC", character).replace("⁄", "/") + " "
        elif character not in _KEEP_AS_THEY_ARE and _is_compatibility_form(code):
            plain = unicodedata.normalize("NFKC", character)
            # Twice over: what it is made of may itself have another spelling here.
            replacement = plain if plain == character else plain.translate(self)
        self[code] = replacement
        return replacement


def _is_compatibility_form(code: int) -> bool:
    return any(first <= code <= last for first, last in _COMPATIBILITY_BLOCKS)


_TABLES: dict[tuple[bool, bool], _CharacterTable] = {}

_LOOK_CLOSER = re.compile(r"[^A-Za-z0-9 ,.;:!?'\"()…—-]|  |\.\.|--| -|- |[,;:!?]{2}|—| [,.;:!?)]|[,;!?](?=\S)|[(¡¿] ")
_NUMBER_RANGE = re.compile(r"(?<=[0-9]) ?— ?(?=[0-9])")
_DASH = re.compile(r" *(?:—|--)[—-]* *| -+ |^-+ | -+$")
_DOTS = re.compile(r"(?:\.{3,}|…)[.…]*")
_TWO_DOTS = re.compile(r"\.\.")
_REPEATED = re.compile(r"([!?,;:،؛؟。、！？])(?:\s*\1)+")
_SPACE_BEFORE = re.compile(r" +(?=[,;:!?…،؛؟)]|\.(?![0-9]))")
_SPACE_INSIDE = re.compile(r"(?<=[(¡¿]) +")
_NO_SPACE_AFTER = re.compile(r"(?<=[,;!?،؛؟…])(?=[^\W\d_])")
_SPACES = re.compile(r" {2,}")


def fold(text: str, joiners: bool = False, quotes: bool = True) -> str:
    """`text` with one character for each thing, for any language.

    Args:
        text: any string, lone surrogates included (they become U+FFFD).
        joiners: keep ZWNJ and ZWJ, which some scripts need.
        quotes: make all quotation marks `"` and `'`; a language that keeps its own passes false.
    """
    table = _TABLES.get((joiners, quotes))
    if table is None:
        table = _TABLES[joiners, quotes] = _CharacterTable(joiners, quotes)
    # Removing a character can bring a letter and its accent together, so NFC comes after.
    return unicodedata.normalize("NFC", text.translate(table))


def tidy(text: str) -> str:
    """`text`, already folded, with its dashes, dots, repeated marks and spaces in order."""
    text = text.strip()
    if not _LOOK_CLOSER.search(text):
        return text
    text = _SPACES.sub(" ", text)  # first: what follows is linear only without long runs of spaces
    text = _NUMBER_RANGE.sub("-", text)
    text = _DASH.sub(" — ", text)
    text = _DOTS.sub("…", text)
    text = _TWO_DOTS.sub(".", text)
    text = _REPEATED.sub(r"\1", text)
    text = _SPACE_BEFORE.sub("", text)
    text = _SPACE_INSIDE.sub("", text)
    text = _NO_SPACE_AFTER.sub(" ", text)
    return _SPACES.sub(" ", text).strip()
