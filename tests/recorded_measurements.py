"""Measurements of `diagnose` as JSON, so that its conclusions can be tested without measuring again."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.performance.facts import Measurements
from myxtts.performance.stall import StepTimeline

_DATA = Path(__file__).parent / "data"
PIPELINES = _DATA / "diagnose_measurements.json"
LOADERS = _DATA / "diagnose_loader_measurements.json"

_DIGITS = 6  # microseconds


def to_json(measurements: Measurements) -> Any:
    """JSON-ready, with times from the first completion on."""
    run = measurements.comparison.run
    origin = float(run.timeline.completed[0])
    timeline = StepTimeline(run.timeline.batch_ready - origin, run.timeline.completed - origin)
    run = replace(run, timeline=timeline, called=run.called - origin)
    values = _plain(replace(measurements, comparison=replace(measurements.comparison, run=run)))
    if values["input"] is not None:
        del values["input"]["comparison"]  # is the one beside it
    return values


def from_json(values: Any) -> Measurements:
    if values["input"] is not None:
        values = values | {"input": values["input"] | {"comparison": values["comparison"]}}
    return typing.cast(Measurements, _build(Measurements, values))


def read_recorded(path: Path) -> dict[str, dict[str, Any]]:
    """For each pipeline by name, what was measured of its variants: `faulty` and `fixed`, or `healthy`."""
    return typing.cast(dict[str, dict[str, Any]], json.loads(path.read_text(encoding="utf-8")))


def write_recorded(path: Path, recorded: dict[str, dict[str, Any]]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in recorded.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        # The Python object of a `tf.data` node cannot be kept.
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.name != "dataset"}
    if isinstance(value, np.ndarray):
        return [round(one, _DIGITS) for one in value.tolist()]
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return round(value, _DIGITS) if isinstance(value, float) else value


def _build(kind: Any, value: Any) -> Any:
    """The value that `_plain` made from something of this type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        given = [one for one in arguments if one is not type(None)]
        return None if value is None else _build(given[0], value)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{name: _build(hints[name], one) for name, one in value.items()})
    if kind is np.ndarray:
        return np.array(value, np.float64)
    if origin in (tuple, Sequence):
        return tuple(_build(arguments[0], one) for one in value)
    return value
