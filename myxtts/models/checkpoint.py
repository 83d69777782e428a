"""A model on disk: a folder that appears whole or not at all.

| file | holds |
|---|---|
| `model.npz` | the weights in the model's order, float32 |
| `config.yaml` | the configuration it was trained with, `auto` resolved where it decides what the weights mean |
| `lexicon-fa.tsv` | a copy of the lexicon, one for each language that has one |
| `checkpoint.json` | format version, architecture, fingerprints of text and mel, and details such as the step |
| `checksums.json` | size and XXH3 of every other file |

Training adds files of its own (optimizer, position) to the same folder; speaking does not need them. A damaged
checkpoint is found without loading TensorFlow, so it is reported at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from myxtts import __version__
from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.models.shipped import STARTER_VOICE, is_starter
from myxtts.models.sizes import resolve_decoder
from myxtts.text import TextSettings

if TYPE_CHECKING:
    import keras

    from myxtts.models.xtts import XTTS

FORMAT = 1
WEIGHTS = "model.npz"
CONFIG = "config.yaml"
DESCRIPTION = "checkpoint.json"
CHECKSUMS = "checksums.json"
# Kinds of models.
SPEECH, VOCODER = "speech", "vocoder"
# In a run's folder, a link to the checkpoint with the lowest validation loss; where there are no links, a file with
# its name.
BEST = "best"

_OF_KIND = {SPEECH: "the checkpoint of a voice", VOCODER: "the checkpoint of a vocoder (use it with --vocoder)"}
# Settings that may differ between training and speaking: they change a few sounds, not what the weights mean.
_HARMLESS = {"normalizer", "espeak_ng", "persian_reading", "resampler", "trim_silence", "trim_db"}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files were checked.

    Attributes:
        given: the path it was asked for by, which may be that of a run.
        path: its folder.
        config: what it was trained with.
        architecture: arguments of the model.
        settings: by name, everything that decides what the weights mean: size, decoder, text and mel settings.
        details: what was passed when it was saved, such as `step`.
        kind: `SPEECH` or `VOCODER`.
    """

    given: str
    path: Path
    config: XTTSConfig
    architecture: Mapping[str, Any]
    settings: Mapping[str, Any]
    details: Mapping[str, Any]
    kind: str = SPEECH


def save_checkpoint(
    path: str | Path, model: XTTS, config: XTTSConfig, details: Mapping[str, Any] | None = None
) -> None:
    """Saves a model to speak with, by `new_checkpoint` and `write_model`."""
    with new_checkpoint(path) as folder:
        write_model(folder, model, config, details)


