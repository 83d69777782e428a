"""Opens a checkpoint to speak with; needs TensorFlow."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.models.checkpoint import Checkpoint, load_model
from myxtts.models.graphs import Functions, as_graph, speech_functions
from myxtts.models.xtts import XTTS
from myxtts.runtime.graphs import GRAPHS
from myxtts.runtime.speech_model import DEFAULT_VOICE, OpenedVoice, SpeechModel
from myxtts.text.languages import LANGUAGES, known_language


def open_checkpoint(checkpoint: Checkpoint, config: XTTSConfig, threads: int | None = None) -> OpenedVoice:
    """The voice of a checkpoint.

    Args:
        checkpoint: whose files were checked.
        config: to speak with.
        threads: that TensorFlow computes with, if it has not computed yet; None: as many as there are CPUs.

    Raises:
        CheckpointError: the weights do not fit the architecture.
    """
    if threads is not None:
        with contextlib.suppress(RuntimeError):  # it has computed already
            tf.config.threading.set_intra_op_parallelism_threads(threads)
    model = load_model(checkpoint)
    return voice_of_model(checkpoint.path, model, speech_functions(model), config)


def voice_of_model(path: Path, model: XTTS, functions: Functions, config: XTTSConfig) -> OpenedVoice:
    """The voice of a model whose functions were traced already."""
    graphs = {name: as_graph(function, GRAPHS[name].outputs) for name, function in functions.items()}
    padding_value = MelSettings.from_config(config.data).padding_value
    return OpenedVoice(
        path,
        config,
        SpeechModel(graphs, padding_value, config.model.flow_steps),
        {DEFAULT_VOICE: model.default_voice(1).numpy()[0]},
        trained_languages(model, config),
    )


def trained_languages(model: XTTS, config: XTTSConfig) -> tuple[str, ...]:
    """Codes of the languages that the model was trained for, the configuration's first.

    An embedding starts at zero, and only its language's clips move it.
    """
    codes = (*LANGUAGES, *config.data.extra_languages)
    moved = np.any(model.encoder.language.embeddings.numpy() != 0, axis=1)
    first = known_language(config.data.language, config.data.extra_languages)
    return tuple(dict.fromkeys([first, *(code for code, known in zip(codes, moved, strict=True) if known)]))
