"""The log-mel as NumPy and SciPy compute it: its definition, its settings, its length."""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
from hypothesis import given, settings
from hypothesis import strategies as st
from mel_reference import OTHER_SETTINGS, reference_log_mel
from speech_like import sound

from myxtts.audio import mel
from myxtts.audio.mel import MelSettings, log_mel, mel_filterbank
from myxtts.audio.reading import read_audio, to_pcm16
from myxtts.config.config import DataConfig
from myxtts.errors import ConfigError

DEFAULT = MelSettings()
TOLERANCE = 1e-3


def uncompiled(*arguments, **_):
    """In place of numba's decorators: gives the function as it is."""
    return arguments[0] if arguments and callable(arguments[0]) else lambda function: function


@pytest.fixture(scope="module")
def librosa():
    """Not compiled: where it is first used, it would compile for half a minute what is not called here."""
    import librosa
    import numba

    with pytest.MonkeyPatch.context() as patch:
        for decorator in ("jit", "vectorize", "guvectorize", "stencil"):
            patch.setattr(numba, decorator, uncompiled)
        assert callable(librosa.stft)
        assert callable(librosa.filters.mel)
    return librosa


def librosa_log_mel(librosa, audio: np.ndarray, of: MelSettings) -> np.ndarray:
    padded = np.pad(audio, of.padding, mode="reflect")
    magnitude = np.abs(
        librosa.stft(padded, n_fft=of.n_fft, hop_length=of.hop_length, win_length=of.win_length, center=False)
    )
    bands = librosa.filters.mel(sr=of.sample_rate, n_fft=of.n_fft, n_mels=of.n_mels, fmin=of.fmin, fmax=of.fmax)
    return np.log(np.maximum(bands @ magnitude, of.log_floor)).T


@pytest.mark.long
@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_agrees_with_librosa_under_the_same_padding(librosa, name):
    of = OTHER_SETTINGS[name]
    audio = sound(3, 2.0, of.sample_rate)
    np.testing.assert_allclose(log_mel(audio, of), librosa_log_mel(librosa, audio, of), atol=TOLERANCE)


@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_agrees_with_the_definition(name):
    of = OTHER_SETTINGS[name]
    audio = to_pcm16(sound(4, 1.0, of.sample_rate)) / np.float32(32768)
    np.testing.assert_allclose(log_mel(audio, of), reference_log_mel(audio, of), atol=TOLERANCE)


@pytest.mark.long
def test_agrees_with_librosa_on_real_clips(librosa, ljspeech_mini: Path):
    for path in sorted((ljspeech_mini / "wavs").glob("*.wav")):
        audio = read_audio(path, DEFAULT.sample_rate)
        np.testing.assert_allclose(
            log_mel(audio, DEFAULT), librosa_log_mel(librosa, audio, DEFAULT), atol=TOLERANCE / 2
        )


def test_quiet_high_bands_are_nearer_the_truth_than_by_a_plain_float32_transform():
    time = np.arange(22050) / 22050
    hiss = np.random.default_rng(0).standard_normal(22050)
    audio = (0.5 * np.sin(2 * np.pi * 150 * time) + 2e-5 * hiss).astype(np.float32)
    padded = np.pad(audio, DEFAULT.padding, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 1024)[::256] * np.hanning(1025)[:-1].astype("f4")
    plain = np.log(np.maximum(np.abs(scipy.fft.rfft(frames)) @ mel_filterbank(DEFAULT).T, DEFAULT.log_floor))
    truth = reference_log_mel(audio, DEFAULT)
    error, plain_error = np.abs(log_mel(audio, DEFAULT) - truth), np.abs(plain - truth)
    assert error[:, 60:].mean() < 0.65 * plain_error[:, 60:].mean()


def test_scipys_compiled_transform_is_found_and_gives_scipys_bytes():
    frames = np.random.default_rng(0).standard_normal((9, 1024)).astype(np.float32)
    assert mel._compiled_transform()(frames, axis=1).tobytes() == scipy.fft.rfft(frames, axis=1).tobytes()


