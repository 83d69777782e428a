"""Vocoders that others trained with PyTorch: HiFi-GAN and Vocos, from a state dict or a safetensors file.

A file holds names and tensors. Which network they belong to follows from the names, its sizes from the shapes, and
what shapes do not show (dilations, the mel's settings) from the configuration file beside the weights, or from what
was published: HiFi-GAN V1, V2 and V3 need no configuration.

Nothing in a file is executed: PyTorch's are read with `weights_only`, safetensors by NumPy.
"""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from myxtts.audio.mel import MelSettings, mel_filterbank
from myxtts.errors import ConfigError, MissingExtraError, VocoderError

if TYPE_CHECKING:
    from myxtts.models.hifi_gan import HifiGan
    from myxtts.models.vocos import Vocos

SUFFIXES = (".pth", ".pt", ".bin", ".ckpt", ".safetensors")
# Where checkpoints keep the weights of the network among those of others.
_NESTED = ("generator", "state_dict", "model")
# The dilations of the published HiFi-GANs, by kind of block and its kernel sizes.
_PUBLISHED_DILATIONS = {
    (1, (3, 7, 11)): ((1, 3, 5), (1, 3, 5), (1, 3, 5)),
    (2, (3, 5, 7)): ((1, 2), (2, 6), (3, 12)),
}
# How older and newer versions of PyTorch name the length and the direction of a weight.
_WEIGHT_NORMS = (
    ("weight_g", "weight_v"),
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
)
_VOCOS_LOG_FLOOR = 1e-7
_MEL_BANDS = "feature_extractor.mel_spec.mel_scale.fb"


@dataclass(frozen=True)
class ImportedVocoder:
    """A network with its weights, and the settings of the mels that it was trained with."""

    network: HifiGan | Vocos
    settings: MelSettings


def import_vocoder(
    weights: str | Path, config: str | Path | None = None, state: Mapping[str, np.ndarray] | None = None
) -> ImportedVocoder:
    """Reads a vocoder's weights into a network. Starts TensorFlow.

    Args:
        weights: a PyTorch checkpoint (`.pth`, `.pt`, `.bin`, `.ckpt`) or a `.safetensors` file.
        config: the configuration published with it, JSON or YAML; None: as published for these shapes.
        state: what `read_state_dict` returned for the file; None: it is read here.

    Raises:
        VocoderError: the file cannot be read, is neither HiFi-GAN nor Vocos, or was trained for mels of another kind.
        ConfigError: the configuration cannot be read or does not fit the weights.
        MissingExtraError: the package that reads such files is not installed.
    """
    path = Path(weights)
    source = VocoderSource(path, read_state_dict(path) if state is None else state, _read_config(config))
    if "conv_pre.bias" in source.state:
        return _import_hifi_gan(source)
    if "backbone.embed.bias" in source.state:
        return _import_vocos(source)
    some = ", ".join(sorted(source.state)[:3])
    raise VocoderError(
        f"{path}: neither HiFi-GAN ('conv_pre.bias') nor Vocos ('backbone.embed.bias'): it holds {some} …"
    )


