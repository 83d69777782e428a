"""Finding damage and repairing it: every byte of a store is covered, and repair brings back the same bytes."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_corpus import configure, content, make_corpus

from myxtts.data.precompute import PrecomputeResult, StoreCheck, check_store, precompute
from myxtts.data.store import FeatureStore
from myxtts.data.store.folder import StoreFolder
from myxtts.data.store.verify import examine
from myxtts.errors import StoreError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data set with its store, to be copied."""
    folder = make_corpus(tmp_path_factory.mktemp("made") / "data")
    precompute(configure(folder))
    return folder


@pytest.fixture
def corpus(made, tmp_path):
    """A copy of the data set and its store, times included."""
    shutil.copytree(made, tmp_path / "data")
    return tmp_path / "data"


def version_of(corpus) -> Path:
    return FeatureStore.open(corpus / "cached_features").path


def repair_of(checked: StoreCheck) -> PrecomputeResult:
    """What was done to a store that was not sound."""
    assert checked.repair is not None
    return checked.repair


def flip(path: Path, position: int, bit: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))


def flip_random_bit(version: Path, chance: random.Random) -> str:
    """Flips a bit in one of the four files, each equally likely; returns which."""
    name = chance.choice(["mel.bin", "tokens.bin", "index.bin", "manifest.json"])
    path = version / name
    flip(path, chance.randrange(path.stat().st_size), chance.randrange(8))
    return name


def test_a_sound_store_has_no_damage(corpus):
    for quick in (True, False):
        checked = check_store(configure(corpus), quick=quick)
        assert checked.examination.sound
        assert checked.examination.clips == 8


def test_no_store_is_said_with_the_remedy(tmp_path):
    folder = make_corpus(tmp_path / "data", clips=1)
    with pytest.raises(StoreError, match="no store with these settings; `myxtts precompute`"):
        check_store(configure(folder))


def test_a_damaged_clip_is_named_with_its_file(corpus):
    version = version_of(corpus)
    store = FeatureStore.open(version)
    row = int(store.mel_offsets[3])
    flip(version / "mel.bin", row * 160 + 5, 2)
    assert check_store(configure(corpus), quick=True).examination.sound
    (damage,) = check_store(configure(corpus)).examination.damage
    assert (damage.clip, damage.file) == ("clip-3", "mel.bin")
    assert "checksum" in damage.reason


def test_damaged_tokens_are_named_as_such(corpus):
    flip(version_of(corpus) / "tokens.bin", 0, 0)
    (damage,) = check_store(configure(corpus)).examination.damage
    assert (damage.clip, damage.file) == ("clip-0", "tokens.bin")


@pytest.mark.parametrize("name", ["mel.bin", "tokens.bin"])
def test_damaged_padding_is_found_and_repaired(corpus, name):
    version = version_of(corpus)
    before = content(version)
    flip(version / name, len(before[name]) - 1, 0)
    checked = check_store(configure(corpus), fix=True)
    assert "padding" in checked.examination.damage[0].reason
    assert repair_of(checked).columns["mel"].computed == 0
    assert content(version_of(corpus)) == before


def test_fix_computes_only_what_is_damaged_into_a_new_version(corpus):
    version = version_of(corpus)
    before = content(version)
    store = FeatureStore.open(version)
    for row in (1, 6):
        flip(version / "mel.bin", int(store.mel_offsets[row]) * 160, 7)
    repaired = repair_of(check_store(configure(corpus), fix=True))
    assert (repaired.columns["mel"].computed, repaired.columns["token"].computed) == (2, 0)
    assert repaired.version.name == "v000002"
    assert content(repaired.version) == before
    assert check_store(configure(corpus)).examination.sound


def test_a_reader_of_the_damaged_version_is_not_disturbed_by_the_fix(corpus):
    version = version_of(corpus)
    flip(version / "mel.bin", 0, 0)
    with FeatureStore.open(version) as store:
        before = store.mel(2).copy()
        check_store(configure(corpus), fix=True)
        np.testing.assert_array_equal(store.mel(2), before)
        assert version.is_dir()


def test_fixing_one_of_two_stores_that_share_a_file_does_not_take_the_damage_over(corpus):
    config = configure(corpus)
    other = configure(corpus, add_blank=False)
    version = StoreFolder(precompute(config).version.parent).current()
    assert version is not None
    before = content(version)
    precompute(other)
    flip(version / "mel.bin", 0, 0)
    fixed = repair_of(check_store(config, fix=True))
    assert content(fixed.version) == before
    assert not check_store(other).examination.sound
    check_store(other, fix=True)
    assert check_store(other).examination.sound