def test_a_mel_is_the_same_where_scipy_keeps_its_transform_elsewhere(monkeypatch):
    audio = to_pcm16(sound(4, 1.0, DEFAULT.sample_rate))
    wanted = log_mel(audio, DEFAULT)
    monkeypatch.setattr(mel, "_COMPILED", "scipy.fft.another_module")
    assert mel._Transform(DEFAULT)(audio).tobytes() == wanted.tobytes()


def test_a_mel_does_not_wait_for_all_of_scipy():
    program = (
        "import sys, numpy; from myxtts.audio.mel import MelSettings, log_mel; "
        "log_mel(numpy.zeros(2048, numpy.int16), MelSettings()); assert 'scipy' not in sys.modules; "
        "import scipy.fft; assert scipy.fft.rfft([1.0, 0.0])[1] == 1"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.long
@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_the_filter_bank_is_librosas(librosa, name):
    of = OTHER_SETTINGS[name]
    bands = librosa.filters.mel(sr=of.sample_rate, n_fft=of.n_fft, n_mels=of.n_mels, fmin=of.fmin, fmax=of.fmax)
    assert mel_filterbank(of).shape == (of.n_mels, of.n_fft // 2 + 1)
    np.testing.assert_allclose(mel_filterbank(of), bands, atol=1e-6 * bands.max())


@settings(max_examples=150, deadline=None)
@given(samples=st.integers(0, 4000), name=st.sampled_from(sorted(OTHER_SETTINGS)), pcm=st.booleans())
def test_the_number_of_frames_follows_from_the_number_of_samples(samples, name, pcm):
    of = OTHER_SETTINGS[name]
    audio = np.full(samples, 3, np.int16) if pcm else np.full(samples, 0.1, np.float32)
    assert log_mel(audio, of).shape == (of.frames(samples), of.n_mels)
    assert of.frames(samples) == samples // of.hop_length


def test_frames_are_counted_for_arrays_as_for_numbers():
    samples = np.arange(0, 100_000, 7)
    np.testing.assert_array_equal(DEFAULT.frames(samples), [DEFAULT.frames(int(n)) for n in samples])
    assert isinstance(DEFAULT.frames(1000), int)


@pytest.mark.parametrize("samples", [256, 257, 300, 384, 385, 386, 511, 512, 640, 1023, 1024, 1025])
def test_clips_shorter_than_their_mirror_have_zeros_beyond_it(samples):
    audio = sound(5, 1.0)[:samples]
    mel = log_mel(audio, DEFAULT)
    np.testing.assert_allclose(mel, reference_log_mel(audio, DEFAULT), atol=TOLERANCE)
    assert np.isfinite(mel).all()


def test_sixteen_bit_audio_gives_the_same_bytes_as_float():
    pcm = to_pcm16(sound(6, 1.5))
    assert log_mel(pcm, DEFAULT).tobytes() == log_mel(pcm / np.float32(32768), DEFAULT).tobytes()


def test_audio_may_be_a_view_with_strides_and_read_only():
    audio = sound(7, 1.0)
    backwards = audio[::-1].copy()[::-1]
    backwards.setflags(write=False)
    assert log_mel(backwards, DEFAULT).tobytes() == log_mel(audio, DEFAULT).tobytes()


def test_silence_is_exactly_the_padding_value():
    mel = log_mel(np.zeros(10_000, np.float32), DEFAULT)
    assert (mel == np.float32(DEFAULT.padding_value)).all()
    assert DEFAULT.padding_value == np.float32(np.log(1e-5))


def test_nothing_lies_below_the_padding_value():
    of = MelSettings(log_floor=0.05)
    mel = log_mel(sound(8, 1.0), of)
    assert mel.min() == np.float32(of.padding_value)
    assert mel.max() > of.padding_value


def test_a_frame_does_not_depend_on_where_in_the_clip_it_lies():
    audio = sound(9, 4.0)
    whole = log_mel(audio, DEFAULT)
    for first in (1, 17, 63, 64, 100):
        part = log_mel(audio[first * 256 :], DEFAULT)
        np.testing.assert_allclose(part[4:], whole[first + 4 :], atol=2e-4)


def test_a_clip_gives_the_same_bytes_after_any_other():
    first, second = sound(10, 1.3), sound(11, 0.4)
    alone = log_mel(first, DEFAULT).tobytes()
    log_mel(second, DEFAULT)
    log_mel(first, OTHER_SETTINGS["few bands"])
    assert log_mel(first, DEFAULT).tobytes() == alone


def test_threads_give_the_same_bytes_as_one():
    clips = [sound(seed, 0.5 + 0.1 * seed) for seed in range(12)]
    expected = [log_mel(clip, DEFAULT).tobytes() for clip in clips]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda clip: log_mel(clip, DEFAULT).tobytes(), clips * 3)) == expected * 3


