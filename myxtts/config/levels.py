"""Optimization levels: each a name for a set of ordinary settings, which give way to explicit ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEVEL_KEY = "training.optimization_level"

_ENHANCED: dict[str, Any] = {
    "training.enable_xla_compilation": True,
    "training.mixed_precision": "auto",
    "data.prefetch_to_gpu": True,
    "data.enhanced_gpu_prefetch": True,
}

# `enhanced` is the default level, so its settings are the defaults of these keys.
LEVELS: dict[str, dict[str, Any]] = {
    "basic": {
        "training.enable_xla_compilation": False,
        "training.mixed_precision": "off",
        "data.prefetch_to_gpu": False,
        "data.enhanced_gpu_prefetch": False,
    },
    "enhanced": _ENHANCED,
    "experimental": _ENHANCED | {"data.preprocessing_mode": "runtime", "data.feature_device": "accelerator"},
}


def level_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the level among flat `section.key` values stands for, without the keys that are given beside it."""
    level = values.get(LEVEL_KEY)
    settings = LEVELS.get(level, {}) if isinstance(level, str) else {}
    return {key: value for key, value in settings.items() if key not in values}
