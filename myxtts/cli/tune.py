"""`myxtts tune`: search the fastest settings for this machine by measuring them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli.machine_config import MachineConfig, loading_errors, resolve_for_machine, say_compiling
from myxtts.cli.options import ConfigOptions, command, write_config
from myxtts.cli.output import StageProgress, emit, say, table_text
from myxtts.cli.simulated_gpu import SimulationOptions
from myxtts.config.config import DataConfig
from myxtts.errors import TrainingError, UsageError
from myxtts.performance.tuning import NO_TIME

if TYPE_CHECKING:
    from myxtts.performance.tuning import SettingsTrial, TuningResult

_START = "starting settings"
_NOTHING = "–"


@command(
    "data_path",
    "data_layout",
    "language",
    "preprocessing_mode",
    "batch_size",
    "cache_dir",
    "config",
    "preset",
    "settings",
)
def tune(
    given: ConfigOptions,
    simulation: SimulationOptions,
    time_budget: Annotated[float, typer.Option(min=1, help="Seconds that the whole search may take.")] = 300.0,
    steps: Annotated[int, typer.Option(min=1, help="Steps per measurement.")] = 20,
    frame_budget: Annotated[
        bool,
        typer.Option(
            "--frame-budget/--no-frame-budget", help="Also try other batch sizes, or keep the configured one."
        ),
    ] = True,
    output: Annotated[Path | None, typer.Option(help="Write the best configuration to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Try workers, prefetch, precision and frame budget, and keep what is measurably faster.

    Settings are measured with real training steps or, with `--simulate`, by how busy they keep a simulated GPU.
    The best settings are then measured again, in turns with those you started from, which are kept unless the gain is
    larger than the noise.

    Example: myxtts tune --data-path ./data/ljspeech --time-budget 600 --output tuned.yaml
    """
    simulation.require_valid()
    if output is not None and output.exists() and not force:
        raise UsageError(f"{output} exists; --force replaces it")
    resolved = resolve_for_machine(given)
    with loading_errors(), StageProgress() as bar:
        tuned, unit = _search(resolved, simulation, steps, time_budget, frame_budget, bar)
    best = resolved.config.model_copy(
        update={"data": DataConfig.model_validate(resolved.config.data.model_dump() | dict(tuned.changes))}
    )
    if output is not None:
        write_config(best, output, overwrite=True)
    result: dict[str, Any] = tuned.to_dict() | {
        "unit": unit,
        "simulated": simulation.given,
        "output": None if output is None else str(output),
    }
    emit(result, lambda out: _render(out, tuned, unit, output))


def _search(
    resolved: MachineConfig,
    simulation: SimulationOptions,
    steps: int,
    time_budget: float,
    frame_budget: bool,
    bar: StageProgress,
) -> tuple[TuningResult, str]:
    from myxtts.performance.tuning import TrialError
    from myxtts.performance.tuning import tune as search
    from myxtts.training.device import prepare_device
    from myxtts.training.tuning_trial import TuningTrial, axes

    config = resolved.config
    device = prepare_device(config.training)
    step_seconds = None
    try:
        if simulation.given:
            source = TuningTrial(config, device, steps, 0.0, bar, dataset=resolved.dataset).source({})
            gpu = simulation.gpu(resolved, source)
            say(f"simulated: {gpu.assumption}")
            step_seconds = gpu.step_seconds
        with TuningTrial(config, device, steps, step_seconds, bar, say_compiling, resolved.dataset) as trial:
            # A simulated step takes the same time for every batch, so it cannot compare batch sizes.
            tried = axes(config, trial.source({}), frame_budget and not simulation.given)
            tuned = search(tried, trial, time_budget, on_trial=lambda one: say(_line(one, trial.unit)))
            trial.keep(tuned.changes)
            return tuned, trial.unit
    except TrialError as error:
        raise TrainingError(f"the starting settings cannot be measured: {error}") from None


def _line(trial: SettingsTrial, unit: str) -> str:
    return f"{_name(trial)}: {trial.note if trial.rate is None else f'{trial.rate:,.1f} {unit}'}"


def _name(trial: SettingsTrial) -> str:
    return ", ".join(f"{key} {value}" for key, value in trial.changes.items()) or _START


def _render(out: Console, tuned: TuningResult, unit: str, output: Path | None) -> None:
    start = tuned.trials[0].rate
    rows = []
    for trial in tuned.trials:
        if trial.rate is None:
            rows.append((_name(trial), _NOTHING, trial.note))
        else:
            gain = f"{100 * (trial.rate / start - 1):+.1f} %" if start else _NOTHING
            rows.append((_name(trial), f"{trial.rate:,.1f}", gain))
    out.print(table_text(("setting", unit, "gain"), rows))
    for line in _conclusion(tuned):
        out.print(line)
    if output is not None:
        out.print(f"written to {output}")
    elif tuned.changes:
        out.print("--output writes these settings into a configuration file")


def _conclusion(tuned: TuningResult) -> list[str]:
    comparison = tuned.comparison
    if len(tuned.trials) > 1 and all(trial.note == NO_TIME for trial in tuned.trials[1:]):
        return [
            "the starting settings are kept: there was no time to try others; raise --time-budget or lower --steps"
        ]
    if comparison is None:
        return ["nothing was faster: the starting settings are kept"]
    spread = f"{100 * (min(comparison.ratios) - 1):+.1f} to {100 * (max(comparison.ratios) - 1):+.1f} %"
    rounds = f"{len(comparison.start)} rounds in turns with the starting settings"
    measured = f"measured again, {rounds}: {100 * comparison.gain:+.1f} % ({spread})"
    if not tuned.changes:
        return [measured, "the gain is not larger than the noise: the starting settings are kept"]
    changes = ", ".join(f"{key}: {value}" for key, value in tuned.changes.items())
    return [measured, f"best: {changes}"]
