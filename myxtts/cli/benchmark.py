"""`myxtts benchmark`: compare the ways of loading a data set, and whether each would keep a GPU busy."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli.machine_config import MachineConfig, batch_text, loading_errors, resolve_for_machine, say_compiling
from myxtts.cli.options import ConfigOptions, command, data_option
from myxtts.cli.output import StageProgress, emit, progress, say, table_text
from myxtts.cli.simulated_gpu import SimulatedGpu, SimulationOptions
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.training.device import Device

_NOTHING = "–"
_DEFAULT_GPU = "rtx4090"

# A simulated GPU is fed, or nearly fed, if it is busy for this share of the time. Idle time counts whether the batch
# was late or the host was: a real GPU would be idle as well.
_FED = 0.95
_NEARLY_FED = 0.80


@command("data_layout", "language", "batch_size", "num_workers", "cache_dir", "config", "preset", "settings")
def benchmark(
    *,
    test_data_path: Annotated[
        Path | None, data_option("--test-data-path", "--data-path", help="Folder of the data set.")
    ] = None,
    create_test_data: Annotated[
        bool,
        data_option(
            "--create-test-data",
            help="Measure on generated clips of noise, as long as LJSpeech's; they are deleted afterwards.",
        ),
    ] = False,
    clips: Annotated[int, data_option(min=20, help="Number of clips of noise.")] = 300,
    given: ConfigOptions,
    simulation: SimulationOptions,
    num_batches: Annotated[int, typer.Option(min=1, help="Batches to load in each mode.")] = 100,
    training: Annotated[
        bool, typer.Option("--training/--no-training", help="Also run real training steps, or only load batches.")
    ] = True,
    training_steps: Annotated[int, typer.Option(min=1, help="Steps to train in each mode.")] = 30,
) -> None:
    """Measure loading and training in every mode, and whether this machine would keep a GPU busy.

    The GPU is simulated: it keeps each batch for the time of a step, without using the CPU. Default: rtx4090.

    Example: myxtts benchmark --test-data-path ./data/ljspeech --simulate rtx4090
    """
    if create_test_data and test_data_path is not None:
        raise UsageError("give either --test-data-path or --create-test-data")
    if not create_test_data and test_data_path is None and given.config is None:
        raise UsageError("give --test-data-path, a --config that names a data set, or --create-test-data")
    if not simulation.given:
        simulation = SimulationOptions(_DEFAULT_GPU)
    simulation.require_valid()
    with ExitStack() as stack:
        more: dict[str, Any] = {"data_path": test_data_path}
        if create_test_data:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="myxtts-benchmark-")))
            from myxtts.corpus.noise import make_noise

            say(f"generating {clips:,} clips of noise")
            more = {"data_path": make_noise(folder / "data", clips), "cache_dir": folder / "cache"}
            # A data set without validation clips is refused; of so few clips, the default share may be none.
            more |= {"train_split": 0.8, "val_split": 0.2}
        resolved = resolve_for_machine(given, **more)
        _run(resolved, simulation, num_batches, training_steps if training else 0)


def _run(resolved: MachineConfig, simulation: SimulationOptions, num_batches: int, training_steps: int) -> None:
    from myxtts.training.device import prepare_device
    from myxtts.training.loading_comparison import ROUNDS, measure_modes, prepare_modes
    from myxtts.training.measured_steps import StepRunner

    config = resolved.config
    device = prepare_device(config.training)
    with StageProgress() as bar:
        modes = prepare_modes(config, bar, resolved.dataset)
    source = next(mode.source for mode in modes if mode.source is not None)
    gpu = simulation.gpu(resolved, source)
    say(f"simulated: {gpu.assumption}")
    runner = StepRunner(config, device, say_compiling) if training_steps else None
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
    emit(result, lambda out: _render(out, result["modes"], config, device, gpu))


def _render(out: Console, modes: list[dict[str, Any]], config: XTTSConfig, device: Device, gpu: SimulatedGpu) -> None:
    data = config.data
    out.print(f"batches of {batch_text(config)}, {data.workers} workers, {data.prefetch} batches ahead")
    trained = any("training" in mode for mode in modes)
    header = ["mode", "load ms", "clips/s", ""]
    header += [f"trained clips/s {device.name}", "stall %"] if trained else []
    header += [f"{gpu.name} busy % (simulated)", "fed (simulated)"]
    out.print(table_text(header, [[mode["mode"], *_cells(mode, trained)] for mode in modes]))
    for mode in modes:
        if mode["problem"] is not None:
            out.print(f"{mode['mode']}: not measured: {mode['problem']}")
    out.print(f"simulated: {gpu.assumption}")
    fed = [mode["mode"] for mode in modes if "simulated" in mode and _fed(mode) == "yes"]
    answer = (
        f"yes: {'; '.join(fed)}" if fed else "no, in no mode; if you know its real step time, give --simulate-step-ms"
    )
    out.print(f"would this machine keep it busy (simulated)? {answer}")


def _cells(mode: dict[str, Any], trained: bool) -> list[str]:
    if mode["problem"] is not None:
        return [_NOTHING] * (7 if trained else 5)
    loading, simulated = mode["loading"], mode["simulated"]
    cells = [f"{loading['ms_per_batch']:.1f}", f"{loading['clips_per_second']:,.0f}", loading["verdict"]]
    if trained:
        rates = mode.get("training")
        cells += (
            [f"{rates['clips_per_second']:.1f}", f"{100 * rates['stall_share']:.1f}"] if rates else [_NOTHING] * 2
        )
    return [*cells, f"{100 * simulated['busy_share']:.1f}", _fed(mode)]


def _fed(mode: dict[str, Any]) -> str:
    busy = mode["simulated"]["busy_share"]
    return "yes" if busy >= _FED else "nearly" if busy >= _NEARLY_FED else "no"
