"""Turns validation errors into lines that name the key and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

# Words that YAML 1.1 reads as true or false unless they are in quotes.
_YAML_TRUTHS = {"yes", "no", "on", "off", "true", "false"}
_IN_QUOTES = "; write it in quotes"


def nearest(key: str, valid: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the valid key closest to `key`, or nothing if none is close."""
    close = difflib.get_close_matches(key, list(valid), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def describe(error: ValidationError, valid_keys: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """One (key, message) pair for each problem. `valid_keys` are by section; the top level is ""."""
    requirements: dict[str, list[str]] = {}
    inputs: dict[str, Any] = {}
    for item in error.errors():
        path = [part for part in item["loc"] if isinstance(part, str) and not _is_union_branch(part)]
        key = ".".join(path[:2]) or "configuration"
        if item["type"] == "extra_forbidden":
            section, name = ("", path[0]) if len(path) == 1 else (path[0], path[1])
            requirements[key] = [f"no such key{nearest(name, valid_keys.get(section, ()))}"]
            continue
        # A value that may be a number or 'auto' fails once for each type; report both in one line.
        requirements.setdefault(key, []).append(
            _requirement(item["type"], item["msg"], item.get("ctx", {}), item["input"])
        )
        if isinstance(item["input"], (str, int, float, bool, type(None))):
            inputs[key] = item["input"]
    found = []
    for key, parts in requirements.items():
        got = f" (got {inputs[key]!r})" if key in inputs else ""
        found.append((key, ", or ".join(dict.fromkeys(parts)) + got))
    return found


def _requirement(kind: str, message: str, context: Mapping[str, Any], value: Any) -> str:
    if kind == "literal_error":
        choices = context["expected"].replace(" or ", ", ")
        quotes = isinstance(value, bool) and any(f"'{word}'" in choices for word in _YAML_TRUTHS)
        return f"should be {'one of ' * (',' in choices)}{choices}{_IN_QUOTES * quotes}"
    if kind == "model_type":
        return "should be a mapping of keys to values"
    if kind.endswith("_parsing"):
        message = message.partition(",")[0]
    for start in ("Value error, ", "Input ", "String "):
        message = message.removeprefix(start)
    return message + _IN_QUOTES * (kind == "string_type" and isinstance(value, (bool, int, float)))


def _is_union_branch(part: str) -> bool:
    """Whether a part of a location is pydantic's name for a branch of a union, not a key."""
    return "[" in part or part in {"int", "float", "str", "constrained-int", "constrained-float"}
