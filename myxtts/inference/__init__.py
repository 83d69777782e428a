"""Speaking with a trained model. `XTTSInference` is loaded on first use, since it takes a while."""

from __future__ import annotations

from typing import Any

__all__ = ["XTTSInference"]


def __getattr__(name: str) -> Any:
    if name != "XTTSInference":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from myxtts.inference.xtts_inference import XTTSInference

    return XTTSInference
