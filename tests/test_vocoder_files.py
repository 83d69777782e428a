"""Vocoders in ONNX and LiteRT files: every layout gives the same sound, and what is no vocoder is refused."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from documents import ROOT
from speech_like import RATE, sound

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.reading import read_audio
from myxtts.errors import MissingExtraError, VocoderError
from myxtts.runtime.vocoder_files import inverse_spectrum, open_vocoder_file

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

HOP, BANDS = 8, 4
SETTINGS = MelSettings(sample_rate=8000, n_fft=32, win_length=32, hop_length=HOP, n_mels=BANDS, fmax=4000.0)
# A small vocoder: a convolution over 7 frames, then HOP samples of each frame.
KERNEL = np.random.default_rng(0).normal(0, 0.2, (6, BANDS, 7)).astype(np.float32)
SYNTHESIS = np.random.default_rng(1).normal(0, 0.2, (6, 1, 2 * HOP)).astype(np.float32)
FREE: Sequence[Any] = (1, BANDS, "frames")

GIVEN = {"mel": (FREE, onnx.TensorProto.FLOAT)}
Node = tuple[str, list[str], list[str], dict[str, Any]]
VOCODER: list[Node] = [
    ("Conv", ["mel", "kernel"], ["hidden"], {"pads": [3, 3]}),
    ("Tanh", ["hidden"], ["bent"], {}),
    ("ConvTranspose", ["bent", "synthesis"], ["audio"], {"strides": [HOP], "pads": [HOP // 2, HOP // 2]}),
]


def write_onnx(
    path: Path,
    nodes: Sequence[Node],
    inputs: dict[str, tuple[Sequence[Any], int]],
    outputs: Sequence[str] = ("audio",),
    metadata: dict[str, str] | None = None,
    **constants: np.ndarray,
) -> Path:
    """An ONNX file of these nodes: operation, inputs, outputs, attributes."""
    constants = {"kernel": KERNEL, "synthesis": SYNTHESIS, **constants}
    used = {name for _, names, _, _ in nodes for name in names}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, names, made, **more) for kind, names, made, more in nodes],
        "vocoder",
        [onnx.helper.make_tensor_value_info(name, kind, shape) for name, (shape, kind) in inputs.items()],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items() if name in used],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.helper.set_model_props(model, metadata or {})
    onnx.save(model, path)
    return path


def small_vocoder(path: Path, shape: Sequence[Any] = FREE, **more: Any) -> Path:
    return write_onnx(path, VOCODER, {"mel": (shape, onnx.TensorProto.FLOAT)}, **more)


def mel(frames: int, bands: int = BANDS) -> np.ndarray:
    return np.random.default_rng(frames).normal(-4, 2, (frames, bands)).astype(np.float32)


def expected(given: np.ndarray) -> np.ndarray:
    """What the small vocoder makes, computed here."""
    padded = np.pad(given, ((3, 3), (0, 0)))
    hidden = np.tanh(sum(padded[k : k + len(given)] @ KERNEL[:, :, k].T for k in range(7)))  # [F, 6]
    audio = np.zeros((len(given) + 1) * HOP, np.float32)
    for frame, piece in enumerate(hidden @ SYNTHESIS[:, 0]):
        audio[frame * HOP : (frame + 2) * HOP] += piece
    return audio[HOP // 2 : -HOP // 2]


@pytest.mark.parametrize(
    ("shape", "before"),
    [
        (FREE, []),
        ((None, BANDS, None), []),
        ((None, None, None), []),
        ((1, "frames", BANDS), [("Transpose", ["given"], ["mel"], {"perm": [0, 2, 1]})]),
        ((None, None, None), [("Transpose", ["given"], ["mel"], {"perm": [0, 2, 1]})]),
        ((BANDS, "frames"), [("Unsqueeze", ["given", "first"], ["mel"], {})]),
        (
            ("frames", BANDS),
            [
                ("Transpose", ["given"], ["turned"], {"perm": [1, 0]}),
                ("Unsqueeze", ["turned", "first"], ["mel"], {}),
            ],
        ),
    ],
    ids=["1BT", "?B?", "???", "1TB", "??? as 1TB", "BT", "TB"],
)
def test_every_layout_of_the_input_is_recognised(shape, before, tmp_path):
    name = "given" if before else "mel"
    path = write_onnx(
        tmp_path / "vocoder.onnx", [*before, *VOCODER], {name: (shape, onnx.TensorProto.FLOAT)}, first=np.array([0])
    )
    vocoder = open_vocoder_file(path, SETTINGS)
    assert vocoder.sample_rate == 8000
    for frames in (1, 20):
        np.testing.assert_allclose(vocoder(mel(frames)), expected(mel(frames)), atol=1e-5)


@pytest.mark.parametrize("shape", [[-1], [1, -1], [1, 1, -1], [1, -1, 1], [-1, 1]])
def test_every_layout_of_the_output_is_recognised(shape, tmp_path):
    last: Node = ("Reshape", ["audio", "shape"], ["out"], {})
    path = write_onnx(
        tmp_path / "vocoder.onnx", [*VOCODER, last], GIVEN, ["out"],
        shape=np.array(shape),
    )  # fmt: skip
    np.testing.assert_allclose(open_vocoder_file(path, SETTINGS)(mel(9)), expected(mel(9)), atol=1e-5)


def test_float16_is_given_float16(tmp_path):
    first = ("Cast", ["given"], ["mel"], {"to": onnx.TensorProto.FLOAT})
    path = write_onnx(tmp_path / "v.onnx", [first, *VOCODER], {"given": (FREE, onnx.TensorProto.FLOAT16)})
    rounded = mel(9).astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(open_vocoder_file(path, SETTINGS)(mel(9)), expected(rounded), atol=1e-5)


@pytest.mark.parametrize("surplus", [-HOP, HOP, 6])
def test_a_fixed_number_of_samples_more_or_less_is_cut_or_padded_at_both_ends(surplus, tmp_path):
    nodes = [*VOCODER[:2], ("ConvTranspose", ["bent", "synthesis"], ["audio"], {"strides": [HOP]})]
    cut = (HOP - surplus) // 2
    nodes.append(("Slice", ["audio", "start", "stop", "axis"], ["out"], {}))
    start, stop, axis = np.array([cut]), np.array([-cut or 2**31]), np.array([2])
    path = write_onnx(tmp_path / "v.onnx", nodes, GIVEN, ["out"], start=start, stop=stop, axis=axis)
    made = open_vocoder_file(path, SETTINGS)(mel(20))
    assert len(made) == 20 * HOP
    np.testing.assert_allclose(made[HOP:-HOP], expected(mel(20))[HOP:-HOP], atol=1e-5)


def test_the_context_is_measured_and_chunks_give_the_samples_of_the_whole(tmp_path):
    vocoder = open_vocoder_file(small_vocoder(tmp_path / "v.onnx"), SETTINGS)
    assert vocoder.context is not None
    assert 4 <= vocoder.context <= 5  # three frames of the convolution, half of the next by the synthesis
    pieces = list(vocoder.stream(mel(100), 9))
    assert [len(piece) // HOP for piece in pieces] == [9, 18, 36, 37]
    np.testing.assert_allclose(np.concatenate(pieces), expected(mel(100)), atol=1e-5)
    np.testing.assert_allclose(vocoder(mel(1500)), expected(mel(1500)), atol=1e-5)


def test_a_network_that_hears_everything_at_once_is_not_cut(tmp_path):
    mean = ("ReduceMean", ["mel"], ["mean"], {"axes": [2]})
    nodes = [
        mean,
        ("Sub", ["mel", "mean"], ["level"], {}),
        ("Conv", ["level", "kernel"], ["hidden"], {"pads": [3, 3]}),
    ]
    path = write_onnx(tmp_path / "v.onnx", [*nodes, *VOCODER[1:]], {"mel": (FREE, onnx.TensorProto.FLOAT)})
    vocoder = open_vocoder_file(path, SETTINGS)
    assert vocoder.context is None
    (piece,) = vocoder.stream(mel(700), 9)
    np.testing.assert_allclose(piece, expected(mel(700) - mel(700).mean(axis=0)), atol=1e-5)


def test_a_fixed_number_of_frames_takes_mels_of_any_length(tmp_path):
    vocoder = open_vocoder_file(small_vocoder(tmp_path / "v.onnx", (1, BANDS, 24)), SETTINGS)
    for frames in (5, 24, 25, 90):
        made = vocoder(mel(frames))
        assert len(made) == frames * HOP
        # In a shorter mel, the last frames hear the silence that completes it.
        inside = slice(0, len(made) if frames >= 24 else (frames - 4) * HOP)
        np.testing.assert_allclose(made[inside], expected(mel(frames))[inside], atol=1e-5)
        np.testing.assert_allclose(np.concatenate(list(vocoder.stream(mel(frames), 4))), made, atol=1e-5)


def test_a_spectrum_becomes_the_sound_it_is_of(tmp_path):
    """As sherpa-onnx's Vocos: magnitude, cosine, sine."""
    nodes: list[Node] = [
        ("Conv", ["mel", "spectral"], ["phase"], {"pads": [3, 3]}),
        ("Exp", ["phase"], ["mag"], {}),
        ("Cos", ["phase"], ["x"], {}),
        ("Sin", ["phase"], ["y"], {}),
    ]
    spectral = np.random.default_rng(2).normal(0, 0.1, (17, BANDS, 7)).astype(np.float32)
    metadata = {"sample_rate": "8000", "hop_length": "8", "n_fft": "32", "model_type": "vocos"}
    path = write_onnx(
        tmp_path / "vocos.onnx", nodes, GIVEN, ["mag", "x", "y"], metadata,
        spectral=spectral,
    )  # fmt: skip
    vocoder = open_vocoder_file(path, SETTINGS)
    padded = np.pad(mel(50), ((3, 3), (0, 0)))
    phase = sum(padded[k : k + 50] @ spectral[:, :, k].T for k in range(7))
    whole = inverse_spectrum(np.exp(phase + 1j * phase), HOP)
    np.testing.assert_allclose(vocoder(mel(50)), whole, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.concatenate(list(vocoder.stream(mel(50), 7))), whole, rtol=1e-4, atol=1e-4)


