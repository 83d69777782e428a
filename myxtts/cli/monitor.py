"""`myxtts monitor`: the machine, its GPUs and a run in progress, side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from myxtts.cli import options, output
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.performance.statistics import Summary

_SHORTEST_INTERVAL = 0.1


def monitor(
    run: Annotated[
        Path | None, typer.Option("--run", help="Folder of a training run in progress: its stall share is shown.")
    ] = None,
    log_file: Annotated[
        Path | None, typer.Option("--log-file", help="Write every reading here, as .csv or .jsonl.")
    ] = None,
    duration: Annotated[
        float | None, typer.Option("--duration", help="Seconds to go on; default: until Ctrl-C.")
    ] = None,
    interval: Annotated[float, typer.Option("--interval", help="Seconds between readings.")] = 1.0,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Watch GPUs, CPUs, memory and disks, and the stall share of a run beside them.

    Where standard output is no terminal, a line is printed for each reading; at the end come means and extremes.
    `--json` prints those alone.

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
        raise UsageError(f"--run {run}: there is no such folder; name the --checkpoint-dir of a training run")
    if log_file is not None:
        require_log_suffix(log_file)
    timing = None if run is None else RunTiming(run)
    if timing is not None and timing.read() is None:
        output.say(f"{timing.path} has no step yet; it will be read once the run writes it")

    numbers = NumberStatistics()
    began = time.time()
    with ExitStack() as stack:
        machine = MachineReader()
        stack.callback(machine.close)
        if machine.gpu_unavailable is not None:
            output.say(f"no NVIDIA GPU to show ({machine.gpu_unavailable}); the rest of the machine follows")
        show = _Screen(stack, visible=not (as_json or quiet), with_run=timing is not None)
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
            pass  # the ordinary way to end it
    summary = numbers.summary()
    result: dict[str, Any] = {
        "seconds": round(time.time() - began, 3),
        "gpu_unavailable": machine.gpu_unavailable,
        "log_file": None if log_file is None else str(log_file),
        "numbers": {name: one.to_dict() for name, one in summary.items()},
    }
    if as_json or not quiet:
        output.emit(result, as_json, lambda out: _render(out, summary))


def _ticks(interval: float, duration: float | None) -> Iterator[None]:
    """Waits an interval and yields, until the duration is over, which ends with a reading as well."""
    due = began = time.monotonic()
    end = None if duration is None else began + duration
    while end is None or due < end:
        # A reading that took long is not made up for by several at once.
        due = max(due + interval, time.monotonic())
        if end is not None:
            due = min(due, end)
        time.sleep(max(0.0, due - time.monotonic()))
        yield


class _Screen:
    """Shows readings: as a view that is redrawn, as lines, or not at all."""

    def __init__(self, stack: ExitStack, visible: bool, with_run: bool) -> None:
        self._with_run = with_run
        self._console = Console(highlight=False, soft_wrap=True)
        self._visible = visible
        self._live: Live | None = None
        if visible and self._console.is_terminal:
            self._live = stack.enter_context(Live(console=self._console, auto_refresh=False, transient=True))

    def __call__(self, reading: Any, run: Any) -> None:
        from myxtts.cli.monitor_display import live_view, plain_line

        if self._live is not None:
            self._live.update(live_view(reading, run, self._with_run), refresh=True)
        elif self._visible:
            print(plain_line(reading, run, self._with_run), flush=True)


def _render(out: Console, summary: dict[str, Summary]) -> None:
    if not summary:
        return
    rows = [(name, *(f"{value:,.1f}" for value in (one.mean, one.p95, one.maximum))) for name, one in summary.items()]
    out.print(output.table_text(("", "mean", "p95", "max"), rows), markup=False)
