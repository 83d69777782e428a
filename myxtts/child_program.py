"""Runs a module of this package in a new Python process.

Unlike `multiprocessing` it does not import the script that started it, so it works from a script without a main
guard, from a notebook, and from a process that has threads.
"""

from __future__ import annotations

import os
import sys

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from {module} import main; sys.exit(main({arguments}))"
# For many calls on small arrays, the threads of numerical libraries cost more than they gain.
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def child_command(module: str, *arguments: int) -> list[str]:
    """The command that calls `main(*arguments)` of a module.

    It uses this process's module search path, and never the current folder.
    """
    program = _PROGRAM.format(module=module, arguments=", ".join(map(repr, arguments)))
    return [sys.executable, "-c", program, *sys.path]


def child_environment() -> dict[str, str]:
    """This process's environment, with one thread for numerical libraries."""
    return os.environ | dict.fromkeys(_SINGLE_THREADED, "1")
