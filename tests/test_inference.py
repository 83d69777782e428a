"""Speaking with a checkpoint: text in, sound out, and what is said when something is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import soundfile
import tensorflow as tf
from model_samples import SMALL
from speech_like import RATE, sound
from watched_work import calls_of

from myxtts.config.config import XTTSConfig
from myxtts.errors import AudioError, CheckpointError, TextError, UsageError
from myxtts.inference import XTTSInference, checkpoint_voice
from myxtts.inference.reference import reference_mels
from myxtts.inference.sentences import SENTENCE_PAUSE
from myxtts.models.checkpoint import load_model, read_checkpoint, save_checkpoint
from myxtts.models.graphs import speech_functions
from myxtts.models.sizes import resolve_decoder
from myxtts.models.xtts import XTTS
from myxtts.text import LANGUAGES, normalize
from myxtts.text.symbols import SYMBOLS

TEXT = "Hello there. How are you today? Fine."


@pytest.fixture(scope="module")
def config():
    # Letters need no extra.
    return XTTSConfig(size="tiny", text_symbols="graphemes")


class Constant:
    """A vocoder whose samples are all the same; counts its pieces."""

    name = "constant"
    sample_rate = RATE

    def __init__(self, value):
        self.value = value
        self.pieces = 0

    def stream(self, mel, chunk_frames=48):
        for first in range(0, len(mel), chunk_frames):
            self.pieces += 1
            yield np.full(len(mel[first : first + chunk_frames]) * 256, self.value, np.float32)


def small_checkpoint(path, config):
    """A small model that was never trained: what it says is noise, but of the right form."""
    model = XTTS(SMALL, len(SYMBOLS), len(LANGUAGES), decoder=resolve_decoder(config.model))
    rng = np.random.default_rng(0)
    model.set_weights([weight + rng.normal(0, 0.05, weight.shape) for weight in model.get_weights()])
    save_checkpoint(path, model, config, {"step": 7})
    return path


@pytest.fixture(scope="module")
def checkpoint(config, tmp_path_factory):
    return small_checkpoint(tmp_path_factory.mktemp("checkpoints") / "best", config)


@pytest.fixture(scope="module")
def speaker(config, checkpoint):
    return XTTSInference(config, checkpoint)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("voice") / "me.wav"
    soundfile.write(path, sound(5, 2.5), RATE)
    return path


def test_speech_is_finite_sound_within_full_scale(speaker):
    speech = speaker.synthesize(TEXT)
    assert speech.audio.dtype == np.float32
    assert speech.sample_rate == RATE
    assert np.isfinite(speech.audio).all()
    assert 0 < np.abs(speech.audio).max() <= 1


def test_every_sentence_is_spoken_by_itself(speaker):
    speech = speaker.synthesize(TEXT)
    assert [utterance.text for utterance in speech.utterances] == [
        "Hello there.",
        "How are you today?",
        "Fine.",
    ]
    assert speech.seconds == pytest.approx(sum(len(part.audio) for part in speech.utterances) / RATE)


def test_sentences_are_parted_by_a_pause_and_the_last_has_none(speaker):
    first, *_, last = speaker.synthesize(TEXT).utterances
    hop = speaker.mel_settings.hop_length
    pause = round(SENTENCE_PAUSE * RATE)
    assert len(first.audio) == len(first.mel) * hop + pause
    assert not first.audio[-pause:].any()
    assert len(last.audio) == len(last.mel) * hop


def test_an_utterance_says_which_frame_belongs_to_which_token(speaker):
    (utterance,) = speaker.synthesize("Hello there.").utterances
    assert len(utterance.alignment) == len(utterance.mel)
    assert utterance.alignment[0] == 0
    assert utterance.alignment[-1] == len(utterance.tokens) - 1


def test_sentences_come_one_at_a_time(speaker):
    stream = speaker.stream(TEXT)
    assert next(stream).text == "Hello there."
    assert next(stream).text == "How are you today?"


def test_wrong_input_is_refused_before_the_first_sentence_is_asked_for(speaker):
    with pytest.raises(TextError):
        speaker.stream("")


def test_the_same_text_sounds_the_same(speaker):
    np.testing.assert_array_equal(speaker.synthesize("Fine.").audio, speaker.synthesize("Fine.").audio)


def test_twice_the_speed_is_half_as_long_pauses_included(speaker):
    normal, fast = (speaker.synthesize(TEXT, speed=speed).seconds for speed in (1.0, 2.0))
    assert fast / normal == pytest.approx(0.5, abs=0.1)


def test_a_reference_changes_the_voice(speaker, reference):
    assert not np.array_equal(speaker.voice(reference), speaker.voice())
    assert not np.array_equal(
        speaker.synthesize("Fine.", reference_audio=reference).audio, speaker.synthesize("Fine.").audio
    )


def test_a_reference_may_be_samples(speaker, reference):
    samples, _ = soundfile.read(reference, dtype="float32")
    np.testing.assert_allclose(speaker.voice(samples), speaker.voice(reference), atol=1e-5)


def test_a_long_reference_is_heard_in_crops_of_the_length_known_from_training(speaker, checkpoint):
    crops = reference_mels(sound(5, 7.0), speaker.mel_settings, 3.0)
    assert crops.shape == (3, 258, 80)
    np.testing.assert_allclose(
        speaker.voice(sound(5, 7.0)),
        load_model(read_checkpoint(checkpoint)).voice(crops).numpy().mean(axis=0),
        atol=1e-6,
    )


def test_all_lengths_share_one_graph(checkpoint, monkeypatch):
    made: dict[str, Any] = {}

    def remember(model):
        return made.setdefault("functions", speech_functions(model))

    monkeypatch.setattr(checkpoint_voice, "speech_functions", remember)
    speaker = XTTSInference(checkpoint, vocoder=Constant(0))
    for words in (1, 5, 30):
        speaker.synthesize("word " * words)
    assert made["functions"]["plan"].experimental_get_tracing_count() == 1
    assert made["functions"]["decoder"].experimental_get_tracing_count() == 1


def test_the_real_time_factor_is_computing_over_speech(speaker):
    speech = speaker.synthesize(TEXT)
    assert speech.real_time_factor == pytest.approx(speech.compute_seconds / speech.seconds)
    assert speech.compute_seconds == sum(part.compute_seconds for part in speech.utterances)


def test_another_vocoder_takes_griffin_lims_place(config, checkpoint):
    speech = XTTSInference(config, checkpoint, vocoder=Constant(0.25)).synthesize("Fine.")
    assert set(speech.audio) == {np.float32(0.25)}


def test_a_vocoder_of_another_sample_rate_is_refused(config, checkpoint):
    class Slow:
        sample_rate = 16000

    with pytest.raises(UsageError, match="16000 Hz, the model at 22050"):
        XTTSInference(config, checkpoint, vocoder=Slow())


def test_what_is_louder_than_full_scale_is_held_there(config, checkpoint):
    speech = XTTSInference(config, checkpoint, vocoder=Constant(3.0)).synthesize("Fine.")
    assert np.abs(speech.audio).max() == 1


def test_pieces_are_the_whole_sample_by_sample_and_the_first_of_a_sentence_has_its_words(speaker):
    text = "[pause:0.2] Hello there, you out there. Fine."
    speech, pieces = speaker.synthesize(text), list(speaker.stream_pieces(text))
    np.testing.assert_array_equal(np.concatenate([piece.audio for piece in pieces]), speech.audio)
    assert len(pieces) > 3
    first, second = (piece for piece in pieces if piece.mel is not None)
    assert first is pieces[0]
    assert (first.words, second.words) == tuple(utterance.words for utterance in speech.utterances)
    np.testing.assert_array_equal(first.mel, speech.utterances[0].mel)
    assert sum(len(piece.words) for piece in pieces) == len(speech.words)


def test_sound_begins_before_the_sentence_is_finished(config, checkpoint):
    vocoder = Constant(0.5)
    stream = XTTSInference(config, checkpoint, vocoder=vocoder).stream_pieces("word " * 40)
    before = vocoder.pieces
    next(stream)
    assert vocoder.pieces == before + 1


def test_a_voice_may_be_given_as_what_was_found_in_a_recording(speaker, reference):
    by_voice = speaker.synthesize("Fine.", voice=speaker.voice(reference)).audio
    np.testing.assert_array_equal(by_voice, speaker.synthesize("Fine.", reference_audio=reference).audio)


def test_it_says_what_it_can_speak_and_in_which_voices(speaker):
    assert speaker.language == "en"
    assert set(speaker.languages) == set(LANGUAGES)  # none of the weights is zero
    assert speaker.voices == ("default",)
    np.testing.assert_array_equal(speaker.named_voice("default"), speaker.voice())
    with pytest.raises(UsageError, match="no voice is named 'me'; there are default"):
        speaker.named_voice("me")


def test_a_language_that_no_clip_had_is_not_one_of_its_languages(tmp_path):
    config = XTTSConfig(size="tiny", text_symbols="graphemes", language="fa", extra_languages=["sv"])
    model = XTTS(SMALL, len(SYMBOLS), len(LANGUAGES) + 1, decoder="regression")
    moved = np.zeros(model.encoder.language.embeddings.shape, np.float32)
    moved[[LANGUAGES.index("de"), len(LANGUAGES)]] = 0.1
    model.encoder.language.embeddings.assign(moved)
    save_checkpoint(tmp_path / "few", model, config)
    assert XTTSInference(tmp_path / "few", vocoder=Constant(0)).languages == ("fa", "de", "sv")


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_no_text_is_said_so(speaker, text):
    with pytest.raises(TextError, match="no text to speak"):
        speaker.synthesize(text)


@pytest.mark.parametrize("text", ["...", "!? — …", "-\n\n-"])
def test_text_without_a_sound_is_said_so(speaker, text):
    with pytest.raises(TextError, match="nothing to speak in"):
        speaker.synthesize(text)


def test_a_paragraph_without_a_sound_is_left_out(speaker):
    assert [part.text for part in speaker.synthesize("One.\n\n***\n\nTwo.").utterances] == ["One.", "Two."]


def test_symbols_the_model_does_not_know_are_named(speaker, caplog):
    speaker.synthesize("Georgian აბ is not in the table.")
    assert "does not know, spoken as best it can: ა ბ" in caplog.text


def test_an_unknown_language_is_refused(speaker):
    with pytest.raises(UsageError, match="tlh"):
        speaker.synthesize("Hello.", language="tlh")


@pytest.mark.parametrize("speed", [0, -1, 0.1, 5, float("nan")])
def test_a_speed_out_of_range_is_refused(speaker, speed):
    with pytest.raises(UsageError, match=r"between 0\.25 and 4"):
        speaker.synthesize("Hello.", speed=speed)


def test_a_missing_reference_is_named(speaker, tmp_path):
    with pytest.raises(AudioError, match=r"gone\.wav: there is no such file"):
        speaker.synthesize("Hello.", reference_audio=tmp_path / "gone.wav")


def test_a_reference_that_is_no_audio_is_refused(speaker, tmp_path):
    (tmp_path / "text.wav").write_text("not audio at all")
    with pytest.raises(AudioError, match=r"text\.wav"):
        speaker.synthesize("Hello.", reference_audio=tmp_path / "text.wav")


def test_a_reference_under_a_second_is_refused(speaker):
    with pytest.raises(AudioError, match=r"0\.90 s long; a reference needs at least a second"):
        speaker.synthesize("Hello.", reference_audio=sound(1, 0.9))


@pytest.mark.parametrize("level", [0.0, 5e-4])
def test_a_silent_reference_is_refused(speaker, level):
    silence = level * np.random.default_rng(0).uniform(-1, 1, 2 * RATE).astype(np.float32)
    with pytest.raises(AudioError, match="silent"):
        speaker.synthesize("Hello.", reference_audio=silence)


@pytest.mark.parametrize("samples", [np.zeros((2, RATE)), np.full(2 * RATE, np.nan)])
def test_samples_that_are_no_recording_are_refused(speaker, samples):
    with pytest.raises(AudioError, match="finite samples of one channel"):
        speaker.synthesize("Hello.", reference_audio=samples)


@pytest.mark.parametrize("seconds", [0, 0.005], ids=["none", "less than a frame"])
def test_a_reference_for_a_model_trained_without_is_refused(tmp_path, reference, seconds):
    config = XTTSConfig(size="tiny", text_symbols="graphemes", reference_seconds=seconds)
    small_checkpoint(tmp_path / "plain", config)
    with pytest.raises(UsageError, match="trained without references"):
        XTTSInference(None, tmp_path / "plain", Constant(0)).voice(reference)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"size": "base", "decoder": "regression"}, "size is tiny in the checkpoint and base here"),
        ({"decoder": "flow"}, "decoder is regression in the checkpoint and flow here"),
        ({"n_mels": 64}, "n_mels is 80 in the checkpoint and 64 here"),
        ({"add_blank": False}, "add_blank is True in the checkpoint and False here"),
        ({"hop_length": 128}, "hop_length is 256 in the checkpoint and 128 here"),
    ],
)
def test_a_checkpoint_of_another_configuration_is_refused_by_what_differs(checkpoint, other, named):
    config = XTTSConfig(**{"size": "tiny", "text_symbols": "graphemes", **other})
    with pytest.raises(CheckpointError, match=named):
        XTTSInference(config, checkpoint)


def test_settings_that_do_not_change_what_weights_mean_may_differ(checkpoint):
    config = XTTSConfig(size="tiny", text_symbols="graphemes", batch_size=3, trim_silence=True, flow_steps=2)
    assert XTTSInference(config, checkpoint, Constant(0)).config.data.batch_size == 3


def test_without_a_configuration_the_checkpoints_own_is_used(checkpoint, config):
    assert XTTSInference(checkpoint, vocoder=Constant(0)).config == config


def test_the_configuration_may_still_come_before_the_checkpoint(checkpoint, config):
    vocoder = Constant(0)
    by_position = XTTSInference(config, str(checkpoint), vocoder)
    by_name = XTTSInference(None, checkpoint_path=checkpoint, vocoder=vocoder)
    for other in (by_position, by_name):
        assert (other.config, other.vocoder) == (config, vocoder)


def test_a_text_is_normalised_once(speaker):
    with calls_of(normalize) as calls:
        list(speaker.stream("Dr. Who paid 3.50. Then he left.\n\nAlone?"))
    assert [call["text"] for call in calls] == ["Dr. Who paid 3.50. Then he left.", "Alone?"]


def test_words_have_times_in_the_whole_audio(speaker):
    text = "[pause:1] Hello, Dr. Who. It cost $3.50!"
    speech = speaker.synthesize(text)
    assert [word.text for word in speech.words] == ["Hello", "Dr", "Who", "It", "cost", "$3.50"]
    assert [text[word.first : word.last] for word in speech.words] == [word.text for word in speech.words]
    first, second = speech.utterances
    assert first.words + second.words == speech.words
    assert 1 <= first.words[0].start < first.words[-1].end <= len(first.audio) / RATE - SENTENCE_PAUSE
    assert len(first.audio) / RATE <= second.words[0].start < second.words[-1].end <= speech.seconds


def test_marked_pauses_are_silence(speaker):
    (utterance,) = speaker.synthesize("[pause:1] Fine. [pause:0.5]").utterances
    hop = speaker.mel_settings.hop_length
    assert len(utterance.audio) == RATE + len(utterance.mel) * hop + RATE // 2
    assert not utterance.audio[:RATE].any()
    assert not utterance.audio[-RATE // 2 :].any()


def test_rate_and_volume_hold_for_their_part(speaker):
    text = '<speak>Fine. <prosody rate="200%" volume="-20dB">Fine.</prosody></speak>'
    first, second = speaker.synthesize(text).utterances
    assert len(second.mel) / len(first.mel) == pytest.approx(0.5, abs=0.1)
    assert np.abs(second.audio).max() < 0.3 * np.abs(first.audio).max()


def test_a_named_voice_speaks_its_part(speaker, reference, caplog):
    text = '<speak>Fine.<voice name="me">Fine.</voice></speak>'
    plain, named = speaker.synthesize(text, voices={"me": reference}).utterances
    assert not caplog.text
    alone = speaker.synthesize("Fine.", reference_audio=reference).utterances[0]
    np.testing.assert_allclose(named.mel, alone.mel, atol=1e-5)
    assert not np.array_equal(named.mel, plain.mel)


def test_what_the_markup_has_and_the_speech_has_not_is_named(speaker, caplog):
    speaker.synthesize('<speak><prosody pitch="high"><voice name="me">Fine.</voice></prosody></speak>')
    assert "ignored in the markup: pitch of <prosody>, <voice> me" in caplog.text


def test_another_language_inside_a_text_is_spoken_with_its_number(speaker):
    first, second = speaker.synthesize('<speak>Fine. <lang xml:lang="de">Fine.</lang></speak>').utterances
    np.testing.assert_array_equal(first.tokens, second.tokens)
    assert not (len(first.mel) == len(second.mel) and np.allclose(first.mel, second.mel))


@pytest.mark.parametrize(
    "raised", [None, RuntimeError("initialized"), ValueError("virtual")], ids=["free", "in use", "limited"]
)
def test_speaking_lets_gpu_memory_grow_unless_it_is_set_up_already(monkeypatch, checkpoint, raised):
    gpus = ["one", "two"]
    asked = []

    def set_memory_growth(gpu, enable):
        asked.append((gpu, enable))
        if raised is not None:
            raise raised

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: gpus)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", set_memory_growth)
    load_model(read_checkpoint(checkpoint))
    assert asked == [("one", True), ("two", True)]


def test_flow_steps_come_from_the_configuration(tmp_path):
    config = XTTSConfig(size="tiny", decoder="flow", text_symbols="graphemes", flow_steps=1)
    small_checkpoint(tmp_path / "flow", config)
    mels = []
    for steps in (1, 3):
        other = XTTSConfig(**{**config.model_dump(), "model": {**config.model.model_dump(), "flow_steps": steps}})
        speaker = XTTSInference(other, tmp_path / "flow", vocoder=Constant(0))
        mels.append(speaker.synthesize("Fine.").utterances[0].mel)
    assert mels[0].shape == mels[1].shape
    assert not np.allclose(*mels)


def test_the_flow_decoder_speaks_differently_with_another_seed(tmp_path):
    config = XTTSConfig(size="tiny", decoder="flow", text_symbols="graphemes", flow_steps=2)
    small_checkpoint(tmp_path / "flow", config)
    speaker = XTTSInference(config, tmp_path / "flow", vocoder="griffin-lim")
    one, same, other = (speaker.synthesize("Fine.", seed=seed).audio for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
