"""Where a run stands in its data, saved and restored."""

import json
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.data.batches.plan import BatchPlan
from myxtts.data.batches.position import Position
from myxtts.errors import DataError

MEL = np.arange(50, 550)
TOKENS = MEL // 6


def make_plan(mel=MEL, tokens=TOKENS, rows=None, **changes):
    options = {"batch_size": 8, "max_mel_frames": 600, "max_tokens": 100} | changes
    return BatchPlan(mel, tokens, rows, **options)


def batches_from(plan, position, count):
    """The next batches, as a loop over epochs gives them."""
    batches: list[list[int]] = []
    while len(batches) < count:
        epoch = plan.epoch(position.seed, position.epoch)
        batches.append(epoch[position.step].tolist())
        position = position.advance()
    return batches


def test_a_run_starts_at_the_first_batch_of_the_first_epoch():
    position = Position.start(make_plan(), seed=7)
    assert (position.seed, position.epoch, position.step) == (7, 0, 0)
    assert position.plan.hash == make_plan().hash


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 500), max_size=10))
def test_advancing_in_pieces_is_advancing_at_once(pieces):
    plan = make_plan()
    position = start = Position.start(plan, seed=1)
    for piece in pieces:
        position = position.advance(piece)
    assert position == start.advance(sum(pieces))
    assert position.epoch * len(plan) + position.step == sum(pieces)


def test_the_last_batch_of_an_epoch_is_followed_by_the_first_of_the_next():
    plan = make_plan()
    position = Position.start(plan, seed=1).advance(len(plan) - 1)
    assert (position.epoch, position.step) == (0, len(plan) - 1)
    assert (position.advance().epoch, position.advance().step) == (1, 0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 10_000))
def test_a_position_survives_json(seed, batches):
    position = Position.start(make_plan(source="3f2a"), seed).advance(batches)
    assert Position.from_dict(json.loads(json.dumps(position.to_dict()))) == position


def test_a_position_restored_in_a_new_process_continues_with_the_batches_that_would_have_come(python):
    plan = make_plan()
    start = Position.start(plan, seed=11)
    whole = batches_from(plan, start, 3 * len(plan))
    program = """
import json, sys
from test_batching_position import Position, batches_from, make_plan
position = Position.from_dict(json.load(sys.stdin))
plan = make_plan()
position.require(plan)
print(json.dumps(batches_from(plan, position, 5)))
"""
    for done in (1, len(plan) - 2, 2 * len(plan)):
        result = subprocess.run(
            [python, "-c", program],
            input=json.dumps(start.advance(done).to_dict()),
            capture_output=True,
            text=True,
            check=True,
            cwd=__file__.rpartition("/")[0],
        )
        assert json.loads(result.stdout) == whole[done : done + 5]


def test_the_same_plan_is_accepted():
    Position.start(make_plan(), seed=0).require(make_plan())


def test_a_setting_that_changes_no_batch_is_accepted():
    saved = make_plan(num_buckets=6, max_mel_frames=600)
    Position.start(saved, seed=0).require(make_plan(num_buckets=6, max_mel_frames=700))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"batch_size": 16}, "batch_size 8 → 16"),
        ({"batch_size": None, "max_frames_per_batch": 4_000}, "max_frames_per_batch none → 4000"),
        ({"num_buckets": 2}, "num_buckets 6 → 2"),
        ({"max_mel_frames": 400}, "max_mel_frames 600 → 400"),
        ({"max_tokens": 60}, "max_tokens 100 → 60"),
        ({"max_mel_frames": 400, "long_clips": "crop"}, "long_clips skip → crop"),
        ({"source": "3f2a"}, "store none → 3f2a"),
        ({"mel": MEL[:-1], "tokens": TOKENS[:-1]}, "clips 500 → 499"),
        ({"mel": MEL + (MEL == 77)}, "hash of the clips"),
        ({"rows": np.arange(500)[::-1]}, "hash of the clips"),
    ],
)
def test_a_plan_with_other_batches_is_refused_with_what_changed(changes, named):
    position = Position.start(make_plan(), seed=0).advance(200)
    with pytest.raises(DataError) as caught:
        position.require(make_plan(**changes))
    message = str(caught.value)
    assert named in message
    assert f"epoch {position.epoch}, step {position.step}" in message
    assert len(message.splitlines()) == 3


def test_what_did_not_change_is_not_named():
    with pytest.raises(DataError) as caught:
        Position.start(make_plan(), seed=0).require(make_plan(batch_size=16))
    assert "max_tokens" not in str(caught.value)
    assert "clips 500" not in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda saved: saved.pop("epoch"),
        lambda saved: saved.pop("plan"),
        lambda saved: saved.update(step="many"),
        lambda saved: saved.update(plan=5),
        lambda saved: saved.update(step=10**9),
        lambda saved: saved.update(epoch=-1),
        lambda saved: saved["plan"].pop("hash"),
        lambda saved: saved["plan"].update(surprise=1),
        lambda saved: saved["plan"].update(buckets=[{"frames": 8}]),
        lambda saved: saved["plan"].update(batches="many"),
    ],
)
def test_a_damaged_position_is_refused_as_such(damage):
    saved = json.loads(json.dumps(Position.start(make_plan(), seed=0).to_dict()))
    damage(saved)
    with pytest.raises(DataError):
        Position.from_dict(saved)


def test_a_plan_without_clips_has_no_position():
    with pytest.raises(DataError, match="no clip"):
        Position.start(BatchPlan([], [], batch_size=1), seed=0)
