"""docs/results.md: what ran is written anew, what did not stays."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

TOOL = Path(__file__).resolve().parents[1] / "tools" / "make_results.py"
MACHINE = {
    "gpus": [], "date": "2026-01-02T03:04", "cpu": "A CPU", "usable_cpus": 2, "memory_gib": 8, "python": "3.12",
    "versions": {},
}  # fmt: skip


def write_results(python: str, results: Path, output: Path, name: str, printed: str, *arguments: str) -> str:
    results.mkdir(exist_ok=True)
    (results / f"{name}.txt").write_text(printed)
    (results / f"{name}.json").write_text(json.dumps({"machine": MACHINE, "arguments": arguments}))
    subprocess.run([python, str(TOOL), "--results", str(results), "--output", str(output)], check=True)
    return output.read_text()


def test_a_program_that_did_not_run_again_keeps_its_section(tmp_path: Path, python: str) -> None:
    output = tmp_path / "results.md"
    write_results(python, tmp_path / "first", output, "bench_step", "a step takes 5 ms")
    write_results(python, tmp_path / "second", output, "bench_mel", "## not a section\na mel takes 2 ms")
    text = write_results(python, tmp_path / "third", output, "bench_step", "a step takes 4 ms")
    assert "5 ms" not in text
    assert text.index("## bench_mel") < text.index("a mel takes 2 ms") < text.index("## bench_step")
    assert text.endswith("a step takes 4 ms\n```\n")
    assert text.count("# Results") == 1
    assert "2026-01-02, A CPU, 2 CPUs, 8 GiB, no GPU" in text


def test_a_section_says_with_what_its_program_was_started(tmp_path: Path, python: str) -> None:
    output, command = tmp_path / "results.md", ("bench_human", "a voice", "run", "my voice")
    text = write_results(python, tmp_path / "first", output, *command)
    assert "`.venv/bin/python benchmarks/bench_human.py run 'my voice'`, 2026-01-02" in text
