"""What the tokenizer makes of the texts of a data set: lengths, failures, unknown symbols.

Phonemes of many texts take longer than everything else that is looked at together, and espeak-ng is one state per
process. So large data sets are shared out among processes, each of which runs `main()` on its part:
`{"config": {…}, "texts": [[text, language, ipa], …]}` on standard input, a `TextReport` as JSON on standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from myxtts.child_program import child_command, child_environment
from myxtts.config.config import DataConfig
from myxtts.data.clips import Clip
from myxtts.errors import MyXTTSError, TextError
from myxtts.text import TextSettings, Tokenizer

_BATCH = 512
# What one process does in about a second; starting another takes a third of that.
_TEXTS_WORTH_A_PROCESS = 3000

Text = tuple[str, str, str | None]  # text, language, IPA


@dataclass
class TextReport:
    """What became of a list of texts.

    Attributes:
        symbols: `graphemes` or `phonemes`.
        counts: tokens of each text, 0 for one that cannot be tokenized.
        failures: reasons, by the text's place in the list.
        unknown: how often each symbol occurs that the symbol table does not have.
        unknown_words: how often each Persian word occurs whose sounds are guessed from its letters.
        ambiguous_words: how often each Persian word occurs of whose readings nothing in its sentence chooses one.
    """

    symbols: str
    counts: list[int] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    unknown_words: Counter[str] = field(default_factory=Counter)
    ambiguous_words: Counter[str] = field(default_factory=Counter)


def inspect_texts(clips: Sequence[Clip], config: DataConfig, workers: int) -> TextReport:
    """Tokenizes the text of every clip, in at most `workers` processes.

    Raises:
        MyXTTSError: a text setting cannot be met (`UsageError`, `TextError`, `MissingExtraError`), or a process
            ended without an answer.
    """
    tokenizer = Tokenizer(TextSettings.from_config(config))
    texts = [(clip.text, clip.language, clip.ipa) for clip in clips]
    parts = min(workers, len(texts) // _TEXTS_WORTH_A_PROCESS)
    if parts < 2:
        return _tokenize(texts, tokenizer)
    size = -(-len(texts) // parts)
    shares = [texts[start : start + size] for start in range(0, len(texts), size)]
    with ThreadPoolExecutor(max_workers=parts) as pool:
        reports = list(pool.map(lambda share: _in_a_process(share, config), shares))
    whole = TextReport(tokenizer.symbols)
    for report in reports:
        whole.failures |= {len(whole.counts) + place: reason for place, reason in report.failures.items()}
        whole.counts += report.counts
        whole.unknown += report.unknown
        whole.unknown_words += report.unknown_words
        whole.ambiguous_words += report.ambiguous_words
    return whole


def main() -> int:
    task = json.load(sys.stdin)
    config = DataConfig(**task["config"])
    report = _tokenize(task["texts"], Tokenizer(TextSettings.from_config(config)))
    json.dump(vars(report), sys.stdout)
    return 0


def _in_a_process(texts: Sequence[Text], config: DataConfig) -> TextReport:
    task = json.dumps({"config": config.model_dump(mode="json"), "texts": texts})
    result = subprocess.run(
        child_command(__name__), input=task, capture_output=True, encoding="utf-8", env=child_environment()
    )
    if result.returncode != 0:
        reason = result.stderr.strip().splitlines() or [f"its process ended with {result.returncode}"]
        raise MyXTTSError(f"the texts of the data set could not be tokenized: {reason[-1]}")
    answer = json.loads(result.stdout)
    failures = {int(place): reason for place, reason in answer["failures"].items()}
    counters = [Counter(answer[name]) for name in ("unknown", "unknown_words", "ambiguous_words")]
    return TextReport(answer["symbols"], answer["counts"], failures, *counters)


def _tokenize(texts: Sequence[Text], tokenizer: Tokenizer) -> TextReport:
    report = TextReport(tokenizer.symbols)
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        unknown = tokenizer.unknown.copy()
        try:
            report.counts += _count(batch, tokenizer)
        except TextError:
            tokenizer.unknown = unknown  # what came before the text that failed would count twice
            for place, text in enumerate(batch, start):
                try:
                    report.counts += _count([text], tokenizer)
                except TextError as error:
                    report.counts.append(0)
                    report.failures[place] = str(error)
    report.unknown = Counter(tokenizer.unknown)
    report.unknown_words = Counter(tokenizer.unknown_words)
    report.ambiguous_words = Counter(tokenizer.ambiguous_words)
    return report


def _count(texts: Sequence[Text], tokenizer: Tokenizer) -> list[int]:
    written, languages, ipas = zip(*texts, strict=True)
    return [len(ids) for ids in tokenizer.encode_batch(written, languages, ipas)]
