"""A store in parts: the same features as a single store, opened part by part."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_corpus import configure, content, make_corpus

from myxtts.config.config import DataConfig
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.parts import open_trusted
from myxtts.data.precompute import Shard, check_store, open_up_to_date, precompute_shard
from myxtts.data.store import FeatureStore
from myxtts.data.store.parted_store import PartedStore
from myxtts.data.store.side_by_side import ROWS, first_rows, map_side_by_side
from myxtts.errors import MyXTTSError, StoreError

CLIPS = 10

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data sets, each with its own store, the first also in parts of four clips, and both as one."""
    folder = tmp_path_factory.mktemp("parts")
    make_corpus(folder / "a", CLIPS)
    make_corpus(folder / "b", 4, first=50)
    for config in (alone(folder), parted(folder), joined(folder)):
        open_up_to_date(config)[0].close()
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """A copy to be damaged. Audio files keep their times, so that stores are up to date."""
    return shutil.copytree(made, tmp_path / "copy", symlinks=True)


def alone(folder: Path, **settings: object) -> DataConfig:
    return configure(folder / "a", store_audio=True, **settings)


def parted(folder: Path, **settings: object) -> DataConfig:
    return alone(folder, max_clips_per_part=4, **settings)


def joined(folder: Path, **settings: object) -> DataConfig:
    return alone(folder, dataset_path=[str(folder / "a"), str(folder / "b")], **settings)


def opened(config: DataConfig) -> PartedStore:
    store, _ = open_up_to_date(config)
    assert isinstance(store, PartedStore)
    return store


def assert_same(store: FeatureStore, other: FeatureStore, first: int = 0) -> None:
    """Clips `first`, `first` + 1, … of a store are those of the other."""
    for row in range(len(other)):
        for name in ("mel", "token", "audio"):
            assert np.array_equal(store.rows(name, first + row), other.rows(name, row))


def test_parts_have_the_features_of_the_whole_store(made: Path) -> None:
    with opened(parted(made)) as parts, open_up_to_date(alone(made))[0] as whole:
        assert parts.clips_of_parts() == [4, 4, 2]
        assert list(parts.ids) == list(whole.ids)
        assert parts.ids[-1] == whole.ids[-1]
        assert_same(parts, whole)
        for name in ("mel_length", "token_length", "speaker", "language", "source_hash", "text_hash"):
            assert np.array_equal(parts.index[name], whole.index[name])
        assert (parts.speakers, parts.languages) == (whole.speakers, whole.languages)


def test_padding_is_last_in_parts_too(made: Path) -> None:
    with opened(parted(made)) as parts, open_up_to_date(alone(made))[0] as whole:
        assert np.array_equal(parts.mel_data[parts.mel_rows - 1], whole.mel_data[-1])
        assert len(parts.mel_data) == parts.mel_rows
        assert parts.token_data[-1] == 0


def test_a_clips_first_sample_is_where_its_first_frame_is(made: Path) -> None:
    with opened(parted(made)) as parts:
        assert np.array_equal(parts.column("audio").offsets, 256 * parts.mel_offsets)


def test_data_sets_are_parts_whose_speakers_are_kept_apart(made: Path) -> None:
    with opened(joined(made)) as store, open_up_to_date(alone(made))[0] as a:
        with open_up_to_date(configure(made / "b", store_audio=True))[0] as b:
            assert_same(store, a)
            assert_same(store, b, first=CLIPS)
            assert list(store.ids) == [f"a/{one}" for one in a.ids] + [f"b/{one}" for one in b.ids]
        assert store.speakers == ["a/default", "b/default"]
        assert store.speaker_ids.tolist() == [0] * CLIPS + [1] * 4
        assert store.data_sets().tolist() == [0] * CLIPS + [1] * 4


