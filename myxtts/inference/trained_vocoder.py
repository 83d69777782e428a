"""The vocoder that MyXTTS trains itself: where the shipped one is, and opening one from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, VocoderError
from myxtts.models.checkpoint import CONFIG, VOCODER, WEIGHTS, grow_gpu_memory, read_checkpoint, read_weights
from myxtts.models.shipped import SHIPPED_VOCODER
from myxtts.models.vocoder_folder import mel_differences
from myxtts.runtime.graphs import GRAPHS
from myxtts.runtime.harmonic_speaker import HarmonicGraphs, HarmonicSpeaker

if TYPE_CHECKING:
    from myxtts.models.harmonic_vocoder import HarmonicVocoder


def shipped_vocoder(settings: MelSettings) -> Path | None:
    """The folder of the vocoder that comes with MyXTTS, if it was trained for mels of these settings."""
    trained = MelSettings.from_config(XTTSConfig.from_yaml(SHIPPED_VOCODER / CONFIG).data)
    return SHIPPED_VOCODER if not mel_differences(vars(trained), settings) else None


def open_trained(folder: Path, settings: MelSettings) -> HarmonicSpeaker:
    """The vocoder of a run or checkpoint of our own.

    Raises:
        VocoderError: the folder is not one, or it was trained for other mels.
    """
    return harmonic_speaker(str(folder), load_trained(folder, settings))


def load_trained(folder: Path, settings: MelSettings) -> HarmonicVocoder:
    """The model of a run or checkpoint of our own, with its weights.

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
    return model


def harmonic_speaker(name: str, model: HarmonicVocoder) -> HarmonicSpeaker:
    """A model that speaks.

    Args:
        name: for people.
        model: with its weights.
    """
    from myxtts.models.graphs import as_graph, vocoder_functions  # needs TensorFlow

    functions = vocoder_functions(model)
    pitch, filters = (as_graph(functions[one], GRAPHS[one].outputs) for one in ("pitch", "filters"))
    graphs = HarmonicGraphs(pitch, filters, model.pitch_context_frames, model.context_frames)
    return HarmonicSpeaker(name, model.settings, graphs)
