"""Persian: ezafe, homographs and phoneme errors of our front end and of espeak-ng alone, in one run.

    .venv/bin/python benchmarks/bench_persian.py --data FOLDER [--g2p MODEL] [--json persian.json]

FOLDER has `ezafe_dev.csv`, `homograph_dev.csv` and `farsdat.csv` of the GE2PE project (MIT): a sentence and its
phonemes, `e1` at the end of a word for an ezafe and `2` for the homograph in question. A file that is not there is
left out.

Both sides are compared in one alphabet without stress, vowel length and the glottal stop before the first vowel of a
word, which espeak-ng does not write either. "several readings" are all words of our table of readings whose
reference is one of them. A word of the text is one or several words of the phonemes
(«به‌عنوان» is two), so that words are aligned by least edit distance first. Stress marks have no reference here.

`--g2p MODEL` compares guesses of words that none of our lists has: espeak-ng's, and those of `g2p/model.crf` in the
PyPI package gruut-lang-fa 2.0.1 (MIT; needs `pip install python-crfsuite`). Words of the package's own lexicon, which
the model was trained on, are left out.

Speed is sentences per second of processor time, so that other work on the machine matters little.
"""

from __future__ import annotations

import base64
import csv
import importlib.util
import re
import sqlite3
import time
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import describe_machine, parser, print_table, write_json

from myxtts.corpus.sentences import sentences as generated_sentences
from myxtts.text import TextSettings, Tokenizer, normalize
from myxtts.text.espeak import Espeak
from myxtts.text.lexicon import Lexicon
from myxtts.text.persian_reading.reader import READINGS, PersianReader
from myxtts.text.persian_reading.sounds import plain_sounds

# The alphabets of the files, as ours.
_FARSDAT = str.maketrans(
    {"]": "ʔ", ".": "ʃ", ",": "J", "'": "C", "/": "ɑ", "[": "ʒ", "y": "j", "g": "ɡ", "-": None, "\\": None}
)
_DEVELOPMENT = str.maketrans(
    {"@": "ʔ", "/": "a", "a": "ɑ", "$": "ʃ", "c": "C", "j": "J", ";": "ʒ", "y": "j", "g": "ɡ"}
)
_GRUUT = str.maketrans({"æ": "a", "ɒ": "ɑ", "ɾ": "r", "g": "ɡ", "ɢ": "q", "\u031e": None, "\u0361": None, "ː": None})
_NOT_A_SOUND = re.compile("[ˈˌː.,;:!?…—'\"()-]")
_WIDEST_SHIFT = 8
_MOST_PARTS = 4


@dataclass(frozen=True)
class ReferenceWord:
    """A word of a reference: its sounds, whether it carries an ezafe, whether it is the homograph in question."""

    sounds: str
    ezafe: bool
    asked: bool


def sounds_of(ipa: str) -> str:
    """Our or espeak-ng's IPA of a word, one letter a sound."""
    plain = _NOT_A_SOUND.sub("", ipa).replace("tʃ", "C").replace("dʒ", "J").replace("ɣ", "q").replace("ɢ", "q")
    return plain.removeprefix("ʔ")


def read_reference(path: Path) -> list[tuple[str, list[ReferenceWord]]]:
    alphabet = _FARSDAT if path.name == "farsdat.csv" else _DEVELOPMENT
    result = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            words = []
            for written in row["Phoneme"].split():
                ezafe, asked = "e1" in written, "2" in written
                sounds = re.sub("[0-9]", "", written).translate(alphabet).removeprefix("ʔ")
                if ezafe and sounds.endswith("ie"):
                    sounds = sounds[:-1] + "je"
                if sounds:
                    words.append(ReferenceWord(sounds, ezafe, asked))
            result.append((row["Grapheme"], words))
    return result


