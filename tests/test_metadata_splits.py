"""Splits: seeded, by the id alone, still when clips are appended, and never without a validation clip."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import SplitRule

IDS = [f"LJ{number:06}" for number in range(4000)]


def test_shares_are_as_asked() -> None:
    rule = SplitRule(train=0.8, val=0.15, seed=0)
    splits = rule.assign(IDS)
    assert splits.count("val") == pytest.approx(600, abs=80)
    assert splits.count("test") == pytest.approx(200, abs=50)
    assert splits.count("train") == pytest.approx(3200, abs=100)


def test_the_default_shares_leave_nothing_for_testing() -> None:
    config = DataConfig()
    assert "test" not in SplitRule(config.train_split, config.val_split, config.split_seed).assign(IDS)


@pytest.mark.parametrize(("train", "val"), [(0.7, 0.3), (0.9, 0.1), (0.99, 0.01), (1 / 3, 2 / 3)])
def test_shares_that_add_up_to_one_leave_nothing_for_testing(train: float, val: float) -> None:
    assert "test" not in SplitRule(train, val, seed=0).assign(IDS)


def test_a_split_is_the_same_in_every_process_and_version() -> None:
    rule = SplitRule(train=0.5, val=0.25, seed=0)
    assert [rule.split_of(clip_id) for clip_id in IDS[:12]] == [
        "val",
        "val",
        "train",
        "train",
        "test",
        "test",
        "val",
        "test",
        "test",
        "val",
        "val",
        "train",
    ]


def test_another_seed_gives_another_split() -> None:
    first, second = (SplitRule(0.5, 0.5, seed).assign(IDS) for seed in (0, 1))
    assert sum(a != b for a, b in zip(first, second, strict=True)) > 1000


def test_the_order_of_the_clips_does_not_matter() -> None:
    rule = SplitRule(0.9, 0.1, seed=3)
    assert dict(zip(IDS, rule.assign(IDS), strict=True)) == dict(zip(IDS[::-1], rule.assign(IDS[::-1]), strict=True))


def test_a_larger_validation_share_keeps_the_validation_clips() -> None:
    small, large = SplitRule(0.95, 0.05, 0).assign(IDS), SplitRule(0.9, 0.1, 0).assign(IDS)
    assert all(b == "val" for a, b in zip(small, large, strict=True) if a == "val")


@settings(max_examples=200, deadline=None)
@given(
    ids=st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=40, unique=True),
    val=st.floats(0.001, 0.5),
    seed=st.integers(0, 5),
)
def test_two_clips_or_more_always_have_one_to_validate_with(ids: list[str], val: float, seed: int) -> None:
    assert "val" in SplitRule(1 - val, val, seed).assign(ids)


@settings(max_examples=200, deadline=None)
@given(
    ids=st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=40, unique=True),
    first=st.integers(2, 39),
    val=st.floats(0.001, 0.5),
)
def test_appending_never_moves_a_trained_clip_into_validation(ids: list[str], first: int, val: float) -> None:
    rule = SplitRule(1 - val, val, seed=0)
    before = rule.assign(ids[:first])
    after = rule.assign(ids)
    for old, new in zip(before, after, strict=False):
        assert (old, new) in {("train", "train"), ("val", "val"), ("val", "train")}


def test_appending_to_a_data_set_of_some_size_moves_nothing() -> None:
    rule = SplitRule(0.95, 0.05, seed=0)
    assert rule.assign(IDS)[:200] == rule.assign(IDS[:200])


def test_no_validation_share_gives_no_validation_clip() -> None:
    assert SplitRule(1.0, 0.0, seed=0).assign(IDS[:50]) == ["train"] * 50
