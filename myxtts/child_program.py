"""Runs a module of this package in an interpreter of its own.

Unlike `multiprocessing` this imports nothing of the script that started it, so it works from a script without a main
guard, from a notebook, and from a process that has threads.
"""

from __future__ import annotations

import os
import sys

_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from {module} import main; sys.exit(main({arguments}))"
# What is called thousands of times on small arrays only loses by numerical libraries' own threads.
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def child_command(module: str, *arguments: int) -> list[str]:
    """The command that calls `main(*arguments)` of a module.

    It has this process's module search path, and nothing of the folder it happens to be run in.
    """
    program = _PROGRAM.format(module=module, arguments=", ".join(map(repr, arguments)))
    return [sys.executable, "-c", program, *sys.path]


def child_environment() -> dict[str, str]:
    """This process's environment, with numerical libraries kept to one thread."""
    return os.environ | dict.fromkeys(_SINGLE_THREADED, "1")