def edit_distance(first: str, second: str) -> int:
    """The least number of sounds to add, remove or replace (Myers' bit-parallel form)."""
    if not first or not second:
        return len(first) + len(second)
    masks: dict[str, int] = {}
    for place, sound in enumerate(first):
        masks[sound] = masks.get(sound, 0) | 1 << place
    full, last, distance = (1 << len(first)) - 1, 1 << (len(first) - 1), len(first)
    plus, minus = full, 0
    for sound in second:
        equal = masks.get(sound, 0)
        diagonal = (((equal & plus) + plus) ^ plus) | equal | minus
        up = minus | ~(diagonal | plus)
        down = plus & diagonal
        distance += bool(up & last) - bool(down & last)
        up = (up << 1) | 1
        plus = ((down << 1) | ~(diagonal | up)) & full
        minus = up & diagonal & full
    return distance


def align(words: list[str], reference: list[ReferenceWord]) -> list[list[ReferenceWord]]:
    """For each word the words of the reference that it is, none to four."""
    if len(words) == len(reference):
        single = [[word] for word in reference]
        distance = sum(edit_distance(word, other.sounds) for word, other in zip(words, reference, strict=True))
        if distance <= 0.25 * sum(map(len, words)):
            return single
    best: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (0, 0)}
    for place in range(len(words)):
        centre = round(place * len(reference) / len(words))
        for start in range(max(0, centre - _WIDEST_SHIFT), min(len(reference), centre + _WIDEST_SHIFT) + 1):
            if (place, start) not in best:
                continue
            before = best[place, start][0]
            for parts in range(_MOST_PARTS + 1):
                end = start + parts
                if end > len(reference):
                    break
                cost = before + edit_distance(words[place], "".join(word.sounds for word in reference[start:end]))
                if (place + 1, end) not in best or cost < best[place + 1, end][0]:
                    best[place + 1, end] = (cost, parts)
    end = max((end for place, end in best if place == len(words)), default=0)
    groups: list[list[ReferenceWord]] = []
    for place in range(len(words), 0, -1):
        parts = best[place, end][1]
        groups.append(reference[end - parts : end])
        end -= parts
    return groups[::-1]


def score(
    name: str, read: list[list[dict[str, Any]]], reference: list[tuple[str, list[ReferenceWord]]]
) -> dict[str, Any]:
    """Figures of one front end on one file; `read` has the words of each sentence."""
    hits = said = wanted = asked = right = right_but_ezafe = wrong_sounds = sounds = several = chosen = 0
    table = Lexicon(READINGS, "fa", normalized=True)
    for words, (_, expected) in zip(read, reference, strict=True):
        spoken = [sounds_of(word["ipa"]) for word in words]
        whole = "".join(word.sounds for word in expected)
        wrong_sounds += edit_distance("".join(spoken), whole)
        sounds += len(whole)
        for word, ipa, group in zip(words, spoken, align(spoken, expected), strict=True):
            ezafe = bool(group) and group[-1].ezafe
            hits += word["ezafe"] and ezafe
            said += word["ezafe"]
            wanted += ezafe
            readings = {_single_end(sounds_of(reading.ipa)) for reading in table.readings(word["written"])}
            if len(group) == 1 and len(readings) > 1 and (wish := _without_ezafe(group[0].sounds, ezafe)) in readings:
                several += 1
                chosen += _without_ezafe(ipa, word["ezafe"]) == wish
            if any(part.asked for part in group):
                asked += 1
                target = "".join(part.sounds for part in group)
                right += ipa == target
                right_but_ezafe += _without_ezafe(ipa, word["ezafe"]) == _without_ezafe(target, ezafe)
    precision, recall = hits / max(said, 1), hits / max(wanted, 1)
    return {
        "front end": name,
        "sentences": len(reference),
        "ezafe precision": precision,
        "ezafe recall": recall,
        "ezafe F1": 2 * precision * recall / max(precision + recall, 1e-9),
        "homographs": asked,
        "homograph accuracy": right_but_ezafe / asked if asked else None,
        "homograph accuracy with its ezafe": right / asked if asked else None,
        "words with several readings": several,
        "accuracy of words with several readings": chosen / several if several else None,
        "phoneme error rate": wrong_sounds / max(sounds, 1),
    }


