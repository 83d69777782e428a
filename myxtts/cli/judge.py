"""`myxtts judge`: what a recogniser, DNSMOS and a speaker encoder say of any speech."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from myxtts.cli.options import JudgesOption, command
from myxtts.cli.output import StageProgress, emit, table_text
from myxtts.errors import UsageError


@command()
def judge(
    speech: Annotated[list[Path], typer.Argument(help="Audio files; folders of them; data sets. A row for each.")],
    metadata: Annotated[
        Path | None, typer.Option(help="Texts of the files, as in a data set: lines 'file name without suffix|text'.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Recordings of the speaker, a folder or a data set, for the similarity.")
    ] = None,
    language: Annotated[str, typer.Option(help="Language of clips that do not name one.")] = "en",
    clips: Annotated[int, typer.Option(min=1, help="Most clips of each row, evenly spread.")] = 100,
    judges: JudgesOption = None,
) -> None:
    """Judge any speech: words, sound and voice.

    Example: myxtts judge samples/ --metadata data/ljspeech/metadata.csv --against data/ljspeech
    """
    from myxtts.evaluation.judges import JudgePanel
    from myxtts.evaluation.speech_files import find_speech, read_texts

    panel = JudgePanel.choose(judges)
    if not panel.judges:
        raise UsageError("\n".join(["there is no judge", *panel.missing]))
    texts = None if metadata is None else read_texts(metadata)
    recorded = [] if against is None else [one.read() for one in find_speech(against, None, clips)]
    groups = {}
    for path in speech:
        groups[str(path)] = [one.read() for one in find_speech(path, texts, clips)]
    if len({one.speaker for one in recorded}) == 1:
        # All recordings are of one speaker, whom the others should sound like, whatever they are called.
        recorded = [one._replace(speaker="") for one in recorded]
        groups = {name: [one._replace(speaker="") for one in group] for name, group in groups.items()}
    with StageProgress() as progress:
        found = panel.judge(groups, language, recorded, progress=progress)

    def render(console: Console) -> None:
        console.print(table_text(*found.table()))
        for note in found.notes:
            console.print(note)

    per_clip = {
        name: [{"id": clip.id} | dict(values) for clip, values in zip(groups[name], group.per_clip, strict=True)]
        for name, group in found.groups.items()
    }
    emit(found.to_dict() | {"per_clip": per_clip}, render)
