"""Building under fire: killed processes, full disks, several builders, folders that are not allowed. Real
processes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from small_corpus import RATE, configure, content, make_corpus, write_audio

from myxtts.data.modes import prepare
from myxtts.data.precompute import check_store, precompute
from myxtts.data.store import FeatureStore, workers
from myxtts.data.store.columns import COLUMNS
from myxtts.data.store.folder import StorageError, StoreFolder
from myxtts.data.store.format import PARTS_FORMAT_VERSION
from myxtts.data.store.records import RECORD, index_records, pack_records
from myxtts.errors import StoreError

pytestmark = pytest.mark.long

IN_FLIGHT = 16  # the most clips between being given to a worker and being in the journal

# A build that waits: before it gives out the n-th mel, until a file exists. What happens to it meanwhile does not
# depend on who is faster.
BUILD = """
import logging, os, sys, time
from myxtts.data.store.workers import WorkerPool
waits, submit, given_out = eval(sys.argv[3]), WorkerPool.submit, 0
def wait_and_submit(pool, task):
    global given_out
    given_out += task.column == "mel"
    while given_out in waits and not os.path.exists(waits[given_out]):
        time.sleep(0.01)
    submit(pool, task)
WorkerPool.submit = wait_and_submit
logging.basicConfig(level=logging.INFO, format="%(message)s")
from myxtts.config.config import DataConfig
from myxtts.data.precompute import precompute
from myxtts.errors import MyXTTSError
config = DataConfig(dataset_path=sys.argv[1], text_symbols="graphemes", num_workers=2, **eval(sys.argv[2]))
try:
    result = precompute(config)
except MyXTTSError as error:
    sys.exit(str(error))
