"""The shapes that batches are padded to, and what happens to clips beyond the limits."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_batching import bounded, clip_lengths, clips_of, plan_settings, speech_lengths

from myxtts.data.batches.buckets import Bucket
from myxtts.data.batches.plan import BatchPlan


def padded_frames(plan):
    epoch = plan.epoch(0, 0)
    return sum(plan.buckets[b].frames * plan.buckets[b].batch_size for b in epoch.bucket_of_batch)


@bounded
@given(clip_lengths(min_clips=1), plan_settings())
def test_shapes_are_few_ascending_and_within_the_limits(lengths, options):
    plan = BatchPlan(*lengths, **options)
    frames = [bucket.frames for bucket in plan.buckets]
    assert len(plan.buckets) <= options["num_buckets"]
    assert frames == sorted(set(frames))
    for bucket in plan.buckets:
        for length, limit in [
            (bucket.frames, options["max_mel_frames"]),
            (bucket.tokens, options["max_tokens"]),
        ]:
            assert length == limit or (length % 8 == 0 and length <= (limit or length))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 80), min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 7), st.booleans())
def test_no_other_choice_of_shapes_has_less_padding(mel, num_buckets, size, budget):
    """Against every possible choice of boundaries, tried one by one."""
    options = {"max_frames_per_batch": size * 40} if budget else {"batch_size": size}
    plan = BatchPlan(mel, [1] * len(mel), num_buckets=num_buckets, **options)
    levels = sorted({-(-length // 8) * 8 for length in mel})
    fewest = min(
        sum(
            (places := max(1, size * 40 // top) if budget else size)
            * -(-sum(bottom < length <= top for length in mel) // places)
            * top
            for bottom, top in zip((0, *cuts), (*cuts, levels[-1]), strict=True)
        )
        for count in range(min(num_buckets, len(levels)))
        for cuts in combinations(levels[:-1], count)
    )
    assert padded_frames(plan) == fewest


def test_more_buckets_never_pad_more():
    mel, tokens = speech_lengths(3_000)
    shares = [BatchPlan(mel, tokens, batch_size=16, num_buckets=n).padding_share for n in (1, 2, 4, 6, 8, 12)]
    assert shares == sorted(shares, reverse=True)
    assert shares[3] < shares[0] / 2


def test_one_bucket_pads_everything_to_one_shape():
    mel, tokens = speech_lengths(1_000)
    (bucket,) = BatchPlan(mel, tokens, batch_size=32, num_buckets=1).buckets
    assert bucket.frames == -(-int(mel.max()) // 8) * 8
    assert bucket.tokens == -(-int(tokens.max()) // 8) * 8


def test_a_data_set_smaller_than_a_batch_gets_one_batch_instead_of_one_per_bucket():
    plan = BatchPlan(*speech_lengths(30), batch_size=32, num_buckets=6)
    assert len(plan.buckets) == 1
    assert len(plan) == 1


def test_padding_share_is_what_the_batches_hold_beyond_their_clips():
    mel, tokens = speech_lengths(777)
    plan = BatchPlan(mel, tokens, batch_size=16)
    assert plan.padding_share == pytest.approx(1 - mel.sum() / padded_frames(plan))


def test_a_frame_budget_gives_short_clips_larger_batches_and_bounds_every_batch():
    plan = BatchPlan(*speech_lengths(5_000), max_frames_per_batch=10_000)
    assert [bucket.batch_size for bucket in plan.buckets] == [10_000 // bucket.frames for bucket in plan.buckets]
    assert plan.buckets[0].batch_size > plan.buckets[-1].batch_size


def test_a_clip_longer_than_the_frame_budget_is_a_batch_by_itself():
    plan = BatchPlan([100, 5_000], [10, 500], max_frames_per_batch=1_000, num_buckets=2)
    assert plan.buckets[-1] == Bucket(frames=5_000, tokens=504, batch_size=1)


def test_a_huge_spread_of_lengths_is_planned_with_a_coarse_histogram():
    mel = np.geomspace(1, 3_000_000, 2_000).astype(np.int64)
    plan = BatchPlan(mel, np.ones_like(mel), batch_size=4, num_buckets=6)
    assert plan.buckets[-1].frames == 3_000_000
    assert len(clips_of(plan.epoch(0, 0))) == 2_000


def test_clips_over_a_limit_are_left_out_and_counted_by_reason():
    plan = BatchPlan(
        [100, 900, 100, 900, 0, 100, 50],
        [10, 10, 90, 90, 10, 0, 50],
        [3, 5, 7, 9, 11, 13, 15],
        batch_size=2,
        max_mel_frames=800,
        max_tokens=50,
    )
    assert plan.skipped.tolist() == [5, 7, 9, 11, 13]
    assert plan.skipped_because == {"max_mel_frames": 2, "max_tokens": 1, "empty": 2}
    assert sorted(clips_of(plan.epoch(0, 0))) == [3, 15]
    assert plan.cropped.size == 0


def test_clips_over_a_limit_are_cropped_by_choice_and_counted():
    plan = BatchPlan(
        [100, 900, 100, 0],
        [10, 10, 90, 10],
        batch_size=4,
        max_mel_frames=801,
        max_tokens=50,
        long_clips="crop",
    )
    assert plan.cropped.tolist() == [1, 2]
    assert plan.skipped_because == {"empty": 1}
    assert sorted(clips_of(plan.epoch(0, 0))) == [0, 1, 2]
    assert plan.buckets[-1] == Bucket(frames=801, tokens=50, batch_size=4)


def test_lengths_at_the_limit_are_kept():
    plan = BatchPlan([800, 801], [50, 50], batch_size=1, max_mel_frames=800, max_tokens=50)
    assert plan.skipped.tolist() == [1]
