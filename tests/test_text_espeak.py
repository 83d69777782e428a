"""The binding to espeak-ng, with the real library."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from myxtts.errors import UsageError
from myxtts.text import LANGUAGES
from myxtts.text.espeak import Espeak, available

pytestmark = pytest.mark.skipif(not available(), reason="espeak-ng is not installed")

SAMPLES = {
    "en": ["The apple of the eye.", "Printing differs from most arts.", "Is it? Yes; no."],
    "fa": ["سلام دنیا", "این یک متن hello world است", "کتاب‌ها را بخوان"],
    "de": ["Guten Morgen, wie geht es Ihnen?", "Straße"],
    "fr": ["les amis", "aujourd'hui"],
    "zh": ["你好世界", "妈麻马骂吗", "一个 hello 世界"],
    "ru": ["людей теперь", "привет мир"],
    "ko": ["까지 있다", "안녕하세요"],
    "ar": ["قام طويلة صفر", "مرحبا"],
}


@pytest.fixture(scope="module")
def espeak() -> Espeak:
    return Espeak()


def test_it_tells_its_version_voices_and_variants(espeak: Espeak) -> None:
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?.*", espeak.version)
    assert {"fa", "en-us", "cmn", "pt-br"} <= {voice.language for voice in espeak.voices()}
    assert {"f3", "klatt2", "Andy"} <= set(espeak.variants())
    assert len(espeak.variants()) > 100


def test_phonemes_are_ipa_with_stress(espeak: Espeak) -> None:
    assert espeak.phonemes(["Hello world."], "en") == ["həlˈoʊ wˈɜːld"]
    assert espeak.phonemes(["سلام دنیا"], "fa") == ["salˈɑm dˈonjɑ"]


def test_a_text_of_many_clauses_is_read_to_its_end(espeak: Espeak) -> None:
    assert espeak.phonemes(["Is it? Yes; no."], "en") == ["ɪz ɪt jˈɛs nˈoʊ"]
    assert espeak.phonemes(["hello " * 500], "en")[0].split() == ["həlˈoʊ"] * 500


def test_markers_of_a_change_of_language_are_removed(espeak: Espeak) -> None:
    assert espeak.phonemes(["یک hello است"], "fa") == ["jˈek həlˈəʊ ˈast"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_there(espeak: Espeak, language: str) -> None:
    assert espeak.phonemes(["a"], language)[0]


def test_mandarin_keeps_its_four_tones_and_the_neutral_one(espeak: Espeak) -> None:
    said = espeak.phonemes(["妈 麻 马 骂 吗"], "zh")[0].replace("ˈ", "")
    assert said == "mɑ˥ mɑ˧˥ mɑ˨˩˦ mɑ˥˩ mɑ˩"


def test_mandarin_syllables_that_espeak_ng_spells_in_english_are_corrected(espeak: Espeak) -> None:
    assert espeak.phonemes(["熊", "穷", "兄弟"], "zh")[:2] == ["ɕiʊŋ˧˥", "tɕʰiʊŋ˧˥"]
    assert "panda" not in espeak.phonemes(["熊猫是 panda 吗"], "zh")[0]


def test_signs_that_are_no_ipa_are_corrected(espeak: Espeak) -> None:
    assert espeak.phonemes(["فقط"], "fa") == ["fˈaqat"]
    assert espeak.phonemes(["людей"], "ru") == ["ɭʲʉdʲˈej"]
    assert espeak.phonemes(["까"], "ko") == ["q\u0348ˈɐ"]
    assert espeak.phonemes(["قام"], "ar") == ["qˈaˤːm"]


def test_phonemes_do_not_depend_on_what_came_before(espeak: Espeak) -> None:
    jobs = [(language, text) for language, texts in SAMPLES.items() for text in texts]
    alone = dict(zip(jobs, _each_alone(jobs), strict=True))
    order = jobs * 4
    random.Random(5).shuffle(order)
    for number, (language, text) in enumerate(order):
        if number % 7 == 0:
            espeak.speak("Something else.", "en+f3", rate_wpm=250, pitch=80)
        assert espeak.phonemes([text], language) == [alone[language, text]]
    for language, texts in SAMPLES.items():
        assert espeak.phonemes(texts, language) == [alone[language, text] for text in texts]


def test_a_very_long_word_is_not_cut_short(espeak: Espeak) -> None:
    assert espeak.phonemes(["banana" * 100], "en")[0].count("b") >= 100


@pytest.mark.parametrize(
    "text", ["", "...", "\0", "a\0b", "\ud800", "🤠", "🤠 " * 50, "\U000e0001", "\x1b[0m", "[[x]]"]
)
@pytest.mark.parametrize("language", ["en", "de", "fa", "zh"])
def test_no_string_crashes_it(espeak: Espeak, text: str, language: str) -> None:
    assert isinstance(espeak.phonemes([text], language)[0], str)


def test_an_unknown_language_or_variant_is_refused(espeak: Espeak) -> None:
    for voice in ("xx", "", "en\0", "../en", "é" * 50, "en+nobody"):
        with pytest.raises(UsageError, match=r"espeak-ng has no|not a language code"):
            espeak.speak("a", voice)
    assert espeak.phonemes(["hello"], "en") == ["həlˈoʊ"]


def test_speech_is_16_bit_and_as_long_as_the_text(espeak: Espeak) -> None:
    short, long = (espeak.speak(text, "en+f3") for text in ("Hello.", "Hello there, how are you today?"))
    assert short.dtype == np.int16
    assert 0.2 * espeak.sample_rate < len(short) < len(long)
    assert np.abs(long.astype(np.int32)).max() > 2000


def test_rate_and_pitch_are_heeded_and_checked(espeak: Espeak) -> None:
    slow, fast = (len(espeak.speak("one two three four", "en", rate_wpm=rate)) for rate in (100, 300))
    assert fast < slow
    with pytest.raises(UsageError, match="80 to 450"):
        espeak.speak("a", "en", rate_wpm=20)
    with pytest.raises(UsageError, match="0 to 100"):
        espeak.speak("a", "en", pitch=101)


def test_threads_do_not_disturb_each_other(espeak: Espeak) -> None:
    expected = {language: espeak.phonemes(texts, language) for language, texts in SAMPLES.items()}
    wrong: list[str] = []

    def work(language: str) -> None:
        for _ in range(30):
            if Espeak().phonemes(SAMPLES[language], language) != expected[language]:
                wrong.append(language)

    threads = [threading.Thread(target=work, args=(language,)) for language in ("en", "fa", "zh", "de")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _each_alone(jobs: list[tuple[str, str]]) -> list[str]:
    """The phonemes of each job from a process that has spoken nothing before."""
    program = """if True:
        import json, os, sys
        from myxtts.text.espeak import Espeak
        for language, text in json.load(sys.stdin):
            if os.fork() == 0:
                print(json.dumps(Espeak().phonemes([text], language)[0]), flush=True)
                os._exit(0)
            os.wait()
    """
    run = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
        timeout=1800,
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_speech_says_when_its_words_begin():
    """In a process of its own: which event comes first depends on what espeak-ng was asked before."""
    text = "It was é, and 25 dogs ate it."
    program = f"""
import json
from myxtts.text.espeak import Espeak
espeak = Espeak()
audio, words = espeak.speak_words({text!r}, "en")
print(json.dumps([len(audio) / espeak.sample_rate, [(word.place, word.length, word.seconds) for word in words]]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, words = json.loads(run.stdout)
    starts = {text[place : place + length]: start for place, length, start in words}
    assert {"It", "was", "é", "25", "dogs", "ate", "it"} <= starts.keys()
    assert [start for *_, start in words] == sorted(start for *_, start in words)
    assert 0 <= starts["It"] < starts["dogs"] < starts["it"] < seconds
