"""Batches as training gets them: every clip once, the store's bytes, no Python in the graph, resumable anywhere."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import store_of
from speech_like import make_data_set

from myxtts.config.config import DataConfig
from myxtts.data.batches import store_loader
from myxtts.data.batches.order_in_graph import batch_requests
from myxtts.data.batches.pipeline import PipelineSettings, create_dataset
from myxtts.data.batches.plan import BatchOrder, BatchPlan
from myxtts.data.batches.position import Position
from myxtts.data.clips.metadata import Split
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.errors import DataError
from myxtts.performance.python_functions import python_functions

Batch = dict[str, np.ndarray]
LENGTHS = [0.6 + 0.17 * (k * 7 % 23) for k in range(46)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data_set(tmp_path_factory.mktemp("pipeline") / "data", LENGTHS, speakers=3)


def data_set(folder: Path, subset: Split = "train", **changes: Any) -> LJSpeechDataset:
    values = {"preprocessing_mode": "precompute", "text_symbols": "graphemes", "batch_size": 8, "num_workers": 2}
    return LJSpeechDataset(folder, DataConfig(**(values | {"reference_seconds": 0.5} | changes)), subset)


def read(dataset: tf.data.Dataset) -> list[Batch]:
    return [{name: value.numpy() for name, value in batch.items()} for batch in dataset]


def digest(batch: Batch) -> str:
    content = hashlib.sha256()
    for name in sorted(batch):
        content.update(name.encode() + str(batch[name].shape).encode() + batch[name].tobytes())
    return content.hexdigest()


MODES: dict[str, dict[str, Any]] = {
    "store": {},
    "store float32": {"mel_dtype": "float32"},
    "store in memory": {"enable_memory_mapping": False},
    "store through Python": {"use_tf_native_loading": False},
    "store synchronous": {"optimize_cpu_gpu_overlap": False},
    "runtime": {"preprocessing_mode": "runtime"},
    "runtime through Python": {"preprocessing_mode": "runtime", "use_tf_native_loading": False},
    "runtime with device features": {"preprocessing_mode": "runtime", "feature_device": "accelerator"},
}


@pytest.mark.parametrize("mode", MODES)
def test_over_three_epochs_every_clip_comes_once_per_epoch_with_its_own_features(folder: Path, mode: str) -> None:
    stored = data_set(folder, mel_dtype=MODES[mode].get("mel_dtype", "float16")).prepare().store
    assert stored is not None
    dataset = data_set(folder, **MODES[mode])
    source = dataset.batches()
    batches = read(source.dataset(epochs=3, seed=5))
    assert len(batches) == 3 * len(source.plan)
    for epoch in range(3):
        seen = []
        for batch in batches[epoch * len(source.plan) : (epoch + 1) * len(source.plan)]:
            for place, row in enumerate(batch["index"]):
                frames, tokens = batch["mel_lengths"][place], batch["token_lengths"][place]
                if row < 0:
                    assert frames == tokens == 0
                    continue
                seen.append(row)
                np.testing.assert_array_equal(batch["tokens"][place, :tokens], stored.tokens(row))
                assert not batch["tokens"][place, tokens:].any()
                assert batch["speaker"][place] == stored.speaker_ids[row]
                assert frames == stored.mel_lengths[row]
                if "mel" not in batch:
                    assert batch["audio_lengths"][place] // dataset.config.hop_length == frames
                elif mode.startswith("store"):
                    np.testing.assert_array_equal(batch["mel"][place, :frames], stored.mel(row))
                else:
                    np.testing.assert_allclose(batch["mel"][place, :frames], stored.mel(row), atol=2e-2)
                if "mel" in batch:
                    assert (batch["mel"][place, frames:] == stored.mel_data[-1]).all()
        assert sorted(seen) == sorted(dataset.rows)


@pytest.mark.parametrize("mode", ["store", "runtime", "runtime with device features"])
def test_no_python_function_is_in_the_graph(folder: Path, mode: str) -> None:
    assert python_functions(data_set(folder, **MODES[mode]).create_tf_dataset()) == []


def test_loading_through_python_gives_the_same_batches(folder: Path) -> None:
    native = read(data_set(folder).create_tf_dataset(seed=1))
    python = read(data_set(folder, use_tf_native_loading=False).create_tf_dataset(seed=1))
    assert [digest(batch) for batch in native] == [digest(batch) for batch in python]


def test_number_of_workers_and_buffers_change_no_batch(folder: Path) -> None:
    one = read(data_set(folder, num_workers=1, prefetch_buffer_size=1).create_tf_dataset(seed=1))
    many = read(data_set(folder, num_workers=7, prefetch_buffer_size=9).create_tf_dataset(seed=1))
    assert [digest(batch) for batch in one] == [digest(batch) for batch in many]


def test_shapes_are_those_of_the_plan(folder: Path) -> None:
    dataset = data_set(folder, num_buckets=3)
    shapes = {(batch["mel"].shape, batch["tokens"].shape) for batch in read(dataset.create_tf_dataset())}
    buckets = dataset.batches().plan.buckets
    expected = {((b.batch_size, b.frames, 80), (b.batch_size, b.tokens)) for b in buckets}
    assert shapes == expected


def test_a_frame_budget_gives_more_short_clips_per_batch(folder: Path) -> None:
    batches = read(data_set(folder, max_frames_per_batch=1500, num_buckets=4).create_tf_dataset())
    sizes = {batch["mel"].shape[:2] for batch in batches}
    assert len({places for places, _ in sizes}) > 1
    assert all(places * frames <= 1500 for places, frames in sizes)


def test_long_clips_are_left_out_or_cropped(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    skipping = data_set(folder, max_mel_frames=200)
    long = {row for row in skipping.rows if store_of(skipping.prepare()).mel_lengths[row] > 200}
    seen = {row for batch in read(skipping.create_tf_dataset()) for row in batch["index"] if row >= 0}
    assert seen == set(skipping.rows) - long
    assert f"{len(long)} clips of the train split are left out: over max_mel_frames" in caplog.text

    cropping = data_set(folder, max_mel_frames=200, long_clips="crop")
    store = store_of(cropping.prepare())
    for batch in read(cropping.create_tf_dataset()):
        for row, mel, frames in zip(batch["index"], batch["mel"], batch["mel_lengths"], strict=True):
            if row >= 0:
                np.testing.assert_array_equal(mel[:frames], store.mel(row)[:200])


def test_runtime_mode_crops_to_the_frames_of_the_whole_clip(folder: Path) -> None:
    changes: dict[str, Any] = {"max_mel_frames": 200, "long_clips": "crop", "mel_dtype": "float32", "num_buckets": 1}
    store = store_of(data_set(folder, mel_dtype="float32").prepare())
    for batch in read(data_set(folder, preprocessing_mode="runtime", **changes).create_tf_dataset()):
        for row, mel, frames in zip(batch["index"], batch["mel"], batch["mel_lengths"], strict=True):
            if row >= 0:
                np.testing.assert_allclose(mel[:frames], store.mel(row)[:200], atol=1e-3)


def test_validation_is_not_shuffled_and_the_same_every_time(folder: Path) -> None:
    dataset = data_set(folder, "val", val_split=0.3, train_split=0.7)
    first, second = read(dataset.create_tf_dataset()), read(dataset.create_tf_dataset(seed=9, start_epoch=4))
    assert [digest(batch) for batch in first] == [digest(batch) for batch in second]
    assert {row for batch in first for row in batch["index"] if row >= 0} == set(dataset.rows)


# The order, in graph


@settings(deadline=None, max_examples=15)
@given(
    clips=st.integers(1, 60),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**40),
    budget=st.none() | st.integers(100, 5000),
    buckets=st.integers(1, 5),
    shuffle=st.booleans(),
)
def test_the_graph_deals_the_batches_of_the_plan(
    clips: int, seed: int, epoch: int, budget: int | None, buckets: int, shuffle: bool
) -> None:
    lengths = np.random.default_rng(clips).integers(1, 900, clips)
    size: dict[str, Any] = {"max_frames_per_batch": budget} if budget else {"batch_size": 4}
    plan = BatchPlan(lengths, lengths // 5 + 1, np.arange(clips) * 3, num_buckets=buckets, **size)
    start = clips % len(plan)
    order = BatchOrder(seed, shuffle, epochs=2, start_epoch=epoch, start_step=start)
    requests = batch_requests(plan, order).as_numpy_iterator()
    for number in (epoch, epoch + 1):
        expected = plan.epoch(seed, number, shuffle)
        for step in range(start if number == epoch else 0, len(plan)):
            request = next(requests)
            bucket = plan.buckets[expected.bucket_of_batch[step]]
            assert request["rows"][: request["size"]].tolist() == expected[step].tolist()
            assert (request["rows"][request["size"] :] == -1).all()
            assert (request["size"], request["frames"], request["tokens"]) == (
                bucket.batch_size,
                bucket.frames,
                bucket.tokens,
            )
    assert next(requests, None) is None


# Positions

RESUMING = """
import json, sys
from pathlib import Path
from test_pipeline import data_set, digest, read
from myxtts.data.batches.position import Position
saved = json.load(sys.stdin)
source = data_set(Path(sys.argv[1])).batches()
print(json.dumps([
    [digest(batch) for batch in read(source.resume(Position.from_dict(position)).take(2))] for position in saved
]))
"""


@pytest.mark.parametrize("interruptions", [6, pytest.param(50, marks=pytest.mark.soak)])
def test_interrupted_at_random_steps_a_new_process_goes_on_with_the_same_batches(
    folder: Path, interruptions: int, python_with_tensorflow: str
) -> None:
    source = data_set(folder).batches()
    epochs = 4
    sequence = [digest(batch) for batch in read(source.dataset(seed=11, epochs=epochs))]
    last = epochs * len(source.plan) - 2
    steps = np.random.default_rng(0).integers(0, last, interruptions).tolist()
    start = Position.start(source.plan, seed=11)
    saved = json.dumps([start.advance(step).to_dict() for step in steps])
    done = subprocess.run(
        [python_with_tensorflow, "-c", RESUMING, str(folder)],
        input=saved,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [sequence[step : step + 2] for step in steps]


def test_a_position_in_another_plan_is_refused_with_what_changed(folder: Path) -> None:
    position = Position.start(data_set(folder).batches().plan, seed=1).advance(3)
    with pytest.raises(DataError, match="batch_size 8 → 4"):
        data_set(folder, batch_size=4).create_tf_dataset(position=position)


def test_a_step_beyond_the_epoch_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="no step 99"):
        data_set(folder).create_tf_dataset(start_step=99)


def test_a_new_version_published_during_an_epoch_does_not_change_the_epoch(tmp_path: Path) -> None:
    folder = make_data_set(tmp_path / "data", LENGTHS[:20])
    expected = [digest(batch) for batch in read(data_set(folder).create_tf_dataset(4, seed=2))]
    running = iter(data_set(folder).create_tf_dataset(4, seed=2))
    seen = [digest({name: value.numpy() for name, value in next(running).items()}) for _ in range(2)]

    (folder / "wavs" / "c003.wav").write_bytes((folder / "wavs" / "c004.wav").read_bytes())
    for _ in range(3):  # old versions are removed by later ones
        (folder / "wavs" / "c003.wav").touch()
        data_set(folder).precompute_mels(overwrite=True)

    seen += [digest({name: value.numpy() for name, value in batch.items()}) for batch in running]
    assert seen == expected
    assert [digest(batch) for batch in read(data_set(folder).create_tf_dataset(4, seed=2))] != expected


# References for voice cloning


@pytest.mark.parametrize("mode", ["store", "store through Python"])
def test_a_reference_is_a_crop_of_another_clip_of_the_same_speaker(folder: Path, mode: str) -> None:
    dataset = data_set(folder, **MODES[mode])
    store, frames = store_of(dataset.prepare()), dataset.batches().reference_frames
    train = set(dataset.rows)
    for batch in read(dataset.create_tf_dataset()):
        assert batch["reference_mel"].shape[1:] == (frames, 80)
        for row, reference in zip(batch["index"], batch["reference_mel"], strict=True):
            if row < 0:
                assert (reference == store.mel_data[-1]).all()
                continue
            same = [k for k in train if k != row and store.speaker_ids[k] == store.speaker_ids[row]]
            assert any(_contains(store.mel(k), reference) for k in same)


def _contains(mel: np.ndarray, crop: np.ndarray) -> bool:
    starts = np.flatnonzero((mel == crop[0]).all(axis=1))
    wrapped = np.concatenate([mel] * (2 + len(crop) // len(mel)))
    return any((wrapped[start : start + len(crop)] == crop).all() for start in starts)


def test_a_speaker_with_one_clip_is_its_own_reference_and_a_short_one_begins_again(tmp_path: Path) -> None:
    folder = make_data_set(tmp_path / "data", [0.5, 0.6, 0.7, 0.8], speakers=4)
    dataset = data_set(folder, reference_seconds=1.0, val_split=0.25, train_split=0.75)
    store = store_of(dataset.prepare())
    for batch in read(dataset.create_tf_dataset()):
        for row, reference in zip(batch["index"], batch["reference_mel"], strict=True):
            if row >= 0:
                assert _contains(store.mel(row), reference)


def test_references_can_be_left_out(folder: Path) -> None:
    assert "reference_mel" not in data_set(folder, reference_seconds=0).create_tf_dataset().element_spec


# The switches


def test_without_overlap_nothing_runs_ahead(folder: Path) -> None:
    names = _transformations(data_set(folder, optimize_cpu_gpu_overlap=False).create_tf_dataset())
    assert "ParallelMapDataset" not in names
    assert names.count("PrefetchDataset") == 1  # the one that makes the next epoch's order
    names = _transformations(data_set(folder).create_tf_dataset())
    assert "ParallelMapDataset" in names
    assert names.count("PrefetchDataset") == 2


def _transformations(dataset: tf.data.Dataset) -> list[str]:
    names = []
    while dataset is not None:
        names.append(type(dataset).__name__.strip("_"))
        inputs = dataset._inputs()
        dataset = inputs[0] if inputs else None
    return names


@pytest.mark.parametrize(
    ("changes", "device", "batches"),
    [
        ({}, "/GPU:0", 2),
        ({"enhanced_gpu_prefetch": False}, "/GPU:0", 1),
        ({"prefetch_to_gpu": False, "enhanced_gpu_prefetch": False}, None, 1),
        ({"optimize_cpu_gpu_overlap": False}, None, 2),
    ],
)
def test_switches_say_what_is_kept_on_the_gpu(changes: dict[str, Any], device: str | None, batches: int) -> None:
    chosen = PipelineSettings.from_config(DataConfig(**changes), "/GPU:0")
    assert (chosen.device, chosen.device_batches) == (device, batches)
    assert PipelineSettings.from_config(DataConfig(**changes), None).device is None


def test_batches_pass_through_a_device_prefetch_unchanged(folder: Path) -> None:
    source = data_set(folder).batches()
    to_device = PipelineSettings(workers=2, prefetch=2, device="/CPU:0")
    moved = create_dataset(source.native_loader(), source.plan, to_device, BatchOrder(seed=4, epochs=1))
    assert [digest(batch) for batch in read(moved)] == [
        digest(batch) for batch in read(source.dataset(seed=4, epochs=1))
    ]


def test_if_the_graph_cannot_be_built_python_loads_and_one_warning_names_the_cause(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(array: object) -> None:
        raise tf.errors.UnimplementedError(None, None, "memory regions are not supported here")

    expected = [digest(batch) for batch in read(data_set(folder).create_tf_dataset())]
    monkeypatch.setattr(store_loader, "HostTensor", fail)
    with caplog.at_level(logging.WARNING):
        dataset = data_set(folder).create_tf_dataset()
    assert [digest(batch) for batch in read(dataset)] == expected
    assert len(caplog.records) == 1
    assert "loaded through Python" in caplog.text
    assert "memory regions are not supported here" in caplog.text


@pytest.mark.parametrize(("wanted", "mode"), [(True, "precompute"), (False, "runtime")])
def test_cache_files_can_be_insisted_on_or_refused(tmp_path: Path, wanted: bool, mode: str) -> None:
    folder = make_data_set(tmp_path / "data", [0.5, 0.6, 0.7])
    dataset = data_set(folder, preprocessing_mode="auto", val_split=0.3, train_split=0.7, num_buckets=1)
    assert read(dataset.create_tf_dataset(use_cache_files=wanted))
    assert (folder / "cached_features").exists() == (mode == "precompute")
