"""The tutorial notebook: its code is valid and uses what exists; `make soak` runs it."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT, CommandLine
from test_docs import names_in, what_is_wrong

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
# In place of the cell with the tag `parameters`: what makes the notebook end soon.
SMALL = """
FOLDER = "tutorial"
CLIPS, STEPS = 24, 3
SETTINGS = {"num_buckets": 1, "optimization_level": "basic", "max_mel_frames": 400}
"""


def notebook() -> dict[str, Any]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def code_cells() -> list[str]:
    return ["".join(cell["source"]) for cell in notebook()["cells"] if cell["cell_type"] == "code"]


def python_of(cell: str) -> str:
    """A cell without the lines that are commands of a shell."""
    return "\n".join(line for line in cell.splitlines() if not line.startswith("!"))


def test_it_is_saved_without_outputs() -> None:
    cells = [cell for cell in notebook()["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)


def test_what_it_imports_exists() -> None:
    imports = [node for cell in code_cells() for node in ast.walk(ast.parse(python_of(cell)))]
    ours = [node for node in imports if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("myxtts")]
    assert len(ours) > 3
    for node in ours:
        assert {alias.name for alias in node.names} <= names_in(str(node.module))


def test_its_commands_are_ones_the_program_takes() -> None:
    lines = [line for cell in code_cells() for line in cell.splitlines() if line.startswith("!myxtts ")]
    filled = [line.format(FOLDER="tutorial", CLIPS=3).split()[1:] for line in lines]
    assert [words[0] for words in filled] == ["make-corpus", "check-data"]
    for words in filled:
        assert what_is_wrong(CommandLine(1, words, True)) is None


def test_its_links_lead_somewhere() -> None:
    prose = ["".join(cell["source"]) for cell in notebook()["cells"] if cell["cell_type"] == "markdown"]
    links = re.findall(r"\]\(([^)#]+)", "\n".join(prose))
    assert len(links) > 5
    assert [link for link in links if not (NOTEBOOK.parent / link).is_file()] == []


@pytest.mark.soak
def test_it_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    read = nbformat.read(NOTEBOOK, as_version=4)
    (parameters,) = [cell for cell in read.cells if "parameters" in cell.metadata.get("tags", ())]
    assert set(re.findall(r"^(\w+)(?:, (\w+))? =", parameters.source, re.M)) == set(
        re.findall(r"^(\w+)(?:, (\w+))? =", SMALL, re.M)
    )
    parameters.source = SMALL
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    nbclient.NotebookClient(read, timeout=1800, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in read.cells if cell.cell_type == "code" for output in cell.outputs]
    heard = [output for output in outputs if "text/html" in output.get("data", {})]
    assert len(heard) == 3
    assert "not input-bound" in str(outputs) or "input-bound" in str(outputs)
    assert (tmp_path / "tutorial" / "run" / "log.jsonl").is_file()