@pytest.mark.parametrize("name", ["mel.bin", "tokens.bin", "index.bin", "manifest.json"])
@pytest.mark.parametrize("how", ["truncated", "emptied", "missing", "longer"])
def test_a_file_cut_off_gone_or_longer_is_found_and_restored(corpus, name, how):
    version = version_of(corpus)
    before = content(version)
    path = version / name
    if how == "missing":
        os.unlink(path)
    elif how == "longer":
        with open(path, "ab") as file:
            file.write(b"\0" * 7)
    else:
        os.truncate(path, 0 if how == "emptied" else path.stat().st_size * 2 // 3)
    config = configure(corpus)
    for quick in (True, False):
        assert not check_store(config, quick=quick).examination.sound
    check_store(config, fix=True)
    assert content(version_of(corpus)) == before


def test_a_damaged_index_costs_no_clip_that_is_intact(corpus):
    version = version_of(corpus)
    before = content(version)
    flip(version / "index.bin", 64 + 5, 1)  # the key of the first clip
    repaired = repair_of(check_store(configure(corpus), fix=True))
    assert (repaired.columns["mel"].computed, repaired.columns["token"].computed) == (1, 1)
    assert content(version_of(corpus)) == before


def test_a_damaged_manifest_costs_nothing(corpus):
    version = version_of(corpus)
    before = content(version)
    flip(version / "manifest.json", 100, 1)
    repaired = repair_of(check_store(configure(corpus), fix=True))
    assert (repaired.columns["mel"].computed, repaired.columns["token"].computed) == (0, 0)
    assert content(version_of(corpus)) == before


def test_a_damaged_pointer_is_found_and_repaired(corpus):
    version = version_of(corpus)
    before = content(version)
    (version.parent / "CURRENT").write_bytes(b"v0x0001\n")
    config = configure(corpus)
    assert not check_store(config, quick=True).examination.sound
    repaired = repair_of(check_store(config, quick=True, fix=True))
    assert (repaired.columns["mel"].computed, repaired.columns["token"].computed) == (0, 0)
    assert content(version_of(corpus)) == before


def test_precompute_repairs_a_store_that_cannot_be_opened_and_says_so(corpus, caplog):
    version = version_of(corpus)
    before = content(version)
    os.truncate(version / "mel.bin", (version / "mel.bin").stat().st_size // 2)
    result = precompute(configure(corpus))
    assert 0 < result.columns["mel"].computed < 8
    assert content(result.version) == before
    assert "what is intact is reused" in caplog.text


def test_every_byte_of_the_data_files_is_covered(corpus):
    """One flip per 97 bytes, one after another; each is found."""
    version = version_of(corpus)
    for name in ("mel.bin", "tokens.bin"):
        for position in range(0, (version / name).stat().st_size, 997):
            flip(version / name, position, position % 8)
            assert not examine(version).sound
            flip(version / name, position, position % 8)
    assert examine(version).sound


def flip_and_repair(corpus, times, seed, repair_every):
    config = configure(corpus)
    before = content(version_of(corpus))
    chance = random.Random(seed)
    version = version_of(corpus)
    for number in range(times):
        flip_random_bit(version, chance)
        found = check_store(config).examination
        assert not found.sound, number
        if number % repair_every == 0:
            check_store(config, fix=True)
            version = version_of(corpus)
        else:
            for name, data in before.items():
                (version / name).write_bytes(data)
        assert content(version) == before


def test_twenty_random_flips_are_all_found_and_repaired(corpus):
    flip_and_repair(corpus, 20, seed=1, repair_every=4)


@pytest.mark.soak
def test_two_hundred_random_flips_are_all_found_and_repaired(corpus):
    flip_and_repair(corpus, 200, seed=2, repair_every=1)


def test_progress_counts_every_clip_of_both_columns(corpus):
    seen: list[Any] = []

    class Watcher:
        def stage(self, name, clips):
            seen.append((name, clips))

        def advance(self, clips, audio_seconds=0.0):
            seen.append(clips)

    check_store(configure(corpus), progress=Watcher())
    assert seen[0] == ("checking", 16)
    assert sum(seen[1:]) == 16
