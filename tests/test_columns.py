"""A store's columns come from a registry: an entry is all it takes to build, check, repair and load another one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from energy_column import SILENCE, energy, energy_column
from small_corpus import configure, content, make_corpus

from myxtts.audio.reading import audio_info, read_audio
from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.precompute import check_store, precompute
from myxtts.data.store import FeatureStore
from myxtts.data.store.columns import COLUMNS, columns_of, register
from myxtts.errors import StoreError

CLIPS = 8


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "data", clips=CLIPS)


@pytest.fixture
def registered() -> Iterator[None]:
    """With the energy among the columns."""
    register(energy_column())
    yield
    COLUMNS.pop("energy", None)


def computed_for(config: DataConfig, clips: int) -> dict[str, int]:
    """So many clips of every column that the configuration asks for."""
    return {entry.name: clips for entry in columns_of(config)}


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


def test_workers_compute_it_and_the_store_gives_it_back(corpus: Path, registered: None) -> None:
    config = configure(corpus, num_workers=2)
    done = precompute(config)
    assert {name: counts.computed for name, counts in done.columns.items()} == computed_for(config, CLIPS)
    with FeatureStore.open(done.version) as store:
        data, _, lengths = store.column("energy")
        assert (data.dtype, data.shape) == (np.float32, (lengths.sum() + 1, 2))
        assert (data[-1] == SILENCE).all()
        for row, clip in enumerate(read_metadata(config).clips):
            audio = read_audio(clip.audio_path, config.sample_rate)
            np.testing.assert_array_equal(store.rows("energy", row), energy(audio, config.hop_length))
        assert (lengths == store.mel_lengths).all()
        with pytest.raises(IndexError):
            store.rows("energy", CLIPS)


def test_the_number_of_workers_changes_no_byte_of_it(corpus: Path, tmp_path: Path, registered: None) -> None:
    versions = [
        precompute(configure(corpus, num_workers=workers, cache_dir=str(tmp_path / str(workers)))).version
        for workers in (1, 2)
    ]
    one, two = (content(version) for version in versions)
    assert one.keys() == {"energy.bin", "energy.index", "index.bin", "manifest.json", "mel.bin", "tokens.bin"}
    assert {name for name in one if one[name] != two[name]} == set()


def test_a_store_that_lacks_it_opens_and_says_so(corpus: Path) -> None:
    version = precompute(configure(corpus)).version
    assert json.loads((version / "manifest.json").read_bytes())["format_version"] == 1
    with FeatureStore.open(version) as store, pytest.raises(StoreError, match="no column 'energy'") as caught:
        store.column("energy")
    assert len(str(caught.value).splitlines()) == 1


def test_it_is_added_to_what_is_there_and_the_rest_is_taken_over(corpus: Path) -> None:
    before = precompute(configure(corpus)).version
    files = content(before)
    register(energy_column())
    try:
        done = precompute(configure(corpus))
        again = precompute(configure(corpus))
        assert done.to_dict()["energies_computed"] == CLIPS
    finally:
        COLUMNS.pop("energy")
    assert {name: counts.computed for name, counts in done.columns.items()} == {"token": 0, "mel": 0, "energy": CLIPS}
    assert (again.published, again.version) == (False, done.version)
    assert json.loads((done.version / "manifest.json").read_bytes())["format_version"] == 2
    shared = {name: data for name, data in content(done.version).items() if name in ("mel.bin", "tokens.bin")}
    assert shared == {name: files[name] for name in shared}
    # Without it in the registry, the store before is still the one that is asked for.
    assert (precompute(configure(corpus)).version, content(before)) == (before, files)


@pytest.mark.parametrize(
    ("file", "position", "computed"),
    [("energy.bin", 100, 1), ("energy.bin", -1, 0), ("energy.index", 70, 1), ("energy.index", 3, CLIPS)],
    ids=["a clip", "the padding", "an entry of the index", "the head of the index"],
)
def test_damage_to_it_is_found_and_repaired_and_nothing_else_is_computed(
    corpus: Path, registered: None, file: str, position: int, computed: int
) -> None:
    config = configure(corpus)
    version = precompute(config).version
    before = content(version)
    flip(version / file, position)
    found = check_store(config).examination
    assert not found.sound
    assert file in {damage.file for damage in found.damage}
    repair = check_store(config, fix=True).repair
    assert repair is not None
    assert content(repair.version) == before
    counts = {name: counts.computed for name, counts in repair.columns.items()}
    assert counts == {"token": 0, "mel": 0, "energy": computed}
    assert check_store(config).examination.sound


def test_without_the_manifest_its_clips_are_still_taken_over(corpus: Path, registered: None) -> None:
    config = configure(corpus)
    version = precompute(config).version
    before = content(version)
    (version / "manifest.json").unlink()
    repair = check_store(config, fix=True).repair
    assert repair is not None
    assert {name: counts.computed for name, counts in repair.columns.items()} == computed_for(config, 0)
    assert content(repair.version) == before


def test_a_clip_that_fails_in_it_is_in_no_column(corpus: Path, tmp_path: Path) -> None:
    clips = read_metadata(configure(corpus)).clips
    samples = [audio_info(clip.audio_path).frames for clip in clips]
    register(energy_column(longest=max(samples) - 1))
    try:
        done = precompute(configure(corpus, num_workers=2))
    finally:
        COLUMNS.pop("energy")
    longest = clips[int(np.argmax(samples))].id
    assert [(failed.id, "too long" in failed.reason) for failed in done.failed] == [(longest, True)]
    assert {counts.computed for counts in done.columns.values()} == {CLIPS - 1}
    with FeatureStore.open(done.version) as store:
        assert list(store.ids) == [clip.id for clip in clips if clip.id != longest]
        assert (store.column("energy").lengths == store.mel_lengths).all()


def test_only_it_is_computed_from_scratch_when_asked_to(corpus: Path, registered: None) -> None:
    config = configure(corpus)
    precompute(config)
    done = precompute(config, overwrite=["energy"])
    assert {name: counts.computed for name, counts in done.columns.items()} == {"token": 0, "mel": 0, "energy": CLIPS}
    with pytest.raises(ValueError, match="overwrite should be among"):
        precompute(config, overwrite=["pitch"])


def test_columns_made_from_different_audio_are_refused(corpus: Path) -> None:
    config = configure(corpus)
    precompute(config)
    path = Path(read_metadata(config).clips[2].audio_path)
    status, data = path.stat(), bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)

    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    register(energy_column())
    try:
        with pytest.raises(StoreError, match=r"audio of 1 clips changed.*clip-2.*--verify-source"):
            precompute(config)
        assert precompute(config, verify_source=True).columns["mel"].computed == 1
    finally:
        COLUMNS.pop("energy")
