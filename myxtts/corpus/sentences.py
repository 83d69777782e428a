"""The built-in sentences, English and Persian, each from a grammar.

They are made for training: common words that use every phoneme of the language often, in sentences that take one to
ten seconds to speak. A seed always gives the same sentences; asking for more only adds some at the end.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import count as count_from

from myxtts.corpus.grammar_en import ENGLISH
from myxtts.corpus.grammar_fa import PERSIAN
from myxtts.errors import UsageError

# A grammar maps a symbol to its alternatives. `{symbol}` in an alternative is replaced by one of that symbol.
Grammar = Mapping[str, Sequence[str]]

GRAMMARS: dict[str, Grammar] = {"en": ENGLISH, "fa": PERSIAN}

_SYMBOL = re.compile(r"\{(\w+)\}")


def sentences(language: str, seed: int, count: int) -> list[str]:
    """The first `count` sentences of a language for a seed, all different.

    Raises:
        UsageError: there is no grammar for the language.
    """
    grammar = GRAMMARS.get(language.partition("-")[0])
    if grammar is None:
        known = ", ".join(GRAMMARS)
        raise UsageError(f"there are no sentences for '{language}' (only for {known}); give a text file")
    found: dict[str, None] = {}
    for index in count_from():
        if len(found) >= count:
            break
        found[_sentence(grammar, f"{seed}/{language}/{index}")] = None
    return list(found)


def _sentence(grammar: Grammar, seed: str) -> str:
    # Python guarantees the sequence of `random()` only, of no other method.
    draw = random.Random(seed).random
    used: set[str] = set()

    def expand(symbol: str) -> str:
        choices = grammar[symbol]
        start = int(draw() * len(choices))
        # Skip what is already in the sentence, so that nobody meets themselves.
        order = (*choices[start:], *choices[:start])
        chosen = next((choice for choice in order if choice not in used), order[0])
        if "{" not in chosen:
            used.add(chosen)
            return chosen
        return _SYMBOL.sub(lambda match: expand(match.group(1)), chosen)

    text = expand("sentence")
    return text[0].upper() + text[1:]