print(result.columns["mel"].computed, result.columns["token"].computed, result.published, result.version)
"""


@pytest.fixture
def start_build(python):
    """Builds in a process; `waits` are files, by the number of the mel before which the build waits for each."""

    def start(folder, waits=None, **settings):
        waits = {number: str(path) for number, path in (waits or {}).items()}
        command = [python, "-c", BUILD, str(folder), repr(settings), repr(waits)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


@pytest.fixture
def corpus(tmp_path):
    return make_corpus(tmp_path / "data")


@pytest.fixture(scope="module")
def long_corpus(tmp_path_factory):
    """Takes long enough to be killed in the middle: 120 clips of 4 to 6 s, each file a link to one of eight."""
    folder = tmp_path_factory.mktemp("long") / "data"
    for number in range(8):
        write_audio(folder / f"source-{number}.wav", int(RATE * (4 + number / 4)), number)
    lines = []
    (folder / "wavs").mkdir()
    for number in range(120):
        os.link(folder / f"source-{number % 8}.wav", folder / "wavs" / f"clip-{number}.wav")
        lines.append(f"clip-{number}|some words for clip number {number}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def undisturbed(long_corpus, tmp_path_factory):
    """The store of the long corpus, made without a disturbance: its files, and how long that took."""
    config = configure(long_corpus, cache_dir=str(tmp_path_factory.mktemp("undisturbed")), num_workers=2)
    started = time.monotonic()
    version = precompute(config).version
    return content(version), time.monotonic() - started


def store_folder(cache: Path) -> Path:
    (only,) = cache.iterdir()
    return only


# Killed


def kill_and_resume(start_build, long_corpus, cache, undisturbed, seed):
    """Kills a build at a random moment, resumes it with fresh processes until it is done; checks every byte."""
    expected, seconds = undisturbed
    chance = random.Random(seed)
    longest = 1.2 * seconds
    kills = 0
    while True:
        build = start_build(long_corpus, cache_dir=str(cache))
        try:
            build.wait(timeout=chance.uniform(0.3, max(0.6, longest)) if kills < 3 else None)
        except subprocess.TimeoutExpired:
            build.kill()
            build.wait()
            kills += 1
            continue
        out, err = build.communicate()
        assert build.returncode == 0, err
        if kills:
            break
        shutil.rmtree(cache)
        longest /= 2
    version = Path(out.split()[-1])
    assert without_cache(content(version)) == without_cache(expected)
    # Its number is 2 after a kill between the version's name and the pointer to it.
    assert sorted(os.listdir(store_folder(cache))) == ["CURRENT", "lock", version.name]


def without_cache(files):
    return {name: data for name, data in files.items() if name != "manifest.json"}


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_a_random_moment_and_resumed_the_bytes_are_the_same(
    start_build, long_corpus, tmp_path, undisturbed, seed
):
    kill_and_resume(start_build, long_corpus, tmp_path / "cache", undisturbed, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_killed_at_twenty_random_moments_and_resumed_the_bytes_are_the_same(
    start_build, long_corpus, tmp_path, undisturbed, seed
):
    kill_and_resume(start_build, long_corpus, tmp_path / "cache", undisturbed, seed)


def test_a_killed_build_recomputes_only_a_few_clips(start_build, long_corpus, tmp_path, undisturbed):
    cache = tmp_path / "cache"
    build = start_build(long_corpus, {60: tmp_path / "never"}, cache_dir=str(cache))
    journaled = wait_for_journal(build, cache, 30)
    build.kill()
    build.wait()
    again = start_build(long_corpus, cache_dir=str(cache))
    out, err = again.communicate()
    assert int(out.split()[0]) <= 120 - journaled, err
    assert "continuing after process" in err


def test_what_was_in_flight_when_killed_is_at_most_a_few_clips(long_corpus, tmp_path, monkeypatch):
    """Between being given to a worker and being in the journal there are never more than a dozen clips."""
    most = 0
    submitted = 0
    original = workers.WorkerPool.submit

    def submit(pool, task):
        nonlocal most, submitted
        original(pool, task)
        if task.column == "mel":
            submitted += 1
            journal = next(tmp_path.rglob("mel.journal"))
            most = max(most, submitted - journal.stat().st_size // RECORD.itemsize)

    monkeypatch.setattr(workers.WorkerPool, "submit", submit)
    precompute(configure(long_corpus, cache_dir=str(tmp_path), num_workers=2))
    assert 0 < most <= IN_FLIGHT


def wait_for_journal(build, cache, clips):
    """Returns how many mels are in the journal, as soon as so many are."""
    while True:
        assert build.poll() is None, build.communicate()
        for journal in cache.rglob("mel.journal"):
            done = journal.stat().st_size // RECORD.itemsize
            if done >= clips:
                return done
        time.sleep(0.01)


def test_a_killed_worker_is_replaced_and_the_bytes_are_the_same(start_build, long_corpus, tmp_path, undisturbed):
    cache = tmp_path / "cache"
    waits = {clips + IN_FLIGHT: tmp_path / f"after-{clips}" for clips in (10, 40, 70)}
    build = start_build(long_corpus, waits, cache_dir=str(cache))
    for number, path in waits.items():
        wait_for_journal(build, cache, number - IN_FLIGHT)
        os.kill(workers_of_build(cache)[0], signal.SIGKILL)
        path.touch()
    out, err = build.communicate()
    assert build.returncode == 0, err
    assert without_cache(content(Path(out.split()[-1]))) == without_cache(undisturbed[0])


def workers_of_build(cache):
    """The processes that a running build has started; its lock says which process it is."""
    pid = json.loads((store_folder(cache) / "lock").read_text())["pid"]
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def other_worker(tmp_path, monkeypatch):
    """Has workers run another module."""

    def put_in_place(program):
        (tmp_path / "other_worker.py").write_text(program)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(workers, "_WORKER", "other_worker")

    return put_in_place


def test_a_clip_that_kills_workers_is_named_and_the_rest_goes_on(corpus, other_worker):
    other_worker(
        "import os, signal\n"
        "from myxtts.data.store import columns\n"
        "from myxtts.data.store.workers import main\n"
        "read = columns.read_samples\n"
        "def deadly(path, rate):\n"
        "    if 'clip-3' in path: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return read(path, rate)\n"
        "columns.read_samples = deadly\n"
    )
    result = precompute(configure(corpus, num_workers=2))
    assert [(entry.id, "SIGSEGV" in entry.reason) for entry in result.failed] == [("clip-3", True)]
    assert result.clips == 7


def test_workers_that_cannot_start_are_one_line(corpus, other_worker):
    other_worker("raise SystemExit('no such library')\n")
    with pytest.raises(StoreError, match="could not start: no such library"):
        precompute(configure(corpus))


def test_workers_end_with_their_parent(start_build, long_corpus, tmp_path):
    build = start_build(long_corpus, {5 + IN_FLIGHT: tmp_path / "never"}, cache_dir=str(tmp_path / "cache"))
    wait_for_journal(build, tmp_path / "cache", 5)
    workers = workers_of_build(tmp_path / "cache")
    assert len(workers) == 2
    build.kill()
    build.wait()
    for _ in range(90_000):  # half an hour
        if not any(is_running(pid) for pid in workers):
            return
        time.sleep(0.02)
    pytest.fail("a worker outlives its parent")


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# What a kill or a power cut can leave behind


def interrupted(corpus, done=5):
    """A store's folder as a builder leaves it that was killed after so many clips, and the finished bytes."""
    config = configure(corpus)
    version = precompute(config).version
    files = content(version)
    store = FeatureStore.open(version)
    folder = version.parent
    building = folder / "building"
    building.mkdir()
    for column, file, width in (("mel", "mel.bin", 160), ("token", "tokens.bin", 4)):
        records = index_records(column, COLUMNS[column].source, store.index)[:done]
        (building / f"{column}.journal").write_bytes(pack_records(records))
        end = int(records["offset"][-1] + records["length"][-1]) * width
        (building / file).write_bytes(files[file][:end])
    store.close()
    shutil.rmtree(version)
    (folder / "CURRENT").unlink()
    return config, building, files


