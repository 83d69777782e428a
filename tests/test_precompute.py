"""Making a store: what it holds, what is computed again and what is not, and where it is put."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from small_corpus import RATE, add_line, configure, content, make_corpus, write_audio

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.reading import read_audio
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.precompute import TooManyFailuresError, precompute
from myxtts.data.store import FeatureStore
from myxtts.errors import DataError, StoreError
from myxtts.text import TextSettings, Tokenizer, espeak


@pytest.fixture
def corpus(tmp_path):
    return make_corpus(tmp_path / "data")


def fresh(folder, tmp_path, **settings):
    """The store that a first run would make of the data as it is now."""
    config = configure(folder, cache_dir=str(tmp_path / "fresh"), **settings)
    return content(precompute(config).version)


def without_place(files):
    """Files of a version without what depends on the cache folder it is in."""
    manifest = json.loads(files["manifest.json"])
    for key in ("checksum", "fingerprint", "settings"):
        manifest.pop(key)
    return files | {"manifest.json": manifest}


# What the store holds


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_row_i_is_clip_i_of_the_metadata_with_its_mel_and_its_tokens(corpus, dtype):
    config = configure(corpus, mel_dtype=dtype)
    store = FeatureStore.open(precompute(config).version)
    clips = read_metadata(config).clips
    tokenizer = Tokenizer(TextSettings.from_config(config))
    assert list(store.ids) == [clip.id for clip in clips]
    for row, clip in enumerate(clips):
        mel = log_mel(read_audio(clip.audio_path, RATE), MelSettings.from_config(config))
        np.testing.assert_array_equal(store.mel(row), mel.astype(dtype))
        np.testing.assert_array_equal(store.tokens(row), tokenizer.encode(clip.text, clip.language, clip.ipa))


def test_last_row_is_the_logarithm_of_the_floor(corpus):
    store = FeatureStore.open(precompute(configure(corpus)).version)
    np.testing.assert_array_equal(store.mel_data[-1], np.full(80, np.log(1e-5), np.float16))


def test_the_number_of_workers_changes_no_byte(corpus, tmp_path):
    made = []
    for workers in (1, 3):
        config = configure(corpus, cache_dir=str(tmp_path / str(workers)), num_workers=workers)
        made.append(content(precompute(config).version))
    assert made[0] == made[1]


@pytest.mark.long
def test_phonemes_do_not_depend_on_which_texts_a_worker_had_before(tmp_path):
    if not espeak.available():
        pytest.skip("phonemes need the speech extra")
    folder = make_corpus(tmp_path / "data", clips=200)
    for path in (folder / "wavs").iterdir():
        write_audio(path, 600, 1)
    made = []
    for workers in (1, 3):
        settings = {"cache_dir": str(tmp_path / str(workers)), "text_symbols": "phonemes", "num_workers": workers}
        made.append(content(precompute(configure(folder, **settings)).version))
    assert made[0] == made[1]


def test_the_result_tells_what_was_done(corpus):
    result = precompute(configure(corpus))
    assert (result.clips, result.columns["mel"].computed, result.columns["token"].computed) == (8, 8, 8)
    assert result.complete
    assert result.published
    assert result.audio_seconds == pytest.approx(sum(_seconds(path) for path in (corpus / "wavs").iterdir()))
    files = ("mel.bin", "tokens.bin", "index.bin")
    assert result.size_bytes == sum((result.version / name).stat().st_size for name in files)


def _seconds(path):
    return soundfile.info(path).duration


def test_a_data_set_of_one_clip(tmp_path):
    make_corpus(tmp_path / "data", clips=1)
    assert len(FeatureStore.open(precompute(configure(tmp_path / "data")).version)) == 1


def test_ids_and_files_in_any_script(tmp_path):
    folder = tmp_path / "داده"
    write_audio(folder / "wavs" / "صدا ۱.wav", 5000, 1)
    write_audio(folder / "wavs" / "été/ä.wav", 5000, 2)
    add_line(folder, "صدا ۱", "one")
    add_line(folder, "été/ä", "two")
    assert list(FeatureStore.open(precompute(configure(folder)).version).ids) == ["صدا ۱", "été/ä"]


def test_speakers_and_languages_are_numbered_in_order_of_appearance(tmp_path):
    folder = make_corpus(tmp_path / "data", clips=3)
    lines = ["id|text|speaker|language", "clip-0|a|zoe|fa", "clip-1|b|adam|en", "clip-2|c|zoe|en"]
    (folder / "metadata.csv").write_text("\n".join(lines), encoding="utf-8")
    store = FeatureStore.open(precompute(configure(folder)).version)
    assert (store.speakers, store.languages) == (["zoe", "adam"], ["fa", "en"])
    assert (store.speaker_ids.tolist(), store.language_ids.tolist()) == ([0, 1, 0], [0, 1, 1])


def test_stereo_flac_at_another_rate_is_mixed_and_resampled(tmp_path):
    folder = make_corpus(tmp_path / "data", clips=3, suffix="flac", rate=48000, channels=2)
    store = FeatureStore.open(precompute(configure(folder)).version)
    for row, name in enumerate(store.ids):
        samples = round(soundfile.info(folder / "wavs" / f"{name}.flac").frames * RATE / 48000)
        assert store.mel_lengths[row] == samples // 256


def test_trimmed_clips_are_packed_without_gaps(tmp_path):
    folder = make_corpus(tmp_path / "data", clips=4)
    audio, _ = soundfile.read(folder / "wavs" / "clip-1.wav", dtype="int16")
    quiet = np.zeros(RATE, np.int16)
    soundfile.write(folder / "wavs" / "clip-1.wav", np.concatenate([quiet, audio, quiet]), RATE)
    lengths = {}
    for trim in (False, True):
        config = configure(folder, trim_silence=trim, cache_dir=str(tmp_path / str(trim)))
        store = FeatureStore.open(precompute(config).version)
        lengths[trim] = store.mel_lengths
    assert lengths[True][1] < lengths[False][1] - 100
    assert store.mel_rows == lengths[True].sum() + 1


@pytest.mark.long
def test_works_from_a_script_without_a_main_guard(corpus):
    script = corpus / "script.py"
    script.write_text(
        "import sys; from myxtts.config.config import DataConfig; from myxtts.data.precompute import precompute\n"
        "config = DataConfig(dataset_path=sys.argv[1], text_symbols='graphemes', num_workers=1)\n"
        "print(precompute(config).clips, 'tensorflow' in sys.modules)\n"
    )
    command = [sys.executable, str(script), str(corpus)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["8", "False"], done.stderr


def test_modules_in_the_current_folder_do_not_reach_the_workers(corpus, monkeypatch):
    (corpus / "json.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(corpus)
    assert precompute(configure(corpus)).clips == 8


# What is computed again


def test_a_second_run_computes_nothing_and_writes_nothing(corpus):
    config = configure(corpus)
    first = precompute(config)
    before = _listing(corpus / "cached_features")
    second = precompute(config)
    assert (second.columns["mel"].computed, second.columns["token"].computed, second.published) == (0, 0, False)
    assert second.version == first.version
    assert _listing(corpus / "cached_features") == before


def _listing(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("change", ["append", "insert", "remove"])
def test_after_clips_come_or_go_only_new_ones_are_computed_and_the_bytes_are_those_of_a_fresh_store(
    corpus, tmp_path, change
):
    config = configure(corpus)
    precompute(config)
    lines = (corpus / "metadata.csv").read_text().splitlines()
    if change == "append":
        make_corpus(corpus, clips=2, first=8)
    elif change == "insert":
        write_audio(corpus / "wavs" / "new.wav", 9000, 99)
        (corpus / "metadata.csv").write_text("\n".join(["new|at the top", *lines]) + "\n")
    else:
        (corpus / "metadata.csv").write_text("\n".join(lines[:3] + lines[5:]) + "\n")
    result = precompute(config)
    computed = {"append": 2, "insert": 1, "remove": 0}[change]
    assert (result.columns["mel"].computed, result.columns["token"].computed) == (computed, computed)
    assert without_place(content(result.version)) == without_place(fresh(corpus, tmp_path))


def test_a_changed_audio_file_is_computed_again_and_nothing_else(corpus, tmp_path):
    config = configure(corpus)
    precompute(config)
    write_audio(corpus / "wavs" / "clip-3.wav", 8000, 77)
    result = precompute(config)
    assert (result.columns["mel"].computed, result.columns["token"].computed) == (1, 0)
    assert without_place(content(result.version)) == without_place(fresh(corpus, tmp_path))


def test_a_changed_text_leaves_the_mels_where_they_are(corpus):
    config = configure(corpus)
    before = precompute(config).version
    inode = (before / "mel.bin").stat().st_ino
    lines = (corpus / "metadata.csv").read_text().splitlines()
    (corpus / "metadata.csv").write_text("\n".join([*lines[:-1], "clip-7|something else"]) + "\n")
    result = precompute(config)
    assert (result.columns["mel"].computed, result.columns["token"].computed) == (0, 1)
    assert (result.version / "mel.bin").stat().st_ino == inode


def test_a_touched_file_is_computed_again(corpus):
    config = configure(corpus)
    precompute(config)
    os.utime(corpus / "wavs" / "clip-2.wav")
    assert precompute(config).columns["mel"].computed == 1


def test_a_data_set_that_was_copied_keeps_its_features_once_its_content_is_verified(corpus):
    config = configure(corpus)
    before = precompute(config).version
    inode = (before / "mel.bin").stat().st_ino
    for path in (corpus / "wavs").iterdir():
        os.utime(path)
    verified = precompute(config, verify_source=True)
    assert verified.columns["mel"].computed == 0
    assert (verified.version / "mel.bin").stat().st_ino == inode
    assert not precompute(config).published


def test_other_content_of_the_same_size_and_time_is_seen_only_by_content(corpus):
    config = configure(corpus)
    precompute(config)
    path = corpus / "wavs" / "clip-4.wav"
    stamp = path.stat()
    data = bytearray(path.read_bytes())
    data[-500:] = bytes(500)
    path.write_bytes(data)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert precompute(config).columns["mel"].computed == 0
    assert precompute(config, verify_source=True).columns["mel"].computed == 1


def test_another_speaker_pattern_makes_a_new_index_over_the_same_data(corpus):
    before = precompute(configure(corpus)).version
    inodes = [(before / name).stat().st_ino for name in ("mel.bin", "tokens.bin")]
    result = precompute(configure(corpus, speaker_pattern="([0-9])"))
    assert (result.columns["mel"].computed, result.columns["token"].computed) == (0, 0)
    assert [(result.version / name).stat().st_ino for name in ("mel.bin", "tokens.bin")] == inodes
    assert FeatureStore.open(result.version).speakers == [str(number) for number in range(8)]


@pytest.mark.parametrize(("column", "counts"), [("mel", (8, 0)), ("token", (0, 8))])
def test_overwrite_computes_a_column_from_scratch(corpus, column, counts):
    config = configure(corpus)
    before = content(precompute(config).version)
    result = precompute(config, overwrite=[column])
    assert (result.columns["mel"].computed, result.columns["token"].computed) == counts
    assert content(result.version) == before


# Settings


def test_other_text_settings_share_the_mels_by_link_and_live_side_by_side(corpus):
    one = precompute(configure(corpus))
    two = precompute(configure(corpus, add_blank=False))
    assert (two.columns["mel"].computed, two.columns["token"].computed) == (0, 8)
    assert (one.version / "mel.bin").samefile(two.version / "mel.bin")
    assert not precompute(configure(corpus)).published


def test_float32_lives_beside_float16_and_shares_its_tokens(corpus):
    half = precompute(configure(corpus)).version
    single = precompute(configure(corpus, mel_dtype="float32"))
    assert (single.columns["mel"].computed, single.columns["token"].computed) == (8, 0)
    assert (half / "tokens.bin").samefile(single.version / "tokens.bin")
    assert FeatureStore.open(half).mel_data.dtype == np.float16


def test_a_subset_has_a_store_of_its_own_and_takes_its_clips_over(corpus):
    whole = precompute(configure(corpus))
    lines = (corpus / "metadata.csv").read_text().splitlines()
    (corpus / "some.csv").write_text("\n".join(lines[2:5]) + "\n")
    part = precompute(configure(corpus, metadata_file="some.csv"))
    assert (part.clips, part.columns["mel"].computed, part.columns["token"].computed) == (3, 0, 0)
    assert not precompute(configure(corpus)).published
    np.testing.assert_array_equal(FeatureStore.open(part.version).mel(0), FeatureStore.open(whole.version).mel(2))


def test_two_data_sets_in_one_cache_folder_do_not_meet(tmp_path):
    cache = str(tmp_path / "cache")
    for name, first in (("one", 0), ("two", 50)):
        make_corpus(tmp_path / name, clips=3, first=first)
        precompute(configure(tmp_path / name, cache_dir=cache))
    for name in ("one", "two"):
        assert not precompute(configure(tmp_path / name, cache_dir=cache)).published


def test_a_data_set_that_is_moved_keeps_its_store(corpus, tmp_path):
    precompute(configure(corpus))
    os.rename(corpus, tmp_path / "elsewhere")
    assert not precompute(configure(tmp_path / "elsewhere")).published


@pytest.mark.parametrize(
    ("switch", "change", "words"),
    [
        ("auto_rebuild_mel_cache", {"n_mels": 60, "hop_length": 128}, ["n_mels: 80 → 60", "hop_length: 256 → 128"]),
        ("auto_rebuild_mel_cache", {"mel_dtype": "float32"}, ["mel_dtype: float16 → float32"]),
        ("auto_rebuild_token_cache", {"add_blank": False}, ["add_blank: True → False"]),
    ],
)
def test_a_rebuild_that_is_not_wanted_is_refused_with_old_and_new_values(corpus, switch, change, words):
    precompute(configure(corpus))
    with pytest.raises(StoreError) as caught:
        precompute(configure(corpus, **{switch: False}, **change))
    for word in [*words, switch]:
        assert word in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 3


@pytest.mark.parametrize(
    ("switch", "change"),
    [("auto_rebuild_token_cache", {"n_mels": 60}), ("auto_rebuild_mel_cache", {"add_blank": False})],
)
def test_a_switch_forbids_only_its_own_column(corpus, switch, change):
    precompute(configure(corpus))
    assert precompute(configure(corpus, **{switch: False}, **change)).published


def test_new_clips_are_no_rebuild(corpus):
    strict = {"auto_rebuild_mel_cache": False, "auto_rebuild_token_cache": False}
    precompute(configure(corpus, **strict))
    make_corpus(corpus, clips=1, first=8)
    assert precompute(configure(corpus, **strict)).columns["mel"].computed == 1


# Clips that fail


def test_a_clip_that_fails_is_named_with_its_reason_and_the_rest_goes_on(corpus, tmp_path):
    (corpus / "wavs" / "clip-2.wav").write_bytes(b"RIFF....WAVEnothing that could be heard")
    write_audio(corpus / "wavs" / "clip-5.wav", 100, 1)
    result = precompute(configure(corpus))
    assert [entry.id for entry in result.failed] == ["clip-2", "clip-5"]
    assert "too short" in result.failed[1].reason
    assert not result.complete
    assert (result.columns["mel"].computed, result.columns["mel"].reused) == (6, 0)
    assert (result.columns["token"].computed, result.columns["token"].reused) == (6, 0)
    store = FeatureStore.open(result.version)
    assert list(store.ids) == [f"clip-{number}" for number in (0, 1, 3, 4, 6, 7)]
    lines = (corpus / "metadata.csv").read_text().splitlines()
    (corpus / "metadata.csv").write_text("\n".join(lines[:2] + lines[3:5] + lines[6:]) + "\n")
    for name in ("mel.bin", "tokens.bin", "index.bin"):
        assert fresh(corpus, tmp_path)[name] == content(result.version)[name]


def test_a_failed_clip_is_tried_again_and_nothing_is_published_if_it_fails_again(corpus):
    (corpus / "wavs" / "clip-2.wav").write_bytes(b"not audio")
    config = configure(corpus)
    first = precompute(config)
    second = precompute(config)
    assert [entry.id for entry in second.failed] == ["clip-2"]
    assert (second.published, second.version) == (False, first.version)


def test_a_repaired_clip_joins_the_store(corpus, tmp_path):
    path = corpus / "wavs" / "clip-2.wav"
    sound = path.read_bytes()
    path.write_bytes(b"not audio")
    config = configure(corpus)
    precompute(config)
    path.write_bytes(sound)
    result = precompute(config)
    assert (result.columns["mel"].computed, result.complete, result.clips) == (1, True, 8)
    assert without_place(content(result.version)) == without_place(fresh(corpus, tmp_path))


def test_an_audio_file_without_samples_and_one_that_is_gone_are_named(corpus):
    soundfile.write(corpus / "wavs" / "clip-1.wav", np.zeros(0, np.int16), RATE)
    metadata = read_metadata(configure(corpus))
    os.unlink(corpus / "wavs" / "clip-6.wav")
    result = precompute(configure(corpus), metadata)
    assert [entry.id for entry in result.failed] == ["clip-1", "clip-6"]


def test_no_usable_clip_is_an_error(corpus):
    for path in (corpus / "wavs").iterdir():
        path.write_bytes(b"not audio")
    with pytest.raises(DataError, match="none of the 8 clips"):
        precompute(configure(corpus))


def test_more_failures_than_allowed_stop_before_anything_is_computed(corpus):
    for number in range(3):
        (corpus / "wavs" / f"clip-{number}.wav").write_bytes(b"not audio")
    with pytest.raises(TooManyFailuresError, match="3 of 8 clips"):
        precompute(configure(corpus), most_failed=0.25)
    assert not list((corpus / "cached_features").rglob("mel.bin"))


# Places


def test_the_default_place_is_cached_features_in_the_data_set(corpus):
    assert precompute(configure(corpus)).version.parents[1] == corpus / "cached_features"


def test_cache_dir_is_used_when_given(corpus, tmp_path):
    result = precompute(configure(corpus, cache_dir=str(tmp_path / "there")))
    assert result.version.parents[1] == tmp_path / "there"
    assert not (corpus / "cached_features").exists()


def test_a_data_set_that_cannot_be_written_has_its_store_in_the_users_cache_folder(corpus, tmp_path, python):
    if os.geteuid() != 0:
        pytest.skip("dropping privileges needs root")
    code = (
        "import os, sys\n"
        "from myxtts.config.config import DataConfig\n"
        "from myxtts.data.store.job import BuildJob\n"
        "job = BuildJob(DataConfig(dataset_path=sys.argv[1], text_symbols='graphemes'), None, 1, None)\n"
        "os.seteuid(65534)\n"
        "print(job.place_to_build().cache)\n"
    )
    (tmp_path / "home").mkdir()
    os.chmod(tmp_path / "home", 0o777)
    for folder in (tmp_path, *tmp_path.parents[:4]):
        if folder.name.startswith(("pytest", "popen", "test")):
            os.chmod(folder, 0o755)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "home")}
    command = [python, "-c", code, str(corpus)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == str(tmp_path / "home" / "myxtts" / "cached_features"), done.stderr


def test_a_store_in_a_folder_that_cannot_be_written_is_still_used(corpus):
    config = configure(corpus)
    first = precompute(config)
    for folder, _, files in os.walk(corpus / "cached_features"):
        for name in files:
            os.chmod(Path(folder) / name, 0o444)
        os.chmod(folder, 0o555)
    assert precompute(config).version == first.version
