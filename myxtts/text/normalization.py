"""From text as people write it to text as people read it aloud: one function for all languages."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

from myxtts.text import english, other_languages, persian
from myxtts.text.languages import canonical_language

# Part of every fingerprint: raise it when the same text would come out differently.
NORMALIZER_VERSION = 1

# `[[ … ]]`: phonemes written by hand, which no rule may touch.
INLINE_IPA = re.compile(r"(\[\[[^\[\]]+\]\])")

# One pass settles ordinary text and a second sees that nothing changes. What one rule writes another may read
# (an expanded abbreviation before a number), so a few more are allowed.
_PASSES = 8


def normalize(text: str, language: str) -> str:
    """`text` spelled out as it is read aloud in `language`.

    Numbers, dates, times, money, measures, addresses and abbreviations become words; quotes, dashes, spaces
    and look-alike characters get one spelling. Spans in `[[ … ]]` are left alone. Applying it twice changes
    nothing more. Every string is accepted.

    ```python
    normalize("Dr. Smith paid $5.50.", "en")   # 'Doctor Smith paid five dollars and fifty cents.'
    normalize("۱۴۰۳/۰۵/۱۲", "fa")              # 'دوازدهم مرداد هزار و چهارصد و سه'
    ```

    Args:
        text: any string.
        language: a language code; one without rules of its own gets the general clean-up.

    Raises:
        UsageError: `language` does not look like a language code.
    """
    rules = _rules(canonical_language(language))
    if "[[" not in text:
        return _settle(text, rules)
    pieces = INLINE_IPA.split(text)
    settled = []
    for index, piece in enumerate(pieces):
        if index % 2:
            settled.append("[[" + " ".join(piece[2:-2].split()) + "]]")
        else:
            before = " " if piece[:1].isspace() and index else ""
            after = " " if piece[-1:].isspace() and index + 1 < len(pieces) else ""
            words = _settle(piece, rules)
            settled.append(f"{before}{words}{after}" if words else before or after)
    return "".join(settled).strip()


def _settle(text: str, rules: Callable[[str], str]) -> str:
    for _ in range(_PASSES):
        result = rules(text)
        if result == text:
            break
        text = result
    return text


@lru_cache(maxsize=64)
def _rules(language: str) -> Callable[[str], str]:
    base = language.partition("-")[0]
    if base == "en":
        return english.say
    if base == "fa":
        return persian.say
    return partial(other_languages.say, language=language)
