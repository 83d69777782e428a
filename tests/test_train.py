"""The trainer: whole runs on a small data set, with everything they leave behind."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from training_samples import BANDS, BATCHES, batch, configure, data_folder, small_model, weights_of

from myxtts import child_program, hardware
from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import CheckpointError, DataError, TrainingError, UsageError
from myxtts.hardware import Gpu
from myxtts.inference.xtts_inference import XTTSInference
from myxtts.models.checkpoint import load_model, read_checkpoint
from myxtts.performance.gpu_metrics import GpuReading
from myxtts.performance.host_metrics import HostReader
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.performance.sampling import MachineReading
from myxtts.training import device as device_module
from myxtts.training import optimizer as optimizer_module
from myxtts.training.auto_batch import BudgetTrial, candidate_budgets, choose, find_frame_budget
from myxtts.training.device import Device, gpus_named, precision_policy, prepare_device, usable_gpus
from myxtts.training.failures import is_out_of_memory, out_of_memory
from myxtts.training.progress import TrainingResult
from myxtts.training.record_file import read_records
from myxtts.training.run_folder import RunFolder, step_of
from myxtts.training.step import any_length
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.training_data import TrainingData


@dataclass
class Watched:
    """Remembers what a run told."""

    messages: list[str]
    validations: int = 0
    shapes: int = 0

    def compiling(self, shape: Sequence[int], number: int, expected: int | None, beside: bool) -> None:
        self.shapes += 1

    def progress(self, progress: object) -> None:
        """Is told too often to be remembered."""

    def logged(self, progress: object) -> None:
        self.messages.append(str(progress))

    def validated(self, step: int, validation: object, best: bool) -> None:
        self.validations += 1

    def message(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("training"))


def train(config: XTTSConfig, model: Any = None, **options: Any) -> tuple[XTTSTrainer, TrainingResult]:
    trainer = XTTSTrainer(config, model or small_model(), **options)
    return trainer, trainer.train(*trainer.prepare_datasets())


@dataclass
class Run:
    config: XTTSConfig
    folder: Path
    trainer: XTTSTrainer
    result: TrainingResult
    watched: Watched


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of two epochs that most tests look at."""
    folder = tmp_path_factory.mktemp("run") / "run"
    config = configure(data, folder, enable_tensorboard=True, report_every_epochs=1, keep_checkpoints=2)
    watched = Watched([])
    sounds: list[int] = []

    def vocoder(mel: np.ndarray) -> np.ndarray:
        sounds.append(len(mel))
        return np.zeros(256 * len(mel), np.float32)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimizer_module, "AVERAGED_SHARE", 1.0)  # a run this short averages nothing otherwise
        trainer, result = train(config, observer=watched, vocoder=vocoder)
    assert sounds
    return Run(config, folder, trainer, result, watched)


# A run


def test_a_run_does_its_steps_and_says_how_it_ended(run: Run) -> None:
    assert (run.result.reason, run.result.signal, run.result.step) == ("finished", None, 12)
    assert run.result.epoch == 12 // BATCHES
    assert run.result.skipped == 0
    assert json.loads(json.dumps(run.result.to_dict()))["step"] == 12


def test_the_losses_of_every_reading_are_in_the_log(run: Run) -> None:
    records = [record for record in read_records(run.folder / "log.jsonl") if "total" in record]
    assert [record["step"] for record in records] == list(range(1, 13))
    assert records[-1]["total"] < records[0]["total"]
    assert records[0]["learning_rate"] > 0


def test_every_batch_is_in_the_timing_file(run: Run) -> None:
    records = list(read_records(run.folder / "timing.jsonl"))
    assert [record["batch"] for record in records] == list(range(1, 13))
    assert [record["compiled"] for record in records] == [True] + [False] * 11
    per_epoch = sum(record["clips"] for record in records[:BATCHES])
    assert per_epoch == sum(record["clips"] for record in records[BATCHES:])


