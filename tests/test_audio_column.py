"""The stored audio: the samples under the mel's frames, stored when asked for, checked and repaired like mels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from small_corpus import RATE, configure, content, make_corpus, write_audio

from myxtts.audio.mel import MelSettings, log_mel, trim
from myxtts.audio.reading import read_pcm16
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.precompute import check_store, precompute
from myxtts.data.store import FeatureStore

CLIPS = 6


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "data", clips=CLIPS)


@pytest.mark.parametrize("trimmed", [False, True])
def test_its_samples_are_those_under_the_frames_of_the_mel(corpus: Path, trimmed: bool) -> None:
    wavs = corpus / "wavs"
    write_audio(wavs / "clip-1.wav", 9000, seed=1, channels=2)
    write_audio(wavs / "clip-2.wav", 30000, seed=2, rate=48000)
    quiet = np.random.default_rng(3).normal(size=12000) * np.repeat([1e-4, 0.1, 1e-4], 4000)
    soundfile.write(wavs / "clip-3.wav", quiet, RATE, subtype="PCM_24")
    config = configure(corpus, store_audio=True, trim_silence=trimmed, trim_db=20.0, num_workers=2)
    settings = MelSettings.from_config(config)
    with FeatureStore.open(precompute(config).version) as store:
        data, offsets, lengths = store.column("audio")
        assert (data.dtype, data.shape, data[-1]) == (np.int16, (lengths.sum() + 1,), 0)
        np.testing.assert_array_equal(lengths, store.mel_lengths * settings.hop_length)
        np.testing.assert_array_equal(offsets, store.mel_offsets * settings.hop_length)
        for row, clip in enumerate(read_metadata(config).clips):
            samples = trim(read_pcm16(clip.audio_path, RATE), settings)
            np.testing.assert_array_equal(store.rows("audio", row), samples[: lengths[row]])
            assert len(samples) - lengths[row] < settings.hop_length
        # Of a 16-bit file the mel is exactly the stored samples' own, but for the mirror beyond the last of them.
        inside = -(-settings.padding // settings.hop_length) + 1
        again = log_mel(store.rows("audio", 0), settings)
        np.testing.assert_allclose(again[:-inside], store.mel(0)[:-inside], atol=1e-2)
        assert bool(lengths[3] < 12000 // 256 * 256) == trimmed


def test_a_store_without_it_has_the_first_format_and_no_trace_of_it(corpus: Path) -> None:
    version = precompute(configure(corpus)).version
    assert content(version).keys() == {"index.bin", "manifest.json", "mel.bin", "tokens.bin"}
    manifest = json.loads((version / "manifest.json").read_bytes())
    assert manifest["format_version"] == 1
    assert manifest["settings"].keys() == {"data", "mel", "text"}


def test_added_to_a_store_it_is_all_that_is_computed(corpus: Path) -> None:
    before = content(precompute(configure(corpus)).version)
    done = precompute(configure(corpus, store_audio=True))
    assert {name: counts.computed for name, counts in done.columns.items()} == {"token": 0, "mel": 0, "audio": CLIPS}
    after = content(done.version)
    assert after.keys() - before.keys() == {"audio.bin", "audio.index"}
    assert (after["mel.bin"], after["tokens.bin"]) == (before["mel.bin"], before["tokens.bin"])


def test_settings_of_the_mel_alone_do_not_have_it_stored_again(corpus: Path) -> None:
    precompute(configure(corpus, store_audio=True))
    done = precompute(configure(corpus, store_audio=True, mel_fmax=7000.0, n_mels=64))
    assert {name: counts.computed for name, counts in done.columns.items()} == {"token": 0, "mel": CLIPS, "audio": 0}
    done = precompute(configure(corpus, store_audio=True, hop_length=128))
    assert done.columns["audio"].computed == CLIPS


def test_damage_to_it_is_found_and_repaired_and_nothing_else_is_computed(corpus: Path) -> None:
    config = configure(corpus, store_audio=True)
    version = precompute(config).version
    before = content(version)
    damaged = bytearray(before["audio.bin"])
    damaged[5000] ^= 4
    (version / "audio.bin").write_bytes(damaged)
    assert {damage.file for damage in check_store(config).examination.damage} == {"audio.bin"}
    repair = check_store(config, fix=True).repair
    assert repair is not None
    assert {name: counts.computed for name, counts in repair.columns.items()} == {"token": 0, "mel": 0, "audio": 1}
    assert content(repair.version) == before


def test_a_clip_too_short_for_a_frame_is_reported_once(corpus: Path) -> None:
    write_audio(corpus / "wavs" / "clip-2.wav", 100, seed=2)
    done = precompute(configure(corpus, store_audio=True))
    assert [failed.id for failed in done.failed] == ["clip-2"]
    assert done.clips == CLIPS - 1
