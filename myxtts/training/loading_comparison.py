"""All modes of loading one data set, side by side: how fast each is, and which accelerator it would feed.

The modes take turns in rounds, so that noise affects all alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.batch_source import BatchSource, clips_in
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.precompute import WorkProgress
from myxtts.errors import DataError
from myxtts.performance.loading_profile import LoadingProfile, loading_verdict, profile_loading
from myxtts.performance.simulated_accelerator import SimulatedAccelerator, SimulatedRun
from myxtts.performance.step_run import drain
from myxtts.training.measured_steps import Batches, StepRunner, buffered, warm_batches
from myxtts.training.step_times import Rates

ROUNDS = 3
MODES: dict[str, dict[str, Any]] = {
    "precompute": {"preprocessing_mode": "precompute"},
    "runtime, mels on the host": {"preprocessing_mode": "runtime", "feature_device": "host"},
    "runtime, mels in the step": {"preprocessing_mode": "runtime", "feature_device": "accelerator"},
}


@dataclass
class LoadingMode:
    """One mode of loading and what was measured of it, a value per round.

    Attributes:
        name: of the mode.
        source: what loads it; None if it cannot be used.
        problem: why it cannot be used.
        batches: what it delivers, once it is warm.
    """

    name: str
    source: BatchSource | None = None
    problem: str | None = None
    batches: Batches | None = None
    loading: list[LoadingProfile] = field(default_factory=list)
    training: list[Rates] = field(default_factory=list)
    simulated: list[SimulatedRun] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the medians over the rounds."""
        values: dict[str, Any] = {"mode": self.name, "problem": self.problem}
        if self.loading:
            milliseconds = median(one.times.mean for one in self.loading)
            values["loading"] = {
                "verdict": loading_verdict(milliseconds),
                "ms_per_batch": milliseconds,
                "clips_per_second": median(one.clips_per_second for one in self.loading),
                "rounds": [one.to_dict() for one in self.loading],
            }
        # A round whose steps were all compiled first has no rates.
        if trained := [rates for rates in self.training if rates.steps]:
            values["training"] = {
                name: median(getattr(rates, name) for rates in trained)
                for name in ("clips_per_second", "stall_share", "step_ms")
            }
        if self.simulated:
            values["simulated"] = {
                "simulated": True,
                "step_ms": 1e3 * self.simulated[0].step_seconds,
                "busy_share": median(one.busy_share for one in self.simulated),
                "stall_share": median(one.stall_share for one in self.simulated),
                "rounds": [one.to_dict() for one in self.simulated],
            }
        return values


def prepare_modes(
    config: XTTSConfig, progress: WorkProgress | None = None, dataset: LJSpeechDataset | None = None
) -> list[LoadingMode]:
    """Every mode of the data set; one that cannot be used says why.

    Args:
        config: of the run.
        progress: watches a store being made.
        dataset: the configuration's, if it was read already.

    Raises:
        DataError: none can be used.
    """
    modes = []
    dataset = dataset or LJSpeechDataset(None, config)
    for name, changes in MODES.items():
        data = DataConfig.model_validate(config.data.model_dump() | changes)
        try:
            modes.append(LoadingMode(name, dataset.batches("train", data, progress)))
        except DataError as error:
            modes.append(LoadingMode(name, problem=str(error).splitlines()[0]))
    if all(mode.source is None for mode in modes):
        raise DataError(f"the data set cannot be loaded in any mode: {modes[-1].problem}")
    return modes


def measure_modes(
    modes: list[LoadingMode],
    *,
    num_batches: int,
    step_seconds: float,
    runner: StepRunner | None,
    training_steps: int,
    on_part: Callable[[], None],
) -> None:
    """Measures every mode, in rounds.

    Args:
        modes: what `prepare_modes` gave; the results are added to them.
        num_batches: per mode, over all rounds, for loading and for the simulated accelerator each.
        step_seconds: of the simulated accelerator.
        runner: of real training steps; None: none are run.
        training_steps: per mode, over all rounds.
        on_part: is called after each measurement, and after each warm-up.
    """
    usable = [mode for mode in modes if mode.source is not None]
    per_round = max(1, -(-num_batches // ROUNDS))
    for _ in range(ROUNDS):
        for mode in usable:
            assert mode.source is not None
            if mode.batches is None:
                mode.batches = warm_batches(mode.source, runner=runner)
                on_part()
            batches, untimed = mode.batches, buffered(mode.source.config)
            drain(batches, untimed)
            mode.loading.append(profile_loading(batches, per_round, count_clips=clips_in))
            on_part()
            accelerator = SimulatedAccelerator(step_seconds)
            mode.simulated.append(accelerator.run(batches, per_round, warmup=untimed, count_clips=clips_in))
            on_part()
            if runner is not None:
                drain(batches, untimed)
                mode.training.append(runner.run(batches, max(1, -(-training_steps // ROUNDS))))
                on_part()
