"""How many sentences a second become symbols: in bulk and one at a time, normalising and phonemising apart.

    .venv/bin/python benchmarks/bench_text.py [--text-file sentences.txt] [--language en] [--json text.json]

Without `--text-file` the sentences are generated. Every row does the same sentences in one process, except the
process per sentence, which does a few. "espeak-ng alone" is the limit: the bare library called from Python for
each sentence, punctuation lost. If the package `phonemizer` is installed, it is measured as the peer, with the
same library and punctuation kept. The bound: LJSpeech's 13,100 sentences in seconds.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import describe_machine, parser, print_table, write_json

from myxtts.corpus.sentences import sentences
from myxtts.text import TextSettings, Tokenizer, normalize
from myxtts.text.espeak import VOICES, Espeak

REPEATS = 3
PROCESSES = 10


def rate(count: int, work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Sentences per second, the best of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return count / best


def process_per_sentence(texts: list[str], language: str) -> None:
    program = "import sys; from myxtts.text.espeak import Espeak; Espeak().phonemes([sys.argv[1]], sys.argv[2])"
    for text in texts:
        subprocess.run([sys.executable, "-c", program, text, language], check=True)


def peer(texts: list[str], language: str) -> Callable[[], object] | None:
    """`phonemizer` on the same espeak-ng, or None where it is not installed."""
    try:
        import espeakng_loader
        from phonemizer.backend import EspeakBackend
        from phonemizer.backend.espeak.wrapper import EspeakWrapper
    except ImportError:
        return None
    EspeakWrapper.set_library(espeakng_loader.get_library_path())
    EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    backend = EspeakBackend(
        VOICES.get(language, language), preserve_punctuation=True, with_stress=True, language_switch="remove-flags"
    )
    return lambda: backend.phonemize(texts)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--text-file", type=Path, help="one sentence a line")
    arguments.add_argument("--language", default="en")
    arguments.add_argument("--sentences", type=int, default=3000, help="how many to generate")
    options = arguments.parse_args()
    language = options.language
    if options.text_file:
        written = options.text_file.read_text(encoding="utf-8").splitlines()
    else:
        written = sentences(language, seed=1, count=options.sentences)
    count = len(written)
    languages = [language] * count

    phonemes = Tokenizer(TextSettings(symbols="phonemes"))
    letters = Tokenizer(TextSettings(symbols="graphemes"))
    espeak = Espeak()
    phonemes.encode(written[0], language)
    normalized = [normalize(text, language) for text in written]

    measured: list[tuple[str, float]] = [
        ("normalise", rate(count, lambda: [normalize(text, language) for text in written])),
        ("phonemise, in bulk", rate(count, lambda: phonemes.transcribe(normalized, language))),
        (
            "phonemise, one at a time",
            rate(count, lambda: [phonemes.transcribe([text], language) for text in normalized]),
        ),
        ("espeak-ng alone (limit)", rate(count, lambda: espeak.phonemes(normalized, language))),
        ("text to ids, phonemes, in bulk", rate(count, lambda: phonemes.encode_batch(written, languages))),
        (
            "text to ids, phonemes, one at a time",
            rate(count, lambda: [phonemes.encode(text, language) for text in written]),
        ),
        ("text to ids, graphemes, in bulk", rate(count, lambda: letters.encode_batch(written, languages))),
    ]
    with_peer = peer(normalized, language)
    if with_peer is not None:
        measured.append(("phonemizer package, in bulk", rate(count, with_peer, repeats=1)))
    few = normalized[:PROCESSES]
    measured.append(
        ("phonemise, a process per sentence", rate(len(few), lambda: process_per_sentence(few, language), repeats=1))
    )

    base = dict(measured)["phonemise, in bulk"]
    print(describe_machine())
    print_table(
        f"{count:,} sentences ({language}), espeak-ng {espeak.version}",
        ("what", "sentences/s", "all of them, s", "ratio"),
        [(name, f"{value:,.0f}", f"{count / value:,.2f}", f"{value / base:.3g}") for name, value in measured],
    )
    results: dict[str, Any] = {
        "sentences": count,
        "language": language,
        "espeak_ng": espeak.version,
        "sentences_per_second": dict(measured),
    }
    write_json(options.json, results)


if __name__ == "__main__":
    main()