def test_the_monitor_has_the_steps_and_what_went_on_beside_them(run: Run) -> None:
    summary = run.result.performance
    assert summary.step.count == 11
    assert 0 <= summary.stall_share <= 1
    names = " ".join(summary.operations)
    for name in ("compile the step", "validate", "checkpoint", "TensorBoard", "read losses"):
        assert name in names


def test_the_report_says_whether_the_input_is_the_limit(run: Run) -> None:
    reports = [message for message in run.watched.messages if "of step time (" in message]
    assert len(reports) == 3  # after each of two epochs, and at the end
    assert "input-bound)" in reports[-1]
    assert "loop overhead" in reports[-1]


def test_validations_are_logged_and_the_best_is_marked(run: Run) -> None:
    validations = [one for one in read_records(run.folder / "log.jsonl") if "validation" in one]
    assert [one["step"] for one in validations] == [6, 12]
    best = min(validations, key=lambda one: one["validation"]["total"])
    assert run.result.best_step == best["step"]
    assert run.result.best_loss == pytest.approx(best["validation"]["total"])
    assert read_checkpoint(run.folder / "best").details["step"] == best["step"]


def test_a_checkpoint_remembers_whose_voices_it_was_trained_on(run: Run) -> None:
    details = read_checkpoint(run.folder / "best").details
    assert details["speakers"] == ["speaker0", "speaker1"]
    assert len(details["clips"]) == 16


def test_checkpoints_are_written_when_due_and_the_newest_kept(run: Run) -> None:
    steps = [step_of(path) for path in RunFolder(run.folder).checkpoints()]
    assert steps[-2:] == [8, 12]
    assert len(steps) <= 3


def test_the_configuration_in_effect_is_in_the_folder(run: Run) -> None:
    assert XTTSConfig.from_yaml(run.folder / "config.yaml") == run.config


def test_a_checkpoint_holds_the_average_and_speaks(run: Run) -> None:
    speaker = XTTSInference(run.config, run.folder / "best")
    assert speaker.synthesize("Text a word.").audio.size
    last = load_model(read_checkpoint(run.folder / "step-00000012"))
    trained = weights_of(run.trainer.model)
    assert any((one != two).any() for one, two in zip(trained, weights_of(last), strict=True))


def test_tensorboard_has_curves_pictures_sounds_and_the_configuration(run: Run) -> None:
    tags: set[str] = set()
    for file in (run.folder / "tensorboard").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            tags |= {value.tag for value in event.summary.value}
    assert {"configuration", "loss/total", "loss/duration", "validation/total", "optimizer/learning_rate"} <= tags
    assert {"timing/clips_per_second", "timing/stall_share", "timing/data_ms", "timing/step_ms"} <= tags
    assert {"mel/0", "alignment/0", "audio/0", "audio/0 true mel"} <= tags


def test_whoever_watches_is_told(run: Run) -> None:
    assert run.watched.validations == 2
    assert any(
        message.startswith("training in") and "6 batches an epoch" in message for message in run.watched.messages
    )
    assert any(message.startswith("step 12/12") for message in run.watched.messages)


# Going on, and beginning with something


def test_a_run_goes_on_where_it_stood_and_a_finished_one_says_so(data: Path, tmp_path: Path) -> None:
    eagerly = {"enable_graph_mode": False, "validate_every": 100}
    train(configure(data, tmp_path / "run", max_steps=2, **eagerly))
    longer = configure(data, tmp_path / "run", max_steps=4, **eagerly)
    _, result = train(longer, resume=True)
    assert result.step == 4
    steps = [one["step"] for one in read_records(tmp_path / "run" / "log.jsonl") if "total" in one]
    assert steps == [1, 2, 3, 4]
    log = (tmp_path / "run" / "log.jsonl").read_bytes()
    watched = Watched([])
    _, result = train(longer, resume=True, observer=watched)
    assert (result.reason, result.step, result.signal, result.best_step) == ("finished", 4, None, 4)
    assert watched.messages == [
        "nothing left to do: the run has done 4 of 4 steps; raise --epochs or --max-steps to go on"
    ]
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == log


