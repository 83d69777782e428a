"""`myxtts benchmark`: every way of loading a data set side by side, and the GPU that it would feed."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli import options
from myxtts.cli.machine_config import MachineConfig, batch_text, loading_errors, resolve_for_machine
from myxtts.cli.output import emit, progress, say, table_text
from myxtts.cli.simulated_gpu import (
    SimulatedGpu,
    SimulateOption,
    SimulateStepOption,
    require_simulation,
    simulated_gpu,
)
from myxtts.cli.stage_progress import StageProgress
from myxtts.errors import UsageError
from myxtts.performance.loading_profile import loading_verdict

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.training.device import Device

_NOTHING = "–"
_DEFAULT_GPU = "rtx4090"

# A simulated accelerator that works this share of the time is fed, and nearly fed. Whether it rests for want of a
# batch or because the host had no time to hand one over, a real one would rest as well.
_FED = 0.95
_NEARLY_FED = 0.80


def benchmark(
    test_data_path: Annotated[
        Path | None,
        typer.Option("--test-data-path", "--data-path", help="The data set's folder.", rich_help_panel="Data"),
    ] = None,
    create_test_data: Annotated[
        bool,
        typer.Option(
            "--create-test-data",
            help="Measure on clips of noise as long as LJSpeech's, removed afterwards.",
            rich_help_panel="Data",
        ),
    ] = False,
    clips: Annotated[
        int, typer.Option("--clips", min=20, help="How many clips of noise.", rich_help_panel="Data")
    ] = 300,
    config: options.ConfigOption = None,
    preset: options.PresetOption = None,
    settings: options.SetOption = None,
    language: options.LanguageOption = None,
    batch_size: options.BatchSizeOption = None,
    num_workers: options.NumWorkersOption = None,
    cache_dir: options.CacheDirOption = None,
    num_batches: Annotated[int, typer.Option("--num-batches", min=1, help="Batches to load, per mode.")] = 100,
    training: Annotated[
        bool, typer.Option("--training/--no-training", help="Run real training steps as well, or only load.")
    ] = True,
    training_steps: Annotated[int, typer.Option("--training-steps", min=1, help="Steps to train, per mode.")] = 30,
    simulate: SimulateOption = None,
    simulate_step_ms: SimulateStepOption = None,
    as_json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Measure loading and training in every mode, and ask: would this machine feed that GPU?

    The GPU in question is simulated: it holds each batch for a step's time without using the CPU.

    Example: myxtts benchmark --test-data-path ./data/ljspeech --simulate rtx4090
    """
    if create_test_data and test_data_path is not None:
        raise UsageError("give either --test-data-path or --create-test-data")
    if not create_test_data and test_data_path is None and config is None:
        raise UsageError("give --test-data-path, a --config that names a data set, or --create-test-data")
    if simulate is None and simulate_step_ms is None:
        simulate = _DEFAULT_GPU
    require_simulation(simulate, simulate_step_ms)
    with ExitStack() as stack:
        splits: dict[str, Any] = {}
        if create_test_data:
            # Few clips: enough of them to have some to validate with, without which a data set is refused.
            splits = {"train_split": 0.8, "val_split": 0.2}
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="myxtts-benchmark-")))
            test_data_path, cache_dir = _make_data(folder / "data", clips), folder / "cache"
        resolved = resolve_for_machine(
            config,
            preset,
            settings,
            data_path=test_data_path,
            language=language,
            batch_size=batch_size,
            num_workers=num_workers,
            cache_dir=cache_dir,
            **splits,
        )
        _run(resolved, simulate, simulate_step_ms, num_batches, training_steps if training else 0, as_json)


def _make_data(folder: Path, clips: int) -> Path:
    from myxtts.corpus.noise import make_noise

    say(f"making {clips:,} clips of noise")
    return make_noise(folder, clips)


def _run(
    resolved: MachineConfig,
    simulate: str | None,
    simulate_step_ms: float | None,
    num_batches: int,
    training_steps: int,
    as_json: bool,
) -> None:
    from myxtts.training.device import prepare_device
    from myxtts.training.loading_comparison import ROUNDS, measure_modes, prepare_modes
    from myxtts.training.measured_steps import StepRunner

    config = resolved.config
    device = prepare_device(config.training)
    with StageProgress() as bar:
        modes = prepare_modes(config, bar, resolved.dataset)
    source = next(mode.source for mode in modes if mode.source is not None)
    gpu = simulated_gpu(simulate, simulate_step_ms, resolved, source)
    say(f"simulated: {gpu.assumption}")
    runner = None
    if training_steps:
        runner = StepRunner(
            config, device, lambda shape: say(f"compiling the step for {' × '.join(map(str, shape))}")
        )
    usable = sum(mode.source is not None for mode in modes)
    parts = usable * (1 + ROUNDS * (2 if runner is None else 3))
    with loading_errors(), progress("measuring", parts, "measurements") as bar:
        measure_modes(
            modes,
            num_batches=num_batches,
            step_seconds=gpu.step_seconds,
            runner=runner,
            training_steps=training_steps,
            on_part=bar.advance,
        )
    result: dict[str, Any] = {
        "device": device.name,
        "batch": batch_text(config),
        "workers": config.data.workers,
        "simulated_gpu": gpu.to_dict(),
        "modes": [mode.to_dict() for mode in modes],
    }
    emit(result, as_json, lambda out: _render(out, result["modes"], config, device, gpu))


def _render(out: Console, modes: list[dict[str, Any]], config: XTTSConfig, device: Device, gpu: SimulatedGpu) -> None:
    data = config.data
    out.print(f"batches of {batch_text(config)}, {data.workers} workers, {data.prefetch} batches ahead", markup=False)
    trained = any("training" in mode for mode in modes)
    header = ["mode", "load ms", "clips/s", ""]
    header += [f"trained clips/s {device.name}", "stall %"] if trained else []
    header += [f"{gpu.name} busy % (simulated)", "fed (simulated)"]
    out.print(table_text(header, [[mode["mode"], *_cells(mode, trained)] for mode in modes]), markup=False)
    for mode in modes:
        if mode["problem"] is not None:
            out.print(f"{mode['mode']}: not measured: {mode['problem']}", markup=False)
    out.print(f"simulated: {gpu.assumption}", markup=False)
    fed = [mode["mode"] for mode in modes if "simulated" in mode and _fed(mode) == "yes"]
    answer = f"yes: {'; '.join(fed)}" if fed else "no mode keeps it busy; --simulate-step-ms takes its real step time"
    out.print(f"would this machine feed it (simulated)? {answer}", markup=False)


def _cells(mode: dict[str, Any], trained: bool) -> list[str]:
    if mode["problem"] is not None:
        return [_NOTHING] * (7 if trained else 5)
    loading, simulated = mode["loading"], mode["simulated"]
    cells = [
        f"{loading['ms_per_batch']:.1f}",
        f"{loading['clips_per_second']:,.0f}",
        loading_verdict(loading["ms_per_batch"]),
    ]
    if trained:
        rates = mode.get("training")
        cells += (
            [f"{rates['clips_per_second']:.1f}", f"{100 * rates['stall_share']:.1f}"] if rates else [_NOTHING] * 2
        )
    return [*cells, f"{100 * simulated['busy_share']:.1f}", _fed(mode)]


def _fed(mode: dict[str, Any]) -> str:
    busy = mode["simulated"]["busy_share"]
    return "yes" if busy >= _FED else "nearly" if busy >= _NEARLY_FED else "no"
