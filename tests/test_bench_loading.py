"""The benchmark of loading runs from end to end with tiny sizes, and measures what it says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
PNG = b"\x89PNG\r\n\x1a\n"
ROWS = "packed-spdl-float16,packed-loop-float16,ours-float16,limit-float16-one-kept"

# A package whose entry in sys.modules is None cannot be found, like one that is not installed. The processes that
# measure a row are started with the executable that is given.
WITHOUT_SPDL = (
    "import runpy, sys; sys.modules['spdl'] = None; sys.executable = sys.argv.pop(1); "
    "sys.path.insert(0, sys.argv[1]); sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0] + '/bench_loading.py', run_name='__main__')"
)


@pytest.fixture(scope="module")
def outcome(
    tmp_path_factory: pytest.TempPathFactory, python_with_tensorflow: str
) -> tuple[str, dict[str, Any], Path]:
    """What a run prints, its JSON, and its folder."""
    folder = tmp_path_factory.mktemp("bench")
    command = [python_with_tensorflow, "-c", WITHOUT_SPDL, python_with_tensorflow, str(BENCHMARKS)]
    command += ["--rows", ROWS, "--folder", str(folder)]
    command += ["--clips", "80", "--runtime-clips", "4", "--repetitions", "1", "--probe-seconds", "0"]
    command += ["--seconds", "0.1", "--warmup", "0.1", "--json", str(folder / "loading.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "loading.json").read_text()), folder


def test_every_row_has_its_figures(outcome: tuple[str, dict[str, Any], Path]) -> None:
    _, document, _ = outcome
    for name in ("packed-loop-float16", "ours-float16", "limit-float16-one-kept"):
        result = document["rows"][name]
        assert result["clips_per_second"] > 0
        assert 0 <= result["padding_share"] < 1
        for figure in ("ms_per_batch", "peak_anonymous_bytes", "cpu_seconds_per_1000_clips", "variation"):
            assert result[figure] >= 0, figure


def test_a_peer_that_is_not_installed_is_listed_as_such(outcome: tuple[str, dict[str, Any], Path]) -> None:
    printed, document, _ = outcome
    assert document["rows"]["packed-spdl-float16"]["not installed"] == ["spdl"]
    (line,) = [line for line in printed.splitlines() if "SPDL" in line]
    assert "not installed: spdl" in line


def test_the_bounds_are_listed_with_their_figures(outcome: tuple[str, dict[str, Any], Path]) -> None:
    printed, document, _ = outcome
    assert "Must show" in printed
    loop = [bound for bound in document["bounds"] if "loop that blocks" in bound["what"]]
    assert [bound["bound"] for bound in loop] == ["at least 0.95 ×"]


def test_a_simulated_accelerator_is_fed_from_the_store(outcome: tuple[str, dict[str, Any], Path]) -> None:
    _, document, _ = outcome
    assert {run["step_seconds"] for run in document["checks"].values()} == {0.002, 0.05}
    assert all(run["simulated"] for run in document["checks"].values())


def test_cold_rows_begin_without_a_page_in_the_cache(outcome: tuple[str, dict[str, Any], Path]) -> None:
    _, document, folder = outcome
    if _is_in_memory(folder):
        pytest.skip("the temporary folder is in memory; nothing of it can be dropped from the page cache")
    assert document["cold"]["ours-float16"]["resident_share_before"] == 0.0


def test_the_chart_is_written_beside_the_json(outcome: tuple[str, dict[str, Any], Path]) -> None:
    _, _, folder = outcome
    assert (folder / "loading.png").read_bytes().startswith(PNG)


def test_peers_get_only_full_batches_of_clips_of_similar_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from loading.data import CLIP_EPOCHS, make_data

    data = make_data(tmp_path / "data", clips=100, runtime_clips=0, batch_size=8, runtime_batch_size=4)
    batches = data.clip_batches
    assert batches.shape[1] == 8
    counts = np.bincount(batches.ravel(), minlength=100)
    assert counts.max() <= CLIP_EPOCHS
    assert counts.sum() > (CLIP_EPOCHS * 100) - 8
    assert data.peers_padding < data.plan(num_buckets=1).padding_share


def _is_in_memory(folder: Path) -> bool:
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [(len(point), kind) for point, kind in mounts if str(folder).startswith(point.rstrip("/") + "/")]
    return max(holding)[1] in ("tmpfs", "ramfs")