def test_resuming_where_there_is_nothing_begins(data: Path, tmp_path: Path) -> None:
    config = configure(data, tmp_path / "run", max_steps=1, enable_graph_mode=False, validate_every=9)
    _, result = train(config, resume=True)
    assert result.step == 1


def test_a_run_that_stopped_early_is_not_resumed_until_it_may_be_more_patient(data: Path, tmp_path: Path) -> None:
    def go_on(**changes: Any) -> tuple[TrainingResult, list[str]]:
        settings = {"validate_every": 1, "learning_rate": 1e-12, "early_stopping_patience": 1}
        watched = Watched([])
        config = eager(data, tmp_path / "run", **(settings | changes))
        trainer = XTTSTrainer(config, small_model(), resume=True, observer=watched)
        return trainer.train(one_batch_forever(), one_batch_forever(1)), watched.messages

    first, _ = go_on()
    second, messages = go_on()
    assert (second.reason, second.step) == (first.reason, first.step) == ("early stopping", first.step)
    assert "raise early_stopping_patience to go on" in messages[0]
    third, _ = go_on(early_stopping_patience=3)
    assert third.step > first.step


def run_of_two_steps(data: Path, folder: Path, validation: tf.data.Dataset, **options: Any) -> TrainingResult:
    config = eager(data, folder, max_steps=2, validate_every=2)
    trainer = XTTSTrainer(config, small_model(), resume=True, **options)
    return trainer.train(one_batch_forever(), validation)


def test_a_last_validation_that_was_interrupted_is_made_up_for(data: Path, tmp_path: Path) -> None:
    def interrupted() -> Iterator[dict[str, tf.Tensor]]:
        yield batch()
        os.kill(os.getpid(), signal.SIGTERM)
        while True:
            time.sleep(0.01)
            yield batch()

    spec = one_batch_forever(1).element_spec
    result = run_of_two_steps(
        data, tmp_path / "run", tf.data.Dataset.from_generator(interrupted, output_signature=spec)
    )
    assert (result.reason, result.signal, result.step, result.best_step) == ("interrupted", signal.SIGTERM, 2, None)
    again = run_of_two_steps(data, tmp_path / "run", one_batch_forever(1))
    assert (again.reason, again.signal, again.step, again.best_step) == ("finished", None, 2, 2)
    assert read_checkpoint(tmp_path / "run").path.name == "best"
    watched = Watched([])
    run_of_two_steps(data, tmp_path / "run", one_batch_forever(1), observer=watched)
    assert watched.messages[0].startswith("nothing left to do")


def test_a_signal_after_the_last_validation_interrupts_nothing(data: Path, tmp_path: Path) -> None:
    class Late(Watched):
        def validated(self, step: int, validation: object, best: bool) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    result = run_of_two_steps(data, tmp_path / "run", one_batch_forever(1), observer=Late([]))
    assert (result.reason, result.signal, result.best_step) == ("finished", None, 2)


def test_what_a_resumed_run_read_is_not_kept_in_memory(data: Path, tmp_path: Path) -> None:
    class Memory(Watched):
        kept = True

        def logged(self, progress: object) -> None:
            gc.collect()
            self.kept = state() is not None

    train(eager(data, tmp_path / "run", max_steps=1))
    watched = Memory([])
    trainer = XTTSTrainer(eager(data, tmp_path / "run", max_steps=2), small_model(), resume=True, observer=watched)
    assert trainer._restored is not None
    state = weakref.ref(trainer._restored)
    trainer.train(*trainer.prepare_datasets())
    assert not watched.kept


def test_a_trainer_trains_once(run: Run) -> None:
    with pytest.raises(UsageError, match=r"this trainer has trained.*resume=True"):
        run.trainer.train(one_batch_forever())


