"""Measuring tools: they observe an input or a run of steps, and own neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myxtts.performance.diagnose_pipeline import diagnose
    from myxtts.performance.diagnosis import Diagnosis
    from myxtts.performance.loop_watch import LoopWatch
    from myxtts.performance.simulated_accelerator import SimulatedStep

__all__ = ["Diagnosis", "LoopWatch", "SimulatedStep", "diagnose"]

_MODULES = {
    "Diagnosis": "myxtts.performance.diagnosis",
    "LoopWatch": "myxtts.performance.loop_watch",
    "SimulatedStep": "myxtts.performance.simulated_accelerator",
    "diagnose": "myxtts.performance.diagnose_pipeline",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for, so that using one tool does not wait for the import of all."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
