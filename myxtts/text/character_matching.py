"""Which part of a text each character of another spelling of it comes from.

A text and its parts go through the same function (normalising, phonemising), the text as a whole and the parts one
by one. Both results are nearly the same: words change a little beside each other ("the apple"), are joined ("on
the" is one word of espeak-ng) or written out ("$5" before "million"). Dynamic programming over characters finds the
cheapest way to change one into the other, and with it the part of every character.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

# Up to this many cells, the whole table is computed: 16 MB for a moment. Beyond, words that occur only once in both
# are matched first, and what is left between them without such a word is spread evenly.
_MOST_CELLS = 2_000_000
_CELLS_WITHOUT_ANCHORS = 200_000

_VOWELS = frozenset("aeiouyæøœɨʉɯɪʏʊɘɵɤəɛɜɞʌɔɐɶɑɒɚɝᵻàáâãäåèéêëìíîïòóôõöùúûüāēīōūаеёиоуыэюяاوی")
_FLAPPED = frozenset("tdɾ")  # the sounds that American English makes one between vowels
_MARKS = frozenset("ˈˌːˑ")
_BEFORE_THEIR_SOUND = frozenset("ˈˌ")
_NEVER = 9.0


def match_parts(
    parts: Sequence[str],
    whole: str,
    *,
    certain: Sequence[bool] | None = None,
    spaced: bool = True,
    whole_words: bool = False,
) -> np.ndarray:
    """The part that each character of `whole` comes from: int32 [len(whole)], never falling; -1 without parts.

    Args:
        parts: the parts, each by itself; an empty one owns nothing.
        whole: all of them together.
        certain: for each part whether it should be found again as it is; None: all are equal in this.
        spaced: a space stands between the parts in `whole`, at least most of the time.
        whole_words: a word of `whole` has one owner, unless it is plainly made of several parts.
    """
    source, owner = _joined(parts, " " if spaced else "")
    if not source:
        return np.full(len(whole), -1, np.int32)
    weights = np.ones(len(source))
    if certain is not None:
        weights += np.asarray(certain, float)[owner]
    places = _match(_lower(source), _lower(whole), weights)
    found = [
        owner[place] if place >= 0 and not character.isspace() else -1
        for character, place in zip(whole, places, strict=True)
    ]
    equal = _equal_counts(source, whole, places, owner, len(parts))
    share = [count / max(len(part), 1) for count, part in zip(equal, parts, strict=True)]
    words = _words(whole)
    if whole_words:
        _give_words_one_owner(whole, words, found, places, owner, source, parts)
    _fill(whole, words, found, share)
    return np.maximum.accumulate(np.asarray(found, np.int32))


def _joined(parts: Sequence[str], separator: str) -> tuple[str, list[int]]:
    """The parts as one text, and the part of each of its characters."""
    texts: list[str] = []
    owner: list[int] = []
    for number, part in enumerate(parts):
        if part:
            texts.append(part + separator)
            owner += [number] * len(texts[-1])
    return "".join(texts), owner


def _lower(text: str) -> str:
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := character.lower()) == 1 else character for character in text)


def _words(text: str) -> list[tuple[int, int]]:
    """Where the words between spaces begin and end."""
    words, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        words.append((start, start + len(word)))
        start += len(word)
    return words


def _equal_counts(source: str, whole: str, places: Sequence[int], owner: Sequence[int], parts: int) -> list[int]:
    """How many characters of each part are found again unchanged."""
    counts = [0] * parts
    for character, place in zip(whole, places, strict=True):
        if place >= 0 and not character.isspace() and character.lower() == source[place].lower():
            counts[owner[place]] += 1
    return counts


def _give_words_one_owner(
    whole: str,
    words: Sequence[tuple[int, int]],
    found: list[int],
    places: Sequence[int],
    owner: Sequence[int],
    source: str,
    parts: Sequence[str],
) -> None:
    for start, stop in words:
        owners = {number for number in found[start:stop] if number >= 0}
        if len(owners) < 2:
            continue
        equal = _equal_counts(source, whole[start:stop], places[start:stop], owner, len(parts))
        if all(2 * equal[number] >= len(parts[number]) for number in owners):
            continue
        best = max(sorted(owners), key=lambda number: equal[number])
        found[start:stop] = [best] * (stop - start)


def _fill(whole: str, words: Sequence[tuple[int, int]], found: list[int], share: Sequence[float]) -> None:
    """Gives what came from nowhere to a neighbour: inside its word, else to the part that changed more."""
    for start, stop in words:
        for first, last in _runs_without_owner(found, start, stop):
            before = found[first - 1] if first > start else -1
            after = found[last] if last < stop else -1
            if before >= 0 or after >= 0:
                found[first:last] = [_one_of(before, after, share)] * (last - first)
    for first, last in _runs_without_owner(found, 0, len(found)):
        before = found[first - 1] if first else -1
        after = found[last] if last < len(found) else -1
        chosen = before if before >= 0 and whole[first:last].isspace() else _one_of(before, after, share)
        found[first:last] = [chosen] * (last - first)
    for place in range(len(whole) - 2, -1, -1):
        if whole[place] in _BEFORE_THEIR_SOUND and not whole[place + 1].isspace():
            found[place] = found[place + 1]


def _one_of(before: int, after: int, share: Sequence[float]) -> int:
    if before < 0 or after < 0:
        return max(before, after)
    return after if share[after] < share[before] else before


def _runs_without_owner(found: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int]]:
    place = start
    while place < stop:
        if found[place] >= 0:
            place += 1
            continue
        first = place
        while place < stop and found[place] < 0:
            place += 1
        yield first, place


def _match(source: str, whole: str, weights: np.ndarray) -> list[int]:
    """For each character of `whole` the place in `source` that it stands for, or -1.

    Args:
        source: one text.
        whole: the other.
        weights: [len(source)], how costly it is to leave out each of its characters.
    """
    places = [-1] * len(whole)
    open_parts = [(0, len(source), 0, len(whole))]
    while open_parts:
        first, last, start, stop = open_parts.pop()
        while first < last and start < stop and source[first] == whole[start]:
            places[start] = first
            first, start = first + 1, start + 1
        while first < last and start < stop and source[last - 1] == whole[stop - 1]:
            last, stop = last - 1, stop - 1
            places[stop] = last
        if first == last or start == stop:
            continue
        cells = (last - first) * (stop - start)
        anchors = _anchors(source[first:last], whole[start:stop]) if cells > _CELLS_WITHOUT_ANCHORS else []
        if anchors:
            at, there = first, start
            for in_source, in_whole, length in anchors:
                place, target = first + in_source, start + in_whole
                places[target : target + length] = range(place, place + length)
                open_parts.append((at, place, there, target))
                at, there = place + length, target + length
            open_parts.append((at, last, there, stop))
        elif cells <= _MOST_CELLS:
            found = _cheapest(source[first:last], whole[start:stop], weights[first:last])
            places[start:stop] = [first + place if place >= 0 else -1 for place in found]
        else:
            spread = np.linspace(first, last - 1, stop - start).astype(int)
            places[start:stop] = spread.tolist()
    return places


def _anchors(source: str, whole: str) -> list[tuple[int, int, int]]:
    """Words that occur once in both texts, in the longest series that has the same order: place, place, length."""
    in_source = {source[first:last]: first for first, last in _words(source)}
    once_in_source, once_in_whole = (Counter(text.split()) for text in (source, whole))
    common = [
        (start, in_source[word], word)
        for start, stop in _words(whole)
        if once_in_whole[word := whole[start:stop]] == 1 and once_in_source[word] == 1
    ]
    # The longest rising series of places in the source, which `common` has in the order of `whole`.
    ends: list[int] = []
    ending: list[int] = []
    previous: list[int] = []
    for number, (_, place, _) in enumerate(common):
        length = bisect.bisect_left(ends, place)
        previous.append(ending[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        ending[length : length + 1] = [number]
    chosen = []
    number = ending[-1] if ending else -1
    while number >= 0:
        start, place, word = common[number]
        chosen.append((place, start, len(word)))
        number = previous[number]
    return chosen[::-1]


def _cheapest(source: str, whole: str, weights: np.ndarray) -> list[int]:
    """The places in `source` of the characters of `whole` under the cheapest change of one into the other."""
    left, right = _Characters(source), _Characters(whole)
    left_out = left.cost * weights
    # Little less than leaving out one character and adding the other: what is equal decides.
    change = np.where(left.vowel[:, None] == right.vowel[None, :], 1.7, 1.9)
    change[left.flapped[:, None] & right.flapped[None, :]] = 1.0
    change[left.fixed[:, None] | right.fixed[None, :]] = _NEVER
    change[left.codes[:, None] == right.codes[None, :]] = 0.0
    added = np.concatenate([[0.0], np.cumsum(right.cost)])
    table = np.empty((len(source) + 1, len(whole) + 1))
    table[0] = added
    for row in range(1, len(table)):
        above = table[row - 1]
        best = above + left_out[row - 1]
        np.minimum(best[1:], above[:-1] + change[row - 1], out=best[1:])
        table[row] = np.minimum.accumulate(best - added) + added

    places = [-1] * len(whole)
    row, column = len(source), len(whole)
    while row and column:
        here = table[row, column]
        if abs(table[row - 1, column - 1] + change[row - 1, column - 1] - here) < 1e-6:
            row, column = row - 1, column - 1
            places[column] = row
        elif abs(table[row - 1, column] + left_out[row - 1] - here) < 1e-6:
            row -= 1
        else:
            column -= 1
    return places


class _Characters:
    """What the costs depend on: the characters of a text, as arrays [len(text)]."""

    def __init__(self, text: str) -> None:
        self.codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        self.vowel = np.array([character in _VOWELS for character in text])
        self.flapped = np.array([character in _FLAPPED for character in text])
        marks = np.array([character in _MARKS for character in text])
        spaces = np.array([character.isspace() for character in text])
        self.fixed = marks | spaces  # these come and go, and never stand for another character
        self.cost = np.where(marks, 0.1, np.where(spaces, 0.3, 1.0))
