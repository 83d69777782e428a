"""All ways of loading one data set, side by side: how fast each is, and which accelerator it would feed.

The ways take turns in rounds, so that noise hits all alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import tensorflow as tf

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.batch_source import AllShapesSeen, BatchSource, clips_in
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.precompute import WorkProgress
from myxtts.errors import DataError
from myxtts.performance.loading_profile import LoadingProfile, loading_verdict, profile_loading
from myxtts.performance.simulated_accelerator import SimulatedAccelerator, SimulatedRun
from myxtts.training.measured_steps import StepRunner
from myxtts.training.step_times import Rates

Batches = Iterator[dict[str, tf.Tensor]]

ROUNDS = 3
MODES: dict[str, dict[str, Any]] = {
    "precompute": {"preprocessing_mode": "precompute"},
    "runtime, mels on the host": {"preprocessing_mode": "runtime", "feature_device": "host"},
    "runtime, mels in the step": {"preprocessing_mode": "runtime", "feature_device": "accelerator"},
}


@dataclass
class Feeding:
    """One way of loading and what was measured of it, a value per round.

    Attributes:
        name: of the mode.
        source: what loads it; None if it cannot be used.
        problem: why it cannot.
        batches: what it delivers, once it is warm.
    """

    name: str
    source: BatchSource | None = None
    problem: str | None = None
    batches: Batches | None = None
    loading: list[LoadingProfile] = field(default_factory=list)
    training: list[Rates] = field(default_factory=list)
    simulated: list[SimulatedRun] = field(default_factory=list)

    @property
    def load_ms(self) -> float:
        """Milliseconds per batch."""
        return statistics.median(one.times.mean for one in self.loading)

    @property
    def load_clips_per_second(self) -> float:
        return statistics.median(one.clips_per_second for one in self.loading)

    @property
    def trained(self) -> list[Rates]:
        """Rounds in which a step was not compiled."""
        return [rates for rates in self.training if rates.steps]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        values: dict[str, Any] = {"mode": self.name, "problem": self.problem}
        if self.loading:
            values["loading"] = {
                "verdict": loading_verdict(self.load_ms),
                "ms_per_batch": self.load_ms,
                "clips_per_second": self.load_clips_per_second,
                "rounds": [one.to_dict() for one in self.loading],
            }
        if self.trained:
            values["training"] = {
                "clips_per_second": statistics.median(one.clips_per_second for one in self.trained),
                "stall_share": statistics.median(one.stall_share for one in self.trained),
                "step_ms": statistics.median(one.step_ms for one in self.trained),
            }
        if self.simulated:
            values["simulated"] = {
                "simulated": True,
                "step_ms": 1e3 * self.simulated[0].step_seconds,
                "busy_share": statistics.median(one.busy_share for one in self.simulated),
                "stall_share": statistics.median(one.stall_share for one in self.simulated),
                "rounds": [one.to_dict() for one in self.simulated],
            }
        return values


def prepare_feedings(
    config: XTTSConfig, progress: WorkProgress | None = None, dataset: LJSpeechDataset | None = None
) -> list[Feeding]:
    """Every mode of the data set; one that cannot be used says why and is passed over.

    Args:
        config: of the run.
        progress: watches a store being made.
        dataset: the configuration's, if it was read already.

    Raises:
        DataError: none can be used.
    """
    feedings = []
    dataset = dataset or LJSpeechDataset(None, config)
    for name, changes in MODES.items():
        data = DataConfig.model_validate(config.data.model_dump() | changes)
        try:
            feedings.append(Feeding(name, dataset.batches("train", data, progress)))
        except DataError as error:
            feedings.append(Feeding(name, problem=str(error).splitlines()[0]))
    if all(feeding.source is None for feeding in feedings):
        raise DataError(f"the data set cannot be loaded in any mode: {feedings[-1].problem}")
    return feedings


def measure_feedings(
    feedings: list[Feeding],
    *,
    num_batches: int,
    step_seconds: float | None,
    runner: StepRunner | None,
    training_steps: int,
    on_part: Callable[[], None],
) -> None:
    """Measures every mode, in rounds.

    Args:
        feedings: what `prepare_feedings` gave; the results are added to them.
        num_batches: per mode in all rounds together, for loading and for the simulated accelerator each.
        step_seconds: of the simulated accelerator; None: none is simulated.
        runner: of real training steps; None: none are run.
        training_steps: per mode in all rounds together.
        on_part: is called after each measurement, and after each mode has been warmed up.
    """
    usable = [feeding for feeding in feedings if feeding.source is not None]
    per_round = max(1, -(-num_batches // ROUNDS))
    for _ in range(ROUNDS):
        for feeding in usable:
            assert feeding.source is not None
            if feeding.batches is None:
                feeding.batches = warm_batches(feeding.source, runner=runner)
                on_part()
            batches, untimed = feeding.batches, buffered(feeding.source.config)
            drain(batches, untimed)
            feeding.loading.append(profile_loading(batches, per_round, count_clips=clips_in))
            on_part()
            if step_seconds is not None:
                accelerator = SimulatedAccelerator(step_seconds)
                feeding.simulated.append(accelerator.run(batches, per_round, warmup=untimed, count_clips=clips_in))
                on_part()
            if runner is not None:
                drain(batches, untimed)
                feeding.training.append(runner.run(batches, max(1, -(-training_steps // ROUNDS))))
                on_part()


def buffered(config: DataConfig) -> int:
    """Batches that a pipeline may have ready before anyone asks: what they took to load is not seen."""
    return config.prefetch + config.workers if config.optimize_cpu_gpu_overlap else 1


def warm_batches(source: BatchSource, seed: int = 0, runner: StepRunner | None = None) -> Batches:
    """The batches of a source without end, once everything is compiled.

    Loading compiles for a shape when it first comes, and so does the step; an epoch has all shapes.
    """
    batches = iter(source.dataset(seed=seed))
    all_seen = AllShapesSeen(source.plan)
    while True:
        batch = next(batches)
        if runner is not None:
            runner.prepare(batch)
        if all_seen(batch):
            return batches


def drain(batches: Batches, count: int) -> None:
    """Takes as many batches as a pipeline may have had ready."""
    for _ in islice(batches, count):
        pass
