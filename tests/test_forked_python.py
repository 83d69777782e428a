"""The executable that starts the tests' programs behaves as `python` does, where tests can tell."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

WAITS = "import time; print('waiting', flush=True); time.sleep(3600)"


def test_streams_arguments_folder_environment_and_exit_code_are_the_callers(python: str, tmp_path: Path) -> None:
    program = (
        "import os, sys; print(sys.stdin.read(), sys.argv, os.getcwd(), os.environ['MY_SETTING']); "
        "sys.stderr.write('to the side'); sys.exit(7)"
    )
    done = subprocess.run(
        [python, "-c", program, "one", "two"],
        input="from here",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"MY_SETTING": "mine"},
    )
    assert done.stdout == f"from here ['-c', 'one', 'two'] {tmp_path} mine\n"
    assert (done.stderr, done.returncode) == ("to the side", 7)


def test_an_exception_ends_in_a_traceback_and_1(python: str) -> None:
    done = subprocess.run([python, "-c", "1 / 0"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_a_script_has_its_folder_on_the_path_and_is_main(python: str, tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("VALUE = 5")
    (tmp_path / "script.py").write_text("import neighbour, sys; print(__name__, neighbour.VALUE, sys.argv[1:])")
    done = subprocess.run([python, str(tmp_path / "script.py"), "x"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("__main__ 5 ['x']\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_program_and_is_how_it_ended(python: str, number: signal.Signals) -> None:
    with subprocess.Popen(
        [python, "-c", WAITS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        process.communicate()  # until the program, which holds the streams, has ended too
    assert process.returncode == -number


def test_a_program_that_kills_itself_is_seen_to(python: str) -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    assert subprocess.run([python, "-c", program]).returncode == -signal.SIGSEGV


def test_other_open_files_are_passed_on_under_their_numbers(python: str) -> None:
    reading, writing = os.pipe()
    with open(reading) as pipe:
        subprocess.run([python, "-c", f"import os; os.write({writing}, b'passed on')"], pass_fds=[writing])
        os.close(writing)
        assert pipe.read() == "passed on"


def test_what_a_program_does_at_exit_is_done(python: str) -> None:
    program = (
        "import atexit, threading, time; atexit.register(print, 'at exit'); "
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()"
    )
    assert subprocess.run([python, "-c", program], capture_output=True, text=True).stdout == "thread\nat exit\n"


def test_the_callers_limits_are_the_programs(python: str) -> None:
    done = subprocess.run(
        [python, "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE))"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 6000)),
    )
    assert done.stdout == "(5000, 6000)\n"


def test_programs_start_others_with_the_same_executable(python: str) -> None:
    done = subprocess.run([python, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    assert done.stdout == f"{python}\n"


def test_what_cannot_be_printed_at_the_end_is_told(python: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([python, "-c", "print('lost')"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 120
    assert "No space left" in done.stderr
