"""The model: from text and a voice to a mel, and from a clip to the outputs that its losses need.

    tokens ─► TextEncoder ─► states ─┬─► mean mel per token ──► aligner ◄── mel of the clip
                 ▲                   ├─► DurationPredictor          │
    reference ─► ReferenceEncoder    └────────► per frame ◄─────────┘ (or predicted durations)
    mel            (voice) ─────────────────────────┴──► decoder ──► mel

In training the aligner finds which frame belongs to which token, by how near the frame is to the token's mean mel.
When speaking, predicted durations take its place. The aligner's is the only loop over time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.models.alignment import (
    alignment_to_path,
    durations_to_alignment,
    monotonic_alignment,
    path_to_durations,
)
from myxtts.models.duration_predictor import DurationPredictor
from myxtts.models.flow_decoder import FlowDecoder
from myxtts.models.masking import dims, length_mask
from myxtts.models.mel_scale import MEL_DEVIATION, MEL_MEAN, NOISE, TEMPERATURE
from myxtts.models.randomness import Seed, fold_in, normal, seed_of, uniform
from myxtts.models.reference_encoder import ReferenceEncoder
from myxtts.models.regression_decoder import RegressionDecoder
from myxtts.models.sizes import ModelSizes
from myxtts.models.text_encoder import TextEncoder

# A frame is audible if its loudest band is this far (in natural log) above the floor.
AUDIBLE = 0.1

# How strongly the aligner prefers the diagonal. It matters only while the mean mels are still alike.
DIAGONAL = 10.0

# Most frames of a token, so that an untrained predictor cannot ask for minutes: 5.8 s by default.
LONGEST = 500.0


class Outputs(NamedTuple):
    """What the model computes from a clip in training. Mels are normalised, in float32."""

    mel: tf.Tensor  # [B, F, n_mels], the clip's
    mean: tf.Tensor  # [B, F, n_mels], the encoder's mean mel of each frame's token
    prediction: tf.Tensor  # [B, F, n_mels], the decoder's output
    target: tf.Tensor  # [B, F, n_mels], what that should be
    log_durations: tf.Tensor  # [B, T], predicted
    durations: tf.Tensor  # int32 [B, T], by the alignment
    alignment: tf.Tensor  # int32 [B, F], -1 beyond the clip
    token_mask: tf.Tensor  # [B, T, 1]
    frame_mask: tf.Tensor  # [B, F, 1]
    tokens: tf.Tensor  # float32 scalar, tokens of all clips of the batch; see `call`
    frames: tf.Tensor  # float32 scalar, their frames


class Plan(NamedTuple):
    """What is to be said, frame by frame, before the decoder says it. Mels are normalised, in float32."""

    mean: tf.Tensor  # [B, F, n_mels], the encoder's mean mel of each frame's token
    features: tf.Tensor  # [B, F, C]
    mask: tf.Tensor  # [B, F, 1]
    lengths: tf.Tensor  # int32 [B], frames
    alignment: tf.Tensor  # int32 [B, F], -1 beyond the clip


class SpokenBatch(NamedTuple):
    """What the model speaks."""

    mel: tf.Tensor  # float32 [B, F, n_mels], natural log; the floor beyond the clip
    mel_lengths: tf.Tensor  # int32 [B]
    alignment: tf.Tensor  # int32 [B, F], -1 beyond the clip


@keras.saving.register_keras_serializable("myxtts")
class XTTS(keras.Model):
    """Text to mel in any of many languages and voices.

    ```python
    model = XTTS(SIZES["tiny"], vocab_size=100, languages=17)
    outputs = model(batch, training=True, seed=[0, step])        # a batch as the pipeline makes it
    voice = model.voice(reference_mel)                           # [B, R, n_mels] → [B, D]
    speech = model.speak(tokens, token_lengths, language, voice)
    ```

    All weights exist once the model is created. It has no random state: what a call draws depends on `seed` alone.

    Args:
        sizes: widths and depths.
        vocab_size: number of token ids; 0 is padding.
        languages: number of language ids.
        n_mels: mel bands.
        log_floor: smallest magnitude in a mel before the logarithm.
        decoder: `regression` or `flow`.
        voice_dropout: share of clips that train the default voice instead of their reference's.
        dtype: Keras dtype policy, such as `mixed_float16`. Alignment, durations and mels are float32 under any.
    """

    def __init__(
        self,
        sizes: ModelSizes,
        vocab_size: int,
        languages: int,
        n_mels: int = 80,
        log_floor: float = 1e-5,
        decoder: str = "regression",
        voice_dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy
        self.sizes = sizes
        self.vocab_size = vocab_size
        self.languages = languages
        self.n_mels = n_mels
        self.log_floor = log_floor
        self.decoder_kind = decoder
        self.voice_dropout = voice_dropout
        kernel, dropout = sizes.kernel_size, sizes.dropout

        self.encoder = TextEncoder(
            vocab_size,
            languages,
            sizes.voice,
            sizes.encoder_width,
            sizes.encoder_blocks,
            kernel,
            dropout,
            dtype=policy,
        )
        self.mean_head = keras.layers.Dense(n_mels, kernel_initializer="zeros", dtype="float32")
        self.mean_head.build((None, None, sizes.encoder_width))
        self.duration_predictor = DurationPredictor(
            sizes.encoder_width,
            sizes.voice,
            sizes.duration_width,
            sizes.duration_blocks,
            kernel,
            dropout,
            dtype=policy,
        )
        self.reference_encoder = ReferenceEncoder(
            n_mels,
            sizes.voice,
            sizes.reference_width,
            sizes.reference_blocks,
            kernel,
            sizes.reference_patch,
            dtype=policy,
        )
        decoder_class = {"regression": RegressionDecoder, "flow": FlowDecoder}[decoder]
        self.decoder = decoder_class(
            sizes.encoder_width + 2,  # a state, and the frame's position in its token
            n_mels,
            sizes.voice,
            sizes.decoder_width,
            sizes.decoder_blocks,
            kernel,
            sizes.patch,
            dtype=policy,
        )
        self.built = True

    # From here on in the order of a training step.

    def call(
        self,
        batch: Mapping[str, tf.Tensor],
        training: bool = False,
        seed: Any = (0, 0),
        noise: tuple[tf.Tensor, tf.Tensor] | None = None,
    ) -> Outputs:
        """
        Args:
            batch: `tokens` int32 [B, T], `token_lengths` int32 [B], `mel` [B, F, n_mels] in any float type,
                `mel_lengths` int32 [B], `language` int32 [B]; `reference_mel` [B, R, n_mels], without which
                every clip has the default voice; `durations` int32 [B, T], known from an earlier search and used
                instead of one (a clip whose durations are all 0 then has no frames). Other keys are ignored.
                Where these clips are a share of a batch of size N that several processes train on: `place` int32 [B],
                where each is in it, and of all its clips `all_index` [N], `all_mel_lengths` and `all_token_lengths`
                int32 [N].
            training: whether to apply dropout.
            seed: int32 [2]; everything random in this call follows from it.
            noise: for the flow decoder, float32 [B, F, n_mels] and [B] (the time) instead of random ones.
        """
        seed = seed_of(batch, seed)
        tokens = batch["tokens"]  # [B, T]
        mel = normalise(batch["mel"])  # [B, F, n_mels]
        token_mask = length_mask(batch["token_lengths"], dims(tokens)[1], self.compute_dtype)  # [B, T, 1]
        frame_mask = length_mask(batch["mel_lengths"], dims(mel)[1], self.compute_dtype)  # [B, F, 1]

        voice = self._voice_of(batch, training, fold_in(seed, 0))  # [B, D]
        states = self.encoder(
            tokens, token_mask, batch["language"], voice, training=training, seed=fold_in(seed, 1)
        )  # [B, T, C]
        means = self.mean_head(states)  # [B, T, n_mels]
        log_durations = self.duration_predictor(
            states, token_mask, voice, training=training, seed=fold_in(seed, 2)
        )  # [B, T]

        if "durations" in batch:
            alignment = durations_to_alignment(batch["durations"], dims(mel)[1])  # [B, F]
            alignment = tf.where(frame_mask[:, :, 0] > 0, alignment, -1)
        else:
            alignment = self._align(means, mel, batch["token_lengths"], batch["mel_lengths"])
        path = alignment_to_path(alignment, dims(tokens)[1])  # [B, F, T]
        durations = path_to_durations(path)  # [B, T]
        mean = path @ means  # [B, F, n_mels]
        features = self._per_frame(states, path, durations)  # [B, F, C]

        if self.decoder_kind == "flow":
            unit, time = self._draw(mel, fold_in(seed, 3)) if noise is None else noise
            start = tf.stop_gradient(mean) + NOISE * unit
            point = start + time[:, None, None] * (mel - start)
            target = mel - start
            prediction = self.decoder(point, time, features, tf.stop_gradient(mean), frame_mask, voice)
        else:
            target = mel
            prediction = self.decoder(features, tf.stop_gradient(mean), frame_mask, voice)
        return Outputs(
            mel,
            mean,
            prediction,
            target,
            log_durations,
            durations,
            alignment,
            token_mask,
            frame_mask,
            _total(batch.get("all_token_lengths"), token_mask),
            _total(batch.get("all_mel_lengths"), frame_mask),
        )

    def align(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Durations int32 [B, T] of the best alignment, for use as `durations` in later batches."""
        _, path = self._means_and_path(batch)
        return path_to_durations(path)

    def text_error(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """How far frames are from the mean mels of their tokens under the best alignment: float32 [B], the mean
        square over frames and bands. For one recording, the text that is said has the smallest."""
        means, path = self._means_and_path(batch)
        mel = normalise(batch["mel"])
        mask = length_mask(batch["mel_lengths"], dims(mel)[1], "float32")  # [B, F, 1]
        squares = tf.reduce_mean(tf.square(mel - path @ means) * mask, axis=2)  # [B, F]
        return tf.reduce_sum(squares, axis=1) / _at_least_one(batch["mel_lengths"])[:, 0]

    def voice(self, reference_mel: tf.Tensor) -> tf.Tensor:
        """The voice in [B, R, n_mels], natural log: float32 [B, D].

        Frames at the floor, such as padding, are ignored; a reference with no other frames has the default voice.
        """
        reference_mel = tf.cast(reference_mel, tf.float32)
        audible = tf.reduce_max(reference_mel, axis=2, keepdims=True) > math.log(self.log_floor) + AUDIBLE
        return self.reference_encoder(normalise(reference_mel), tf.cast(audible, self.compute_dtype))

    def default_voice(self, clips: int | tf.Tensor) -> tf.Tensor:
        """The voice of clips without a reference: float32 [clips, D]."""
        return tf.tile(self.reference_encoder.default[None], [clips, 1])

    def speak(
        self,
        tokens: tf.Tensor,
        token_lengths: tf.Tensor,
        language: tf.Tensor,
        voice: tf.Tensor,
        speed: Any = 1.0,
        steps: int = 10,
        temperature: float = TEMPERATURE,
        seed: Any = (0, 0),
        max_frames: int | None = None,
    ) -> SpokenBatch:
        """
        Args:
            tokens: int32 [B, T].
            token_lengths: int32 [B].
            language: int32 [B].
            voice: float32 [B, D], from `voice` or `default_voice`.
            speed: 2 is twice as fast; a number, or float32 [B].
            steps: Euler steps of the flow decoder; more are finer.
            temperature: scale of the flow decoder's noise; less is calmer.
            seed: int32 [2], of that noise.
            max_frames: F, where shapes must be static; longer speech is cut off there. None: as long as it takes.
        """
        plan = self.plan(tokens, token_lengths, language, voice, speed, max_frames)
        mel = self._decode(plan.features, plan.mean, plan.mask, voice, steps, temperature, seed)
        return SpokenBatch(mel, plan.lengths, plan.alignment)

    def plan(
        self,
        tokens: tf.Tensor,
        token_lengths: tf.Tensor,
        language: tf.Tensor,
        voice: tf.Tensor,
        speed: Any = 1.0,
        max_frames: int | None = None,
    ) -> Plan:
        """The first half of `speak`, up to the decoder; the arguments are the same."""
        token_mask = length_mask(token_lengths, dims(tokens)[1], self.compute_dtype)  # [B, T, 1]
        states = self.encoder(tokens, token_mask, language, voice)  # [B, T, C]
        durations = whole_durations(self.duration_predictor(states, token_mask, voice), token_lengths, speed)
        lengths = tf.reduce_sum(durations, axis=1)  # [B]
        frames = tf.reduce_max(lengths) if max_frames is None else max_frames
        lengths = tf.minimum(lengths, frames)
        alignment = durations_to_alignment(durations, frames)  # [B, F]
        path = alignment_to_path(alignment, dims(tokens)[1])  # [B, F, T]
        mean = path @ self.mean_head(states)  # [B, F, n_mels]
        features = self._per_frame(states, path, durations)  # [B, F, C]
        mask = length_mask(lengths, frames, self.compute_dtype)  # [B, F, 1]
        return Plan(mean, features, mask, lengths, alignment)

    def speak_in_time(
        self, batch: Mapping[str, tf.Tensor], steps: int = 10, temperature: float = TEMPERATURE, seed: Any = (0, 0)
    ) -> tf.Tensor:
        """Mels of clips' texts with the clips' own timing and voice, frame by frame beside the recorded ones.

        Args:
            batch: as for `call`; a clip's own mel is its reference.
            steps, temperature, seed: as for `speak`.

        Returns:
            float32 [B, F, n_mels], natural log; the floor beyond the clip.
        """
        frames, tokens = dims(batch["mel"])[1], dims(batch["tokens"])[1]
        token_mask = length_mask(batch["token_lengths"], tokens, self.compute_dtype)  # [B, T, 1]
        mask = length_mask(batch["mel_lengths"], frames, self.compute_dtype)  # [B, F, 1]
        voice = self.voice(batch["mel"])
        states = self.encoder(batch["tokens"], token_mask, batch["language"], voice)  # [B, T, C]
        means = self.mean_head(states)  # [B, T, n_mels]
        alignment = self._align(means, normalise(batch["mel"]), batch["token_lengths"], batch["mel_lengths"])
        path = alignment_to_path(alignment, tokens)  # [B, F, T]
        features = self._per_frame(states, path, path_to_durations(path))  # [B, F, C]
        return self._decode(features, path @ means, mask, voice, steps, temperature, seed)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "sizes": dataclasses.asdict(self.sizes),
            "vocab_size": self.vocab_size,
            "languages": self.languages,
            "n_mels": self.n_mels,
            "log_floor": self.log_floor,
            "decoder": self.decoder_kind,
            "voice_dropout": self.voice_dropout,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> XTTS:
        return cls(**{**config, "sizes": ModelSizes(**config["sizes"])})

    def _voice_of(self, batch: Mapping[str, tf.Tensor], training: bool, seed: Seed | None) -> tf.Tensor:
        clips = dims(batch["tokens"])[0]
        if "reference_mel" not in batch:
            # One frame that is masked, so that all weights have a gradient in every batch. The mask is computed and
            # not a constant, because grappler folds constant zeros into a tensor of the wrong shape.
            never = batch["mel_lengths"][:, None, None] < 0
            return self.reference_encoder(normalise(batch["mel"][:, :1]), tf.cast(never, self.compute_dtype))
        voice = self.voice(batch["reference_mel"])  # [B, D]
        if training and self.voice_dropout:
            keep = uniform([clips, 1], seed) >= self.voice_dropout
            voice = tf.where(keep, voice, self.default_voice(clips))
        return voice

    def _means_and_path(self, batch: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """The mean mels of the tokens [B, T, n_mels], and the path of the best alignment [B, F, T]."""
        token_mask = length_mask(batch["token_lengths"], dims(batch["tokens"])[1], self.compute_dtype)
        voice = self._voice_of(batch, False, None)
        means = self.mean_head(self.encoder(batch["tokens"], token_mask, batch["language"], voice))
        alignment = self._align(means, normalise(batch["mel"]), batch["token_lengths"], batch["mel_lengths"])
        return means, alignment_to_path(alignment, dims(batch["tokens"])[1])

    def _align(self, means: tf.Tensor, mel: tf.Tensor, token_lengths: tf.Tensor, mel_lengths: tf.Tensor) -> tf.Tensor:
        """The alignment under which the frames are nearest to their tokens' mean mels: int32 [B, F]."""
        _, tokens, _ = dims(means)
        frames = dims(mel)[1]
        # Log-likelihood under unit variance, without the terms that are equal for all tokens of a frame.
        likelihood = means @ tf.transpose(mel, [0, 2, 1])  # [B, T, F]
        likelihood -= 0.5 * tf.reduce_sum(tf.square(means), axis=2, keepdims=True)
        token = tf.range(tokens, dtype=tf.float32)[None] / _at_least_one(token_lengths - 1)  # [B, T], 0 to 1
        frame = tf.range(frames, dtype=tf.float32)[None] / _at_least_one(mel_lengths - 1)  # [B, F], 0 to 1
        likelihood -= DIAGONAL * tf.square(token[:, :, None] - frame[:, None, :])
        return monotonic_alignment(likelihood, token_lengths, mel_lengths)

    def _decode(
        self,
        features: tf.Tensor,
        mean: tf.Tensor,
        mask: tf.Tensor,
        voice: tf.Tensor,
        steps: int,
        temperature: float,
        seed: Any,
    ) -> tf.Tensor:
        """The mel of frames, natural log, float32 [B, F, n_mels]; the floor where `mask` is 0."""
        if self.decoder_kind == "flow":
            point = mean + temperature * NOISE * tf.random.stateless_normal(tf.shape(mean), seed)
            for step in range(steps):
                time = tf.fill(dims(mean)[:1], step / steps)
                point += self.decoder(point, time, features, mean, mask, voice) / steps
        else:
            point = self.decoder(features, mean, mask, voice)
        mel = tf.where(mask > 0, point * MEL_DEVIATION + MEL_MEAN, math.log(self.log_floor))
        return tf.maximum(mel, math.log(self.log_floor))

    def _per_frame(self, states: tf.Tensor, path: tf.Tensor, durations: tf.Tensor) -> tf.Tensor:
        """The state of each frame's token, and the frame's position in that token: [B, F, C + 2]."""
        lasts = tf.cast(durations, tf.float32)  # [B, T]
        starts = tf.cumsum(lasts, axis=1, exclusive=True)
        per_frame = path @ tf.stack([starts, 1.0 / tf.maximum(lasts, 1.0)], axis=2)  # [B, F, 2]
        start, pace = tf.split(per_frame, 2, axis=2)
        frame = tf.range(dims(path)[1], dtype=tf.float32)[None, :, None] + 0.5
        position = (frame - start) * pace  # [B, F, 1], 0 to 1 inside the clip
        path = tf.cast(path, states.dtype)
        return tf.concat([path @ states, tf.cast(tf.concat([position, pace], axis=2), states.dtype)], axis=2)

    def _draw(self, mel: tf.Tensor, seed: Seed) -> tuple[tf.Tensor, tf.Tensor]:
        return normal(dims(mel), fold_in(seed, 0)), uniform(dims(mel)[:1], fold_in(seed, 1))


def normalise(mel: tf.Tensor) -> tf.Tensor:
    """A natural-log mel in any float type as the model sees it, in float32."""
    return (tf.cast(mel, tf.float32) - MEL_MEAN) / MEL_DEVIATION


def whole_durations(log_durations: tf.Tensor, token_lengths: tf.Tensor, speed: Any) -> tf.Tensor:
    """Durations in frames: int32 [B, T], at least 1 for each token, 0 beyond the text.

    The ends of tokens are rounded, not the durations, so that rounding errors do not add up over a sentence.
    """
    speed = tf.reshape(tf.cast(speed, tf.float32), [-1, 1])
    mask = tf.sequence_mask(token_lengths, dims(log_durations)[1], tf.float32)
    lasts = tf.clip_by_value(tf.exp(log_durations) / speed, 1.0, LONGEST) * mask
    ends = tf.cast(tf.round(tf.cumsum(lasts, axis=1)), tf.int32)
    return ends - tf.pad(ends, [[0, 0], [1, 0]])[:, :-1]


def _at_least_one(lengths: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.maximum(lengths, 1), tf.float32)[:, None]


def _total(lengths: tf.Tensor | None, mask: tf.Tensor) -> tf.Tensor:
    """Positions of all clips: by their lengths [N] if these are given, else by the mask of the clips here."""
    return tf.reduce_sum(tf.cast(mask if lengths is None else lengths, tf.float32))
