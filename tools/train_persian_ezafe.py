"""Makes `ezafe.tsv` and `reference_words.tsv` of `myxtts/text/persian_reading` from sentences with their phonemes.

    .venv/bin/python tools/train_persian_ezafe.py FOLDER [--check]

FOLDER has `ezafe_dev.csv`, `homograph_dev.csv` and `farsdat.csv` of the GE2PE project (MIT; see
`benchmarks/bench_persian.py`). `--check` leaves both files as they are: it trains on nine tenths of the sentences and
measures on the tenth that is left out, ten times, which is what to expect of sentences that were not seen. Sentences
that share many words go into the same tenth.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from bench_persian import ReferenceWord, align, read_reference, score, sounds_of

from myxtts.text import normalize
from myxtts.text.espeak import Espeak
from myxtts.text.persian_reading import reader as reader_module
from myxtts.text.persian_reading.ezafe import CERTAIN, ezafe_log_odds, features, train
from myxtts.text.persian_reading.reader import PersianReader, ReadWord, Token
from myxtts.text.persian_reading.sounds import plain_sounds, with_single_end
from myxtts.text.words import tokens

_TARGET = Path(reader_module.__file__).parent
_NAMES = ("ezafe_dev", "homograph_dev", "farsdat")
_FOLDS = 10
_PENALTY, _FEWEST = 3.0, 3
# FarsDat is news; sentences of the other two files, fewer and harder, count as often.
_REPEATED = {"ezafe_dev": 3, "homograph_dev": 3, "farsdat": 1}
_SHARED_WORDS = 0.4
_LETTERS = {"C": "tʃ", "J": "dʒ"}

Row = tuple[list[str], float, bool]  # features, the tagger's odds, whether there is an ezafe
Sentence = tuple[str, list[Token], list[ReferenceWord]]  # the file, its words and marks, what is said


def tokens_of(text: str) -> list[Token]:
    found = tokens("fa").finditer(normalize(text, "fa"))
    return [(match.group(), match.lastgroup == "word") for match in found if not match.group().isspace()]


def folds(sentences: Sequence[Sentence]) -> list[int]:
    """The tenth that each sentence belongs to."""
    groups: list[tuple[frozenset[str], int]] = []
    result = []
    for name, found, _ in sentences:
        words = frozenset(text for text, is_word in found if is_word)
        same = (
            ()
            if name == "farsdat"
            else (number for other, number in groups if len(words & other) > _SHARED_WORDS * len(words | other))
        )
        number = next(iter(same), len(groups))
        groups.append((words, number))
        result.append(number % _FOLDS)
    return result


def ezafe_rows(reader: PersianReader, sentences: Sequence[Sentence]) -> list[list[Row]]:
    """For each sentence the features, the tagger's odds and the truth of its words that the tagger is not sure of."""
    tagger = reader._tables.tagger
    result = []
    for (_, found, expected), read in zip(sentences, reader.read([found for _, found, _ in sentences]), strict=True):
        words = reader._units(found)
        probabilities = tagger.probabilities([[*words, "."]])[0]
        tags = [tagger.labels[number] for number in probabilities.argmax(axis=1)]
        odds = ezafe_log_odds(probabilities, tagger.labels)
        groups = iter(align([sounds_of(word.ipa) for word in read], expected))
        rows = []
        place = -1
        for text, is_word in found:
            group = next(groups) if is_word else []
            place += len(reader._form(text).parts) if is_word else 1
            if group and abs(odds[place]) < CERTAIN:
                rows.append((features([*words, "."], tags, place), float(odds[place]), group[-1].ezafe))
        result.append(rows)
    return result


