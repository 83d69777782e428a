"""Merges the layers of a configuration, and records which layer each value comes from.

The command line wins over the YAML file, then the preset, then automatic tuning, then the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from myxtts.config.config import ALIASES, LEVEL_KEY, SECTIONS, XTTSConfig, level_settings, section_of, to_config_error
from myxtts.config.presets import load_preset
from myxtts.config.yaml_file import Document, read_yaml
from myxtts.hardware import Gpu, gpus

DEFAULT = "default"
GIB = 1 << 30


@dataclass(frozen=True)
class ResolvedConfig:
    """A configuration and, for each `section.key`, the layer that set it."""

    config: XTTSConfig
    sources: Mapping[str, str]


def resolve(
    *,
    yaml_path: str | Path | None = None,
    preset: str | None = None,
    command_line: Mapping[str, Any] | None = None,
    machine: Sequence[Gpu] | None = None,
) -> ResolvedConfig:
    """Merges the layers.

    Args:
        yaml_path: a configuration file.
        preset: the name of a preset.
        command_line: flat keys; None is a value like any other.
        machine: the GPUs to tune for; None: those of this machine.

    Raises:
        ConfigError: with the file and line, or the option, of each wrong key or value.
    """
    document = read_yaml(yaml_path) if yaml_path is not None else None
    layers: list[tuple[str, Mapping[str, Any]]] = []
    if preset is not None:
        layers.append((f"preset {preset}", load_preset(preset)))
    if document is not None:
        layers.append((document.path, document.values))
    layers.append(("command line", command_line or {}))

    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, given in layers:
        values = _flatten(given)
        # The settings of a level win over lower layers, but not over other settings of the same layer.
        level = level_settings(values)
        merged |= level | values
        sources |= dict.fromkeys(level, f"{source} (level {values.get(LEVEL_KEY)})")
        sources |= dict.fromkeys(values, source)
    if merged.get("data.auto_tune_performance", True) is not False and preset is None:
        if merged.get("training.device") == "cpu":
            machine = ()
        name = preset_for(gpus() if machine is None else machine)
        for key, value in _flatten(load_preset(name)).items():
            # Workers and prefetch stay `auto`: they depend on the CPUs of this process, not on the GPU.
            if key not in merged and key not in ("data.num_workers", "data.prefetch_buffer_size"):
                merged[key] = value
                sources[key] = f"automatic ({name})"

    try:
        config = XTTSConfig(**_nest(merged))
    except ValidationError as error:
        raise to_config_error(error, lambda key: _where(key, sources, document)) from None
    keys = (f"{name}.{key}" for name, section in SECTIONS.items() for key in section.model_fields)
    return ResolvedConfig(config, {key: sources.get(key, DEFAULT) for key in keys})


def preset_for(gpus: Sequence[Gpu]) -> str:
    """The preset for the first GPU: by its name, else by its memory; `cpu` without a GPU."""
    if not gpus:
        return "cpu"
    name = gpus[0].name.lower().replace(" ", "")
    for preset in ("rtx4090", "rtx3090", "rtx3060"):
        if preset in name:
            return preset
    return "rtx3090" if gpus[0].memory_bytes >= 20 * GIB else "rtx3060"


def _where(key: str, sources: Mapping[str, str], document: Document | None) -> str:
    source = sources.get(key)
    if document is not None and source in (None, document.path):
        location = document.locate(key)
        # In the file, a flat key has no section.
        return location if location != document.path else document.locate(key.rpartition(".")[2])
    return source or ""


def _flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """`{"data": {"batch_size": 8}, "epochs": 3}` as `{"data.batch_size": 8, "training.epochs": 3}`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if key in SECTIONS and isinstance(value, Mapping):
            flat |= {f"{key}.{ALIASES.get(name, name)}": item for name, item in value.items()}
        else:
            section = section_of(key)
            flat[f"{section}.{ALIASES.get(key, key)}" if section else key] = value
    return flat


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        section, dot, name = key.partition(".")
        if dot and section in SECTIONS:
            target = nested.setdefault(section, {})
            if isinstance(target, dict):
                target[name] = value
        else:
            nested[key] = value
    return nested