def test_a_data_set_that_has_a_store_is_not_computed_again(made: Path, tmp_path: Path) -> None:
    _, result = open_up_to_date(joined(made))
    assert not result.published
    assert (made / "b" / "cached_features").is_dir()
    folders = {folder.name for folder in (made / "a" / "cached_features").iterdir()}
    assert len(folders) == 1 + 3 + 1 + 1  # its store, three parts, and the manifests of both stores in parts


def test_parts_are_shared_out_and_are_the_same_bytes_every_time(made: Path, copied: Path) -> None:
    shutil.rmtree(copied / "a" / "cached_features")
    shards = [precompute_shard(parted(copied), Shard(number, 2)) for number in (1, 2)]
    assert [shard.columns["mel"] for shard in shards] == [6, 4]
    store, result = open_up_to_date(parted(copied))
    store.close()
    assert result.columns["mel"].computed == 0
    assert versions(copied).items() <= versions(made).items()


def versions(folder: Path) -> dict[str, dict[str, bytes]]:
    return {path.parent.name: content(path) for path in (folder / "a" / "cached_features").glob("*/v*")}


def test_the_whole_can_be_opened_by_its_folder(made: Path) -> None:
    path = opened(parted(made)).path
    with FeatureStore.open(path.parent) as store:
        assert isinstance(store, PartedStore)
        assert len(store) == CLIPS


def test_some_parts_are_a_store_with_the_rows_of_the_whole(made: Path) -> None:
    with opened(parted(made)) as store:
        some = store.select([0, 2])
        assert len(some) == 6
        assert some.rows_in_whole().tolist() == [0, 1, 2, 3, 8, 9]
        assert list(some.ids) == [store.ids[row] for row in some.rows_in_whole()]
        assert np.array_equal(some.mel_offsets, store.mel_offsets[some.rows_in_whole()])
        assert np.array_equal(some.split_codes(), store.split_codes()[some.rows_in_whole()])
        assert np.array_equal(some.mel(5), store.mel(9))
        assert store.mel_span(9) == (store.mel_offsets[9], store.mel_lengths[9])
        path, first, length = store.mel_place(9)
        rows = np.fromfile(path, np.float16).reshape(-1, 80)[first : first + length]
        assert np.array_equal(rows, store.mel(9))


def test_appended_clips_change_the_last_part_only(copied: Path) -> None:
    before = opened(parted(copied))
    make_corpus(copied / "a", 1, first=90)
    after, result = open_up_to_date(parted(copied))
    assert isinstance(after, PartedStore)
    same = [old == new for old, new in zip(before.parts_manifest.parts, after.parts_manifest.parts, strict=True)]
    assert same == [True, True, False]
    assert result.columns["mel"].computed == 1
    assert len(after) == CLIPS + 1


def test_a_trusted_store_needs_neither_metadata_nor_audio(copied: Path) -> None:
    with opened(parted(copied)) as store:
        known = LJSpeechDataset(None, parted(copied)).metadata
        shutil.rmtree(copied / "a" / "wavs")
        (copied / "a" / "metadata.csv").unlink()
        dataset = LJSpeechDataset(None, parted(copied, trust_store=True))
        assert dataset.prepare().store is not None
        assert dataset.prepare(None, parted(copied)).reason.startswith("trust_store")
        assert dataset.metadata.origin() == known.origin()
        for split in ("train", "val", "test"):
            assert np.array_equal(dataset.metadata.rows(split), known.rows(split))
        assert dataset.speakers == store.speakers


def test_without_a_store_there_is_nothing_to_trust(tmp_path: Path) -> None:
    make_corpus(tmp_path / "a", 2)
    with pytest.raises(StoreError, match="no store in parts, and trust_store is true; `myxtts precompute`"):
        LJSpeechDataset(None, parted(tmp_path, trust_store=True))


def damage_manifest(version: Path) -> None:
    path = version / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"clips": 4', b'"clips": 5', 1))


def shorten_splits(version: Path) -> None:
    os.truncate(version / "splits.bin", 3)


def change_splits(version: Path) -> None:
    (version / "splits.bin").write_bytes(bytes(CLIPS - 1) + b"\7")


