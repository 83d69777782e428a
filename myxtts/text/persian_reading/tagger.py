"""Part of speech and ezafe of every word of a Persian sentence: a linear-chain CRF, in bulk.

The weights are those of the tagger in `gruut-lang-fa` (MIT), made smaller by `tools/make_persian_model.py`: small
weights left out, the rest as 8-bit integers. A label is a part of speech (`N`, `AJ`, `V`, …) with `e` at its end if
the word carries an ezafe.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

# The word itself, the two before it and the two after it: how far each is from the word that is tagged.
OFFSETS = (-2, -1, 0, 1, 2)
_EDGES = ("_x-2", "_x-1", "_x+1", "_x+2")  # what Wapiti calls the places before and after a sentence
# Whether the word before (l) or after (r) has punctuation (p) or a digit (n): where it stands among OFFSETS.
_NEIGHBOURS = {"p?l": 1, "p?r": 3, "n?l": 1, "n?r": 3}
_ALWAYS = ("*", "n?=false", "n?a=false")
_PUNCTUATION = frozenset(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_DIGITS = frozenset(b"0123456789")
_MOST_KNOWN_WORDS = 8192
_SENTENCES_AT_ONCE = 64


class Tagger:
    """The CRF.

    Args:
        path: a file made by `tools/make_persian_model.py`.

    Attributes:
        labels: the tags, in the order of the last axis of `probabilities`.
    """

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            content = {name: file[name] for name in file.files}
        self.labels: tuple[str, ...] = tuple(str(content["labels"]).split())
        self._scale = np.float32(content["scale"])
        vocabulary = content["vocabulary"].tobytes().decode().split("\n")
        self._numbers = {word: number for number, word in enumerate(vocabulary)}
        patterns = content["patterns"].tobytes().decode("latin-1").split("\n")
        self._patterns = {pattern: number for number, pattern in enumerate(patterns)}
        # Weights are ordered by place, then by word: first those of all words two places before the tagged one.
        self._word_ends = np.concatenate([[0], np.cumsum(content["word_counts"], dtype=np.int64)])
        self._word_labels = content["word_labels"]
        self._word_values = content["word_weights"]
        self._pattern_ends = np.concatenate([[0], np.cumsum(content["pattern_counts"], dtype=np.int64)])
        self._pattern_places = content["pattern_places"]
        self._pattern_values = content["pattern_weights"]
        self._flag_weights = {
            name: np.diff(self._pattern_rows([f"{name}=false", f"{name}=true"]), axis=0)[0] for name in _NEIGHBOURS
        }
        count = len(self.labels)
        self._flag_factors = {name: np.exp(weights[count:]) for name, weights in self._flag_weights.items()}
        self._rows: dict[str, int] = {}
        self._word_table = np.zeros((0, len(OFFSETS), len(self.labels)), np.float32)

    def knows(self, word: str) -> bool:
        """Whether the word was among those the tagger was trained on."""
        return word in self._numbers

    def probabilities(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Of each sentence, how likely each label is at each place [word, label].

        The sentences do not influence each other. One without words gives an empty array.
        """
        result = [np.zeros((0, len(self.labels)), np.float32)] * len(sentences)
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
        order = [place for place in order if sentences[place]]
        for start in range(0, len(order), _SENTENCES_AT_ONCE):
            chosen = order[start : start + _SENTENCES_AT_ONCE]
            chances = self._forward_backward([sentences[place] for place in chosen])
            for row, place in enumerate(chosen):
                result[place] = chances[: len(sentences[place]), row]
        return result

    def _forward_backward(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        single, pair = self._factors(sentences)
        longest = len(single)
        last = np.array([len(words) for words in sentences]) - 1
        forward = np.empty_like(single)
        forward[0] = single[0] / single[0].sum(axis=-1, keepdims=True)
        for place in range(1, longest):
            state = (forward[place - 1, :, None] @ pair[place])[:, 0] * single[place]
            forward[place] = state / state.sum(axis=-1, keepdims=True)
        backward = np.ones_like(single)
        for place in range(longest - 1, 0, -1):
            state = (pair[place] @ (single[place] * backward[place])[:, :, None])[:, :, 0]
            state /= state.sum(axis=-1, keepdims=True)
            backward[place - 1] = np.where((place <= last)[:, None], state, 1.0)
        chances = forward * backward
        return np.asarray(chances / chances.sum(axis=-1, keepdims=True))

    def _factors(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Of a label [place, sentence, label], and of two in a row [place, sentence, label before, label].

        They are the exponentials of the scores, each times a number that is the same for all labels.
        """
        self._learn({word for words in sentences for word in words})
        count, longest = len(self.labels), max(map(len, sentences))
        numbers = self._rows
        rows = np.full((longest + 4, len(sentences)), numbers[_EDGES[2]])
        rows[0], rows[1] = numbers[_EDGES[0]], numbers[_EDGES[1]]
        for column, words in enumerate(sentences):
            rows[2 : len(words) + 2, column] = [numbers[word] for word in words]
            rows[len(words) + 3, column] = numbers[_EDGES[3]]
        here = rows[2:-2]
        single = self._label_table[here]
        for slot in range(len(OFFSETS)):
            single += self._word_table[rows[slot : slot + longest], slot]
        pair = self._pair_table[here]
        for name, offset in _NEIGHBOURS.items():
            # Tables of words count their neighbours as without marks and digits, which most are.
            flagged = (self._has_mark if name[0] == "p" else self._has_digit)[rows[offset : offset + longest]]
            single[flagged] += self._flag_weights[name][:count]
            pair[flagged] *= self._flag_factors[name]
        single -= single.max(axis=-1, keepdims=True)
        return np.exp(single, out=single), pair.reshape(longest, len(sentences), count, count)

    def _learn(self, words: set[str]) -> None:
        """Adds words to the tables, so that a sentence is a choice of their rows."""
        words = {*words, *_EDGES}
        count = len(self.labels)
        if len(words | self._rows.keys()) > len(self._word_table):
            size = max(_MOST_KNOWN_WORDS, len(words))
            self._word_table = np.zeros((size, len(OFFSETS), count), np.float32)
            self._label_table = np.zeros((size, count), np.float32)
            self._pair_table = np.zeros((size, count * count), np.float32)
            self._has_mark = np.zeros(size, np.bool_)
            self._has_digit = np.zeros(size, np.bool_)
            self._rows.clear()
        for word in sorted(words - self._rows.keys()):
            row = self._rows[word] = len(self._rows)
            letters = word.encode()
            self._word_table[row] = self._word_weights_of(word)
            marks = [byte in _PUNCTUATION for byte in letters]
            self._has_mark[row] = any(marks)
            self._has_digit[row] = any(byte in _DIGITS for byte in letters)
            names = [*_pattern_names(letters), *_ALWAYS, *(f"{name}=false" for name in _NEIGHBOURS)]
            names += [f"p?={str(any(marks)).lower()}", f"p?a={str(all(marks)).lower()}"]
            weights = self._pattern_rows(names).sum(axis=0)
            self._label_table[row] = weights[:count]
            # Not quite zero, so that no path of a strange sentence has a probability of 0 / 0.
            self._pair_table[row] = np.exp(weights[count:] - weights[count:].max()) + np.float32(1e-12)

    def _word_weights_of(self, word: str) -> np.ndarray:
        weights = np.zeros((len(OFFSETS), len(self.labels)), np.float32)
        number = self._numbers.get(word)
        if number is not None:
            for slot in range(len(OFFSETS)):
                entries = slice(*self._word_ends[slot * len(self._numbers) + number :][:2])
                weights[slot, self._word_labels[entries]] = self._word_values[entries]
        return weights * self._scale

    def _pattern_rows(self, names: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(names), len(self.labels) * (len(self.labels) + 1)), np.float32)
        for row, name in enumerate(names):
            number = self._patterns.get(name)
            if number is not None:
                entries = slice(*self._pattern_ends[number : number + 2])
                rows[row, self._pattern_places[entries]] = self._pattern_values[entries]
        return rows * self._scale


def _pattern_names(letters: bytes) -> list[str]:
    """The first and last one, two and three bytes of a word: the model was trained on bytes, not letters."""
    names = []
    for length in (1, 2, 3):
        names.append(f"p{length}=" + letters[:length].decode("latin-1"))
        names.append(f"s{length}=" + letters[-length:].decode("latin-1"))
    return names
