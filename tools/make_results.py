"""Writes docs/results.md from what the benchmarks left in bench-results; `make bench` calls it.

A program that has left nothing keeps the section it has.

.venv/bin/python tools/make_results.py [--results bench-results] [--output docs/results.md]
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shlex
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = """# Results

Made by `make bench`, which runs the programs in `benchmarks/` one after another; each section is what its program
printed when it last ran. Nothing here has run on a GPU: where an accelerator is spoken of, it is simulated and the
table says so.
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--results", type=Path, default=ROOT / "bench-results")
    options.add_argument("--output", type=Path, default=ROOT / "docs" / "results.md")
    chosen = options.parse_args()
    programs = sorted((ROOT / "benchmarks").glob("bench_*.py"))
    kept = written_sections(chosen.output)
    sections = [
        section(program, chosen.results, chosen.output.parent / "images") or kept.get(program.stem)
        for program in programs
    ]
    chosen.output.write_text("\n".join([HEADER, *filter(None, sections)]), encoding="utf-8")


def written_sections(output: Path) -> dict[str, str]:
    """By program, the sections of a document that was written before."""
    if not output.exists():
        return {}
    _, *sections = re.split(r"^## (?=bench_)", output.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {text.split("\n", 1)[0]: f"## {text.rstrip()}\n" for text in sections}


def section(program: Path, results: Path, images: Path) -> str | None:
    """What a program printed, or None if it has not been run."""
    printed = results / f"{program.stem}.txt"
    if not printed.exists():
        return None
    title = (ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or program.stem).splitlines()[0]
    lines = [f"## {program.stem}", "", title, ""]
    values = results / f"{program.stem}.json"
    if values.exists():
        document = json.loads(values.read_text(encoding="utf-8"))
        machine, arguments = document["machine"], document.get("arguments", [])
        gpus = ", ".join(machine["gpus"]) or "no GPU"
        where = (
            f"`{' '.join(['.venv/bin/python', f'benchmarks/{program.name}', *map(shlex.quote, arguments)])}`, "
            f"{machine['date'][:10]}, {machine['cpu']}, "
            f"{machine['usable_cpus']} CPUs, {machine['memory_gib']} GiB, {gpus}, Python {machine['python']}, "
            f"TensorFlow {machine['versions'].get('tensorflow', 'none')}"
        )
        lines += [where, ""]
    picture = results / f"{program.stem}.png"
    if picture.exists():
        images.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, images / picture.name)
        lines += [f"![{title}](images/{picture.name})", ""]
    text = printed.read_text(encoding="utf-8").rstrip()
    # The machine stands above; each program prints it first.
    text = "\n".join(line.rstrip() for line in text.splitlines() if "CPUs, " not in line or " GiB, " not in line)
    return "\n".join([*lines, "```", text.strip("\n"), "```", ""])


if __name__ == "__main__":
    main()
