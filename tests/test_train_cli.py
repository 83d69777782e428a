"""`myxtts train` as a user runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf
from training_samples import BANDS, QUICK, data_folder
from watched_work import opened_files

from myxtts import hardware
from myxtts.cli import train
from myxtts.cli.machine_config import MachineConfig, loading_errors, resolve_for_machine
from myxtts.cli.options import ConfigOptions
from myxtts.config.config import XTTSConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.errors import TrainingError
from myxtts.hardware import Gpu
from myxtts.models.checkpoint import save_checkpoint
from myxtts.models.create import create_model
from myxtts.training import auto_batch, device

MyXTTS = Callable[..., subprocess.CompletedProcess[str]]

RUN = (
    "--batch-size=8 --seed=3 --set=log_every=1 --set=warmup_steps=1 --set=val_split=0.2 --set=train_split=0.8 "
    "--set=enable_tensorboard=false --set=save_every=2"
)
QUICK_RUN = [*QUICK, *RUN.split()]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("cli"))


@pytest.mark.usefixtures("smallest_model")
def test_a_run_is_begun_and_resumed(data: Path, tmp_path: Path, call_myxtts: MyXTTS) -> None:
    run = tmp_path / "run"
    saved = tmp_path / "saved.yaml"
    first = call_myxtts(
        "train",
        "--data-path",
        data,
        "--checkpoint-dir",
        run,
        "--max-steps",
        3,
        "--save-config",
        saved,
        "--json",
        *QUICK_RUN,
    )
    assert first.returncode == 0, first.stderr
    result = json.loads(first.stdout)
    assert (result["reason"], result["step"]) == ("finished", 3)
    assert "automatic (cpu): model tiny, batches of 8 clips" in first.stderr
    assert "step 3/3" in first.stderr
    assert "of step time (" in first.stderr
    assert XTTSConfig.from_yaml(saved) == XTTSConfig.from_yaml(run / "config.yaml")

    # Without any other option: the run knows its configuration.
    second = call_myxtts("train", "--checkpoint-dir", run, "--resume", "--max-steps", 5)
    assert second.returncode == 0, second.stderr
    assert "continuing after step 3" in second.stderr
    assert second.stdout == ""


def test_the_checksums_of_the_first_weights_are_computed_once(
    data: Path, tmp_path: Path, call_myxtts: MyXTTS, smallest_model: None
) -> None:
    config = XTTSConfig(size="tiny", text_symbols="graphemes", n_mels=BANDS)
    save_checkpoint(tmp_path / "other", create_model(config), config)
    given = ("--data-path", data, "--checkpoint-dir", tmp_path / "run", "--init-from", tmp_path / "other")
    with opened_files() as times:
        done = call_myxtts("train", *given, "--max-steps", 1, *QUICK)
    assert done.returncode == 0, done.stderr
    assert f"starting with the weights of {tmp_path / 'other'}" in done.stderr
    assert times(tmp_path / "other" / "model.npz") == 2  # for its checksum, and to load the weights


@pytest.mark.usefixtures("smallest_model")
def test_a_job_that_always_resumes_looks_for_batches_that_fit_at_first_only(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Searched(Exception):
        pass

    def search(*_: object) -> None:
        raise Searched

    monkeypatch.setattr(auto_batch, "find_frame_budget", search)
    given = ConfigOptions(data_path=[data], checkpoint_dir=tmp_path / "run").load(machine=())
    resolved = MachineConfig(given.config, given.sources, LJSpeechDataset(None, given.config))
    with pytest.raises(Searched):
        train._choose_batches(resolved, resume=True)
    (tmp_path / "run" / "step-00000001").mkdir(parents=True)
    train._choose_batches(resolved, resume=True)
    with pytest.raises(Searched):
        train._choose_batches(resolved, resume=False)


def test_separate_training_and_validation_sets(data: Path, tmp_path: Path) -> None:
    for name, lines in (("train-1.1", slice(1, 20)), ("val", slice(20, None))):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copytree(data / "wavs", folder / "wavs")
        content = (data / "metadata.csv").read_text().splitlines()
        (folder / "metadata.csv").write_text("\n".join([content[0], *content[lines]]) + "\n")
    for train_data in (tmp_path / "train-1.1", tmp_path / "train-1.1/metadata.csv"):
        given = train_data, tmp_path / "val"
        config = ConfigOptions().load(**train._separate_sets(None, *given)).config
        metadata = read_metadata(config.data)
        metadata.require_usable()
        assert (len(metadata.rows("train")), len(metadata.rows("val"))) == (19, 9)


def test_on_a_machine_without_a_gpu_a_key_without_effect_is_said_once(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "gpus", list)
    (tmp_path / "old.yaml").write_text("shuffle_buffer_multiplier: 10")
    resolve_for_machine(ConfigOptions(config=tmp_path / "old.yaml", data_path=[data]))
    assert sum("has no effect" in record.getMessage() for record in caplog.records) == 1


def test_what_nobody_chose_is_chosen_for_the_gpu_that_tensorflow_uses(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = Gpu("NVIDIA GeForce RTX 3060", 12 << 30), Gpu("NVIDIA GeForce RTX 4090", 24 << 30)
    for present, usable, batch_size in (
        ([small, large], [large], 32),
        ([], [large], 32),
        ([large], [], 16),
        ([large, small], [large, small], 32),
    ):
        monkeypatch.setattr(hardware, "gpus", lambda present=present: present)
        monkeypatch.setattr(device, "usable_gpus", lambda _, usable=usable: usable)
        assert resolve_for_machine(ConfigOptions(data_path=[data])).config.data.batch_size == batch_size


def test_a_lack_of_memory_is_not_taken_for_a_clip_that_cannot_be_loaded() -> None:
    with pytest.raises(TrainingError, match=r"^out of memory; lower batch_size"), loading_errors():
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[1,2]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--train-data", "a"), "--train-data and --val-data belong together"),
        (("--data-path", "a", "--train-data", "b", "--val-data", "c"), "either --data-path, or"),
        (("--resume", "--init-from", "x"), "--resume continues a run"),
        (("--data-path", "nowhere"), "nowhere: no such folder"),
        (("--optimization-level", "best"), "optimization_level"),
        (("--device", "tpu"), "device"),
        (("--max-steps", "0"), "max_steps"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    run_myxtts: MyXTTS, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run_myxtts("train", *arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


# Without TensorFlow, which would be seconds later.
WITHOUT_TENSORFLOW = (
    "import sys; sys.modules['tensorflow'] = None; from myxtts.cli.app import main; main(sys.argv[1:])"
)


@pytest.mark.parametrize(
    ("option", "name", "code", "message"),
    [
        ("--checkpoint-dir", "taken", 2, "--resume continues it"),
        ("--init-from", "none", 1, "none: no such folder"),
    ],
)
def test_a_folder_that_cannot_be_used_is_said_before_tensorflow_starts(
    data: Path, tmp_path: Path, python: str, option: str, name: str, code: int, message: str
) -> None:
    (tmp_path / "taken" / "step-00000001").mkdir(parents=True)
    command = [python, "-c", WITHOUT_TENSORFLOW, "train", "--data-path", str(data), option, name, *QUICK_RUN]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_public_names_are_those_of_the_long_paths() -> None:
    import myxtts
    from myxtts.data.ljspeech import LJSpeechDataset
    from myxtts.inference import XTTSInference
    from myxtts.performance import diagnose
    from myxtts.training.trainer import XTTSTrainer

    short = (myxtts.XTTSConfig, myxtts.LJSpeechDataset, myxtts.XTTSTrainer, myxtts.XTTSInference, myxtts.diagnose)
    assert short == (XTTSConfig, LJSpeechDataset, XTTSTrainer, XTTSInference, diagnose)