def test_an_interrupted_build_is_continued_where_it_stopped(corpus):
    config, _, files = interrupted(corpus)
    result = precompute(config)
    assert (result.columns["mel"].computed, result.columns["token"].computed) == (3, 3)
    assert content(result.version) == files


@pytest.mark.parametrize("bytes_of_a_record", [1, 33, 63])
def test_a_torn_journal_is_continued_from_its_last_whole_record(corpus, bytes_of_a_record):
    config, building, files = interrupted(corpus)
    with open(building / "mel.journal", "ab") as file:
        file.write(b"\x5a" * bytes_of_a_record)
    result = precompute(config)
    assert result.columns["mel"].computed == 3
    assert content(result.version) == files


def test_a_journal_ahead_of_its_data_is_believed_only_as_far_as_the_checksums_hold(corpus):
    config, building, files = interrupted(corpus)
    os.truncate(building / "mel.bin", (building / "mel.bin").stat().st_size - 1)
    result = precompute(config)
    assert result.columns["mel"].computed == 4
    assert content(result.version) == files


def test_journaled_bytes_that_never_reached_the_disk_are_computed_again(corpus):
    config, building, files = interrupted(corpus)
    data = bytearray((building / "mel.bin").read_bytes())
    data[:4096] = bytes(4096)
    (building / "mel.bin").write_bytes(data)
    result = precompute(config)
    assert result.columns["mel"].computed == 8
    assert content(result.version) == files


def test_bytes_behind_the_journal_are_overwritten(corpus):
    config, building, files = interrupted(corpus)
    with open(building / "mel.bin", "ab") as file:
        file.write(os.urandom(10_000_000))
    assert content(precompute(config).version) == files


def test_zeros_where_the_journal_should_be_count_for_nothing(corpus):
    config, building, files = interrupted(corpus)
    journal = building / "mel.journal"
    journal.write_bytes(bytes(journal.stat().st_size))
    result = precompute(config)
    assert result.columns["mel"].computed == 8
    assert content(result.version) == files


def test_a_build_continued_with_other_data_takes_over_what_is_still_right(corpus, tmp_path):
    config, _, _ = interrupted(corpus)
    lines = (corpus / "metadata.csv").read_text().splitlines()
    (corpus / "metadata.csv").write_text("\n".join(lines[1:]) + "\n")
    result = precompute(config)
    assert (result.columns["mel"].computed, result.columns["token"].computed) == (3, 3)
    fresh = precompute(configure(corpus, cache_dir=str(tmp_path / "fresh"))).version
    assert without_cache(content(result.version)) == without_cache(content(fresh))
    assert sorted(os.listdir(result.version.parent)) == ["CURRENT", "lock", "v000001"]


def test_killed_between_the_manifest_and_its_name(corpus):
    config = configure(corpus)
    version = precompute(config).version
    files = content(version)
    os.rename(version, version.parent / "building")
    (version.parent / "building" / "mel.journal").touch()
    (version.parent / "CURRENT").unlink()
    result = precompute(config)
    assert (result.columns["mel"].computed, result.columns["token"].computed) == (0, 0)
    assert content(result.version) == files


