"""The options that name a GPU to simulate, and how long its step takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myxtts.errors import UsageError
from myxtts.performance.known_gpus import ASSUMED_SHARE_OF_PEAK, known_gpu

if TYPE_CHECKING:
    from myxtts.config.resolve import ResolvedConfig
    from myxtts.data.batch_source import BatchSource

_GPU_MODEL = "base"

_simulation_option = partial(typer.Option, rich_help_panel="Simulated GPU")


@dataclass(frozen=True)
class SimulatedGpu:
    """A GPU to simulate.

    Attributes:
        name: as people read it.
        step_seconds: how long a step takes.
        assumption: where the step time comes from, in one line.
    """

    name: str
    step_seconds: float
    assumption: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"simulated": True}


@dataclass(frozen=True)
class SimulationOptions:
    """Which GPU to simulate: a known one, or one whose step time is known."""

    simulate: Annotated[
        str | None, _simulation_option(metavar="GPU", help="Simulate this GPU, e.g. rtx4090, rtx3060 or a100.")
    ] = None
    simulate_step_ms: Annotated[
        float | None, _simulation_option(help="Simulate a GPU whose step takes this many milliseconds.")
    ] = None

    def require_valid(self) -> None:
        """Refuses wrong options before any work.

        Raises:
            UsageError: both options are given, or the GPU is not known.
        """
        step_ms = self.simulate_step_ms
        if self.simulate is not None and step_ms is not None:
            raise UsageError("give either --simulate or --simulate-step-ms")
        if step_ms is not None and not 0 <= step_ms < float("inf"):
            raise UsageError(f"--simulate-step-ms {step_ms:g}: should be at least 0")
        if self.simulate is not None:
            known_gpu(self.simulate)

    @property
    def given(self) -> bool:
        return self.simulate is not None or self.simulate_step_ms is not None

    def gpu(self, resolved: ResolvedConfig, source: BatchSource) -> SimulatedGpu:
        """The GPU to simulate, with its step time for the batches of `source`.

        The step time of a known GPU is estimated from the floating-point operations of the step.
        If nobody chose a model, the step is that of the model which MyXTTS trains on a GPU.
        """
        if self.simulate_step_ms is not None:
            step_ms = self.simulate_step_ms
            return SimulatedGpu(f"{step_ms:g} ms", step_ms / 1e3, f"a GPU whose step takes {step_ms:g} ms")
        from myxtts.models.create import create_model
        from myxtts.training.step_parts import step_flops

        assert self.simulate is not None
        gpu = known_gpu(self.simulate)
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
            f"{1e3 * seconds:.1f} ms per step",
        )