@pytest.mark.long
def test_the_bytes_do_not_depend_on_the_threads_of_the_numerical_libraries():
    program = (
        "import hashlib; from speech_like import sound; from mel_reference import OTHER_SETTINGS\n"
        "from myxtts.audio.mel import log_mel\n"
        "for name, of in OTHER_SETTINGS.items():\n"
        "    mel = log_mel(sound(1, 3.0, of.sample_rate), of)\n"
        "    print(name, hashlib.sha256(mel.tobytes()).hexdigest())\n"
    )
    printed = []
    for threads in ("1", "2", "8"):
        environment = {"PYTHONPATH": str(Path(__file__).parent), "OPENBLAS_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(done.stdout)
    assert printed[0] == printed[1] == printed[2]
    assert len(printed[0].splitlines()) == len(OTHER_SETTINGS)


def test_audio_with_channels_is_refused():
    with pytest.raises(ValueError, match="one dimension"):
        log_mel(np.zeros((2, 1000), np.float32), DEFAULT)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sample_rate": 0}, "sample_rate should be at least 1"),
        ({"n_mels": 0}, "n_mels should be at least 1"),
        ({"win_length": 2048}, r"win_length should be at most n_fft \(1024\) \(got 2048\)"),
        ({"hop_length": 255}, "hop_length should be n_fft .* less an even number"),
        ({"hop_length": 2048}, "hop_length"),
        ({"fmax": 12000.0}, r"mel_fmax should be above 0 and at most 11025 \(got 12000\)"),
        ({"fmin": 8000.0}, "mel_fmin should be from 0 to below mel_fmax"),
        ({"fmin": -1.0}, "mel_fmin"),
        ({"log_floor": 0.0}, "log_floor should be from 1e-30 to 1"),
        ({"log_floor": float("nan")}, "log_floor"),
        ({"trim_db": 0.0}, "trim_db should be above 0"),
        ({"n_mels": 300}, "n_mels: no Fourier bin lies in band"),
    ],
)
def test_a_setting_out_of_range_is_named(values, message):
    with pytest.raises(ConfigError, match=message):
        MelSettings(**values)


def test_settings_come_from_the_configuration():
    config = DataConfig(
        sample_rate=24000,
        n_fft=2048,
        win_length=1200,
        hop_length=512,
        n_mels=100,
        mel_fmin=20.0,
        mel_fmax=12000.0,
        log_floor=1e-4,
        trim_silence=True,
        trim_db=33.0,
    )
    expected = MelSettings(24000, 2048, 1200, 512, 100, 20.0, 12000.0, 1e-4, True, 33.0)
    assert MelSettings.from_config(config) == expected
    assert MelSettings.from_config(DataConfig()) == DEFAULT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sample_rate", 24000),
        ("n_fft", 2048),
        ("win_length", 800),
        ("hop_length", 128),
        ("n_mels", 64),
        ("fmin", 10.0),
        ("fmax", 7600.0),
        ("log_floor", 1e-4),
        ("trim_silence", True),
    ],
)
def test_every_setting_is_in_the_fingerprint(field, value):
    assert dataclasses.replace(DEFAULT, **{field: value}).fingerprint() != DEFAULT.fingerprint()


def test_the_level_of_silence_is_in_the_fingerprint_only_where_it_has_an_effect():
    assert MelSettings(trim_db=20).fingerprint() == DEFAULT.fingerprint()
    trimming = MelSettings(trim_silence=True)
    assert MelSettings(trim_silence=True, trim_db=20).fingerprint() != trimming.fingerprint()


def test_settings_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(DEFAULT)) == DEFAULT
