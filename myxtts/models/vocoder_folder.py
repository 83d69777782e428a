"""An imported vocoder on disk: a folder that appears whole or not at all, as checkpoints do.

| file | holds |
|---|---|
| `weights.npz` | the weights in the network's order, float32 |
| `vocoder.json` | format version, the network and its sizes, the settings of its mels, where it comes from |
| `checksums.json` | size and XXH3 of both |
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts import __version__
from myxtts.audio.mel import MelSettings
from myxtts.errors import VocoderError
from myxtts.models.checkpoint import (
    grow_gpu_memory,
    new_checkpoint,
    read_description,
    read_weights,
    verify_checksums,
    write_weights,
)

if TYPE_CHECKING:
    from myxtts.models.hifi_gan import HifiGan
    from myxtts.models.vocos import Vocos

FORMAT = 1
DESCRIPTION = "vocoder.json"
WEIGHTS = "weights.npz"
# Module and class of each network; importing them starts TensorFlow.
_NETWORKS = {"hifi-gan": ("myxtts.models.hifi_gan", "HifiGan"), "vocos": ("myxtts.models.vocos", "Vocos")}
# What a mel's numbers depend on. The floor is not here: it changes nothing but silence.
_MEL_KEYS = ("sample_rate", "n_fft", "win_length", "hop_length", "n_mels", "fmin", "fmax")


@dataclass(frozen=True)
class VocoderFolder:
    """What an imported vocoder says about itself; its files were checked.

    Attributes:
        path: its folder.
        network: `hifi-gan` or `vocos`.
        sizes: arguments of the network.
        mel: settings of the mels that it was trained with, by their names in `MelSettings`.
        source: name of the file that was imported.
    """

    path: Path
    network: str
    sizes: Mapping[str, Any]
    mel: Mapping[str, float]
    source: str


def is_imported(folder: Path) -> bool:
    """Whether a folder holds an imported vocoder; damaged ones included."""
    return (folder / DESCRIPTION).is_file()


def write_vocoder(path: str | Path, network: HifiGan | Vocos, settings: MelSettings, source: str) -> None:
    """Saves a vocoder; one that is there already is replaced.

    Args:
        path: of the folder.
        network: with its weights.
        settings: of the mels that it was trained with.
        source: where it comes from.
    """
    description = {
        "format": FORMAT,
        "myxtts": __version__,
        "network": network.architecture,
        "sizes": network.get_config(),
        "mel": {key: value for key, value in asdict(settings).items() if key in (*_MEL_KEYS, "log_floor")},
        "source": source,
    }
    with new_checkpoint(path) as folder:
        write_weights(folder / WEIGHTS, network)
        (folder / DESCRIPTION).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def read_vocoder(path: str | Path) -> VocoderFolder:
    """Reads what a vocoder says about itself, after comparing its files with their checksums.

    Raises:
        CheckpointError: it is damaged.
        VocoderError: it was made by a newer version.
    """
    path = Path(path)
    description = read_description(path / DESCRIPTION)
    if description.get("format") != FORMAT or description.get("network") not in _NETWORKS:
        raise VocoderError(
            f"{path}: a vocoder of format {description.get('format')}, network {description.get('network')}; "
            f"this version reads {FORMAT} with {' or '.join(_NETWORKS)} (made by myxtts {description.get('myxtts')})"
        )
    verify_checksums(path)
    return VocoderFolder(
        path, description["network"], description["sizes"], description["mel"], description["source"]
    )


def load_network(vocoder: VocoderFolder) -> HifiGan | Vocos:
    """The network with its weights.

    Raises:
        CheckpointError: the weights do not fit the network.
    """
    module, name = _NETWORKS[vocoder.network]
    grow_gpu_memory()
    network = getattr(importlib.import_module(module), name)(**vocoder.sizes)
    read_weights(vocoder.path / WEIGHTS, network)
    return network


def mel_differences(mel: Mapping[str, float], settings: MelSettings) -> list[str]:
    """The settings in which the mels of a vocoder differ from those of a voice, as short texts."""
    return [
        f"{key} is {mel[key]:g} in the vocoder and {getattr(settings, key):g} here"
        for key in _MEL_KEYS
        if mel[key] != getattr(settings, key)
    ]
