"""Named sets of values for common machines and uses, as YAML files beside this one."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml

from myxtts.config.messages import nearest
from myxtts.errors import ConfigError


def preset_names() -> list[str]:
    """The names of all presets, in alphabetical order."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in files(__name__).iterdir() if entry.name.endswith(".yaml")
    )


def load_preset(name: str) -> dict[str, Any]:
    """The values of a preset, by section.

    Raises:
        ConfigError: there is no such preset; the message lists all presets.
    """
    names = preset_names()
    if name not in names:
        raise ConfigError(f"no preset '{name}'{nearest(name, names)} Presets: {', '.join(names)}")
    values: dict[str, Any] = yaml.safe_load(files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    return values
