"""The options that name a GPU which is not there, and the step time they stand for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myxtts.errors import UsageError
from myxtts.performance.known_gpus import ASSUMED_SHARE_OF_PEAK, known_gpu

if TYPE_CHECKING:
    from myxtts.config.resolve import ResolvedConfig
    from myxtts.data.batch_source import BatchSource

_GPU_MODEL = "base"

_PANEL = "Simulated accelerator"
SimulateOption = Annotated[
    str | None,
    typer.Option("--simulate", metavar="GPU", help="e.g. rtx4090, rtx3060, a100.", rich_help_panel=_PANEL),
]
SimulateStepOption = Annotated[
    float | None,
    typer.Option("--simulate-step-ms", help="Its step time, if you know it.", rich_help_panel=_PANEL),
]


@dataclass(frozen=True)
class SimulatedGpu:
    """An accelerator to simulate.

    Attributes:
        name: for people.
        step_seconds: how long it holds a batch.
        assumption: where that comes from, in one line.
    """

    name: str
    step_seconds: float
    assumption: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"simulated": True}


def require_simulation(simulate: str | None, step_ms: float | None) -> None:
    """Refuses what the two options cannot mean, before any work.

    Raises:
        UsageError: they contradict each other, or the GPU is not known.
    """
    if simulate is not None and step_ms is not None:
        raise UsageError("give either --simulate or --simulate-step-ms")
    if step_ms is not None and not 0 <= step_ms < float("inf"):
        raise UsageError(f"--simulate-step-ms {step_ms:g}: should be at least 0")
    if simulate is not None:
        known_gpu(simulate)


def simulated_gpu(
    simulate: str | None, step_ms: float | None, resolved: ResolvedConfig, source: BatchSource
) -> SimulatedGpu:
    """What the two options say, for the batches of a source.

    A model that nobody chose is the one that MyXTTS trains on a GPU, whatever it would train on this machine.
    """
    if step_ms is not None:
        return SimulatedGpu(f"{step_ms:g} ms", step_ms / 1e3, f"an accelerator whose step takes {step_ms:g} ms")
    assert simulate is not None
    from myxtts.models.create import create_model
    from myxtts.training.step_parts import step_flops

    gpu = known_gpu(simulate)
    clips, frames, tokens = source.plan.batch_shapes().mean(axis=0).tolist()
    config = resolved.config
    if resolved.sources["model.size"].startswith(("default", "automatic")):
        config = config.model_copy(update={"model": config.model.model_copy(update={"size": _GPU_MODEL})})
    flops = step_flops(create_model(config), round(clips), frames, tokens, source.reference_frames)
    seconds = gpu.step_seconds(flops)
    return SimulatedGpu(
        gpu.name,
        seconds,
        f"{gpu.name}, model {config.model.size}, {clips:.0f} clips × {frames:.0f} frames × {tokens:.0f} tokens: "
        f"{flops / 1e12:.2f} TFLOP at {100 * ASSUMED_SHARE_OF_PEAK:.0f} % of {gpu.peak_teraflops:g} TFLOP/s, "
        f"{1e3 * seconds:.1f} ms a step",
    )
