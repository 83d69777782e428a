"""Judges: error rates, voices, who is asked and what is said of missing ones; the real ones if installed."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from small_judges import AbsentJudge, BrokenJudge, DyingJudge, FirstWordJudge, LoudnessJudge
from speech_like import make_data_set, sound

from myxtts import child_program
from myxtts.audio.reading import read_audio
from myxtts.errors import DataError, MyXTTSError, UsageError
from myxtts.evaluation.judges import Figure, Judge, JudgePanel, Observation, Speech, judge_speech
from myxtts.evaluation.judges.naturalness import DNSMOSJudge
from myxtts.evaluation.judges.recogniser import MoonshineRecogniser
from myxtts.evaluation.judges.similarity import SimilarityJudge, voice_figures
from myxtts.evaluation.judges.speaker_encoder import RATE, SpeakerEncoder, _lstm, read_torch_weights
from myxtts.evaluation.judges.word_errors import comparable, edit_distance, text_errors
from myxtts.evaluation.speech_files import find_speech, read_texts

MyXTTS = Callable[..., subprocess.CompletedProcess[str]]


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_the_edit_distance_is_that_of_the_definition(wanted: str, found: str) -> None:
    table = [[row + column for column in range(len(found) + 1)] for row in range(len(wanted) + 1)]
    for row, one in enumerate(wanted, 1):
        for column, other in enumerate(found, 1):
            replaced = table[row - 1][column - 1] + (one != other)
            table[row][column] = min(table[row - 1][column] + 1, table[row][column - 1] + 1, replaced)
    assert edit_distance(wanted, found) == table[-1][-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("In 1999, Dr. Smith paid $5.", "in nineteen ninety nine doctor smith paid five dollars"),
        ("Don't — the ‘rifle-shot’ isn’t far!", "dont the rifle shot isnt far"),
        ("", ""),
        ("  ...  ", ""),
    ],
)
def test_texts_are_compared_as_they_are_read_aloud(text: str, words: str) -> None:
    assert comparable(text, "en") == words


def test_another_spelling_is_no_error() -> None:
    errors = text_errors("Chapter 7: don't panic.", "chapter seven, Don’t panic!", "en")
    assert (errors.word_errors, errors.character_errors) == (0, 0)


def test_errors_count_words_that_are_missing_added_and_replaced() -> None:
    errors = text_errors("one two three four", "one too three four five", "en")
    assert (errors.word_errors, errors.words) == (2, 4)


def test_error_rates_are_of_all_words_together() -> None:
    short = Observation({"word_errors": 1, "words": 1, "character_errors": 2, "characters": 2})
    long = Observation({"word_errors": 0, "words": 9, "character_errors": 0, "characters": 38})
    assert MoonshineRecogniser.summarize([short, long], []) == {"wer": 0.1, "cer": 0.05}


def voice(degrees: float, speaker: str, clip_id: str) -> Observation:
    angle = np.radians(degrees)
    return Observation({"voice": np.array([np.cos(angle), np.sin(angle)])}, speaker, clip_id)


def test_the_own_sentence_is_left_out_of_the_similarity() -> None:
    recordings = [voice(0, "a", "1"), voice(60, "a", "2")]
    assert voice_figures(recordings, recordings)["similarity"] == pytest.approx(0.5)
    assert voice_figures([voice(0, "a", "")], recordings)["similarity"] == pytest.approx(0.75)


def test_the_nearest_speaker_is_right_or_wrong() -> None:
    recordings = [voice(0, "a", "1"), voice(10, "a", "2"), voice(90, "b", "3"), voice(80, "b", "4")]
    assert voice_figures(recordings, recordings)["nearest_speaker"] == 1.0
    assert voice_figures([voice(5, "a", ""), voice(5, "b", "")], recordings)["nearest_speaker"] == 0.5


def test_one_speaker_has_no_nearest_and_no_recording_gives_no_similarity() -> None:
    alone = [voice(0, "a", "1"), voice(10, "a", "2")]
    assert voice_figures(alone, alone)["nearest_speaker"] is None
    assert voice_figures(alone, []) == {"similarity": None, "nearest_speaker": None}


def clips(count: int, text: str | None = "Some words.", rate: int = RATE) -> list[Speech]:
    return [Speech(sound(seed, 0.2 + 0.1 * seed, rate), rate, text, id=str(seed)) for seed in range(count)]


def judged(judge: type[Judge], speech: list[Speech], language: str = "en"):
    return JudgePanel((judge,)).judge({"clips": speech}, language, workers=2)


@pytest.mark.long
def test_clips_are_judged_in_their_order_however_many_processes_there_are() -> None:
    speech = clips(5, rate=22050)
    found = judged(LoudnessJudge, speech).groups["clips"]
    assert [one["samples"] for one in found.per_clip] == pytest.approx(
        [0.2 * RATE + 0.1 * RATE * k for k in range(5)]
    )
    loudness = np.mean([one["loudness"] for one in found.per_clip])
    assert found.figures == {"loudness": pytest.approx(loudness)}


def test_a_language_that_no_judge_knows_is_said() -> None:
    found = judged(FirstWordJudge, clips(1), "fa")
    assert found.groups["clips"].figures == {"first_words": None}
    assert found.groups["clips"].judged == {"first-word": 0}
    assert found.notes == ("first-word: clips in fa are left out, it knows only de, en",)
    assert found.table() == (["speech", "clips", "first words"], [["clips", "1", "–"]])


def test_clips_without_text_are_left_to_judges_that_need_none() -> None:
    found = judged(FirstWordJudge, [*clips(1), *clips(2, text=None)])
    assert found.groups["clips"].judged == {"first-word": 1}
    assert found.notes == ("first-word: only of clips whose text is known",)


def test_a_comparison_without_recordings_is_said() -> None:
    class Comparing(LoudnessJudge):
        needs_recordings = True

    Comparing.__qualname__ = "LoudnessJudge"
    Comparing.__module__ = LoudnessJudge.__module__
    assert judged(Comparing, clips(1)).notes == ("loudness: there are no recordings to compare with",)


def test_a_clip_without_samples_is_refused() -> None:
    with pytest.raises(UsageError, match="c7: there is no sample to judge"):
        judged(LoudnessJudge, [Speech(np.zeros(0, np.float32), RATE, id="c7")])


def test_a_judge_that_dies_is_one_line() -> None:
    with pytest.raises(MyXTTSError, match="a process of the judges died") as error:
        judged(DyingJudge, clips(3))
    assert "\n" not in str(error.value)


def test_what_a_judge_cannot_load_is_its_own_line() -> None:
    with pytest.raises(UsageError, match=r"weights\.bin: not the weights of this judge"):
        judged(BrokenJudge, clips(1))


def test_a_judge_that_is_not_installed_is_said_unless_it_was_named() -> None:
    among = (LoudnessJudge, AbsentJudge)
    found = JudgePanel.choose(None, among)
    assert found == JudgePanel((LoudnessJudge,), ("absent: absent not installed: pip install absent",))
    with pytest.raises(UsageError, match="judge absent: absent not installed: pip install absent"):
        JudgePanel.choose("absent", among)


def test_judges_are_chosen_by_name() -> None:
    among = (LoudnessJudge, FirstWordJudge)
    assert JudgePanel.choose("first-word, loudness", among).judges == among
    assert JudgePanel.choose(["loudness"], among).judges == (LoudnessJudge,)
    assert JudgePanel.choose("none", among).judges == JudgePanel.choose([], among).judges == ()
    with pytest.raises(UsageError, match="no judge 'ears'; choose among loudness, first-word, or none"):
        JudgePanel.choose("ears", among)


def test_the_table_has_a_row_for_each_group_and_a_dash_where_nothing_was_measured() -> None:
    panel = JudgePanel((LoudnessJudge, FirstWordJudge))
    found = panel.judge({"with": clips(2), "without": clips(1, text=None)}, "en", workers=1)
    head, rows = found.table({"with": "with text"})
    assert head == ["speech", "clips", "loudness", "first words"]
    assert [row[:2] + row[3:] for row in rows] == [["with text", "2", "100.0 %"], ["without", "1", "–"]]
    assert json.loads(json.dumps(found.to_dict()))["with"]["first_words"] == 1.0


@pytest.mark.parametrize(
    ("value", "is_share", "text"), [(0.0625, True, "6.2 %"), (3.456, False, "3.46"), (0.8, False, "0.800")]
)
def test_figures_are_shown_with_their_unit(value: float, is_share: bool, text: str) -> None:
    assert Figure("x", "x", "", is_share).text(value) == text


def test_nobody_to_ask_gives_no_figures() -> None:
    assert judge_speech([(sound(0, 0.2), RATE, "Words.")], judges=()).figures == {}


def test_a_layer_is_the_lstm_of_the_textbook() -> None:
    size, generator = 3, np.random.default_rng(0)
    inputs = generator.standard_normal((2, 4, 4 * size)).astype(np.float32)
    recurrent = generator.standard_normal((size, 4 * size)).astype(np.float32)
    states = _lstm(inputs, recurrent)
    state, memory = np.zeros((2, size)), np.zeros((2, size))
    for frame in range(4):
        add, keep, new, out = np.split(inputs[:, frame] + state @ recurrent, 4, axis=1)
        memory = memory / (1 + np.exp(-keep)) + np.tanh(new) / (1 + np.exp(-add))
        state = np.tanh(memory) / (1 + np.exp(-out))
        np.testing.assert_allclose(states[:, frame], state, atol=1e-6)


@pytest.mark.long
def test_weights_are_read_without_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch, which writes the file, is not installed")
    stored = {"a": torch.arange(6.0).reshape(2, 3).T, "b": torch.ones(2)}
    torch.save({"model_state": stored}, tmp_path / "w.pt", _use_new_zipfile_serialization=False)
    read = read_torch_weights(tmp_path / "w.pt")
    np.testing.assert_array_equal(read["a"], [[0, 3], [1, 4], [2, 5]])
    np.testing.assert_array_equal(read["b"], [1, 1])


def test_a_weights_file_cannot_run_code(tmp_path: Path) -> None:
    start: tuple[object, ...] = (0x1950A86A20F9469CFC6C, 1001, {})
    head = b"".join(pickle.dumps(one, 2) for one in start)
    (tmp_path / "w.pt").write_bytes(head + pickle.dumps({"model_state": print}, 2))
    with pytest.raises(pickle.UnpicklingError, match="it names"):
        read_torch_weights(tmp_path / "w.pt")


def test_speech_is_found_in_a_data_set(tmp_path: Path) -> None:
    found = find_speech(make_data_set(tmp_path / "set", [0.2, 0.3, 0.4, 0.5, 0.6], speakers=2), most=3)
    assert [(one.id, one.speaker) for one in found] == [
        ("c000", "speaker0"),
        ("c002", "speaker0"),
        ("c004", "speaker0"),
    ]
    assert found[0].text is not None
    assert found[0].read().rate == 22050


def test_speech_is_found_in_a_folder_of_files_with_texts_beside_them_or_in_metadata(tmp_path: Path) -> None:
    for name in ("a.generated.wav", "b.flac", "c.wav"):
        soundfile.write(tmp_path / name, sound(0, 0.2), 22050)
    (tmp_path / "b.txt").write_text("Beside it.\n", encoding="utf-8")
    (tmp_path / "texts.csv").write_text("a|From metadata.\nz|Of another file.\n", encoding="utf-8")
    found = find_speech(tmp_path, read_texts(tmp_path / "texts.csv"))
    assert [(one.id, one.text) for one in found] == [("a", "From metadata."), ("b", "Beside it."), ("c", None)]


def test_a_folder_without_speech_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no audio file in it, and no metadata\.csv"):
        find_speech(tmp_path)
    with pytest.raises(DataError, match="none: there is no such file or folder"):
        find_speech(tmp_path / "none")


def test_judging_with_nobody_is_wrong_usage(run_myxtts: MyXTTS, tmp_path: Path) -> None:
    done = run_myxtts("judge", tmp_path, "--judges", "none")
    assert (done.returncode, done.stderr) == (2, "error: there is no judge\n")


def require(judge: type[Judge]) -> None:
    reason = judge.missing()
    if reason is not None:
        pytest.skip(f"{judge.name}: {reason}")


@pytest.fixture
def single_threaded_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers start as they do for users: the forked ones have their numerical libraries loaded, with threads."""
    monkeypatch.setattr(child_program, "sys", sys)


