"""IPA in one spelling, and what has to be corrected in espeak-ng's output before it is IPA.

espeak-ng writes the name of a phoneme where it has no IPA for it, so that stray signs appear (`q1`, `t-`, `u"`)
and Mandarin loses its tones (the fourth becomes `5`, like the first). The tables here are made from all that it
emits for large word lists of the 17 languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# What people type for it: what it is here. Tie bars go: espeak-ng writes none.
_SPELLINGS = str.maketrans(
    {
        "g": "ɡ",
        "ε": "ɛ",
        "ʦ": "ts",
        "ʣ": "dz",
        "ʧ": "tʃ",
        "ʤ": "dʒ",
        "ʨ": "tɕ",
        "ʥ": "dʑ",
        "ɩ": "ɪ",
        "ɷ": "ʊ",
        "ʱ": "ʰ",
        "’": "ʼ",
        "\u0361": None,
        "\u035c": None,
        "\u200c": None,
        "\u200d": None,
    }
)

_SWITCH = re.compile(r"\(([a-z]{2,3}(?:-[A-Za-z0-9-]+)?)\)")

_STRAY = re.compile(r"[1^-]")
_STRAY_IN = {
    "ar": ((".", "ˤ"),),  # vowels beside an emphatic consonant
    "ko": (("-", "\u0348"),),  # tense consonants
    "ru": (('u"', "ʉ"),),
}
_WITHOUT_STRAY = frozenset(_STRAY_IN) | frozenset(
    ["en", "es", "fr", "de", "it", "pt", "pl", "tr", "nl", "cs", "ja", "hu", "fa"]
)

_MANDARIN_TONE = re.compile(r"(11|35|51|55|214)$")
_CHAO = {"11": "˩", "35": "˧˥", "51": "˥˩", "55": "˥", "214": "˨˩˦"}
_MANDARIN_SOUNDS = (
    ("ts.h", "ʈʂʰ"),
    ("ts.", "ʈʂ"),
    ("s.", "ʂ"),
    ("i.", "ɻ̩"),
    ("i̪", "ɹ̩"),
    ("onɡ", "ʊŋ"),
    ("o-", "ɤ"),
    ("ər", "ɚ"),
    ("ŋ-", "ŋ̩"),
    ("h", "ʰ"),
)


# It has no rule for the syllables qiong, jiong and xiong, nor for "r5", and reads their pinyin as English.
_UNREAD_SYLLABLE = re.compile(r"(kɪəŋ|dʒɪəŋ|kʃəŋ|r)(wɒn|tuː|θɹiː|fɔː|faɪv)")
_UNREAD_SOUNDS = {"kɪəŋ": "tɕʰiʊŋ", "dʒɪəŋ": "tɕiʊŋ", "kʃəŋ": "ɕiʊŋ", "r": "ɚ"}
_UNREAD_TONES = {"wɒn": "˥", "tuː": "˧˥", "θɹiː": "˨˩˦", "fɔː": "˥˩", "faɪv": "˩"}


def canonical_ipa(ipa: str) -> str:
    """IPA as the symbol table spells it: decomposed accents (but ç), no tie bars, `ɡ` for `g`, single spaces."""
    ipa = unicodedata.normalize("NFD", ipa).replace("c\u0327", "ç").translate(_SPELLINGS)
    return " ".join(ipa.split())


def corrected_ipa(ipa: str, language: str) -> str:
    """What espeak-ng calls IPA, as IPA: language markers and stray signs gone, accents in one spelling."""
    if "(" in ipa:
        ipa = _SWITCH.sub("", ipa)
    base = language.partition("-")[0]
    if base in _WITHOUT_STRAY:
        for stray, sound in _STRAY_IN.get(base, ()):
            ipa = ipa.replace(stray, sound)
        ipa = _STRAY.sub("", ipa)
    return canonical_ipa(ipa)


def mandarin(ipa: str, names: str) -> str:
    """Mandarin phonemes with their tones.

    Args:
        ipa: espeak-ng's IPA, a `|` after each phoneme; the tone is cut to its first digit.
        names: the same in espeak-ng's own names, where the tone is whole.
    """
    tones = iter([match[1] for name in _phonemes(names) if (match := _MANDARIN_TONE.search(name))])
    words = []
    foreign = False
    for word in ipa.split():
        said = english = ""
        for sound in _split(word):
            switch = _SWITCH.fullmatch(sound)
            if switch:
                said, english = said + _foreign_sounds(english), ""
                foreign = switch[1] != "cmn"
            elif foreign:
                english += sound
            else:
                said += _mandarin_sound(sound, tones)
        words.append(said + _foreign_sounds(english))
    return canonical_ipa(" ".join(words))


def _foreign_sounds(sounds: str) -> str:
    plain = sounds.replace("ˈ", "").replace("ˌ", "")
    if _UNREAD_SYLLABLE.match(plain):
        return _UNREAD_SYLLABLE.sub(lambda match: _UNREAD_SOUNDS[match[1]] + _UNREAD_TONES[match[2]], plain)
    return _STRAY.sub("", sounds)


def _mandarin_sound(sound: str, tones: Iterator[str]) -> str:
    tone = ""
    if len(sound) > 1 and sound[-1] in "125ɜ":
        tone = _CHAO[next(tones, "11")]
        sound = sound[:-1]
    stress = sound[:1] if sound[:1] in "ˈˌ" else ""
    sound = sound[len(stress) :]
    for written, meant in _MANDARIN_SOUNDS:
        if sound != "h":
            sound = sound.replace(written, meant)
    return stress + sound + tone


def _phonemes(names: str) -> Iterator[str]:
    """The native phonemes among `names`, passages in another language left out."""
    foreign = False
    for name in _split(names.replace(" ", "|")):
        switch = _SWITCH.fullmatch(name)
        if switch:
            foreign = switch[1] != "cmn"
        elif not foreign:
            yield name


def _split(separated: str) -> list[str]:
    return [part for part in separated.split("|") if part]
