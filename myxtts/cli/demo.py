"""`myxtts demo`: from nothing to speech."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from myxtts.cli import options
from myxtts.cli.output import emit, say
from myxtts.errors import MissingExtraError, UsageError


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put everything.")] = Path("demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="All stages in a minute and a half; it only babbles.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Half an hour: 64 voices, English and Persian, and a cloned voice.")
    ] = False,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Train a voice on speech that is made here, and listen to it: about 6 minutes on two cores.

    Makes a corpus with espeak-ng, checks it, computes its features, diagnoses the pipeline, trains the tiny model,
    evaluates it and lets it speak. Interrupted, it goes on where it stopped. Needs the 'speech' and 'plot' extras.

    Example: myxtts demo --quick
    """
    from myxtts import hardware
    from myxtts.demo.plan import SIZES, Folders, Stage, next_commands
    from myxtts.demo.report import stage_line, write_report
    from myxtts.demo.run import Done, run_demo
    from myxtts.inference.plot import require_plotting
    from myxtts.text.espeak import available

    if quick and full:
        raise UsageError("give either --quick or --full")
    if not available():
        raise MissingExtraError("the demo", "speech")
    require_plotting("the demo")
    size = SIZES["quick" if quick else "full" if full else "standard"]
    say(f"about {size.promise} on two cores, in {folder}; Ctrl-C stops it, and the same command goes on")
    began = time.perf_counter()

    def begin(stage: Stage) -> None:
        say(f"\n$ myxtts {' '.join(stage.command)}")

    def done(stage: Done) -> None:
        say(stage_line(stage))

    machine = {"cpus": hardware.usable_cpus(), "gpus": [gpu.name for gpu in hardware.gpus()]}
    try:
        stages = run_demo(folder, size, begin, done)
        values = write_report(Folders(folder, folder / size.name), size, stages, machine)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be used for the demo ({error.strerror})") from None

    def render(out: Console) -> None:
        def line(text: str = "") -> None:
            out.print(text, markup=False)

        line()
        for stage in stages:
            line(stage_line(stage))
        line(f"\n{time.perf_counter() - began:.0f} s. To listen: {folder / 'report.html'}, or {folder / 'samples'}")
        line("\nWith recordings of your own:")
        for command in next_commands():
            line(f"  {command}")

    emit(values, as_json, render)
