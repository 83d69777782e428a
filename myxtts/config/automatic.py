"""What is chosen for the machine when nobody chose: a preset by the GPU, workers by the CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from myxtts.config.presets import load_preset
from myxtts.hardware import Gpu

GIB = 1 << 30


def preset_for(gpus: Sequence[Gpu]) -> str:
    """The preset for the first GPU: by its name, else by its memory (the smallest if that is not known), or `cpu`."""
    if not gpus:
        return "cpu"
    name = gpus[0].name.lower().replace(" ", "")
    for preset in ("rtx4090", "rtx3090", "rtx3060"):
        if preset in name:
            return preset
    return "rtx3090" if gpus[0].memory_bytes >= 20 * GIB else "rtx3060"


def automatic_values(gpus: Sequence[Gpu]) -> tuple[dict[str, Any], str]:
    """Values by section for this machine, and the preset's name.

    Workers and prefetch stay `auto`: a preset knows the GPU, only this process knows the CPUs it may use.
    """
    preset = preset_for(gpus)
    values = load_preset(preset)
    for key in ("num_workers", "prefetch_buffer_size"):
        values.get("data", {}).pop(key, None)
    return values, preset