@pytest.fixture(scope="session")
def recordings(ljspeech_mini: Path) -> list[Speech]:
    """The three shortest real clips."""
    found = [one.read() for one in find_speech(ljspeech_mini)]
    return sorted(found, key=lambda clip: len(clip.audio))[:3]


@pytest.mark.long
@pytest.mark.usefixtures("single_threaded_workers")
def test_a_recogniser_understands_recordings(recordings: list[Speech]) -> None:
    require(MoonshineRecogniser)
    figures = judge_speech(recordings, "en", "wer").figures
    assert figures["wer"] is not None
    assert figures["wer"] < 0.2
    wrong = [clip._replace(text="Nothing that was said by anyone here at all") for clip in recordings]
    assert judge_speech(wrong[:1], "en", "wer").figures["wer"] > 0.7  # type: ignore[operator]


@pytest.mark.long
@pytest.mark.usefixtures("single_threaded_workers")
def test_noise_is_rated_lower_than_speech(recordings: list[Speech]) -> None:
    require(DNSMOSJudge)
    clip = recordings[0]
    noise = clip._replace(audio=np.random.default_rng(0).normal(0, 0.1, len(clip.audio)).astype(np.float32))
    quiet = clip._replace(audio=clip.audio / 10)
    speech, noisy, quiet_speech = judge_speech([clip, noise, quiet], "en", "dnsmos").per_clip
    for figure in ("dnsmos_ovrl", "dnsmos_p808"):
        assert noisy[figure] + 0.5 < speech[figure]
        assert quiet_speech[figure] == pytest.approx(speech[figure], abs=0.05)


