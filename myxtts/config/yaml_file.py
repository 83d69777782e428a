"""Reads configuration files with the line number of each key, and writes them with a comment for each key."""

from __future__ import annotations

import json
import os
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from myxtts.errors import ConfigError

LARGEST_FILE = 1 << 20  # a configuration has a few kilobytes; do not read a data file that was given by mistake
DEEPEST_NESTING = 20


@dataclass(frozen=True)
class Document:
    """A parsed file, with the line of each key."""

    path: str
    values: dict[str, Any]
    lines: dict[str, int]

    def locate(self, key: str) -> str:
        """`file:line` of a key such as `data.batch_size` or of its nearest parent; else the file."""
        while key:
            if key in self.lines:
                return f"{self.path}:{self.lines[key]}"
            key = key.rpartition(".")[0]
        return self.path


def read_yaml(path: str | Path) -> Document:
    """Parses a file whose top level is a mapping of strings.

    Raises:
        ConfigError: it is something else; one line says what.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; 'myxtts create-config --output {path}' writes one") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > LARGEST_FILE:
        raise ConfigError(f"{path}: larger than 1 MiB, so it is not a configuration")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not text (byte {error.start + 1} is not UTF-8); save it as UTF-8") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{where}: not valid YAML: {problem}") from None
    except (ValueError, OverflowError) as error:  # e.g. a timestamp of the 40th of May
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply to be a configuration") from None
    if values is None:
        raise ConfigError(f"{path}: is empty; 'myxtts create-config' writes a complete file")
    if not isinstance(values, dict) or not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path}: the top level should be a mapping such as 'data: {{batch_size: 32}}'")
    lines: dict[str, int] = {}
    _collect_lines(root, "", lines, str(path), 0)
    return Document(str(path), values, lines)


def render_yaml(config: BaseModel, sections: Mapping[str, type[BaseModel]]) -> str:
    """The configuration as YAML with each key's description above it."""
    parts = []
    for name, section_type in sections.items():
        section = getattr(config, name)
        lines = [f"# {(section_type.__doc__ or '').strip().splitlines()[0]}", f"{name}:"]
        for key, field in section_type.model_fields.items():
            lines += [f"  # {line}" for line in textwrap.wrap(field.description or "", 100)]
            lines.append(f"  {key}: {_scalar(getattr(section, key))}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def write_yaml(path: str | Path, text: str) -> None:
    """Replaces a configuration file in one step: nobody ever sees half of it, even after a crash.

    Raises:
        ConfigError: it cannot be written.
    """
    path = Path(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = file.name
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def _scalar(value: Any) -> str:
    # PyYAML loses line separators beyond ASCII unless they are escaped, so escape all that is not printable.
    readable = json.dumps(value, ensure_ascii=False).isprintable()
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=readable, width=2**31, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _collect_lines(node: yaml.MappingNode, prefix: str, lines: dict[str, int], path: str, depth: int) -> None:
    if depth > DEEPEST_NESTING:
        raise ConfigError(f"{path}: nested too deeply to be a configuration")
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigError(f"{path}:{line}: a key should be a name")
        if key_node.tag != "tag:yaml.org,2002:str":
            raise ConfigError(f"{path}:{line}: '{key_node.value}' should be a name; write it in quotes")
        key = f"{prefix}{key_node.value}"
        if key in lines:
            raise ConfigError(f"{path}:{line}: '{key}' is given twice, first on line {lines[key]}")
        lines[key] = line
        if isinstance(value_node, yaml.MappingNode):
            _collect_lines(value_node, f"{key}.", lines, path, depth + 1)
