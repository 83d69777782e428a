"""Runs a module of this package in a new Python process.

Unlike `multiprocessing` it does not import the script that started it, so it works from a script without a main
guard, from a notebook, and from a process that has threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import IO, cast

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from {module} import main; sys.exit(main({arguments}))"
# For many calls on small arrays, the threads of numerical libraries cost more than they gain.
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Arrays of a clip's size come and go: giving back their memory and asking for it again takes a tenth of a mel's time.
_KEPT_MEMORY = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(64 << 20))


def child_command(module: str, *arguments: int) -> list[str]:
    """The command that calls `main(*arguments)` of a module.

    It uses this process's module search path, and never the current folder.
    """
    program = _PROGRAM.format(module=module, arguments=", ".join(map(repr, arguments)))
    return [sys.executable, "-c", program, *sys.path]


def child_environment() -> dict[str, str]:
    """This process's environment, with one thread for numerical libraries, and memory kept for the next clip."""
    return _KEPT_MEMORY | os.environ | dict.fromkeys(_SINGLE_THREADED, "1")


def run_tasks(
    module: str,
    tasks: Sequence[str],
    workers: int,
    on_line: Callable[[int, str], None],
    on_failure: Callable[[int, str, int], str | None],
) -> None:
    """Runs `main()` of a module for each task, every one in its own process, `workers` of them at a time.

    Args:
        module: reads its task from standard input and answers with lines on standard output. Where it fails, its last
            line on standard error is the reason.
        tasks: what each process reads.
        workers: processes at a time.
        on_line: called with the number of a task and a line of its answer, one at a time, by several threads.
        on_failure: called in the same way, with the number of a task whose process failed, the reason and the exit
            code, which is negative if a signal ended the process. It returns what to do instead, in a new process, or
            None; or it raises, which ends all processes.
    """
    lock = threading.Lock()
    running: set[subprocess.Popen[str]] = set()
    stopped = False

    def run(number: int, task: str | None) -> None:
        while task is not None:
            reason, code = answer(number, task)
            with lock:
                task = None if code == 0 or stopped else on_failure(number, reason, code)

    def answer(number: int, task: str) -> tuple[str, int]:
        with lock:
            if stopped:
                return "", 0
            process = subprocess.Popen(
                child_command(module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                env=child_environment(),
            )
            running.add(process)
        with process:
            # A process that fails at once does not read its task; it has printed why.
            with suppress(BrokenPipeError), cast(IO[str], process.stdin) as stdin:
                stdin.write(task)
            for line in cast(IO[str], process.stdout):
                with lock:
                    on_line(number, line)
            reason = cast(IO[str], process.stderr).read().strip()
        with lock:
            running.discard(process)
        code = process.returncode
        return reason.splitlines()[-1] if reason else f"the process ended with {code}", code

    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(run, number, task) for number, task in enumerate(tasks)]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            with lock:
                stopped = True
                for process in running:
                    process.kill()
            raise