@pytest.mark.long
@pytest.mark.usefixtures("single_threaded_workers")
def test_a_voice_is_nearer_to_itself_than_to_another(recordings: list[Speech]) -> None:
    require(SimilarityJudge)
    named = [clip._replace(speaker="reader", audio=clip.audio[: 2 * clip.rate]) for clip in recordings]
    other = [clip._replace(speaker="lower", rate=int(0.75 * clip.rate)) for clip in named]
    everyone = named + other
    figures = judge_speech(everyone, "en", "similarity", everyone).figures
    assert figures["nearest_speaker"] == 1.0
    assert figures["similarity"] is not None
    assert figures["similarity"] > 0.7


@pytest.mark.long
def test_the_speaker_encoder_is_the_one_of_the_package(ljspeech_mini: Path) -> None:
    require(SimilarityJudge)
    reason = "PyTorch or webrtcvad, which the package needs, is not installed"
    package = pytest.importorskip("resemblyzer", reason=reason, exc_type=ImportError)
    audio = read_audio(next(iter(sorted((ljspeech_mini / "wavs").glob("*.wav")))), RATE)[: 2 * RATE]
    theirs = package.VoiceEncoder("cpu", verbose=False).embed_utterance(package.normalize_volume(audio, -30, True))
    np.testing.assert_allclose(SpeakerEncoder()(audio), theirs, atol=1e-5)
