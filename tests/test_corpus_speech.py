"""What a corpus says and who says it: sentences that cover a language, voices that can be told apart."""

from __future__ import annotations

import subprocess
import unicodedata

import numpy as np
import pytest

from myxtts.corpus.sentences import GRAMMARS, sentences
from myxtts.corpus.voices import VOICES, first_voices
from myxtts.errors import UsageError
from myxtts.text.espeak import Espeak

PHONEMES = {
    "en": "p b t d k ɡ tʃ dʒ f v θ ð s z ʃ ʒ h m n ŋ l ɹ j w iː ɪ eɪ ɛ æ ɑː ɔː oʊ ʊ uː ʌ ɜː ə ɚ aɪ aʊ ɔɪ",
    "fa": "p b t d k ɡ q ʔ f v s z ʃ ʒ x h m n l r j iː e a ɑː o uː tʃ dʒ",
}
PERSIAN_LETTERS = "آابپتثجچحخدذرزژسشصضطظعغفقکگلمنوهی"


@pytest.mark.parametrize("language", GRAMMARS)
def test_no_two_sentences_are_the_same(language: str) -> None:
    assert len(set(sentences(language, 0, 3000))) == 3000


@pytest.mark.parametrize("language", GRAMMARS)
def test_more_sentences_only_add(language: str) -> None:
    assert sentences(language, 1, 50) == sentences(language, 1, 500)[:50]


@pytest.mark.parametrize("language", GRAMMARS)
def test_sentences_are_the_same_in_every_process(language: str, python: str) -> None:
    code = (
        "import sys; from myxtts.corpus.sentences import sentences; "
        "print(*sentences(sys.argv[1], 5, 20), sep=chr(10))"
    )
    command = [python, "-c", code, language]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == sentences(language, 5, 20)


@pytest.mark.parametrize("language", GRAMMARS)
def test_sentences_can_stand_in_metadata(language: str) -> None:
    for sentence in sentences(language, 0, 1000):
        assert "|" not in sentence
        assert "{" not in sentence
        assert sentence == " ".join(sentence.split())
        assert sentence == unicodedata.normalize("NFC", sentence)
        assert sentence[-1] in ".!?؟"


@pytest.mark.long
@pytest.mark.parametrize("language", GRAMMARS)
def test_sentences_take_one_to_ten_seconds(language: str) -> None:
    espeak = Espeak()
    seconds = [len(espeak.speak(text, language)) / espeak.sample_rate for text in sentences(language, 0, 200)]
    assert np.percentile(seconds, 2) > 0.8
    assert np.percentile(seconds, 98) < 11
    assert 3.5 < np.mean(seconds) < 7


@pytest.mark.parametrize("language", GRAMMARS)
def test_two_hundred_sentences_have_every_phoneme_of_the_language(language: str) -> None:
    spoken = " ".join(Espeak().phonemes(sentences(language, 0, 200), language))
    counts = {phoneme: spoken.count(phoneme) for phoneme in PHONEMES[language].split()}
    assert min(counts.values()) >= 3, counts


def test_persian_sentences_have_every_letter_and_the_joiner() -> None:
    text = "".join(sentences("fa", 0, 300))
    assert set(PERSIAN_LETTERS) <= set(text)
    assert "\u200c" in text


def test_a_language_without_sentences_is_refused() -> None:
    with pytest.raises(UsageError, match="no sentences for 'de'"):
        sentences("de", 0, 1)


def test_a_region_has_the_sentences_of_its_language() -> None:
    assert sentences("en-gb", 0, 3) != []


def test_speaker_names_are_unique_and_fit_into_ids() -> None:
    names = [voice.name for voice in VOICES]
    assert len(set(names)) == len(names) >= 128
    assert all(name.replace("-", "").isalnum() and name == name.lower() for name in names)


def test_espeak_ng_has_every_voice() -> None:
    assert {voice.variant for voice in VOICES} - {""} <= set(Espeak().variants())


def test_the_first_voices_stay_the_first() -> None:
    assert first_voices(5) == first_voices(80)[:5]
    assert first_voices(1)[0].name == "plain"


@pytest.mark.parametrize("count", [0, len(VOICES) + 1])
def test_more_speakers_than_voices_are_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"1 to {len(VOICES)} voices"):
        first_voices(count)


@pytest.mark.long
def test_eighty_voices_can_be_told_apart() -> None:
    """The nearest voice by mean spectrum and pitch, on a sentence not heard before, is the right one."""
    espeak = Espeak()
    texts = [text for text in sentences("en", 0, 40) if 60 < len(text) < 120][:4]
    features = np.array(
        [
            [_features(espeak.speak(text, voice.speaking("en"), voice.rate_wpm, voice.pitch)) for text in texts]
            for voice in first_voices(80)
        ]
    )
    features /= features.std(axis=1).mean(axis=0)
    right = 0
    for held_out in range(len(texts)):
        known = np.delete(features, held_out, axis=1).mean(axis=1)
        distances = ((features[:, held_out, None] - known[None]) ** 2).sum(axis=-1)
        right += int((distances.argmin(axis=1) == np.arange(len(known))).sum())
    assert right / (80 * len(texts)) > 0.97


def _features(audio: np.ndarray) -> np.ndarray:
    """Mean and spread of the log spectrum in 40 bands, and the mean pitch, of the louder frames."""
    signal = audio / np.sqrt(np.mean(audio.astype(np.float64) ** 2))
    frames = np.lib.stride_tricks.sliding_window_view(signal, 1024)[::512] * np.hanning(1024)
    power = np.abs(np.fft.rfft(frames)) ** 2
    loud = power.sum(axis=1) > np.median(power.sum(axis=1))
    edges = np.unique(np.geomspace(4, 380, 41).astype(int))
    bands = np.log(np.add.reduceat(power[loud], edges, axis=1) + 1)
    correlation = np.fft.irfft(power[loud])[:, 55:350]
    pitch = np.log(55 + correlation.argmax(axis=1))
    return np.concatenate([bands.mean(axis=0), bands.std(axis=0), [np.median(pitch)] * 3])
