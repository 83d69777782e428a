"""The vocoder that MyXTTS trains itself: where the shipped one is, and opening one from its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, VocoderError
from myxtts.inference.chunked_vocoder import STREAM_CHUNK, WHOLE_CHUNK, ChunkedVocoder, chunks
from myxtts.models.checkpoint import CONFIG, VOCODER, WEIGHTS, grow_gpu_memory, read_checkpoint, read_weights
from myxtts.models.vocoder_folder import mel_differences

if TYPE_CHECKING:
    from myxtts.models.harmonic_vocoder import HarmonicVocoder

SHIPPED = Path(__file__).parent.parent / "shipped" / "vocoder"


class HarmonicSpeaker(ChunkedVocoder):
    """A `HarmonicVocoder` that speaks.

    The pitch of the whole mel is found first, in parts that do not depend on how the sound is cut: the phase of the
    pulses is a sum over all frames before, so a rounding error of the pitch would grow. The sound then follows chunk
    by chunk.

    Args:
        name: for people.
        model: with its weights.
    """

    def __init__(self, name: str, model: HarmonicVocoder) -> None:
        import tensorflow as tf

        from myxtts.models.harmonic_source import Source

        super().__init__(name, model.settings)
        self._context, self._pitch_context = model.context_frames, model.pitch_context_frames
        mels = tf.TensorSpec([None, model.settings.n_mels], tf.float32)
        row = tf.TensorSpec([None], tf.float32)

        def track(mel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            pitch, voiced = model.track(mel[None])
            return pitch[0], voiced[0]

        def sound(
            mel: tf.Tensor, pitch: tf.Tensor, voiced: tf.Tensor, phase: tf.Tensor, first: tf.Tensor
        ) -> tf.Tensor:
            return model.sound(mel[None], Source(pitch[None], voiced[None], phase[None]), first[None])[0]

        self._track = tf.function(track, input_signature=[mels], autograph=False)
        signature = [mels, row, row, row, tf.TensorSpec([], tf.int32)]
        self._sound = tf.function(sound, input_signature=signature, autograph=False)

    @property
    def context(self) -> int:
        return self._context

    def vocode(self, mel: np.ndarray) -> np.ndarray:
        return np.concatenate(list(self.stream(mel, len(mel))))

    def stream(self, mel: np.ndarray, chunk_frames: int = STREAM_CHUNK) -> Iterator[np.ndarray]:
        from myxtts.models.harmonic_source import phase_of_pitch

        pitch, voiced = self._pitch(mel)
        phase, hop = phase_of_pitch(pitch, self.settings), self.settings.hop_length
        for chunk in chunks(len(mel), chunk_frames, self._context):
            here = chunk.with_context
            sound = self._sound(mel[here], pitch[here], voiced[here], phase[here], here.start).numpy()
            yield sound[chunk.inside.start * hop : chunk.inside.stop * hop]

    def _pitch(self, mel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pitch and voicing, float32 [F] each."""
        found = np.zeros((2, len(mel)), np.float32)
        for chunk in chunks(len(mel), WHOLE_CHUNK, self._pitch_context):
            tracked = np.stack(self._track(mel[chunk.with_context]))
            found[:, chunk.frames] = tracked[:, chunk.inside]
        return found[0], found[1]


def shipped_vocoder(settings: MelSettings) -> Path | None:
    """The folder of the vocoder that comes with MyXTTS, if it was trained for mels of these settings."""
    trained = MelSettings.from_config(XTTSConfig.from_yaml(SHIPPED / CONFIG).data)
    return SHIPPED if not mel_differences(vars(trained), settings) else None


def open_trained(folder: Path, settings: MelSettings) -> HarmonicSpeaker:
    """The vocoder of a run or checkpoint of our own.

    Raises:
        VocoderError: the folder is not one, or it was trained for other mels.
    """
    try:
        checkpoint = read_checkpoint(folder, VOCODER)
    except CheckpointError as error:
        raise VocoderError(f"not a vocoder's folder: {error}") from None
    trained = MelSettings.from_config(checkpoint.config.data)
    if wrong := mel_differences(vars(trained), settings):
        raise VocoderError(f"{folder}: a vocoder for other mels: {'; '.join(wrong)}")
    from myxtts.models.harmonic_vocoder import HarmonicVocoder  # needs TensorFlow

    grow_gpu_memory()
    model = HarmonicVocoder.from_config(dict(checkpoint.architecture))
    read_weights(checkpoint.path / WEIGHTS, model)
    return HarmonicSpeaker(str(folder), model)
