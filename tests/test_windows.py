"""Batches of a store in parts, window by window: every clip once, the same order in NumPy and in the graph."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from myxtts.data.batches import window_plan
from myxtts.data.batches.plan import BatchOrder, BatchPlan
from myxtts.data.batches.position import Position
from myxtts.data.batches.window_plan import LengthSummary, WindowedPlan, WindowLengths, group_parts
from myxtts.errors import ConfigError, DataError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from scaling.synthetic_parts import configure, make_parts

OPTIONS: dict[str, Any] = {"batch_size": 4, "num_buckets": 3, "max_mel_frames": 900, "max_tokens": 200}


@dataclass
class SomeWindows:
    """Windows of clips whose lengths are drawn; clip j of window w has the name 1000 · w + j."""

    sizes: tuple[int, ...] = (40, 7, 33)
    weight: int = 1
    identity: str = "some"

    def __len__(self) -> int:
        return len(self.sizes)

    def lengths(self, window: int) -> WindowLengths:
        frames = np.random.default_rng(window).integers(50, 1000, self.sizes[window])
        frames[0] = 0
        rows = np.arange(self.sizes[window])
        return WindowLengths(frames, frames // 5, rows, None if self.weight == 1 else rows * 0 + self.weight)

    def names(self, window: int) -> np.ndarray:
        return 1000 * window + np.arange(self.sizes[window])

    def table(self, window: int) -> Any:
        raise NotImplementedError

    def used(self) -> list[int]:
        return sorted(
            name
            for window in range(len(self))
            for name, frames in zip(self.names(window).tolist(), self.lengths(window).mel_lengths, strict=True)
            if 0 < frames <= OPTIONS["max_mel_frames"]
        )


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_clip_comes_exactly_once_in_an_epoch(shuffle: bool) -> None:
    windows = SomeWindows()
    plan = WindowedPlan(windows, **OPTIONS)
    for epoch in range(3):
        indices = plan.epoch(5, epoch, shuffle).indices
        assert sorted(indices[indices >= 0].tolist()) == windows.used()
        assert len(plan.epoch(5, epoch, shuffle)) == len(plan)
    assert plan.clips == len(windows.used())
    assert sum(plan.skipped_because.values()) == sum(windows.sizes) - plan.clips


def test_a_weight_is_how_often_a_clip_comes() -> None:
    windows = SomeWindows(weight=3)
    indices = WindowedPlan(windows, **OPTIONS).epoch(5, 0).indices
    assert sorted(indices[indices >= 0].tolist()) == sorted(3 * windows.used())


def test_shapes_are_those_of_one_plan_of_all_clips() -> None:
    windows = SomeWindows()
    clips = [windows.lengths(window) for window in range(len(windows))]
    frames, tokens = (np.concatenate([one[part] for one in clips]) for part in (0, 1))
    for options in (
        OPTIONS,
        OPTIONS | {"batch_size": None, "max_frames_per_batch": 3000},
        OPTIONS | {"long_clips": "crop"},
    ):
        whole, plan = BatchPlan(frames, tokens, **options), WindowedPlan(windows, **options)
        assert plan.buckets == whole.buckets
        assert (plan.clips, plan.skipped_because) == (whole.clips, whole.skipped_because)


def test_clips_fit_the_shape_of_their_batch_and_the_share_of_padding_is_right() -> None:
    windows = SomeWindows()
    plan = WindowedPlan(windows, **OPTIONS)
    frames = {
        name: length
        for window in range(len(windows))
        for name, length in zip(windows.names(window).tolist(), windows.lengths(window).mel_lengths, strict=True)
    }
    epoch = plan.epoch(1, 0)
    places = real = 0
    for bucket, batch in zip(epoch.bucket_of_batch, epoch, strict=True):
        assert len(batch) == plan.buckets[bucket].batch_size
        lengths = [frames[name] for name in batch.tolist() if name >= 0]
        assert max(lengths) <= plan.buckets[bucket].frames
        places, real = places + len(batch) * plan.buckets[bucket].frames, real + sum(lengths)
    assert plan.padding_share == pytest.approx(1 - real / places)
    assert np.array_equal(
        np.sort(plan.batch_shapes()[:, 1]), np.sort([plan.buckets[b].frames for b in epoch.bucket_of_batch])
    )


def test_epochs_and_seeds_differ_in_the_order_of_windows_and_clips() -> None:
    plan = WindowedPlan(SomeWindows((20,) * 30), **OPTIONS)
    orders = [plan.window_order(seed, epoch).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(30)) for order in orders)
    first = [plan.window(0).epoch(window_plan._window_seed(0, window), 0).indices.tolist() for window in (0, 1)]
    assert first[0] != first[1]


def test_a_position_continues_with_the_batch_that_would_have_come() -> None:
    plan = WindowedPlan(SomeWindows(), **OPTIONS)
    epoch = plan.epoch(5, 1)
    for step in range(len(plan)):
        rest = plan.rows_of_batches(BatchOrder(seed=5, start_epoch=1, start_step=step, epochs=1))
        assert [rows.tolist() for rows in rest] == [batch[batch >= 0].tolist() for batch in list(epoch)[step:]]
    Position.start(plan, 5).advance(3).require(WindowedPlan(SomeWindows(), **OPTIONS))


def test_other_clips_or_other_windows_are_refused() -> None:
    position = Position.start(WindowedPlan(SomeWindows(), **OPTIONS), 5)
    for other in (SomeWindows(identity="other"), SomeWindows((40, 40))):
        with pytest.raises(DataError, match="hash of the clips"):
            position.require(WindowedPlan(other, **OPTIONS))


def test_the_order_is_pinned() -> None:
    plan = WindowedPlan(SomeWindows((5, 4)), **OPTIONS)
    assert [batch.tolist() for batch in plan.epoch(7, 2)] == [[3, 4, -1, -1], [2, 1, -1, -1], [1001, 1002, -1, -1]]


def test_parts_are_grouped_at_equal_distances() -> None:
    assert group_parts([10, 10, 10, 10, 10], 20) == [[0, 3], [1, 4], [2]]
    assert group_parts([10, 10], 20) == [[0, 1]]
    assert group_parts([100, 1], 20) == [[0], [1]]


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_buckets is 0"):
        WindowedPlan(SomeWindows(), batch_size=2, num_buckets=0)


def test_a_summary_that_is_kept_gives_the_same_plan() -> None:
    limits = {name: OPTIONS[name] for name in ("max_mel_frames", "max_tokens")}
    summary = LengthSummary.of(SomeWindows(), long_clips="skip", **limits)
    assert WindowedPlan(SomeWindows(), summary, **OPTIONS).hash == WindowedPlan(SomeWindows(), **OPTIONS).hash


def test_batches_of_windows_are_those_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five parts in three windows, in graph and through Python, and resumed in the middle."""
    pytest.importorskip("tensorflow")
    from myxtts.data import batch_source
    from myxtts.data.batches.store_windows import StoreWindows
    from myxtts.data.ljspeech import LJSpeechDataset
    from myxtts.data.store import FeatureStore

    config = configure(tmp_path, 12, batch_size=4, num_buckets=2, num_workers=1, reference_seconds=0.2)
    path = make_parts(config, 5, filled=True)
    monkeypatch.setattr(batch_source, "WINDOW_CLIPS", 24)
    monkeypatch.setattr(StoreWindows.__init__, "__defaults__", ((), (), 24))
    dataset = LJSpeechDataset(None, config)
    source = dataset.batches("train")
    plan = source.plan
    assert isinstance(plan, WindowedPlan)
    assert len(plan.windows) == 3
    train, val = dataset.metadata.rows("train"), dataset.metadata.rows("val")
    assert sorted(plan.rows.tolist()) == train.tolist()
    held_out = dataset.batches("val").plan
    assert isinstance(held_out, WindowedPlan)
    assert (len(held_out.windows), held_out.rows.tolist()) == (1, val.tolist())
    assert list((path / "lengths").glob("*.npz")), "the lengths are counted once"

    def loaded(**order: Any) -> list[dict[str, np.ndarray]]:
        return [{name: tensor.numpy() for name, tensor in batch.items()} for batch in source.dataset(**order)]

    with FeatureStore.open(path) as store:
        for shuffle in (True, False):
            batches = loaded(seed=3, shuffle=shuffle, epochs=2)
            expected = [rows for epoch in (0, 1) for rows in plan.epoch(3, epoch, shuffle)]
            assert [batch["index"].tolist() for batch in batches] == [rows.tolist() for rows in expected]
        for batch in batches:
            for place, row in enumerate(batch["index"].tolist()):
                frames, tokens = batch["mel_lengths"][place], batch["token_lengths"][place]
                if row < 0:
                    assert (frames, tokens) == (0, 0)
                    continue
                assert np.array_equal(batch["mel"][place, :frames], store.mel(row))
                assert (batch["mel"][place, frames:] == store.mel_data[-1]).all()
                assert np.array_equal(batch["tokens"][place, :tokens], store.tokens(row))
                assert batch["speaker"][place] == store.speaker_ids[row]

    batches = loaded(seed=3, epochs=2)
    rest = loaded(seed=3, epochs=1, start_epoch=1, start_step=5)
    assert_equal(rest, batches[len(plan) + 5 :])
    through_python = dataset.batches("train", config.model_copy(update={"use_tf_native_loading": False}))
    made = through_python.dataset(seed=3, epochs=2)
    assert_equal([{name: tensor.numpy() for name, tensor in batch.items()} for batch in made], batches)


def assert_equal(found: list[dict[str, np.ndarray]], expected: list[dict[str, np.ndarray]]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for name, value in other.items():
            assert np.array_equal(one[name], value), name
