"""A bundle's vocoder: converted, copied, or none for Griffin-Lim."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.errors import VocoderError
from myxtts.export.agreement import check_graph, check_sound
from myxtts.export.conversion import convert
from myxtts.inference import trained_vocoder
from myxtts.inference.imported_vocoder import open_imported
from myxtts.models.graphs import as_graph, vocoder_functions
from myxtts.models.vocoder_folder import is_imported
from myxtts.runtime.bundle import FILE, GRIFFIN_LIM, HARMONIC, Bundle, is_bundle, open_graph
from myxtts.runtime.graphs import GRAPHS, GraphNames
from myxtts.runtime.vocoder_files import open_vocoder_file

_FILE_NAME = "vocoder"


def write(folder: Path, vocoder: Path | None, settings: MelSettings, suffix: str) -> dict[str, Any]:
    """Writes the files of a vocoder into a bundle.

    Args:
        folder: of the bundle.
        vocoder: its folder or file; None: Griffin-Lim.
        settings: of the mels.
        suffix: of the graphs that are converted.

    Returns:
        What the manifest says about it.

    Raises:
        VocoderError: it cannot be exported, or is for other mels.
    """
    if vocoder is None:
        return {"kind": GRIFFIN_LIM}
    if is_bundle(vocoder):
        raise VocoderError(f"{vocoder}: a bundle; export with the vocoder that it was made with")
    if vocoder.is_file():
        open_vocoder_file(vocoder, settings)
        name = f"{_FILE_NAME}{vocoder.suffix.lower()}"
        shutil.copyfile(vocoder, folder / name)
        return {"kind": FILE, "file": name}
    if is_imported(vocoder):
        return _write_network(folder, vocoder, settings, suffix)
    model = trained_vocoder.load_trained(vocoder, settings)
    for name, function in vocoder_functions(model).items():
        convert(function, GRAPHS[name], folder / f"{name}{suffix}")
    return {"kind": HARMONIC, "pitch_context": model.pitch_context_frames, "context": model.context_frames}


def check(bundle: Bundle, vocoder: Path | None, settings: MelSettings) -> None:
    """Compares the vocoder of a bundle with the one that it was made of.

    Raises:
        ExportError: they differ.
    """
    if vocoder is None or vocoder.is_file():
        return
    if is_imported(vocoder):
        exported = open_vocoder_file(bundle.path / bundle.vocoder["file"], settings)
        check_sound(open_imported(vocoder, settings), exported, settings.n_mels)
        return
    functions = vocoder_functions(trained_vocoder.load_trained(vocoder, settings))
    for name, function in functions.items():
        graph = as_graph(function, GRAPHS[name].outputs)
        check_graph(name, graph, open_graph(bundle, name), settings.n_mels)


def _write_network(folder: Path, vocoder: Path, settings: MelSettings, suffix: str) -> dict[str, Any]:
    opened = open_imported(vocoder, settings)
    names = opened.network.exported_outputs
    if len(names) > 1:
        suffix = ".onnx"  # a LiteRT file does not keep the order of its outputs
    signature = [tf.TensorSpec([1, None, settings.n_mels], tf.float32)]
    function = tf.function(opened.network.exported, input_signature=signature, autograph=False)
    name = f"{_FILE_NAME}{suffix}"
    convert(function, GraphNames(("mel",), names), folder / name)
    return {"kind": FILE, "file": name}
