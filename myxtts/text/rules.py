"""What the rules of several languages are built from: ordered substitutions, and web addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from myxtts.text.numbers import spell_digits

Match = re.Match[str]
Rule = tuple[re.Pattern[str], "str | Callable[[Match], str]"]

_HAS_DIGIT = re.compile(r"[0-9]")

_TOP_DOMAINS = (
    "com|org|net|edu|gov|mil|io|ai|dev|app|info|biz|tv|me|co|uk|us|ca|de|fr|ir|au|nl|jp|eu|ch|at|be|se|it|es|pl|"
    "cz|ru|tr|br|mx|cn|kr|hu|pt"
)
# Quantifiers are bounded so that no text takes more than linear time.
_EMAIL = re.compile(r"(?<![\w.%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,6}")
_URL = re.compile(
    r"(?:https?://|ftp://|(?<![\w.])www\.)[^\s\"()<>«»،؛؟]+"
    rf"|(?<![\w@.-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,6}}(?:{_TOP_DOMAINS})(?![\w-]|\.\w)(?:/[^\s\"()<>«»،؛؟]*)?"
)
_MAYBE_ADDRESS = re.compile(r"@|://|\w\.[A-Za-z]")
_SCHEME = re.compile(r"^(?:https?|ftp)://")
_ADDRESS_PARTS = re.compile(r"([0-9]+|[^A-Za-z0-9])")


def any_of(words: Iterable[str]) -> str:
    """A pattern that matches any of `words`, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def word_set(words: str) -> frozenset[str]:
    """The words between the spaces of `words`."""
    return frozenset(words.split())


def apply_digit_rules(text: str, rules: Iterable[Rule]) -> str:
    """`text` after each rule in turn, stopping as soon as no digit is left."""
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
        if not _HAS_DIGIT.search(text):
            break
    return text


def say_addresses(text: str, signs: Mapping[str, str], www: str, language: str) -> str:
    """Web and e-mail addresses read part by part, digits one by one, the scheme left out.

    Args:
        signs: the name of each sign that may stand in an address; one without a name keeps its place.
        www: how `www` is said.
    """
    if not _MAYBE_ADDRESS.search(text):
        return text

    def say(match: Match) -> str:
        address = _SCHEME.sub("", match.group())
        kept = address.rstrip(".,;:!?'/")
        tail = address[len(kept) :].lstrip("/")
        words = []
        for part in _ADDRESS_PARTS.split(kept):
            if part.lower() == "www":
                words.append(www)
            elif part.isascii() and part.isdigit():
                words.append(spell_digits(part, language))
            elif part:
                words.append(signs.get(part, part))
        return " ".join(words) + tail

    return _URL.sub(say, _EMAIL.sub(say, text))
