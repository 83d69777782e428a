"""Runtime mode: what the graph reads, what goes through Python and is said, what happens to files that change."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from speech_like import RATE, make_data_set, sound

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.mel_tf import LogMel
from myxtts.audio.reading import read_audio
from myxtts.config.config import DataConfig
from myxtts.data.batches.audio_loader import add_device_features
from myxtts.data.batches.runtime_clips import RuntimeClips, read_samples
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.tf_native_loader import TFNativeDataLoader
from myxtts.performance.python_functions import python_functions


def data_set(folder: Path, **changes: Any) -> LJSpeechDataset:
    values = {"preprocessing_mode": "runtime", "text_symbols": "graphemes", "batch_size": 4, "mel_dtype": "float32"}
    values |= {"reference_seconds": 0.3, "train_split": 0.8, "val_split": 0.2}
    values["num_buckets"] = 1  # one shape to compile
    return LJSpeechDataset(folder, DataConfig(**(values | changes)))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mono and stereo WAV, FLAC at 48 kHz in stereo, 24-bit WAV."""
    folder = make_data_set(tmp_path_factory.mktemp("mixed") / "data", [0.5 + 0.1 * k for k in range(12)])
    wavs = folder / "wavs"
    for number in (1, 2):
        stereo = np.stack([sound(number, 0.8), sound(number + 50, 0.8)], axis=1)
        soundfile.write(wavs / f"c{number:03d}.wav", stereo, RATE, subtype="PCM_16", format="WAVEX")
    for number in (3, 4):
        (wavs / f"c{number:03d}.wav").unlink()
        stereo = np.stack([sound(number, 0.9, 48000), sound(number + 50, 0.9, 48000)], axis=1)
        soundfile.write(wavs / f"c{number:03d}.flac", stereo, 48000)
    soundfile.write(wavs / "c005.wav", sound(5, 0.7), RATE, subtype="PCM_24")
    return folder


def check_against_reading(batch: dict[str, np.ndarray], dataset: LJSpeechDataset) -> None:
    settings = MelSettings.from_config(dataset.config)
    for row, mel, frames in zip(batch["index"], batch["mel"], batch["mel_lengths"], strict=True):
        if row >= 0:
            path = dataset.metadata.clips[row].audio_path
            expected = log_mel(read_samples(path, settings, np.float32), settings)
            assert frames == len(expected)
            np.testing.assert_allclose(mel[:frames], expected, atol=1e-3)


@pytest.mark.parametrize("trim", [False, True])
def test_every_kind_of_file_gives_the_mel_that_reading_it_gives(mixed: Path, trim: bool) -> None:
    dataset = data_set(mixed, trim_silence=trim, trim_db=20.0)
    for batch in dataset.create_tf_dataset().as_numpy_iterator():
        check_against_reading(batch, dataset)


