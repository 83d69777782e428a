"""`myxtts demo`: the whole way from no data to a voice that speaks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from myxtts.cli.options import VocoderOption, command
from myxtts.cli.output import emit, say
from myxtts.errors import MissingExtraError, UsageError


@command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Folder for everything that the demo makes.")] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Run all stages in a minute and a half; the voice only babbles.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Take half an hour: 64 voices, English and Persian, and a cloned voice.")
    ] = False,
    vocoder: VocoderOption = "auto",
) -> None:
    """Train a voice on generated speech, and listen to it: about 6 minutes on two cores.

    The demo generates a corpus with espeak-ng, checks it, computes its features, diagnoses the pipeline, trains the
    tiny model, evaluates it and lets it speak. If it is interrupted, run it again: it continues where it stopped.
    Needs the 'speech' and 'plot' extras.

    Example: myxtts demo --quick
    """
    from myxtts import hardware
    from myxtts.audio.mel import MelSettings
    from myxtts.demo.plan import SIZES, Folders, next_commands
    from myxtts.demo.report import stage_line, write_report
    from myxtts.demo.run import run_demo
    from myxtts.inference.plot import require_plotting
    from myxtts.inference.vocoder import find_vocoder
    from myxtts.text.espeak import available

    if quick and full:
        raise UsageError("give either --quick or --full")
    if not available():
        raise MissingExtraError("the demo", "speech")
    require_plotting("the demo")
    find_vocoder(vocoder, MelSettings())
    size = SIZES["quick" if quick else "full" if full else "standard"]
    say(f"about {size.promise} on two cores, in {folder}; Ctrl-C stops it, and the same command continues")
    began = time.perf_counter()
    machine = {"cpus": hardware.usable_cpus(), "gpus": [gpu.name for gpu in hardware.gpus()]}
    try:
        stages = run_demo(
            folder,
            size,
            on_begin=lambda stage: say(f"\n$ myxtts {' '.join(stage.command)}"),
            on_done=lambda done: say(stage_line(done)),
            vocoder=None if vocoder == "auto" else vocoder,
        )
        values = write_report(Folders(folder, folder / size.name), size, stages, machine)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be used for the demo ({error.strerror})") from None

    def render(out: Console) -> None:
        out.print()
        for stage in stages:
            out.print(stage_line(stage))
        seconds = time.perf_counter() - began
        out.print(f"\n{seconds:.0f} s. To listen: {folder / 'report.html'}, or {folder / 'samples'}")
        out.print("\nWith recordings of your own:")
        for example in next_commands():
            out.print(f"  {example}")

    emit(values, render)