def read_state_dict(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a file by name, float32; a weight that PyTorch keeps as length and direction is put together.

    Raises:
        VocoderError: the file is missing, damaged, or holds something else.
        MissingExtraError: the package that reads such files is not installed.
    """
    if not path.is_file():
        raise VocoderError(f"{path}: no such file")
    if path.suffix.lower() not in SUFFIXES:
        raise VocoderError(f"{path}: should be a file of weights ({', '.join(SUFFIXES)})")
    read = _read_safetensors if path.suffix.lower() == ".safetensors" else _read_torch
    return _without_weight_norm(read(path))


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    if importlib.util.find_spec("safetensors") is None:
        raise MissingExtraError(f"{path}: a .safetensors file", "vocoders")
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return {name: value.astype(np.float32) for name, value in load_file(path).items()}
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise VocoderError(f"{path}: cannot be read as a safetensors file ({error})") from None


def _read_torch(path: Path) -> dict[str, np.ndarray]:
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError(f"{path}: a PyTorch file", "torch")
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zipfile and torch raise a dozen types
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise VocoderError(f"{path}: cannot be read as a file of weights only ({reason.rstrip('. ')})") from None
    for name in _NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping):
        raise VocoderError(f"{path}: holds a {type(found).__name__}, not tensors by name")
    tensors = {str(name): value for name, value in found.items() if isinstance(value, torch.Tensor)}
    return {name: value.detach().to(torch.float32).numpy() for name, value in tensors.items()}


def _without_weight_norm(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Direction v and length g as one weight g · v / |v|, the norm being over all axes but the first."""
    joined = dict(state)
    for length, direction in _WEIGHT_NORMS:
        for name in [name for name in state if name.endswith(f".{direction}")]:
            stem = name.removesuffix(direction)
            if stem + length in state:
                v, g = joined.pop(name), joined.pop(stem + length)
                norm = np.sqrt(np.sum(np.square(v, dtype=np.float64), axis=tuple(range(1, v.ndim)), keepdims=True))
                joined[f"{stem}weight"] = (g * v / norm).astype(np.float32)
    return joined


def _read_config(path: str | Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        # JSON is YAML.
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise ConfigError(f"{path}: cannot be read ({reason})") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: should hold keys and values")
    return found


@dataclass(frozen=True)
class VocoderSource:
    """What a vocoder is imported from.

    Attributes:
        path: of the weights.
        state: tensors by name.
        config: of the configuration file; empty if there is none.
    """

    path: Path
    state: Mapping[str, np.ndarray]
    config: Mapping[str, Any]

    def tensor(self, name: str, rank: int) -> np.ndarray:
        """
        Raises:
            VocoderError: there is none of this name and rank.
        """
        found = self.state.get(name)
        if found is None or found.ndim != rank:
            what = "missing" if found is None else f"of shape {list(found.shape)}"
            raise VocoderError(f"{self.path}: '{name}' is {what}; it should have {rank} axes")
        return found

    def numbered(self, pattern: str) -> int:
        """How many different numbers the names have where the pattern has its group."""
        return len({match[1] for name in self.state if (match := re.match(pattern, name))})

    def mel_settings(self, given: Mapping[str, Any], **defaults: Any) -> MelSettings:
        """The mel's settings: what the configuration gives over the defaults.

        Raises:
            VocoderError: no such mel can exist.
        """
        values = defaults | {key: value for key, value in given.items() if value is not None}
        try:
            return MelSettings(**values)
        except (ConfigError, TypeError) as error:
            raise VocoderError(f"{self.path}: its mels cannot be ours: {error}") from None


def _import_hifi_gan(source: VocoderSource) -> ImportedVocoder:
    config, state = source.config, source.state
    first = source.tensor("conv_pre.weight", 3)  # [channels, n_mels, 7]
    steps = source.numbered(r"ups\.(\d+)\.")
    kernels = [source.tensor(f"ups.{step}.weight", 3).shape[2] for step in range(steps)]
    kind = 1 if "resblocks.0.convs1.0.weight" in state else 2
    part = "convs1" if kind == 1 else "convs"
    blocks = source.numbered(r"resblocks\.(\d+)\.") // max(steps, 1)
    block_kernels = tuple(
        source.tensor(f"resblocks.{number}.{part}.0.weight", 3).shape[2] for number in range(blocks)
    )
    # Every published generator has kernels of twice the rate.
    rates = config.get("upsample_rates") or [kernel // 2 for kernel in kernels]
    dilations = config.get("resblock_dilation_sizes") or _PUBLISHED_DILATIONS.get((kind, block_kernels))
    if dilations is None:
        raise VocoderError(
            f"{source.path}: not a published HiFi-GAN (residual blocks of kind {kind}, "
            f"kernels {list(block_kernels)}); give its configuration with --config"
        )
    sizes = {
        "n_mels": first.shape[1],
        "channels": first.shape[0],
        "upsample_rates": _numbers("upsample_rates", rates, len(kernels)),
        "upsample_kernels": kernels,
        "block_kind": kind,
        "block_kernels": block_kernels,
        "block_dilations": [_numbers("resblock_dilation_sizes", row) for row in dilations],
    }
    for step, (rate, kernel) in enumerate(zip(sizes["upsample_rates"], kernels, strict=True)):
        if kernel < rate or (kernel - rate) % 2:
            raise VocoderError(
                f"{source.path}: 'ups.{step}' has {kernel} weights for a rate of {rate}; "
                "their difference should be even and not negative"
            )
    hop = math.prod(sizes["upsample_rates"])
    rate = config.get("sampling_rate")
    settings = source.mel_settings(
        {
            "sample_rate": rate,
            "n_fft": config.get("n_fft"),
            "win_length": config.get("win_size"),
            "fmin": config.get("fmin"),
            "fmax": config.get("fmax") or (rate and rate / 2),
        },
        n_mels=first.shape[1],
        hop_length=hop,
        n_fft=4 * hop,
        win_length=4 * hop,
    )
    if config.get("hop_size", hop) != hop:
        raise ConfigError(
            f"{source.path}: makes {hop} samples of a frame, and its configuration says {config['hop_size']}"
        )
    from myxtts.models.hifi_gan import HifiGan

    return ImportedVocoder(_filled(HifiGan(**sizes), source, state), settings)


def _import_vocos(source: VocoderSource) -> ImportedVocoder:
    state = source.state
    if "backbone.norm.scale.weight" in state:
        raise VocoderError(f"{source.path}: a Vocos for EnCodec's tokens; one for mels is needed")
    embed = source.tensor("backbone.embed.weight", 3)  # [width, n_mels, 7]
    blocks = source.numbered(r"backbone\.convnext\.(\d+)\.")
    head = source.tensor("head.out.weight", 2)  # [n_fft + 2, width]
    if not blocks or any(name.startswith("head.imdct") for name in state):
        raise VocoderError(f"{source.path}: not a Vocos of ConvNeXt blocks with an inverse Fourier transform")
    n_fft = head.shape[0] - 2
    given = _vocos_arguments(source.config)
    rate = given.get("sample_rate")
    settings = source.mel_settings(
        {
            "sample_rate": rate,
            "hop_length": given.get("hop_length"),
            "fmin": given.get("f_min"),
            "fmax": given.get("f_max") or (rate and rate / 2),
        },
        n_mels=embed.shape[1],
        n_fft=given.get("n_fft", n_fft),
        win_length=given.get("n_fft", n_fft),
        hop_length=n_fft // 4,
        log_floor=_VOCOS_LOG_FLOOR,
    )
    _check_bands(source, settings, given)
    from myxtts.models.vocos import Vocos

    sizes = {
        "n_mels": embed.shape[1],
        "width": embed.shape[0],
        "inner_width": source.tensor("backbone.convnext.0.pwconv1.weight", 2).shape[0],
        "blocks": blocks,
        "n_fft": n_fft,
        "hop_length": settings.hop_length,
    }
    used = {name: value for name, value in state.items() if name.startswith(("backbone.", "head.out."))}
    for number in range(blocks):
        # The scale of a block's output is part of its last layer here.
        scale = used.pop(f"backbone.convnext.{number}.gamma", None)
        stem = f"backbone.convnext.{number}.pwconv2"
        if scale is not None:
            used[f"{stem}.weight"] = source.tensor(f"{stem}.weight", 2) * scale[:, None]
            used[f"{stem}.bias"] = source.tensor(f"{stem}.bias", 1) * scale
    return ImportedVocoder(_filled(Vocos(**sizes), source, used), settings)


def _vocos_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the feature extractor, where Vocos writes them with or without its training settings."""
    for key in ("model", "init_args"):
        if isinstance(config.get(key), Mapping):
            config = config[key]
    extractor = config.get("feature_extractor")
    arguments = extractor.get("init_args") if isinstance(extractor, Mapping) else None
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def _check_bands(source: VocoderSource, settings: MelSettings, given: Mapping[str, Any]) -> None:
    """Refuses mels with bands of another kind, as Vocos's first models have (HTK's scale, not normalised)."""
    bands = source.state.get(_MEL_BANDS)  # [bins, n_mels]
    if bands is None:
        same = (given.get("mel_scale"), given.get("norm")) == ("slaney", "slaney")
    else:
        ours = mel_filterbank(settings).T
        same = bands.shape == ours.shape and np.allclose(bands, ours, atol=1e-3 * ours.max())
    if not same:
        raise VocoderError(
            f"{source.path}: trained for mel bands other than ours, which are Slaney's from {settings.fmin:g} to "
            f"{settings.fmax:g} Hz at {settings.sample_rate} Hz (mel_scale: slaney, norm: slaney; "
            "--config may say other frequencies)"
        )


def _filled(network: Any, source: VocoderSource, state: Mapping[str, np.ndarray]) -> Any:
    """The network with weights from a state dict; every tensor has to be used.

    Raises:
        VocoderError: a tensor is missing, has another shape, or belongs to no layer.
    """
    import keras

    left = dict(state)
    for name, layer in network.layers_by_name.items():
        values = []
        for part, variable in zip(("weight", "bias"), layer.weights, strict=True):
            value = left.pop(f"{name}.{part}", None)
            if value is None:
                raise VocoderError(f"{source.path}: '{name}.{part}' is missing")
            # [O, I, K] → [K, I, O] and [O, I] → [I, O]; of a convolution in each channel, [C, 1, K] → [K, C, 1].
            each = isinstance(layer, keras.layers.DepthwiseConv1D) and value.ndim == 3
            value = value.transpose(2, 0, 1) if each else value.T
            if value.shape != tuple(variable.shape):
                raise VocoderError(
                    f"{source.path}: '{name}.{part}' is {list(value.shape)}, and should be {list(variable.shape)}"
                )
            values.append(value)
        layer.set_weights(values)
    if left:
        raise VocoderError(f"{source.path}: '{min(left)}' is not a part of {network.architecture}: another network")
    return network


def _numbers(key: str, value: Any, length: int | None = None) -> list[int]:
    good = isinstance(value, list | tuple) and all(isinstance(one, int) and one > 0 for one in value)
    if not good or (length is not None and len(value) != length):
        raise ConfigError(f"{key}: should be {length or 'some'} whole numbers, as the weights have (got {value})")
    return list(value)
