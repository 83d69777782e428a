"""Silence at the ends of a clip: one definition, in NumPy and in graph, to the sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.audio import mel_tf
from myxtts.audio.mel import MelSettings, trim
from myxtts.audio.reading import read_pcm16

DEFAULT = MelSettings()
TRIMMED = MelSettings(trim_silence=True, trim_db=40)


@pytest.fixture(scope="module")
def trim_in_graph() -> tf.types.experimental.GenericFunction:
    return tf.function(lambda audio: mel_tf.trim(audio, TRIMMED), reduce_retracing=True)


def burst(before: int, loud: int, after: int, quiet: int = 20) -> np.ndarray:
    generator = np.random.default_rng(before + loud + after)
    quiet_part = generator.integers(-quiet, quiet + 1, before + loud + after)
    quiet_part[before : before + loud] = generator.integers(-20_000, 20_000, loud)
    return quiet_part.astype(np.int16)


def test_silence_at_both_ends_is_cut_and_a_margin_kept():
    audio = burst(5000, 8000, 6000)
    kept = trim(audio, TRIMMED)
    start = len(audio) - len(audio[5000 // 256 * 256 - 384 :])
    assert len(kept) <= 8000 + 2 * (384 + 256)
    np.testing.assert_array_equal(kept, audio[start : start + len(kept)])


def test_silence_within_a_clip_stays():
    audio = np.concatenate([burst(3000, 4000, 9000), burst(0, 4000, 3000)])
    assert len(trim(audio, TRIMMED)) > 17_000


def test_trimming_is_off_by_default():
    audio = burst(5000, 8000, 6000)
    assert trim(audio, DEFAULT) is audio
    assert mel_tf.trim(tf.constant(audio), DEFAULT).shape == audio.shape


@pytest.mark.parametrize("samples", [0, 1, 255, 256, 1000])
def test_a_clip_of_zeros_stays_whole(samples, trim_in_graph):
    audio = np.zeros(samples, np.int16)
    assert len(trim(audio, TRIMMED)) == len(trim_in_graph(tf.constant(audio))) == samples


@pytest.mark.parametrize("db", [10.0, 25.0, 60.0])
def test_a_higher_level_of_silence_cuts_more(db):
    fading = (np.exp(-np.arange(40_000) / 4000) * 20_000 * np.sin(np.arange(40_000))).astype(np.int16)
    kept = len(trim(fading, MelSettings(trim_silence=True, trim_db=db)))
    expected = 4000 * db / 20 * np.log(10)
    assert abs(kept - expected - 384) < 300


@settings(max_examples=120, deadline=None)
@given(
    before=st.integers(0, 2000),
    loud=st.integers(1, 2000),
    after=st.integers(0, 2000),
    quiet=st.integers(0, 600),
    pcm=st.booleans(),
)
def test_the_graph_cuts_exactly_where_numpy_cuts(trim_in_graph, before, loud, after, quiet, pcm):
    audio = burst(before, loud, after, quiet)
    if not pcm:
        audio = audio / np.float32(32768)
    np.testing.assert_array_equal(trim_in_graph(tf.constant(audio)), trim(audio, TRIMMED))


def test_real_clips_are_cut_alike(ljspeech_mini: Path, trim_in_graph):
    for path in sorted((ljspeech_mini / "wavs").glob("*.wav")):
        audio = read_pcm16(path, 22050)
        kept = trim(audio, TRIMMED)
        np.testing.assert_array_equal(trim_in_graph(tf.constant(audio)), kept)
        assert 0.9 * len(audio) < len(kept) <= len(audio)
