"""`myxtts benchmark`: all modes side by side, and accelerators that are not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from training_samples import QUICK, data_folder

from myxtts.cli import app
from myxtts.cli.machine_config import loading_errors
from myxtts.config.config import XTTSConfig
from myxtts.corpus.noise import make_noise
from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import DataError, UsageError
from myxtts.models.create import create_model
from myxtts.performance.known_gpus import SHORTEST_STEP_SECONDS, known_gpu
from myxtts.training.step_parts import step_flops

pytestmark = pytest.mark.usefixtures("smallest_model")

MODES = ["precompute", "runtime, mels on the host", "runtime, mels in the step"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("benchmark"))


# Simulated GPUs


@pytest.mark.parametrize("name", ["rtx4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "RTX-4090"])
def test_a_gpu_is_known_by_any_spelling(name: str) -> None:
    assert known_gpu(name).name == "RTX 4090"


def test_an_unknown_gpu_names_the_known_ones_and_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"none of t4, .*rtx4090.*--simulate-step-ms"):
        known_gpu("voodoo2")


def test_the_step_time_follows_from_arithmetic_and_peak() -> None:
    gpu = known_gpu("a100")
    assert gpu.step_seconds(312e12 * 0.4) == pytest.approx(1.0)
    assert gpu.step_seconds(0) == SHORTEST_STEP_SECONDS


def test_arithmetic_grows_with_clips_and_is_six_operations_per_weight_and_position() -> None:
    model = create_model(XTTSConfig(size="tiny"))
    one = step_flops(model, 1, frames=0, tokens=1, reference_frames=0)
    per_token = (model.encoder, model.mean_head, model.duration_predictor)
    assert one == 6 * sum(part.count_params() for part in per_token)
    frame = step_flops(model, 1, frames=2, tokens=0, reference_frames=0)
    assert frame == 6 * model.decoder.count_params()  # two frames are one patch
    assert step_flops(model, 8, frames=2, tokens=1, reference_frames=0) == 8 * (one + frame)


# Test data


def test_noise_is_a_data_set_with_lengths_like_ljspeech(tmp_path: Path) -> None:
    folder = make_noise(tmp_path / "noise", clips=40)
    metadata = read_metadata(XTTSConfig(data_path=str(folder)).data)
    assert (len(metadata.clips), list(metadata.problems)) == (40, [])
    seconds = [soundfile.info(path).duration for path in sorted((folder / "wavs").iterdir())]
    assert min(seconds) >= 1.1
    assert max(seconds) <= 10.1
    assert 5 < np.mean(seconds) < 8
    again = make_noise(tmp_path / "again", clips=40)
    assert (again / "metadata.csv").read_bytes() == (folder / "metadata.csv").read_bytes()


# The command


def test_every_mode_is_loaded_trained_and_simulated(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = f"benchmark --test-data-path {data} --num-batches 3 --training-steps 2 --simulate rtx4090 --json"
    assert app._run([*arguments.split(), *QUICK]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [mode["mode"] for mode in result["modes"]] == MODES
    assert result["simulated_gpu"]["simulated"] is True
    assert "RTX 4090, model base, 4 clips" in result["simulated_gpu"]["assumption"]
    for mode in result["modes"]:
        assert mode["loading"]["clips_per_second"] > 0
        assert mode["training"]["clips_per_second"] > 0
        assert 0 <= mode["training"]["stall_share"] <= 1
        assert mode["simulated"]["simulated"] is True
        assert 0 < mode["simulated"]["busy_share"] <= 1.001
        assert len(mode["simulated"]["rounds"]) == 3


def test_the_table_says_simulated_and_answers_the_question(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = f"benchmark --data-path {data} --num-batches 3 --no-training --simulate-step-ms 5"
    assert app._run([*arguments.split(), *QUICK]) == 0
    out = capsys.readouterr().out
    assert "simulated" in out.splitlines()[1]
    for mode in MODES:
        assert re.search(rf"^{mode} +[\d.]+ +[\d,]+ +(good|moderate|slow) +[\d.]+ +(yes|nearly|no)$", out, re.M)
    assert "simulated: a GPU whose step takes 5 ms" in out
    assert "would this machine keep it busy (simulated)? " in out


def test_a_mode_that_cannot_be_used_says_why_and_the_others_are_measured(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    arguments = f"benchmark --data-path {data} --num-batches 3 --no-training --simulate-step-ms 5 --json"
    assert app._run([*arguments.split(), "--cache-dir", str(blocked / "cache"), *QUICK]) == 0
    modes = json.loads(capsys.readouterr().out)["modes"]
    assert modes[0]["problem"]
    assert "loading" not in modes[0]
    assert modes[1]["loading"]["clips_per_second"] > 0


def test_what_tensorflow_says_of_a_batch_it_cannot_load_becomes_one_line() -> None:
    with pytest.raises(DataError, match=r"^a batch cannot be loaded: clip.wav: changed$"), loading_errors():
        raise tf.errors.InvalidArgumentError(None, None, "\n  clip.wav: changed\n\t [[{{node Assert}}]]")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--create-test-data"),
        (["--create-test-data", "--test-data-path", "x"], 2, "either"),
        (["--data-path", "/nowhere"], 1, "/nowhere"),
        (["--data-path", "/nowhere", "--simulate", "voodoo2"], 2, "none of t4"),
        (["--create-test-data", "--simulate", "t4", "--simulate-step-ms", "5"], 2, "give either --simulate or"),
        (["--create-test-data", "--simulate-step-ms", "-5"], 2, "should be at least 0"),
    ],
)
def test_a_mistake_ends_in_a_calm_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert app._run(["benchmark", *arguments]) == code
    assert message in capsys.readouterr().err
