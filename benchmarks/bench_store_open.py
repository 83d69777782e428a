"""Opening a store: how long it takes and what memory it costs, from a thousand clips to a million.

    python benchmarks/bench_store_open.py [--clips 1000 100000 1000000] [--json results.json]

The index and the manifest are real; the data files are sparse, since opening reads none of their bytes. Each row is
a process of its own. "warm" has the index in the page cache, "cold" has had it dropped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import describe_machine, parser, print_table, write_json
from loading.page_cache import drop

from myxtts.data.store.format import INDEX_FILE, MANIFEST_FILE, Manifest
from myxtts.data.store.index import INDEX_COLUMNS, Index, pack_ids

FRAMES = 566  # of an LJSpeech clip on average
TOKENS = 160

OPEN = """
import json, sys, time
from pathlib import Path
from myxtts.data.store import FeatureStore
def anonymous():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))
before = anonymous()
start = time.perf_counter()
store = FeatureStore.open(sys.argv[1], verify=sys.argv[2], memory_map=sys.argv[3] == "mapped")
opened = time.perf_counter()
one = store.ids[len(store) // 2]
found = time.perf_counter()
print(json.dumps({"seconds": opened - start, "id_seconds": found - opened, "anonymous_bytes": anonymous() - before}))
"""


def make_store(folder: Path, clips: int) -> None:
    """A version with an index of so many clips and data files without content."""
    folder.mkdir()
    random = np.random.default_rng(0)
    mel_lengths = random.integers(100, 2 * FRAMES - 100, clips)
    token_lengths = random.integers(20, 2 * TOKENS - 20, clips)
    columns = {name: np.zeros(clips, dtype) for name, dtype in INDEX_COLUMNS.items()}
    for name in ("clip_key", "mel_checksum", "token_checksum", "source_hash", "text_hash"):
        columns[name] = random.integers(0, 2**63, clips, dtype=np.uint64)
    columns["mel_length"], columns["token_length"] = mel_lengths, token_lengths
    columns["mel_offset"] = np.cumsum(mel_lengths) - mel_lengths
    columns["token_offset"] = np.cumsum(token_lengths) - token_lengths
    columns["id_end"], id_bytes = pack_ids([f"clip-{number:07d}" for number in range(clips)])
    with open(folder / INDEX_FILE, "wb") as file:
        checksum = Index(columns, id_bytes).write(file)
    manifest = Manifest(
        fingerprint="0" * 16,
        settings={"mel": {}, "text": {}, "data": {}},
        clips=clips,
        mel_dtype="float16",
        n_mels=80,
        mel_rows=int(mel_lengths.sum()) + 1,
        mel_padding=-11.512925,
        token_count=int(token_lengths.sum()) + 1,
        index_checksum=checksum,
        speakers=("default",),
        languages=("en",),
    )
    (folder / MANIFEST_FILE).write_bytes(manifest.to_bytes())
    for name, size in manifest.data_bytes.items():
        with open(folder / name, "wb") as file:
            file.truncate(size)


def open_store(folder: Path, verify: str, how: str = "mapped", cold: bool = False) -> dict[str, float]:
    """Opens the store in a new process."""
    if cold:
        drop([folder / INDEX_FILE])
    command = [sys.executable, "-c", OPEN, str(folder), verify, how]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main(arguments: argparse.Namespace) -> None:
    print(describe_machine())
    results = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        for clips in arguments.clips:
            folder = Path(temporary) / f"v{clips:07d}"
            make_store(folder, clips)
            for label, verify, cold in (
                ("quick", "quick", False),
                ("quick, cold", "quick", True),
                ("none", "none", False),
            ):
                runs = [open_store(folder, verify, cold=cold) for _ in range(arguments.repeats)]
                best = min(runs, key=lambda run: run["seconds"])
                results.append(
                    {"clips": clips, "verify": label, "index_bytes": (folder / INDEX_FILE).stat().st_size} | best
                )
    rows = [
        [
            f"{result['clips']:,} clips, verify: {result['verify']}",
            f"{result['seconds'] * 1000:.1f}",
            f"{result['index_bytes'] / 1e6:.1f}",
            f"{result['anonymous_bytes'] / 1e6:.1f}",
            f"{result['seconds'] / results[0]['seconds']:.1f}",
        ]
        for result in results
    ]
    print_table("FeatureStore.open", ["", "ms", "index MB", "anonymous MB", "ratio"], rows)
    write_json(arguments.json, {"benchmark": "store_open", "results": results})


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--clips", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--folder", type=Path, help="where to put the stores; default: the temporary folder")
    main(options.parse_args())
