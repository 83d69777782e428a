"""A speaker without a model, for what is around one: each symbol is a short tone. Text, words and errors are real."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.errors import AudioError, UsageError
from myxtts.inference.speech_plan import plan_speech
from myxtts.inference.word_times import WordTime
from myxtts.text import TextSettings, Tokenizer
from myxtts.text.markup import Markup, parse_markup

RATE = 22050
HOP = 256
FRAMES_PER_TOKEN = 6
BANDS = 20
PIECE_FRAMES = 48


@dataclass(frozen=True)
class TonePiece:
    """As `SpokenPiece`."""

    audio: np.ndarray
    words: tuple[WordTime, ...] = ()
    mel: np.ndarray | None = None


class ToneSpeaker:
    """Speaks in tones.

    Attributes:
        pieces_made: until now, by all threads.
        may_go_on: cleared, a piece is not made until it is set again.
    """

    def __init__(
        self, languages: tuple[str, ...] = ("en", "fa"), voices: tuple[str, ...] = ("default", "low")
    ) -> None:
        self.sample_rate = RATE
        self.languages = languages
        self.language = languages[0]
        self.voices = voices
        self.pieces_made = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._tokenizer = Tokenizer(TextSettings.from_config(XTTSConfig(text_symbols="graphemes").data))

    def voice(self, reference_audio: np.ndarray | None = None) -> np.ndarray:
        if reference_audio is not None and len(reference_audio) < RATE:
            raise AudioError("the reference: shorter than a second")
        loudness = 0.1 if reference_audio is None else float(np.sqrt(2) * reference_audio.std())
        return np.array([loudness, 220.0], np.float32)

    def named_voice(self, name: str) -> np.ndarray:
        if name not in self.voices:
            raise UsageError(f"no voice {name}")
        return np.array([0.1, 220.0 / (1 + self.voices.index(name))], np.float32)

    def stream_pieces(
        self, text: str | Markup, *, language: str | None, speed: float, seed: int, voice: np.ndarray
    ) -> Iterator[TonePiece]:
        markup = text if isinstance(text, Markup) else parse_markup(text, language or self.language)
        return self._pieces(plan_speech(markup, self._tokenizer, speed).utterances, voice)

    def _pieces(self, utterances: Any, voice: np.ndarray) -> Iterator[TonePiece]:
        spoken = 0.0
        for utterance in utterances:
            frames = max(1, round(FRAMES_PER_TOKEN / utterance.speed))
            alignment = np.repeat(np.arange(len(utterance.tokens), dtype=np.int32), frames)
            before, after = (round(one * RATE) for one in (utterance.silence_before, utterance.silence_after))
            words = utterance.words(alignment, HOP / RATE, spoken + before / RATE)
            mel = np.tile(np.linspace(-8, 0, BANDS, dtype=np.float32), (len(alignment), 1))
            tone = voice[0] * np.sin(np.arange(len(alignment) * HOP) * (2 * np.pi * voice[1] / RATE))
            audio = np.pad(tone.astype(np.float32), (before, after))
            spoken += len(audio) / RATE
            for start in range(0, len(audio), PIECE_FRAMES * HOP):
                self.may_go_on.wait()
                self.pieces_made += 1
                piece = audio[start : start + PIECE_FRAMES * HOP]
                yield TonePiece(piece) if start else TonePiece(piece, words, mel)
                time.sleep(0)
