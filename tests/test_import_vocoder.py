"""Importing HiFi-GAN and Vocos: the same sound as PyTorch makes, and what is said of files of another kind."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

# First, so that `make quick` does not wait for PyTorch either.
pytest.importorskip("tensorflow")
torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

import soundfile  # noqa: E402
from speech_like import RATE, sound  # noqa: E402
from torch_vocoders import Generator, Vocos, make_louder  # noqa: E402

from myxtts.audio.mel import MelSettings, mel_filterbank  # noqa: E402
from myxtts.errors import CheckpointError, MyXTTSError, VocoderError  # noqa: E402
from myxtts.inference.vocoder import create_vocoder  # noqa: E402
from myxtts.models.import_vocoder import import_vocoder, read_state_dict  # noqa: E402
from myxtts.models.vocoder_folder import read_vocoder, write_vocoder  # noqa: E402
from myxtts.runtime.chunked_vocoder import ChunkedVocoder  # noqa: E402

# The networks are tiny: several threads would only wait for each other.
torch.set_num_threads(1)

SETTINGS = MelSettings()
# V3 with fewer channels; V1 with fewer, and with one step less.
SMALL_V3 = {
    "resblock": "2",
    "upsample_rates": [8, 8, 4],
    "upsample_kernel_sizes": [16, 16, 8],
    "upsample_initial_channel": 16,
    "resblock_kernel_sizes": [3, 5, 7],
    "resblock_dilation_sizes": [[1, 2], [2, 6], [3, 12]],
    "num_mels": 80,
}
SMALL_V1 = {
    "resblock": "1",
    "upsample_rates": [8, 8, 4],
    "upsample_kernel_sizes": [16, 16, 8],
    "upsample_initial_channel": 16,
    "resblock_kernel_sizes": [3, 7, 11],
    "resblock_dilation_sizes": [[1, 3, 5]] * 3,
    "num_mels": 80,
}
UNPUBLISHED = {"resblock_kernel_sizes": [3, 5, 9]}
BANDS = "feature_extractor.mel_spec.mel_scale.fb"
# As the files are published.
MEL_KEYS = {"sampling_rate": 22050, "n_fft": 1024, "hop_size": 256, "win_size": 1024, "fmin": 0, "fmax": 8000}
VOCOS_CONFIG = {
    "feature_extractor": {
        "class_path": "vocos.feature_extractors.MelSpectrogramFeatures",
        "init_args": {
            "sample_rate": 22050, "n_fft": 1024, "hop_length": 256, "n_mels": 80,
            "f_min": 0, "f_max": 8000, "mel_scale": "slaney", "norm": "slaney",
        },
    }
}  # fmt: skip


def mel(frames: int) -> np.ndarray:
    return np.random.default_rng(frames).normal(-4, 2, (frames, 80)).astype(np.float32)


def generator(config: dict) -> Generator:
    torch.manual_seed(0)
    network = Generator(config).eval()
    make_louder(network, 1.5)
    return network


def small_vocos(padding: str = "same", n_mels: int = 80) -> Vocos:
    torch.manual_seed(0)
    return Vocos(n_mels, 24, 48, 2, 1024, 256, padding).eval()


def spoken(network, frames: int) -> np.ndarray:
    with torch.no_grad():
        return network(torch.from_numpy(mel(frames).T)[None]).numpy().reshape(-1)


def plain(network) -> dict:
    """The weights as PyTorch before 2.0 named them."""
    names = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    found = {}
    for name, value in network.state_dict().items():
        for new, old in names.items():
            name = name.replace(new, old)
        found[name] = value
    return found


def configuration(folder: Path, values: dict) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(values))
    return path


@pytest.mark.parametrize("config", [SMALL_V1, SMALL_V3], ids=["pairs of convolutions", "dilated ones"])
def test_hifi_gan_makes_the_sound_that_pytorch_makes(config, tmp_path):
    network = generator(config)
    torch.save({"generator": plain(network)}, tmp_path / "g_02500000.pth")
    found = import_vocoder(tmp_path / "g_02500000.pth")
    assert found.settings == SETTINGS
    for frames in (1, 30):
        expected = spoken(network, frames)
        np.testing.assert_allclose(found.network(mel(frames)[None])[0], expected, atol=1e-4)
    assert np.abs(expected).max() > 0.05


def test_dilations_and_mel_settings_come_from_the_configuration(tmp_path):
    config = SMALL_V3 | {
        "upsample_rates": [5, 4, 10],
        "upsample_kernel_sizes": [11, 8, 20],
        "resblock_kernel_sizes": [3, 9],
        "resblock_dilation_sizes": [[1, 3], [2, 4]],
        "num_mels": 40,
    }
    network = generator(config)
    torch.save(network.state_dict(), tmp_path / "other.pt")
    mels = {"sampling_rate": 16000, "n_fft": 800, "hop_size": 200, "win_size": 640, "fmin": 50, "fmax": None}
    found = import_vocoder(tmp_path / "other.pt", configuration(tmp_path, config | mels))
    assert found.settings == MelSettings(16000, 800, 640, 200, 40, 50, 8000)
    with torch.no_grad():
        expected = network(torch.from_numpy(mel(30)[:, :40].T)[None]).numpy()[0, 0]
    np.testing.assert_allclose(found.network(mel(30)[None, :, :40])[0], expected, atol=1e-4)


@pytest.mark.parametrize("padding", ["same", "center"])
def test_vocos_makes_the_sound_that_pytorch_makes(padding, tmp_path):
    network = small_vocos(padding)
    safetensors.save_file(network.state_dict(), tmp_path / "vocos.safetensors")
    found = import_vocoder(tmp_path / "vocos.safetensors", configuration(tmp_path, VOCOS_CONFIG))
    expected = spoken(network, 40)
    made = found.network(mel(40)[None])[0].numpy()
    assert len(made) == 40 * 256
    # Half a hop at either end is not in the audio of a centred transform.
    missing = (len(made) - len(expected)) // 2
    np.testing.assert_allclose(made[missing : len(made) - missing], expected, atol=1e-4 * np.abs(expected).max())
    assert np.abs(expected).max() > 0.01


def test_a_training_checkpoint_of_vocos_is_read_without_its_discriminators(tmp_path):
    network = small_vocos()
    state = network.state_dict() | {"multiperioddisc.convs.0.weight": torch.zeros(3, 3)}
    state[BANDS] = torch.from_numpy(mel_filterbank(SETTINGS).T.copy())
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "last.ckpt")
    found = import_vocoder(tmp_path / "last.ckpt")
    np.testing.assert_allclose(found.network(mel(9)[None])[0], spoken(network, 9), atol=1e-4)


@pytest.mark.parametrize("kind", ["hifi-gan", "vocos"])
def test_chunks_give_the_samples_of_the_whole(kind, tmp_path):
    if kind == "hifi-gan":
        torch.save(generator(SMALL_V1).state_dict(), tmp_path / "weights.pth")
        found = import_vocoder(tmp_path / "weights.pth")
    else:
        torch.save(small_vocos().state_dict(), tmp_path / "weights.pth")
        found = import_vocoder(tmp_path / "weights.pth", configuration(tmp_path, VOCOS_CONFIG))
    write_vocoder(tmp_path / "vocoder", found.network, found.settings, "weights.pth")
    vocoder = create_vocoder(tmp_path / "vocoder", SETTINGS)
    assert isinstance(vocoder, ChunkedVocoder)
    assert len(list(vocoder.stream(mel(530), 512))) == 2
    np.testing.assert_allclose(vocoder(mel(530)), vocoder.vocode(mel(530)), atol=1e-4)
    pieces = list(vocoder.stream(mel(100), 17))
    assert [len(piece) // 256 for piece in pieces] == [17, 34, 49]
    np.testing.assert_allclose(np.concatenate(pieces), vocoder.vocode(mel(100)), atol=1e-4)


def test_the_command_makes_a_folder_that_vocode_takes(call_myxtts, tmp_path):
    safetensors.save_file(generator(SMALL_V3).state_dict(), tmp_path / "hifigan.safetensors")
    soundfile.write(tmp_path / "in.wav", sound(1, 1.0), RATE)
    done = call_myxtts("import-vocoder", tmp_path / "hifigan.safetensors", tmp_path / "vocoder", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) | {"parameters": 0} == {
        "output": str(tmp_path / "vocoder"), "network": "hifi-gan", "parameters": 0, "sample_rate": 22050,
        "n_mels": 80, "hop_length": 256, "mel_fmin": 0.0, "mel_fmax": 8000.0,
    }  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "vocoder").iterdir()) == [
        "checksums.json", "vocoder.json", "weights.npz"
    ]  # fmt: skip
    assert read_vocoder(tmp_path / "vocoder").source == "hifigan.safetensors"
    arguments = "vocode", tmp_path / "in.wav", tmp_path / "out.wav", "--vocoder", tmp_path / "vocoder"
    done = call_myxtts(*arguments)
    assert done.returncode == 0, done.stderr
    assert soundfile.info(tmp_path / "out.wav").frames == RATE // 256 * 256

    done = call_myxtts(*arguments, "--set", "sample_rate=16000", "--set", "mel_fmax=7000")
    assert done.returncode == 1
    assert "sample_rate is 22050 in the vocoder and 16000 here; fmax is 8000" in done.stderr


def test_a_vocoder_is_replaced_only_when_asked_and_nothing_else_is(call_myxtts, tmp_path):
    weights, out = tmp_path / "hifigan.safetensors", tmp_path / "vocoder"
    safetensors.save_file(generator(SMALL_V3).state_dict(), weights)
    (tmp_path / "mine").mkdir()
    assert call_myxtts("import-vocoder", weights, out).returncode == 0
    done = call_myxtts("import-vocoder", weights, out)
    assert (done.returncode, "--force replaces it" in done.stderr) == (2, True)
    assert call_myxtts("import-vocoder", weights, out, "--force").returncode == 0
    done = call_myxtts("import-vocoder", weights, tmp_path / "mine", "--force")
    assert (done.returncode, "choose another name" in done.stderr) == (2, True)


def test_a_damaged_folder_is_found(tmp_path):
    torch.save(generator(SMALL_V3).state_dict(), tmp_path / "weights.pth")
    found = import_vocoder(tmp_path / "weights.pth")
    write_vocoder(tmp_path / "vocoder", found.network, found.settings, "weights.pth")
    weights = tmp_path / "vocoder" / "weights.npz"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"weights\.npz: not what was saved"):
        create_vocoder(tmp_path / "vocoder", SETTINGS)


def wrong_files() -> dict[str, tuple[dict | object, dict | None, str]]:
    """By name: what is saved, its configuration, and what is said."""
    state = generator(SMALL_V3).state_dict()
    vocos = small_vocos().state_dict()
    htk = torch.rand(513, 80)
    return {
        "another network": ({"decoder.weight": torch.zeros(2, 2)}, None, "neither HiFi-GAN"),
        "no tensors": ([1, 2], None, "holds a list"),
        "a missing tensor": ({name: v for name, v in state.items() if name != "ups.1.bias"}, None, "'ups.1.bias'"),
        "one tensor more": (state | {"cond.weight": torch.zeros(1, 1)}, None, "'cond.weight' is not a part"),
        "another shape": (state | {"conv_post.bias": torch.zeros(2)}, None, "'conv_post.bias' is [2]"),
        "a flat first layer": (
            {name: v for name, v in state.items() if "conv_pre" not in name}
            | {"conv_pre.bias": torch.zeros(4), "conv_pre.weight": torch.zeros(4)},
            None, "'conv_pre.weight' is of shape [4]",
        ),
        "unpublished kernels": (generator(SMALL_V3 | UNPUBLISHED).state_dict(), None, "with --config"),
        "rates that do not fit": (state, SMALL_V3 | {"upsample_rates": [8, 8]}, "3 whole numbers"),
        "a rate above the kernel": (state, SMALL_V3 | {"upsample_rates": [8, 8, 12]}, "8 weights for a rate of 12"),
        "another hop": (state, SMALL_V3 | MEL_KEYS | {"hop_size": 300}, "makes 256 samples"),
        "impossible mels": (state, SMALL_V3 | MEL_KEYS | {"fmax": 20000}, "mel_fmax"),
        "mels of another kind": (vocos | {BANDS: htk}, None, "mel bands other than"),
        "mels of an unknown kind": (vocos, None, "mel bands other than"),
        "tokens instead of mels": (vocos | {"backbone.norm.scale.weight": htk}, None, "EnCodec"),
        "another transform": (vocos | {"head.imdct.window": htk}, None, "inverse Fourier transform"),
    }  # fmt: skip


@pytest.mark.parametrize("name", wrong_files())
def test_what_is_not_a_known_vocoder_is_refused_in_one_line(name, tmp_path):
    saved, config, message = wrong_files()[name]
    torch.save(saved, tmp_path / "weights.pth")
    path = None if config is None else configuration(tmp_path, config)
    with pytest.raises(MyXTTSError) as refused:
        import_vocoder(tmp_path / "weights.pth", path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_code_in_a_file_is_not_executed(tmp_path):
    executed = tmp_path / "executed"

    class Harmful:
        def __reduce__(self):
            return Path.touch, (executed,)

    torch.save({"generator": Harmful()}, tmp_path / "harmful.pth")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Harmful(), protocol=2))
    for file in ("harmful.pth", "plain.pt"):
        with pytest.raises(VocoderError, match="weights only"):
            read_state_dict(tmp_path / file)
    assert not executed.exists()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("gone.pth", None, "no such file"),
        ("weights.txt", b"x", "should be a file of weights"),
        ("empty.pth", b"", "cannot be read as a file of weights only"),
        ("noise.pt", b"\x80\x02noise", "cannot be read as a file of weights only"),
        ("noise.safetensors", b"noise", "cannot be read as a safetensors file"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(file, content, message, call_myxtts, tmp_path):
    if content is not None:
        (tmp_path / file).write_bytes(content)
    done = call_myxtts("import-vocoder", tmp_path / file, tmp_path / "out")
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_damaged_configuration_is_refused(tmp_path):
    torch.save(generator(SMALL_V3).state_dict(), tmp_path / "weights.pth")
    for content in ("[1, 2", "[1, 2]"):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(MyXTTSError, match=r"config\.json"):
            import_vocoder(tmp_path / "weights.pth", tmp_path / "config.json")
    with pytest.raises(MyXTTSError, match="No such file"):
        import_vocoder(tmp_path / "weights.pth", tmp_path / "gone.json")
