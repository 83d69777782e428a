"""What keeping freed memory in the process brings (`myxtts/data/store/allocation.py`): page faults and clips/s.

    .venv/bin/python benchmarks/bench_allocation.py [--clips 3000] [--json allocation.json]

Batches from the store, batch 32, bucketed, in fresh processes, with and without it in turn. The limit beside them
allocates and copies the same bytes in one thread. NumPy asks the kernel for huge pages when it allocates 4 MiB or
more, so its float32 batches fault less often than TensorFlow's.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import describe_machine, parser, print_table, write_json
from loading.data import make_data
from loading.page_cache import files_below, warm
from loading.process import Request, measure
from loading.report import summarise

FORMS: dict[str, dict[str, dict[str, Any]]] = {
    "ours-float32": {"fresh": {"keep_memory": False}, "kept": {}},
    "ours-float16": {"fresh": {"keep_memory": False}, "kept": {}},
    "limit-float32-one-kept": {"fresh": {"memory": "fresh"}, "kept": {}},
    "limit-float16-one-kept": {"fresh": {"memory": "fresh"}, "kept": {}},
}
TITLES = {
    "ours-float32": "ours, float32",
    "ours-float16": "ours, float16",
    "limit-float32-one-kept": "limit, one thread, float32",
    "limit-float16-one-kept": "limit, one thread, float16",
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--clips", type=int, default=3000)
    options.add_argument("--seconds", type=float, default=1.5, help="length of one measurement")
    options.add_argument("--repetitions", type=int, default=3)
    chosen = options.parse_args()
    measured: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="bench-allocation-") as folder:
        make_data(Path(folder), chosen.clips, runtime_clips=0, batch_size=32, runtime_batch_size=16)
        warm(files_below(Path(folder)))
        request = Request("", folder, seconds=chosen.seconds)
        for _ in range(chosen.repetitions):
            for row, forms in FORMS.items():
                for memory, arguments in forms.items():
                    measured[row, memory].append(measure(replace(request, row=row, arguments=arguments)))

    results = {name: summarise(repetitions) for name, repetitions in measured.items()}
    print(describe_machine())
    lines = []
    for (row, memory), result in results.items():
        ratio = result["clips_per_second"] / results[row, "fresh"]["clips_per_second"]
        lines.append(
            (
                f"{TITLES[row]}, {memory} memory",
                f"{result['page_faults_per_batch']:,.0f}",
                f"{result['clips_per_second']:,.0f}",
                f"{ratio:.2f}",
                f"{result['cpu_seconds_per_1000_clips']:.4f}",
                f"{result['system_seconds_per_1000_clips']:.4f}",
                f"{result['peak_anonymous_bytes'] / 1e6:,.0f}",
            )
        )
    columns = ("", "faults/batch", "clips/s", "ratio", "CPU s/1,000", "of it in the kernel", "peak MB")
    print_table("\nMemory of used-up batches", columns, lines)
    named = {f"{row}, {memory}": result for (row, memory), result in results.items()}
    write_json(chosen.json, {"benchmark": "allocation", "clips": chosen.clips, "rows": named})


if __name__ == "__main__":
    main()
