"""How long a corpus takes to speak, and how long and how much memory it takes to check.

    .venv/bin/python benchmarks/bench_data_set.py [--clips 13100] [--text-file FILE] [--json data-set.json]

`make-corpus` runs with one worker and with one per usable CPU, the first on a tenth of the clips. `check-data` runs
on the whole corpus in a process of its own, with the audio files in the page cache and dropped from it; its headers
are also read by a loop over `soundfile.info`, and texts left out, to show where the time goes. Memory is the peak of
resident memory. The bounds: 13,100 clips checked in under 10 s and 300 MB on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import describe_machine, parser, print_table, write_json
from loading.page_cache import drop, files_below

from myxtts.corpus.make import make_corpus
from myxtts.corpus.plan import CorpusSettings
from myxtts.hardware import usable_cpus

# Each runs in a fresh process and prints what it used; the first is the program itself.
MEASURE = """
import json, resource, sys, time
started = time.perf_counter()
{work}
used = resource.getrusage(resource.RUSAGE_SELF)
result = dict(seconds=time.perf_counter() - started, cpu=used.ru_utime + used.ru_stime, mb=used.ru_maxrss / 1024)
print(json.dumps(result), file=sys.stderr)
"""
CHECK = """
from myxtts.cli.app import _run
code = _run(["check-data", sys.argv[1], "--json", "--quiet"])
assert code == 0, code
"""
HEADERS = """
from myxtts.config.config import DataConfig
from myxtts.data.clips.audio_headers import probe_audio
from myxtts.data.clips.metadata import read_metadata
probe_audio(read_metadata(DataConfig(dataset_path=sys.argv[1])).clips)
"""
SOUNDFILE_LOOP = """
import soundfile
from pathlib import Path
for path in sorted(Path(sys.argv[1], "wavs").iterdir()):
    soundfile.info(path).duration
"""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--clips", type=int, default=13100, help="clips to speak and check")
    options.add_argument("--text-file", type=Path, help="sentences to speak in place of the built-in ones")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        speaking = [
            speak(Path(folder, "one"), max(arguments.clips // 10, 1), arguments.text_file, workers=1),
            speak(Path(folder, "all"), arguments.clips, arguments.text_file, workers=usable_cpus()),
        ]
        checking = check(Path(folder, "all"))
    print(describe_machine())
    base = speaking[0]["clips_per_second"]
    print_table(
        "make-corpus",
        ("workers", "clips", "seconds", "clips/s", "ratio", "× real time"),
        [
            (
                str(row["workers"]),
                f"{row['clips']:,}",
                f"{row['seconds']:.1f}",
                f"{row['clips_per_second']:.0f}",
                f"{row['clips_per_second'] / base:.2f}",
                f"{row['real_time']:.0f}",
            )
            for row in speaking
        ],
    )
    base = checking[0]["seconds"]
    print_table(
        f"check-data, {arguments.clips:,} clips",
        ("what", "seconds", "ratio", "CPU s", "peak MB"),
        [
            (
                row["what"],
                f"{row['seconds']:.2f}",
                f"{base / row['seconds']:.2f}",
                f"{row['cpu']:.2f}",
                f"{row['mb']:.0f}",
            )
            for row in checking
        ],
    )
    write_json(arguments.json, {"make_corpus": speaking, "check_data": checking})


def speak(folder: Path, clips: int, text_file: Path | None, workers: int) -> dict[str, Any]:
    started = time.perf_counter()
    corpus = make_corpus(folder, CorpusSettings(clips=clips, text_file=text_file), workers)
    seconds = time.perf_counter() - started
    return {
        "workers": workers,
        "clips": clips,
        "seconds": seconds,
        "clips_per_second": clips / seconds,
        "real_time": corpus.seconds / seconds,
    }


def check(folder: Path) -> list[dict[str, Any]]:
    rows = [
        ("soundfile.info in a loop, headers only", SOUNDFILE_LOOP, False),
        ("check-data, headers only", HEADERS, False),
        ("check-data", CHECK, False),
        ("check-data, audio not in the page cache", CHECK, True),
    ]
    results = []
    for what, work, cold in rows:
        if cold:
            os.sync()  # once for all, which makes what is waited for per file nothing
            drop(files_below(folder / "wavs"))
        command = [sys.executable, "-c", MEASURE.format(work=work), str(folder)]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        results.append({"what": what, **json.loads(output.splitlines()[-1])})
    return results


if __name__ == "__main__":
    main()