@pytest.mark.parametrize("moment", ["begin", "prepare", "train"])
def test_a_trainer_that_fails_gives_its_folder_free(data: Path, tmp_path: Path, moment: str) -> None:
    folder = tmp_path / "run"
    if moment == "begin":
        with pytest.raises(CheckpointError):
            XTTSTrainer(eager(data, folder), small_model(), init_from=tmp_path / "nowhere")
    elif moment == "prepare":
        trainer = XTTSTrainer(eager(tmp_path / "nowhere", folder), small_model())
        with pytest.raises(DataError):
            trainer.prepare_datasets()
    else:
        trainer = XTTSTrainer(eager(data, folder), small_model())
        with pytest.raises(UsageError, match="no end"):
            trainer.train(one_batch_forever(), one_batch_forever())
    assert "performance-sampler" not in [thread.name for thread in threading.enumerate()]
    again = RunFolder(folder)
    again.open(resume=False)
    again.close()


def test_other_data_is_not_resumed_and_the_change_is_named(run: Run) -> None:
    changed = run.config.model_copy(update={"data": run.config.data.model_copy(update={"batch_size": 5})})
    changed.training.max_steps = 20
    trainer = XTTSTrainer(changed, small_model(), resume=True)
    with pytest.raises(DataError, match="batch_size 4 → 5"):
        trainer.prepare_datasets()
    changed.training.max_steps = 12


def test_another_configuration_is_not_resumed(run: Run) -> None:
    changed = run.config.model_copy(update={"data": run.config.data.model_copy(update={"hop_length": 128})})
    with pytest.raises(CheckpointError, match="hop_length is 256 in the checkpoint and 128 here"):
        XTTSTrainer(changed, small_model(), resume=True)


def test_a_run_can_begin_with_the_weights_of_another(run: Run, data: Path, tmp_path: Path) -> None:
    config = configure(data, tmp_path / "run", checkpoint_dir=str(tmp_path / "run"))
    trainer = XTTSTrainer(config, small_model(seed=7), init_from=run.folder / "best")
    expected = load_model(read_checkpoint(run.folder / "best"))
    for one, two in zip(weights_of(expected), weights_of(trainer.model), strict=True):
        np.testing.assert_array_equal(one, two)
    trainer.close()


def test_without_a_model_the_configuration_decides(data: Path, tmp_path: Path) -> None:
    trainer = XTTSTrainer(configure(data, tmp_path / "run", size="tiny", decoder="flow"))
    assert trainer.model.decoder_kind == "flow"
    assert trainer.model.dtype_policy.name == "float32"
    trainer.close()


# Other people's data


def one_batch_forever(count: int | None = None) -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensors(batch()).map(lambda one: one)
    return dataset.repeat(count)


def eager(data: Path, run: Path, **changes: Any) -> XTTSConfig:
    return configure(data, run, **({"enable_graph_mode": False, "save_every": 100, "validate_every": 100} | changes))


def test_any_dataset_of_batches_can_be_trained_on(data: Path, tmp_path: Path) -> None:
    trainer = XTTSTrainer(eager(data, tmp_path / "run", max_steps=None, epochs=2), small_model())
    result = trainer.train(one_batch_forever(2), one_batch_forever(1))
    assert (result.step, result.epoch, result.best_step) == (4, 2, 4)


def test_data_without_an_end_needs_max_steps(data: Path, tmp_path: Path) -> None:
    trainer = XTTSTrainer(eager(data, tmp_path / "run", max_steps=None), small_model())
    with pytest.raises(UsageError, match="max_steps"):
        trainer.train(one_batch_forever())


def test_validation_data_without_an_end_is_refused(data: Path, tmp_path: Path) -> None:
    trainer = XTTSTrainer(eager(data, tmp_path / "run"), small_model())
    with pytest.raises(UsageError, match="no end"):
        trainer.train(one_batch_forever(), one_batch_forever())


