"""`myxtts diagnose`: does the accelerator wait for data, why, and what to change."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from myxtts.cli import options
from myxtts.cli.machine_config import MachineConfig, loading_errors, resolve_for_machine
from myxtts.cli.output import console, emit, say
from myxtts.cli.stage_progress import StageProgress
from myxtts.errors import DataError, MyXTTSError, UsageError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.data.ljspeech import LJSpeechDataset
    from myxtts.performance.diagnosis import Diagnosis

_FEWEST_BATCHES = 10
_MOST_ROUNDS = 5
_DEFAULT_OUTPUT = Path("diagnosed.yaml")


def diagnose(
    data_path: options.DataPathOption = None,
    config: options.ConfigOption = None,
    preset: options.PresetOption = None,
    settings: options.SetOption = None,
    language: options.LanguageOption = None,
    preprocessing_mode: options.ModeOption = None,
    batch_size: options.BatchSizeOption = None,
    num_workers: options.NumWorkersOption = None,
    prefetch_buffer_size: options.PrefetchOption = None,
    cache_dir: options.CacheDirOption = None,
    disable_tf_native_loading: options.DisableTFNativeOption = False,
    disable_gpu_prefetch: options.DisableGpuPrefetchOption = False,
    disable_cpu_gpu_overlap: options.DisableOverlapOption = False,
    num_batches: Annotated[int, typer.Option("--num-batches", help="Steps to measure.")] = 100,
    simulate_step_ms: Annotated[
        float | None,
        typer.Option("--simulate-step-ms", help="A simulated accelerator of this step time, not the real step."),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a report, one self-contained file.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write a configuration with the fixes, and measure again.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help=f"Where --apply writes; default {_DEFAULT_OUTPUT}.")
    ] = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Measure whether training waits for data, name the culprit, and say what to change.

    The step is the configuration's own; nothing that it learns is kept. Without a GPU, `--simulate-step-ms` shows
    whether this machine would feed one.

    Example: myxtts diagnose --data-path ./data/ljspeech --batch-size 32 --html report.html --apply
    """
    if num_batches < _FEWEST_BATCHES:
        raise UsageError(f"--num-batches {num_batches}: should be at least {_FEWEST_BATCHES}")
    if simulate_step_ms is not None and not 0 < simulate_step_ms < float("inf"):
        raise UsageError(f"--simulate-step-ms {simulate_step_ms:g}: should be above 0")
    if output is not None and not apply:
        raise UsageError("--output is where --apply writes; it has no meaning without it")
    resolved = resolve_for_machine(
        config,
        preset,
        settings,
        data_path=data_path,
        language=language,
        preprocessing_mode=preprocessing_mode,
        batch_size=batch_size,
        num_workers=num_workers,
        prefetch_buffer_size=prefetch_buffer_size,
        cache_dir=cache_dir,
        disable_tf_native_loading=disable_tf_native_loading,
        disable_gpu_prefetch=disable_gpu_prefetch,
        disable_cpu_gpu_overlap=disable_cpu_gpu_overlap,
    )
    before = _measure(resolved.config, resolved.dataset, num_batches, simulate_step_ms)
    result: dict[str, Any] = before.to_dict()
    mended, path = None, output or _DEFAULT_OUTPUT
    if apply:
        mended = _mend(resolved, before, num_batches, simulate_step_ms)
        options.write_config(mended.config, path, overwrite=True)
        result |= {
            "applied": mended.changes,
            "not_changed": mended.refused,
            "after": mended.diagnosis.to_dict(),
            "output": str(path),
        }
    if html is not None:
        _write_page(before, html)
    emit(result, as_json, lambda out: _show(out, before, mended, path))


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
class _Mended:
    """The last configuration that was measured.

    Attributes:
        config: the configuration.
        diagnosis: what was measured of it.
        changes: what is changed in it.
        refused: why a further change could not be made, in one line; None if none was refused.
    """

    config: XTTSConfig
    diagnosis: Diagnosis
    changes: dict[str, Any] = field(default_factory=dict)
    refused: str | None = None


def _mend(resolved: MachineConfig, before: Diagnosis, num_batches: int, simulate_step_ms: float | None) -> _Mended:
    """Changes one thing after the other, each time measured, until nothing is lost or nothing can be changed."""
    from myxtts.performance.stall import MODERATELY_INPUT_BOUND
    from myxtts.training.diagnose_training import changed, next_changes, yaml_text

    mended = _Mended(resolved.config, before)
    for _ in range(_MOST_ROUNDS):
        present = mended.diagnosis
        changes = next_changes(mended.config, present.culprit, present.input_share >= MODERATELY_INPUT_BOUND)
        if not changes:
            break
        say("changing " + ", ".join(f"{key} to {yaml_text(value)}" for key, value in changes.items()))
        config = changed(mended.config, changes)
        try:
            measured = _measure(config, resolved.dataset, num_batches, simulate_step_ms)
        except MyXTTSError as error:
            refused = str(error).splitlines()[0]
            say(f"not changed: {refused}")
            return replace(mended, refused=refused)
        mended = _Mended(config, measured, mended.changes | changes)
    return mended


def _write_page(diagnosis: Diagnosis, path: Path) -> None:
    from myxtts.performance.diagnosis_page import diagnosis_page

    try:
        path.write_text(diagnosis_page(diagnosis), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path}: cannot be written ({error.strerror})") from None


def _show(out: Console, before: Diagnosis, mended: _Mended | None, path: Path) -> None:
    from myxtts.performance.diagnosis import number
    from myxtts.training.diagnose_training import yaml_text

    out.print(str(before), markup=False)
    if mended is None:
        return
    if not mended.changes:
        why = "nothing waits" if before.culprit == "none" else "the configuration has no setting for it"
        why = mended.refused or why
        out.print(f"APPLIED   nothing: {why}; written as it is to {path}", markup=False)
        return
    indent = "\n" + " " * 10
    out.print(
        "APPLIED   " + indent.join(f"{key}: {yaml_text(value)}" for key, value in mended.changes.items()),
        markup=False,
    )
    if mended.refused is not None:
        out.print(f"{'':<10}and nothing more: {mended.refused}", markup=False)
    after = mended.diagnosis
    for name, diagnosis in (("BEFORE", before), ("AFTER", after)):
        out.print(
            f"{name:<10}{100 * diagnosis.input_share:.1f} % of step time waits for data, "
            f"{number(diagnosis.step_ms)} ms per step ({diagnosis.verdict})",
            markup=False,
        )
    lost = before.lost_share * before.step_ms
    if lost:
        gone = 100 * (1 - after.lost_share * after.step_ms / lost)
        out.print(f"{'':<10}{gone:.0f} % of the lost time is gone; written to {path}", markup=False)
