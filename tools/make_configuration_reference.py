"""Writes docs/configuration-reference.md and the table in docs/presets.md from the code.

python tools/make_configuration_reference.py
python tools/make_configuration_reference.py --check    # writes nothing; exit code 1 if a document is out of date
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer
import yaml

from myxtts.cli.app import app
from myxtts.config import presets
from myxtts.config.config import SECTIONS
from myxtts.config.sections import Section

DOCS = Path(__file__).resolve().parents[1] / "docs"
REFERENCE = DOCS / "configuration-reference.md"
PRESETS = DOCS / "presets.md"
TABLE_BEGINS = "<!-- table: made by tools/make_configuration_reference.py -->"
TABLE_ENDS = "<!-- end of table -->"

OPENING = """\
# Configuration reference

<!-- Made by tools/make_configuration_reference.py from myxtts/config/sections.py; edit that file. -->

Every configuration key. [configuration.md](configuration.md) says how to set a key and which value wins;
[presets.md](presets.md) lists the presets. `myxtts create-config` writes a file with all keys and their descriptions,
and `myxtts show-config` prints the values in effect.

If `myxtts train` has an option for a key, the option is shown below it. Any other key is set with `--set`, as in
`myxtts train --set n_mels=100`. `null` in YAML means none.
"""

# A heading before each of these keys divides a long section.
HEADINGS = {
    "dataset_path": "The data set",
    "text_symbols": "Text",
    "sample_rate": "Audio",
    "preprocessing_mode": "The store",
    "batch_size": "Batches",
    "num_workers": "Loading",
    "epochs": "Length, seed, device",
    "enable_graph_mode": "The step",
    "learning_rate": "Optimizer",
    "checkpoint_dir": "The run's folder",
}

# Names of bounds in a JSON schema, and pydantic's own names, which remain inside a union.
BOUNDS = {
    "minimum": "from",
    "ge": "from",
    "exclusiveMinimum": "above",
    "gt": "above",
    "maximum": "to",
    "le": "to",
    "exclusiveMaximum": "below",
    "lt": "below",
}

NAMES = re.compile(r"--[a-z-]+|\b[a-z]+(?:_[a-z]+)+\b")


def reference() -> str:
    """The text of configuration-reference.md."""
    return OPENING + "".join(f"\n{section_text(name, section)}" for name, section in SECTIONS.items())


def section_text(name: str, section: type[Section]) -> str:
    lines = [f"## `{name}`", "", (section.__doc__ or "").splitlines()[0]]
    schema = section.model_json_schema()["properties"]
    options = train_options()
    for position, key in enumerate(section.model_fields):
        if key in HEADINGS or position == 0:
            lines += ["", *([f"### {HEADINGS[key]}", ""] if key in HEADINGS else [])]
            lines += ["| key | allowed | default | meaning |", "|---|---|---|---|"]
        option = f"<br>`{options[key]}`" if key in options else ""
        default = code(section.model_fields[key].get_default(call_default_factory=True))
        description = cell(section.model_fields[key].description or "")
        lines.append(f"| `{key}`{option} | {allowed(schema[key])} | {default} | {description} |")
    if section.aliases:
        lines += [
            "",
            "Other names: " + ", ".join(f"`{old}` for `{new}`" for old, new in section.aliases.items()) + ".",
        ]
    if section.obsolete:
        lines += ["", "Accepted in older files, but without effect:", ""]
        lines += [f"- `{key}`: {why}" for key, why in section.obsolete.items()]
    return "\n".join(lines) + "\n"


def train_options() -> dict[str, str]:
    """The option of `myxtts train` for each key that has one."""
    program: Any = typer.main.get_command(app)
    names = {parameter.name: parameter.opts[0] for parameter in program.commands["train"].params}
    aliases = {key: names[alias] for section in SECTIONS.values() for alias, key in section.aliases.items()}
    return names | aliases


def allowed(schema: Mapping[str, Any]) -> str:
    """The values that a JSON schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(allowed(part) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(code(value) for value in schema.get("enum", [schema.get("const")]))
    kind = schema["type"]
    if kind in ("integer", "number"):
        bounds = ", ".join(f"{word} {number(schema[name])}" for name, word in BOUNDS.items() if name in schema)
        return f"{'whole number' if kind == 'integer' else 'number'} {bounds}".rstrip()
    if kind == "array":
        return f"list of {allowed(schema['items'])}s"
    return {
        "boolean": "`true`, `false`",
        "null": "`null`",
        "object": "mapping of language codes to files",
        "string": "language code" if "pattern" in schema else "text",
    }[kind]


def number(value: float) -> str:
    """A bound as people write it; very large ones as a power of two."""
    return f"2^{round(value).bit_length() - 1}" if value >= 2**40 else f"{value:,}"


def yaml_text(value: Any) -> str:
    """A value as one would write it in YAML."""
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n").removesuffix("\n...")


def code(value: Any) -> str:
    return f"`{yaml_text(value)}`"


def cell(text: str) -> str:
    """Text for a table cell, with keys and options as code."""
    return NAMES.sub(r"`\g<0>`", text.replace("|", "\\|").replace("<", "&lt;"))


def presets_table() -> str:
    """The table of presets: the purpose of each, and every value it sets."""
    columns = ("size", "batch_size", "num_workers", "prefetch_buffer_size")
    lines = [f"| preset | for | {' | '.join(f'`{key}`' for key in columns)} | otherwise |"]
    lines.append("|---|---|" + "---|" * (len(columns) + 1))
    for name in presets.preset_names():
        values = {key: value for section in presets.load_preset(name).values() for key, value in section.items()}
        shown = [code(values.pop(key, "auto")) for key in columns]
        rest = ", ".join(f"`{key}: {yaml_text(value)}`" for key, value in values.items())
        lines.append(f"| `{name}` | {preset_comment(name)} | {' | '.join(shown)} | {rest} |")
    return "\n".join(lines)


def preset_comment(name: str) -> str:
    """The first line of a preset's file, which says what it is for."""
    first = files(presets).joinpath(f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    return cell(first.removeprefix("# ").removesuffix("."))


def with_table(document: str) -> str:
    """`document` with a new table of presets between its two marks."""
    before, begins, rest = document.partition(TABLE_BEGINS)
    _, ends, after = rest.partition(TABLE_ENDS)
    if not begins or not ends:
        raise SystemExit(f"{PRESETS}: the marks around the table are missing")
    return f"{before}{begins}\n\n{presets_table()}\n\n{ends}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if one is out of date")
    check = parser.parse_args().check
    wanted = {REFERENCE: reference(), PRESETS: with_table(PRESETS.read_text(encoding="utf-8"))}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if check and stale:
        names = ", ".join(str(path.relative_to(DOCS.parent)) for path in stale)
        sys.exit(f"{names}: out of date; run python tools/make_configuration_reference.py")
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")


if __name__ == "__main__":
    main()
