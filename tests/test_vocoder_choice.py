"""Which vocoder is used, what is said about it, and how long mels go through it."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from myxtts.audio.mel import MelSettings
from myxtts.errors import UsageError, VocoderError
from myxtts.inference import trained_vocoder
from myxtts.inference import vocoder as choosing
from myxtts.inference.vocoder import as_vocoder, create_vocoder, find_vocoder
from myxtts.runtime.chunked_vocoder import LONGEST_PIECE, STREAM_CHUNK, WHOLE_CHUNK, ChunkedVocoder

SETTINGS = MelSettings(sample_rate=8000, n_fft=32, win_length=32, hop_length=8, n_mels=4, fmax=4000.0)


class Neighbours(ChunkedVocoder):
    """Each frame's samples are the sum of the frames around it; remembers how many frames it was given."""

    def __init__(self, reach: int | None = 3) -> None:
        super().__init__("neighbours", SETTINGS)
        self.reach = reach
        self.given: list[int] = []

    @property
    def context(self) -> int | None:
        return self.reach

    def vocode(self, mel: np.ndarray) -> np.ndarray:
        self.given.append(len(mel))
        sums = np.convolve(mel[:, 0], np.ones(2 * (self.reach or 0) + 1), "full")
        reach = self.reach or 0
        return np.repeat(sums[reach : reach + len(mel)], SETTINGS.hop_length).astype(np.float32)


def mel(frames: int) -> np.ndarray:
    return np.random.default_rng(frames).normal(size=(frames, SETTINGS.n_mels)).astype(np.float32)


@pytest.mark.parametrize("frames", [1, 6, 7, 8, 100])
def test_the_pieces_of_a_stream_are_the_whole(frames):
    vocoder = Neighbours()
    pieces = list(vocoder.stream(mel(frames), 7))
    lengths = {1: [1], 6: [6], 7: [7], 8: [7, 1], 100: [7, 14, 28, 51]}
    assert [len(piece) // 8 for piece in pieces] == lengths[frames]
    np.testing.assert_allclose(np.concatenate(pieces), vocoder.vocode(mel(frames)), atol=1e-5)


def test_the_pieces_of_a_stream_grow_to_a_length_that_is_soon_computed():
    pieces = [len(piece) // 8 for piece in Neighbours().stream(mel(1000))]
    assert pieces == [STREAM_CHUNK, 2 * STREAM_CHUNK, *[LONGEST_PIECE] * 4, 88]


def test_no_frames_are_no_sound():
    assert list(Neighbours().stream(mel(0))) == []
    assert Neighbours()(mel(0)).shape == (0,)


def test_a_long_mel_is_never_given_as_a_whole():
    vocoder = Neighbours()
    audio = vocoder(mel(20_000))
    assert max(vocoder.given) <= WHOLE_CHUNK + 2 * 3
    np.testing.assert_allclose(audio, vocoder.vocode(mel(20_000)), atol=1e-5)


def test_what_hears_all_frames_is_given_all_frames():
    vocoder = Neighbours(reach=None)
    (piece,) = vocoder.stream(mel(1000), 7)
    assert vocoder.given == [1000]
    assert len(piece) == 8000


def test_auto_finds_the_vocoder_in_the_folder_of_the_run_or_of_the_checkpoint(tmp_path):
    run, checkpoint = tmp_path / "runs" / "voice", tmp_path / "runs" / "voice" / "step-00000100"
    checkpoint.mkdir(parents=True)
    assert find_vocoder("auto", SETTINGS, checkpoint) is None
    (tmp_path / "runs" / "vocoder").mkdir()  # of another voice
    assert find_vocoder("auto", SETTINGS, run) is None
    (run / "vocoder").mkdir()
    for place in (run, checkpoint, run / "best"):
        assert find_vocoder("auto", SETTINGS, place) == run / "vocoder"
    (checkpoint / "vocoder").mkdir()
    assert find_vocoder("auto", SETTINGS, checkpoint) == checkpoint / "vocoder"
    assert find_vocoder("griffin-lim", SETTINGS, checkpoint) is None


def test_auto_takes_the_shipped_one_before_griffin_lim(monkeypatch, tmp_path):
    monkeypatch.setattr(trained_vocoder, "shipped_vocoder", lambda settings: tmp_path)
    assert find_vocoder("auto", SETTINGS, tmp_path / "run") == tmp_path


def test_auto_says_once_what_it_chose(caplog):
    choosing._say_once.cache_clear()
    with caplog.at_level(logging.INFO, "myxtts"):
        for _ in range(2):
            assert create_vocoder("auto", SETTINGS).name == "Griffin-Lim"
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == ["vocoder: Griffin-Lim"]


def test_an_object_is_used_as_it_is():
    vocoder = Neighbours()
    assert as_vocoder(vocoder, SETTINGS) is vocoder


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("gone", "--vocoder gone: no such file or folder; it should be auto, griffin-lim, a vocoder's folder, or"),
        ("gone.onnx", "no such file or folder"),
        ("hifi.pth", "import them first: myxtts import-vocoder hifi.pth FOLDER"),
        ("hifi.safetensors", "import them first"),
        ("text.txt", "not a vocoder; it should be"),
    ],
)
def test_what_cannot_be_a_vocoder_is_refused_before_it_is_opened(choice, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("hifi.pth", "hifi.safetensors", "text.txt"):
        Path(name).touch()
    with pytest.raises(UsageError) as refused:
        find_vocoder(choice, SETTINGS)
    assert message in str(refused.value)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(VocoderError, match="not a vocoder's folder"):
        create_vocoder(tmp_path, SETTINGS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["vocode", "in.wav", "out.wav"],
        ["train", "--data-path", "data"],
        ["demo"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_refuses_a_vocoder_that_is_not_there(arguments, run_myxtts, tmp_path):
    from small_corpus import make_corpus

    make_corpus(tmp_path / "data", clips=4)
    done = run_myxtts(*arguments, "--vocoder", "gone.onnx", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: --vocoder gone.onnx: no such file or folder")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["gone.wav", "out.wav"], 1, "gone.wav: there is no such file"),
        (["in.wav", "out.mp3"], 2, "out.mp3: the file written is WAV; name it .wav"),
        (["in.wav", "no/such/out.wav"], 2, "the folder no/such does not exist"),
        (["short.wav", "out.wav"], 2, "short.wav: shorter than a frame of 256 samples"),
        (["in.wav", "out.wav", "--preset", "none"], 2, "none"),
    ],
)
def test_what_is_wrong_with_vocode_is_said_in_one_line(arguments, code, message, run_myxtts, tmp_path):
    import soundfile

    soundfile.write(tmp_path / "in.wav", np.zeros(8000), 22050)
    soundfile.write(tmp_path / "short.wav", np.zeros(80), 22050)
    done = run_myxtts("vocode", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.wav").exists()
