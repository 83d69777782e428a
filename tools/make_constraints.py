"""Writes constraints.txt: the versions that pip resolves today, for each Python that MyXTTS supports.

    python tools/make_constraints.py python3.10 python3.11 python3.12 python3.13

Each interpreter resolves `.[dev,docs,hooks,judges,ray]`, the one named by --bench also `.[bench]`; nothing is
installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# The versions that CI tested, for Python 3.10 to 3.13; made by tools/make_constraints.py."


def resolve(interpreter: str, extras: str) -> tuple[str, dict[str, str]]:
    """The interpreter's version ("3.11") and the packages it would install, by normalised name."""
    with tempfile.TemporaryDirectory() as folder:
        environment, report = Path(folder) / "venv", Path(folder) / "report.json"
        subprocess.run([interpreter, "-m", "venv", environment], check=True)
        python = environment / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", "-U", "pip"], check=True)
        package = f"{ROOT}[{extras}]"
        install = [str(python), "-m", "pip", "install", "-q", "--dry-run", "--report", str(report), package]
        subprocess.run(install, check=True)
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        version = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        found = {}
        for item in json.loads(report.read_text())["install"]:
            name = item["metadata"]["name"].lower().replace("_", "-")
            # A local suffix such as +cpu names a build, not a version that others can ask for.
            found[name] = item["metadata"]["version"].partition("+")[0]
        found.pop("myxtts", None)
        return version, found


def lines(resolved: dict[str, dict[str, str]]) -> list[str]:
    """One line per package, or one per range of Pythons where they differ."""
    pythons = sorted(resolved, key=lambda version: int(version.partition(".")[2]))
    names = sorted({name for packages in resolved.values() for name in packages})
    written = [HEADER]
    for name in names:
        by_version: dict[str, list[str]] = defaultdict(list)
        for python in pythons:
            if name in resolved[python]:
                by_version[resolved[python][name]].append(python)
        for version, having in by_version.items():
            markers = []
            if len(by_version) > 1 and having[0] != pythons[0]:
                markers.append(f'python_version >= "{having[0]}"')
            if len(by_version) > 1 and having[-1] != pythons[-1]:
                markers.append(f'python_version <= "{having[-1]}"')
            written.append(f"{name}=={version}" + (f" ; {' and '.join(markers)}" if markers else ""))
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("interpreters", nargs="+", help="one command per Python version")
    parser.add_argument("--bench", default=sys.executable, help="the interpreter that resolves the peers as well")
    arguments = parser.parse_args()
    resolved: dict[str, dict[str, str]] = {}
    for interpreter in arguments.interpreters:
        version, packages = resolve(interpreter, "dev,docs,hooks,judges,ray")
        resolved[version] = packages
    version, packages = resolve(arguments.bench, "dev,docs,hooks,judges,ray,bench")
    resolved[version] = packages
    (ROOT / "constraints.txt").write_text("\n".join(lines(resolved)) + "\n")


if __name__ == "__main__":
    main()