def test_files_that_the_graph_cannot_decode_are_named_with_what_they_cost(
    mixed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        dataset = data_set(mixed).create_tf_dataset()
    [record] = caplog.records
    assert record.getMessage().startswith("3 of 12 files are not 16-bit WAV at 22,050 Hz and are read through Python")
    assert "c003.flac takes" in record.getMessage()
    assert python_functions(dataset)


def test_the_device_gets_samples_and_makes_the_same_mels_of_them(mixed: Path) -> None:
    host = list(data_set(mixed).create_tf_dataset().as_numpy_iterator())
    device = data_set(mixed, feature_device="accelerator")
    settings = MelSettings.from_config(device.config)
    clips = device.batches().clips
    assert isinstance(clips, RuntimeClips)
    log_mel_in_step = LogMel(settings)
    step = tf.function(lambda batch: add_device_features(batch, log_mel_in_step, settings), jit_compile=True)
    for expected, batch in zip(host, device.create_tf_dataset(), strict=True):
        assert batch["audio"].dtype == tf.int16
        assert "mel" not in batch
        numbers = {name: batch[name] for name in ("audio", "audio_lengths", "reference_audio")}
        features = step(numbers)
        assert features["mel"].shape == expected["mel"].shape
        for row, mel, other in zip(expected["index"], features["mel"].numpy(), expected["mel"], strict=True):
            # 16 bits on the way to the device: what was 24 bits or resampled is rounded, and heard in near silence.
            through_python = row >= 0 and not clips.graph_readable[row]
            np.testing.assert_allclose(mel, other, atol=0.35 if through_python else 1e-3)
        assert features["reference_mel"].shape == expected["reference_mel"].shape


@pytest.mark.parametrize("stereo", [False, True])
def test_references_are_the_same_in_graph_and_through_python_also_of_clips_shorter_than_they(
    tmp_path: Path, stereo: bool
) -> None:
    folder = make_data_set(tmp_path / "data", [0.3, 0.5, 0.7, 0.9, 1.1, 1.3, 1.5])
    if stereo:  # a file with more channels is decoded clip by clip
        soundfile.write(folder / "wavs" / "c004.wav", np.stack([sound(4, 1.1), sound(9, 1.1)], 1), RATE)
    native = data_set(folder, reference_seconds=1.0).create_tf_dataset().as_numpy_iterator()
    changes = {"reference_seconds": 1.0, "use_tf_native_loading": False}
    python = data_set(folder, **changes).create_tf_dataset().as_numpy_iterator()
    for one, other in zip(native, python, strict=True):
        np.testing.assert_allclose(one["reference_mel"], other["reference_mel"], atol=1e-3)


def test_clips_that_cannot_be_read_are_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = make_data_set(tmp_path / "data", [0.5] * 8)
    (folder / "wavs" / "c002.wav").write_bytes(b"not audio at all")
    soundfile.write(folder / "wavs" / "c003.wav", np.zeros(10, np.float32), RATE)
    dataset = data_set(folder)
    source = dataset.batches()
    assert len(source.clips) == 6
    assert "2 clips are left out" in caplog.text
    assert "c002" in caplog.text


def test_both_splits_are_made_from_clips_that_were_looked_at_once(
    mixed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = data_set(mixed)
    sources = [train.batches(split) for split in ("train", "val")]
    for source in sources:
        source.dataset(epochs=1)
    assert sources[0].clips is sources[1].clips
    assert [record.getMessage()[:13] for record in caplog.records] == ["3 of 12 files"]


def test_a_file_that_changes_under_way_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = make_data_set(tmp_path / "data", [0.5] * 8)
    batches = iter(data_set(folder).create_tf_dataset())
    for path in (folder / "wavs").iterdir():
        path.write_bytes(b"RIFF was here")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"changed after it was checked.*wavs.c00\d.wav"):
        list(batches)


def test_nothing_is_written(mixed: Path) -> None:
    before = sorted(path.name for path in mixed.rglob("*"))
    list(data_set(mixed).create_tf_dataset().take(1))
    assert sorted(path.name for path in mixed.rglob("*")) == before


# Single files


def test_a_file_is_loaded_and_processed_in_graph(tmp_path: Path) -> None:
    path = tmp_path / "clip.wav"
    soundfile.write(path, sound(3, 1.0), RATE, subtype="PCM_16")
    audio, mel = TFNativeDataLoader().load_and_process_audio(path)
    expected = read_audio(path, RATE)
    np.testing.assert_array_equal(audio, expected)
    np.testing.assert_allclose(mel, log_mel(expected, MelSettings()), atol=1e-3)


def test_max_length_cuts_the_audio_and_its_mel(tmp_path: Path) -> None:
    path = tmp_path / "clip.wav"
    soundfile.write(path, sound(3, 1.0), RATE, subtype="PCM_16")
    audio, mel = TFNativeDataLoader().load_and_process_audio(str(path), max_length=5000)
    assert audio.shape == (5000,)
    assert mel.shape == (5000 // 256, 80)


def test_a_file_can_be_processed_inside_a_dataset(tmp_path: Path) -> None:
    path = tmp_path / "clip.wav"
    soundfile.write(path, sound(3, 0.5), RATE, subtype="PCM_16")
    loader = TFNativeDataLoader()
    dataset = tf.data.Dataset.from_tensors(str(path)).map(loader.load_and_process_audio)
    assert python_functions(dataset) == []
    [(audio, mel)] = dataset.as_numpy_iterator()
    assert len(mel) == len(audio) // 256


def test_another_sample_rate_is_refused_with_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "slow.wav"
    soundfile.write(path, sound(3, 0.5, 16000), 16000, subtype="PCM_16")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not a 16-bit PCM WAV file at 22050 Hz.*slow\.wav"):
        TFNativeDataLoader().load_and_process_audio(path)
