"""Vocoders that are TensorFlow networks."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.errors import VocoderError
from myxtts.models.vocoder_folder import load_network, mel_differences, read_vocoder
from myxtts.runtime.chunked_vocoder import ChunkedVocoder

logger = logging.getLogger(__name__)


class VocoderNetwork(Protocol):
    """A network that makes audio of mels: [B, F, n_mels] → [B, F * hop_length]."""

    @property
    def context(self) -> int:
        """Frames on either side that a sample depends on."""

    @property
    def exported_outputs(self) -> tuple[str, ...]:
        """Names of what `exported` gives."""

    def exported(self, mel: tf.Tensor) -> dict[str, tf.Tensor]:
        """What a file of this network gives for [1, F, n_mels]; `runtime.vocoder_files` makes audio of it."""

    def __call__(self, mel: tf.Tensor) -> tf.Tensor: ...


class NetworkVocoder(ChunkedVocoder):
    """A network as a vocoder. One graph serves all lengths.

    Args:
        name: for people.
        settings: of the mels that the network was trained with.
        network: with its weights.
    """

    def __init__(self, name: str, settings: MelSettings, network: VocoderNetwork) -> None:
        super().__init__(name, settings)
        self.network = network
        signature = [tf.TensorSpec([None, settings.n_mels], tf.float32)]
        self._run = tf.function(lambda mel: network(mel[None])[0], input_signature=signature, autograph=False)

    @property
    def context(self) -> int:
        return self.network.context

    def vocode(self, mel: np.ndarray) -> np.ndarray:
        return self._run(mel).numpy()


def open_imported(folder: Path, settings: MelSettings) -> NetworkVocoder:
    """The vocoder in a folder that `myxtts import-vocoder` made.

    Raises:
        CheckpointError: the folder is damaged.
        VocoderError: the vocoder was trained for other mels.
    """
    found = read_vocoder(folder)
    if wrong := mel_differences(found.mel, settings):
        raise VocoderError(f"{folder}: a vocoder for other mels: {'; '.join(wrong)}")
    if found.mel["log_floor"] != settings.log_floor:
        logger.info(
            "%s: trained with a log_floor of %g, the mels have %g: silence may sound different",
            folder, found.mel["log_floor"], settings.log_floor,
        )  # fmt: skip
    return NetworkVocoder(str(folder), settings, load_network(found))
