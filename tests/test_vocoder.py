"""Griffin-Lim: sound whose mel is the mel it was given."""

from __future__ import annotations

import numpy as np
import pytest
from speech_like import RATE, sound

from myxtts.audio.mel import MelSettings, log_mel, mel_filterbank
from myxtts.runtime.griffin_lim import GriffinLim

SETTINGS = MelSettings()


@pytest.fixture(scope="module")
def vocoder() -> GriffinLim:
    return GriffinLim(SETTINGS)


def difference(audio: np.ndarray, mel: np.ndarray) -> float:
    """Mean absolute difference of the natural-log mels."""
    return float(np.abs(log_mel(audio, SETTINGS) - mel).mean())


def test_the_mel_of_the_sound_is_the_mel_it_was_made_from(vocoder):
    mel = log_mel(sound(3, 0.6), SETTINGS)
    assert difference(vocoder(mel), mel) < 0.3


def test_the_mel_of_real_speech_comes_back(vocoder, ljspeech_mini):
    from myxtts.audio.reading import read_audio

    audio = read_audio(sorted((ljspeech_mini / "wavs").iterdir())[0], RATE)
    mel = log_mel(audio, SETTINGS)
    assert difference(vocoder(mel), mel) < 0.15


def test_momentum_gets_nearer_in_as_many_iterations():
    mel = log_mel(sound(3, 0.6), SETTINGS)
    fast, plain = (GriffinLim(SETTINGS, momentum=momentum) for momentum in (0.99, 0.0))
    assert difference(fast(mel), mel) < difference(plain(mel), mel)


def test_more_iterations_get_nearer():
    mel = log_mel(sound(3, 0.6), SETTINGS)
    few, many = (GriffinLim(SETTINGS, iterations=iterations) for iterations in (4, 32))
    assert difference(many(mel), mel) < difference(few(mel), mel)


@pytest.mark.parametrize("frames", [1, 2, 7, 60])
def test_any_number_of_frames_gives_so_many_hops_of_finite_sound(vocoder, frames):
    audio = vocoder(np.full((frames, SETTINGS.n_mels), -4.0, np.float32))
    assert audio.shape == (frames * SETTINGS.hop_length,)
    assert audio.dtype == np.float32
    assert np.isfinite(audio).all()


def test_no_frames_are_no_sound(vocoder):
    assert vocoder(np.zeros((0, SETTINGS.n_mels), np.float32)).shape == (0,)


def test_a_stream_is_one_piece(vocoder):
    mel = log_mel(sound(3, 0.4), SETTINGS)
    (piece,) = vocoder.stream(mel, 10)
    np.testing.assert_array_equal(piece, vocoder(mel))


def test_the_floor_is_silence(vocoder):
    audio = vocoder(np.full((50, SETTINGS.n_mels), SETTINGS.padding_value, np.float32))
    assert np.abs(audio).max() < 1e-3


def test_the_same_mel_gives_the_same_sound(vocoder):
    mel = log_mel(sound(1, 0.4), SETTINGS)
    np.testing.assert_array_equal(vocoder(mel), vocoder(mel))


def test_magnitudes_are_not_negative_and_have_the_mel_asked_for(vocoder):
    mel = np.exp(log_mel(sound(2, 1.0), SETTINGS))
    magnitude = vocoder._magnitude(mel)
    assert (magnitude >= 0).all()
    error = np.abs(magnitude @ mel_filterbank(SETTINGS).T - mel).sum() / mel.sum()
    assert error < 0.02


@pytest.mark.parametrize(
    "settings",
    [
        MelSettings(sample_rate=16000, n_fft=512, win_length=400, hop_length=160, n_mels=40, fmax=8000.0),
        MelSettings(n_fft=1024, win_length=1024, hop_length=300, n_mels=64),
    ],
    ids=["16 kHz with a short window", "a hop that does not divide the window"],
)
def test_other_settings_work(settings):
    audio = sound(3, 1.0, settings.sample_rate)
    mel = log_mel(audio, settings)
    made = GriffinLim(settings)(mel)
    assert len(made) == len(mel) * settings.hop_length
    assert np.abs(log_mel(made, settings) - mel).mean() < 0.5
