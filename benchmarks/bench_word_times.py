"""How exact the times of words are: word starts by the alignment against espeak-ng's own events.

    .venv/bin/python benchmarks/bench_word_times.py [--checkpoint RUN] [--sentences 60] [--json word_times.json]

espeak-ng speaks normalised sentences, and says at which sample each word begins. A model that was trained on such
speech aligns the same audio with the symbols of the text, and the written words get their times from that. Sentences
are those of the generated corpus with a seed that no training uses, and everyday ones with numbers, contractions and
small words that espeak-ng joins.

Without `--checkpoint` a model is trained first: `make-corpus` and `train` with 1,600 clips and 600 steps, minutes on
two cores. A checkpoint must be of a model for English phonemes.

Words which espeak-ng joins to the one before have no event, and are not compared.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
import tensorflow as tf
from common import describe_machine, parser, print_table, write_json

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.corpus.sentences import sentences
from myxtts.corpus.voices import first_voices
from myxtts.inference.speech_plan import PlannedUtterance, plan_speech
from myxtts.inference.word_times import WordTime
from myxtts.models.checkpoint import load_model, read_checkpoint
from myxtts.text import TextSettings, Tokenizer
from myxtts.text.espeak import Espeak
from myxtts.text.markup import parse_markup

SEED = 8_000
EVERYDAY = (
    "It was on the hill that he would have been one of the best of them.",
    "She paid $3.50 for a cup of tea, and it wasn't even hot.",
    "Dr. Smith was in the U.S. for 25 years before he came back to us.",
    "On May 12, 2024 the two of them sat in a box at the theatre.",
    "I'd say it's about 5 km to the end of the road, isn't it?",
    "There is an apple on the table, and a letter for you.",
    "He said that 20% of it was his, so they gave it to him.",
    "Come to the back door at 3:05 p.m., or call me from the road.",
)
LEVEL = 0.07  # root mean square of the corpus
MOST_MEDIAN_MS, MOST_MS, SHARE = 20.0, 50.0, 0.95


@dataclass(frozen=True)
class Comparison:
    """The words of some sentences: milliseconds from espeak-ng's start of each to ours.

    Attributes:
        late: float [n], positive where ours is later.
        written: all words, with those that have no event.
    """

    late: np.ndarray
    written: int

    @property
    def away(self) -> np.ndarray:
        return np.abs(self.late)


def train(folder: Path) -> Path:
    """A model that knows espeak-ng's first voice."""
    corpus, run = folder / "corpus", folder / "run"
    settings = ("--set=warmup_steps=100", "--set=learning_rate=0.002", "--set=num_buckets=4")
    for command in (
        ("make-corpus", corpus, "--clips=1600", "--seed=1"),
        ("train", "--data-path", corpus, "--checkpoint-dir", run, "--device=cpu", "--max-steps=600", *settings),
    ):
        subprocess.run([sys.executable, "-m", "myxtts", *map(str, command), "--quiet"], check=True)
    return run


class Aligner:
    """Finds when the words of a text are spoken in a recording."""

    def __init__(self, checkpoint: Path) -> None:
        read = read_checkpoint(checkpoint)
        self.model = load_model(read)
        self.settings = MelSettings.from_config(read.config.data)
        self.tokenizer = Tokenizer(TextSettings.from_config(read.config.data))
        whole, one = tf.TensorSpec([1, None], tf.int32), tf.TensorSpec([1], tf.int32)
        mel = tf.TensorSpec([1, None, self.settings.n_mels], tf.float32)
        signature = {"tokens": whole, "token_lengths": one, "mel": mel, "mel_lengths": one, "language": one}
        self._align = tf.function(self.model.align, input_signature=[signature], autograph=False)

    def plan(self, text: str) -> PlannedUtterance:
        """How a single sentence is spoken."""
        (planned,) = plan_speech(parse_markup(text, "en"), self.tokenizer).utterances
        return planned

    def words(self, planned: PlannedUtterance, audio: np.ndarray) -> tuple[WordTime, ...]:
        """When the words of a sentence are spoken in a recording, float32 [n] at the model's sample rate."""
        mel = log_mel(audio, self.settings)
        durations = self._align(
            {
                "tokens": planned.tokens[None],
                "token_lengths": np.array([len(planned.tokens)], np.int32),
                "mel": mel[None],
                "mel_lengths": np.array([len(mel)], np.int32),
                "language": np.zeros(1, np.int32),
            }
        ).numpy()[0]
        alignment = np.repeat(np.arange(len(durations)), durations)
        return planned.words(alignment, self.settings.hop_length / self.settings.sample_rate, 0.0)


def compare(aligner: Aligner, texts: Sequence[str]) -> Comparison:
    """Our times of words against espeak-ng's."""
    espeak = Espeak()
    (voice,) = first_voices(1)
    late: list[float] = []
    written = 0
    for text in texts:
        planned = aligner.plan(text)
        spoken, events = espeak.speak_words(planned.text, voice.speaking("en"), voice.rate_wpm, voice.pitch)
        audio = soxr.resample(spoken / 32768, espeak.sample_rate, aligner.settings.sample_rate).astype(np.float32)
        audio *= LEVEL / np.sqrt(np.mean(audio**2))
        ours = {word.first: word.start for word in aligner.words(planned, audio)}
        written += len(ours)
        paragraph = planned.paragraph
        for number, word in enumerate(paragraph.words):
            place = int(np.argmax(paragraph.owners == number))  # where what is said for the word begins
            event = next((event for event in events if event.place == place), None)
            if event is not None and word.first in ours:
                late.append(1000 * (ours[word.first] - event.seconds))
    return Comparison(np.array(late), written)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--checkpoint", type=Path, help="of a model of espeak-ng's speech; default: train one")
    options.add_argument("--sentences", type=int, default=60, help="of the generated corpus; default: 60")
    chosen = options.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as temporary:
        aligner = Aligner(chosen.checkpoint or train(Path(temporary)))
    sets = {"generated": sentences("en", SEED, chosen.sentences), "everyday": EVERYDAY}
    found = {name: compare(aligner, texts) for name, texts in sets.items()}
    found["all"] = Comparison(
        np.concatenate([one.late for one in found.values()]),
        sum(one.written for one in found.values()),
    )
    rows, results = [], {}
    for name, one in found.items():
        median, within = float(np.median(one.away)), float(np.mean(one.away <= MOST_MS))
        results[name] = {
            "words": len(one.late),
            "written": one.written,
            "median_ms": median,
            "share_within_50_ms": within,
            "mean_late_ms": float(one.late.mean()),
        }
        good = "yes" if median <= MOST_MEDIAN_MS and within >= SHARE else "NO"
        rows.append(
            [
                name,
                f"{len(one.late)} of {one.written}",
                f"{median:.1f}",
                f"{within:.1%}",
                f"{one.late.mean():+.1f}",
                good,
            ]
        )
    print_table(
        f"word starts against espeak-ng's events; goal: median at most {MOST_MEDIAN_MS:g} ms, {SHARE:.0%} within "
        f"{MOST_MS:g} ms",
        ("sentences", "words", "median ms", "within 50 ms", "mean late ms", "met"),
        rows,
    )
    write_json(chosen.json, results)


if __name__ == "__main__":
    main()
