"""`myxtts diagnose`: whether the accelerator waits for data, why, and what to change."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from myxtts.cli.machine_config import MachineConfig, loading_errors, resolve_for_machine
from myxtts.cli.options import ConfigOptions, command, write_config
from myxtts.cli.output import StageProgress, console, emit, say, table_text
from myxtts.errors import DataError, MyXTTSError, UsageError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.data.ljspeech import LJSpeechDataset
    from myxtts.performance.diagnosis import Diagnosis

_FEWEST_BATCHES = 10
_MOST_ROUNDS = 5
_DEFAULT_OUTPUT = Path("diagnosed.yaml")


@command(
    "data_path", "language", "preprocessing_mode", "batch_size", "num_workers", "prefetch_buffer_size", "cache_dir",
    "disable_tf_native_loading", "disable_gpu_prefetch", "disable_cpu_gpu_overlap", "config", "preset", "settings",
)  # fmt: skip
def diagnose(
    given: ConfigOptions,
    num_batches: Annotated[int, typer.Option(help="Steps to measure.")] = 100,
    simulate_step_ms: Annotated[
        float | None, typer.Option(help="Simulate an accelerator with this step time, in place of the real step.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained HTML report to this file.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write a configuration with the fixes, and measure again.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help=f"File that --apply writes; default: {_DEFAULT_OUTPUT}.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Folder of a training run: judge it by its own times, and name a process that is slow."),
    ] = None,
    attach: Annotated[
        int | None, typer.Option(help="Number of a process that trains, of any framework: observe it from outside.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long --attach and PROGRAM are observed.")] = 20.0,
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- PROGRAM ...]", help="A training script to start, observe and end."),
    ] = None,
) -> None:
    """Measure whether training waits for data, name the cause, and say what to change.

    It runs real training steps and throws away what they learn. Without a GPU, `--simulate-step-ms` shows whether
    this machine would keep one busy.

    With `--run` nothing is measured: the run has written the times of its steps, and of all its processes.

    With `--attach 1234`, or `-- python train.py`, the process of another training is observed and not changed.

    Example: myxtts diagnose --data-path ./data/ljspeech --batch-size 32 --html report.html --apply
    """
    if num_batches < _FEWEST_BATCHES:
        raise UsageError(f"--num-batches {num_batches}: should be at least {_FEWEST_BATCHES}")
    if simulate_step_ms is not None and not 0 < simulate_step_ms < float("inf"):
        raise UsageError(f"--simulate-step-ms {simulate_step_ms:g}: should be above 0")
    if output is not None and not apply:
        raise UsageError("--output is the file that --apply writes; it has no effect without it")
    if run is not None:
        _judge_run(run)
        return
    if attach is not None or program:
        _observe(attach, program or [], seconds)
        return
    resolved = resolve_for_machine(given)
    before = _measure(resolved.config, resolved.dataset, num_batches, simulate_step_ms)
    result: dict[str, Any] = before.to_dict()
    fixed, path = None, output or _DEFAULT_OUTPUT
    if apply:
        fixed = _fix(resolved, before, num_batches, simulate_step_ms)
        write_config(fixed.config, path, overwrite=True)
        result |= {
            "applied": fixed.changes,
            "not_changed": fixed.refused,
            "after": fixed.diagnosis.to_dict(),
            "output": str(path),
        }
    if html is not None:
        from myxtts.performance.diagnosis_page import diagnosis_page

        try:
            html.write_text(diagnosis_page(before), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--html {html}: cannot be written ({error.strerror})") from None
    emit(result, lambda out: _show(out, before, fixed, path))


def _observe(process: int | None, program: list[str], seconds: float) -> None:
    from myxtts.performance.attached import observe, observe_program

    if process is not None and program:
        raise UsageError("--attach and a program exclude each other; give one of them")
    if not 1 <= seconds < math.inf:
        raise UsageError(f"--seconds {seconds:g}: should be at least 1")
    with console.status("") as status:

        def report(what: str) -> None:
            status.update(what)

        found = (
            observe(process, seconds, report) if process is not None else observe_program(program, seconds, report)
        )
    emit(asdict(found) | {"verdict": found.verdict, "culprit": found.culprit}, lambda out: out.print(str(found)))


def _judge_run(run: Path) -> None:
    from myxtts.performance.rank_times import find_slow_rank
    from myxtts.performance.run_timing import RunTiming

    timing = RunTiming(run, window=math.inf)
    reading = timing.read()
    if reading is None or not reading.steps:
        raise UsageError(f"--run {run}: {timing.path.name} has no step; give the --checkpoint-dir of a training run")
    slow = find_slow_rank(reading.ranks)
    result = {
        "steps": reading.steps,
        "verdict": reading.verdict,
        "stall_share": reading.stall_share,
        "step_ms": reading.step_ms,
        "clips_per_second": reading.clips_per_second,
        "ranks": [asdict(times) for times in reading.ranks],
        "culprit": "none" if slow is None else "slow-rank",
        "slow_rank": None if slow is None else asdict(slow),
    }

    def show(out: Console) -> None:
        out.print(
            f"VERDICT   {reading.verdict}: {100 * reading.stall_share:.1f} % of step time waits for data "
            f"({reading.steps:,} steps of {reading.step_ms:.0f} ms)"
        )
        if reading.ranks:
            rows = [
                (
                    str(number),
                    f"{times.step_ms:,.0f}",
                    f"{100 * times.stall_share:.1f}",
                    f"{times.all_reduce_ms:,.0f}",
                    f"{times.clips_per_second:,.1f}",
                    str(times.compilations),
                )
                for number, times in enumerate(reading.ranks)
            ]
            out.print(table_text(("rank", "step ms", "stall %", "all-reduce ms", "clips/s", "compilations"), rows))
            out.print(f"CULPRIT   {'none: all processes are equally fast' if slow is None else slow}")
        if slow is not None:
            look = "its disk, its num_workers" if slow.by_data else "its load, its temperature and clocks"
            out.print(f"FIX       look at the machine of rank {slow.rank} (myxtts monitor): {look}")

    emit(result, show)


def _measure(
    config: XTTSConfig, dataset: LJSpeechDataset, num_batches: int, simulate_step_ms: float | None
) -> Diagnosis:
    from myxtts.training.diagnose_training import diagnose_training

    simulated = None if simulate_step_ms is None else simulate_step_ms / 1e3
    with ExitStack() as shown:
        progress = shown.enter_context(StageProgress())
        status: Status | None = None

        def report(what: str) -> None:
            nonlocal status
            if status is None:
                shown.close()  # the data is ready; one display at a time
                status = shown.enter_context(console.status(""))
            status.update(f"measuring: {what}")

        try:
            with loading_errors():
                return diagnose_training(
                    config,
                    num_batches,
                    simulated_step_seconds=simulated,
                    progress=progress,
                    report=report,
                    dataset=dataset,
                )
        except ValueError as error:
            raise DataError(str(error)) from None


@dataclass(frozen=True)
class _FixedConfig:
    """The last configuration that was measured.

    Attributes:
        config: the configuration.
        diagnosis: its measurement.
        changes: the keys that differ from the configuration given by the user.
        refused: why the next change could not be made, in one line; None if none was refused.
    """

    config: XTTSConfig
    diagnosis: Diagnosis
    changes: dict[str, Any] = field(default_factory=dict)
    refused: str | None = None


def _fix(
    resolved: MachineConfig, before: Diagnosis, num_batches: int, simulate_step_ms: float | None
) -> _FixedConfig:
    """Changes one cause after another and measures each time, until no time is lost or nothing can be changed."""
    from myxtts.performance.stall import MODERATELY_INPUT_BOUND
    from myxtts.training.diagnose_training import changed, next_changes, yaml_text

    fixed = _FixedConfig(resolved.config, before)
    for _ in range(_MOST_ROUNDS):
        present = fixed.diagnosis
        changes = next_changes(fixed.config, present.culprit, present.input_share >= MODERATELY_INPUT_BOUND)
        if not changes:
            break
        say("changing " + ", ".join(f"{key} to {yaml_text(value)}" for key, value in changes.items()))
        config = changed(fixed.config, changes)
        try:
            measured = _measure(config, resolved.dataset, num_batches, simulate_step_ms)
        except MyXTTSError as error:
            refused = str(error).splitlines()[0]
            say(f"not changed: {refused}")
            return replace(fixed, refused=refused)
        fixed = _FixedConfig(config, measured, fixed.changes | changes)
    return fixed


def _show(out: Console, before: Diagnosis, fixed: _FixedConfig | None, path: Path) -> None:
    from myxtts.performance.diagnosis import number
    from myxtts.training.diagnose_training import yaml_text

    out.print(str(before))
    if fixed is None:
        return
    if not fixed.changes:
        why = "nothing waits for data" if before.culprit == "none" else "the configuration has no setting for it"
        why = fixed.refused or why
        out.print(f"APPLIED   nothing: {why}; the configuration is written unchanged to {path}")
        return
    indent = "\n" + " " * 10
    out.print("APPLIED   " + indent.join(f"{key}: {yaml_text(value)}" for key, value in fixed.changes.items()))
    if fixed.refused is not None:
        out.print(f"{'':<10}and nothing more: {fixed.refused}")
    after = fixed.diagnosis
    for name, diagnosis in (("BEFORE", before), ("AFTER", after)):
        out.print(
            f"{name:<10}{100 * diagnosis.input_share:.1f} % of step time waits for data, "
            f"{number(diagnosis.step_ms)} ms per step ({diagnosis.verdict})"
        )
    lost = before.lost_share * before.step_ms
    if lost:
        gone = 100 * (1 - after.lost_share * after.step_ms / lost)
        out.print(f"{'':<10}{gone:.0f} % of the lost time is gone; written to {path}")