def test_killed_between_the_name_and_the_pointer(corpus):
    config = configure(corpus)
    version = precompute(config).version
    files = content(version)
    (version.parent / "CURRENT").unlink()
    result = precompute(config)
    assert (result.columns["mel"].computed, result.columns["token"].computed) == (0, 0)
    assert content(result.version) == files


def test_a_published_file_is_never_written_even_if_it_lies_in_the_building_folder(corpus):
    config = configure(corpus)
    version = precompute(config).version
    before = content(version)
    building = version.parent / "building"
    building.mkdir()
    os.link(version / "mel.bin", building / "mel.bin")
    (building / "mel.journal").write_bytes(b"")
    with FeatureStore.open(version):
        write_audio(corpus / "wavs" / "clip-0.wav", 7000, 55)
        precompute(config)
        assert content(version) == before


def test_a_store_of_a_newer_format_is_left_alone_with_one_line(corpus):
    config = configure(corpus)
    version = precompute(config).version
    manifest = json.loads((version / "manifest.json").read_bytes())
    (version / "manifest.json").write_text(json.dumps(manifest | {"format_version": PARTS_FORMAT_VERSION + 1}))
    before = content(version)
    for attempt in (lambda: precompute(config), lambda: check_store(config, fix=True), lambda: prepare(config)):
        with pytest.raises(StoreError, match=f"format {PARTS_FORMAT_VERSION + 1}") as caught:
            attempt()
        assert len(str(caught.value).splitlines()) == 1
    assert content(version) == before


# Several at once


def test_of_two_builders_one_builds_and_the_other_finds_it_done(start_build, long_corpus, tmp_path):
    builds = [start_build(long_corpus, cache_dir=str(tmp_path / "cache")) for _ in range(2)]
    outs = [build.communicate() for build in builds]
    assert [build.returncode for build in builds] == [0, 0], outs
    assert sorted(int(out.split()[0]) for out, _ in outs) == [0, 120]


def test_a_builder_waits_for_another_and_says_for_whom(start_build, corpus):
    folder = precompute(configure(corpus)).version.parent
    make_corpus(corpus, clips=1, first=8)
    with StoreFolder(folder).lock():
        build = start_build(corpus)
        assert f"waiting for process {os.getpid()} on" in build.stderr.readline()
    out, err = build.communicate()
    assert out.split()[0] == "1", err


def test_a_builder_that_may_not_wait_says_who_builds(corpus):
    folder = StoreFolder(corpus / "cached_features" / "any")
    with folder.lock(), pytest.raises(StoreError, match=f"process {os.getpid()}"), folder.lock(wait=False):
        pass


def test_the_lock_of_a_dead_process_holds_nobody_up(corpus, caplog, python):
    folder = StoreFolder(corpus / "cached_features" / "any")
    code = (
        "import os, sys; from pathlib import Path; from myxtts.data.store.folder import StoreFolder\n"
        "with StoreFolder(Path(sys.argv[1])).lock(): os.kill(os.getpid(), 9)"
    )
    subprocess.run([python, "-c", code, str(folder.path)])
    with caplog.at_level(logging.INFO), folder.lock(wait=False):
        assert "ended early" in caplog.text


def test_a_version_stays_while_it_is_open_and_goes_when_nobody_needs_it(corpus):
    config = configure(corpus)
    old = precompute(config).version
    store = FeatureStore.open(old)
    before = store.mel(0).copy()
    make_corpus(corpus, clips=1, first=8)
    precompute(config)
    assert old.is_dir()
    np.testing.assert_array_equal(store.mel(0), before)
    store.close()
    make_corpus(corpus, clips=1, first=9)
    new = precompute(config).version
    assert StoreFolder(old.parent).versions() == [new]


def test_a_store_is_removed_unless_somebody_has_it_open_or_builds_it(corpus):
    folder = StoreFolder(precompute(configure(corpus)).version.parent)
    with FeatureStore.open(folder.path):
        assert not folder.remove()
    with folder.lock():
        assert not folder.remove()
    assert len(FeatureStore.open(folder.path)) == 8
    assert folder.remove()
    assert not folder.path.exists()
    assert folder.path.parent.exists()


