"""The languages, their fixed numbers, and how a code a person writes is matched to one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from myxtts.errors import UsageError

# A language's number is its place here. The order never changes: stores and checkpoints hold these numbers.
LANGUAGES = (
    "en",
    "es",
    "fr",
    "de",
    "it",
    "pt",
    "pl",
    "tr",
    "ru",
    "nl",
    "cs",
    "ar",
    "zh",
    "ja",
    "hu",
    "ko",
    "fa",
)

_CODE = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{1,8}){0,3}")


def canonical_language(code: str) -> str:
    """`code` in the one spelling used here: lower case, parts joined by `-`.

    Raises:
        UsageError: it does not look like a language code.
    """
    canonical = code.strip().lower().replace("_", "-")
    if not _CODE.fullmatch(canonical):
        raise UsageError(f"'{code[:40]}' is not a language code; write one like 'fa' or 'en-gb'")
    return canonical


def known_language(code: str, extra: Sequence[str] = ()) -> str:
    """The language among `LANGUAGES` and `extra` that `code` means.

    A code with a region stands for its language unless the region itself is listed: `zh-cn` means `zh`, and
    `en-gb` means `en` unless `extra` has `en-gb`.

    Raises:
        UsageError: there is none.
    """
    canonical = canonical_language(code)
    known = (*LANGUAGES, *(canonical_language(language) for language in extra))
    if canonical in known:
        return canonical
    base = canonical.partition("-")[0]
    if base in known:
        return base
    raise UsageError(
        f"language '{code}' is none of {', '.join(known)}\n"
        f"Add it under `extra_languages` if espeak-ng speaks it: extra_languages: [{canonical}]"
    )


def language_id(code: str, extra: Sequence[str] = ()) -> int:
    """The number of a language: its place in `LANGUAGES`, then in `extra`.

    Args:
        code: such as `fa`; a region that is not listed itself is ignored (`zh-cn` is `zh`).
        extra: the configuration's `extra_languages`, numbered after the fixed ones in their order.

    Raises:
        UsageError: an unknown language.
    """
    known = (*LANGUAGES, *(canonical_language(language) for language in extra))
    return known.index(known_language(code, extra))
