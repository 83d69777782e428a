"""Sentences to speak where no text file is given: English and Persian, from a grammar each.

They are made to train on, not to be true: plain words that between them use every phoneme of the language
often, in sentences of one to ten seconds when spoken. A seed gives the same sentences in every run, and more
of them only add.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import count as count_from

from myxtts.corpus.grammar_en import ENGLISH
from myxtts.corpus.grammar_fa import PERSIAN
from myxtts.errors import UsageError

# A grammar gives each symbol its alternatives; `{symbol}` inside one stands for another choice.
Grammar = Mapping[str, Sequence[str]]

GRAMMARS: dict[str, Grammar] = {"en": ENGLISH, "fa": PERSIAN}

_SYMBOL = re.compile(r"\{(\w+)\}")


def sentences(language: str, seed: int, count: int) -> list[str]:
    """The first `count` sentences of a language under a seed, no two of them the same.

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
    # `random()` is the one method whose sequence Python promises to keep.
    draw = random.Random(seed).random
    used: set[str] = set()

    def expand(symbol: str) -> str:
        choices = grammar[symbol]
        start = int(draw() * len(choices))
        # A word already in the sentence is passed over, so that nobody meets themselves.
        order = (*choices[start:], *choices[:start])
        chosen = next((choice for choice in order if choice not in used), order[0])
        if "{" not in chosen:
            used.add(chosen)
            return chosen
        return _SYMBOL.sub(lambda match: expand(match.group(1)), chosen)

    text = expand("sentence")
    return text[0].upper() + text[1:]