def test_a_builder_that_waited_for_a_store_that_was_removed_builds_it_anew(start_build, corpus):
    folder = StoreFolder(precompute(configure(corpus)).version.parent)
    make_corpus(corpus, clips=1, first=8)
    with folder.lock():
        build = start_build(corpus)
        assert "waiting for process" in build.stderr.readline()
        shutil.rmtree(folder.path)
    out, err = build.communicate(timeout=1800)
    assert build.returncode == 0, err
    assert Path(out.split()[-1]).parent == folder.path
    with folder.lock(wait=False):
        pass


def test_readers_find_a_version_whatever_is_published_meanwhile(corpus, python):
    config = configure(corpus)
    folder = precompute(config).version.parent
    code = (
        "import sys, time; from myxtts.data.store import FeatureStore\n"
        "end = time.monotonic() + 3\n"
        "while time.monotonic() < end:\n"
        "    with FeatureStore.open(sys.argv[1]) as store: store.mel(0).sum()\n"
    )
    reader = subprocess.Popen([python, "-c", code, str(folder)], stderr=subprocess.PIPE, text=True)
    assert reader.stderr is not None
    published = 0
    while reader.poll() is None:
        os.utime(corpus / "wavs" / "clip-1.wav")
        published += precompute(config).published
    assert reader.returncode == 0, reader.stderr.read()
    assert published >= 1


# Disks


@pytest.fixture
def limited_build(python):
    """Builds in a process none of whose files may be larger than `size`."""

    def build(folder, size):
        code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n" + BUILD
        return subprocess.run([python, "-c", code, str(folder), "{}", "{}"], capture_output=True, text=True)

    return build


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_file_that_may_not_grow_ends_in_one_message_and_is_continued_later(corpus, limited_build, share):
    config = configure(corpus)
    files = content(precompute(config).version)
    shutil.rmtree(corpus / "cached_features")
    done = limited_build(corpus, int(len(files["mel.bin"]) * share))
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    result = precompute(config)
    assert result.columns["mel"].computed <= 8
    assert content(result.version) == files


def test_the_version_before_stays_usable_when_the_disk_fills_up(corpus, limited_build):
    config = configure(corpus)
    old = precompute(config).version
    files = content(old)
    make_corpus(corpus, clips=4, first=8)
    done = limited_build(corpus, len(files["mel.bin"]) + 1000)
    assert (done.returncode, "File too large" in done.stderr) == (1, True)
    assert content(FeatureStore.open(old.parent).path) == files
    assert precompute(config).clips == 12


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 200 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_store_that_will_not_fit_is_refused_with_both_numbers_before_anything_is_computed(corpus, small_disk):
    make_corpus(corpus, clips=60, first=8)
    with pytest.raises(StorageError, match=r"need \d+ kB, and the disk has 20\d kB free"):
        precompute(configure(corpus, cache_dir=str(small_disk)))
    assert not list(small_disk.rglob("mel.bin"))


def fill(path):
    """Writes until nothing more goes in."""
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))


def test_a_disk_that_somebody_else_fills_meanwhile(start_build, long_corpus, tmp_path, undisturbed):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        build = start_build(long_corpus, {5 + IN_FLIGHT: tmp_path / "full"}, cache_dir=str(disk))
        wait_for_journal(build, disk, 5)
        fill(disk / "other")
        (tmp_path / "full").touch()
        out, err = build.communicate()
        assert build.returncode == 1
        assert "No space left" in err
        assert "Traceback" not in err
        os.unlink(disk / "other")
        again = start_build(long_corpus, cache_dir=str(disk))
        out, err = again.communicate()
        assert again.returncode == 0, err
        assert int(out.split()[0]) < 120
        assert without_cache(content(Path(out.split()[-1]))) == without_cache(undisturbed[0])
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_cache_folder_without_permission_is_one_line(corpus, tmp_path, python):
    if os.geteuid() != 0:
        pytest.skip("dropping privileges needs root")
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from myxtts.data.store.folder import StoreFolder\n"
        "from myxtts.errors import StoreError\n"
        "os.seteuid(65534)\n"
        "try:\n"
        "    with StoreFolder(Path(sys.argv[1])).lock(): print('locked')\n"
        "except StoreError as error: print(error)\n"
    )
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.name.startswith(("pytest", "test")):
            os.chmod(folder, 0o755)
    command = [python, "-c", code, str(tmp_path / "cache" / "store")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Permission denied" in done.stdout, done.stderr
    assert "--cache-dir" in done.stdout
