"""How much memory a process has for itself."""

from __future__ import annotations

from pathlib import Path

import psutil


def anonymous_bytes(process: psutil.Process) -> int:
    """RssAnon of one process, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
