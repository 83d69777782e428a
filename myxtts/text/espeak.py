"""The one binding to espeak-ng: phonemes of a text, and speech for the generated corpus.

espeak-ng and its data come from the package `espeakng-loader` (GPL-3), which only the extra `speech`
installs. Nothing here imports it before the first `Espeak()`; `available()` tells whether that would work.

What the library does that a caller must know:

- It is one global state per process. `Espeak` objects share it, and a lock keeps threads apart.
- Phonemes of a text do not depend on what was phonemised before. **Speech does**: noise and flutter continue
  from the call before, and re-initialising does not reset them. For reproducible audio, speak a fixed list
  of sentences in a fresh process.
- A word of more than about 90 letters is cut short without notice. `phonemes` breaks such words first.
- Some emoji and signs crash it, so they never reach it.
- Punctuation is not part of the phonemes; `myxtts.text.phonemes` puts it back.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import threading
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count as count_from

import numpy as np

from myxtts.errors import MissingExtraError, MyXTTSError, UsageError
from myxtts.text.ipa import corrected_ipa, mandarin
from myxtts.text.languages import LANGUAGES

# Languages whose espeak-ng voice has another name than their code here.
VOICES = {"en": "en-us", "pt": "pt-br", "zh": "cmn"}

_LONGEST_WORD = 60
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")

# espeak-ng would also take a path, or ignore what follows a NUL.
_LANGUAGE = re.compile(r"[A-Za-z0-9-]{2,40}")

_OUTPUT_SYNCHRONOUS = 2
_DO_NOT_EXIT = 0x8000
_TEXT_IS_UTF8 = 1
_PHONEMES_BY_NAME = 0
_PHONEMES_AS_IPA = 2
_SEPARATED = ord("|") << 8
_POSITION_IS_CHARACTER = 1
_RATE, _PITCH = 1, 3
_LAST_EVENT, _WORD_EVENT = 0, 1


class _VoiceStruct(ctypes.Structure):
    """`espeak_VOICE` of speak_lib.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        (
            "languages",
            ctypes.c_void_p,
        ),  # list of: priority byte, language code, NUL; ended by a zero priority
        ("identifier", ctypes.c_char_p),
        ("gender", ctypes.c_ubyte),
        ("age", ctypes.c_ubyte),
        ("variant", ctypes.c_ubyte),
        ("unused", ctypes.c_ubyte),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    ]


