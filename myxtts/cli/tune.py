"""`myxtts tune`: a short measured search for the fastest settings on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli import options
from myxtts.cli.machine_config import MachineConfig, loading_errors, resolve_for_machine
from myxtts.cli.output import emit, say, table_text
from myxtts.cli.simulated_gpu import SimulateOption, SimulateStepOption, require_simulation, simulated_gpu
from myxtts.cli.stage_progress import StageProgress
from myxtts.config.config import DataConfig
from myxtts.errors import TrainingError, UsageError
from myxtts.performance.tuning import NO_TIME

if TYPE_CHECKING:
    from myxtts.performance.tuning import SettingsTrial, TuningResult

_START = "as it is"
_NOTHING = "–"


def tune(
    data_path: options.DataPathOption = None,
    config: options.ConfigOption = None,
    preset: options.PresetOption = None,
    settings: options.SetOption = None,
    language: options.LanguageOption = None,
    preprocessing_mode: options.ModeOption = None,
    batch_size: options.BatchSizeOption = None,
    cache_dir: options.CacheDirOption = None,
    time_budget: Annotated[float, typer.Option("--time-budget", min=1, help="Seconds for the whole search.")] = 300.0,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps per measurement.")] = 20,
    frame_budget: Annotated[
        bool,
        typer.Option("--frame-budget/--no-frame-budget", help="Try other batches as well, or leave them."),
    ] = True,
    simulate: SimulateOption = None,
    simulate_step_ms: SimulateStepOption = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write the best configuration here.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Try workers, prefetch, precision and frame budget, and keep what is measurably faster.

    Settings are judged by real training steps, or with `--simulate` by how well they feed a GPU that is not there.
    The best is measured again in turns with the start; without a gain beyond noise the start is kept.

    Example: myxtts tune --data-path ./data/ljspeech --time-budget 600 --output tuned.yaml
    """
    require_simulation(simulate, simulate_step_ms)
    if output is not None and output.exists() and not force:
        raise UsageError(f"{output} exists; --force replaces it")
    resolved = resolve_for_machine(
        config,
        preset,
        settings,
        data_path=data_path,
        language=language,
        preprocessing_mode=preprocessing_mode,
        batch_size=batch_size,
        cache_dir=cache_dir,
    )
    simulated = simulate is not None or simulate_step_ms is not None
    with loading_errors(), StageProgress() as bar:
        tuned, unit = _search(
            resolved, (simulate, simulate_step_ms) if simulated else None, steps, time_budget, frame_budget, bar
        )
    best = resolved.config.model_copy(
        update={"data": DataConfig.model_validate(resolved.config.data.model_dump() | dict(tuned.changes))}
    )
    if output is not None:
        options.write_config(best, output, overwrite=True)
    result: dict[str, Any] = tuned.to_dict() | {
        "unit": unit,
        "simulated": simulated,
        "output": None if output is None else str(output),
    }
    emit(result, as_json, lambda out: _render(out, tuned, unit, output))


def _search(
    resolved: MachineConfig,
    simulated: tuple[str | None, float | None] | None,
    steps: int,
    time_budget: float,
    frame_budget: bool,
    bar: StageProgress,
) -> tuple[TuningResult, str]:
    from myxtts.performance.tuning import TrialFailed
    from myxtts.performance.tuning import tune as search
    from myxtts.training.device import prepare_device
    from myxtts.training.tuning_trial import TuningTrial, axes

    config = resolved.config
    device = prepare_device(config.training)

    def compiling(shape: tuple[int, int, int]) -> None:
        say(f"compiling the step for {' × '.join(map(str, shape))}")

    step_seconds = None
    try:
        if simulated is not None:
            source = TuningTrial(config, device, steps, 0.0, bar, dataset=resolved.dataset).source({})
            gpu = simulated_gpu(*simulated, resolved, source)
            say(f"simulated: {gpu.assumption}")
            step_seconds = gpu.step_seconds
        with TuningTrial(config, device, steps, step_seconds, bar, compiling, resolved.dataset) as trial:
            # What a simulated step takes does not depend on the batch, so it cannot judge batches.
            tried = axes(config, trial.source({}), frame_budget and simulated is None)
            tuned = search(tried, trial, time_budget, on_trial=lambda one: say(_line(one, trial.unit)))
            trial.keep(tuned.changes)
            return tuned, trial.unit
    except TrialFailed as error:
        raise TrainingError(f"the configuration itself cannot be measured: {error}") from None


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
    out.print(table_text(("setting", unit, "against the start"), rows), markup=False)
    for line in _conclusion(tuned):
        out.print(line, markup=False)
    if output is not None:
        out.print(f"written to {output}", markup=False)
    elif tuned.changes:
        out.print("--output writes it into a configuration file", markup=False)


def _conclusion(tuned: TuningResult) -> list[str]:
    comparison = tuned.comparison
    if len(tuned.trials) > 1 and all(trial.note == NO_TIME for trial in tuned.trials[1:]):
        return ["the start is kept: there was no time to try anything else; raise --time-budget, or lower --steps"]
    if comparison is None:
        return ["nothing was faster than the start, which is kept"]
    spread = f"{100 * (min(comparison.ratios) - 1):+.1f} to {100 * (max(comparison.ratios) - 1):+.1f} %"
    measured = f"measured again in turns, {len(comparison.start)} rounds: {100 * comparison.gain:+.1f} % ({spread})"
    if not tuned.changes:
        return [measured, "that is no gain beyond noise: the start is kept"]
    changes = ", ".join(f"{key}: {value}" for key, value in tuned.changes.items())
    return [measured, f"best: {changes}"]
