"""The speakers of a generated corpus: espeak-ng voice variants, each with its own pitch and rate.

The list is fixed, so speaker 7 is the same voice in every corpus. It leaves out effects (echo, robots, whispering)
and variants that sound almost like another one. All voices can be recognised by the mean and spread of their cepstra,
on a sentence not heard before.
"""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.errors import UsageError

# First the variants at their own pitch, the most different first; then variants at a lower or higher pitch.
_NAMES = """
plain f5 david linda Alicia zac klatt2 kaukovalta Andrea ian Marco anika grandma Annie gustave Andy Reed
travis iven2 Storm Lee Nguyen steph2 AnxiousAndy aunty Gene2 quincy Hugo shelby pablo boris ed f1 m1 sandro
victor norbert Mario edward Jacky m7 klatt3 f3 rob paul m8 antonio m4 marcelo iven4 mike2 croak m5 m3 m2
pedro
linda-high Alicia-high anika-high aunty-high f5-high Andrea-high steph3-high Andrea-low Annie-high f3-high
shelby-high Gene-low grandma-high AnxiousAndy-high aunty-low f2-high anika-low iven-high victor-high
Annie-low pablo-high ed-high norbert-high Mike-low Alicia-low m1-high AnxiousAndy-low Gene2-high f4-high
Andy-high m4-high michel-high m2-high steph-low michel-low klatt3-high f1-high boris-high travis-high
pedro-high Michael-high sandro-high ian-high f5-low quincy-high Marco-high Storm-high Lee-high edward-high
m6-low m3-high Nguyen-high Denis-low klatt-high Mario-high kaukovalta-high m7-high iven-low m8-high
Alex-high antonio-high klatt3-low paul-high marcelo-high Reed-high Mike-high Lee-low ian-low f1-low
Jacky-high m5-high Michael-low grandpa-low Andy-low edward-low rob-high norbert-low Marco-low belinda-low
m1-low david-low m5-low max-low Denis-high klatt-low m3-low Mario-low sandro-low f4-low benjamin-high f3-low
paul-low boris-low Gene-high
"""
_PITCH = {"": 50, "low": 25, "high": 75}
_RATES = (175, 160, 190, 167, 183)


@dataclass(frozen=True)
class SpeakerVoice:
    """How one speaker sounds.

    Attributes:
        name: of the speaker, in lower case.
        variant: espeak-ng's name of the voice variant, or empty for the plain voice.
        pitch: 0 to 100; 50 is the variant's own.
        rate_wpm: words per minute.
    """

    name: str
    variant: str
    pitch: int
    rate_wpm: int

    def speaking(self, language: str) -> str:
        """espeak-ng's name of this voice in a language."""
        return f"{language}+{self.variant}" if self.variant else language


def _voice(number: int, name: str) -> SpeakerVoice:
    variant, _, shift = name.partition("-")
    rate = _RATES[number % len(_RATES)]
    return SpeakerVoice(name.lower(), "" if variant == "plain" else variant, _PITCH[shift], rate)


VOICES = tuple(_voice(number, name) for number, name in enumerate(_NAMES.split()))


def first_voices(count: int) -> tuple[SpeakerVoice, ...]:
    """The first `count` speakers.

    Raises:
        UsageError: there are fewer.
    """
    if not 1 <= count <= len(VOICES):
        raise UsageError(f"speakers is {count}; there are 1 to {len(VOICES)} voices")
    return VOICES[:count]