def test_the_inverse_of_a_recordings_spectrum_is_the_recording():
    audio, n_fft, hop = sound(3, 0.5), 1024, 256
    padded = np.pad(audio[: 40 * hop], (n_fft - hop) // 2)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    frames = np.lib.stride_tricks.sliding_window_view(padded, n_fft)[::hop]
    made = inverse_spectrum(np.fft.rfft(frames * window), hop)
    np.testing.assert_allclose(made, audio[: 40 * hop], atol=1e-5)


# By name: writes a file that is no vocoder for the mels, and what is said of it.
WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "other bands": (
        lambda path: small_vocoder(path, (1, 100, "T")),
        "it takes mel float32 [1, 100, any]; needed: one input of float32 or float16, [1, 4, T] or [1, T, 4]",
    ),
    "several clips": (lambda path: small_vocoder(path, (3, BANDS, "T")), "[3, 4, any]"),
    "a picture": (
        lambda path: write_onnx(
            path,
            [("Identity", ["mel"], ["audio"], {})],
            {"mel": ((1, 1, BANDS, "T"), onnx.TensorProto.FLOAT)},
        ),
        "[1, 1, 4, any]",
    ),
    "bands that the network does not take": (
        lambda path: write_onnx(path, VOCODER, {"mel": ([None] * 3, onnx.TensorProto.FLOAT)}, kernel=KERNEL[:, :3]),
        "it fails on a mel of 4 bands",
    ),
    "a text model": (
        lambda path: write_onnx(
            path, [("Gather", ["kernel", "tokens"], ["audio"], {})], {"tokens": ((1, "T"), onnx.TensorProto.INT64)}
        ),
        "it takes tokens tensor(int64) [1, any]",
    ),
    "two inputs": (
        lambda path: write_onnx(
            path,
            [*VOCODER, ("Add", ["audio", "noise"], ["noisy"], {})],
            {**GIVEN, "noise": ((1,), onnx.TensorProto.FLOAT)},
        ),
        "it takes 2 inputs (mel float32 [1, 4, any], noise float32 [1])",
    ),
    "another hop": (
        lambda path: write_onnx(
            path,
            [*VOCODER[:2], ("ConvTranspose", ["bent", "synthesis"], ["audio"], {"strides": [5], "pads": [5, 6]})],
            GIVEN,
        ),
        "it makes 5 samples of a frame; needed: 8 (hop_length)",
    ),
    "no audio": (lambda path: write_onnx(path, VOCODER, GIVEN, ["bent"]), "it gives [1, 6, 32] for 32 frames"),
    "two outputs": (
        lambda path: write_onnx(path, VOCODER, GIVEN, ["audio", "bent"]),
        "it gives [1, 1, 256], [1, 6, 32] for 32 frames",
    ),
    "three outputs that are no spectrum": (
        lambda path: write_onnx(path, VOCODER, GIVEN, ["audio", "hidden", "bent"]),
        "needed: audio, or magnitude, cosine and sine [1, n_fft / 2 + 1, T]",
    ),
    "one value for all frames": (
        lambda path: write_onnx(
            path, [*VOCODER, ("ReduceMean", ["audio"], ["mean"], {"axes": [2]})], GIVEN, ["mean"]
        ),
        "it gives [1, 1, 1] for 32 frames",
    ),
    "values that are not numbers": (
        lambda path: write_onnx(path, [*VOCODER, ("Log", ["audio"], ["log"], {})], GIVEN, ["log"]),
        "not finite numbers",
    ),
    "too few frames": (lambda path: small_vocoder(path, (1, BANDS, 8)), "it takes exactly 8 frames, too few"),
    "another sample rate": (
        lambda path: small_vocoder(path, metadata={"sample_rate": "16000"}),
        "its sample_rate is 16000; needed: 8000",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_vocoder_for_the_mels_is_refused_in_one_line(name, tmp_path):
    write, message = WRONG[name]
    with pytest.raises(VocoderError) as refused:
        open_vocoder_file(write(tmp_path / "wrong.onnx"), SETTINGS)
    assert str(refused.value).startswith(f"{tmp_path / 'wrong.onnx'}: not a vocoder for these mels: ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["noise.onnx", "noise.tflite", "empty.onnx", "empty.tflite"])
def test_a_damaged_file_is_refused_in_one_line(name, tmp_path):
    (tmp_path / name).write_bytes(b"" if name.startswith("empty") else bytes(range(200)))
    with pytest.raises(VocoderError, match=f"{name}: cannot be read as a ") as refused:
        open_vocoder_file(tmp_path / name, SETTINGS)
    assert "\n" not in str(refused.value)


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    missing = ("onnxruntime", "ai_edge_litert")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find(name))
    for name in ("vocoder.onnx", "vocoder.tflite"):
        (tmp_path / name).touch()
        with pytest.raises(MissingExtraError, match=rf"{name}: a \.\w+ file needs the 'vocoders' extra: pip install"):
            open_vocoder_file(tmp_path / name, SETTINGS)


def small_litert(folder: Path) -> Path:
    """The small vocoder, [1, T, n_mels] → [1, samples], by TensorFlow's converter."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([1, None, BANDS], tf.float32)])
    def speak(given: tf.Tensor) -> tf.Tensor:
        hidden = tf.tanh(tf.nn.conv1d(given, KERNEL.transpose(2, 1, 0), 1, "SAME"))
        return tf.reshape(tf.matmul(hidden, SYNTHESIS[:, 0, :HOP]), [1, -1])

    converter = tf.lite.TFLiteConverter.from_concrete_functions([speak.get_concrete_function()])
    path = folder / "small.tflite"
    path.write_bytes(converter.convert())
    return path


def test_a_litert_file_makes_the_sound_of_the_network_it_was_converted_from(tmp_path):
    vocoder = open_vocoder_file(small_litert(tmp_path), SETTINGS)
    for frames in (1, 33):
        padded = np.pad(mel(frames), ((3, 3), (0, 0)))
        hidden = np.tanh(sum(padded[k : k + frames] @ KERNEL[:, :, k].T for k in range(7)))
        np.testing.assert_allclose(vocoder(mel(frames)), (hidden @ SYNTHESIS[:, 0, :HOP]).ravel(), atol=1e-5)
    np.testing.assert_allclose(np.concatenate(list(vocoder.stream(mel(90), 10))), vocoder(mel(90)), atol=1e-5)


@pytest.mark.long
def test_a_real_hifi_gan_makes_the_mel_it_is_given_in_chunks_as_in_one(hifi_gan, ljspeech_mini):
    settings = MelSettings()
    vocoder = open_vocoder_file(hifi_gan, settings)
    recorded = log_mel(read_audio(sorted((ljspeech_mini / "wavs").iterdir())[0], RATE), settings)[:150]
    whole = vocoder.vocode(recorded)
    assert np.abs(log_mel(whole, settings) - recorded).mean() < 0.4
    np.testing.assert_allclose(np.concatenate(list(vocoder.stream(recorded))), whole, atol=1e-4)


def test_a_real_hifi_gan_is_refused_for_other_mels(hifi_gan):
    with pytest.raises(VocoderError, match=r"takes input float32 \[1, 80, any\]; needed: .*\[1, 100, T\]"):
        open_vocoder_file(hifi_gan, MelSettings(n_mels=100))
    with pytest.raises(VocoderError, match=r"it makes 256 samples of a frame; needed: 200"):
        open_vocoder_file(hifi_gan, MelSettings(hop_length=200))


def test_vocode_with_a_file_needs_no_tensorflow_and_prints_json(run_myxtts, tmp_path):
    vocoder = write_onnx(tmp_path / "v.onnx", VOCODER, GIVEN)
    soundfile.write(tmp_path / "in.wav", sound(1, 1.0), RATE)
    settings = {
        "sample_rate": 8000,
        "n_fft": 32,
        "win_length": 32,
        "hop_length": HOP,
        "n_mels": BANDS,
        "mel_fmax": 4000,
    }
    options = [f"--set={key}={value}" for key, value in settings.items()]
    without = {**os.environ, "PYTHONPATH": f"{Path(__file__).parent / 'without_tensorflow'}:{ROOT}"}
    arguments = ["vocode", "in.wav", "out.wav", "--vocoder", vocoder, *options]
    done = run_myxtts(*arguments, "--json", cwd=tmp_path, env=without)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["vocoder"], result["seconds"], result["sample_rate"]) == ("v.onnx", 1.0, 8000)
    assert done.stderr == ""
    audio, rate = soundfile.read(tmp_path / "out.wav")
    assert (len(audio), rate) == (8000, 8000)
    mels = log_mel(read_audio(tmp_path / "in.wav", 8000), SETTINGS)
    np.testing.assert_allclose(audio, np.clip(expected(mels), -1, 1), atol=1e-4)