class _EventStruct(ctypes.Structure):
    """`espeak_EVENT` of speak_lib.h."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),  # from 1
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),  # milliseconds
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


@dataclass(frozen=True)
class WordEvent:
    """A word that espeak-ng begins to say.

    Attributes:
        place: of its first character in the text.
        length: in characters.
        seconds: from the start of the audio.
    """

    place: int
    length: int
    seconds: float


@dataclass(frozen=True)
class Voice:
    """One of espeak-ng's languages, or a variant of the speaking voice.

    Attributes:
        language: the code to ask for it by, such as `fa` or `en-us`; empty for a variant.
        name: in words, such as `Persian`.
        identifier: its file inside espeak-ng's data, such as `ira/fa` or `!v/f3`.
    """

    language: str
    name: str
    identifier: str


class _Library:
    """The loaded and initialised shared library, its lock and its callback."""

    def __init__(self) -> None:
        if not available():
            raise MissingExtraError("espeak-ng", "speech")
        import espeakng_loader

        self.lock = threading.RLock()
        self.voice: str | None = None
        self.chunks: list[bytes] = []
        self.words: list[WordEvent] = []
        try:
            self.c = ctypes.CDLL(espeakng_loader.get_library_path())
            data = espeakng_loader.get_data_path()
        except (OSError, RuntimeError) as error:
            raise MyXTTSError(
                f"espeak-ng cannot be loaded: {error}\nReinstall it: pip install --force-reinstall espeakng-loader"
            ) from error
        self.c.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self.c.espeak_TextToPhonemes.argtypes = [
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.c_int,
            ctypes.c_int,
        ]
        self.c.espeak_Info.restype = ctypes.c_char_p
        self.c.espeak_Info.argtypes = [ctypes.c_void_p]
        self.c.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_VoiceStruct))
        self.c.espeak_ListVoices.argtypes = [ctypes.c_void_p]
        self.c.espeak_SetVoiceByName.argtypes = [ctypes.c_char_p]
        self.c.espeak_Synth.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_uint,
            ctypes.c_int,
            ctypes.c_uint,
            ctypes.c_uint,
            ctypes.c_void_p,
            ctypes.c_void_p,
        ]
        self.sample_rate = self.c.espeak_Initialize(_OUTPUT_SYNCHRONOUS, 0, data.encode(), _DO_NOT_EXIT)
        if self.sample_rate <= 0:
            raise MyXTTSError(f"espeak-ng does not start with its data in {data}")
        signature = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_EventStruct)
        )
        self.callback = signature(self._receive)  # kept: the library holds only a bare pointer to it
        self.c.espeak_SetSynthCallback(self.callback)
        # Breathy voices draw noise from a generator that initialising seeds with the time.
        self.c.espeak_ng_SetRandSeed(ctypes.c_long(1))

    def _receive(
        self, samples: ctypes._Pointer[ctypes.c_short], count: int, events: ctypes._Pointer[_EventStruct]
    ) -> int:
        if samples and count:
            self.chunks.append(ctypes.string_at(samples, 2 * count))
        for event in map(events.__getitem__, count_from()):  # the array ends with an event of its own kind
            if event.type == _LAST_EVENT:
                break
            if event.type == _WORD_EVENT:
                self.words.append(WordEvent(event.text_position - 1, event.length, event.sample / self.sample_rate))
        return 0

    def list_voices(self, languages: bytes | None) -> list[Voice]:
        found = []
        with self.lock:
            if languages is None:
                pointers = self.c.espeak_ListVoices(None)
            else:
                wanted = ctypes.create_string_buffer(languages)
                spec = _VoiceStruct(languages=ctypes.addressof(wanted))
                pointers = self.c.espeak_ListVoices(ctypes.byref(spec))
            for pointer in pointers:
                if not pointer:
                    break
                voice = pointer.contents
                language = ctypes.string_at(voice.languages + 1).decode() if voice.languages else ""
                found.append(
                    Voice(
                        "" if language == "variant" else language,
                        voice.name.decode(),
                        voice.identifier.decode(),
                    )
                )
        return found


@lru_cache(maxsize=1)
def _library() -> _Library:
    return _Library()


def available() -> bool:
    """Whether espeak-ng is installed (the `speech` extra), without loading it."""
    return importlib.util.find_spec("espeakng_loader") is not None


class Espeak:
    """espeak-ng, loaded on first use and once per process, however many objects there are.

    ```python
    espeak = Espeak()
    espeak.phonemes(["Hello world."], "en")          # ['həlˈoʊ wˈɜːld']
    audio = espeak.speak("سلام دنیا", "fa+f3")        # int16 at espeak.sample_rate
    ```

    Raises:
        MissingExtraError: the `speech` extra is not installed.
    """

    def __init__(self) -> None:
        self._library = _library()

    @property
    def version(self) -> str:
        """espeak-ng's version, such as `1.52.0`."""
        return str(self._library.c.espeak_Info(None).decode())

    @property
    def sample_rate(self) -> int:
        """Samples per second of what `speak` returns."""
        return int(self._library.sample_rate)

    def voices(self) -> list[Voice]:
        """The languages espeak-ng speaks, by code."""
        return sorted(self._library.list_voices(None), key=lambda voice: voice.language)

    def variants(self) -> list[str]:
        """The names that may follow `+` in a voice, such as `f3` or `klatt2`."""
        listed = self._library.list_voices(b"variant")
        return sorted({voice.identifier.rsplit("/", 1)[-1] for voice in listed})

    def phonemes(self, texts: Iterable[str], language: str) -> list[str]:
        """IPA of each text: words apart by a space, stress marked, punctuation and language markers gone.

        Args:
            texts: any strings; best a clause each, since espeak-ng ends its clauses at punctuation.
            language: a language code of MyXTTS or a voice name of espeak-ng.

        Raises:
            UsageError: espeak-ng has no such language.
        """
        with self._library.lock:
            self._select(language)
            if VOICES.get(language, language).startswith("cmn"):
                return [
                    mandarin(
                        self._phonemes(text, _PHONEMES_AS_IPA | _SEPARATED),
                        self._phonemes(text, _PHONEMES_BY_NAME | _SEPARATED),
                    )
                    for text in texts
                ]
            if language.partition("-")[0] not in LANGUAGES:
                # Hindi and Vietnamese crash on a hyphen between letters of another script.
                texts = (text.replace("-", " ") for text in texts)
            return [corrected_ipa(self._phonemes(text, _PHONEMES_AS_IPA), language) for text in texts]

    def speak(self, text: str, voice: str, rate_wpm: int = 175, pitch: int = 50) -> np.ndarray:
        """Speech as int16 [samples] at `sample_rate`, mono.

        Args:
            text: what to say; espeak-ng reads numbers and punctuation itself.
            voice: a language, or language and variant as in `en-us+f3`.
            rate_wpm: words per minute, 80 to 450.
            pitch: 0 to 100; 50 is the voice's own.

        Raises:
            UsageError: an unknown language or variant, or a rate or pitch out of range.
        """
        return self.speak_words(text, voice, rate_wpm, pitch)[0]

    def speak_words(
        self, text: str, voice: str, rate_wpm: int = 175, pitch: int = 50
    ) -> tuple[np.ndarray, list[WordEvent]]:
        """What `speak` returns, and when each word of it begins. Arguments and errors are those of `speak`."""
        if not 80 <= rate_wpm <= 450:
            raise UsageError(f"rate_wpm is {rate_wpm}; espeak-ng speaks 80 to 450 words per minute")
        if not 0 <= pitch <= 100:
            raise UsageError(f"pitch is {pitch}; espeak-ng takes 0 to 100")
        library = self._library
        with library.lock:
            self._select(voice)
            library.c.espeak_SetParameter(_RATE, rate_wpm, 0)
            library.c.espeak_SetParameter(_PITCH, pitch, 0)
            library.chunks.clear()
            library.words.clear()
            encoded = text.translate(_SPOKEN).encode()
            status = library.c.espeak_Synth(
                encoded, len(encoded) + 1, 0, _POSITION_IS_CHARACTER, 0, _TEXT_IS_UTF8, None, None
            )
            if status != 0:
                raise MyXTTSError(f"espeak-ng could not speak with voice '{voice}' (status {status})")
            audio = np.frombuffer(b"".join(library.chunks), dtype=np.int16)
            library.chunks.clear()
            return audio, list(library.words)

    def _phonemes(self, text: str, mode: int) -> str:
        """Phonemes in the current voice; the caller holds the lock."""
        text = _LONG_WORD.sub(_split_word, text)
        to_phonemes = self._library.c.espeak_TextToPhonemes
        pointer = ctypes.c_char_p(text.translate(_PHONEMISED).encode())
        reference = ctypes.byref(pointer)
        clauses = []
        while pointer.value:  # each call takes one clause and moves the pointer past it, at the end to NULL
            clauses.append(to_phonemes(reference, _TEXT_IS_UTF8, mode).decode())
        return " ".join(clauses)

    def _select(self, voice: str) -> None:
        """Makes `voice` current; the caller holds the lock."""
        library = self._library
        if voice == library.voice:
            return
        language, plus, variant = voice.partition("+")
        if not _LANGUAGE.fullmatch(language):
            raise UsageError(f"'{language[:40]}' is not a language code; `Espeak().voices()` lists them")
        if plus and variant not in self.variants():
            # espeak-ng would take the plain voice without a word.
            raise UsageError(f"espeak-ng has no voice variant '{variant}'; `Espeak().variants()` lists them")
        name = VOICES.get(language, language) + plus + variant
        library.voice = None
        if library.c.espeak_SetVoiceByName(name.encode()) != 0:
            raise UsageError(f"espeak-ng has no language '{language}'; `Espeak().voices()` lists them")
        library.voice = voice


class _Speakable(dict[int, "str | int"]):
    """For `str.translate`: spaces for characters of the categories that must not reach espeak-ng."""

    def __init__(self, unsafe: tuple[str, ...]) -> None:
        super().__init__()
        self._unsafe = unsafe

    def __missing__(self, code: int) -> str | int:
        self[code] = " " if unicodedata.category(chr(code)) in self._unsafe else code
        return self[code]


# NUL would end the C string, lone surrogates have no UTF-8, and some pictures crash the library (a cowboy in
# German). In some languages so do other signs ("<-i" in Vietnamese); their phonemes are not wanted, but a
# sentence to be spoken may have prices in it.
_SPOKEN = _Speakable(("Cc", "Cs", "Co", "Cn", "So"))
_PHONEMISED = _Speakable(("Cc", "Cs", "Co", "Cn", "So", "Sc", "Sk", "Sm"))


def _split_word(match: re.Match[str]) -> str:
    word = match.group()
    return " ".join(word[i : i + _LONGEST_WORD] for i in range(0, len(word), _LONGEST_WORD))