def reference_words(reader: PersianReader, sentences: Sequence[Sentence]) -> dict[str, str]:
    """Words that the references agree on and that are read otherwise: their sounds."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for (_, _, expected), read in zip(sentences, reader.read([found for _, found, _ in sentences]), strict=True):
        for said, group in zip(read, align([sounds_of(word.ipa) for word in read], expected), strict=True):
            if len(group) == 1:
                seen[reader_module._written_ezafe(said.written)[1]][_bare(group[0])] += 1
    result = {}
    for word, counts in seen.items():
        entry = reader._entry(word)
        sounds, count = counts.most_common(1)[0]
        ipa = "".join(_LETTERS.get(letter, letter) for letter in sounds)
        usual = with_single_end(entry.sounds)
        same_length = abs(len(ipa) - len(usual)) <= 2
        if entry.why != "espeak-ng" or count < 2 or count < 0.75 * counts.total() or not same_length:
            continue
        if with_single_end(ipa) != usual and len(word) > 2 and not word.endswith(("ای", "وی")):
            result[word] = plain_sounds(ipa)
    return result


def _bare(word: ReferenceWord) -> str:
    if not word.ezafe:
        return word.sounds
    return word.sounds[:-2] if word.sounds.endswith(("ɑje", "uje", "oje", "eje", "ije")) else word.sounds[:-1]


def repeated(sentences: Sequence[Sentence], rows: Sequence[Sequence[Row]], chosen: Iterable[int]) -> list[Row]:
    return [row for number in chosen for row in rows[number] for _ in range(_REPEATED[sentences[number][0]])]


def write(path: Path, header: str, pairs: Mapping[str, object]) -> None:
    lines = [f"# {line}" for line in header.splitlines()]
    lines += [f"{name}\t{value}" for name, value in sorted(pairs.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_model(weights: Mapping[str, float]) -> None:
    kept = {name: f"{weight:.3f}" for name, weight in weights.items() if abs(weight) >= 0.01 or name == "tagger"}
    write(_TARGET / "ezafe.tsv", "Weights of the ezafe model, made by tools/train_persian_ezafe.py.", kept)


def write_words(words: Mapping[str, str]) -> None:
    header = "Words as FarsDat's and GE2PE's references (MIT) say them, where espeak-ng says something else.\n"
    write(_TARGET / "reference_words.tsv", header + "Made by tools/train_persian_ezafe.py.", words)


def fresh_reader(espeak: Espeak) -> PersianReader:
    reader_module._tables.cache_clear()
    return PersianReader(espeak, None)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--check", action="store_true", help="measure on sentences that were left out")
    options = arguments.parse_args()
    sentences: list[Sentence] = []
    for name in _NAMES:
        for text, expected in read_reference(options.folder / f"{name}.csv"):
            sentences.append((name, tokens_of(text), expected))
    # The reader finds its tables in these files, so every trial is written there. What was there before comes back,
    # unless all went well.
    before = {path: path.read_bytes() for path in (_TARGET / "ezafe.tsv", _TARGET / "reference_words.tsv")}
    try:
        make(sentences, options.check)
        if not options.check:
            before.clear()
    finally:
        for path, content in before.items():
            path.write_bytes(content)


def make(sentences: Sequence[Sentence], only_check: bool) -> None:
    espeak = Espeak()
    write_words({})
    write_model({"tagger": 1.0})
    rows = ezafe_rows(fresh_reader(espeak), sentences)
    if only_check:
        check(espeak, sentences, rows)
        return
    words = reference_words(fresh_reader(espeak), sentences)
    weights = train(repeated(sentences, rows, range(len(rows))), _PENALTY, _FEWEST)
    write_words(words)
    write_model(weights)
    print(f"{len(words):,} words, {len(weights):,} weights from {sum(map(len, rows)):,} words")


def check(espeak: Espeak, sentences: Sequence[Sentence], rows: Sequence[Sequence[Row]]) -> None:
    parts = folds(sentences)
    read: dict[int, list[ReadWord]] = {}
    for part in range(_FOLDS):
        inside = [number for number, other in enumerate(parts) if other != part]
        outside = [number for number, other in enumerate(parts) if other == part]
        write_words({})
        write_model(train(repeated(sentences, rows, inside), _PENALTY, _FEWEST))
        write_words(reference_words(fresh_reader(espeak), [sentences[number] for number in inside]))
        found = fresh_reader(espeak).read([sentences[number][1] for number in outside])
        read.update(zip(outside, found, strict=True))
    for name in _NAMES:
        chosen = [number for number, (file, _, _) in enumerate(sentences) if file == name]
        figures = score(
            "left out",
            [[vars(word) for word in read[number]] for number in chosen],
            [("", sentences[number][2]) for number in chosen],
        )
        print(name, {key: round(value, 4) for key, value in figures.items() if isinstance(value, float)})


if __name__ == "__main__":
    main()
