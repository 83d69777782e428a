"""Speaks with a trained model: text in, audio out, sentence by sentence."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, UsageError, needing_train_extra
from myxtts.inference.reference import reference_voice
from myxtts.inference.speech_plan import PlannedUtterance, plan_speech
from myxtts.inference.vocoder import AUTO, Vocoder, VocoderChoice, as_vocoder
from myxtts.inference.word_times import WordTime
from myxtts.models.checkpoint import SPEECH, Checkpoint, read_checkpoint, setting_differences
from myxtts.models.shipped import STARTER_BUNDLE, is_starter
from myxtts.runtime.bundle import Bundle, is_bundle, open_bundle, read_bundle
from myxtts.runtime.chunked_vocoder import STREAM_CHUNK
from myxtts.runtime.speech_model import DEFAULT_VOICE, OpenedVoice, SpokenMel
from myxtts.text import TextSettings, Tokenizer, language_id
from myxtts.text.markup import Markup, parse_markup

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Utterance:
    """One spoken sentence.

    Attributes:
        text: normalised.
        audio: float32 [n], full scale ±1, with the pause after it, and one before it if the markup says so.
        mel: float32 [F, n_mels], natural log, without pauses.
        tokens: int32 [T].
        alignment: int32 [F], the token of each frame.
        compute_seconds: computing time.
    """

    text: str
    audio: np.ndarray
    mel: np.ndarray
    tokens: np.ndarray
    alignment: np.ndarray
    compute_seconds: float
    _find_words: Callable[[], tuple[WordTime, ...]] = field(default=tuple, repr=False)

    @functools.cached_property
    def words(self) -> tuple[WordTime, ...]:
        """When each written word is spoken, in seconds of the whole audio; computed when asked for."""
        return self._find_words()


@dataclass(frozen=True)
class SpokenPiece:
    """A piece of a spoken sentence.

    Attributes:
        audio: float32 [n], full scale ±1.
        mel: float32 [F, n_mels] of the sentence that begins with this piece; None: it began before.
    """

    audio: np.ndarray
    mel: np.ndarray | None = None
    _find_words: Callable[[], tuple[WordTime, ...]] = field(default=tuple, repr=False)

    @functools.cached_property
    def words(self) -> tuple[WordTime, ...]:
        """When each written word of the sentence that begins with this piece is spoken, in seconds of the whole
        audio; none if it began before."""
        return self._find_words()


@dataclass(frozen=True)
class Synthesis:
    """A whole spoken text.

    Attributes:
        audio: float32 [n], full scale ±1.
        sample_rate: samples per second.
        utterances: its sentences.
    """

    audio: np.ndarray
    sample_rate: int
    utterances: tuple[Utterance, ...]

    @property
    def seconds(self) -> float:
        return len(self.audio) / self.sample_rate

    @property
    def words(self) -> tuple[WordTime, ...]:
        """When each written word is spoken."""
        return tuple(word for utterance in self.utterances for word in utterance.words)

    @property
    def compute_seconds(self) -> float:
        return sum(utterance.compute_seconds for utterance in self.utterances)

    @property
    def real_time_factor(self) -> float:
        """Seconds of computing for a second of speech; below 1 is faster than speech."""
        return self.compute_seconds / self.seconds


@dataclass(frozen=True)
class _Part:
    """A sentence to be spoken."""

    planned: PlannedUtterance
    voice: np.ndarray
    seed: tuple[int, int]


def _accept_config_first(init: Callable[..., None]) -> Any:
    """Also accepts the configuration before the checkpoint: `XTTSInference(config, checkpoint)`."""

    @functools.wraps(init)
    def accept(self: XTTSInference, *arguments: Any, **named: Any) -> None:
        if arguments and (arguments[0] is None or isinstance(arguments[0], XTTSConfig)):
            named |= zip(("config", "checkpoint_path", "vocoder"), arguments, strict=False)
            arguments = ()
        init(self, *arguments, **named)

    return accept


class XTTSInference:
    """A trained model, ready to speak.

    ```python
    speaker = XTTSInference("runs/voice/best")
    speech = speaker.synthesize("Hello there. How are you?", reference_audio="me.wav")
    soundfile.write("out.wav", speech.audio, speech.sample_rate)

    for piece in speaker.stream_pieces(long_text, language="fa"):   # each as soon as it is ready
        play(piece.audio)
    ```

    It speaks once while it is created, so that the first sentence is as quick as the others.

    Args:
        checkpoint_path: folder of a checkpoint or of a training run, or of a bundle that `myxtts export` made, which
            needs no TensorFlow; or what `read_voice` returned.
        config: refuse a checkpoint that was trained with another configuration; None: use the checkpoint's own.
        vocoder: makes audio of mels; or what `create_vocoder` takes: `auto`, `griffin-lim`, a folder or a file. None:
            `auto`.
        threads: to compute with; None: as many as there are CPUs. TensorFlow obeys only if it has not computed yet.

    Attributes:
        config: what it was trained with.
        mel_settings: of its mels.
        tokenizer: of its texts.
        vocoder: makes audio of its mels.

    Raises:
        CheckpointError: the checkpoint or bundle is missing, damaged, or was trained with another configuration.
        VocoderError: the vocoder cannot be read, or does not fit the checkpoint's mels.
        MissingExtraError: a package that it needs is not installed.
    """

    @_accept_config_first
    def __init__(
        self,
        checkpoint_path: str | os.PathLike[str] | Checkpoint | Bundle,
        config: XTTSConfig | None = None,
        vocoder: Vocoder | VocoderChoice | None = None,
        *,
        threads: int | None = None,
    ) -> None:
        self._opened = _open(checkpoint_path, config, threads)
        self.config = self._opened.config
        self.mel_settings = MelSettings.from_config(self.config.data)
        self.tokenizer = Tokenizer(TextSettings.from_config(self.config.data))
        self.vocoder = as_vocoder(AUTO if vocoder is None else vocoder, self.mel_settings, self._opened.path, threads)
        if self.vocoder.sample_rate != self.mel_settings.sample_rate:
            raise UsageError(
                f"the vocoder speaks at {self.vocoder.sample_rate} Hz, the model at {self.mel_settings.sample_rate}"
            )
        self._speak_once()

    @property
    def sample_rate(self) -> int:
        return self.vocoder.sample_rate

    @property
    def language(self) -> str:
        """The code of the default language."""
        return self.languages[0]

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that it was trained for."""
        return self._opened.languages

    @property
    def voices(self) -> tuple[str, ...]:
        """Names of the voices that are kept with it; the first is `default`."""
        return tuple(self._opened.voices)

    def voice(self, reference_audio: str | os.PathLike[str] | np.ndarray | None = None) -> np.ndarray:
        """The voice in a recording, or the default voice if there is none: float32 [D].

        Raises:
            AudioError: the recording is missing, not audio, silent, or shorter than a second.
            UsageError: the model was trained without references.
        """
        if reference_audio is None:
            return self.named_voice(DEFAULT_VOICE)
        return reference_voice(self._opened.model, reference_audio, self.config)

    def named_voice(self, name: str) -> np.ndarray:
        """A voice that is kept with it: float32 [D].

        Raises:
            UsageError: there is none of this name.
        """
        if name not in self._opened.voices:
            raise UsageError(f"no voice is named '{name}'; there are {', '.join(self.voices)}")
        return self._opened.voices[name]

    def synthesize(
        self,
        text: str | Markup,
        reference_audio: str | os.PathLike[str] | np.ndarray | None = None,
        language: str | None = None,
        speed: float = 1.0,
        seed: int = 0,
        voices: Mapping[str, str | os.PathLike[str] | np.ndarray] | None = None,
        *,
        voice: np.ndarray | None = None,
    ) -> Synthesis:
        """Speaks a whole text. Arguments and errors are those of `stream`."""
        utterances = tuple(self.stream(text, reference_audio, language, speed, seed, voices, voice=voice))
        audio = np.concatenate([utterance.audio for utterance in utterances])
        return Synthesis(audio, self.sample_rate, utterances)

    def stream(
        self,
        text: str | Markup,
        reference_audio: str | os.PathLike[str] | np.ndarray | None = None,
        language: str | None = None,
        speed: float = 1.0,
        seed: int = 0,
        voices: Mapping[str, str | os.PathLike[str] | np.ndarray] | None = None,
        *,
        voice: np.ndarray | None = None,
    ) -> Iterator[Utterance]:
        """Speaks a text of any length; yields each sentence as soon as it is ready. Wrong arguments raise at once,
        not with the first sentence.

        Args:
            text: as written, with `[pause]` or as SSML (docs/markup.md); empty lines make longer pauses. Or what
                `parse_markup` returned, which knows its language.
            reference_audio: a recording of the voice to speak with (a file, or float32 [n] at `sample_rate`);
                None: the default voice.
            language: its code; None: the configuration's.
            speed: 2 is twice as fast.
            seed: with another seed the flow decoder speaks a little differently.
            voices: recordings of the voices that SSML names.
            voice: what `voice` or `named_voice` returned, instead of a recording.

        What the markup has and the speech does not is named in a warning.

        Raises:
            TextError: there is no text, nothing in it can be spoken, or its markup is wrong.
            AudioError: the recording is missing, not audio, silent, or shorter than a second.
            UsageError: an unknown language, or a speed out of range.
        """
        return self._utterances(self._parts(text, reference_audio, language, speed, seed, voices, voice))

    def stream_pieces(
        self,
        text: str | Markup,
        reference_audio: str | os.PathLike[str] | np.ndarray | None = None,
        language: str | None = None,
        speed: float = 1.0,
        seed: int = 0,
        voices: Mapping[str, str | os.PathLike[str] | np.ndarray] | None = None,
        *,
        voice: np.ndarray | None = None,
        chunk_frames: int = STREAM_CHUNK,
    ) -> Iterator[SpokenPiece]:
        """Speaks a text of any length; yields sound before a sentence is finished, if the vocoder can. The pieces
        are, sample by sample, the audio of `synthesize`.

        Arguments and errors are those of `stream`, and `chunk_frames`: how many frames the first piece of a sentence
        has; the next ones grow. With another number than usual, samples differ by rounding errors.
        """
        parts = self._parts(text, reference_audio, language, speed, seed, voices, voice)
        return self._spoken_pieces(parts, chunk_frames)

    def _parts(
        self,
        text: str | Markup,
        reference_audio: str | os.PathLike[str] | np.ndarray | None,
        language: str | None,
        speed: float,
        seed: int,
        voices: Mapping[str, str | os.PathLike[str] | np.ndarray] | None,
        voice: np.ndarray | None,
    ) -> list[_Part]:
        if isinstance(text, str):
            text = parse_markup(text, language or self.config.data.language)
        recordings = dict(voices or {})
        plan = plan_speech(text, self.tokenizer, speed, recordings)
        if plan.ignored:
            logger.warning("ignored in the markup: %s", ", ".join(plan.ignored))
        default = self.voice(reference_audio) if voice is None else voice
        named = {utterance.voice for utterance in plan.utterances if utterance.voice in recordings}
        spoken_by = {name: self.voice(recordings[name]) for name in named if name is not None}
        return [
            _Part(utterance, spoken_by.get(utterance.voice or "", default), (seed, position))
            for position, utterance in enumerate(plan.utterances)
        ]

    def _utterances(self, parts: list[_Part]) -> Iterator[Utterance]:
        samples = 0
        for part in parts:
            start = time.perf_counter()
            spoken = self._mel(part)
            audio = np.concatenate(list(self._audio(part.planned, spoken.mel, STREAM_CHUNK)))
            yield Utterance(
                part.planned.text,
                audio,
                spoken.mel,
                part.planned.tokens,
                spoken.alignment,
                time.perf_counter() - start,
                self._words(part.planned, spoken, samples),
            )
            samples += len(audio)

    def _spoken_pieces(self, parts: list[_Part], chunk_frames: int) -> Iterator[SpokenPiece]:
        samples = 0
        for part in parts:
            spoken = self._mel(part)
            words = self._words(part.planned, spoken, samples)
            for place, audio in enumerate(self._audio(part.planned, spoken.mel, chunk_frames)):
                yield SpokenPiece(audio) if place else SpokenPiece(audio, spoken.mel, words)
                samples += len(audio)

    def _mel(self, part: _Part) -> SpokenMel:
        planned = part.planned
        language = language_id(planned.language, self.config.data.extra_languages)
        return self._opened.model.speak(planned.tokens, language, part.voice, planned.speed, part.seed)

    def _audio(self, planned: PlannedUtterance, mel: np.ndarray, chunk_frames: int) -> Iterator[np.ndarray]:
        """The sound of a sentence with the silence around it, float32 [n] each."""
        before, after = (
            np.zeros(round(seconds * self.sample_rate), np.float32)
            for seconds in (planned.silence_before, planned.silence_after)
        )
        for piece in self.vocoder.stream(mel, chunk_frames):
            # Sample by sample: what comes later in the sentence is not known yet.
            audio = np.clip(piece * np.float32(planned.gain), -1.0, 1.0)
            yield np.concatenate([before, audio]) if len(before) else audio
            before = before[:0]
        if len(after):
            yield after

    def _words(
        self, planned: PlannedUtterance, spoken: SpokenMel, samples: int
    ) -> Callable[[], tuple[WordTime, ...]]:
        """What finds the times of a sentence's words, `samples` after the beginning of the whole audio."""
        frame_seconds = self.mel_settings.hop_length / self.mel_settings.sample_rate
        before = round(planned.silence_before * self.sample_rate)
        return functools.partial(
            planned.words, spoken.alignment, frame_seconds, (samples + before) / self.sample_rate
        )

    def _speak_once(self) -> None:
        """So that no sentence of the caller waits for what is loaded, allocated or measured with the first one."""
        tokens = self.tokenizer.encode("a", self.language)
        language = language_id(self.language, self.config.data.extra_languages)
        mel, _ = self._opened.model.speak(tokens, language, self.voice())
        for _ in self.vocoder.stream(mel, len(mel) // 2 + 1):  # in two pieces, as a longer one
            pass


def read_voice(path: str | os.PathLike[str]) -> Checkpoint | Bundle:
    """What a checkpoint or a bundle says about itself, after checking its files. Needs no TensorFlow.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    folder = STARTER_BUNDLE if is_starter(str(path)) else Path(path)
    return read_bundle(folder) if is_bundle(folder) else read_checkpoint(folder)


def _open(
    given: str | os.PathLike[str] | Checkpoint | Bundle, config: XTTSConfig | None, threads: int | None
) -> OpenedVoice:
    read = given if isinstance(given, Checkpoint | Bundle) else read_voice(given)
    where = "the bundle" if isinstance(read, Bundle) else "the checkpoint"
    if config is not None and (found := setting_differences(read.settings, config, SPEECH, where)):
        raise CheckpointError(
            f"{read.path}: trained with another configuration: {'; '.join(found)}\n"
            f"Leave out the configuration to use {where}'s own"
        )
    if isinstance(read, Bundle):
        return open_bundle(read, config or read.config, threads)
    with needing_train_extra(f"{read.path}: speaking with a checkpoint"):
        from myxtts.inference.checkpoint_voice import open_checkpoint

    return open_checkpoint(read, config or read.config, threads)
