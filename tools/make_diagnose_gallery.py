"""Writes docs/diagnose-gallery.md: faulty pipelines beside their fixed twins, and what `diagnose` says of each.

    python tools/make_diagnose_gallery.py && ruff format docs/diagnose-gallery.md

The pipelines are those of `tests/faulty_pipelines.py` and `tests/faulty_loaders.py`, as they stand there. The figures
are those that `python tests/fault_table.py --record` has measured, with `--loaders` for the second file.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from recorded_measurements import LOADERS, PIPELINES, from_json, read_recorded  # noqa: E402

from myxtts.performance.diagnose_pipeline import judge  # noqa: E402
from myxtts.performance.diagnosis import Diagnosis, number  # noqa: E402

GALLERY = ROOT / "docs" / "diagnose-gallery.md"
HEADER = """# Gallery: pipelines, what slows each down, and the fix

{count} pipelines with one fault each, beside the same pipeline without it, and what [diagnose](diagnose.md) says of
them. Waits stand for slow disks and links, a step for a GPU's: it leaves the CPU free. Measured on two CPUs by
`python tests/fault_table.py --record`, also with `--loaders`; `python tools/make_diagnose_gallery.py` writes this
page. The code is from `tests/faulty_pipelines.py` and `tests/faulty_loaders.py`. A case is
measured up to four times until it is named right, so the page shows what is found, not how surely; other programs ran
beside the loaders, which makes their losses look larger.

| pipeline | culprit | waits before | after | lost ms per step before | after |
|---|---|---|---|---|---|
"""
SECTIONS = (
    ("tf.data", "faulty_pipelines.py", "CASES", PIPELINES),
    ("PyTorch's DataLoader, and Python iterables", "faulty_loaders.py", "LOADER_CASES", LOADERS),
)


@dataclass(frozen=True)
class Entry:
    """A pipeline of the gallery, with its code and that of its twin."""

    name: str
    faulty_code: str
    fixed_code: str
    faulty: Diagnosis
    fixed: Diagnosis

    @property
    def row(self) -> str:
        waits = (f"{100 * one.input_share:.0f} %" for one in (self.faulty, self.fixed))
        lost = (number(one.lost_share * one.step_ms) for one in (self.faulty, self.fixed))
        link = f"[{self.name}](#{_anchor(self.name)})"
        return "| " + " | ".join((link, f"`{self.faulty.culprit}`", *waits, *lost)) + " |"

    @property
    def text(self) -> str:
        same = self.faulty_code == self.fixed_code
        fixed = "" if same else f"\nWithout the fault:\n\n```python\n{self.fixed_code}\n```\n"
        return f"### {self.name}\n\n```python\n{self.faulty_code}\n```\n\n```\n{self.faulty}\n```\n{fixed}"


def main() -> None:
    sections = {title: list(_entries(file, table, recorded)) for title, file, table, recorded in SECTIONS}
    rows = [entry.row for entries in sections.values() for entry in entries]
    parts = [HEADER.format(count=len(rows)) + "\n".join(rows) + "\n"]
    for title, entries in sections.items():
        parts += [f"## {title}\n", *(entry.text for entry in entries)]
    GALLERY.write_text("\n".join(parts), encoding="utf-8")
    print(f"{GALLERY.relative_to(ROOT)}: {len(rows)} pipelines")


def _entries(file: str, table: str, recorded_in: Path) -> Iterator[Entry]:
    """The recorded cases of a file, in its order."""
    source = (ROOT / "tests" / file).read_text(encoding="utf-8")
    tree, recorded = ast.parse(source), read_recorded(recorded_in)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    (cases,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == table
    )
    assert isinstance(cases, ast.Dict)
    for key, case in zip(cases.keys, cases.values, strict=True):
        assert isinstance(key, ast.Constant)
        assert isinstance(case, ast.Call)
        name = str(key.value)
        if name in recorded:
            faulty, fixed = (_code(source, functions, argument) for argument in case.args[1:3])
            found = (judge(from_json(recorded[name][variant])) for variant in ("faulty", "fixed"))
            yield Entry(name, faulty, fixed, *found)


def _code(source: str, functions: dict[str, ast.FunctionDef], made_by: ast.expr) -> str:
    """What makes a pipeline: the body of a lambda, or a function and how it is called."""
    if isinstance(made_by, ast.Lambda):
        return ast.get_source_segment(source, made_by.body) or ""
    named = made_by.func if isinstance(made_by, ast.Call) else made_by
    assert isinstance(named, ast.Name)
    function = ast.get_source_segment(source, functions[named.id]) if named.id in functions else None
    call = ast.get_source_segment(source, made_by) or ""
    written = textwrap.dedent(function) if function else ""
    return f"{written}\n\n{call}".strip() if isinstance(made_by, ast.Call) else written or call


def _anchor(title: str) -> str:
    return "".join(one for one in title.lower().replace(" ", "-") if one.isalnum() or one in "-_")


if __name__ == "__main__":
    main()
