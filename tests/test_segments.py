"""Random segments: slices of the clips' audio and of their mels, the same in every mode, resumable anywhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import store_of
from speech_like import RATE, make_data_set, sound

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.config.config import DataConfig
from myxtts.data.batches.order_in_graph import DRAWN_AT_ONCE, segment_requests
from myxtts.data.batches.plan import BatchOrder
from myxtts.data.batches.position import Position
from myxtts.data.batches.runtime_clips import read_samples
from myxtts.data.batches.segment_plan import SegmentPlan
from myxtts.data.clips.metadata import Split
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.store import FeatureStore
from myxtts.errors import ConfigError, DataError
from myxtts.performance.python_functions import python_functions

Batch = dict[str, np.ndarray]
HOP = 256
FRAMES = 40
MANY_FRAMES = 150
# Some shorter than a segment, one of a single frame, one whose frames just fill it.
LENGTHS = [0.3, 0.0125, FRAMES * HOP / RATE, *(0.5 + 0.13 * k for k in range(15))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("segments") / "data", LENGTHS)


def data_set(folder: Path, subset: Split = "train", **changes: Any) -> LJSpeechDataset:
    values = {
        "text_symbols": "graphemes",
        "num_workers": 2,
        "store_audio": True,
        "train_split": 0.8,
        "val_split": 0.2,
    }
    return LJSpeechDataset(folder, DataConfig(**(values | changes)), subset)


def read(dataset: tf.data.Dataset) -> list[Batch]:
    return [{name: value.numpy() for name, value in batch.items()} for batch in dataset]


def same(batches: list[Batch], others: list[Batch]) -> None:
    assert len(batches) == len(others)
    for batch, other in zip(batches, others, strict=True):
        assert batch.keys() == other.keys()
        for name in batch:
            np.testing.assert_array_equal(batch[name], other[name], err_msg=name)


def segments_of(batch: Batch) -> Iterator[tuple[Any, ...]]:
    """Row, first frame, frames, audio and mel of each."""
    return zip(*(batch[name] for name in ("index", "first_frame", "mel_lengths", "audio", "mel")), strict=True)


def mel_settings(dataset: LJSpeechDataset) -> MelSettings:
    return MelSettings.from_config(dataset.config)


def check_mel(batch: Batch, dataset: LJSpeechDataset) -> None:
    """Against the mel of the whole clip, computed here."""
    for row, first, length, _, mel in segments_of(batch):
        samples = read_samples(dataset.metadata.clips[row].audio_path, mel_settings(dataset), np.float32)
        expected = log_mel(samples, mel_settings(dataset))[first : first + FRAMES]
        assert len(expected) == length
        np.testing.assert_allclose(mel[:length], expected, atol=1e-3)


def without_mel(batch: Batch) -> Batch:
    return {name: value for name, value in batch.items() if name != "mel"}


# Which segments


@settings(deadline=None, max_examples=8)
@given(
    clips=st.integers(1, 40),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**40),
    batch_size=st.integers(1, 9),
    frames=st.integers(1, 200),
    shuffle=st.booleans(),
)
def test_the_graph_draws_the_segments_of_the_plan(
    clips: int, seed: int, epoch: int, batch_size: int, frames: int, shuffle: bool
) -> None:
    lengths = np.random.default_rng(clips).integers(0, 300, clips)
    lengths[0] = 7
    plan = SegmentPlan(lengths, np.arange(clips) * 3, frames=frames, batch_size=batch_size)
    start = clips % len(plan)
    order = BatchOrder(seed, shuffle, epochs=2, start_epoch=epoch, start_step=start)
    requests = segment_requests(plan, order).as_numpy_iterator()
    for step in range(start, min(2 * len(plan), start + 20)):
        request, expected = next(requests), plan.batch(seed, epoch + step // len(plan), step % len(plan), shuffle)
        np.testing.assert_array_equal(request["rows"], expected.rows)
        np.testing.assert_array_equal(request["first_frame"], expected.first_frame)
        assert (expected.first_frame <= np.maximum(lengths[expected.rows // 3] - frames, 0)).all()


def test_the_graph_draws_any_number_of_batches() -> None:
    plan = SegmentPlan([300, 400], frames=1, batch_size=1)
    assert len(plan) > DRAWN_AT_ONCE
    order = BatchOrder(7, epochs=2, start_epoch=1, start_step=5)
    drawn = list(segment_requests(plan, order).as_numpy_iterator())
    numbers = range(len(plan) + 5, 3 * len(plan))
    expected = [plan.batch(7, *divmod(number, len(plan))) for number in numbers]
    for name in ("rows", "first_frame"):
        assert [request[name].tolist() for request in drawn] == [getattr(one, name).tolist() for one in expected]


def test_every_place_to_begin_is_drawn_equally_often() -> None:
    plan = SegmentPlan([0, 12, 5, 30], frames=10, batch_size=1000)
    assert (plan.starts, plan.clips, plan.skipped.tolist()) == (3 + 1 + 21, 3, [0])
    drawn = [plan.batch(seed, epoch, 0) for seed in range(5) for epoch in range(5)]
    rows = np.concatenate([segments.rows for segments in drawn])
    places, counts = np.unique(
        100 * rows + np.concatenate([segments.first_frame for segments in drawn]), return_counts=True
    )
    assert places.tolist() == [*range(100, 103), 200, *range(300, 321)]
    assert abs(counts - 1000).max() < 150  # five standard deviations


def test_an_epoch_has_the_frames_of_the_data_set() -> None:
    assert len(SegmentPlan([120, 480, 500, 130], frames=32, batch_size=4)) == 1230 // (32 * 4)
    assert len(SegmentPlan([5], frames=32, batch_size=4)) == 1
    assert len(SegmentPlan([0], frames=32, batch_size=4)) == 0


@pytest.mark.parametrize("name", ["frames", "batch_size"])
def test_a_size_that_makes_no_sense_is_refused(name: str) -> None:
    sizes: dict[str, Any] = {"frames": 8, "batch_size": 2} | {name: 0}
    with pytest.raises(ConfigError, match=f"{name} is 0; it can be 1 or more"):
        SegmentPlan([100], frames=sizes["frames"], batch_size=sizes["batch_size"])


# What is in them

MODES: dict[str, dict[str, Any]] = {
    "store": {"preprocessing_mode": "precompute"},
    "store float32": {"preprocessing_mode": "precompute", "mel_dtype": "float32"},
    "store in memory": {"preprocessing_mode": "auto", "enable_memory_mapping": False},
    "runtime": {"preprocessing_mode": "runtime"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("frames", [FRAMES, MANY_FRAMES])  # than most of the clips have
def test_segments_are_slices_of_the_audio_and_the_mel_of_their_clips(folder: Path, mode: str, frames: int) -> None:
    dataset = data_set(folder, **MODES[mode])
    store = store_of(data_set(folder, mel_dtype=MODES[mode].get("mel_dtype", "float16")).prepare())
    source = dataset.segments(frames=frames, batch_size=4)
    batches = read(source.dataset(seed=3, epochs=3))
    assert len(batches) == 3 * len(source.plan)
    for number, batch in enumerate(batches):
        drawn = source.plan.batch(3, number // len(source.plan), number % len(source.plan))
        np.testing.assert_array_equal(batch["index"], drawn.rows)
        np.testing.assert_array_equal(batch["first_frame"], drawn.first_frame)
        np.testing.assert_array_equal(batch["mel_lengths"], np.minimum(store.mel_lengths[drawn.rows], frames))
        assert (batch["mel"].shape, batch["mel"].dtype) == ((4, frames, 80), store.mel_data.dtype)
        assert (batch["audio"].shape, batch["audio"].dtype) == ((4, frames * HOP), np.int16)
        for row, first, length, audio, mel in segments_of(batch):
            samples = read_samples(dataset.metadata.clips[row].audio_path, mel_settings(dataset), np.int16)
            np.testing.assert_array_equal(audio[: length * HOP], samples[first * HOP : (first + length) * HOP])
            assert not audio[length * HOP :].any()
            tolerance = 0.0 if mode.startswith("store") else 2e-2
            stored = store.mel(row)[first : first + length]
            np.testing.assert_allclose(mel[:length], stored, rtol=0, atol=tolerance)
            assert (mel[length:] == store.mel_data[-1]).all()
    assert set(np.concatenate([batch["index"] for batch in batches])) <= set(dataset.rows)
    assert (np.concatenate([batch["mel_lengths"] for batch in batches]) < MANY_FRAMES).any()


@pytest.mark.parametrize("mode", MODES)
def test_no_python_function_is_in_the_graph(folder: Path, mode: str) -> None:
    assert python_functions(data_set(folder, **MODES[mode]).segments(frames=FRAMES).dataset()) == []


def test_every_mode_gives_the_same_segments(folder: Path) -> None:
    first, *others = (
        read(data_set(folder, **changes).segments(frames=FRAMES, batch_size=4).dataset(seed=5, epochs=1))
        for changes in MODES.values()
    )
    for other in others:
        same([without_mel(batch) for batch in first], [without_mel(batch) for batch in other])


def test_without_a_store_the_mel_is_exactly_what_the_whole_clip_has_there(folder: Path) -> None:
    """To the rounding of float32, at the ends of clips too, where the mel mirrors what is there."""
    dataset = data_set(folder, preprocessing_mode="runtime", mel_dtype="float32")
    for batch in read(dataset.segments(frames=FRAMES, batch_size=8).dataset(epochs=4)):
        check_mel(batch, dataset)


@pytest.mark.parametrize("trimmed", [False, True])
def test_files_that_the_graph_cannot_decode_give_segments_too(
    tmp_path: Path, trimmed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_data_set(tmp_path / "data", [0.3, 0.7, 0.9, 1.1, 1.3, 1.5])
    wavs = folder / "wavs"
    soundfile.write(wavs / "c001.wav", np.stack([sound(1, 0.8), sound(51, 0.8)], axis=1), RATE, subtype="PCM_16")
    (wavs / "c002.wav").unlink()
    soundfile.write(wavs / "c002.flac", sound(2, 0.9, 48000), 48000)
    soundfile.write(wavs / "c003.wav", sound(3, 1.2), RATE, subtype="PCM_24")
    changes: dict[str, Any] = {"trim_silence": trimmed, "trim_db": 20.0, "mel_dtype": "float32"}
    dataset = data_set(folder, preprocessing_mode="runtime", **changes)
    with caplog.at_level(logging.WARNING):
        batches = read(dataset.segments(frames=FRAMES, batch_size=4).dataset(seed=1, epochs=6))
    assert "2 of 6 files are not 16-bit WAV" in caplog.text
    with FeatureStore.open(data_set(folder, **changes).precompute_mels().version) as store:
        for batch in batches:
            check_mel(batch, dataset)
            for row, first, length, audio, _ in segments_of(batch):
                assert length == min(store.mel_lengths[row], FRAMES)
                stored = store.rows("audio", row)[first * HOP : (first + length) * HOP]
                np.testing.assert_array_equal(audio, np.pad(stored, (0, (FRAMES - length) * HOP)))


def test_other_mels_take_the_place_of_the_stored_ones(folder: Path, tmp_path: Path) -> None:
    dataset = data_set(folder)
    store = store_of(dataset.prepare())
    shape = store.mel_data.shape
    mels = np.lib.format.open_memmap(tmp_path / "acoustic.npy", "w+", np.float32, shape)
    mels[:] = np.arange(shape[0])[:, np.newaxis]
    batches = read(dataset.segments(frames=FRAMES, batch_size=4, mels=mels).dataset(epochs=2))
    same(
        [without_mel(batch) for batch in batches],
        [without_mel(batch) for batch in read(dataset.segments(frames=FRAMES, batch_size=4).dataset(epochs=2))],
    )
    for batch in batches:
        for row, first, length, _, mel in segments_of(batch):
            place = store.mel_offsets[row] + first
            np.testing.assert_array_equal(mel[:length, 0], np.arange(place, place + length))
            assert (mel[length:] == shape[0] - 1).all()


def test_mels_of_another_shape_or_without_a_store_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"mels for the segments are float32 of shape \(3, 80\).*compute them again"):
        data_set(folder).segments(frames=8, mels=np.zeros((3, 80), np.float32))
    with pytest.raises(ConfigError, match="preprocessing_mode to precompute"):
        data_set(folder, preprocessing_mode="runtime").segments(frames=8, mels=np.zeros((3, 80), np.float32))


def test_a_store_without_audio_says_which_key_adds_it(folder: Path) -> None:
    with pytest.raises(ConfigError, match="set store_audio to true") as caught:
        data_set(folder, store_audio=False).segments(frames=FRAMES)
    assert len(str(caught.value).splitlines()) == 1


# In which order


def test_the_validation_split_is_one_pass_over_segments_that_never_change(folder: Path) -> None:
    source = data_set(folder).segments("val", frames=FRAMES, batch_size=2)
    batches = read(source.dataset())
    assert len(batches) == len(source.plan)
    same(batches, read(data_set(folder, "val").segments(frames=FRAMES, batch_size=2).dataset(seed=9)))
    assert {row for batch in batches for row in batch["index"]} <= set(data_set(folder, "val").rows)


@pytest.mark.parametrize(("mode", "times"), [("store", 5), ("runtime", 2)])
def test_resumed_at_random_positions_the_batches_are_those_of_an_uninterrupted_run(
    folder: Path, mode: str, times: int
) -> None:
    source = data_set(folder, **MODES[mode]).segments(frames=FRAMES, batch_size=3)
    sequence = read(source.dataset(seed=11, epochs=4))
    for step in np.random.default_rng(0).integers(0, len(sequence) - 2, times).tolist():
        saved = json.dumps(Position.start(source.plan, seed=11).advance(step).to_dict())
        again = data_set(folder, **MODES[mode]).segments(frames=FRAMES, batch_size=3)
        same(read(again.resume(Position.from_dict(json.loads(saved))).take(2)), sequence[step : step + 2])


def test_a_position_in_another_plan_is_refused_with_what_changed(folder: Path) -> None:
    dataset = data_set(folder)
    position = Position.start(dataset.segments(frames=FRAMES, batch_size=4).plan, seed=1)
    with pytest.raises(DataError, match="batch_size 4 → 2"):
        dataset.segments(frames=FRAMES, batch_size=2).resume(position)
    with pytest.raises(DataError, match="saved by a run on batches of segments"):
        dataset.batches().resume(position)
    with pytest.raises(DataError, match="saved by a run on batches of whole clips"):
        dataset.segments(frames=FRAMES).resume(Position.start(dataset.batches().plan, seed=1))


def test_storing_the_audio_does_not_keep_a_run_on_whole_clips_from_being_continued(folder: Path) -> None:
    without, beside = (data_set(folder, store_audio=stored).batches() for stored in (False, True))
    assert without.plan.description == beside.plan.description
    assert without.plan.description.source == without.clips.fingerprint  # type: ignore[union-attr]


def test_workers_and_overlap_change_no_batch(folder: Path) -> None:
    expected = read(data_set(folder).segments(frames=FRAMES, batch_size=4).dataset(epochs=1))
    for changes in ({"num_workers": 1}, {"optimize_cpu_gpu_overlap": False}):
        same(expected, read(data_set(folder, **changes).segments(frames=FRAMES, batch_size=4).dataset(epochs=1)))
