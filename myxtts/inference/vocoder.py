"""Vocoders turn a mel into audio: their protocol, long mels in chunks, and which one is used.

Needs TensorFlow only for networks in folders, and then loads it.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.errors import UsageError, needing_train_extra
from myxtts.inference import trained_vocoder
from myxtts.models.vocoder_folder import is_imported
from myxtts.runtime.bundle import is_bundle, open_bundle_vocoder
from myxtts.runtime.chunked_vocoder import STREAM_CHUNK
from myxtts.runtime.griffin_lim import GriffinLim
from myxtts.runtime.vocoder_files import SUFFIXES, open_vocoder_file

logger = logging.getLogger(__name__)

AUTO = "auto"
GRIFFIN_LIM = "griffin-lim"
CHOICES = f"{AUTO}, {GRIFFIN_LIM}, a vocoder's folder, or a file ({' or '.join(SUFFIXES)})"
# The folder of a voice's own vocoder, in the folder of its run or of its checkpoint.
OWN_VOCODER = "vocoder"
_WEIGHT_SUFFIXES = (".pth", ".pt", ".bin", ".ckpt", ".safetensors")


class Vocoder(Protocol):
    """Makes audio of log-mels as the project defines them (HiFi-GAN's convention by default)."""

    @property
    def name(self) -> str:
        """For people: what it is, or the file or folder it comes from."""

    @property
    def sample_rate(self) -> int:
        """Samples per second of the audio."""

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Natural-log mel float32 [F, n_mels] → audio float32 [F * hop_length], full scale ±1."""

    def stream(self, mel: np.ndarray, chunk_frames: int = STREAM_CHUNK) -> Iterator[np.ndarray]:
        """The same audio in pieces, the first of about `chunk_frames` frames, each as soon as it is ready."""


VocoderChoice = str | os.PathLike[str]


def find_vocoder(choice: VocoderChoice, settings: MelSettings, run: Path | None = None) -> Path | None:
    """The folder or file that a choice means, or None for Griffin-Lim. It is not opened.

    Args:
        choice: `auto`, `griffin-lim`, or the path of a vocoder's folder or file, or of a bundle. `auto` is the
            voice's own vocoder, else the one that comes with MyXTTS if it is for such mels, else Griffin-Lim.
        settings: of the mels.
        run: folder of the voice's run, checkpoint or bundle, where `auto` looks first.

    Raises:
        UsageError: there is no such folder or file, or it cannot be a vocoder.
    """
    if choice == GRIFFIN_LIM:
        return None
    if choice == AUTO:
        if run is not None and is_bundle(run):
            return run
        return _own_vocoder(run) or trained_vocoder.shipped_vocoder(settings)
    path = Path(choice)
    if not path.exists():
        raise UsageError(f"--vocoder {choice}: no such file or folder; it should be {CHOICES}")
    if path.is_dir() or path.suffix.lower() in SUFFIXES:
        return path
    if path.suffix.lower() in _WEIGHT_SUFFIXES:
        raise UsageError(
            f"--vocoder {choice}: weights of a network; import them first: myxtts import-vocoder {choice} FOLDER"
        )
    raise UsageError(f"--vocoder {choice}: not a vocoder; it should be {CHOICES}")


def create_vocoder(
    choice: VocoderChoice, settings: MelSettings, run: Path | None = None, threads: int | None = None
) -> Vocoder:
    """The vocoder of a choice; the arguments are those of `find_vocoder`, and the threads to compute with, if it is
    not TensorFlow that computes. With `auto`, its name is logged once.

    Raises:
        UsageError: there is no such folder or file.
        VocoderError: it is not a vocoder, or not one for mels of these settings.
        MissingExtraError: a package that runs such files is not installed.
    """
    path = find_vocoder(choice, settings, run)
    if path is None:
        if choice == AUTO:
            _say_once("vocoder: Griffin-Lim, for lack of a trained one for these mels (--vocoder chooses another)")
        return GriffinLim(settings)
    if choice == AUTO:
        _say_once(f"vocoder: {path}")
    if not path.is_dir():
        return open_vocoder_file(path, settings, threads)
    if is_bundle(path):
        return open_bundle_vocoder(path, settings, threads)
    with needing_train_extra(f"{path}: a vocoder in a folder"):
        if is_imported(path):
            from myxtts.inference.imported_vocoder import open_imported

            return open_imported(path, settings)
        return trained_vocoder.open_trained(path, settings)


def vocoder_when_needed(
    choice: VocoderChoice, settings: MelSettings, run: Path | None = None
) -> Callable[[np.ndarray], np.ndarray]:
    """Makes audio of mels with what `create_vocoder` opens. It is opened for the first mel, since that takes most of
    a second; but one that was named is opened at once, so that a wrong one is refused."""
    opened = functools.cache(lambda: create_vocoder(choice, settings, run))
    if choice != AUTO:
        opened()
    return lambda mel: opened()(mel)


def as_vocoder(
    given: Vocoder | VocoderChoice, settings: MelSettings, run: Path | None = None, threads: int | None = None
) -> Vocoder:
    """The vocoder itself, or the one that `create_vocoder` makes of a choice."""
    return create_vocoder(given, settings, run, threads) if isinstance(given, str | os.PathLike) else given


def _own_vocoder(run: Path | None) -> Path | None:
    if run is None:
        return None
    # A checkpoint of a run lies in the run's folder, or `best` leads to it.
    in_run = run.name == "best" or run.name.startswith("step-")
    folders = [run / OWN_VOCODER, *([run.parent / OWN_VOCODER] if in_run else [])]
    return next((folder for folder in folders if folder.is_dir()), None)


@functools.cache
def _say_once(message: str) -> None:
    logger.info("%s", message)
