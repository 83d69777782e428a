"""How a normalised text of each language falls into words, marks and what espeak-ng cannot read."""

from __future__ import annotations

import re
from functools import lru_cache

from myxtts.text.normalization import INLINE_IPA

# Languages written without spaces between words.
UNSPACED = frozenset(["ja", "zh"])

_SOFT_MARKS = '"()«»'
_HARD_MARKS = ".,;:!?¡¿…—،؛؟。、।"

_LATIN = "A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\u0300-\u036f"
_GREEK = "\u0370-\u03ff\u1f00-\u1fff"
_CYRILLIC = "\u0400-\u052f"
_ARABIC = "\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06df-\u06e8\u06ea-\u06ef\u06fa-\u06ff\u0750-\u077f"
_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_KANA = "\u3041-\u3096\u309d\u309e\u30a1-\u30fa\u30fc-\u30fe\u31f0-\u31ff"
_HANGUL = "\uac00-\ud7a3\u1100-\u11ff\u3131-\u318e"
_EVERYWHERE = _LATIN + _GREEK + "0-9'\u200c\u200d\\-"
# Japanese has kana only: espeak-ng does not know how kanji are read.
_SCRIPTS = {
    "ar": _ARABIC,
    "fa": _ARABIC,
    "hak": _HAN,
    "ja": _KANA,
    "ko": _HANGUL,
    "ru": _CYRILLIC,
    "yue": _HAN,
    "zh": _HAN,
}
_LATIN_SCRIPT = frozenset(["en", "es", "fr", "de", "it", "pt", "pl", "tr", "nl", "cs", "hu"])
# For a language added by configuration: letters of all scripts, but not signs and pictures, nor East Asian
# characters, which espeak-ng would name instead of read.
_NOT_LETTERS = (
    r"\s$+<=>^`|~\u00a2-\u00a9\u00ac-\u00b1\u00b4\u00b8\u00d7\u00f7\u02c2-\u02df"
    r"\u2000-\u200b\u200e-\u2bff\u2e00-\u2e7f\u3000-\u303f\u3400-\u9fff\ud800-\uf8ff\ufff0-\uffff"
    r"\U0001f000-\U0010ffff"
)


@lru_cache(maxsize=64)
def tokens(language: str) -> re.Pattern[str]:
    """Matches one token after another of a text in `language`; `lastgroup` tells its kind.

    `ipa`: phonemes by hand, `[[ … ]]`; `word`: what espeak-ng can read; `gap`: spaces, quotes, parentheses;
    `other`: one character that ends a clause, or that nothing reads.
    """
    base = language.partition("-")[0]
    if base in _SCRIPTS or base in _LATIN_SCRIPT:
        letter = f"[{_EVERYWHERE}{_SCRIPTS.get(base, '')}]"
    else:
        letter = rf"[^{_NOT_LETTERS}{re.escape(_HARD_MARKS + _SOFT_MARKS)}]"
    word = rf"(?:{letter}|(?<=[0-9])[.,:](?=[0-9]))+"
    gap = rf"[{re.escape(_SOFT_MARKS)}]|\s+"
    # The kinds must be the last groups to close, or `lastgroup` would not name them.
    ipa = INLINE_IPA.pattern.strip("()")
    return re.compile(rf"(?P<ipa>{ipa})|(?P<word>{word})|(?P<gap>{gap})|(?P<other>.)", re.DOTALL)