def _without_ezafe(sounds: str, ezafe: bool) -> str:
    if not ezafe:
        return _single_end(sounds)
    return _single_end(sounds[:-2] if sounds.endswith(("ɑje", "uje", "oje", "eje", "ije")) else sounds[:-1])


def _single_end(sounds: str) -> str:
    # A double consonant is heard only before a vowel: «سمّ» is /sam/ alone, /samme/ with its ezafe.
    return sounds[:-1] if len(sounds) > 1 and sounds[-1] == sounds[-2] else sounds


def read_by_espeak(texts: list[str]) -> list[list[dict[str, Any]]]:
    """espeak-ng word by word, which is how it reads Persian sentences too but for the stress."""
    espeak = Espeak()
    result = []
    for text in texts:
        words = [word for word in re.split(r"[\s،؛؟.!:«»()\"…—]+", normalize(text, "fa")) if word]
        spoken = espeak.phonemes(words, "fa")
        result.append(
            [{"written": word, "ipa": ipa, "ezafe": _is_ezafe(word)} for word, ipa in zip(words, spoken, strict=True)]
        )
    return result


def _is_ezafe(word: str) -> bool:
    """An ezafe that the author wrote: espeak-ng says these."""
    return word.endswith(("\u0650", "\u0654", "های"))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, help="folder with the reference files")
    arguments.add_argument("--g2p", type=Path, metavar="MODEL", help="compare guesses of unknown words instead")
    arguments.add_argument("--sentences", type=int, default=3000, help="how many to generate for the speed")
    arguments.add_argument("--errors", action="store_true", help="list what is wrong instead")
    options = arguments.parse_args()
    tokenizer = Tokenizer(TextSettings(symbols="phonemes"))
    results: dict[str, Any] = {}
    print(describe_machine())
    if options.g2p:
        if not options.data or not options.g2p.is_file() or importlib.util.find_spec("pycrfsuite") is None:
            arguments.error("--g2p needs --data, a file that exists, and pip install python-crfsuite")
        paths = sorted(options.data.glob("*.csv"))
        write_json(
            options.json, compare_guesses(options.g2p, [row for path in paths for row in read_reference(path)])
        )
        return
    for name in ("ezafe_dev", "homograph_dev", "farsdat"):
        path = options.data / f"{name}.csv" if options.data else None
        if path is None or not path.is_file():
            continue
        reference = read_reference(path)
        texts = [text for text, _ in reference]
        read = tokenizer.words([normalize(text, "fa") for text in texts], "fa")
        ours = [[vars(word) for word in words] for words in read]
        if options.errors:
            list_errors(texts, ours, reference)
            continue
        rows = [score("espeak-ng alone", read_by_espeak(texts), reference), score("MyXTTS", ours, reference)]
        results[name] = rows
        print_table(
            f"{name}: {len(reference)} sentences",
            ("front end", "ezafe precision", "recall", "F1", "homographs", "several readings", "phoneme error rate"),
            [
                (
                    row["front end"],
                    f"{row['ezafe precision']:.3f}",
                    f"{row['ezafe recall']:.3f}",
                    f"{row['ezafe F1']:.3f}",
                    "" if row["homograph accuracy"] is None else f"{row['homograph accuracy']:.1%}",
                    f"{row['accuracy of words with several readings']:.1%} of {row['words with several readings']}",
                    f"{row['phoneme error rate']:.2%}",
                )
                for row in rows
            ],
        )
    if options.errors:
        return
    results["sentences_per_second"] = measure_speed(tokenizer, options.sentences)
    write_json(options.json, results)


def list_errors(
    texts: list[str], read: list[list[dict[str, Any]]], reference: list[tuple[str, list[ReferenceWord]]]
) -> None:
    for text, words, (_, expected) in zip(texts, read, reference, strict=True):
        spoken = [sounds_of(word["ipa"]) for word in words]
        for word, ipa, group in zip(words, spoken, align(spoken, expected), strict=True):
            target = "".join(part.sounds for part in group)
            if target != ipa:
                asked = "2" if any(part.asked for part in group) else ""
                print("\t".join((word["written"], ipa, target, asked, word.get("why", ""), text)))


