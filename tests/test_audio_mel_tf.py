"""The log-mel in graph: the same numbers as from NumPy, for a clip, for a batch, compiled and not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from mel_reference import OTHER_SETTINGS
from speech_like import sound

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.mel_tf import LogMel
from myxtts.audio.reading import read_pcm16, to_pcm16

DEFAULT = MelSettings()
FLOOR = np.float32(DEFAULT.padding_value)
TOLERANCE = 1e-3
CLIPS = [to_pcm16(sound(seed, seconds)) for seed, seconds in enumerate([0.9, 0.3, 1.2, 0.012, 0.0165, 0.02])]


def padded(clips: list[np.ndarray], samples: int) -> tuple[np.ndarray, np.ndarray]:
    batch = np.zeros((len(clips), samples), clips[0].dtype)
    for row, clip in zip(batch, clips, strict=True):
        row[: len(clip)] = clip
    return batch, np.array([len(clip) for clip in clips], np.int32)


@pytest.fixture(scope="module")
def of_one_clip() -> tf.types.experimental.GenericFunction:
    return tf.function(LogMel(DEFAULT), input_signature=[tf.TensorSpec([None], tf.float32)])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", OTHER_SETTINGS)
def test_one_clip_is_what_numpy_gives(name, compiled):
    of = OTHER_SETTINGS[name]
    audio = sound(2, 1.0, of.sample_rate)
    mel = tf.function(LogMel(of), jit_compile=compiled)(audio)
    assert mel.dtype == tf.float32
    np.testing.assert_allclose(mel, log_mel(audio, of), atol=TOLERANCE)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("clip_by_clip", [False, True])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_each_clip_of_a_padded_batch_is_what_numpy_gives_alone(dtype, clip_by_clip, compiled):
    clips = [clip if dtype == np.int16 else clip / np.float32(32768) for clip in CLIPS]
    audio, lengths = padded(clips, 30_000)
    mel = tf.function(LogMel(DEFAULT, clip_by_clip=clip_by_clip), jit_compile=compiled)(audio, lengths).numpy()
    assert mel.shape == (len(clips), 30_000 // 256, 80)
    for row, clip in zip(mel, clips, strict=True):
        frames = DEFAULT.frames(len(clip))
        np.testing.assert_allclose(row[:frames], log_mel(clip, DEFAULT), atol=TOLERANCE)
        assert (row[frames:] == FLOOR).all()


@pytest.mark.parametrize("compiled", [False, True])
def test_real_clips_are_what_numpy_gives(ljspeech_mini: Path, compiled):
    clips = [read_pcm16(path, 22050) for path in sorted((ljspeech_mini / "wavs").glob("*.wav"))]
    audio, lengths = padded(clips, max(map(len, clips)))
    mel = tf.function(LogMel(DEFAULT), jit_compile=compiled)(audio, lengths).numpy()
    for row, clip in zip(mel, clips, strict=True):
        np.testing.assert_allclose(row[: DEFAULT.frames(len(clip))], log_mel(clip, DEFAULT), atol=TOLERANCE)


@pytest.mark.parametrize("compiled", [False, True])
def test_padding_further_changes_nothing(compiled):
    compute = tf.function(LogMel(DEFAULT), jit_compile=compiled)
    near = compute(*padded(CLIPS, 27_000)).numpy()
    far = compute(*padded(CLIPS, 41_111)).numpy()
    np.testing.assert_allclose(far[:, : near.shape[1]], near, atol=1e-5)
    assert (far[:, near.shape[1] :] == FLOOR).all()


def test_what_lies_beyond_a_clip_is_not_looked_at():
    audio, lengths = padded(CLIPS, 28_000)
    noise = np.random.default_rng(0).integers(-32768, 32768, audio.shape, dtype=np.int16)
    dirty = np.where(np.arange(28_000) < lengths[:, None], audio, noise)
    compute = tf.function(LogMel(DEFAULT))
    np.testing.assert_array_equal(compute(dirty, lengths), compute(audio, lengths))


def test_empty_places_in_a_batch_are_floor_throughout():
    mel = LogMel(DEFAULT)(np.full((3, 2000), 9, np.int16), [0, 2000, 0]).numpy()
    assert (mel[[0, 2]] == FLOOR).all()
    assert (mel[1] > FLOOR).any()


def test_without_lengths_every_clip_fills_the_batch():
    audio = np.stack([CLIPS[0][:5000], CLIPS[2][:5000]])
    mel = tf.function(LogMel(DEFAULT))(audio).numpy()
    for row, clip in zip(mel, audio, strict=True):
        np.testing.assert_allclose(row, log_mel(clip, DEFAULT), atol=TOLERANCE)


def test_one_clip_may_have_a_length():
    audio = np.concatenate([CLIPS[0], np.full(3000, 77, np.int16)])
    mel = LogMel(DEFAULT)(audio, len(CLIPS[0])).numpy()
    frames = DEFAULT.frames(len(CLIPS[0]))
    np.testing.assert_allclose(mel[:frames], log_mel(CLIPS[0], DEFAULT), atol=TOLERANCE)
    assert (mel[frames:] == FLOOR).all()


def test_silence_is_exactly_the_floor():
    assert (LogMel(DEFAULT)(np.zeros(5000, np.int16)).numpy() == FLOOR).all()


@settings(max_examples=80, deadline=None)
@given(samples=st.one_of(st.integers(0, 1300), st.integers(1300, 9000)))
def test_frames_follow_the_formula_and_numpy_for_any_length(of_one_clip, samples):
    audio = sound(12, 1.0)[:samples]
    mel = of_one_clip(audio).numpy()
    assert mel.shape == (DEFAULT.frames(samples), 80)
    np.testing.assert_allclose(mel, log_mel(audio, DEFAULT), atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(0, 2500), min_size=1, max_size=5))
def test_any_lengths_in_a_batch_give_what_numpy_gives(lengths):
    clips = [sound(13 + place, 1.0)[:samples] for place, samples in enumerate(lengths)]
    mel = LogMel(DEFAULT)(*padded(clips, 2600)).numpy()
    for row, clip in zip(mel, clips, strict=True):
        frames = DEFAULT.frames(len(clip))
        np.testing.assert_allclose(row[:frames], log_mel(clip, DEFAULT), atol=TOLERANCE)
        assert (row[frames:] == FLOOR).all()


def test_known_sizes_stay_known():
    function = tf.function(LogMel(DEFAULT))
    audio, lengths = tf.TensorSpec([4, 5120], tf.int16), tf.TensorSpec([4], tf.int32)
    assert function.get_concrete_function(audio, lengths).output_shapes == (4, 20, 80)
    audio, lengths = tf.TensorSpec([None, None], tf.int16), tf.TensorSpec([None], tf.int32)
    assert function.get_concrete_function(audio, lengths).output_shapes.as_list() == [None, None, 80]


def test_sizes_may_be_unknown_while_tracing():
    signature = [tf.TensorSpec([None, None], tf.int16), tf.TensorSpec([None], tf.int64)]
    compute = tf.function(LogMel(DEFAULT), input_signature=signature)
    for clips in (CLIPS[:2], CLIPS[1:]):
        audio, lengths = padded(clips, 28_001)
        np.testing.assert_allclose(
            compute(audio, lengths.astype(np.int64)), LogMel(DEFAULT)(audio, lengths), atol=1e-5
        )


def test_it_works_inside_a_data_pipeline_without_a_python_function():
    audio, lengths = padded(CLIPS, 28_000)
    compiled = tf.function(LogMel(DEFAULT), jit_compile=True)
    source = tf.data.Dataset.from_tensors((audio, lengths))
    for compute in (LogMel(DEFAULT), compiled):
        data = source.map(compute)
        np.testing.assert_allclose(next(iter(data)), compiled(audio, lengths), atol=TOLERANCE)
    definition = tf.function(LogMel(DEFAULT)).get_concrete_function(audio, lengths).graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    assert not [node.op for node in nodes if "PyFunc" in node.op]


@pytest.mark.parametrize("dtype", [tf.int32, tf.string])
def test_audio_of_another_type_is_refused(dtype):
    with pytest.raises(TypeError, match="int16 or floating point"):
        LogMel(DEFAULT)(tf.zeros([1000], tf.int32) if dtype == tf.int32 else tf.fill([10], ""))


def test_audio_of_three_dimensions_is_refused():
    with pytest.raises(ValueError, match="one or two dimensions"):
        LogMel(DEFAULT)(tf.zeros([2, 3, 1000]))
