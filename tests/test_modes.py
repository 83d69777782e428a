"""The three preprocessing modes, as a caller meets them."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import subprocess

import pytest
from small_corpus import RATE, configure, make_corpus, store_of, write_audio

from myxtts.data.modes import prepare
from myxtts.data.precompute import precompute
from myxtts.data.store import FeatureStore
from myxtts.data.store.format import INDEX_FILE
from myxtts.data.store.target import fingerprint
from myxtts.errors import DataError, StoreError


@pytest.fixture
def corpus(tmp_path):
    return make_corpus(tmp_path / "data", clips=12)


@pytest.fixture
def full_disk(tmp_path):
    """A file system with almost no room."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def spoil(corpus, *numbers):
    for number in numbers:
        (corpus / "wavs" / f"clip-{number}.wav").write_bytes(b"not audio at all")


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("mode", ["auto", "precompute"])
def test_with_room_and_sound_data_the_store_is_made(corpus, mode):
    prepared = prepare(configure(corpus, preprocessing_mode=mode))
    assert prepared.mode == "precompute"
    assert list(store_of(prepared).ids) == [clip.id for clip in prepared.metadata.clips]


@pytest.mark.parametrize("mode", ["auto", "precompute"])
def test_a_store_that_is_up_to_date_is_used_as_it_is(corpus, mode):
    precompute(configure(corpus))
    before = files_below(corpus)
    prepared = prepare(configure(corpus, preprocessing_mode=mode))
    assert prepared.reason == "the store is up to date"
    assert files_below(corpus) == before


def test_runtime_writes_nothing(corpus):
    before = files_below(corpus)
    prepared = prepare(configure(corpus, preprocessing_mode="runtime"))
    assert (prepared.mode, prepared.store) == ("runtime", None)
    assert files_below(corpus) == before


def test_runtime_does_not_use_a_store_that_exists(corpus):
    precompute(configure(corpus))
    assert prepare(configure(corpus, preprocessing_mode="runtime")).store is None


def test_auto_turns_to_runtime_without_room_and_says_why_in_one_line(corpus, full_disk, caplog):
    prepared = prepare(configure(corpus, cache_dir=str(full_disk)))
    assert prepared.mode == "runtime"
    assert "the disk has" in prepared.reason
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(record.getMessage().splitlines()) == 1
    assert prepared.reason in record.getMessage()


def test_precompute_without_room_is_an_error(corpus, full_disk):
    with pytest.raises(StoreError, match="the disk has"):
        prepare(configure(corpus, cache_dir=str(full_disk), preprocessing_mode="precompute"))


