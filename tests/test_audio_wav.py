"""16-bit PCM WAV files, found in Python and decoded in graph by the same rules."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from wav_bytes import FLOAT_GUID, PCM_GUID, chunk, wav

from myxtts.audio.reading import read_pcm16
from myxtts.audio.wav import read_pcm16_header
from myxtts.audio.wav_tf import decode_pcm16
from myxtts.data.clips import Clip
from myxtts.data.clips.audio_headers import probe_audio

RATE = 22050
SAMPLES = np.random.default_rng(0).integers(-32768, 32768, 1001, dtype=np.int16)
STEREO = np.random.default_rng(1).integers(-32768, 32768, (500, 2), dtype=np.int16)
SURROUND = np.random.default_rng(2).integers(-32768, 32768, (300, 6), dtype=np.int16)
LIST = chunk(b"LIST", b"INFOISFT\x05\0\0\0Lavf\0\0")
ODD = chunk(b"note", b"seven b")

READABLE = {
    "plain": (wav(SAMPLES), SAMPLES),
    "extensible": (wav(SAMPLES, guid=PCM_GUID), SAMPLES),
    "a chunk before the data": (wav(SAMPLES, before_data=LIST), SAMPLES),
    "an odd chunk before the data": (wav(SAMPLES, before_data=ODD), SAMPLES),
    "a chunk before the format": (wav(SAMPLES, before_fmt=ODD), SAMPLES),
    "a large chunk before the data": (wav(SAMPLES, before_data=chunk(b"junk", bytes(70000))), SAMPLES),
    "chunks after the data": (wav(SAMPLES, after_data=LIST + ODD), SAMPLES),
    "a second data chunk": (wav(SAMPLES, after_data=chunk(b"data", bytes(20))), SAMPLES),
    "the data before the format": (wav(SAMPLES, data_first=True), SAMPLES),
    "an unknown data size": (wav(SAMPLES, data_size=0xFFFFFFFF), SAMPLES),
    "sox's unknown data size": (wav(SAMPLES, data_size=0x7FFFF000), SAMPLES),
    "a data size that counts the header": (wav(SAMPLES, data_size=2 * len(SAMPLES) + 44), SAMPLES),
    "a data size below the rest": (wav(SAMPLES, data_size=200), SAMPLES[:100]),
    "half a sample at the end": (wav(SAMPLES.tobytes() + b"\x01"), SAMPLES),
    "two channels": (wav(STEREO, channels=2), None),
    "two channels, extensible": (wav(STEREO, channels=2, guid=PCM_GUID), None),
    "six channels": (wav(SURROUND, channels=6), None),
    "half a frame at the end": (wav(STEREO.tobytes() + b"\x01\x02", channels=2), None),
    "one sample": (wav(SAMPLES[:1]), SAMPLES[:1]),
    "another rate": (wav(SAMPLES, rate=44100), SAMPLES),
}
BEYOND_LIBSNDFILE = {"a second data chunk", "the data before the format"}
NOT_READABLE = {
    "nothing": b"",
    "one byte": b"R",
    "text": b"this is not audio " * 10,
    "zeros": bytes(1000),
    "a RIFF file of another form": wav(SAMPLES).replace(b"WAVE", b"AVI "),
    "big-endian": wav(SAMPLES).replace(b"RIFF", b"RIFX"),
    "64-bit": wav(SAMPLES).replace(b"RIFF", b"RF64"),
    "no chunk": b"RIFF\x04\0\0\0WAVE",
    "no data": wav(SAMPLES)[:36],
    "no samples": wav(b""),
    "data size zero": wav(SAMPLES, data_size=0),
    "half a sample": wav(b"\x01"),
    "8 bits": wav(bytes(100), bits=8),
    "24 bits": wav(bytes(99), bits=24),
    "floats": wav(bytes(400), bits=32, kind=3),
    "extensible floats": wav(bytes(400), bits=32, guid=FLOAT_GUID),
    "mu-law": wav(bytes(100), bits=8, kind=7),
    "16 bits of another kind": wav(SAMPLES, kind=2),
    "no channels": wav(SAMPLES, channels=0),
    "no rate": wav(SAMPLES, rate=0),
    "frames of a strange size": wav(SAMPLES, frame_bytes=4),
    "cut off in the data": wav(np.tile(SAMPLES, 3))[:3000],
    "cut off by 66 bytes": wav(SAMPLES)[:-66],
    "cut off in the format": wav(SAMPLES)[:30],
    "cut off in an extensible format": wav(SAMPLES, guid=PCM_GUID, data_first=True)[:-6],
    "cut off in a chunk header": wav(SAMPLES)[:15],
    "cut off before the samples": wav(SAMPLES)[:44],
    "cut off in the only sample": wav(SAMPLES)[:45],
    "a chunk that goes beyond the end": wav(SAMPLES, before_data=b"junk" + struct.pack("<I", 1 << 31)),
    "endless chunks": b"RIFF\0\0\0\0WAVE" + bytes(100_000),
}


@pytest.fixture(scope="module")
def decode() -> tf.types.experimental.ConcreteFunction:
    return tf.function(decode_pcm16).get_concrete_function(tf.TensorSpec([], tf.string))


def is_graph_readable(path: Path, sample_rate: int) -> bool:
    """As the header is judged before training."""
    headers = probe_audio([Clip("clip", str(path), "Hi.", "ann", "en", None, "metadata.csv", 1)], workers=1)
    return bool(headers.graph_readable(sample_rate)[0])


def header_of(contents: bytes):
    return read_pcm16_header(io.BytesIO(contents), len(contents))


@pytest.mark.parametrize("name", READABLE)
def test_graph_decodes_what_python_and_libsndfile_read(name, decode, tmp_path: Path):
    contents, expected = READABLE[name]
    path = tmp_path / "clip.wav"
    path.write_bytes(contents)
    header = header_of(contents)
    audio, sample_rate, channels, ok = decode(tf.constant(contents))
    assert ok
    assert (int(sample_rate), int(channels)) == (header.sample_rate, header.channels)
    assert is_graph_readable(path, header.sample_rate)
    in_python = read_pcm16(path, header.sample_rate)
    np.testing.assert_array_equal(audio.numpy(), in_python)
    if expected is not None:
        np.testing.assert_array_equal(in_python, expected)
    if name not in BEYOND_LIBSNDFILE:
        reference, _ = soundfile.read(path, dtype="int16", always_2d=True)
        np.testing.assert_array_equal(in_python, np.rint(reference.mean(axis=1)).astype(np.int16))


@pytest.mark.parametrize("name", NOT_READABLE)
def test_graph_says_no_instead_of_failing(name, decode, tmp_path: Path):
    contents = NOT_READABLE[name]
    path = tmp_path / "clip.wav"
    path.write_bytes(contents)
    audio, sample_rate, channels, ok = decode(tf.constant(contents))
    assert not ok
    assert (audio.shape, int(sample_rate), int(channels)) == ((0,), 0, 0)
    assert not is_graph_readable(path, RATE)


def test_a_missing_file_is_not_graph_readable(tmp_path: Path):
    assert not is_graph_readable(tmp_path / "absent.wav", RATE)


def test_another_sample_rate_is_not_graph_readable(tmp_path: Path):
    path = tmp_path / "clip.wav"
    path.write_bytes(wav(SAMPLES, rate=44100))
    assert is_graph_readable(path, 44100)
    assert not is_graph_readable(path, RATE)


def test_channels_are_averaged_and_rounded_half_to_even(decode):
    pairs = np.array([[0, 1], [1, 2], [-1, 0], [-2, -1], [32767, 32767], [-32768, -32768], [7, -7]], np.int16)
    audio, _, _, _ = decode(tf.constant(wav(pairs, channels=2)))
    assert audio.numpy().tolist() == [0, 2, 0, -2, 32767, -32768, 0]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_are_judged_alike_in_graph_and_in_python(decode, data):
    damaged = bytearray(data.draw(st.sampled_from([case[0] for case in READABLE.values()]))[:4000])
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(0, min(len(damaged), 120) - 1))] = data.draw(st.integers(0, 255))
    contents = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    header = header_of(contents)
    readable = header is not None and header.frames > 0 and header.missing_bytes == 0
    audio, sample_rate, channels, ok = decode(tf.constant(contents))
    assert bool(ok) == readable
    if readable:
        assert len(audio) == header.frames
        assert int(channels) == header.channels
        assert int(sample_rate) == np.int64(header.sample_rate).astype(np.int32)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_at_all_are_survived(decode, contents):
    assert not decode(tf.constant(contents))[3]
    assert not decode(tf.constant(b"RIFF" + contents))[3] or header_of(b"RIFF" + contents) is not None


def test_a_pipeline_goes_on_past_broken_files(tmp_path: Path):
    paths = []
    for number, contents in enumerate([wav(SAMPLES), b"broken", wav(SAMPLES[:5]), b""]):
        paths.append(str(tmp_path / f"{number}.wav"))
        Path(paths[-1]).write_bytes(contents)
    files = tf.data.Dataset.from_tensor_slices(paths).map(tf.io.read_file)
    lengths = [len(audio) for audio, _, _, _ in files.map(decode_pcm16)]
    assert lengths == [1001, 0, 5, 0]


def test_no_python_function_is_in_the_graph(decode):
    definition = decode.graph.as_graph_def()
    nodes = list(definition.node)
    for function in definition.library.function:
        nodes.extend(function.node_def)
    assert not [node.op for node in nodes if "PyFunc" in node.op]


def test_real_clips_are_graph_readable(ljspeech_mini: Path, decode):
    paths = sorted((ljspeech_mini / "wavs").glob("*.wav"))
    assert len(paths) == 16
    for path in paths:
        assert is_graph_readable(path, RATE)
        audio, _, _, ok = decode(tf.constant(path.read_bytes()))
        assert ok
        np.testing.assert_array_equal(audio.numpy(), soundfile.read(path, dtype="int16")[0])
