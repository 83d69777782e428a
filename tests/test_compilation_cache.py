"""Where compiled programs are kept, and which of them go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts import hardware
from myxtts.training import compilation_cache
from myxtts.training.compilation_cache import FLAGS, OPTION, delete_oldest, use_compilation_cache

PROGRAM = """
import tensorflow as tf

@tf.function(jit_compile=True)
def double(x):
    return tf.reduce_sum(tf.sin(x) * 2)

print(double(tf.range(8.0)).numpy().hex())
"""


@pytest.fixture(autouse=True)
def no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS, "")  # which undoes what the tests set


def test_tensorflow_is_told_where_to_keep_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS, "--tf_xla_clustering_debug")
    folder = use_compilation_cache(tmp_path)
    assert folder is not None
    assert folder.parent == tmp_path
    assert os.environ[FLAGS] == f"--tf_xla_clustering_debug {OPTION}={folder}"


def test_a_folder_that_the_user_has_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS, f"{OPTION}=/somewhere")
    assert use_compilation_cache(tmp_path) is None
    assert os.environ[FLAGS] == f"{OPTION}=/somewhere"


@pytest.mark.parametrize("changed", ["processor", "threads", "options"])
def test_what_a_program_depends_on_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    first = use_compilation_cache(tmp_path)
    monkeypatch.setenv(FLAGS, "")
    assert use_compilation_cache(tmp_path) == first
    monkeypatch.setenv(FLAGS, "")
    if changed == "processor":
        monkeypatch.setattr(hardware, "cpu_features", lambda: "another")
    elif changed == "threads":
        monkeypatch.setattr(hardware, "usable_cpus", lambda: 97)
    else:
        monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert use_compilation_cache(tmp_path) != first


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    assert use_compilation_cache(tmp_path / "file") is None
    monkeypatch.setattr(compilation_cache, "LEAST_FREE_BYTES", 1 << 62)
    assert use_compilation_cache(tmp_path) is None
    assert os.environ[FLAGS] == ""


def test_the_oldest_programs_are_deleted_where_there_are_too_many(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    for age, name in enumerate("abcd"):
        path = tmp_path / "machine" / f"{name}.pb"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    delete_oldest(tmp_path, 250)
    assert sorted(path.stem for path in tmp_path.glob("*/*.pb")) == ["a", "b"]


def test_files_that_break_off_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = b"\x08\x96\x01" + b"\x12\x05hello" + b"\x1d" + bytes(4) + b"\x21" + bytes(8)
    folder = use_compilation_cache(tmp_path)
    assert folder is not None
    for length in range(len(whole) + 1):
        (folder / f"{length}.pb").write_bytes(whole[:length])
    monkeypatch.setenv(FLAGS, "")
    use_compilation_cache(tmp_path)
    # Fields end after these bytes.
    assert {int(path.stem) for path in folder.iterdir()} == {3, 10, 15, len(whole)}


def test_the_processor_is_described_by_its_instructions(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name : X\nflags : avx\nprocessor : 1\nflags : avx\n")
    assert hardware.cpu_features(tmp_path / "cpuinfo") == "flags : avx\nmodel name : X"
    assert hardware.cpu_features(tmp_path / "nothing")


@pytest.mark.soak
def test_a_second_process_reads_what_the_first_has_compiled(tmp_path: Path) -> None:
    folder = use_compilation_cache(tmp_path)
    assert folder is not None

    def run() -> str:
        return subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout

    first = run()
    (program,) = folder.iterdir()
    written = program.stat().st_mtime_ns
    assert run() == first
    assert [path.stat().st_mtime_ns for path in folder.iterdir()] == [written]
