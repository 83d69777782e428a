"""Checkpoints: everything comes back, half of one is never seen, a damaged one and a full disk are survived."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_samples import batch, configure, small_model, spec_of, weights_of

from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, TrainingError, UsageError
from myxtts.models.checkpoint import CHECKSUMS, CONFIG, load_model, read_checkpoint
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training.alignment_cache import AlignmentCache
from myxtts.training.checkpointing import CheckpointWriter
from myxtts.training.objective import SpeechObjective
from myxtts.training.optimizer import create_optimizer
from myxtts.training.run_folder import RunFolder, step_of
from myxtts.training.step import TrainingStep
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.training_state import ARRAYS, RunState, TrainingState


@pytest.fixture
def config(tmp_path: Path) -> XTTSConfig:
    return configure(tmp_path / "data", tmp_path / "run", enable_graph_mode=False)


def make_step(config: XTTSConfig, seed: int = 0, policy: str = "float32") -> TrainingStep:
    model = small_model(seed, dtype=policy)
    optimizer = create_optimizer(config.training, 100, model.dtype_policy.name)
    return TrainingStep(SpeechObjective(model, config), optimizer, config, spec_of(batch()))


def save(folder: RunFolder, config: XTTSConfig, step: TrainingStep, number: int, best: bool = False) -> str | None:
    writer = CheckpointWriter(folder, config, PerformanceMonitor())
    state = TrainingState.capture(RunState(batch=number), step, None)
    writer.save(number, step.objective, state, {"step": number}, best)
    writer.wait()
    return writer.error


def everything(step: TrainingStep) -> list[np.ndarray]:
    return [
        *weights_of(step.objective.model),
        *(variable.numpy() for variable in step.optimizer.variables),
        *(variable.numpy() for variable in step.state.values()),
    ]


# What is in them


@pytest.mark.parametrize(
    "changes",
    [{}, {"gradient_accumulation_steps": 3}, {"ema_decay": None}],
    ids=["plain", "accumulating", "without average"],
)
def test_a_restored_run_goes_on_with_the_very_same_numbers(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = configure(tmp_path / "data", tmp_path / "run", enable_graph_mode=False, **changes)
    one = make_step(config)
    for seed in range(2):
        one(batch(seed=seed))
    TrainingState.capture(RunState(), one, None).write(tmp_path)
    other = make_step(config, seed=5)
    TrainingState.read(tmp_path).restore(other, None)
    for step in (one, other):
        for seed in range(2, 4):
            step(batch(seed=seed))
    for expected, found in zip(everything(one), everything(other), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_names_and_shapes_in_a_checkpoint_stay_so_that_older_ones_can_be_resumed(config: XTTSConfig) -> None:
    cache = AlignmentCache(np.array([2, 3], np.int32))
    state = TrainingState.capture(RunState(alignments="keep"), make_step(config), cache)
    shapes = {name: array.shape for name, array in state.arrays.items() if "/0" not in name}
    assert shapes == {
        "step/batches": (),
        "step/skipped": (),
        "step/skipped_in_a_row": (),
        "step/totals": (7,),  # total, prior, decoder, duration, gradient norm, batches, learning rate
        "alignments/durations": (5,),
        "alignments/known": (2,),
    }
    assert {name.split("/")[0] for name in state.arrays if "/0" in name} == {"weights", "optimizer"}
    run = "batch position validated_batch best_loss best_step validations_without_gain alignments"
    assert list(state.run.to_dict()) == run.split()


def test_a_run_of_an_earlier_version_is_resumed_as_it_was_begun(tmp_path: Path, config: XTTSConfig) -> None:
    folder = RunFolder(tmp_path / "run")
    save(folder, config, make_step(config), 3)
    written = folder.checkpoint(3) / CONFIG
    lines = written.read_text(encoding="utf-8").splitlines(keepends=True)
    written.write_text("".join(line for line in lines if "mel_adversarial_share:" not in line), encoding="utf-8")
    sums = json.loads((folder.checkpoint(3) / CHECKSUMS).read_text())
    del sums[CONFIG]
    (folder.checkpoint(3) / CHECKSUMS).write_text(json.dumps(sums))
    trainer = XTTSTrainer(config, small_model(), resume=True)
    trainer.close()
    assert config.training.mel_adversarial_share > 0
    assert trainer.config.training.mel_adversarial_share == 0


def test_the_loss_scale_is_saved(tmp_path: Path, config: XTTSConfig) -> None:
    one = make_step(config, policy="mixed_float16")
    one.optimizer.dynamic_scale.assign(2.0**7)
    TrainingState.capture(RunState(), one, None).write(tmp_path)
    other = make_step(config, policy="mixed_float16")
    TrainingState.read(tmp_path).restore(other, None)
    assert float(other.optimizer.dynamic_scale.numpy()) == 2.0**7


def test_where_a_run_stands_is_saved(tmp_path: Path, config: XTTSConfig) -> None:
    run = RunState(batch=17, best_loss=1.25, best_step=12, validations_without_gain=3, alignments="keep")
    kept = AlignmentCache(np.array([2, 3], np.int32))
    kept.keep(np.array([1]), np.array([[4, 5, 6]]))
    TrainingState.capture(run, make_step(config), kept).write(tmp_path)
    found = TrainingState.read(tmp_path)
    assert found.run == run
    again = AlignmentCache(np.array([2, 3], np.int32))
    found.restore(make_step(config), again)
    assert again.durations.tolist() == [0, 0, 4, 5, 6]
    assert again.known.tolist() == [False, True]


def test_other_optimizer_settings_are_refused_with_what_changed(tmp_path: Path, config: XTTSConfig) -> None:
    TrainingState.capture(RunState(), make_step(config), None).write(tmp_path)
    config.training.gradient_accumulation_steps = 2
    with pytest.raises(CheckpointError, match="gradient_accumulation_steps 1 → 2"):
        TrainingState.read(tmp_path).restore(make_step(config), None)


def test_a_checkpoint_that_only_speaks_is_not_resumed_and_the_way_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="--init-from"):
        TrainingState.read(tmp_path)


def test_a_checkpoint_speaks_with_the_weights_it_was_given(tmp_path: Path, config: XTTSConfig) -> None:
    step = make_step(config)
    assert save(RunFolder(tmp_path), config, step, 4) is None
    loaded = load_model(read_checkpoint(tmp_path / "step-00000004"))
    for expected, found in zip(weights_of(step.objective.model), weights_of(loaded), strict=True):
        np.testing.assert_array_equal(found, expected)


# The folder


def test_the_newest_are_kept_and_the_best(tmp_path: Path, config: XTTSConfig) -> None:
    folder, step = RunFolder(tmp_path), make_step(config)
    config.training.keep_checkpoints = 2
    for number in range(1, 6):
        save(folder, config, step, number, best=number == 2)
    assert [step_of(path) for path in folder.checkpoints()] == [2, 4, 5]
    assert folder.best is not None
    assert read_checkpoint(folder.best).details == {"step": 2}


def test_a_newer_best_takes_the_place_of_the_older(tmp_path: Path, config: XTTSConfig) -> None:
    folder, step = RunFolder(tmp_path), make_step(config)
    config.training.keep_checkpoints = 1
    for number in (1, 2, 3):
        save(folder, config, step, number, best=True)
    assert [step_of(path) for path in folder.checkpoints()] == [3]
    assert os.readlink(tmp_path / "best") == "step-00000003"


def test_where_there_are_no_links_a_file_names_the_best(
    tmp_path: Path, config: XTTSConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    folder, step = RunFolder(tmp_path), make_step(config)
    config.training.keep_checkpoints = 1
    monkeypatch.setattr(Path, "symlink_to", refuse)
    for number in (1, 2, 3):
        assert save(folder, config, step, number, best=number < 3) is None
    assert [step_of(path) for path in folder.checkpoints()] == [2, 3]
    assert folder.best == folder.checkpoint(2)
    for given in (tmp_path, tmp_path / "best"):
        assert read_checkpoint(given).details == {"step": 2}


def damage(path: Path, how: str) -> None:
    if how == "bit":
        data = bytearray((path / ARRAYS).read_bytes())
        data[len(data) // 2] ^= 1
        (path / ARRAYS).write_bytes(data)
    elif how == "truncated":
        os.truncate(path / "model.npz", 1000)
    elif how == "missing":
        (path / ARRAYS).unlink()
    elif how == "no checksums":
        (path / "checksums.json").unlink()
    else:
        (path / "checkpoint.json").write_text("{")


@pytest.mark.parametrize("how", ["bit", "truncated", "missing", "no checksums", "description"])
def test_a_damaged_newest_falls_back_to_the_one_before(
    tmp_path: Path, config: XTTSConfig, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    folder, step = RunFolder(tmp_path), make_step(config)
    for number in (1, 2):
        save(folder, config, step, number)
    damage(folder.checkpoint(2), how)
    found = folder.newest_whole()
    assert found is not None
    assert found[1].run.batch == 1
    assert "going back to the checkpoint before" in caplog.text


def test_if_no_checkpoint_is_whole_the_run_does_not_begin_anew(tmp_path: Path, config: XTTSConfig) -> None:
    folder, step = RunFolder(tmp_path), make_step(config)
    save(folder, config, step, 1)
    damage(folder.checkpoint(1), "bit")
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints"):
        folder.newest_whole()


def test_a_run_that_is_there_is_not_begun_again_unasked(tmp_path: Path, config: XTTSConfig) -> None:
    save(RunFolder(tmp_path), config, make_step(config), 1)
    with pytest.raises(UsageError, match="--resume continues it"):
        RunFolder(tmp_path).open(resume=False)
    folder = RunFolder(tmp_path)
    folder.open(resume=True)
    folder.close()


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    first = RunFolder(tmp_path)
    first.open(resume=False)
    with pytest.raises(UsageError, match=f"process {os.getpid()}"):
        RunFolder(tmp_path).open(resume=False)
    first.close()
    second = RunFolder(tmp_path)
    second.open(resume=False)
    second.close()


def test_what_a_killed_save_left_behind_is_removed(tmp_path: Path) -> None:
    leftover = tmp_path / ".step-00000007.123.new"
    leftover.mkdir()
    (leftover / "model.npz").write_bytes(b"half")
    folder = RunFolder(tmp_path)
    folder.open(resume=False)
    assert not leftover.exists()
    folder.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match="cannot be used for a run"):
        RunFolder(tmp_path / "file" / "run").open(resume=False)


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(TrainingError, match=r"cannot be used for a run \(Permission denied\)"):
        RunFolder(tmp_path).open(resume=False)


# What cannot be saved


def test_a_checkpoint_whose_lexicon_is_gone_is_said_and_training_goes_on(
    tmp_path: Path, config: XTTSConfig, caplog: pytest.LogCaptureFixture
) -> None:
    config.data.lexicons = {"fa": str(tmp_path / "gone.tsv")}
    reason = save(RunFolder(tmp_path / "run"), config, make_step(config), 1)
    assert reason is not None
    assert "gone.tsv cannot be read" in reason
    assert "the checkpoint of step 1 cannot be saved" in caplog.text


# A full disk

FULL_DISK = """
import json, resource, sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from test_train_checkpoints import make_step, save
from training_samples import configure
from myxtts.training.run_folder import RunFolder, step_of

root = Path(sys.argv[1])
config = configure(root / "data", root / "run", enable_graph_mode=False)
folder, step = RunFolder(root / "run"), make_step(config)
errors = [save(folder, config, step, 1)]
largest = max(path.stat().st_size for path in folder.checkpoint(1).iterdir())
for limit in (largest - 4096, 1024):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    errors.append(save(folder, config, step, 2))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
errors.append(save(folder, config, step, 3))
print(json.dumps([errors, [step_of(path) for path in folder.checkpoints()], len(list((root / "run").iterdir()))]))
"""


def test_a_checkpoint_that_does_not_fit_on_the_disk_is_said_and_the_old_one_kept(
    tmp_path: Path, python_with_tensorflow: str
) -> None:
    program = FULL_DISK.format(tests=str(Path(__file__).parent))
    done = subprocess.run([python_with_tensorflow, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    errors, steps, entries = json.loads(done.stdout.splitlines()[-1])
    assert errors[0] is None
    assert errors[3] is None
    assert errors[1]
    assert errors[2]
    assert steps == [1, 3]
    assert entries == 2  # nothing half written stays
    assert "training goes on, the last one is of step" in done.stderr or "there is none yet" in done.stderr
