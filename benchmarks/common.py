"""What benchmarks share: the machine they ran on, a corpus, CPU time, a table with ratios, results as JSON."""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from myxtts.hardware import gpus, memory_limit_bytes, usable_cpus

PACKAGES = ("myxtts", "tensorflow", "numpy", "scipy", "soundfile", "librosa", "torch", "grain", "spdl", "onnxruntime")


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks have."""
    built = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    built.add_argument("--json", type=Path, help="write the results to this file as well")
    return built


def machine_description() -> dict[str, Any]:
    """The machine and the versions that a figure depends on."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "cpu": _cpu_name(),
        "usable_cpus": usable_cpus(),
        "memory_gib": round(memory_limit_bytes() / 2**30, 1),
        "gpus": [gpu.name for gpu in gpus()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def describe_machine() -> str:
    """The machine in one line, for above a table."""
    machine = machine_description()
    gpu = ", ".join(machine["gpus"]) or "no GPU"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['cpu']}, {machine['usable_cpus']} CPUs, {machine['memory_gib']} GiB, {gpu}; {versions}"


def speak_corpus(folder: Path, clips: int) -> Path:
    """A data set spoken by espeak-ng, which needs the `speech` extra; returns its folder."""
    command = ["make-corpus", folder, "--clips", clips, "--quiet"]
    subprocess.run([sys.executable, "-m", "myxtts", *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return folder


def children_cpu_seconds() -> float:
    """CPU time of the programs that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table; the first column is text, the others are numbers."""
    console = Console(width=None if Console().is_terminal else 160, highlight=False)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def write_json(path: Path | None, results: Mapping[str, Any]) -> None:
    """Writes the results with the machine's description, if a path was given."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine_description(), "arguments": _arguments(), **results}
    path.write_text(json.dumps(document, indent=2, default=float) + "\n", encoding="utf-8")


def _arguments() -> list[str]:
    """What the program was started with, without the option for its results."""
    given = sys.argv[1:]
    for number, argument in enumerate(given):
        if argument == "--json":
            return given[:number] + given[number + 2 :]
    return [argument for argument in given if not argument.startswith("--json=")]


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
