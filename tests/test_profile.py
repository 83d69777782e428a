"""`myxtts profile`: times of loading against the thresholds, and the step by its parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from training_samples import QUICK, configure, data_folder

from myxtts.cli import app
from myxtts.cli.profile import _trace
from myxtts.config.config import XTTSConfig
from myxtts.data.batch_source import AllShapesSeen
from myxtts.data.batches.plan import BatchPlan
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.performance.loading_profile import loading_verdict, profile_loading
from myxtts.training import measured_steps
from myxtts.training.device import Device, prepare_device
from myxtts.training.measured_steps import StepRunner
from myxtts.training.objective import Shape

pytestmark = pytest.mark.usefixtures("smallest_model")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("profile"))


# Loading


@pytest.mark.parametrize(
    ("mean_ms", "verdict"), [(0, "good"), (99.9, "good"), (100, "moderate"), (500, "moderate"), (500.1, "slow")]
)
def test_the_thresholds_are_those_of_the_reference_documents(mean_ms: float, verdict: str) -> None:
    assert loading_verdict(mean_ms) == verdict


class HandClock:
    """A clock that only the source moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    def source(self, *milliseconds: float) -> Iterator[int]:
        for number, taken in enumerate(milliseconds):
            self.time += taken / 1e3
            yield number


def test_the_first_batch_is_told_apart_from_the_others() -> None:
    clock = HandClock()
    loading = profile_loading(clock.source(900, 10, 30, 20), 10, count_clips=lambda batch: 8, clock=clock)
    assert loading.first_ms == pytest.approx(900)
    assert (loading.times.count, loading.clips) == (3, 24)
    assert loading.times.p50 == pytest.approx(20)
    assert loading.clips_per_second == pytest.approx(400)
    assert loading.variation_verdict == "moderate"
    assert json.loads(json.dumps(loading.to_dict()))["verdict"] == "good"


def test_batches_of_warming_up_are_not_timed() -> None:
    clock = HandClock()
    source = clock.source(900, 400, 10, 20, 30)
    loading = profile_loading(source, 9, is_warm=lambda batch: batch == 1, count_clips=lambda batch: 1, clock=clock)
    assert loading.first_ms == pytest.approx(900)
    assert (loading.times.count, loading.times.maximum) == (3, pytest.approx(30))


def test_a_source_is_warm_once_every_shape_has_come_or_an_epoch_is_over() -> None:
    plan = BatchPlan([10, 10, 90, 90], [5, 5, 5, 5], batch_size=1, num_buckets=2)
    short, long = (
        {"mel": np.zeros([1, bucket.frames, 8]), "tokens": np.zeros([1, bucket.tokens])} for bucket in plan.buckets
    )
    seen = AllShapesSeen(plan)
    assert [seen(batch) for batch in (short, short, long)] == [False, False, True]
    never = AllShapesSeen(plan)
    assert [never(short) for _ in range(4)] == [False, False, False, True]


def test_no_more_batches_are_taken_than_asked_for() -> None:
    clock = HandClock()
    source = clock.source(*[1] * 100)
    assert profile_loading(source, 5, count_clips=lambda batch: 1, clock=clock).times.count == 5
    assert next(source) == 6


@pytest.mark.parametrize("batches", [0, 1])
def test_a_source_that_ends_at_once_is_refused(batches: int) -> None:
    with pytest.raises(ValueError, match="nothing to time"):
        profile_loading(range(batches), 3, count_clips=lambda batch: 1)


# The command


def test_the_step_has_its_parts_with_mels_computed_in_it(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = f"profile --data-path {data} --num-batches 6 --calls 1 --json".split()
    mode = ["--preprocessing-mode", "runtime", "--set", "feature_device=accelerator"]
    assert app._run([*arguments, *mode, *QUICK]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["mode"] == "runtime"
    assert (result["loading"]["batches"], result["loading"]["verdict"] != "") == (6, True)
    parts = result["step"]["parts"]
    named = ("mels on the device", "reference encoder", "text encoder", "duration predictor", "aligner", "decoder")
    assert [name for name in parts if name in named] == list(named)
    assert {"losses", "backward", "optimizer"} < parts.keys()
    before = [taken for name, taken in parts.items() if name not in ("backward", "optimizer")]
    assert sum(before) == pytest.approx(result["step"]["forward_ms"])


def test_loading_alone_for_people_and_for_tensorboard(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    arguments = f"profile --data-path {data} --num-batches 5 --no-model --trace-dir {trace}".split()
    assert app._run([*arguments, *QUICK]) == 0
    out = capsys.readouterr().out
    assert "ms per batch (good under 100 ms, slow above 500 ms)" in out
    assert "5 batches of 4 clips, mode precompute, 1 workers" in out
    assert "step" not in out
    assert list(trace.rglob("*.xplane.pb"))


def test_every_shape_of_the_step_is_compiled_before_it_is_traced(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[Shape] = []

    class Watched(StepRunner):
        def __init__(self, config: XTTSConfig, device: Device) -> None:
            super().__init__(config, device, compiled.append)

    monkeypatch.setattr(measured_steps, "StepRunner", Watched)
    config = configure(data, tmp_path, enable_graph_mode=False)
    source = LJSpeechDataset(None, config).batches("train")
    _trace(tmp_path / "trace", config, source, prepare_device(config.training), batches=1, model=True)
    assert len(set(compiled)) == len(source.plan.buckets) == 2
    assert list((tmp_path / "trace").rglob("*.xplane.pb"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data-path", "/nowhere"], 1, "/nowhere"),
        (["--num-batches", "0"], 2, "--num-batches"),
        (["--data-path", "/nowhere", "--set", "batch_sice=3"], 2, "batch_size"),
    ],
)
def test_a_mistake_ends_in_a_calm_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert app._run(["profile", *arguments]) == code
    assert message in capsys.readouterr().err


def test_a_trace_folder_that_cannot_be_is_refused_at_once(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert app._run(["profile", "--data-path", str(data), "--trace-dir", str(tmp_path / "file" / "trace")]) == 2
    assert "cannot be made" in capsys.readouterr().err
