"""Evaluation: what is chosen, what the figures are of a speaker that is known, and the command with a real model."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile
from small_judges import FirstWordJudge, LoudnessJudge
from speech_like import RATE, sound
from training_samples import BANDS, configure, small_model
from watched_work import opened_files

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.data.clips import Clip
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.precompute import NoProgress
from myxtts.errors import CheckpointError, DataError, UsageError
from myxtts.evaluation.clips import EvaluationClips
from myxtts.evaluation.evaluate import Evaluator, evaluate
from myxtts.evaluation.held_out import HeldOutData
from myxtts.evaluation.judges import JudgePanel
from myxtts.evaluation.report import write_page, write_samples
from myxtts.evaluation.result import Evaluation
from myxtts.evaluation.selection import LIKE_LENGTH, Selection
from myxtts.evaluation.synthesizer import ModelSynthesizer, Sentence
from myxtts.inference.vocoder import Vocoder
from myxtts.models.checkpoint import read_checkpoint, save_checkpoint
from myxtts.runtime.griffin_lim import GriffinLim
from myxtts.text import TextSettings, Tokenizer

MyXTTS = Callable[..., subprocess.CompletedProcess[str]]

SENTENCES = 5
VOICES = 4
PERSIAN = "سلام دنیا، حالت چطور است؟"


def make_voices(folder: Path) -> Path:
    """Every voice says every sentence; voice and sentence both change the sound."""
    (folder / "wavs").mkdir(parents=True)
    lines = ["id|text|speaker|language"]
    texts = ["One <b>bold</b> word.", "Two words here.", "Three & more.", "The fourth one.", PERSIAN]
    for voice in range(VOICES):
        for number, text in enumerate(texts):
            audio = sound(voice + 7 * number, 0.5)
            tones = np.sin(2 * np.pi * (900 + 700 * number) * np.arange(len(audio)) / RATE) * np.hanning(len(audio))
            clip_id = f"v{voice}-{number}"
            soundfile.write(folder / "wavs" / f"{clip_id}.wav", 0.7 * audio + 0.1 * tones, RATE, subtype="PCM_16")
            lines.append(f"{clip_id}|{text}|voice{voice}|{'fa' if text == PERSIAN else 'en'}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_voices(tmp_path_factory.mktemp("evaluate") / "voices")


@pytest.fixture(scope="module")
def config(data: Path) -> XTTSConfig:
    return configure(data, data.parent / "run", train_split=0.5, val_split=0.5)


@pytest.fixture(scope="module")
def checkpoint(config: XTTSConfig, data: Path) -> Path:
    path = data.parent / "checkpoint"
    origin = read_metadata(config.data).origin()
    save_checkpoint(path, small_model(), config, origin | {"speakers": ["voice0", "voice1"]})
    return path


@pytest.fixture(scope="module")
def clips(config: XTTSConfig) -> EvaluationClips:
    return EvaluationClips(config.data, read_metadata(config.data))


@pytest.fixture(scope="module")
def vocoder(clips: EvaluationClips) -> GriffinLim:
    return GriffinLim(clips.settings, iterations=4)


class Perfect:
    """Says every sentence as it was recorded, more slowly."""

    def __init__(self, clips: EvaluationClips) -> None:
        self.clips = clips
        self.said: list[Sentence] = []

    def __call__(
        self, sentences: Sequence[Sentence], advance: Callable[[int], None] | None = None
    ) -> list[np.ndarray]:
        self.said += sentences
        return [np.repeat(self.clips.mel(sentence.row), 2, axis=0) for sentence in sentences]


class Confused(Perfect):
    """Says another sentence in another voice than asked for."""

    def __call__(
        self, sentences: Sequence[Sentence], advance: Callable[[int], None] | None = None
    ) -> list[np.ndarray]:
        return [self.clips.mel((sentence.row + SENTENCES + 1) % len(self.clips)) for sentence in sentences]


def measure_with(speaker: Perfect, vocoder: Vocoder, config: XTTSConfig) -> Evaluator:
    clips = speaker.clips
    tokenizer = Tokenizer(TextSettings.from_config(config.data))
    selection = Selection(clips.metadata.clips, clips.lengths)
    return Evaluator(clips, speaker, vocoder, tokenizer, selection, 0.2, NoProgress())


def evaluation(measure: Evaluator, trained: frozenset[str], clips: EvaluationClips) -> Evaluation:
    rows = range(len(clips))
    return Evaluation(
        "runs/voice", "data", "all clips", 0, clips.settings, measure.vocoder, SENTENCES,
        tuple(measure.sentences(rows, 8, SENTENCES)), tuple(measure.voices(rows, trained, 3)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def perfect(clips: EvaluationClips, vocoder: GriffinLim, config: XTTSConfig) -> Evaluation:
    measure = measure_with(Perfect(clips), vocoder, config)
    return evaluation(measure, frozenset({"voice0", "voice1"}), clips)


def test_a_perfect_speaker_is_found_by_sentence_and_by_voice(perfect: Evaluation) -> None:
    assert perfect.retrieval == 1.0
    assert (perfect.voice_top1_seen, perfect.voice_top1_unseen, perfect.voice_top3_unseen) == (1.0, 1.0, 1.0)
    assert perfect.voices_compared == 3


def test_a_perfect_speaker_at_half_the_tempo_takes_twice_the_time(perfect: Evaluation) -> None:
    assert perfect.duration_ratio == 2.0


def test_a_perfect_speaker_reaches_the_ceiling(clips: EvaluationClips, config: XTTSConfig) -> None:
    class Lossless:
        """Gives back the sound that a mel was made of."""

        name, sample_rate = "lossless", RATE

        def stream(self, mel: np.ndarray, chunk_frames: int = 0) -> Iterator[np.ndarray]:
            yield self(mel)

        def __call__(self, mel: np.ndarray) -> np.ndarray:
            row = next(row for row in range(len(clips)) if np.array_equal(clips.mel(row), mel[:: len(mel) // 43]))
            return clips.audio(row)

    result = evaluation(measure_with(Perfect(clips), Lossless(), config), frozenset(), clips)
    assert (result.mcd, result.mcd_ceiling) == (pytest.approx(0, abs=1e-3), pytest.approx(0, abs=1e-3))
    assert result.mcd_position == pytest.approx(1, abs=1e-2)


def test_a_confused_speaker_is_not_found(clips: EvaluationClips, vocoder: GriffinLim, config: XTTSConfig) -> None:
    result = evaluation(measure_with(Confused(clips), vocoder, config), frozenset(), clips)
    assert result.retrieval == 0.0
    assert result.voice_top1_unseen is not None
    assert result.voice_top1_unseen < 0.5
    assert result.voice_top1_seen is None
    assert result.mcd > result.mcd_ceiling


def test_the_reference_is_another_sentence_of_the_same_voice(
    clips: EvaluationClips, vocoder: GriffinLim, config: XTTSConfig
) -> None:
    speaker = Perfect(clips)
    measure_with(speaker, vocoder, config).voices(range(len(clips)), frozenset(), 3)
    assert len(speaker.said) == SENTENCES * VOICES
    for sentence in speaker.said:
        own = clips[sentence.row]
        of_voice = [row for row in range(len(clips)) if clips[row].speaker == own.speaker and row != sentence.row]
        assert sentence.reference is not None
        assert any(np.array_equal(clips.mel(row), sentence.reference) for row in of_voice)


def many_clips(lengths: list[int], speakers: int = 1) -> Selection:
    clips = [
        Clip(f"c{number}", "", f"text {number}", f"s{number % speakers}", "en", None, "m", number)
        for number in range(len(lengths))
    ]
    return Selection(clips, np.array(lengths))


def test_candidates_are_of_about_the_same_length_and_of_the_same_speaker() -> None:
    selection = many_clips([100, 84, 85, 86, 115, 116, 114, 300] * 3, speakers=2)
    near = selection.like_length(0)
    assert {int(selection.lengths[row]) for row in near} == {100, 85, 114, 115}
    assert all(row % 2 == 0 and row != 0 for row in near)
    assert all(abs(selection.lengths[row] - 100) <= LIKE_LENGTH * 100 for row in near)


def test_the_same_seed_chooses_the_same_and_another_seed_others() -> None:
    selection = many_clips([100] * 50)
    assert selection.sentences(range(50), 10) == many_clips([100] * 50).sentences(range(50), 10)
    other = Selection(selection.clips, selection.lengths, seed=1)
    assert selection.sentences(range(50), 10) != other.sentences(range(50), 10)


def test_every_voice_has_a_turn_before_any_has_two(clips: EvaluationClips) -> None:
    selection = Selection(clips.metadata.clips, clips.lengths)
    trials = selection.voice_trials(range(len(clips)), 20, VOICES)
    assert {clips[rows[0]].speaker for rows in trials} == {f"voice{voice}" for voice in range(VOICES)}
    assert all(len({clips[row].speaker for row in rows}) == len(rows) == VOICES for rows in trials)
    assert all(len({clips[row].text for row in rows}) == 1 for rows in trials)


def test_mels_are_the_same_with_a_store_and_without(data: Path, tmp_path: Path, config: XTTSConfig) -> None:
    copied = Path(shutil.copytree(data, tmp_path / "copy", ignore=shutil.ignore_patterns("cached_features")))
    changed = config.data.model_copy(update={"dataset_path": str(copied), "mel_dtype": "float32"})
    without = EvaluationClips(changed, read_metadata(changed))
    assert not (copied / "cached_features").exists()
    LJSpeechDataset(None, changed).precompute_mels()
    stored = EvaluationClips(changed, read_metadata(changed))
    assert stored.lengths.tolist() == without.lengths.tolist()
    np.testing.assert_allclose(stored.mel(3), without.mel(3), atol=1e-5)
    soundfile.write(copied / "wavs" / "v0-3.wav", np.zeros(RATE // 2), RATE)
    assert EvaluationClips(changed, read_metadata(changed)).mel(3).max() < stored.mel(3).max()


def test_clips_that_can_only_fail_are_left_out(data: Path, tmp_path: Path, config: XTTSConfig) -> None:
    copied = Path(shutil.copytree(data, tmp_path / "copy", ignore=shutil.ignore_patterns("cached_features")))
    broken, short = copied / "wavs" / "v0-3.wav", copied / "wavs" / "v1-2.wav"
    samples = np.zeros(RATE, np.float32)
    samples[100] = np.nan  # which no header shows
    soundfile.write(broken, samples, RATE, subtype="FLOAT")
    soundfile.write(short, np.zeros(10), RATE)
    changed = config.data.model_copy(update={"dataset_path": str(copied)})
    without = EvaluationClips(changed, read_metadata(changed))
    assert len(without) == SENTENCES * VOICES - 1
    assert without.lengths.min() > 0
    LJSpeechDataset(None, changed).precompute_mels()
    stored = EvaluationClips(changed, read_metadata(changed))
    assert len(stored) == len(stored.lengths) == SENTENCES * VOICES - 2
    assert {problem.clip_id for problem in stored.metadata.problems} == {"v0-3", "v1-2"}
    for row in range(len(stored)):
        stored.mel(row)
    shutil.copyfile(data / "wavs" / "v0-3.wav", broken)
    assert len(EvaluationClips(changed, read_metadata(changed))) == SENTENCES * VOICES - 1


def test_held_out_clips_of_the_own_data_set_were_not_trained_on(checkpoint: Path, data: Path) -> None:
    found = HeldOutData.find(read_checkpoint(checkpoint), data, "auto")
    splits = found.metadata.splits
    assert {splits[row] for row in found.rows(found.metadata)} == {"val"}
    assert found.trained_speakers == {"voice0", "voice1"}


def test_a_data_set_that_was_moved_is_still_the_own_one(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(data, tmp_path / "moved")
    found = HeldOutData.find(read_checkpoint(checkpoint), moved, "auto")
    assert found.splits == ("val", "test")


def test_of_another_data_set_all_clips_are_taken(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(data, tmp_path / "other"))
    lines = (other / "metadata.csv").read_text(encoding="utf-8").replace("here", "there")
    (other / "metadata.csv").write_text(lines, encoding="utf-8")
    found = HeldOutData.find(read_checkpoint(checkpoint), other, "auto")
    assert len(found.rows(found.metadata)) == SENTENCES * VOICES


def test_a_batch_of_sentences_equals_them_one_by_one(config: XTTSConfig, clips: EvaluationClips) -> None:
    speaker = ModelSynthesizer(small_model(), config)
    sentences = [
        Sentence(0, np.arange(1, 9, dtype=np.int32), 0, clips.mel(0)),
        Sentence(1, np.arange(1, 4, dtype=np.int32), 0, clips.mel(9)),
        Sentence(2, np.arange(1, 6, dtype=np.int32), 0),
    ]
    together = speaker(sentences)
    for sentence, mel in zip(sentences, together, strict=True):
        np.testing.assert_allclose(mel, speaker([sentence])[0], atol=1e-4)
        assert mel.shape[1] == BANDS


@pytest.mark.parametrize(
    ("change", "message"),
    [({"sentences": 1}, "sentences"), ({"candidates": 0}, "candidates"), ({"subset": "dev"}, "subset is 'dev'")],
)
def test_arguments_out_of_range_are_named(checkpoint: Path, data: Path, change: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate(checkpoint, data, **change)


def test_a_missing_checkpoint_is_named(tmp_path: Path, data: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        evaluate(tmp_path / "nothing", data)


def test_fewer_than_two_clips_are_refused(checkpoint: Path, data: Path) -> None:
    with pytest.raises(DataError, match=r"0 of 20 clips to evaluate with \(split test\); two are needed"):
        evaluate(checkpoint, data, subset="test")


def test_the_page_holds_text_audio_and_mels_and_escapes_them(perfect: Evaluation, tmp_path: Path) -> None:
    write_page(perfect, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert html.count("<audio") == html.count("<img") == 3 * perfect.sentences
    assert "<b>" not in html
    texts = {result.text for result in perfect.results}
    assert PERSIAN in texts
    assert f'<h2 dir="auto">{PERSIAN}</h2>' in html
    assert "retrieval" in html
    assert "voice_top3_unseen" in html
    assert 'src="http' not in html


def test_samples_are_three_wav_files_a_sentence(perfect: Evaluation, tmp_path: Path) -> None:
    write_samples(perfect, tmp_path / "samples")
    files = sorted(path.name for path in (tmp_path / "samples").iterdir())
    assert len(files) == 3 * perfect.sentences
    first = perfect.results[0].id
    lengths = [
        soundfile.info(tmp_path / "samples" / f"{first}.{kind}.wav").frames
        for kind in ("generated", "vocoded", "recording")
    ]
    hop = MelSettings().hop_length
    assert lengths[0] == 2 * lengths[1]
    assert lengths[2] // hop * hop == lengths[1]


def test_the_command_prints_every_figure_as_json(
    call_myxtts: MyXTTS, checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    result = call_myxtts(
        "evaluate", "--checkpoint", checkpoint, "--data-path", data, "--subset", "all", "--sentences", "4",
        "--candidates", "4", "--judges", "none", "--html", page, "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    for key in ("mcd", "mcd_ceiling", "mcd_floor", "duration_ratio", "retrieval"):
        assert isinstance(figures[key], float)
    assert figures["voice_trials_seen"] == figures["voice_trials_unseen"] == 2 * SENTENCES
    assert (figures["voices_seen"], figures["voices_unseen"], figures["voices_compared"]) == (2, 2, VOICES)
    assert 0 <= figures["voice_top1_unseen"] <= figures["voice_top3_unseen"] <= 1
    assert len(figures["per_sentence"]) == figures["sentences"] == 4
    assert page.is_file()


def test_the_command_reads_checkpoint_and_metadata_once(call_myxtts: MyXTTS, checkpoint: Path, data: Path) -> None:
    with opened_files() as times:
        done = call_myxtts(
            "evaluate",
            "--checkpoint",
            checkpoint,
            "--subset",
            "all",
            "--sentences",
            "2",
            "--judges",
            "none",
            "--json",
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["checkpoint"] == str(checkpoint)
    assert times(checkpoint / "model.npz") == 2  # for its checksum, and to load the weights
    assert times(data / "metadata.csv") == 1


@pytest.fixture(scope="module")
def judged(checkpoint: Path, data: Path) -> Evaluation:
    panel = JudgePanel((LoudnessJudge, FirstWordJudge), ("other: not installed: pip install other",))
    texts = ["A new sentence.", "Another <i>one</i>.", "And a third.", "The fourth.", "Number five."]
    return evaluate(checkpoint, data, sentences=3, candidates=2, subset="all", texts=texts, panel=panel)


def test_judges_hear_recording_ceiling_and_ours(judged: Evaluation) -> None:
    figures = judged.to_dict()
    judges = figures["judges"]
    assert set(judges) == {"recording", "ceiling", "ours", "texts", "notes"}
    assert [judges[name]["clips"] for name in ("recording", "ceiling", "ours", "texts")] == [3, 3, 3, 5]
    assert 0.01 < judges["recording"]["loudness"] < 1
    assert judges["ceiling"]["loudness"] == pytest.approx(judges["recording"]["loudness"], rel=0.5)
    assert set(figures["per_sentence"][0]["judges"]["recording"]) >= {"loudness"}
    assert [one["text"] for one in figures["per_text"]][:1] == ["A new sentence."]


def test_texts_are_spoken_with_the_voices_in_turn(judged: Evaluation) -> None:
    assert [text.speaker for text in judged.texts] == ["voice0", "voice1", "voice2", "voice3", "voice0"]


def test_a_missing_judge_is_a_line(judged: Evaluation) -> None:
    assert "other: not installed: pip install other" in judged.notes()


def test_the_page_shows_judges_and_texts(judged: Evaluation, tmp_path: Path) -> None:
    write_page(judged, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    for title in ("What judges hear", "its mel through the vocoder", "ours, sentences of the text file", "loudness"):
        assert title in html
    assert html.count("<audio") == 3 * judged.sentences + len(judged.texts)
    assert "Another &lt;i&gt;one" in html
    assert "heard: " in html


def test_samples_hold_the_texts(judged: Evaluation, tmp_path: Path) -> None:
    write_samples(judged, tmp_path)
    assert len(list(tmp_path.glob("text-*.generated.wav"))) == len(judged.texts)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--judges", "wer,ears", "there is no judge 'ears'; choose among wer, dnsmos, similarity, or none"),
        ("--text-file", "none.txt", "none.txt: cannot be read"),
    ],
)
def test_a_wrong_judge_or_text_is_one_line(
    run_myxtts: MyXTTS, checkpoint: Path, data: Path, option: str, value: str, message: str
) -> None:
    done = run_myxtts("evaluate", "--checkpoint", checkpoint, "--data-path", data, option, value)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_with_one_speaker_no_voice_is_compared(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    single = Path(shutil.copytree(data, tmp_path / "single"))
    lines = (single / "metadata.csv").read_text(encoding="utf-8").splitlines()
    (single / "metadata.csv").write_text("\n".join(lines[: 1 + SENTENCES]) + "\n", encoding="utf-8")
    figures = evaluate(checkpoint, single, candidates=3).to_dict()
    assert figures["sentences"] == SENTENCES
    assert [figures[f"voice_{name}"] for name in ("top1_seen", "top1_unseen", "top3_unseen")] == [None] * 3


def test_a_damaged_checkpoint_is_one_line(run_myxtts: MyXTTS, checkpoint: Path, data: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(checkpoint, tmp_path / "damaged"))
    (damaged / "model.npz").write_bytes(b"short")
    result = run_myxtts("evaluate", "--checkpoint", damaged, "--data-path", data)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "damaged" in result.stderr


def test_default_layout_is_used_where_the_checkpoints_own_is_not_there(data: Path, tmp_path: Path) -> None:
    own = configure(tmp_path, tmp_path / "run", metadata_file="other.csv")
    save_checkpoint(tmp_path / "checkpoint", small_model(), own)
    found = HeldOutData.find(read_checkpoint(tmp_path / "checkpoint"), data, "auto")
    assert len(found.metadata.clips) == SENTENCES * VOICES
    assert found.trained_speakers is None
