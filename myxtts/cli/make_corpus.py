"""`myxtts make-corpus`: generate a data set with espeak-ng."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from myxtts.cli.options import command
from myxtts.cli.output import duration_text, emit, progress, say


@command()
def make_corpus(
    out: Annotated[Path, typer.Argument(help="Folder of the corpus: new, empty, or one to complete.")],
    clips: Annotated[
        int | None, typer.Option(min=1, help="Number of clips; default: 200, or one per line of the text file.")
    ] = None,
    speakers: Annotated[int, typer.Option(min=1, help="Number of voices.")] = 1,
    language: Annotated[
        list[str] | None, typer.Option(help="Language to speak, e.g. en or fa; repeatable; default: en.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sentences.")] = 0,
    text_file: Annotated[
        Path | None, typer.Option(help="File of sentences to speak, one per line, in UTF-8.")
    ] = None,
    same_sentences: Annotated[
        bool, typer.Option("--same-sentences", help="Let every voice speak the same sentences.")
    ] = False,
    sample_rate: Annotated[int, typer.Option(min=8000, max=96000, help="Samples per second.")] = 22050,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Parallel processes; default: the CPUs this process may use.")
    ] = None,
) -> None:
    """Generate a data set in LJSpeech's layout, spoken by espeak-ng.

    The same options give the same bytes, with any number of workers. Needs the 'speech' extra.

    Example: myxtts make-corpus ./data/demo --clips 500 --speakers 8 --language en --language fa
    """
    from myxtts.corpus.make import CorpusSettings
    from myxtts.corpus.make import make_corpus as make

    settings = CorpusSettings(
        clips=clips,
        speakers=speakers,
        languages=tuple(language or ("en",)),
        seed=seed,
        sample_rate=sample_rate,
        text_file=text_file,
        same_sentences=same_sentences,
    )
    with progress("speaking", settings.total_clips) as bar:
        corpus = make(out, settings, workers, bar.advance)
    result = asdict(corpus) | {"seconds": round(corpus.seconds, 2)}
    summary = (
        f"{corpus.clips:,} clips, {duration_text(corpus.seconds)}, {len(corpus.speakers)} "
        f"speaker{'s' * (len(corpus.speakers) > 1)}, {', '.join(corpus.languages)}: {corpus.path}"
    )
    emit(result, lambda console: console.print(summary))
    if corpus.spoken < corpus.clips:
        say(f"{corpus.clips - corpus.spoken:,} of them existed already")
