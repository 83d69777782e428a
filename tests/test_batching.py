"""Which clips make batch k of epoch e."""

import doctest
import subprocess
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.data.batches import plan as batching
from myxtts.data.batches.buckets import Bucket
from myxtts.data.batches.order import keys
from myxtts.data.batches.plan import BatchPlan
from myxtts.errors import ConfigError

bounded = settings(max_examples=100, deadline=None)


@st.composite
def clip_lengths(draw, min_clips=0, max_clips=200):
    """Lengths of a data set: alike, spread evenly, or over five orders of magnitude."""
    clips = draw(st.integers(min_clips, max_clips))
    longest = draw(st.sampled_from([1, 50, 900, 100_000]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mel = generator.integers(1, longest + 1, clips)
    tokens = np.maximum(1, mel // draw(st.sampled_from([1, 6, 40])) + generator.integers(-3, 4, clips))
    return mel, tokens


@st.composite
def plan_settings(draw):
    if draw(st.booleans()):
        size = {"batch_size": draw(st.integers(1, 40))}
    else:
        size = {"max_frames_per_batch": draw(st.integers(1, 30_000))}
    return size | {
        "num_buckets": draw(st.integers(1, 12)),
        "max_mel_frames": draw(st.none() | st.integers(1, 2_000)),
        "max_tokens": draw(st.none() | st.integers(1, 400)),
        "long_clips": draw(st.sampled_from(["skip", "crop"])),
    }


def speech_lengths(clips, seed=0):
    """Lengths as LJSpeech has them: 1 to 10 seconds, the long ones the most frequent."""
    frames = (np.random.default_rng(seed).beta(2.6, 1.5, clips) * 775 + 95).astype(np.int64)
    return frames, frames // 6


def clips_of(epoch):
    return epoch.indices[epoch.indices >= 0]


def test_the_shapes_of_the_batches_are_those_that_an_epoch_has():
    plan = BatchPlan(*speech_lengths(500), batch_size=16, num_buckets=4)
    epoch = plan.epoch(seed=3, epoch=1)
    buckets = [plan.buckets[bucket] for bucket in epoch.bucket_of_batch]
    dealt = [[len(batch), bucket.frames, bucket.tokens] for batch, bucket in zip(epoch, buckets, strict=True)]
    assert sorted(plan.batch_shapes().tolist()) == sorted(dealt)
    assert BatchPlan([], [], batch_size=16).batch_shapes().shape == (0, 3)


@bounded
@given(clip_lengths(), plan_settings(), st.integers(0, 2**64 - 1), st.integers(0, 10**6), st.booleans())
def test_every_usable_clip_comes_exactly_once_per_epoch(lengths, options, seed, epoch, shuffle):
    plan = BatchPlan(*lengths, **options)
    dealt = clips_of(plan.epoch(seed, epoch, shuffle))
    assert sorted([*dealt, *plan.skipped]) == list(range(len(lengths[0])))
    assert plan.clips == len(dealt)


@bounded
@given(clip_lengths(), plan_settings(), st.integers(0, 2**64 - 1))
def test_every_clip_fits_the_shape_of_its_batch(lengths, options, seed):
    plan = BatchPlan(*lengths, **options)
    mel, tokens = lengths
    if options["long_clips"] == "crop":
        mel = np.minimum(mel, options["max_mel_frames"] or mel)
        tokens = np.minimum(tokens, options["max_tokens"] or tokens)
    epoch = plan.epoch(seed, 0)
    for bucket, rows in zip(epoch.bucket_of_batch, epoch, strict=True):
        shape = plan.buckets[bucket]
        rows = rows[rows >= 0]
        assert len(rows) > 0
        assert mel[rows].max() <= shape.frames
        assert tokens[rows].max() <= shape.tokens


@bounded
@given(clip_lengths(), plan_settings(), st.integers(0, 2**64 - 1))
def test_every_batch_is_full_but_for_one_per_bucket_that_ends_in_empty_places(lengths, options, seed):
    plan = BatchPlan(*lengths, **options)
    epoch = plan.epoch(seed, 3)
    incomplete = []
    for bucket, rows in zip(epoch.bucket_of_batch, epoch, strict=True):
        assert len(rows) == plan.buckets[bucket].batch_size
        filled = int((rows >= 0).sum())
        assert (rows[filled:] == -1).all()
        if filled < len(rows):
            incomplete.append(bucket)
    assert len(incomplete) == len(set(incomplete))


@bounded
@given(clip_lengths(), plan_settings(), st.integers(0, 2**64 - 1), st.integers(0, 1000))
def test_the_same_seed_and_epoch_give_the_same_batches(lengths, options, seed, epoch):
    one = BatchPlan(*lengths, **options).epoch(seed, epoch)
    two = BatchPlan(*lengths, **options).epoch(seed, epoch)
    assert one.indices.tobytes() == two.indices.tobytes()
    assert one.offsets.tobytes() == two.offsets.tobytes()
    assert one.bucket_of_batch.tobytes() == two.bucket_of_batch.tobytes()


@bounded
@given(clip_lengths(), plan_settings())
def test_every_epoch_has_the_same_number_of_batches_of_each_shape(lengths, options):
    plan = BatchPlan(*lengths, **options)
    expected = np.bincount(plan.epoch(0, 0).bucket_of_batch).tolist()
    for epoch in range(1, 4):
        batches = plan.epoch(0, epoch)
        assert len(batches) == len(plan)
        assert np.bincount(batches.bucket_of_batch).tolist() == expected


@bounded
@given(clip_lengths(), plan_settings())
def test_rows_only_rename_the_clips(lengths, options):
    rows = np.random.default_rng(1).permutation(len(lengths[0]) * 3)[: len(lengths[0])]
    mel, tokens = lengths
    plain = BatchPlan(mel, tokens, **options)
    renamed = BatchPlan(mel, tokens, rows, **options)
    indices = plain.epoch(5, 2).indices
    expected = np.where(indices >= 0, np.append(rows, -1)[indices], -1)
    assert renamed.epoch(5, 2).indices.tolist() == expected.tolist()
    assert renamed.skipped.tolist() == rows[plain.skipped].tolist()
    assert renamed.cropped.tolist() == rows[plain.cropped].tolist()


def test_epochs_and_seeds_differ_in_order_and_in_which_clips_share_a_batch():
    plan = BatchPlan(*speech_lengths(500), batch_size=8)
    dealt = [plan.epoch(seed, epoch) for seed, epoch in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]]
    for one, two in combinations(dealt, 2):
        assert one.indices.tolist() != two.indices.tolist()
        assert one.bucket_of_batch.tolist() != two.bucket_of_batch.tolist()
        together_in_one = {frozenset(rows.tolist()) for rows in one}
        assert not together_in_one & {frozenset(rows.tolist()) for rows in two if (rows >= 0).all()}


def test_the_shuffle_is_global_and_even():
    """Each clip's mean place over many epochs is the middle: no clip is bound to its place in the list."""
    plan = BatchPlan(np.full(64, 100), np.full(64, 10), batch_size=4)
    places = np.array([np.argsort(plan.epoch(3, epoch).indices) for epoch in range(2_000)])
    standard_error = 64 / np.sqrt(12) / np.sqrt(2_000)
    assert np.abs(places.mean(axis=0) - 31.5).max() < 5 * standard_error
    assert len({tuple(row) for row in places}) == 2_000


def test_lengths_come_in_no_order():
    plan = BatchPlan(*speech_lengths(20_000), batch_size=16)
    buckets = plan.epoch(0, 0).bucket_of_batch.astype(float)
    assert abs(np.corrcoef(buckets, np.arange(len(buckets)))[0, 1]) < 0.1
    assert abs(np.corrcoef(buckets[1:], buckets[:-1])[0, 1]) < 0.1


def test_without_shuffling_every_epoch_is_the_same_and_in_order():
    plan = BatchPlan([100, 500, 110, 490, 120], [9] * 5, batch_size=2, num_buckets=2)
    expected = [[0, 2], [4, -1], [1, 3]]
    assert [rows.tolist() for rows in plan.epoch(1, 0, shuffle=False)] == expected
    assert [rows.tolist() for rows in plan.epoch(2, 7, shuffle=False)] == expected


def test_keys_are_those_of_splitmix64():
    """The first outputs of the generator from state 0, as its authors' code gives them."""
    assert keys(0, 3).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert keys(0, 2, first=1).tolist() == keys(0, 3)[1:].tolist()


def test_the_order_is_pinned_across_versions_of_numpy_and_machines():
    """A failure here means no saved position can be resumed: raise ORDER_VERSION, then change the numbers."""
    lengths = np.arange(1, 21) * 17 % 200 + 1
    plan = BatchPlan(lengths, lengths // 4 + 1, batch_size=3, num_buckets=2)
    epoch = plan.epoch(seed=2024, epoch=5)
    assert batching.ORDER_VERSION == 1
    assert plan.hash == "2e2611bc5bc95936faa596ee52a1d8f1"
    assert epoch.bucket_of_batch.tolist() == [1, 0, 1, 0, 0, 0, 1]
    assert [rows.tolist() for rows in epoch] == [
        [19, 10, 9],
        [0, 11, 1],
        [17, 6, 18],
        [3, 13, -1],
        [15, 2, 4],
        [12, 14, 16],
        [7, 8, 5],
    ]


def test_no_clip_gives_no_batch():
    plan = BatchPlan([], [], batch_size=8)
    assert len(plan) == 0
    assert plan.buckets == ()
    assert plan.padding_share == 0.0
    assert len(plan.epoch(0, 0)) == 0
    assert list(plan.epoch(0, 0)) == []


def test_no_usable_clip_gives_no_batch():
    plan = BatchPlan([900, 901], [5, 5], batch_size=8, max_mel_frames=100)
    assert len(plan.epoch(0, 0)) == 0
    assert plan.skipped.tolist() == [0, 1]


def test_one_clip_gives_one_batch_completed_with_empty_places():
    plan = BatchPlan([100], [10], batch_size=4)
    assert plan.epoch(9, 9).indices.tolist() == [0, -1, -1, -1]
    assert plan.buckets == (Bucket(frames=104, tokens=16, batch_size=4),)


def test_clips_of_one_length_share_one_bucket():
    plan = BatchPlan(np.full(100, 333), np.full(100, 40), batch_size=10, num_buckets=6)
    assert plan.buckets == (Bucket(frames=336, tokens=40, batch_size=10),)
    assert plan.padding_share == pytest.approx(1 - 333 / 336)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either batch_size or max_frames_per_batch"),
        ({"batch_size": 2, "max_frames_per_batch": 100}, "either batch_size or max_frames_per_batch"),
        ({"batch_size": 0}, "batch_size is 0; it can be 1 or more"),
        ({"max_frames_per_batch": 0}, "max_frames_per_batch is 0"),
        ({"batch_size": 2, "num_buckets": 0}, "num_buckets is 0; it can be 1 to 256"),
        ({"batch_size": 2, "max_mel_frames": 0}, "max_mel_frames is 0"),
        ({"batch_size": 2, "max_tokens": -1}, "max_tokens is -1"),
        ({"batch_size": 2, "long_clips": "split"}, "long_clips is 'split'; it can be 'skip' or 'crop'"),
    ],
)
def test_a_setting_out_of_range_is_named_with_what_is_allowed(options, message):
    with pytest.raises(ConfigError, match=message):
        BatchPlan([100], [10], **options)


@pytest.mark.parametrize(("seed", "epoch"), [(-1, 0), (2**64, 0), (0, -1)])
def test_a_seed_or_epoch_out_of_range_is_refused(seed, epoch):
    with pytest.raises(ConfigError, match=r"it can be 0 to"):
        BatchPlan([100], [10], batch_size=1).epoch(seed, epoch)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([1, 2], [1]), "token_lengths has 1 entries for 2 clips"),
        (([1, 2], [1, 2], [0]), "rows has 1 entries for 2 clips"),
        (([1, -2], [1, 2]), "negative length"),
        (([1.5, 2.0], [1, 2]), "array of integers"),
        (([[1], [2]], [1, 2]), "one-dimensional"),
        (([1, 2], [1, 2], [4, 4]), "distinct"),
        (([1, 2], [1, 2], [4, -1]), "not negative"),
    ],
)
def test_arrays_that_do_not_describe_clips_are_refused(arrays, message):
    with pytest.raises(ValueError, match=message):
        BatchPlan(*arrays, batch_size=1)


def test_a_batch_beyond_the_last_is_refused():
    epoch = BatchPlan([100], [10], batch_size=1).epoch(0, 0)
    with pytest.raises(IndexError, match="batch 1 of 1"):
        epoch[1]


def test_the_arrays_of_an_epoch_cannot_be_changed():
    epoch = BatchPlan([100], [10], batch_size=2).epoch(0, 0)
    for array in (epoch.indices, epoch.offsets, epoch.bucket_of_batch):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_a_million_clips_are_planned_in_less_than_200_mb():
    mel, tokens = speech_lengths(1_000_000)
    tracemalloc.start()
    try:
        plan = BatchPlan(mel, tokens, batch_size=32, max_mel_frames=860)
        epoch = plan.epoch(0, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(clips_of(epoch)) == plan.clips
    assert peak < 200e6


def test_planning_needs_no_tensorflow(python):
    modules = "myxtts.data.batches.plan, myxtts.data.batches.position"
    program = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([python, "-c", program]).returncode == 0


def test_the_example_in_the_docstring_holds():
    results = doctest.testmod(batching)
    assert results.attempted > 0
    assert results.failed == 0