@contextlib.contextmanager
def new_checkpoint(path: str | Path) -> Iterator[Path]:
    """A temporary folder beside `path` to write files into, which becomes `path` if nothing is raised.

    Checksums are added, everything is fsynced, then the folder is renamed: `path` never holds half a checkpoint. A
    checkpoint that is there already is replaced.
    """
    path = Path(path)
    folder, old = (path.parent / f".{path.name}.{os.getpid()}.{kind}" for kind in ("new", "old"))
    for leftover in (folder, old):
        shutil.rmtree(leftover, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        sums = {str(file.relative_to(folder)): _checksum(file) for file in files}
        (folder / CHECKSUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")
        for file in [*files, folder / CHECKSUMS, folder]:
            _fsync(file)
        if path.exists():
            os.rename(path, old)
        os.rename(folder, path)
        _fsync(path.parent)
    finally:
        for leftover in (folder, old):
            shutil.rmtree(leftover, ignore_errors=True)


def write_model(
    folder: Path,
    model: keras.Model,
    config: XTTSConfig,
    details: Mapping[str, Any] | None = None,
    kind: str = SPEECH,
) -> None:
    """Writes weights, configuration and description into `folder`.

    Args:
        folder: from `new_checkpoint`.
        model: its current weights are saved; to save an average of weights, put it in first.
        config: what it was trained with.
        details: values for JSON that become `Checkpoint.details`, such as `step`.
        kind: of model.
    """
    settings = _settings(config, kind)
    write_weights(folder / WEIGHTS, model)
    if kind == SPEECH:
        lexicons = copy_lexicons(config.data.lexicons, folder)
        # On another machine `auto` might choose differently.
        data = config.data.model_copy(update={"text_symbols": settings["text_symbols"], "lexicons": lexicons})
        config = config.model_copy(update={"data": data})
    config.to_yaml(folder / CONFIG)
    architecture = model.get_config()
    for key in ("name", "trainable", "dtype"):
        architecture.pop(key, None)
    description = {
        "format": FORMAT,
        "myxtts": __version__,
        "kind": kind,
        "architecture": architecture,
        "settings": settings,
        "details": dict(details or {}),
    }
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def read_checkpoint(path: str | Path, kind: str = SPEECH) -> Checkpoint:
    """Reads what a checkpoint says about itself, after comparing all its files with their checksums.

    Args:
        path: the checkpoint's folder, or that of a run, which means its best checkpoint, or its newest before the
            first validation; of a vocoder's run, the newest. `starter` is the voice that comes with MyXTTS.
        kind: of model that it should hold.

    Raises:
        CheckpointError: there is none, it is damaged, holds another kind of model, or was made by a newer version.
    """
    given, path = str(path), STARTER_VOICE if is_starter(path) else Path(path)
    if path.name == BEST and path.is_file():
        path = path.parent
    # A vocoder's losses say little about its sound once discriminators train it.
    best = best_of_run(path) if kind == SPEECH else None
    path = best or _newest_of_run(path) or path
    if not (path / DESCRIPTION).is_file():
        what = "no such folder" if not path.exists() else f"not a checkpoint (it has no {DESCRIPTION})"
        raise CheckpointError(f"{path}: {what}")
    description = read_description(path / DESCRIPTION)
    if description.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: checkpoint format {description.get('format')}, this version reads {FORMAT}; "
            f"it was made by myxtts {description.get('myxtts')}"
        )
    # Before there were vocoders, a checkpoint did not say its kind.
    found = description.get("kind", SPEECH)
    if found != kind:
        raise CheckpointError(f"{path}: {_OF_KIND[found]}, not {_OF_KIND[kind]}")
    verify_checksums(path)
    return Checkpoint(
        given,
        path,
        with_copied_lexicons(XTTSConfig.from_yaml(path / CONFIG), path),
        description["architecture"],
        description["settings"],
        description["details"],
        kind,
    )


def as_checkpoint(checkpoint: str | os.PathLike[str] | Checkpoint, kind: str = SPEECH) -> Checkpoint:
    """The checkpoint in a folder, or one that was read already: its checksums are not computed again."""
    return checkpoint if isinstance(checkpoint, Checkpoint) else read_checkpoint(Path(checkpoint), kind)


def best_of_run(folder: Path) -> Path | None:
    """The best checkpoint in a run's folder, if there is one."""
    best = folder / BEST
    if best.is_file():
        best = folder / best.read_text(encoding="utf-8").strip()
    return best if (best / DESCRIPTION).is_file() else None


def load_model(checkpoint: Checkpoint, policy: str = "float32") -> XTTS:
    """The model with the checkpoint's weights, to speak with.

    Raises:
        CheckpointError: the weights do not fit the architecture.
    """
    from myxtts.models.xtts import XTTS

    grow_gpu_memory()
    model = XTTS.from_config({**checkpoint.architecture, "dtype": policy})
    read_weights(checkpoint.path / WEIGHTS, model)
    return model


def grow_gpu_memory() -> None:
    """Lets TensorFlow take as much GPU memory as is needed, where it would take all of it."""
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        # TensorFlow raises the first for a GPU that is in use, the second for one with a memory limit.
        with contextlib.suppress(RuntimeError, ValueError):
            tf.config.experimental.set_memory_growth(gpu, True)


def write_weights(path: Path, model: keras.layers.Layer) -> None:
    """Writes the weights of a model or of a part of one.

    Not by Keras, whose HDF5 library ends the process when the disk is full. NumPy raises an `OSError`.
    """
    arrays: dict[str, Any] = {f"{number:04d}": weight for number, weight in enumerate(model.get_weights())}
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def read_weights(path: Path, model: keras.layers.Layer) -> None:
    """Reads what `write_weights` wrote into a model of the same architecture.

    Raises:
        CheckpointError: the weights cannot be read, or do not fit the architecture.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            model.set_weights([file[name] for name in sorted(file.files)])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path}: cannot be loaded: {str(error).splitlines()[0]}") from error


def verify_checksums(path: Path, what: str = "the checkpoint") -> None:
    """Compares the files of a folder that `new_checkpoint` made with their checksums.

    Raises:
        CheckpointError: a file is missing, or is not what was saved.
    """
    for name, expected in read_description(path / CHECKSUMS, what).items():
        file = path / name
        if not file.is_file():
            raise CheckpointError(f"{file}: missing; {what} is damaged")
        if _checksum(file) != expected:
            raise CheckpointError(f"{file}: not what was saved; {what} is damaged")


def read_description(path: Path, what: str = "the checkpoint") -> dict[str, Any]:
    """The JSON object in a checkpoint's file.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); {what} is damaged") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object; {what} is damaged")
    return value


def differences(checkpoint: Checkpoint, config: XTTSConfig) -> list[str]:
    """The settings in which `config` differs from a checkpoint, as short texts; only those that change what the
    weights mean."""
    return setting_differences(checkpoint.settings, config, checkpoint.kind, "the checkpoint")


def setting_differences(settings: Mapping[str, Any], config: XTTSConfig, kind: str, where: str) -> list[str]:
    """The same for the settings of a model of some kind, wherever they are saved."""
    wanted = _settings(config, kind)
    found = []
    for key in dict.fromkeys([*settings, *wanted]):
        saved, here = settings.get(key), wanted.get(key)
        if saved != here and key not in _HARMLESS and not key.startswith("lexicon_"):
            found.append(f"{key} is {saved} in {where} and {here} here")
    return found


def _newest_of_run(folder: Path) -> Path | None:
    found = [description.parent for description in folder.glob(f"step-*/{DESCRIPTION}")]
    # Step numbers have eight digits, and more from a hundred million steps on.
    return max(found, key=lambda path: (len(path.name), path.name), default=None)


def copy_lexicons(lexicons: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Copies lexicons into a checkpoint's folder, so that it can be moved; returns their names there."""
    copies = {code: f"lexicon-{code}.tsv" for code in lexicons}
    for code, name in copies.items():
        shutil.copyfile(lexicons[code], folder / name)
    return copies


def with_copied_lexicons(config: XTTSConfig, folder: Path) -> XTTSConfig:
    """A checkpoint's configuration, with absolute paths to the lexicons in its folder."""
    found = {code: (folder / name).absolute() for code, name in config.data.lexicons.items()}
    lexicons = config.data.lexicons | {code: str(path) for code, path in found.items() if path.is_file()}
    return config.model_copy(update={"data": config.data.model_copy(update={"lexicons": lexicons})})


def _settings(config: XTTSConfig, kind: str) -> dict[str, Any]:
    if kind == VOCODER:
        return {
            "vocoder_size": config.vocoder.vocoder_size,
            **MelSettings.from_config(config.data).fingerprint(),
        }
    return {
        "size": config.model.size,
        "decoder": resolve_decoder(config.model),
        **TextSettings.from_config(config.data).fingerprint(),
        **MelSettings.from_config(config.data).fingerprint(),
    }


def _checksum(path: Path) -> dict[str, int | str]:
    digest = xxhash.xxh3_64()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "xxh3_64": digest.hexdigest()}


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
