"""Audio files as one channel at one rate, and what is said about those that cannot be read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from speech_like import sound
from wav_bytes import wav

from myxtts.audio.reading import audio_info, read_audio, read_pcm16, resampled_length, to_pcm16
from myxtts.errors import AudioError

RATE = 22050
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "wavex": ("WAVEX", "PCM_16"),
    "wav24": ("WAV", "PCM_24"),
    "wav32": ("WAV", "FLOAT"),
    "wav8": ("WAV", "PCM_U8"),
    "w64": ("W64", "PCM_16"),
    "rf64": ("RF64", "PCM_16"),
    "aiff": ("AIFF", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "flac24": ("FLAC", "PCM_24"),
    "ogg": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
EXACT = {"wav", "wavex", "w64", "rf64", "aiff", "flac"}


def write(path: Path, audio: np.ndarray, kind: str, rate: int = RATE) -> Path:
    container, subtype = FORMATS[kind]
    soundfile.write(path, audio, rate, format=container, subtype=subtype)
    return path


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_sound_that_was_written(kind, tmp_path: Path):
    rate = 24000 if kind == "opus" else RATE
    audio = sound(1, 0.5, rate)
    path = write(tmp_path / "clip.bin", to_pcm16(audio) if kind in EXACT else audio, kind, rate)
    read = read_audio(path, rate)
    assert read.dtype == np.float32
    assert read.shape == audio.shape
    correlation = np.corrcoef(read, audio)[0, 1]
    assert correlation > 0.95
    if kind in EXACT:
        np.testing.assert_array_equal(read_pcm16(path, rate), to_pcm16(audio))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("channels", [1, 2])
def test_the_header_says_what_libsndfile_says(kind, channels, tmp_path: Path):
    rate = 24000 if kind == "opus" else RATE
    audio = np.stack([sound(seed, 0.2, rate) for seed in range(channels)], axis=1)
    path = write(tmp_path / "clip.bin", audio, kind, rate)
    expected = soundfile.info(path)
    info = audio_info(path)
    assert (info.frames, info.sample_rate, info.channels) == (
        expected.frames,
        expected.samplerate,
        expected.channels,
    )
    assert info.missing_bytes == 0


@pytest.mark.parametrize("kind", sorted(EXACT))
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_sixteen_bit_audio_stays_on_the_sixteen_bit_grid(kind, channels, tmp_path: Path):
    audio = np.stack([sound(seed, 0.2) for seed in range(channels)], axis=1)
    path = write(tmp_path / "clip.bin", audio, kind)
    read, pcm = read_audio(path, RATE), read_pcm16(path, RATE)
    assert (read.dtype, pcm.dtype) == (np.float32, np.int16)
    np.testing.assert_array_equal(read, pcm / np.float32(32768))
    samples = soundfile.read(path, dtype="int16", always_2d=True)[0]
    np.testing.assert_array_equal(pcm, np.rint(samples.astype(np.float64).mean(axis=1)))


def test_channels_of_float_audio_are_averaged(tmp_path: Path):
    audio = np.stack([sound(1, 0.2), sound(2, 0.2)], axis=1)
    path = write(tmp_path / "clip.wav", audio, "wav32")
    np.testing.assert_allclose(read_audio(path, RATE), audio.mean(axis=1), atol=1e-7)


def test_audio_at_another_rate_is_resampled(tmp_path: Path):
    time = np.arange(48000) / 48000
    tone = 0.5 * np.sin(2 * np.pi * 440 * time)
    path = write(tmp_path / "clip.flac", np.stack([tone, tone], axis=1), "flac", 48000)
    read = read_audio(path, RATE)
    assert len(read) == RATE
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
    np.testing.assert_allclose(read[500:-500], expected[500:-500], atol=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    samples=st.integers(1, 3000),
    rate=st.sampled_from([8000, 11025, 16000, 22050, 22051, 24000, 44100, 48000, 96000]),
    target=st.sampled_from([16000, 22050, 24000, 44100]),
)
def test_the_length_after_resampling_is_known_from_the_header(tmp_path_factory, samples, rate, target):
    path = tmp_path_factory.mktemp("resampling") / "clip.wav"
    path.write_bytes(wav(np.zeros(samples, np.int16), rate=rate))
    length = resampled_length(samples, rate, target)
    assert abs(length - samples * target / rate) <= 0.5
    assert resampled_length(audio_info(path).frames, rate, target) == length
    if length:
        assert len(read_audio(path, target)) == len(read_pcm16(path, target)) == length


def test_samples_beyond_full_scale_are_clipped_on_the_sixteen_bit_grid(tmp_path: Path):
    path = write(tmp_path / "clip.wav", np.array([1.5, -1.5, 1.0, -1.0, 0.5]), "wav32")
    assert read_pcm16(path, RATE).tolist() == [32767, -32768, 32767, -32768, 16384]


def test_rounding_to_sixteen_bits_is_half_to_even():
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32) / 32768
    assert to_pcm16(halves).tolist() == [0, 2, 2, 0, -2]


def test_every_sixteen_bit_value_survives_the_way_through_float():
    values = np.arange(-32768, 32768).astype(np.int16)
    np.testing.assert_array_equal(to_pcm16(values / np.float32(32768)), values)


def test_the_header_of_a_huge_file_is_read_without_its_samples(tmp_path: Path):
    path = tmp_path / "long.wav"
    samples = 1 << 29
    path.write_bytes(wav(b"", data_size=2 * samples))
    os.truncate(path, 44 + 2 * samples)
    info = audio_info(path)
    assert (info.frames, info.missing_bytes) == (samples, 0)


def cut_off(path: Path, kind: str, share: float) -> Path:
    write(path, sound(1, 1.0), kind)
    os.truncate(path, int(path.stat().st_size * share))
    return path


WRONG = {
    "missing": (lambda path: path, "there is no such file"),
    "empty": (lambda path: path.touch(), "the file is empty"),
    "folder": (lambda path: path.mkdir(), "this is a folder, not an audio file"),
    "text": (lambda path: path.write_text("not audio\n" * 50), "libsndfile cannot read it as audio"),
    "no samples": (lambda path: path.write_bytes(wav(b"")), "the file holds no samples"),
    "no float samples": (lambda path: write(path, np.empty(0), "wav32"), "the file holds no samples"),
    "not a number": (
        lambda path: write(path, np.array([0, 0.1, np.nan, 0]), "wav32"),
        "sample 2 is not a finite number",
    ),
    "infinite": (lambda path: write(path, np.array([np.inf, 0]), "wav32"), "sample 0 is not a finite number"),
    "half a WAV": (lambda path: cut_off(path, "wav", 0.5), "the file was cut off, 22,0\\d\\d bytes of its audio"),
    "half a FLAC": (lambda path: cut_off(path, "flac", 0.5), "cut off|libsndfile cannot read it as audio"),
    "half an MP3": (lambda path: cut_off(path, "mp3", 0.5), "the file was cut off, [0-9,]+ of 22,050 samples"),
    "half an Ogg": (lambda path: cut_off(path, "ogg", 0.5), "cut off|cannot read it as audio|holds no samples"),
}


@pytest.mark.parametrize("read", [read_audio, read_pcm16])
@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_cannot_be_used_is_named_with_the_reason_in_one_line(name, read, tmp_path: Path):
    path = tmp_path / "clip.wav"
    make, reason = WRONG[name]
    make(path)
    with pytest.raises(AudioError) as caught:
        read(path, RATE)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert re.search(reason, message), message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["missing", "empty", "folder", "text"])
def test_a_file_without_a_readable_header_has_no_info(name, tmp_path: Path):
    path = tmp_path / "clip.wav"
    make, reason = WRONG[name]
    make(path)
    with pytest.raises(AudioError, match=reason):
        audio_info(path)


def test_the_header_tells_how_much_of_a_file_is_missing(tmp_path: Path):
    path = tmp_path / "clip.wav"
    path.write_bytes(wav(np.zeros(10_000, np.int16))[:-5000])
    info = audio_info(path)
    assert (info.frames, info.missing_bytes) == (7500, 5000)


def test_a_file_one_may_not_read_is_named(tmp_path: Path):
    path = tmp_path / "clip.wav"
    path.write_bytes(wav(np.zeros(100, np.int16)))
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(AudioError, match=r"clip\.wav: cannot be read \(Permission denied\)"):
        read_audio(path, RATE)


def test_real_clips_are_read_as_libsndfile_reads_them(ljspeech_mini: Path):
    for path in sorted((ljspeech_mini / "wavs").glob("*.wav")):
        np.testing.assert_array_equal(read_audio(path, RATE), soundfile.read(path, dtype="float32")[0])


def test_reading_loads_neither_tensorflow_nor_scipy():
    program = (
        "import sys, myxtts.audio.reading, myxtts.audio.mel as mel; mel.MelSettings();"
        "print([name for name in ('tensorflow', 'scipy', 'librosa') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("name", "hint"), [("memo.m4a", True), ("memo.M4A", True), ("memo.wav", False)])
def test_what_telephones_record_is_to_be_converted(tmp_path, name, hint):
    path = tmp_path / name
    path.write_bytes(b"\0\0\0 ftypM4A " + bytes(1000))
    with pytest.raises(AudioError) as caught:
        read_audio(path, 22050)
    assert ("convert it to WAV or FLAC" in str(caught.value)) == hint
