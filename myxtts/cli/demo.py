"""`myxtts demo`: the whole way to a voice that speaks, from no data or from somebody's recordings."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from myxtts.cli.options import VocoderOption, command
from myxtts.cli.output import console, emit, say
from myxtts.cli.say import play_file
from myxtts.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from myxtts.demo.run import StageResult


@command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for everything that the demo makes.")] = Path("demo"),
    human: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Train on the recordings in this folder, in place of a generated corpus."),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="With --human: language of recordings that do not name one; default: en.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run all stages in a minute and a half; the voice only babbles.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Take half an hour: 64 voices, English and Persian, and a cloned voice.")
    ] = False,
    vocoder: VocoderOption = "auto",
) -> None:
    """Hear a voice at once, then train one and listen to it: about 6 minutes on two cores.

    The voice that comes with MyXTTS speaks first. Then the demo generates a corpus with espeak-ng, checks it,
    computes its features, diagnoses the pipeline, trains the tiny model, evaluates it and lets it speak. With --human
    it does the same with your recordings, beginning with the weights of the voice that comes with MyXTTS; nothing is
    written into their folder. If it is interrupted, run it again: it continues where it stopped. Needs the 'speech'
    and 'plot' extras.

    Example: myxtts demo --quick
    """
    from myxtts import hardware
    from myxtts.audio.mel import MelSettings
    from myxtts.demo.plan import HELD_OUT, SIZES, Folders, for_recordings
    from myxtts.demo.recordings import Recordings
    from myxtts.demo.report import next_steps, stage_line, write_report
    from myxtts.demo.run import run_demo
    from myxtts.inference.plot import require_plotting
    from myxtts.inference.vocoder import find_vocoder
    from myxtts.models.shipped import STARTER_BUNDLE
    from myxtts.runtime.bundle import read_bundle
    from myxtts.text.espeak import available

    if quick and full:
        raise UsageError("give either --quick or --full")
    if language is not None and human is None:
        raise UsageError("--language is the language of the recordings; give their folder with --human")
    if not available():
        raise MissingExtraError("the demo", "speech")
    require_plotting("the demo")
    find_vocoder(vocoder, MelSettings())
    size = SIZES["quick" if quick else "full" if full else "standard"]
    recordings = None
    if human is not None:
        recordings = Recordings.find(human, language, HELD_OUT)
        size = for_recordings(size, recordings)
    folders = Folders(folder, size, recordings)
    program = called_as()
    say(f"about {size.promise} on two cores, in {folder}; Ctrl-C stops it, and the same command continues")
    began = time.perf_counter()
    machine = {"cpus": hardware.usable_cpus(), "gpus": [gpu.name for gpu in hardware.gpus()]}
    try:
        stages = run_demo(
            folders,
            size,
            on_begin=lambda stage: say(f"\n$ {program} {shlex.join(stage.command)}"),
            on_done=_tell,
            recordings=recordings,
            greeting=read_bundle(STARTER_BUNDLE).languages,
            vocoder=None if vocoder == "auto" else vocoder,
        )
        values = write_report(folders, size, stages, machine, program)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be used for the demo ({error.strerror})") from None

    def render(out: Console) -> None:
        out.print()
        for stage in stages:
            out.print(stage_line(stage))
        seconds = time.perf_counter() - began
        out.print(f"\n{seconds:.0f} s. To listen: {folders.report}, or {folders.samples}")
        for purpose, lines in next_steps(folders, size, program).items():
            out.print(f"\n{purpose}:")
            for line in lines:
                out.print(f"  {line}")

    emit(values, render)


def _tell(done: StageResult) -> None:
    """A line about a stage. What the shipped voice says is played, where there is a sound device."""
    from myxtts.demo.report import stage_line

    say(stage_line(done))
    if done.command[0] == "say" and not done.before and not console.quiet:
        play_file(Path(done.result["output"]))


def called_as(arguments: Sequence[str] | None = None) -> str:
    """How this program was called, so that commands shown to a person can be pasted."""
    name = (sys.argv if arguments is None else arguments)[0]
    if os.path.basename(name) == "__main__.py":
        return shlex.join([sys.executable, "-m", "myxtts"])
    found = shutil.which("myxtts")
    return "myxtts" if found is not None and os.path.abspath(name) == os.path.abspath(found) else shlex.quote(name)
