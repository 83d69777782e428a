"""Exporting: bundles say what their checkpoints say, and what does not is not written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from exported_voices import Silence, small_voice
from speech_like import RATE, sound

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, ExportError, UsageError, VocoderError
from myxtts.export import conversion
from myxtts.export import export as exporting
from myxtts.export.export import export_voice
from myxtts.export.options import ExportOptions
from myxtts.inference import XTTSInference
from myxtts.inference import vocoder as choosing
from myxtts.models.checkpoint import VOCODER, new_checkpoint, read_checkpoint, write_model
from myxtts.models.harmonic_vocoder import HarmonicVocoder, VocoderSizes
from myxtts.models.hifi_gan import HifiGan
from myxtts.models.vocoder_folder import write_vocoder
from myxtts.models.vocos import Vocos
from myxtts.runtime import bundle as bundles
from myxtts.runtime.bundle import Bundle, is_bundle, read_bundle
from myxtts.runtime.graphs import GraphNames

MyXTTS = Callable[..., subprocess.CompletedProcess[str]]
# With odd and even numbers of symbols and, by the speed, of frames.
TEXTS = {
    "en": ("Hello there, you out there.", "Fine.", "So it is!"),
    "fa": ("سلام دنیا.", "حال شما چطور است؟"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exported")


@pytest.fixture(scope="module")
def vocoder(folder: Path) -> Path:
    """A vocoder of our own, as small as can be."""
    model = HarmonicVocoder(VocoderSizes(width=8, blocks=1, pitch_width=8, pitch_blocks=1), MelSettings())
    generator = np.random.default_rng(0)
    model.set_weights([weight + generator.normal(0, 0.05, weight.shape) for weight in model.get_weights()])
    with new_checkpoint(folder / "vocoder") as new:
        write_model(new, model, XTTSConfig(), kind=VOCODER)
    return folder / "vocoder"


@pytest.fixture(scope="module")
def reference(folder: Path) -> Path:
    path = folder / "me.wav"
    soundfile.write(path, sound(5, 2.5), RATE)
    return path


@pytest.fixture(scope="module")
def checkpoints(folder: Path) -> dict[str, Path]:
    return {decoder: small_voice(folder / decoder, decoder) for decoder in ("regression", "flow")}


@pytest.fixture(scope="module")
def bundled(checkpoints: dict[str, Path], vocoder: Path, reference: Path, folder: Path) -> Path:
    """The regression decoder's voice, with a vocoder and a further voice."""
    options = ExportOptions(str(vocoder), voices={"me": reference})
    export_voice(read_checkpoint(checkpoints["regression"]), folder / "bundle", options)
    return folder / "bundle"


@pytest.fixture(scope="module")
def original(checkpoints: dict[str, Path]) -> XTTSInference:
    """The regression decoder's voice by TensorFlow."""
    return XTTSInference(checkpoints["regression"], vocoder=Silence())


