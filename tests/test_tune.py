"""`myxtts tune`: the search, that it never ends worse than it began, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from training_samples import QUICK, configure, data_folder

from myxtts.cli import app
from myxtts.config.config import XTTSConfig
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.store import FeatureStore
from myxtts.performance.tuning import ROUNDS, Axis, Comparison, TrialError, tune
from myxtts.training.device import prepare_device
from myxtts.training.tuning_trial import FRAME_BUDGET, TuningTrial, axes

pytestmark = pytest.mark.usefixtures("smallest_model")

WORKERS, PREFETCH = Axis("num_workers", (1, 4, 8)), Axis("prefetch_buffer_size", (2, 8))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("tune"))


class Machine:
    """Gives rates by a rule, and keeps its own time: a second per measurement."""

    def __init__(self, rate: Callable[[Mapping[str, Any]], float]) -> None:
        self.rate = rate
        self.time = 0.0
        self.measured: list[dict[str, Any]] = []

    def clock(self) -> float:
        return self.time

    def __call__(self, changes: Mapping[str, Any]) -> float:
        self.time += 1.0
        self.measured.append(dict(changes))
        return self.rate(changes)


# The search


def test_each_setting_is_tried_beside_the_best_of_those_before() -> None:
    machine = Machine(lambda c: 100 + 10 * c.get("num_workers", 2) + 5 * (c.get("prefetch_buffer_size") == 8))
    tuned = tune([WORKERS, PREFETCH], machine, 1000, clock=machine.clock)
    assert tuned.changes == {"num_workers": 8, "prefetch_buffer_size": 8}
    assert [trial.changes for trial in tuned.trials] == [
        {},
        {"num_workers": 1},
        {"num_workers": 4},
        {"num_workers": 8},
        {"num_workers": 8, "prefetch_buffer_size": 2},
        {"num_workers": 8, "prefetch_buffer_size": 8},
    ]


def test_the_winner_is_measured_again_in_turns_with_the_start() -> None:
    machine = Machine(lambda c: 200.0 if c else 100.0)
    tuned = tune([Axis("num_workers", (4,))], machine, 1000, clock=machine.clock)
    assert machine.measured[-2 * ROUNDS :] == [{}, {"num_workers": 4}] * ROUNDS
    assert tuned.comparison is not None
    assert tuned.comparison.gain == pytest.approx(1.0)


def test_luck_in_the_search_does_not_survive_the_rounds() -> None:
    lucky = iter([100.0, 100.0, 130.0, *[100.0] * 100])
    machine = Machine(lambda changes: next(lucky))
    tuned = tune([Axis("num_workers", (4,))], machine, 1000, clock=machine.clock)
    assert tuned.comparison is not None
    assert not tuned.comparison.better
    assert tuned.changes == {}


def test_nothing_faster_keeps_the_start_without_more_measuring() -> None:
    machine = Machine(lambda changes: 100.0 - len(changes))
    tuned = tune([WORKERS], machine, 1000, clock=machine.clock)
    assert (tuned.changes, tuned.comparison) == ({}, None)
    assert len(machine.measured) == 5


def test_what_there_is_no_time_for_is_told_and_the_rounds_still_fit() -> None:
    machine = Machine(lambda c: 100.0 + c.get("num_workers", 0))
    budget = 4 + 2 * ROUNDS + 0.5
    tuned = tune([WORKERS, PREFETCH], machine, budget, clock=machine.clock)
    assert machine.time <= budget
    left_out = [trial for trial in tuned.trials if trial.note == "no time left"]
    assert left_out
    assert len(tuned.trials) == 6


def test_a_setting_that_cannot_be_used_is_passed_over() -> None:
    def rate(changes: Mapping[str, Any]) -> float:
        if changes.get("num_workers") == 4:
            raise TrialError("does not fit into memory")
        return 100.0 + changes.get("num_workers", 0)

    machine = Machine(rate)
    tuned = tune([WORKERS], machine, 1000, clock=machine.clock)
    assert tuned.trials[2].note == "does not fit into memory"
    assert tuned.changes == {"num_workers": 8}


def test_a_start_that_cannot_be_measured_is_an_error() -> None:
    def rate(changes: Mapping[str, Any]) -> float:
        raise TrialError("no")

    with pytest.raises(TrialError):
        tune([WORKERS], Machine(rate), 1000)


@pytest.mark.parametrize(
    ("winner", "better"),
    [
        ([120, 118, 125, 119, 121], True),
        ([120, 118, 99, 119, 121], False),  # one round against it
        ([100.5, 100.6, 100.4, 100.7, 100.5], False),  # always, but by too little
        ([90, 91, 92, 93, 94], False),
    ],
)
def test_a_gain_counts_only_beyond_noise(winner: list[float], better: bool) -> None:
    assert Comparison((100.0,) * 5, tuple(winner)).better is better


def test_noise_alone_never_makes_the_start_worse() -> None:
    noise: Iterator[float] = cycle([97.0, 104.0, 101.0, 99.0, 103.0, 96.0, 100.0])
    machine = Machine(lambda changes: next(noise))
    assert tune([WORKERS, PREFETCH], machine, 1000, clock=machine.clock).changes == {}


# What is tried


def test_settings_that_matter_are_tried_and_the_present_value_is_not(data: Path, tmp_path: Path) -> None:
    config = configure(data, tmp_path, num_workers=1, prefetch_buffer_size=4)
    source = LJSpeechDataset(None, config).batches()
    found = {axis.key: axis.values for axis in axes(config, source, frame_budget=True)}
    assert list(found) == ["num_workers", "prefetch_buffer_size", "mel_dtype", FRAME_BUDGET]
    assert 1 not in found["num_workers"]
    assert 4 not in found["prefetch_buffer_size"]
    assert found["mel_dtype"] == ("float32",)
    assert all(budget >= max(bucket.frames for bucket in source.plan.buckets) for budget in found[FRAME_BUDGET])


def test_what_has_no_effect_is_not_tried(data: Path, tmp_path: Path) -> None:
    config = configure(data, tmp_path, preprocessing_mode="runtime", optimize_cpu_gpu_overlap=False)
    source = LJSpeechDataset(None, config).batches()
    assert axes(config, source, frame_budget=False) == []


# The stores that trials need


def stores(cache: Path) -> set[str]:
    """Precisions of the stores in a cache folder."""
    return {FeatureStore.open(folder).manifest.mel_dtype for folder in cache.iterdir()} if cache.exists() else set()


@pytest.fixture
def start(data: Path, tmp_path: Path) -> XTTSConfig:
    return configure(data, tmp_path, cache_dir=str(tmp_path / "cache"))


def trial_of(config: XTTSConfig) -> TuningTrial:
    return TuningTrial(config, prepare_device(config.training), steps=1, simulated_step=0.0)


def test_a_store_that_was_only_tried_is_removed_again(start: XTTSConfig, tmp_path: Path) -> None:
    with trial_of(start) as trial:
        trial({})
        trial({"mel_dtype": "float32"})
        assert stores(tmp_path / "cache") == {"float16", "float32"}
        trial.keep({"num_workers": 2})
    assert stores(tmp_path / "cache") == {"float16"}
    assert LJSpeechDataset(None, start).prepare().reason == "the store is up to date"


def test_a_store_that_is_chosen_stays(start: XTTSConfig, tmp_path: Path) -> None:
    with trial_of(start) as trial:
        trial({"mel_dtype": "float32"})
        trial.keep({"mel_dtype": "float32", "num_workers": 2})
    assert "float32" in stores(tmp_path / "cache")


def test_a_store_that_was_there_before_stays(start: XTTSConfig, tmp_path: Path) -> None:
    other = start.data.model_copy(update={"mel_dtype": "float32"})
    LJSpeechDataset(None, other).precompute_mels()
    with trial_of(start) as trial:
        trial({"mel_dtype": "float32"})
    assert stores(tmp_path / "cache") == {"float16", "float32"}
    assert LJSpeechDataset(None, other).prepare().reason == "the store is up to date"


def test_a_store_that_somebody_has_opened_meanwhile_stays(start: XTTSConfig, tmp_path: Path) -> None:
    with trial_of(start) as trial:
        trial({"mel_dtype": "float32"})
        other = start.data.model_copy(update={"mel_dtype": "float32"})
        opened = LJSpeechDataset(None, other).prepare()
    assert stores(tmp_path / "cache") == {"float16", "float32"}
    assert opened.store is not None


def test_an_interrupted_search_leaves_no_store_behind(start: XTTSConfig, tmp_path: Path) -> None:
    def search() -> None:
        with trial_of(start) as trial:
            trial({"mel_dtype": "float32"})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search()
    assert stores(tmp_path / "cache") == {"float16"}


def test_a_precision_that_would_be_loaded_in_another_mode_is_no_trial(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = configure(data, tmp_path, cache_dir=str(tmp_path / "file" / "cache"))
    with trial_of(config) as trial:
        assert isinstance(trial.source({}).clips, RuntimeClips)
        config.data.cache_dir = str(tmp_path / "cache")
        with pytest.raises(TrialError, match="mode precompute"):
            trial.source({"mel_dtype": "float32"})
    assert stores(tmp_path / "cache") == set()


def test_clips_are_looked_at_once_per_precision(data: Path, tmp_path: Path) -> None:
    with trial_of(configure(data, tmp_path, preprocessing_mode="runtime")) as trial:
        assert trial.source({}).clips is trial.source({"num_workers": 2}).clips


# The command


def test_real_steps_judge_and_the_best_configuration_is_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tuned.yaml"
    arguments = f"tune --data-path {data} --steps 2 --time-budget 1 --output {out} --json".split()
    assert app._run([*arguments, *QUICK]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["unit"], result["simulated"]) == ("s of audio/s", False)
    assert result["trials"][0]["rate"] > 0
    assert all(trial["rate"] or trial["note"] for trial in result["trials"])
    config = XTTSConfig.from_yaml(out)
    assert config.data.batch_size == 4
    assert config.data.num_workers == result["changes"].get("num_workers", 1)

    assert app._run([*arguments, *QUICK]) == 2
    assert "--force replaces it" in capsys.readouterr().err


def test_a_simulated_accelerator_judges_what_feeds_it(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tuned.yaml"
    arguments = f"tune --data-path {data} --steps 5 --simulate-step-ms 1 --time-budget 60 --output {out}".split()
    assert app._run([*arguments, *QUICK]) == 0
    text = capsys.readouterr().out
    assert "clips/s (simulated)" in text
    assert "mel_dtype float32" in text
    if "mel_dtype" not in text.partition("best: ")[2]:
        assert stores(data / "cached_features") == {"float16"}
    assert FRAME_BUDGET not in text
    assert "are kept" in text or "best: " in text
    config = XTTSConfig.from_yaml(out)
    assert (config.data.num_workers == 1) or "num_workers" in text.partition("best: ")[2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data-path", "/nowhere"], 1, "/nowhere"),
        (["--simulate", "voodoo2"], 2, "'voodoo2' is none of"),
        (["--time-budget", "0"], 2, "--time-budget"),
    ],
)
def test_a_mistake_ends_in_a_calm_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert app._run(["tune", *arguments]) == code
    assert message in capsys.readouterr().err
