"""A bundle: a voice with its vocoder, to speak with without TensorFlow. `myxtts export` makes it.

A folder that appears whole or not at all, as checkpoints do:

| file | holds |
|---|---|
| `manifest.json` | format version, who runs the graphs, languages, configuration, versions of text and mels |
| `plan.onnx`, `voice.onnx`, `decoder.onnx` or `velocity.onnx` | the graphs of the voice; `.tflite` for LiteRT |
| `pitch.onnx` and `filters.onnx`, or `vocoder.onnx`, or none | the graphs of the vocoder; none for Griffin-Lim |
| `voices.npz` | float32 [D] by name, `default` and others |
| `lexicon-fa.tsv` | a copy of the lexicon, one for each language that has one |
| `README.md` | how to speak with it |
| `checksums.json` | size and XXH3 of every other file |
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, VocoderError
from myxtts.models.checkpoint import (
    SPEECH,
    read_description,
    setting_differences,
    verify_checksums,
    with_copied_lexicons,
)
from myxtts.models.vocoder_folder import mel_differences
from myxtts.runtime.graphs import GRAPHS, Graph
from myxtts.runtime.griffin_lim import GriffinLim
from myxtts.runtime.harmonic_speaker import HarmonicGraphs, HarmonicSpeaker
from myxtts.runtime.model_files import open_model_file
from myxtts.runtime.speech_model import DEFAULT_VOICE, OpenedVoice, SpeechModel
from myxtts.runtime.vocoder_files import open_vocoder_file

if TYPE_CHECKING:
    from myxtts.runtime.chunked_vocoder import ChunkedVocoder

FORMAT = 1
MANIFEST = "manifest.json"
VOICES = "voices.npz"
# Suffix of the graphs in each format that the runtime speaks.
SUFFIXES = {"onnx": ".onnx", "litert": ".tflite"}
# Kinds of vocoders.
HARMONIC, FILE, GRIFFIN_LIM = "harmonic", "file", "griffin-lim"
_VOICE = "voice"
_BUNDLE = "the bundle"


@dataclass(frozen=True)
class Bundle:
    """A bundle whose files were checked.

    Attributes:
        path: its folder.
        config: the configuration keys that speaking needs.
        settings: by name, everything that decides what the weights mean, as in a checkpoint.
        runs_with: `onnx` or `litert`.
        graphs: names of the voice's graphs.
        languages: codes, the default first.
        vocoder: its `kind`, and what else opening it needs.
    """

    path: Path
    config: XTTSConfig
    settings: Mapping[str, Any]
    runs_with: str
    graphs: tuple[str, ...]
    languages: tuple[str, ...]
    vocoder: Mapping[str, Any]

    def file(self, name: str) -> Path:
        """The file of a graph."""
        return self.path / f"{name}{SUFFIXES[self.runs_with]}"


def is_bundle(path: str | Path) -> bool:
    """Whether a folder holds a bundle; damaged ones included."""
    return (Path(path) / MANIFEST).is_file()


def read_bundle(path: str | Path) -> Bundle:
    """Reads what a bundle says about itself, after comparing all its files with their checksums.

    Raises:
        CheckpointError: it is damaged, or was made by another version for other texts or mels.
        MissingExtraError: its texts need espeak-ng.
    """
    path = Path(path)
    manifest = read_description(path / MANIFEST, _BUNDLE)
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: bundle format {manifest.get('format')}, this version reads {FORMAT}; "
            f"it was made by myxtts {manifest.get('myxtts')}"
        )
    if manifest["runs_with"] not in SUFFIXES:
        raise CheckpointError(f"{path}: for {manifest['runs_with']}, which speaks it; not for myxtts")
    verify_checksums(path, _BUNDLE)
    config = with_copied_lexicons(XTTSConfig(**manifest["config"]), path)
    if found := setting_differences(manifest["settings"], config, SPEECH, _BUNDLE):
        raise CheckpointError(
            f"{path}: made by myxtts {manifest.get('myxtts')}, which reads texts differently: {'; '.join(found)}\n"
            "Export the voice again with this version"
        )
    return Bundle(
        path,
        config,
        manifest["settings"],
        manifest["runs_with"],
        tuple(manifest["graphs"]),
        tuple(manifest["languages"]),
        manifest["vocoder"],
    )


def open_bundle(bundle: Bundle, config: XTTSConfig, threads: int | None = None) -> OpenedVoice:
    """The voice of a bundle.

    Args:
        bundle: from `read_bundle`.
        config: to speak with.
        threads: to compute with; None: as many as there are CPUs.

    Raises:
        CheckpointError: a graph cannot be opened.
        MissingExtraError: the package that runs its graphs is not installed.
    """
    graphs = {name: open_graph(bundle, name, threads) for name in bundle.graphs if name != _VOICE}
    # Only cloning needs it.
    opened = functools.cache(functools.partial(open_graph, bundle, _VOICE, threads))
    graphs[_VOICE] = lambda crops: opened()(crops)
    padding_value = MelSettings.from_config(config.data).padding_value
    model = SpeechModel(graphs, padding_value, config.model.flow_steps)
    return OpenedVoice(bundle.path, config, model, read_voices(bundle.path), bundle.languages)


def open_bundle_vocoder(path: Path, settings: MelSettings, threads: int | None = None) -> ChunkedVocoder | GriffinLim:
    """The vocoder of a bundle.

    Raises:
        CheckpointError: the bundle is damaged.
        VocoderError: it was trained for other mels.
    """
    bundle = read_bundle(path)
    trained = MelSettings.from_config(bundle.config.data)
    if wrong := mel_differences(vars(trained), settings):
        raise VocoderError(f"{path}: a vocoder for other mels: {'; '.join(wrong)}")
    kind = bundle.vocoder["kind"]
    if kind == HARMONIC:
        pitch, filters = (open_graph(bundle, name, threads) for name in ("pitch", "filters"))
        contexts = bundle.vocoder["pitch_context"], bundle.vocoder["context"]
        return HarmonicSpeaker(str(path), settings, HarmonicGraphs(pitch, filters, *contexts))
    if kind == FILE:
        return open_vocoder_file(path / bundle.vocoder["file"], settings, threads)
    return GriffinLim(settings)


def read_voices(path: Path) -> dict[str, np.ndarray]:
    """The voices in a bundle, float32 [D] by name, `default` first.

    Raises:
        CheckpointError: they cannot be read.
    """
    try:
        with np.load(path / VOICES, allow_pickle=False) as file:
            voices = {name: file[name] for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path / VOICES}: cannot be read ({error}); {_BUNDLE} is damaged") from error
    return {DEFAULT_VOICE: voices.pop(DEFAULT_VOICE), **dict(sorted(voices.items()))}


def open_graph(bundle: Bundle, name: str, threads: int | None = None) -> Graph:
    """A graph of a bundle.

    Raises:
        CheckpointError: it cannot be opened.
    """
    try:
        file = open_model_file(bundle.file(name), threads)
    except VocoderError as error:
        raise CheckpointError(str(error)) from None
    names = GRAPHS[name]

    def run(*values: np.ndarray) -> tuple[np.ndarray, ...]:
        given = {one: np.asarray(value) for one, value in zip(names.inputs, values, strict=True)}
        found = file.call(given)
        return tuple(found[one] for one in names.outputs)

    return run