def compare_guesses(model: Path, references: list[tuple[str, list[ReferenceWord]]]) -> dict[str, Any]:
    """espeak-ng's and a CRF's sounds of words that are in no list: how many are right, and the phoneme error rate."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(str(model))
    lexicon = sqlite3.connect(model.parents[1] / "lexicon.db")
    reader = PersianReader(Espeak(), None)
    texts = Tokenizer(TextSettings(symbols="phonemes")).words([normalize(text, "fa") for text, _ in references], "fa")
    seen: dict[str, Counter[str]] = {}
    for words, (_, expected) in zip(texts, references, strict=True):
        for said, group in zip(words, align([sounds_of(word.ipa) for word in words], expected), strict=True):
            if len(group) == 1 and said.why == "espeak-ng" and not _is_ezafe(said.written):
                seen.setdefault(said.written, Counter())[_without_ezafe(group[0].sounds, group[0].ezafe)] += 1
    figures = {name: [0, 0, 0] for name in ("espeak-ng", "CRF")}
    count = 0
    for word, sounds in seen.items():
        letters = word.replace("\u200c", "")
        if lexicon.execute("select 1 from word_phonemes where word in (?, ?)", (word, letters)).fetchone():
            continue
        count += 1
        labels = tagger.tag([_letter_features(letters, place) for place in range(len(letters))])
        phonemes = "".join(base64.b64decode(label).decode() for label in labels).replace("_", "").replace("|", "")
        ipa = unicodedata.normalize("NFD", phonemes).translate(_GRUUT)
        target = sounds.most_common(1)[0][0]
        for name, guess in (("espeak-ng", reader.guess(word)), ("CRF", plain_sounds(ipa))):
            guessed = _single_end(sounds_of(guess))
            figures[name][0] += guessed == target
            figures[name][1] += edit_distance(guessed, target)
            figures[name][2] += len(target)
    results = {
        name: {"words right": right / count, "phoneme error rate": wrong / total}
        for name, (right, wrong, total) in figures.items()
    }
    print_table(
        f"{count:,} words in no list",
        ("guess", "words right", "phoneme error rate"),
        [(name, f"{row['words right']:.1%}", f"{row['phoneme error rate']:.2%}") for name, row in results.items()],
    )
    return {"words": count, **results}


def _letter_features(word: str, place: int) -> dict[str, Any]:
    """What gruut gives its model of a letter: it, and three letters before it and after it."""
    found: dict[str, Any] = {"bias": 1.0}
    for shift in range(-3, 4):
        if 0 <= place + shift < len(word):
            name = f"grapheme{shift:+d}" if shift else "grapheme"
            found[name] = base64.b64encode(word[place + shift].encode()).decode()
    return found | {name: True for name, edge in (("begin", 0), ("end", len(word) - 1)) if place == edge}


def measure_speed(tokenizer: Tokenizer, count: int) -> dict[str, float]:
    texts = [normalize(text, "fa") for text in generated_sentences("fa", seed=1, count=count)]
    espeak = Espeak()
    measured = {}
    for name, work in (
        ("MyXTTS, with espeak-ng for each new word", lambda: tokenizer.transcribe(texts, "fa")),
        ("MyXTTS, its reader alone (words known)", lambda: tokenizer.words(texts, "fa")),
        ("MyXTTS, from the text to ids", lambda: tokenizer.encode_batch(texts, ["fa"] * len(texts))),
        ("espeak-ng alone", lambda: espeak.phonemes(texts, "fa")),
    ):
        start = time.process_time()
        work()
        measured[name] = len(texts) / (time.process_time() - start)
    print_table(
        f"{len(texts):,} generated sentences",
        ("what", "sentences/s"),
        [(name, f"{rate:,.0f}") for name, rate in measured.items()],
    )
    return measured


if __name__ == "__main__":
    main()
