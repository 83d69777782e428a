"""What scales, and what it costs: several processes or machines against one, and stores of millions of clips.

    .venv/bin/python benchmarks/bench_scale.py [--parts processes store …] [--quick] [--json scale.json]

- processes: `myxtts train` with one process, and with `--devices 2` on the same CPUs.
- shards: a store computed by one pool of workers, in shards that are merged, and by Ray.
- progressive: how long steps wait for batches before a store takes over, at the change, and after.
- service: runtime batches loaded by the trainer, and by a loader beside it.
- store: stores in parts whose feature files are sparse, so that 20 million clips take no room. A rank opens one,
  plans, and loads batches, in a process of its own; another process deals out two epochs and counts how often each
  clip comes.
- cluster: simulated accelerators, each fed by a process of its own, all on this machine.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from common import describe_machine, parser, write_json
from scaling import cluster, processes, progressive, service, shards, store

IN_FOLDERS = {"processes": processes, "shards": shards, "progressive": progressive, "service": service}
PARTS = (*IN_FOLDERS, "store", "cluster")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    options.add_argument("--quick", action="store_true", help="less of the first four, once")
    options.add_argument("--clips", type=int, nargs="+", default=[1_000_000, 20_000_000], help="store: how many")
    options.add_argument("--accelerators", type=int, default=cluster.ACCELERATORS)
    options.add_argument("--clips-per-second", type=float, default=cluster.CLIPS_PER_SECOND, help="of an accelerator")
    options.add_argument("--seconds", type=float, default=10.0, help="cluster: length of the measurement")
    options.add_argument("--folder", type=Path, help="where to put stores; default: the temporary folder")
    arguments = options.parse_args()
    print(describe_machine())
    results: dict[str, Any] = {"benchmark": "scale"}
    for name, part in IN_FOLDERS.items():
        if name in arguments.parts:
            with tempfile.TemporaryDirectory(prefix="bench-scale-", dir=arguments.folder) as folder:
                results[name] = part.measure(Path(folder), arguments.quick)
    if "store" in arguments.parts:
        results["store"] = store.measure(arguments.clips, arguments.folder)
        store.print_results(results["store"])
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            results["metadata"] = cost = store.metadata_cost(Path(folder) / "data")
        print(f"metadata: {cost['bytes_per_clip']:,.0f} bytes and {cost['us_per_clip']:.0f} µs for each clip")
    if "cluster" in arguments.parts:
        results["cluster"] = cluster.measure(
            arguments.accelerators, arguments.clips_per_second, arguments.seconds, arguments.folder
        )
        cluster.print_results(results["cluster"])
    write_json(arguments.json, results)


if __name__ == "__main__":
    main()