def remove_a_part(version: Path) -> None:
    shutil.rmtree(version.parent / json.loads((version / "manifest.json").read_text())["parts"][1]["store"])


def shorten_a_part(version: Path) -> None:
    part = version.parent / json.loads((version / "manifest.json").read_text())["parts"][1]["store"]
    os.truncate(next(part.glob("v*/mel.bin")), 160)


def replace_a_part(version: Path) -> None:
    parts = json.loads((version / "manifest.json").read_text())["parts"]
    (one,) = (version.parent / parts[1]["store"]).glob("v*/manifest.json")
    (other,) = (version.parent / parts[2]["store"]).glob("v*/manifest.json")
    one.write_bytes(other.read_bytes())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (damage_manifest, "the manifest is damaged; `myxtts precompute`"),
        (shorten_splits, "is damaged; `myxtts precompute`"),
        (change_splits, "is damaged; `myxtts precompute`"),
        (remove_a_part, "is gone; `myxtts precompute`"),
        (shorten_a_part, "should have"),
        (replace_a_part, "is another than it was; `myxtts precompute`"),
    ],
)
def test_what_is_damaged_is_named_and_made_again(copied: Path, fault: object, message: str) -> None:
    with opened(parted(copied)) as store, open_up_to_date(alone(copied))[0] as whole:
        fault(store.path)  # type: ignore[operator]
        with pytest.raises(MyXTTSError, match=message):
            open_trusted(parted(copied, trust_store=True))
        with opened(parted(copied)) as again:
            assert_same(again, whole)


def test_a_damaged_clip_is_found_and_repaired_in_its_part(copied: Path) -> None:
    with opened(parted(copied)) as store:
        path, first, _ = store.mel_place(5)
        clip = store.ids[5]
    with path.open("r+b") as file:
        file.seek(160 * first)
        file.write(b"\1\2\3")
    found = check_store(parted(copied))
    assert [damage.clip for damage in found.examination.damage] == [clip]
    repaired = check_store(parted(copied), fix=True)
    assert repaired.repair is not None
    assert repaired.repair.columns["mel"].computed == 1
    assert check_store(parted(copied)).examination.sound
    with opened(parted(copied)) as again, open_up_to_date(alone(copied))[0] as whole:
        assert_same(again, whole)


def test_an_older_program_refuses_a_store_in_parts_and_leaves_it(made: Path) -> None:
    manifest = json.loads((opened(parted(made)).path / "manifest.json").read_text())
    assert (manifest["format"], manifest["format_version"]) == ("myxtts-store", 3)


def test_parts_can_be_read_into_memory(made: Path) -> None:
    with opened(parted(made, enable_memory_mapping=False)) as parts, open_up_to_date(alone(made))[0] as whole:
        assert_same(parts, whole)


@pytest.mark.parametrize("memory_map", [True, False])
def test_files_of_any_size_lie_side_by_side(tmp_path: Path, memory_map: bool) -> None:
    sizes = [0, 1, ROWS, ROWS + 1, 3 * ROWS - 1]
    paths = []
    for number, size in enumerate(sizes):
        paths.append(tmp_path / str(number))
        paths[-1].write_bytes(bytes([number]) * size * 3)
    *begins, rows = first_rows(sizes)
    joined = map_side_by_side(paths, [3 * begin for begin in begins], 3 * rows, memory_map).reshape(-1, 3)
    for number, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
        assert begin % ROWS == 0
        assert (joined[begin : begin + size] == number).all()
    assert not joined.flags.writeable
    for path in paths:
        path.unlink()
    assert joined[-1].tolist() == [4, 4, 4]  # a mapping outlives the file's name


def test_a_file_that_grew_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(bytes(ROWS + 1))
    (tmp_path / "two").write_bytes(b"2")
    with pytest.raises(StoreError, match="should have at most"):
        map_side_by_side([tmp_path / "one", tmp_path / "two"], [0, ROWS], ROWS + 1)
