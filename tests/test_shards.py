"""Shards of a store: computed by several processes, killed, merged; always the bytes of one machine's store."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from small_corpus import RATE, configure, content, make_corpus, write_audio

from myxtts.data.precompute import Shard, ShardResult, precompute, precompute_shard
from myxtts.data.store.folder import StoreFolder
from myxtts.data.store.records import RECORD
from myxtts.errors import StoreError, UsageError

# A shard that waits before it gives out the n-th mel, until a file exists, and prints its result.
BUILD = """
import itertools, os, sys, time
from myxtts.data.store.workers import WorkerPool
from myxtts.data.precompute import Shard, precompute_shard
from myxtts.config.config import DataConfig
submit, given_out = WorkerPool.submit, itertools.count(1)
def wait_and_submit(pool, task):
    if task.column == "mel" and next(given_out) == int(sys.argv[4]):
        while not os.path.exists(sys.argv[5]):
            time.sleep(0.01)
    submit(pool, task)
WorkerPool.submit = wait_and_submit
settings = dict(text_symbols="graphemes", num_workers=1, cache_dir=sys.argv[2])
done = precompute_shard(DataConfig(dataset_path=sys.argv[1], **settings), Shard.parse(sys.argv[3]))
print(done.clips, len(done.failed))
"""
# Clips between being given to the one worker and being in the journal, at most.
IN_FLIGHT = 8


@pytest.fixture
def corpus(tmp_path):
    return make_corpus(tmp_path / "data", clips=10)


@pytest.fixture
def start_shard(python):
    def start(folder, cache, shard, wait_at=0, until=""):
        command = [python, "-c", BUILD, folder, cache, shard, wait_at, until]
        return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def build_shards(config, count) -> list[ShardResult]:
    return [precompute_shard(config, Shard(number, count)) for number in range(1, count + 1)]


def one_machine(corpus, tmp_path) -> dict[str, bytes]:
    """The files of a store that one process has made in another place."""
    return content(precompute(configure(corpus, cache_dir=str(tmp_path / "one"))).version)


def test_every_clip_is_in_exactly_one_shard():
    rows = np.arange(10)
    for count in (1, 3, 10, 12):
        blocks = [Shard(number, count).block(rows) for number in range(1, count + 1)]
        assert np.concatenate(blocks).tolist() == rows.tolist()
        assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


@pytest.mark.parametrize(
    ("text", "says"), [("0/3", "1/3 to 3/3"), ("4/3", "1/3 to 3/3"), ("2", "2/8"), ("a/b", "2/8")]
)
def test_a_shard_that_does_not_exist_is_one_line(text, says):
    with pytest.raises(UsageError, match=says) as caught:
        Shard.parse(text)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.long
def test_shards_and_a_merge_give_the_bytes_of_one_machine(corpus, tmp_path):
    (corpus / "wavs" / "clip-4.wav").write_bytes(b"not audio at all")
    config = configure(corpus, cache_dir=str(tmp_path / "many"))
    results = build_shards(config, 3)
    assert [result.clips for result in results] == [3, 3, 4]
    assert [[entry.id for entry in result.failed] for result in results] == [[], ["clip-4"], []]
    merged = precompute(config)
    assert (merged.clips, merged.columns["mel"].computed, merged.columns["token"].computed) == (9, 0, 0)
    assert content(merged.version) == one_machine(corpus, tmp_path)
    assert sorted(os.listdir(merged.version.parent)) == ["CURRENT", "lock", "v000001"]
    # Whoever comes late has nothing to do, and leaves nothing.
    assert precompute_shard(config, Shard(1, 3)).folder is None
    assert sorted(os.listdir(merged.version.parent)) == ["CURRENT", "lock", "v000001"]


@pytest.mark.long
def test_a_merge_computes_what_shards_lack_and_what_is_damaged_in_them(corpus, tmp_path):
    config = configure(corpus, cache_dir=str(tmp_path / "many"))
    result = precompute_shard(config, Shard(1, 2))
    assert result.folder is not None
    path = result.folder / "mel.bin"
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    merged = precompute(config)
    assert (merged.columns["mel"].computed, merged.columns["token"].computed) == (6, 5)
    assert content(merged.version) == one_machine(corpus, tmp_path)


@pytest.mark.long
def test_shards_share_out_only_what_the_store_does_not_have(corpus, tmp_path):
    config = configure(corpus, cache_dir=str(tmp_path / "many"))
    precompute(config)
    make_corpus(corpus, clips=4, first=10)
    assert [result.columns for result in build_shards(config, 2)] == [{"token": 2, "mel": 2}] * 2
    merged = precompute(config)
    assert merged.columns["mel"].computed == 0
    assert content(merged.version) == one_machine(corpus, tmp_path)


@pytest.mark.long
def test_overwriting_does_not_take_what_shards_have(corpus, tmp_path):
    config = configure(corpus, cache_dir=str(tmp_path / "many"))
    build_shards(config, 2)
    merged = precompute(config, overwrite=["mel"])
    assert (merged.columns["mel"].computed, merged.columns["token"].computed) == (10, 0)


@pytest.mark.long
def test_killed_shards_are_continued_and_a_merge_waits_for_running_ones(start_shard, tmp_path):
    """Three shards at a time; two are killed, one of those is continued, the merge computes the rest of the other."""
    corpus = tmp_path / "data"
    (corpus / "wavs").mkdir(parents=True)
    write_audio(corpus / "source.wav", RATE, 1)
    lines = [f"clip-{number}|some words for clip number {number}" for number in range(60)]
    for number in range(60):
        os.link(corpus / "source.wav", corpus / "wavs" / f"clip-{number}.wav")
    (corpus / "metadata.csv").write_text("\n".join(lines) + "\n")
    cache = tmp_path / "many"
    config = configure(corpus, cache_dir=str(cache))

    never, later = tmp_path / "never", tmp_path / "later"
    shards = [
        start_shard(corpus, cache, f"{number}/3", 12, until) for number, until in ((1, never), (2, never), (3, later))
    ]
    journaled = {}
    for number, shard in enumerate(shards, 1):
        journaled[number] = wait_for_journal(shard, cache, number)
    for killed in shards[:2]:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    with pytest.raises(StoreError, match=r"shard \d-of-3, process"):
        precompute(config, wait=False)

    again = start_shard(corpus, cache, "1/3")
    out, err = again.communicate()
    assert out.split() == ["20", "0"], err
    later.touch()
    merged = precompute(config)
    assert shards[2].communicate()[0].split() == ["20", "0"]
    assert merged.columns["mel"].computed <= 20 - journaled[2]
    assert content(merged.version) == one_machine(corpus, tmp_path)


def wait_for_journal(build, cache, number, clips=12 - IN_FLIGHT) -> int:
    """Returns how many mels are in a shard's journal, as soon as so many are."""
    while True:
        assert build.poll() is None, build.communicate()
        for journal in cache.glob(f"*/shards/{number}-of-3/mel.journal"):
            done = journal.stat().st_size // RECORD.itemsize
            if done >= clips:
                return done
        time.sleep(0.01)


