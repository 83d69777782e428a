"""`myxtts precompute` and `myxtts verify-cache` as a person or a script runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from small_corpus import configure, make_corpus

from myxtts.data.precompute import precompute
from myxtts.data.store import FeatureStore
from myxtts.text.espeak import available

# The program, which gives out no more than 30 mels, so that there is always something left to interrupt.
STOP_HALFWAY = """
import itertools, time
from myxtts.cli.app import main
from myxtts.data.store.workers import WorkerPool
submit, mels = WorkerPool.submit, itertools.count(1)
def submit_some(pool, task):
    while task.column == "mel" and next(mels) > 30:
        time.sleep(0.01)
    submit(pool, task)
WorkerPool.submit = submit_some
main()
"""


@pytest.fixture
def corpus(tmp_path):
    return make_corpus(tmp_path / "data")


@pytest.fixture
def run(run_myxtts):
    def run(command, corpus, *arguments):
        graphemes = ("--set", "text_symbols=graphemes", "--num-workers", "1")
        return run_myxtts(command, "--data-path", corpus, *graphemes, *arguments)

    return run


def test_precompute_makes_the_store_and_tells_what_it_did(run, corpus):
    done = run("precompute", corpus)
    assert done.returncode == 0, done.stderr
    assert "8 computed, 0 reused" in done.stdout
    assert "× real time" in done.stdout
    assert len(FeatureStore.open(corpus / "cached_features")) == 8


def test_json_is_alone_on_standard_output(run, corpus):
    done = run("precompute", corpus, "--json")
    result = json.loads(done.stdout)
    assert (result["clips"], result["mels_computed"], result["published"]) == (8, 8, True)
    assert FeatureStore.open(result["store"]).ids[0] == "clip-0"


@pytest.mark.skipif(not available(), reason="espeak-ng is not installed (the speech extra)")
def test_a_language_that_espeak_does_not_know_is_one_line(run, corpus):
    unknown = ("--set", "text_symbols=phonemes", "--set", "extra_languages=[xx]")
    done = run("precompute", corpus, *unknown)
    assert done.returncode == 1
    assert "error: espeak-ng has no language 'xx'" in done.stderr
    assert "Traceback" not in done.stderr


def test_quiet_says_nothing_else(run, corpus):
    assert run("precompute", corpus, "--quiet").stderr == ""


def test_a_failed_clip_is_named_and_ends_in_1_but_not_in_auto(run, corpus):
    (corpus / "wavs" / "clip-5.wav").write_bytes(b"not audio")
    strict = run("precompute", corpus)
    assert strict.returncode == 1
    assert "clip-5: " in strict.stdout
    assert "Traceback" not in strict.stderr
    assert run("precompute", corpus, "--preprocessing-mode", "auto").returncode == 0


def test_a_bad_line_of_the_metadata_is_named_too(run, corpus):
    with open(corpus / "metadata.csv", "a") as file:
        file.write("clip-77|no audio for this\n")
    done = run("precompute", corpus)
    assert done.returncode == 1
    assert "metadata.csv:9" in done.stdout


def test_runtime_is_wrong_usage(run, corpus):
    done = run("precompute", corpus, "--preprocessing-mode", "runtime")
    assert (done.returncode, (corpus / "cached_features").exists()) == (2, False)


def test_overwrite_and_cache_dir_and_verify_source(run, corpus, tmp_path):
    place = ("--cache-dir", tmp_path / "there", "--json")
    assert json.loads(run("precompute", corpus, *place).stdout)["mels_computed"] == 8
    os.utime(corpus / "wavs" / "clip-1.wav")
    assert json.loads(run("precompute", corpus, *place, "--verify-source").stdout)["mels_computed"] == 0
    assert json.loads(run("precompute", corpus, *place, "--overwrite").stdout)["mels_computed"] == 8
    assert not (corpus / "cached_features").exists()


@pytest.mark.long
def test_ctrl_c_ends_in_one_line_and_the_next_run_continues(corpus):
    make_corpus(corpus, clips=40, first=8)
    arguments = ["--data-path", str(corpus), "--set", "text_symbols=graphemes", "--num-workers", "1"]
    command = [sys.executable, "-c", STOP_HALFWAY, "precompute", *arguments]
    build = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not any(path.stat().st_size for path in corpus.rglob("mel.journal")):
        assert build.poll() is None, build.communicate()
        time.sleep(0.01)
    os.killpg(build.pid, signal.SIGINT)
    _, err = build.communicate()
    assert build.returncode == 130
    assert err.splitlines() == ["layout ljspeech (metadata.csv)", "error: interrupted"]
    assert precompute(configure(corpus)).columns["mel"].computed < 48


def test_verify_cache_finds_lists_and_repairs_damage(run, corpus):
    version = precompute(configure(corpus)).version
    sound = run("verify-cache", corpus)
    assert (sound.returncode, "no damage" in sound.stdout) == (0, True)
    data = bytearray((version / "mel.bin").read_bytes())
    data[0] ^= 1
    (version / "mel.bin").write_bytes(data)
    assert run("verify-cache", corpus, "--quick").returncode == 0
    damaged = run("verify-cache", corpus)
    assert (damaged.returncode, "clip-0" in damaged.stdout) == (1, True)
    report = json.loads(run("verify-cache", corpus, "--fix", "--json").stdout)
    assert [entry["clip"] for entry in report["damaged"]] == ["clip-0"]
    assert report["repaired"]["mels_computed"] == 1
    assert run("verify-cache", corpus).returncode == 0


def test_verify_cache_without_a_store_is_one_line(run, corpus):
    done = run("verify-cache", corpus)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "myxtts precompute" in done.stderr


def test_neither_command_imports_tensorflow(corpus, python):
    code = (
        "import sys; from myxtts.cli.app import _run\n"
        "common = ['--data-path', sys.argv[1], '--set', 'text_symbols=graphemes', '--num-workers', '1', '-q']\n"
        "codes = [_run([command, *common]) for command in ('precompute', 'verify-cache')]\n"
        "print(codes, 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([python, "-c", code, str(corpus)], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[0, 0] False", done.stderr
