"""Instruments: they observe a source of batches or a run of steps, and own neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from myxtts.performance.diagnose_pipeline import diagnose
    from myxtts.performance.diagnosis import Diagnosis
    from myxtts.performance.simulated_step import SimulatedStep

__all__ = ["Diagnosis", "SimulatedStep", "diagnose"]

_MODULES = {
    "Diagnosis": "myxtts.performance.diagnosis",
    "SimulatedStep": "myxtts.performance.simulated_step",
    "diagnose": "myxtts.performance.diagnose_pipeline",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for, so that whoever needs one instrument does not wait for all of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