def test_auto_leaves_a_margin_on_the_disk(corpus, tmp_path):
    for number in (1, 2):
        write_audio(corpus / "wavs" / f"clip-{number}.wav", 60 * RATE, number)
    need = precompute(configure(corpus)).size_bytes
    disk = tmp_path / "disk"
    disk.mkdir()
    pages = (need * 105 // 100) // 4096 + 8
    mount = ["mount", "-t", "tmpfs", "-o", f"size={pages * 4096}", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        config = configure(corpus, cache_dir=str(disk))
        assert prepare(config).mode == "runtime"
        assert prepare(config.model_copy(update={"preprocessing_mode": "precompute"})).mode == "precompute"
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_auto_turns_to_runtime_where_nothing_can_be_written(corpus, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    prepared = prepare(configure(corpus, cache_dir=str(blocked / "cache")))
    assert prepared.mode == "runtime"
    assert "cannot be written" in prepared.reason


def test_auto_leaves_out_a_few_bad_clips_and_names_them(corpus, caplog):
    spoil(corpus, 4)
    prepared = prepare(configure(corpus))
    assert prepared.mode == "precompute"
    assert len(prepared.metadata.clips) == len(store_of(prepared)) == 11
    assert list(store_of(prepared).ids) == [clip.id for clip in prepared.metadata.clips]
    assert "1 clips are left out: clip-4" in caplog.text
    assert prepared.metadata.problems[-1].clip_id == "clip-4"


def test_auto_does_not_try_a_bad_clip_again_at_every_start(corpus):
    spoil(corpus, 4)
    prepare(configure(corpus))
    again = prepare(configure(corpus))
    assert again.reason == "the store is up to date"
    assert len(again.metadata.clips) == 11


def test_auto_turns_to_runtime_when_much_of_the_data_cannot_be_read(corpus):
    spoil(corpus, 1, 2, 3)
    prepared = prepare(configure(corpus))
    assert prepared.mode == "runtime"
    assert "3 of 12 clips cannot be read" in prepared.reason


def remove(corpus, *numbers):
    for number in numbers:
        (corpus / "wavs" / f"clip-{number}.wav").unlink()


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("mode", ["auto", "runtime"])
def test_lines_that_give_no_clip_are_said_in_one_line(corpus, caplog, mode):
    remove(corpus, 4)
    prepared = prepare(configure(corpus, preprocessing_mode=mode))
    assert prepared.mode == ("precompute" if mode == "auto" else "runtime")
    assert len(prepared.metadata.clips) == 11
    (said,) = warnings_of(caplog)
    assert said.startswith(
        f"1 line of the metadata gives no clip, the first: {corpus / 'metadata.csv'}:5: no audio file"
    )
    assert said.endswith("`myxtts check-data` lists them")
    assert len(said.splitlines()) == 1


def test_a_line_with_several_problems_is_one_line(corpus, caplog):
    with open(corpus / "metadata.csv", "a") as file:
        file.write("clip-99|\n")
    prepare(configure(corpus))
    assert warnings_of(caplog)[0].startswith("1 line of the metadata gives no clip")


def test_a_sound_data_set_is_prepared_without_a_word(corpus, caplog):
    prepare(configure(corpus))
    assert warnings_of(caplog) == []


def test_auto_takes_a_data_set_that_is_half_copied_to_be_incomplete(corpus, caplog):
    remove(corpus, 1, 2, 3, 4, 5)
    spoil(corpus, 6)
    prepared = prepare(configure(corpus))
    assert (prepared.mode, len(prepared.metadata.clips)) == ("runtime", 7)
    assert "6 of 12 clips cannot be read" in prepared.reason
    lines, fallback = warnings_of(caplog)
    assert lines.startswith("5 lines of the metadata give no clip")
    assert prepared.reason in fallback


def test_auto_does_not_replace_a_whole_store_when_half_of_the_audio_is_gone(corpus):
    whole = store_of(prepare(configure(corpus))).path
    remove(corpus, 1, 2, 3, 4, 5)
    assert prepare(configure(corpus)).mode == "runtime"
    assert len(FeatureStore.open(whole.parent)) == 12


def test_precompute_mode_stops_at_a_single_bad_clip_with_its_reason(corpus):
    spoil(corpus, 4)
    with pytest.raises(DataError) as caught:
        prepare(configure(corpus, preprocessing_mode="precompute"))
    assert "clip-4" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


def test_precompute_mode_stops_at_a_bad_line_of_the_metadata(corpus):
    with open(corpus / "metadata.csv", "a") as file:
        file.write("clip-99|this one has no audio\n")
    with pytest.raises(DataError, match="clip-99"):
        prepare(configure(corpus, preprocessing_mode="precompute"))


def test_no_usable_clip_is_an_error_in_every_mode(corpus):
    (corpus / "metadata.csv").write_text("nothing|here\n")
    for mode in ("auto", "precompute"):
        with pytest.raises(DataError):
            prepare(configure(corpus, preprocessing_mode=mode))


def test_a_forbidden_rebuild_is_an_error_in_auto_too(corpus):
    precompute(configure(corpus))
    with pytest.raises(StoreError, match="auto_rebuild_mel_cache"):
        prepare(configure(corpus, n_mels=60, auto_rebuild_mel_cache=False))


def test_memory_mapping_can_be_switched_off(corpus):
    assert store_of(prepare(configure(corpus))).memory_map
    assert not store_of(prepare(configure(corpus, enable_memory_mapping=False))).memory_map


def test_cache_verification_checks_the_index_whenever_the_store_is_opened(corpus, monkeypatch):
    seen = []
    original = FeatureStore.open

    def noted(path, verify="quick", *rest):
        seen.append(verify)
        return original(path, verify, *rest)

    monkeypatch.setattr(FeatureStore, "open", staticmethod(noted))
    for verification in (True, False):
        store_of(prepare(configure(corpus, cache_verification=verification))).close()
        assert seen[-1] == ("quick" if verification else "none")


def test_without_cache_verification_a_changed_index_is_used_as_it_is(corpus):
    version = store_of(prepare(configure(corpus))).path
    store = FeatureStore.open(version)
    index = version / INDEX_FILE
    content, checksums = bytearray(index.read_bytes()), store.index["mel_checksum"].tobytes()
    content[content.index(checksums)] ^= 1
    store.close()
    index.write_bytes(content)
    unchecked = prepare(configure(corpus, cache_verification=False))
    assert (unchecked.reason, store_of(unchecked).path) == ("the store is up to date", version)
    store_of(unchecked).close()
    assert prepare(configure(corpus)).reason == "a new version of the store was made"


def test_separate_sets_with_the_same_ids_are_both_in_the_store(tmp_path):
    make_corpus(tmp_path / "a", clips=3)
    make_corpus(tmp_path / "b", clips=2)
    write_audio(tmp_path / "b" / "wavs" / "clip-0.wav", RATE, seed=99)
    prepared = prepare(
        configure(
            tmp_path / "a",
            metadata_train_file="metadata.csv",
            metadata_eval_file=str(tmp_path / "b" / "metadata.csv"),
            wavs_eval_dir=str(tmp_path / "b" / "wavs"),
            preprocessing_mode="precompute",
        )
    )
    assert list(store_of(prepared).ids) == ["clip-0", "clip-1", "clip-2", "b/clip-0", "b/clip-1"]
    assert prepared.metadata.splits == ["train", "train", "train", "val", "val"]
    lengths = store_of(prepared).mel_lengths
    assert lengths[3] == RATE // 256
    assert lengths[3] != lengths[0]
    assert lengths[4] == lengths[1]


def test_the_clips_of_runtime_mode_are_looked_at_once(corpus, caplog):
    spoil(corpus, 4)
    prepared = prepare(configure(corpus, preprocessing_mode="runtime"))
    clips, usable = prepared.runtime_clips
    assert len(clips) == len(usable.clips) == 11
    assert prepared.runtime_clips[0] is clips
    (said,) = warnings_of(caplog)
    assert said.startswith("1 clips are left out: ")
    assert "clip-4.wav" in said


@pytest.mark.parametrize(("language", "same"), [("en", True), ("fa", False)])
def test_a_run_begun_before_persian_was_read_by_the_sentence_has_the_same_batches_unless_it_is_persian(
    corpus, language, same
):
    prepared = prepare(configure(corpus, preprocessing_mode="runtime", language=language))
    text = {"text_symbols": "phonemes", "normalizer": 1}
    before = fingerprint({"mel": {}, "text": text, "data": {}})
    now = {"mel": {}, "text": text | {"persian_reading": 1}, "data": {}}
    resumed = dataclasses.replace(prepared, stands_for=now, source_of_run=before)
    assert resumed.plan_source == (before if same else fingerprint(now))
    assert dataclasses.replace(resumed, source_of_run="another").plan_source == fingerprint(now)


def test_the_report_tells_mode_size_reused_and_rebuilt(corpus):
    prepare(configure(corpus))
    make_corpus(corpus, clips=2, first=12)
    report = prepare(configure(corpus)).report()
    assert report["mode"] == "precompute"
    assert (report["mels_reused"], report["mels_rebuilt"]) == (12, 2)
    assert (report["tokens_reused"], report["tokens_rebuilt"]) == (12, 2)
    assert report["store_bytes"] > 0
    assert prepare(configure(corpus, preprocessing_mode="runtime")).report() == {
        "mode": "runtime",
        "reason": "preprocessing_mode is runtime",
        "clips": 14,
    }


def test_preparing_needs_no_tensorflow(corpus, python):
    code = (
        "import sys; from myxtts.config.config import DataConfig; from myxtts.data.modes import prepare\n"
        "prepare(DataConfig(dataset_path=sys.argv[1], text_symbols='graphemes', num_workers=1))\n"
        "print('tensorflow' in sys.modules)"
    )
    done = subprocess.run([python, "-c", code, str(corpus)], capture_output=True, text=True, env=os.environ)
    assert done.stdout.strip() == "False", done.stderr
