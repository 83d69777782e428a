"""`myxtts monitor`: watch the machine, its GPUs and a training run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from myxtts.cli import output
from myxtts.cli.options import command
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.performance.run_timing import RunReading
    from myxtts.performance.sampling import MachineReading
    from myxtts.performance.statistics import Summary

_SHORTEST_INTERVAL = 0.1


@command()
def monitor(
    run: Annotated[
        Path | None, typer.Option(help="Folder of a training run: also show how much of its time waits for data.")
    ] = None,
    log_file: Annotated[Path | None, typer.Option(help="Write every reading to this file, .csv or .jsonl.")] = None,
    duration: Annotated[float | None, typer.Option(help="Seconds to watch; default: until Ctrl-C.")] = None,
    interval: Annotated[float, typer.Option(help="Seconds between readings.")] = 1.0,
) -> None:
    """Watch GPUs, CPUs, memory and disks, and how much of a run's time waits for data.

    If standard output is not a terminal, each reading is printed as a line. At the end, mean, 95th percentile and
    maximum are printed; `--json` prints only these.

    Example: myxtts monitor --run ./runs/voice --log-file load.csv --duration 3600
    """
    from myxtts.performance.metrics_log import MetricsLog, require_log_suffix
    from myxtts.performance.run_timing import NO_RUN_VALUES, RunTiming
    from myxtts.performance.sampling import MachineReader, NumberStatistics

    if interval < _SHORTEST_INTERVAL:
        raise UsageError(f"--interval {interval:g}: should be at least {_SHORTEST_INTERVAL} seconds")
    if duration is not None and duration <= 0:
        raise UsageError(f"--duration {duration:g}: should be more than 0 seconds")
    if run is not None and not run.is_dir():
        raise UsageError(f"--run {run}: no such folder; give the --checkpoint-dir of a training run")
    if log_file is not None:
        require_log_suffix(log_file)
    timing = None if run is None else RunTiming(run)
    if timing is not None and timing.read() is None:
        output.say(f"{timing.path} has no step yet; it is shown as soon as the run writes it")

    numbers = NumberStatistics()
    began = time.time()
    with ExitStack() as stack:
        machine = MachineReader()
        stack.callback(machine.close)
        if machine.gpu_unavailable is not None:
            output.say(f"no NVIDIA GPU to show ({machine.gpu_unavailable}); showing the rest of the machine")
        show = _display(stack, with_run=timing is not None)
        log: MetricsLog | None = None
        try:
            for _ in _ticks(interval, duration):
                reading = machine.read()
                steps = None if timing is None else timing.read()
                values = reading.values()
                if timing is not None:
                    values |= NO_RUN_VALUES if steps is None else steps.values()
                numbers.add({name: value for name, value in values.items() if name != "run_batch"})
                if log_file is not None:
                    if log is None:
                        log = stack.enter_context(MetricsLog(log_file, ["time", *values]))
                    log.write({"time": reading.time, **values}, {"gpus": [gpu.to_dict() for gpu in reading.gpus]})
                show(reading, steps)
        except KeyboardInterrupt:
            pass  # the usual way to stop
    summary = numbers.summary()
    result: dict[str, Any] = {
        "seconds": round(time.time() - began, 3),
        "gpu_unavailable": machine.gpu_unavailable,
        "log_file": None if log_file is None else str(log_file),
        "numbers": {name: one.to_dict() for name, one in summary.items()},
    }
    if output.chosen.as_json or not output.chosen.quiet:
        output.emit(result, lambda out: _render(out, summary))


def _ticks(interval: float, duration: float | None) -> Iterator[None]:
    """Yields after each interval, and a last time when the duration is over."""
    due = began = time.monotonic()
    end = None if duration is None else began + duration
    while end is None or due < end:
        # After a reading that took long, do not catch up with several at once.
        due = max(due + interval, time.monotonic())
        if end is not None:
            due = min(due, end)
        time.sleep(max(0.0, due - time.monotonic()))
        yield


def _display(stack: ExitStack, with_run: bool) -> Callable[[MachineReading, RunReading | None], None]:
    """Shows a reading of machine and run: as a view that is redrawn, as lines, or not at all."""
    from myxtts.cli.monitor_display import live_view, plain_line

    console = Console(highlight=False, soft_wrap=True)
    if output.chosen.as_json or output.chosen.quiet:
        return lambda reading, run: None
    if not console.is_terminal:
        return lambda reading, run: print(plain_line(reading, run, with_run), flush=True)
    live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))
    return lambda reading, run: live.update(live_view(reading, run, with_run), refresh=True)


def _render(out: Console, summary: dict[str, Summary]) -> None:
    if not summary:
        return
    rows = [(name, *(f"{value:,.1f}" for value in (one.mean, one.p95, one.maximum))) for name, one in summary.items()]
    out.print(output.table_text(("", "mean", "p95", "max"), rows))
