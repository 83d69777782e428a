"""Speaks with a trained model: text in, audio out, sentence by sentence."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, UsageError
from myxtts.inference.reference import reference_mels
from myxtts.inference.speech_plan import PlannedUtterance, plan_speech
from myxtts.inference.vocoder import AUTO, Vocoder, VocoderChoice, as_vocoder
from myxtts.inference.word_times import WordTime
from myxtts.models.checkpoint import Checkpoint, as_checkpoint, differences, load_model
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
        text: str | Markup,
        reference_audio: str | os.PathLike[str] | np.ndarray | None = None,
        language: str | None = None,
        speed: float = 1.0,
        seed: int = 0,
        voices: Mapping[str, str | os.PathLike[str] | np.ndarray] | None = None,
    ) -> Synthesis:
        """Speaks a whole text. Arguments and errors are those of `stream`."""
        utterances = tuple(self.stream(text, reference_audio, language, speed, seed, voices))
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

        What the markup has and the speech does not is named in a warning.

        Raises:
            TextError: there is no text, nothing in it can be spoken, or its markup is wrong.
            AudioError: the recording is missing, not audio, silent, or shorter than a second.
            UsageError: an unknown language, or a speed out of range.
        """
        if isinstance(text, str):
            text = parse_markup(text, language or self.config.data.language)
        recordings = dict(voices or {})
        plan = plan_speech(text, self.tokenizer, speed, recordings)
        if plan.ignored:
            logger.warning("ignored in the markup: %s", ", ".join(plan.ignored))
        default = self.voice(reference_audio)
        named = {utterance.voice for utterance in plan.utterances if utterance.voice in recordings}
        spoken_by = {name: self.voice(recordings[name]) for name in named if name is not None}
        pairs = [(utterance, spoken_by.get(utterance.voice or "", default)) for utterance in plan.utterances]
        return self._utterances(pairs, seed)

    def _utterances(self, planned: list[tuple[PlannedUtterance, np.ndarray]], seed: int) -> Iterator[Utterance]:
        spoken_samples = 0
        frame_seconds = self.mel_settings.hop_length / self.mel_settings.sample_rate
        for position, (utterance, voice) in enumerate(planned):
            start = time.perf_counter()
            language = language_id(utterance.language, self.config.data.extra_languages)
            mel, alignment = self._speak(utterance.tokens, language, voice, utterance.speed, [seed, position])
            mel, alignment = mel.numpy(), alignment.numpy()
            audio = self.vocoder(mel) * utterance.gain
            audio = audio / max(1.0, np.abs(audio).max(initial=0.0))  # beyond full scale it would crackle
            before, after = (
                round(seconds * self.sample_rate) for seconds in (utterance.silence_before, utterance.silence_after)
            )
            first_frame = (spoken_samples + before) / self.sample_rate
            audio = np.pad(audio, (before, after))
            spoken_samples += len(audio)
            yield Utterance(
                utterance.text,
                audio,
                mel,
                utterance.tokens,
                alignment,
                time.perf_counter() - start,
                functools.partial(utterance.words, alignment, frame_seconds, first_frame),
            )

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