@pytest.mark.parametrize("part", ["training", "validation"])
def test_a_pipeline_that_fails_ends_in_one_line(data: Path, tmp_path: Path, part: str) -> None:
    def fail(one: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        with tf.control_dependencies([tf.debugging.Assert(False, ["the file changed"])]):
            return {name: tf.identity(value) for name, value in one.items()}

    trainer = XTTSTrainer(eager(data, tmp_path / "run", max_steps=1), small_model())
    batches = {"training": one_batch_forever(), "validation": one_batch_forever(1)}
    batches[part] = batches[part].map(fail)
    with pytest.raises(DataError, match="a batch cannot be loaded"):
        trainer.train(batches["training"], batches["validation"])


def test_a_validation_clip_that_is_gone_is_named(tmp_path: Path) -> None:
    config = eager(data_folder(tmp_path), tmp_path / "run", preprocessing_mode="runtime", max_steps=1)
    trainer = XTTSTrainer(config, small_model())
    datasets = trainer.prepare_datasets()
    metadata = read_metadata(config.data)
    for row in metadata.rows("val"):
        Path(metadata.clips[row].audio_path).unlink()
    with pytest.raises(DataError, match=r"^a batch cannot be loaded: .*\.wav"):
        trainer.train(*datasets)


def test_a_best_that_could_not_be_saved_does_not_stand_in_the_way_of_the_next(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = eager(data, tmp_path / "run", max_steps=2, validate_every=1, learning_rate=1e-12)
    trainer = XTTSTrainer(config, small_model())
    (tmp_path / "run" / f".step-00000001.{os.getpid()}.new").write_text("in the way of the first checkpoint")
    result = trainer.train(one_batch_forever(), one_batch_forever(1))
    assert "the checkpoint of step 1 cannot be saved" in caplog.text
    assert result.best_step == 2
    assert read_checkpoint(tmp_path / "run" / "best").details["step"] == 2


# Going wrong


def test_after_too_many_steps_that_are_not_finite_the_clips_are_saved(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = eager(data, tmp_path / "run", max_nonfinite_steps=3, log_every=1)
    trainer = XTTSTrainer(config, small_model())
    trainer.prepare_datasets()
    assert trainer._train is not None
    poisoned = trainer._train.map(lambda one: {**one, "mel": one["mel"] + float("inf")})
    trainer._train = poisoned
    before = weights_of(trainer.model)
    with pytest.raises(TrainingError, match="3 steps in a row"):
        trainer.train(poisoned)
    saved = json.loads((tmp_path / "run" / "nonfinite.json").read_text())["batches"]
    assert [one["batch"] for one in saved] == [1, 2, 3]
    assert all(clip.startswith("c0") for one in saved for clip in one["clips"])
    assert sum("not finite; the step is skipped" in record.message for record in caplog.records) == 1
    for one, two in zip(before, weights_of(trainer.model), strict=True):
        np.testing.assert_array_equal(one, two)
    assert RunFolder(tmp_path / "run").checkpoints() == []


def test_out_of_memory_names_the_batch_and_what_to_lower() -> None:
    error = out_of_memory((32, 1016, 240), XTTSConfig(batch_size=32).data)
    assert "32 clips × 1,016 frames × 240 tokens" in str(error)
    assert "lower batch_size (32) or max_mel_frames (1024), or let --auto-batch" in str(error)
    budget = out_of_memory((9, 1, 1), XTTSConfig(max_frames_per_batch=5000).data)
    assert "lower max_frames_per_batch (5000)" in str(budget)


@pytest.mark.parametrize("compiled", [False, True])
def test_out_of_memory_is_recognised_as_tensorflow_reports_it(compiled: bool) -> None:
    @tf.function(jit_compile=compiled)
    def take(size: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cumsum(tf.random.stateless_uniform([1 << 46], [0, 1]) + size))

    with pytest.raises(tf.errors.OpError) as caught:
        take(tf.constant(1.0))
    assert is_out_of_memory(caught.value)


def test_training_stops_early_when_validation_no_longer_gains(data: Path, tmp_path: Path) -> None:
    config = eager(data, tmp_path / "run", validate_every=1, early_stopping_patience=2, learning_rate=1e-12)
    trainer = XTTSTrainer(config, small_model())
    result = trainer.train(one_batch_forever(), one_batch_forever(1))
    assert result.reason == "early stopping"
    assert result.step < 12


def test_running_eagerly_warns_with_what_it_costs(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = XTTSTrainer(eager(data, tmp_path / "run", max_steps=1, enable_eager_debug=True), small_model())
    with caplog.at_level(logging.WARNING):
        trainer.train(one_batch_forever())
    assert "times as long" in caplog.text
    assert not tf.config.functions_run_eagerly()


def test_under_xla_every_shape_is_compiled_once_and_more_than_planned_are_named(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = [batch(2, 16, 4), batch(3, 24, 7)]
    spec = {name: any_length(tf.TensorSpec(value.shape, value.dtype)) for name, value in shapes[0].items()}
    dataset = tf.data.Dataset.from_generator(lambda: iter(shapes), output_signature=spec).repeat()
    config = eager(data, tmp_path / "run", max_steps=4, enable_graph_mode=True, enable_xla_compilation=True)
    watched = Watched([])
    trainer = XTTSTrainer(config, small_model(), observer=watched)
    monkeypatch.setattr(trainer, "_data", lambda *_: TrainingData(dataset, None, 2, expected_shapes=1))
    result = trainer.train(dataset)
    assert (result.compilations, watched.shapes) == (2, 2)
    assert "more shapes than the 1 that were planned: 2×16×4, 3×24×7" in caplog.text
    compiled = [one["compiled"] for one in read_records(tmp_path / "run" / "timing.jsonl")]
    assert compiled[:2] == [True, True]  # and the others, unless the thread was quicker


# Alignments that are kept


def test_after_a_whole_epoch_alignments_are_reused(data: Path, tmp_path: Path) -> None:
    config = configure(data, tmp_path / "run", freeze_alignment_after=2, max_steps=3 * BATCHES, save_every=100)
    watched = Watched([])
    train(config, observer=watched)
    assert any(message.startswith(f"step {2 * BATCHES:,}  alignments are reused") for message in watched.messages)


# The device


def test_a_gpu_that_tensorflow_cannot_use_is_said_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if tf.config.list_physical_devices("GPU"):
        pytest.skip("TensorFlow can use this machine's GPU")
    monkeypatch.setattr(hardware, "gpus", lambda: [Gpu("NVIDIA GeForce RTX 4090", 24 << 30)])
    assert prepare_device(TrainingConfig()) == Device("/CPU:0")
    assert "RTX 4090" in caplog.text
    assert "pip install 'myxtts[gpu]'" in caplog.text
    assert "--device cpu" in caplog.text
    caplog.clear()
    assert prepare_device(TrainingConfig(device="cpu")) == Device("/CPU:0")
    assert not caplog.records
    with pytest.raises(UsageError, match="RTX 4090"):
        prepare_device(TrainingConfig(device="gpu"))


def test_a_gpu_that_is_not_there_cannot_be_asked_for() -> None:
    if hardware.gpus():
        pytest.skip("this machine has a GPU")
    with pytest.raises(UsageError, match="no NVIDIA GPU"):
        prepare_device(TrainingConfig(device="gpu"))


def test_gpus_are_known_by_name_since_tensorflow_numbers_them_otherwise_than_the_driver() -> None:
    small, large = Gpu("NVIDIA GeForce RTX 3060", 12 << 30), Gpu("NVIDIA A100-SXM4-80GB", 80 << 30)
    assert gpus_named([large.name], [small, large]) == [large]
    assert gpus_named([large.name, small.name], [small, large]) == [large, small]
    assert gpus_named([small.name, small.name], [small, small]) == [small, small]
    assert gpus_named(["NVIDIA A100-SXM4-80GB MIG 1g.10gb"], [large]) == [Gpu("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 0)]
    assert gpus_named([small.name], []) == [Gpu(small.name, 0)]


def test_usable_gpus_are_those_that_tensorflow_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    config = device_module.tf.config
    present = [Gpu("first", 8 << 30), Gpu("second", 24 << 30)]
    monkeypatch.setattr(hardware, "gpus", lambda: present)
    monkeypatch.setattr(config, "list_physical_devices", lambda kind: ["second"])
    monkeypatch.setattr(config.experimental, "get_device_details", lambda one: {"device_name": one})
    assert usable_gpus("auto") == present[1:]
    assert usable_gpus("cpu") == ()
    monkeypatch.setattr(config, "list_physical_devices", lambda kind: [])
    assert usable_gpus("auto") == ()


def test_the_progress_line_shows_the_gpu_that_the_run_is_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Seen(Watched):
        gpu = None

        def logged(self, progress: Any) -> None:
            self.gpu = progress.gpu

    gpus = tuple(GpuReading(k, f"GPU {k}", 0.5, None, None, None, None, None, None, None, ()) for k in range(2))
    reading = MachineReading(0.0, HostReader().read(), gpus)
    monkeypatch.setattr(PerformanceMonitor, "latest_reading", reading)
    for name, expected in (("GPU 1", gpus[1]), (None, None)):
        watched = Seen([])
        trainer = XTTSTrainer(eager(data, tmp_path / f"{name}", max_steps=1), small_model(), observer=watched)
        trainer.device = dataclasses.replace(trainer.device, gpu_name=name)
        trainer.train(one_batch_forever())
        assert watched.gpu == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, [("growth", True)]), (4096, [("limit", 4096)])], ids=["grows", "limited"]
)
def test_gpu_memory_grows_or_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, expected: list[tuple[str, Any]]
) -> None:
    calls: list[tuple[str, Any]] = []
    gpu = object()
    config = device_module.tf.config
    monkeypatch.setattr(config, "list_physical_devices", lambda kind: [gpu])
    monkeypatch.setattr(config.experimental, "set_memory_growth", lambda one, on: calls.append(("growth", on)))
    monkeypatch.setattr(
        config,
        "set_logical_device_configuration",
        lambda one, limits: calls.append(("limit", limits[0].memory_limit)),
    )
    details = {"compute_capability": (8, 9), "device_name": "a GPU"}
    monkeypatch.setattr(config.experimental, "get_device_details", lambda one: details)
    assert prepare_device(TrainingConfig(gpu_memory_limit_mb=limit)) == Device("/GPU:0", (8, 9), "a GPU")
    assert calls == expected


@pytest.mark.parametrize(
    ("setting", "capability", "policy"),
    [
        ("auto", None, "float32"),
        ("auto", (6, 1), "float32"),
        ("auto", (7, 5), "mixed_float16"),
        ("auto", (8, 6), "mixed_bfloat16"),
        ("off", (8, 6), "float32"),
        ("float16", (8, 6), "mixed_float16"),
        ("bfloat16", None, "mixed_bfloat16"),
    ],
)
def test_precision_follows_the_setting_and_the_device(
    setting: Any, capability: tuple[int, int] | None, policy: str
) -> None:
    assert precision_policy(TrainingConfig(mixed_precision=setting), Device("/GPU:0", capability)) == policy


# The largest batch that fits


def trial(budget: int, frames_per_second: float) -> BudgetTrial:
    return BudgetTrial(budget, (budget // 100, 100, 20), budget / frames_per_second, 1 << 30)


def test_on_a_gpu_the_largest_budget_that_fitted_is_taken() -> None:
    assert choose([trial(1000, 50), trial(2000, 51), trial(4000, 49)], on_gpu=True).budget == 4000


def test_on_a_cpu_the_budget_grows_while_that_brings_speed() -> None:
    assert choose([trial(1000, 50), trial(2000, 80), trial(4000, 82), trial(8000, 200)], on_gpu=False).budget == 2000


def test_budgets_double_until_an_epoch_would_be_too_short() -> None:
    lengths = np.full(1000, 150)
    budgets = candidate_budgets(lengths, np.full(1000, 20), XTTSConfig())
    assert list(budgets) == [256, 512, 1024, 2048, 4096, 8192, 16384]
    clips, frames, _ = budgets[16384]
    assert clips * frames <= 16384


def test_a_budget_is_found_by_trying_in_another_process(
    data: Path, tmp_path: Path, python_with_tensorflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_program.sys, "executable", python_with_tensorflow)
    config = configure(data, tmp_path / "run", batch_size=1, reference_seconds=0.0, num_buckets=1)
    assert config.data.n_mels == BANDS
    found = find_frame_budget(config)
    assert found.budget >= 64
    assert found.peak_bytes > 1 << 20