@pytest.fixture
def known_conversions(bundled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the bundle has is not converted again."""

    def convert(function: object, names: GraphNames, path: Path, quantized: bool = False) -> None:
        if quantized or not (bundled / path.name).exists():
            conversion.convert(function, names, path, quantized)
        else:
            path.write_bytes((bundled / path.name).read_bytes())

    monkeypatch.setattr(exporting, "convert", convert)


def export(checkpoint: Path, output: Path, **options: Any) -> Path:
    export_voice(read_checkpoint(checkpoint), output, ExportOptions(**{"vocoder": "griffin-lim", **options}))
    return output


def difference(original: XTTSInference, bundle: Path) -> float:
    """The largest difference of the mels of both; their alignments are the same."""
    exported = XTTSInference(bundle, vocoder=Silence())
    lengths, largest = set(), 0.0
    for language, texts in TEXTS.items():
        for text in texts:
            for speed in (0.9, 1.0, 1.3):
                wanted, found = (
                    next(speaker.stream(text, language=language, speed=speed, seed=3))
                    for speaker in (original, exported)
                )
                np.testing.assert_array_equal(wanted.alignment, found.alignment)
                lengths.add(len(wanted.mel) % 2)
                largest = max(largest, float(np.abs(wanted.mel - found.mel).max()))
    assert lengths == {0, 1}
    return largest


def test_a_bundle_says_what_its_checkpoint_says(original, bundled):
    assert difference(original, bundled) < 1e-4


def test_a_bundle_sounds_as_its_checkpoint_with_the_same_vocoder(original, bundled, vocoder):
    speaker = XTTSInference(bundled)
    (utterance,) = speaker.synthesize("Hello there, you out there.").utterances
    wanted = choosing.create_vocoder(vocoder, MelSettings())(utterance.mel)
    np.testing.assert_allclose(utterance.audio, np.clip(wanted, -1, 1), atol=1e-3)


def test_a_bundle_hears_the_voice_that_its_checkpoint_hears(original, bundled, reference):
    speaker = XTTSInference(bundled, vocoder=Silence())
    np.testing.assert_allclose(speaker.voice(reference), original.voice(reference), atol=1e-4)
    assert speaker.voices == ("default", "me")
    np.testing.assert_allclose(speaker.named_voice("me"), original.voice(reference), atol=1e-4)
    assert speaker.languages == original.languages == ("en", "fa")


@pytest.mark.usefixtures("known_conversions")
def test_the_flow_decoder_is_exported_with_its_steps_and_seeds_as_options(checkpoints, folder):
    bundle = export(checkpoints["flow"], folder / "flow-bundle")
    assert difference(XTTSInference(checkpoints["flow"], vocoder=Silence()), bundle) < 1e-4
    config = read_bundle(bundle).config
    more_steps = config.model_copy(update={"model": config.model.model_copy(update={"flow_steps": 5})})
    few, many = (XTTSInference(bundle, one, Silence()) for one in (config, more_steps))
    mel = next(few.stream("Fine.", seed=1)).mel
    assert not np.allclose(mel, next(few.stream("Fine.", seed=2)).mel)
    assert not np.allclose(mel, next(many.stream("Fine.", seed=1)).mel)


@pytest.mark.usefixtures("known_conversions")
def test_a_decoder_of_8_bits_keeps_the_timing_and_nearly_the_mel(checkpoints, original, bundled, folder):
    bundle = export(checkpoints["regression"], folder / "small-bundle", quantized=True)
    assert 1e-6 < difference(original, bundle) < 0.3
    assert (bundle / "decoder.onnx").stat().st_size != (bundled / "decoder.onnx").stat().st_size


def test_litert_says_the_same(checkpoints, original, folder):
    bundle = export(checkpoints["regression"], folder / "litert-bundle", runs_with="litert")
    assert {file.suffix for file in bundle.iterdir()} == {".tflite", ".npz", ".json", ".md"}
    assert difference(original, bundle) < 1e-4


def test_a_saved_model_has_signatures_to_speak_to_clone_and_to_vocode(checkpoints, vocoder, folder):
    bundle = export(checkpoints["flow"], folder / "saved", runs_with="saved-model", vocoder=str(vocoder))
    signatures = tf.saved_model.load(str(bundle / "1")).signatures
    assert set(signatures) == {"speak", "voice", "vocode"}
    spoken = signatures["speak"](
        tokens=tf.constant([1, 5, 9]),
        language=tf.constant(0),
        voice=tf.zeros([8]),
        speed=tf.constant(1.0),
        seed=tf.constant([0, 0]),
    )
    audio = signatures["vocode"](mel=spoken["mel"])["audio"]
    assert len(audio) == 256 * len(spoken["mel"]) == 256 * len(spoken["alignment"])
    with pytest.raises(CheckpointError, match="for saved-model"):
        read_bundle(bundle)


def test_a_bundle_describes_itself_and_keeps_the_paths_of_the_machine_to_itself(bundled):
    manifest = json.loads((bundled / "manifest.json").read_text("utf-8"))
    assert manifest["format"] == 1
    assert manifest["settings"]["mel_definition"] == 1
    assert manifest["agreement"]["difference"] < 1e-4
    assert "dataset_path" not in manifest["config"]
    readme = (bundled / "README.md").read_text("utf-8")
    assert "| voices | default, me |" in readme
    assert "pip install myxtts\n" in readme  # letters need no extra


@pytest.mark.usefixtures("known_conversions")
def test_a_lexicon_travels_with_the_bundle(tmp_path):
    (tmp_path / "names.tsv").write_text("Who\thuː\n", encoding="utf-8")
    checkpoint = small_voice(tmp_path / "voice", "regression", lexicons={"en": str(tmp_path / "names.tsv")})
    bundle = export(checkpoint, tmp_path / "bundle")
    (tmp_path / "names.tsv").unlink()
    assert read_bundle(bundle).config.data.lexicons == {"en": str(bundle / "lexicon-en.tsv")}


@pytest.mark.usefixtures("known_conversions")
def test_what_disagrees_is_refused_and_leaves_nothing(tmp_path):
    louder = small_voice(tmp_path / "louder", "regression", mean=0.1)
    with pytest.raises(
        ExportError, match=r"differently from the model: the mel differs by 0\.\d+ \(at most 0\.0001\)"
    ):
        export(louder, tmp_path / "bundle")
    assert [path.name for path in tmp_path.iterdir()] == ["louder"]


def test_graphs_that_fail_are_refused(bundled, tmp_path, monkeypatch):
    def copy_voice(function, names, path, quantized=False):
        path.write_bytes((bundled / "voice.onnx").read_bytes())

    monkeypatch.setattr(exporting, "convert", copy_voice)
    with pytest.raises(ExportError, match="the exported voice fails for an input of length 1: "):
        export(small_voice(tmp_path / "voice", "regression"), tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs_with": "torch"}, "should be one of onnx, litert, saved-model"),
        ({"runs_with": "saved-model", "quantized": True}, "choose --format onnx or litert"),
        ({"voices": {"default": Path("me.wav")}}, "and not 'default'"),
        ({"voices": {"../me": Path("me.wav")}}, "a name of letters"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        ExportOptions(**options)


def test_a_folder_of_something_else_is_not_replaced(checkpoints, tmp_path):
    with pytest.raises(UsageError, match="exists, and is not a bundle"):
        export(checkpoints["regression"], tmp_path)


def test_a_vocoder_in_a_file_is_copied_as_it_is(checkpoints, tmp_path, bundled):
    onnx = pytest.importorskip("onnx")
    weights = np.full((256, 80, 1), 1e-3, np.float32)
    value = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Conv", ["mel", "weights"], ["levels"]),
        onnx.helper.make_node("Transpose", ["levels"], ["turned"], perm=[0, 2, 1]),
        onnx.helper.make_node("Reshape", ["turned", "shape"], ["audio"]),
    ]
    constants = [
        onnx.numpy_helper.from_array(weights, "weights"),
        onnx.numpy_helper.from_array(np.array([1, -1]), "shape"),
    ]
    inputs = [value("mel", onnx.TensorProto.FLOAT, [1, 80, None])]
    outputs = [value("audio", onnx.TensorProto.FLOAT, [1, None])]
    graph = onnx.helper.make_graph(nodes, "levels", inputs, outputs, constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "levels.onnx")
    found = exporting.vocoders.write(tmp_path, tmp_path / "levels.onnx", MelSettings(), ".tflite")
    assert found == {"kind": "file", "file": "vocoder.onnx"}
    assert (tmp_path / "vocoder.onnx").read_bytes() == (tmp_path / "levels.onnx").read_bytes()
    with pytest.raises(VocoderError, match="a bundle"):
        exporting.vocoders.write(tmp_path, bundled, MelSettings(), ".onnx")


def test_the_vocoder_of_a_bundle_can_be_used_alone(bundled, vocoder):
    mel = log_mel(sound(1, 1.0), MelSettings())
    alone, original = (choosing.create_vocoder(path, MelSettings()) for path in (bundled, vocoder))
    np.testing.assert_allclose(alone(mel), original(mel), atol=1e-3)
    with pytest.raises(VocoderError, match="n_mels is 80 in the vocoder and 40 here"):
        choosing.create_vocoder(bundled, MelSettings(n_mels=40))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("plan.onnx", b"", r"plan\.onnx: not what was saved; the bundle is damaged"),
        ("voices.npz", None, r"voices\.npz: missing; the bundle is damaged"),
        ("manifest.json", b"{", r"manifest\.json: cannot be read .* the bundle is damaged"),
        ("manifest.json", b'{"format": 9, "myxtts": "9.0"}', "bundle format 9, this version reads 1"),
    ],
)
def test_a_damaged_bundle_is_named(bundled, tmp_path, name, content, message):
    for file in bundled.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        XTTSInference(tmp_path)


def test_a_bundle_for_other_texts_is_refused(bundled, monkeypatch):
    monkeypatch.setattr("myxtts.text.tokenizer.SYMBOLS_VERSION", 99)
    with pytest.raises(CheckpointError, match="symbol_table is 1 in the bundle and 99 here"):
        read_bundle(bundled)


@pytest.mark.usefixtures("known_conversions")
def test_the_command_exports_and_replaces_a_bundle(call_myxtts: MyXTTS, checkpoints, tmp_path):
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / bundles.MANIFEST).write_text("{}")
    arguments = ["--checkpoint", checkpoints["regression"], "--output", tmp_path / "bundle"]
    done = call_myxtts("export", *arguments, "--vocoder", "griffin-lim", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["format"] == "onnx"
    assert report["difference"] < 1e-4
    assert is_bundle(tmp_path / "bundle")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--format", "torch"], 2, "should be one of onnx, litert, saved-model"),
        (["--quantize", "all"], 2, "--quantize all: should be decoder"),
        (["--voice", "me"], 2, "should be NAME=FILE"),
        (["--voice", "me=gone.wav"], 1, "gone.wav: there is no such file"),
        (["--vocoder", "gone.onnx"], 2, "gone.onnx: no such file or folder"),
        ([], 1, "nowhere: no such folder"),
    ],
)
def test_what_is_wrong_is_said_before_tensorflow_is_loaded(
    call_myxtts: MyXTTS, checkpoints, tmp_path, arguments, code, message
):
    checkpoint = "nowhere" if not arguments else checkpoints["regression"]
    done = call_myxtts("export", "--checkpoint", checkpoint, "--output", tmp_path / "bundle", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert not (tmp_path / "bundle").exists()


def run_without_train_extra(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = Path(__file__).parent / "without_train_extra.py"
    command = [sys.executable, str(program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_a_bundle_speaks_where_tensorflow_is_not_installed(bundled, checkpoints, original, tmp_path):
    text = ["--text", "Fine.", "--output", tmp_path / "out.wav", "--json"]
    done = run_without_train_extra("synthesize", "--checkpoint", bundled, *text)
    assert done.returncode == 0, done.stderr
    audio, rate = soundfile.read(tmp_path / "out.wav")
    assert len(audio) == len(original.synthesize("Fine.").audio)
    assert json.loads(done.stdout)["sample_rate"] == rate == RATE
    # A checkpoint does not.
    refused = run_without_train_extra("synthesize", "--checkpoint", checkpoints["regression"], *text)
    assert refused.returncode == 2
    assert refused.stderr == "error: this command needs the 'train' extra: pip install 'myxtts[train]'\n"


def test_a_bundle_clones_and_vocodes_where_tensorflow_is_not_installed(bundled, original, reference, tmp_path):
    arguments = ["--text", "سلام دنیا.", "--language", "fa", "--output", tmp_path / "out.wav", "--json"]
    done = run_without_train_extra("clone-voice", "--checkpoint", bundled, "--reference", reference, *arguments)
    assert done.returncode == 0, done.stderr
    wanted = original.synthesize("سلام دنیا.", reference, "fa")
    assert json.loads(done.stdout)["seconds"] == pytest.approx(wanted.seconds, abs=0.001)
    done = run_without_train_extra("vocode", reference, tmp_path / "vocoded.wav", "--vocoder", bundled)
    assert done.returncode == 0, done.stderr
    assert soundfile.info(tmp_path / "vocoded.wav").frames == 2.5 * RATE // 256 * 256


SHORT = MelSettings(sample_rate=8000, n_fft=32, win_length=32, hop_length=8, n_mels=4, fmax=4000.0)


def small_hifi_gan() -> HifiGan:
    return HifiGan(4, 8, (4, 2), (8, 4), 1, (3,), ((1, 3),))


@pytest.mark.parametrize(
    ("network", "suffix"),
    [
        pytest.param(small_hifi_gan, ".onnx", id="hifi-gan"),
        pytest.param(small_hifi_gan, ".tflite", id="hifi-gan litert", marks=pytest.mark.soak),
        pytest.param(lambda: Vocos(4, 8, 16, blocks=1, n_fft=32, hop_length=8), ".onnx", id="vocos"),
    ],
)
def test_an_imported_vocoder_is_converted(network, suffix, tmp_path):
    write_vocoder(tmp_path / "imported", network(), SHORT, "weights.pth")
    description = exporting.vocoders.write(tmp_path, tmp_path / "imported", SHORT, suffix)
    assert description == {"kind": "file", "file": f"vocoder{suffix}"}
    bundle = Bundle(tmp_path, XTTSConfig(), {}, "onnx", (), ("en",), description)
    exporting.vocoders.check(bundle, tmp_path / "imported", SHORT)
