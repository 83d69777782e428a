"""Training that begins before its store is complete: real builds in real processes, held up by the store's lock."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_samples import BATCHES, assert_equal_batches, configure, data_folder, small_model, weights_of

from myxtts.config.config import DataConfig
from myxtts.data.batch_source import BatchSource
from myxtts.data.batches.position import Position
from myxtts.data.modes import PreparedData, prepare
from myxtts.data.precompute import precompute
from myxtts.data.progressive import PendingStore, ProgressiveSource
from myxtts.data.store.target import store_folders
from myxtts.training.progress import LoggingObserver, TrainingProgress
from myxtts.training.trainer import XTTSTrainer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("progressive"))


def section(data: Path, cache: Path, **changes: Any) -> DataConfig:
    return configure(data, cache / "run", cache_dir=str(cache / "cache"), build_beside_minutes=0, **changes).data


class HeldUp:
    """A store that cannot be built before `release`, because somebody has its lock."""

    def __init__(self, config: DataConfig) -> None:
        self._held = ExitStack()
        self._held.enter_context(store_folders(config)[0].lock())

    def release(self) -> None:
        self._held.close()


def begin(config: DataConfig, said: list[str]) -> tuple[PreparedData, ProgressiveSource, PendingStore]:
    prepared = prepare(config, beside=True)
    assert prepared.building is not None
    store = PendingStore(prepared, prepared.building, said.append)
    return prepared, ProgressiveSource.of(BatchSource.build(prepared, config, "train"), "train", store), store


def test_batches_are_those_of_the_complete_store_before_and_after_the_change(data: Path, tmp_path: Path) -> None:
    complete = section(data, tmp_path / "complete")
    stored = BatchSource.build(prepare(complete), complete, "train")
    expected = iter(stored.dataset(seed=3))

    config = section(data, tmp_path / "later")
    said: list[str] = []
    held = HeldUp(config)
    prepared, source, store = begin(config, said)
    assert prepared.mode == "runtime"
    assert "being built beside" in prepared.reason
    assert " left" in prepared.reason
    assert source.plan.hash == stored.plan.hash
    batches = source.dataset(seed=3)
    assert batches.element_spec == stored.dataset(seed=3).element_spec  # so that no step is compiled again

    running = iter(batches)
    for _ in range(BATCHES + 2):
        assert_equal_batches(next(running), next(expected))
    assert store.building.running
    assert said == [f"the store is being built, about {store.building.seconds_left:.0f} s left"]
    assert_equal_batches(
        next(iter(source.dataset(shuffle=False, epochs=1))), next(iter(stored.dataset(shuffle=False, epochs=1)))
    )

    held.release()
    store.building.wait()
    assert store.building.error is None
    after = 0
    while after < 2 * BATCHES:
        assert_equal_batches(next(running), next(expected))
        after += batches.changed_at is not None
    assert said[-1] == f"epoch {batches.changed_at + 1}: batches come from the store from here on"
    assert [str(path.name) for path in Path(config.cache_dir or "").rglob("mel.bin")] == ["mel.bin"]


def test_a_position_counts_in_both_halves(data: Path, tmp_path: Path) -> None:
    config = section(data, tmp_path)
    held = HeldUp(config)
    _, source, store = begin(config, [])
    position = Position.start(source.plan, 3).advance(2)
    resumed = source.resume(position)
    first = next(iter(resumed))
    held.release()
    store.building.wait()
    stored = BatchSource.build(prepare(config, beside=True), config, "train")
    assert_equal_batches(next(iter(stored.resume(position))), first)


def test_a_build_that_fails_or_gives_other_batches_leaves_the_run_on_computed_features(
    data: Path, tmp_path: Path
) -> None:
    config = section(data, tmp_path)
    said: list[str] = []
    held = HeldUp(config)
    _, source, store = begin(config, said)
    store.building.close()
    held.release()
    batches = source.dataset(seed=3)
    expected = source.runtime_dataset(batches._order)
    for batch, same in itertools.islice(zip(batches, expected, strict=False), 3 * BATCHES):
        assert_equal_batches(batch, same)
    assert said == ["features are computed while training: it was ended"]


@pytest.mark.parametrize(
    "changes", [{"preprocessing_mode": "precompute"}, {"build_beside_minutes": 10.0}, {"trim_silence": True}]
)
def test_otherwise_the_store_is_complete_before_training(data: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    values = section(data, tmp_path).model_dump() | changes
    prepared = prepare(DataConfig(**values), beside=True)
    assert (prepared.mode, prepared.building) == ("precompute", None)


def test_the_build_ends_with_what_started_it(data: Path, tmp_path: Path) -> None:
    config = section(data, tmp_path)
    held = HeldUp(config)
    prepared, _, store = begin(config, [])
    process = store.building._process
    assert process.stdin is not None
    process.stdin.close()  # as the end of this process would
    store.building.wait()
    held.release()
    assert process.poll() is not None
    assert store.building.error is not None
    assert precompute(config).clips == len(prepared.metadata.clips)


class Releasing(LoggingObserver):
    """Lets the store be built when the losses of the first step are known, and goes on, slowly, when it is."""

    def __init__(self, held: HeldUp) -> None:
        self.held: HeldUp | None = held
        self.messages: list[str] = []
        self.trainer: XTTSTrainer | None = None

    def logged(self, progress: TrainingProgress) -> None:
        if self.held is not None:
            self.held.release()
            self.held = None
            assert self.trainer is not None
            assert self.trainer._building is not None
            assert self.trainer._building.running  # the first step was done before the store was complete
            self.trainer._building.wait()
        time.sleep(0.05)

    def message(self, text: str) -> None:
        self.messages.append(text)


@pytest.mark.soak
def test_a_run_that_changes_over_ends_with_the_weights_of_a_run_with_a_complete_store(
    data: Path, tmp_path: Path
) -> None:
    changes = {"max_steps": 40 * BATCHES, "deterministic": True, "log_every": 2, "build_beside_minutes": 0}
    held_up = configure(data, tmp_path / "later" / "run", cache_dir=str(tmp_path / "later"), **changes)
    complete = configure(data, tmp_path / "complete" / "run", cache_dir=str(tmp_path / "complete"), **changes)
    precompute(complete.data)
    models = []
    observer = Releasing(HeldUp(held_up.data))
    for config in (held_up, complete):
        model = small_model(0)
        trainer = XTTSTrainer(config, model, observer=observer if config is held_up else None)
        observer.trainer = trainer
        trainer.train(*trainer.prepare_datasets())
        models.append(model)
    assert any("batches come from the store" in text for text in observer.messages)
    for one, other in zip(*map(weights_of, models), strict=True):
        np.testing.assert_array_equal(one, other)
