"""Speaks with a trained model: text in, audio out, sentence by sentence."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, TextError, UsageError
from myxtts.inference.reference import reference_mels
from myxtts.inference.sentences import Piece, split_paragraphs, split_sentences
from myxtts.inference.vocoder import AUTO, Vocoder, VocoderChoice, as_vocoder
from myxtts.models.checkpoint import Checkpoint, as_checkpoint, differences, load_model
from myxtts.text import TextSettings, Tokenizer, language_id, normalize

logger = logging.getLogger(__name__)

SLOWEST, FASTEST = 0.25, 4.0


@dataclass(frozen=True)
class Utterance:
    """One spoken sentence.

    Attributes:
        text: normalised.
        audio: float32 [n], full scale ±1, with the pause after it.
        mel: float32 [F, n_mels], natural log, without the pause.
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
    def compute_seconds(self) -> float:
        return sum(utterance.compute_seconds for utterance in self.utterances)

    @property
    def real_time_factor(self) -> float:
        """Seconds of computing for a second of speech; below 1 is faster than speech."""
        return self.compute_seconds / self.seconds


def _accept_old_order(init: Callable[..., None]) -> Any:
    """Lets callers still pass the configuration before the checkpoint, as it used to be."""

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

    for utterance in speaker.stream(long_text, language="fa"):   # each as soon as it is ready
        play(utterance.audio)
    ```

    The graph is traced here, once for all lengths, so that the first sentence is as quick as the others.

    Args:
        checkpoint_path: folder of the checkpoint, or what `read_checkpoint` returned.
        config: refuse a checkpoint that was trained with another configuration; None: use the checkpoint's own.
        vocoder: makes audio of mels; or what `create_vocoder` takes: `auto`, `griffin-lim`, a folder or a file. None:
            `auto`.

    Raises:
        CheckpointError: the checkpoint is missing, damaged, or was trained with another configuration.
        VocoderError: the vocoder cannot be read, or does not fit the checkpoint's mels.
    """

    @_accept_old_order
    def __init__(
        self,
        checkpoint_path: str | os.PathLike[str] | Checkpoint,
        config: XTTSConfig | None = None,
        vocoder: Vocoder | VocoderChoice | None = None,
    ) -> None:
        checkpoint = as_checkpoint(checkpoint_path)
        if config is not None and (found := differences(checkpoint, config)):
            raise CheckpointError(
                f"{checkpoint.path}: trained with another configuration: {'; '.join(found)}\n"
                "Leave out the configuration to use the checkpoint's own"
            )
        self.config = config or checkpoint.config
        self.model = load_model(checkpoint)
        self.mel_settings = MelSettings.from_config(self.config.data)
        self.tokenizer = Tokenizer(TextSettings.from_config(self.config.data))
        self.vocoder = as_vocoder(AUTO if vocoder is None else vocoder, self.mel_settings, checkpoint.path)
        if self.vocoder.sample_rate != self.mel_settings.sample_rate:
            raise UsageError(
                f"the vocoder speaks at {self.vocoder.sample_rate} Hz, the model at {self.mel_settings.sample_rate}"
            )
        self._speak = tf.function(
            self._speak_one,
            input_signature=[
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([self.model.sizes.voice], tf.float32),
                tf.TensorSpec([], tf.float32),
                tf.TensorSpec([2], tf.int32),
            ],
            autograph=False,
        )
        self._speak.get_concrete_function()

    @property
    def sample_rate(self) -> int:
        return self.vocoder.sample_rate

    def voice(self, reference_audio: str | os.PathLike[str] | np.ndarray | None = None) -> np.ndarray:
        """The voice in a recording, or the default voice if there is none: float32 [D].

        Raises:
            AudioError: the recording is missing, not audio, silent, or shorter than a second.
            UsageError: the model was trained without references.
        """
        if reference_audio is None:
            return self.model.default_voice(1).numpy()[0]
        seconds = self.config.data.reference_seconds
        if not self.mel_settings.frames(int(seconds * self.mel_settings.sample_rate)):
            raise UsageError(f"this checkpoint was trained without references (reference_seconds: {seconds:g})")
        crops = reference_mels(reference_audio, self.mel_settings, seconds)
        return self.model.voice(crops).numpy().mean(axis=0)

    def synthesize(
        self,
        text: str,
        reference_audio: str | os.PathLike[str] | np.ndarray | None = None,
        language: str | None = None,
        speed: float = 1.0,
        seed: int = 0,
    ) -> Synthesis:
        """Speaks a whole text. Arguments and errors are those of `stream`."""
        utterances = tuple(self.stream(text, reference_audio, language, speed, seed))
        audio = np.concatenate([utterance.audio for utterance in utterances])
        return Synthesis(audio, self.sample_rate, utterances)

    def stream(
        self,
        text: str,
        reference_audio: str | os.PathLike[str] | np.ndarray | None = None,
        language: str | None = None,
        speed: float = 1.0,
        seed: int = 0,
    ) -> Iterator[Utterance]:
        """Speaks a text of any length; yields each sentence as soon as it is ready. Wrong arguments raise at once,
        not with the first sentence.

        Args:
            text: as written; empty lines make longer pauses.
            reference_audio: a recording of the voice to speak with (a file, or float32 [n] at `sample_rate`);
                None: the default voice.
            language: its code; None: the configuration's.
            speed: 2 is twice as fast.
            seed: with another seed the flow decoder speaks a little differently.

        Raises:
            TextError: there is no text, or nothing in it can be spoken.
            AudioError: the recording is missing, not audio, silent, or shorter than a second.
            UsageError: an unknown language, or a speed out of range.
        """
        if not SLOWEST <= speed <= FASTEST:
            raise UsageError(f"speed should be between {SLOWEST:g} and {FASTEST:g} (got {speed:g})")
        language = language or self.config.data.language
        number = language_id(language, self.config.data.extra_languages)
        pieces = self._pieces(text, language)
        voice = self.voice(reference_audio)
        return self._utterances(pieces, number, voice, speed, seed)

    def _utterances(
        self, pieces: list[tuple[Piece, np.ndarray]], language: int, voice: np.ndarray, speed: float, seed: int
    ) -> Iterator[Utterance]:
        for position, (piece, tokens) in enumerate(pieces):
            start = time.perf_counter()
            mel, alignment = self._speak(tokens, language, voice, speed, [seed, position])
            mel = mel.numpy()
            audio = self.vocoder(mel)
            audio = audio / max(1.0, np.abs(audio).max(initial=0.0))  # beyond full scale it would crackle
            last = position == len(pieces) - 1
            pause = 0 if last else round(piece.pause / speed * self.sample_rate)
            yield Utterance(
                piece.text,
                np.pad(audio, (0, pause)),
                mel,
                tokens,
                alignment.numpy(),
                time.perf_counter() - start,
            )

    def _pieces(self, text: str, language: str) -> list[tuple[Piece, np.ndarray]]:
        if not text.strip():
            raise TextError("there is no text to speak")
        paragraphs = [normalize(paragraph, language) for paragraph in split_paragraphs(text)]
        pieces = [piece for paragraph in paragraphs for piece in split_sentences(paragraph)]
        texts = [piece.text for piece in pieces]
        encoded = self.tokenizer.encode_batch(texts, [language] * len(pieces), normalized=True)
        spoken = [(piece, tokens) for piece, tokens in zip(pieces, encoded, strict=True) if self._speakable(tokens)]
        if self.tokenizer.unknown:
            unknown = " ".join(sorted(self.tokenizer.unknown))
            logger.warning("symbols the model does not know, spoken as best it can: %s", unknown)
            self.tokenizer.unknown.clear()
        if not spoken:
            raise TextError(f"nothing to speak in '{text.strip()[:40]}': no letters or numbers of '{language}'")
        return spoken

    def _speakable(self, tokens: np.ndarray) -> bool:
        """Whether any symbol is a letter, digit or phoneme: punctuation alone is not spoken."""
        return any(len(symbol) == 1 and symbol.isalnum() for symbol in self.tokenizer.decode(tokens))

    def _speak_one(
        self, tokens: tf.Tensor, language: tf.Tensor, voice: tf.Tensor, speed: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        speech = self.model.speak(
            tokens[None],
            tf.shape(tokens)[:1],
            language[None],
            voice[None],
            speed=speed,
            steps=self.config.model.flow_steps,
            seed=seed,
        )
        return speech.mel[0], speech.alignment[0]
