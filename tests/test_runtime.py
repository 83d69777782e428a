"""Speaking without TensorFlow: the vocoder's parts in NumPy, and a bundle where TensorFlow cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.audio import mel
from myxtts.audio.mel import MelSettings
from myxtts.errors import MissingExtraError, needing_train_extra
from myxtts.models.harmonic_definition import CLASS_PITCHES, CLASSES, NOISE_FRAMES
from myxtts.runtime.chunked_vocoder import LONGEST_PIECE, STREAM_CHUNK
from myxtts.runtime.frame_transform import FrameTransform
from myxtts.runtime.harmonic_speaker import (
    HarmonicGraphs,
    HarmonicSpeaker,
    Source,
    best_path,
    predicted_pitch,
    pulses,
)
from myxtts.runtime.speech_model import SpeechModel

SETTINGS = MelSettings()
BINS = SETTINGS.n_fft // 2 + 1


def pitch_graph(mel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A pitch that rises and falls with the first band, voiced where the second is loud."""
    best = 80 + 20 * np.sin(mel[:, :1])
    scores = -0.5 * ((np.arange(CLASSES) - best) / 3) ** 2
    return scores.astype(np.float32), mel[:, 1] + 5


def filter_graph(mel: np.ndarray, pitch: np.ndarray, voiced: np.ndarray) -> tuple[np.ndarray, ...]:
    gain = np.repeat(mel[:, :1] - 3, BINS, axis=1)
    return gain, gain - 1, np.zeros_like(gain)


@pytest.fixture
def speaker() -> HarmonicSpeaker:
    return HarmonicSpeaker("known", SETTINGS, HarmonicGraphs(pitch_graph, filter_graph, pitch_context=3, context=5))


def mels(frames: int) -> np.ndarray:
    smooth = np.cumsum(np.random.default_rng(0).normal(0, 0.1, (frames, SETTINGS.n_mels)), axis=0) - 5
    return smooth.astype(np.float32)


@pytest.mark.parametrize("frames", [1, 2, 47, 48, 49, 700])
def test_chunks_give_the_samples_of_the_whole(speaker, frames):
    given = mels(frames)
    whole = speaker.vocode(given)
    assert whole.shape == (frames * SETTINGS.hop_length,)
    for pieces in (list(speaker.stream(given)), list(speaker.stream(given, 7))):
        np.testing.assert_allclose(np.concatenate(pieces), whole, atol=1e-4)


