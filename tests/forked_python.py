"""An executable that stands in for `python` and starts programs in milliseconds.

A server process imports the given modules when the first program is started, then forks for every program: a process
like any other, with its own streams, folder, environment, limits, signals and exit code, but without the seconds that
its imports would take. The executable passes signals on, ends as its program ends, and takes the program with it when
it is killed. To its program it is `sys.executable`, so processes that the program starts are forks as well. All are
children of the server.

It takes `-m MODULE`, `-c CODE` and a path, as `python` does.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import marshal
import os
import random
import resource
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# It imports only what is part of the interpreter: `socket`, `signal` and `json` would take most of its time.
_CLIENT = """#!{python} -IS
import _signal, _socket, marshal, os, resource, sys

signals = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGUSR1, _signal.SIGUSR2)
_signal.pthread_sigmask(_signal.SIG_BLOCK, signals)  # until there is a program to pass them on to
streams = [number for number in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{{number}}")]
limits = [resource.getrlimit(number) for number in range({limits})]
request = dict(folder=os.getcwd(), environment=dict(os.environ), streams=streams, limits=limits, arguments=sys.argv)
numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in streams)
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
server.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, {largest})
server.connect({address!r})
server.sendmsg([marshal.dumps(request)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
program = int(server.recv(64) or sys.exit("the server did not start, see {errors}"))
for number in signals:
    _signal.signal(number, lambda number, _: os.kill(program, number))
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, signals)
code = int(server.recv(64))
if code < 0:
    if -code != _signal.SIGKILL:
        _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
_LARGEST_REQUEST = 1 << 20
_MOST_STREAMS = 250
_LIMITS = 16  # of a process on Linux, from RLIMIT_CPU to RLIMIT_RTTIME


@contextlib.contextmanager
def forked_python(folder: Path, *modules: str) -> Iterator[str]:
    """Gives the path of the executable while the server runs.

    Args:
        folder: for the executable.
        modules: what the server imports. None of them may start a thread, which would not survive the fork.
    """
    address = f"\0myxtts-{uuid.uuid4()}"  # of a socket without a file, whose path might be too long
    client = folder / "python"
    errors = folder / "errors.txt"
    text = _CLIENT.format(
        python=sys.executable, address=address, errors=errors, largest=_LARGEST_REQUEST, limits=_LIMITS
    )
    client.write_text(text, encoding="utf-8")
    client.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, errors.open("w") as stderr:
        listener.bind(address)
        listener.listen(256)
        server = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno()), *modules],
            stdin=subprocess.PIPE,  # the server ends when this does, that is, with this process at the latest
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    with server:
        yield str(client)


class _Program:
    """What a forked process is to run."""

    def __init__(self, request: dict[str, Any], streams: list[int]) -> None:
        self.executable, *self.arguments = request["arguments"]
        self.folder: str = request["folder"]
        self.environment: dict[str, str] = request["environment"]
        self.limits: list[tuple[int, int]] = request["limits"]
        self.streams = dict(zip(request["streams"], streams, strict=True))  # by the number that each is to have

    def run(self) -> None:
        """Makes this process what a new one would be, and runs the program in it."""
        # First out of each other's way, then each to its number.
        free = max(self.streams) + 1
        moved = {number: fcntl.fcntl(stream, fcntl.F_DUPFD, free) for number, stream in self.streams.items()}
        for stream in self.streams.values():
            os.close(stream)
        for number, stream in moved.items():
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        for number, limit in enumerate(self.limits):
            if limit != resource.getrlimit(number):
                resource.setrlimit(number, limit)
        sys.executable = self.executable
        signal.signal(signal.SIGINT, signal.default_int_handler)
        random.seed()
        searched = self.environment.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[1:1] = [one for one in searched if one and one not in sys.path]
        option, *rest = self.arguments
        if option == "-m":
            module, *sys.argv[1:] = rest
            sys.path[0] = self.folder
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        elif option == "-c":
            code, *arguments = rest
            sys.argv = ["-c", *arguments]
            sys.path[0] = ""
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = self.arguments
            sys.path[0] = os.path.dirname(os.path.abspath(option))
            runpy.run_path(option, run_name="__main__")


def _serve(listener: socket.socket) -> _Program | None:
    """Forks for every request. Returns None in the server, when it is to end, and the program in a fork."""
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ, "end")
    waiting.register(listener, selectors.EVENT_READ, "request")
    programs: dict[int, socket.socket] = {}  # by process id, who asked for it
    while True:
        for key, _ in waiting.select():
            if key.data == "end":
                for program in programs:
                    os.kill(program, signal.SIGKILL)
                return None
            if key.data == "request":
                client, _ = listener.accept()
                request, streams, _, _ = socket.recv_fds(client, _LARGEST_REQUEST, _MOST_STREAMS)
                if not request:  # killed before it could ask
                    client.close()
                    continue
                program = os.fork()
                if program == 0:
                    for one in (listener, client, *programs.values()):
                        one.close()
                    waiting.close()
                    return _Program(marshal.loads(request), streams)
                for stream in streams:
                    os.close(stream)
                programs[program] = client
                with contextlib.suppress(OSError):
                    client.send(str(program).encode())
                waiting.register(os.pidfd_open(program), selectors.EVENT_READ, program)
                waiting.register(client, selectors.EVENT_READ, (program,))
            elif isinstance(key.data, tuple):  # the executable was killed
                # Its program may have ended at the same moment: handled earlier in this list, it is gone.
                if key.data[0] in programs:
                    waiting.unregister(key.fileobj)
                    os.kill(key.data[0], signal.SIGKILL)
            else:
                program = key.data
                _, status = os.waitpid(program, 0)
                waiting.unregister(key.fd)
                os.close(key.fd)
                client = programs.pop(program)
                with contextlib.suppress(KeyError):
                    waiting.unregister(client)
                with contextlib.suppress(OSError):
                    client.send(str(os.waitstatus_to_exitcode(status)).encode())
                client.close()


def main() -> None:
    descriptor, *modules = sys.argv[1:]
    listener = socket.socket(fileno=int(descriptor))
    if 0 in select.select([0, listener.fileno()], [], [])[0]:
        return  # nobody has asked for anything
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # what is shared with the forks stays shared
    program = _serve(listener)
    if program is not None:
        # Out here, so that a program that fails ends as in any interpreter.
        try:
            program.run()
        except SystemExit as ending:
            if ending.code is not None and not isinstance(ending.code, int):
                raise
            _end(ending.code or 0)
            raise
        _end(0)


def _end(code: int) -> None:
    """Ends the process as the interpreter does, threads joined and exit functions called, but frees no object: that
    would copy nearly every page that is shared with the server. Returns if the streams cannot be written."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