@pytest.mark.long
def test_the_same_shard_is_built_by_one_process_at_a_time(corpus, tmp_path):
    config = configure(corpus, cache_dir=str(tmp_path / "many"))
    result = precompute_shard(config, Shard(1, 2))
    assert result.folder is not None
    store = StoreFolder(result.folder.parents[1])
    with store.lock_shard(result.folder), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        precompute_shard(config, Shard(1, 2), wait=False)
    with store.lock(), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        precompute_shard(config, Shard(2, 2), wait=False)


# The command


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--shard", "1/2", "--overwrite"), "compute what is missing"),
        (("--shard", "1/2", "--ray"), "leave out --shard"),
        (("10.0.0.1:6379",), "only for --ray"),
        (("--shard", "3/2"), "1/2 to 2/2"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(run_myxtts, corpus, arguments, says):
    done = run_myxtts("precompute", "--data-path", corpus, *arguments)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert says in done.stderr


def test_without_ray_one_line_says_what_to_install(corpus, tmp_path, python):
    (tmp_path / "hidden" / "ray").mkdir(parents=True)
    (tmp_path / "hidden" / "ray" / "__init__.py").write_text("raise ModuleNotFoundError('ray', name='ray')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'hidden')!r}); from myxtts.cli.app import main; main()"
    command = [python, "-c", code, "precompute", "--data-path", str(corpus), "--ray"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'myxtts[ray]'" in done.stderr.splitlines()[-1]


# Ray


needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


@needs_ray
def test_a_ray_cluster_that_is_not_there_is_one_line(run_myxtts, corpus):
    done = run_myxtts("precompute", "--data-path", corpus, "--ray", "127.0.0.1:1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: --ray 127.0.0.1:1: no Ray cluster there")


RAY = """
import json, os, signal, sys, threading, time
from pathlib import Path
from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.precompute import precompute
from myxtts.data.ray_shards import compute_shards
def kill_one():
    # The worker of Ray that has a shard, as soon as that has a mel: its lock says which process it is.
    while True:
        for journal in Path(sys.argv[2]).glob("*/shards/*/mel.journal"):
            if journal.stat().st_size:
                os.kill(json.loads((journal.parent / "lock").read_text())["pid"], signal.SIGKILL)
                print("killed: one", flush=True)
                return
        time.sleep(0.005)
if __name__ == "__main__":
    config = DataConfig(dataset_path=sys.argv[1], cache_dir=sys.argv[2], text_symbols="graphemes", num_workers=2)
    threading.Thread(target=kill_one, daemon=True).start()
    print("given up:", compute_shards(config, read_metadata(config), shards=4), flush=True)
    done = precompute(config)
    print(f"computed: {done.columns['mel'].computed}\\nstore: {done.version}")
"""


@needs_ray
@pytest.mark.soak
def test_ray_gives_the_bytes_of_one_machine_though_a_worker_is_killed(tmp_path):
    corpus = make_corpus(tmp_path / "data", clips=400)
    (tmp_path / "by_ray.py").write_text(RAY)
    command = [sys.executable, str(tmp_path / "by_ray.py"), str(corpus), str(tmp_path / "ray")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Ray may say something of its own between these.
    said = dict(
        line.split(": ", 1)
        for line in done.stdout.splitlines()
        if line.startswith(("killed", "given up", "computed", "store"))
    )
    assert (said["killed"], said["given up"], said["computed"]) == ("one", "[]", "0")
    version = said["store"]
    assert content(Path(version)) == one_machine(corpus, tmp_path)
