"""Several data sets used as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from small_corpus import configure, make_corpus

from myxtts.cli.options import ConfigOptions
from myxtts.config.config import DataConfig
from myxtts.data.batches.plan import BatchPlan
from myxtts.data.batches.segment_plan import SegmentPlan
from myxtts.data.clips.joined import JoinedMetadata, data_set_names
from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import DataError


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("two")
    return make_corpus(folder / "a", 12), make_corpus(folder / "b", 5)


def both(two: tuple[Path, Path], **settings: object) -> DataConfig:
    return configure(two[0], dataset_path=[str(path) for path in two], **settings)


def test_the_same_id_and_the_same_speaker_in_two_data_sets_are_two(two: tuple[Path, Path]) -> None:
    joined = read_metadata(both(two))
    assert [clip.id for clip in joined.clips if clip.id.endswith("/clip-3")] == ["a/clip-3", "b/clip-3"]
    assert joined.speakers == ["a/default", "b/default"]
    assert len({clip.id for clip in joined.clips}) == 17
    assert joined.data_sets().tolist() == [0] * 12 + [1] * 5


def test_a_clip_is_in_the_split_that_it_has_in_its_data_set_alone(two: tuple[Path, Path]) -> None:
    alone = [read_metadata(configure(path)) for path in two]
    assert read_metadata(both(two)).splits == alone[0].splits + alone[1].splits


def test_a_clip_that_is_left_out_moves_no_other_into_another_split(two: tuple[Path, Path]) -> None:
    joined = read_metadata(both(two))
    fewer = joined.leave_out([joined.clips[0].problem("unreadable-audio", "gone")])
    assert isinstance(fewer, JoinedMetadata)
    assert fewer.splits == joined.splits[1:]
    assert fewer.data_sets().tolist() == [0] * 11 + [1] * 5


def test_each_data_set_may_have_its_own_language(two: tuple[Path, Path]) -> None:
    joined = read_metadata(both(two, data_languages=["en", "fa"]))
    assert [clip.language for clip in joined.clips] == ["en"] * 12 + ["fa"] * 5
    assert {clip.language for clip in read_metadata(both(two)).clips} == {"en"}


def test_folders_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    assert data_set_names([str(tmp_path / "x" / "data"), str(tmp_path / "y" / "data")]) == ("data", "data-2")


def test_an_empty_data_set_is_refused_by_its_folder(two: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    (tmp_path / "metadata.csv").write_text("clip-0|  \n")
    with pytest.raises(DataError, match=f"^{tmp_path}: the data set has no usable clip"):
        read_metadata(both((two[0], tmp_path))).require_usable()


def test_a_missing_folder_is_named(two: tuple[Path, Path]) -> None:
    with pytest.raises(DataError, match="nowhere: no such folder"):
        read_metadata(both((two[0], Path("nowhere"))))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset_path": []}, "should be a folder, or a list of folders"),
        ({"dataset_path": ["a", 3]}, "should be a folder, or a list of folders"),
        ({"dataset_path": ["a", "./a/"]}, "'a' is given twice"),
        ({"dataset_path": ["a", "b"], "data_weights": [1]}, "data_weights should have one entry for each data set"),
        ({"dataset_path": ["a", "b"], "data_weights": [1, 0]}, "greater than or equal to 1"),
        ({"data_languages": ["fa"]}, "data_languages should have one entry for each data set of several"),
        ({"trust_store": True}, "trust_store is for a store in parts"),
        (
            {"trust_store": True, "max_clips_per_part": 9, "preprocessing_mode": "runtime"},
            "trust_store needs a store",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataConfig(**settings)


def test_one_path_in_a_list_is_one_path() -> None:
    assert DataConfig(dataset_path=["a"]).dataset_path == "a"


def test_the_command_line_takes_the_option_several_times() -> None:
    given = ConfigOptions(data_path=[Path("a"), Path("b")], settings=["data_weights=[1, 3]"])
    data = given.load(()).config.data
    assert (data.dataset_paths, data.data_weights) == (["a", "b"], [1, 3])
    assert ConfigOptions(data_path=[Path("a")]).load(()).config.data.dataset_path == "a"


def test_a_clip_comes_as_often_as_its_weight_says() -> None:
    lengths = np.array([100, 200, 300, 400, 0])
    plan = BatchPlan(lengths, lengths // 4, rows=np.arange(10, 15), batch_size=2, repeats=[1, 3, 1, 2, 5])
    for epoch in range(3):
        rows, counts = np.unique(plan.epoch(1, epoch).indices, return_counts=True)
        found = dict(zip(rows.tolist(), counts.tolist(), strict=True))
        assert {row: count for row, count in found.items() if row >= 0} == {10: 1, 11: 3, 12: 1, 13: 2}
    assert plan.clips == 7
    assert plan.hash != BatchPlan(lengths, lengths // 4, rows=np.arange(10, 15), batch_size=2).hash


def test_weights_of_one_change_nothing() -> None:
    lengths = np.array([100, 200, 300])
    assert (
        BatchPlan(lengths, lengths, batch_size=2, repeats=[1, 1, 1]).hash
        == BatchPlan(lengths, lengths, batch_size=2).hash
    )


def test_segments_are_drawn_in_proportion_to_the_weights() -> None:
    plan = SegmentPlan([100, 100], frames=10, batch_size=1000, repeats=[1, 3])
    share = np.mean(plan.batch(0, 0, 0).rows == 1)
    assert 0.7 < share < 0.8


def test_every_mode_gives_the_same_batches_of_two_data_sets(two: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    from myxtts.data.ljspeech import LJSpeechDataset

    settings = {"data_weights": [1, 2], "batch_size": 4, "num_buckets": 2, "reference_seconds": 0.1}
    config = both(two, cache_dir=str(tmp_path), **settings)
    loaded = []
    for mode in ("precompute", "runtime"):
        dataset = LJSpeechDataset(None, config.model_copy(update={"preprocessing_mode": mode}))
        source = dataset.batches("train")
        loaded.append(
            [{name: value.numpy() for name, value in one.items()} for one in source.dataset(seed=1, epochs=1)]
        )
        rows = np.concatenate([batch["index"] for batch in loaded[-1]])
        of_data_set = np.repeat([0, 1], [12, 5])
        times = np.bincount(rows[rows >= 0], minlength=17)
        assert times.tolist() == [(1 + of_data_set[row]) * (row in dataset.rows) for row in range(17)]
        for batch in loaded[-1]:
            used = batch["index"] >= 0
            assert np.array_equal(batch["speaker"][used], of_data_set[batch["index"][used]])
    for stored, computed in zip(*loaded, strict=True):
        assert np.array_equal(stored["index"], computed["index"])
        assert np.array_equal(stored["tokens"], computed["tokens"])
        assert np.abs(stored["mel"].astype(np.float32) - computed["mel"].astype(np.float32)).max() < 0.02