def test_the_pitch_of_a_long_mel_is_found_when_the_sound_needs_it():
    asked = []

    def watched(mel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append(len(mel))
        return pitch_graph(mel)

    graphs = HarmonicGraphs(watched, filter_graph, pitch_context=3, context=5)
    next(HarmonicSpeaker("watched", SETTINGS, graphs).stream(mels(5000)))
    assert sum(asked) < 600


def test_pieces_grow(speaker):
    pieces = [len(piece) // SETTINGS.hop_length for piece in speaker.stream(mels(700))]
    assert pieces[:3] == [STREAM_CHUNK, 2 * STREAM_CHUNK, LONGEST_PIECE]
    assert sum(pieces) == 700


def test_a_path_does_not_jump_by_an_octave_for_one_frame():
    scores = np.full((20, CLASSES), -10.0, np.float32)
    scores[:, 50] = 0
    scores[10, 50], scores[10, 110] = -1, 0
    assert best_path(scores).tolist() == [50] * 20


def test_a_path_follows_a_pitch_that_stays_elsewhere():
    scores = np.full((20, CLASSES), -10.0, np.float32)
    scores[:10, 50], scores[10:, 110] = 0, 0
    assert best_path(scores).tolist() == [50] * 10 + [110] * 10


def test_a_pitch_between_classes_is_their_mean():
    scores = np.full((3, CLASSES), -50.0, np.float32)
    scores[:, [60, 61]] = 0
    np.testing.assert_allclose(predicted_pitch(scores), np.sqrt(CLASS_PITCHES[60] * CLASS_PITCHES[61]), rtol=1e-4)


def test_pulses_have_their_pitch():
    frames = 64
    pitch = np.full(frames, 220.0, np.float32)
    phase = (2 * np.pi * 220 * SETTINGS.hop_length / SETTINGS.sample_rate * np.arange(frames)).astype(np.float32)
    train = pulses(Source(pitch, np.ones_like(pitch), phase), SETTINGS)
    assert len(train) == (frames - 1) * SETTINGS.hop_length + SETTINGS.n_fft
    spectrum = np.abs(np.fft.rfft(train * np.hanning(len(train))))
    hertz = np.arange(len(spectrum)) * SETTINGS.sample_rate / len(train)
    for harmonic in (1, 7, 49):
        near = np.abs(hertz - 220 * harmonic) < 100
        assert abs(hertz[near][np.argmax(spectrum[near])] - 220 * harmonic) < 3


@pytest.mark.parametrize("hop", [256, 300])
def test_a_spectrum_gives_its_samples_again(hop):
    settings = MelSettings(hop_length=hop)
    transform = FrameTransform(settings, least_envelope=1e-2)
    samples = np.random.default_rng(0).normal(size=20 * hop + settings.n_fft).astype(np.float32)
    spectrum = transform.analyse(samples)
    found = transform.inside(transform.synthesise(spectrum, transform.envelope(len(spectrum))), len(spectrum))
    first = settings.padding
    inner = slice(2 * settings.n_fft, 3 * settings.n_fft)
    np.testing.assert_allclose(found[inner], samples[first : first + len(found)][inner], atol=1e-4)


def test_noise_repeats_only_after_its_frames(speaker):
    unvoiced = np.full((NOISE_FRAMES + 40, SETTINGS.n_mels), -6, np.float32)
    unvoiced[:, 0] = 3
    frames = speaker.vocode(unvoiced).reshape(-1, SETTINGS.hop_length)
    np.testing.assert_allclose(frames[5:30], frames[NOISE_FRAMES + 5 : NOISE_FRAMES + 30], atol=1e-5)
    assert np.abs(frames[5:30] - frames[35:60]).max() > 1e-3


def test_the_flow_follows_its_velocity_from_noise_of_the_seed():
    def plan(tokens, language, voice, speed):
        frames = len(tokens)
        return np.zeros((frames, 4), np.float32), np.zeros((frames, 2), np.float32), np.arange(frames)

    def velocity(point, time, features, mean, voice):
        return (np.full_like(point, 2 * time),)

    model = SpeechModel({"plan": plan, "velocity": velocity}, padding_value=-100, flow_steps=4)
    tokens, voice = np.arange(5), np.zeros(3)
    still = model.speak(tokens, 0, voice, temperature=0).mel
    np.testing.assert_allclose(still, 0.75 * 2.2 - 5.5, rtol=1e-5)  # the sum of 2t/4 at t = 0, 1/4, 2/4, 3/4
    one, same, other = (model.speak(tokens, 0, voice, seed=(seed, 0)).mel for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_what_needs_the_train_extra_says_so_in_one_line(tmp_path):
    soundfile.write(tmp_path / "in.wav", np.zeros(8000), 22050)
    program = Path(__file__).parent / "without_train_extra.py"
    command = [sys.executable, program, "vocode", tmp_path / "in.wav", tmp_path / "out.wav"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: this command needs the 'train' extra: pip install 'myxtts[train]'\n"
    assert not (tmp_path / "out.wav").exists()


def test_what_else_is_missing_is_not_taken_for_the_extra():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), needing_train_extra("this"):
        import no_such_module  # noqa: F401
    with pytest.raises(MissingExtraError, match=r"this needs the 'train' extra"), needing_train_extra("this"):
        raise ModuleNotFoundError("No module named 'keras.layers'", name="keras.layers")


def test_a_mel_without_scipy_is_the_same_to_rounding(monkeypatch):
    audio = np.random.default_rng(0).normal(0, 0.1, 22050).astype(np.float32)
    wanted = mel._Transform(SETTINGS)(audio)
    for name in ("scipy", "scipy.fft", mel._COMPILED):
        monkeypatch.setitem(sys.modules, name, None)
    np.testing.assert_allclose(mel._Transform(SETTINGS)(audio), wanted, atol=1e-4)
