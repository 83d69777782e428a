"""The store as a reader meets it: a list of every way its files can be wrong, and what opening them says."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.data.store import FeatureStore
from myxtts.data.store.format import (
    FORMAT_VERSION,
    INDEX_FILE,
    MANIFEST_FILE,
    MEL_DTYPES,
    PARTS_FORMAT_VERSION,
    Manifest,
    OptionalColumn,
)
from myxtts.data.store.index import Ids, Index, index_bytes, pack_ids
from myxtts.data.store.target import fingerprint
from myxtts.errors import StoreError

N_MELS = 4
FLOOR = float(np.log(1e-5))


def make_version(
    folder: Path,
    mel_lengths=(3, 0, 5),
    token_lengths=(2, 4, 1),
    ids=("a", "b/c", "آزمون"),
    dtype="float16",
    **changes,
):
    """A version of random features, written as `docs/store-format.md` describes it."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    mel_rows, token_count = sum(mel_lengths) + 1, sum(token_lengths) + 1
    mel = random.normal(size=(mel_rows, N_MELS)).astype(MEL_DTYPES[dtype])
    tokens = random.integers(1, 50, token_count).astype("<i4")
    mel[-1], tokens[-1] = FLOOR, 0
    mel.tofile(folder / "mel.bin")
    tokens.tofile(folder / "tokens.bin")
    count = len(ids)
    id_end, id_data = pack_ids(ids)
    zeros = np.zeros(count, np.int64)
    mel_offsets, token_offsets = _starts(mel_lengths), _starts(token_lengths)
    columns = {
        "clip_key": zeros,
        "mel_offset": mel_offsets,
        "mel_checksum": _checksums(mel, mel_offsets, mel_lengths),
        "token_offset": token_offsets,
        "token_checksum": _checksums(tokens, token_offsets, token_lengths),
        "source_size": zeros,
        "source_mtime_ns": zeros,
        "source_hash": zeros,
        "text_hash": zeros,
        "id_end": id_end,
        "mel_length": np.array(mel_lengths),
        "token_length": np.array(token_lengths),
        "speaker": zeros,
        "language": zeros,
    }
    columns |= {name: value for name, value in changes.items() if name in columns}
    with open(folder / INDEX_FILE, "wb") as file:
        checksum = Index(columns, id_data).write(file)
    fields = {
        "fingerprint": "0123456789abcdef",
        "settings": {"mel": {"n_mels": N_MELS, "log_floor": 1e-5}, "text": {}, "data": {}},
        "clips": count,
        "mel_dtype": dtype,
        "n_mels": N_MELS,
        "mel_rows": mel_rows,
        "mel_padding": FLOOR,
        "token_count": token_count,
        "index_checksum": checksum,
        "speakers": ("default",),
        "languages": ("en",),
    }
    fields |= {name: value for name, value in changes.items() if name in fields}
    manifest = Manifest(**fields)
    (folder / MANIFEST_FILE).write_bytes(manifest.to_bytes())
    return mel, tokens


def _starts(lengths):
    return np.cumsum(lengths, dtype=np.int64) - np.array(lengths, np.int64)


def _checksums(data, offsets, lengths):
    return np.array(
        [
            xxhash.xxh3_64_intdigest(data[start : start + length].tobytes())
            for start, length in zip(offsets, lengths, strict=True)
        ],
        np.uint64,
    )


@pytest.fixture
def version(tmp_path):
    make_version(tmp_path / "store" / "v000001")
    (tmp_path / "store" / "CURRENT").write_text("v000001\n")
    return tmp_path / "store" / "v000001"


def refused(path, *words, **options):
    with pytest.raises(StoreError) as caught:
        FeatureStore.open(path, **options)
    message = str(caught.value)
    assert len(message.splitlines()) <= 3
    for word in words:
        assert word in message
    return message


# What a sound store gives


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("memory_map", [True, False])
def test_gives_back_what_was_written(tmp_path, dtype, memory_map):
    mel, tokens = make_version(tmp_path / "v000001", dtype=dtype)
    store = FeatureStore.open(tmp_path / "v000001", memory_map=memory_map)
    assert len(store) == 3
    assert list(store.ids) == ["a", "b/c", "آزمون"]
    assert store.mel_data.dtype == MEL_DTYPES[dtype]
    np.testing.assert_array_equal(store.mel(0), mel[:3])
    np.testing.assert_array_equal(store.mel(2), mel[3:8])
    np.testing.assert_array_equal(store.tokens(1), tokens[2:6])
    assert store.tokens(1).dtype == np.int32
    assert (store.mel_rows, store.manifest.token_count, store.manifest.n_mels) == (9, 8, N_MELS)
    assert (store.speakers, store.languages) == (["default"], ["en"])
    assert store.mel_offsets.dtype == np.int64
    assert store.mel_lengths.dtype == np.int32


def test_last_row_is_the_padding_row_and_last_token_the_padding_id(version):
    store = FeatureStore.open(version)
    np.testing.assert_array_equal(
        store.mel_data[-1], np.full(N_MELS, store.manifest.mel_padding, store.mel_data.dtype)
    )
    assert store.token_data[-1] == 0


def test_a_clip_of_length_zero_is_an_empty_array(version):
    assert FeatureStore.open(version).mel(1).shape == (0, N_MELS)


def test_a_store_of_one_clip_opens(tmp_path):
    make_version(tmp_path / "v000001", (2,), (3,), ("only",))
    assert FeatureStore.open(tmp_path / "v000001").mel(0).shape == (2, N_MELS)


def test_a_store_without_clips_opens(tmp_path):
    make_version(tmp_path / "v000001", (), (), ())
    store = FeatureStore.open(tmp_path / "v000001")
    assert len(store) == 0
    assert list(store.ids) == []


@pytest.mark.parametrize("row", [-1, 3])
def test_a_clip_that_is_not_there_is_an_index_error(version, row):
    with pytest.raises(IndexError):
        FeatureStore.open(version).mel(row)


def test_arrays_cannot_be_written_through(version):
    for memory_map in (True, False):
        store = FeatureStore.open(version, memory_map=memory_map)
        with pytest.raises(ValueError, match="read-only"):
            store.mel(0)[0, 0] = 0


def test_opens_by_version_by_store_and_by_a_cache_folder_with_one_store(version):
    for path in (version, version.parent, version.parent.parent, str(version.parent)):
        assert FeatureStore.open(path).path == version


def test_arrays_outlive_the_store_and_its_files(version):
    store = FeatureStore.open(version)
    mel = store.mel(0)
    expected = mel.copy()
    store.close()
    shutil.rmtree(version)
    np.testing.assert_array_equal(mel, expected)


def test_an_open_store_keeps_its_version_when_another_is_published(version):
    store = FeatureStore.open(version.parent)
    before = store.mel(0).copy()
    make_version(version.parent / "v000002", (1, 1), (1, 1), ("x", "y"))
    (version.parent / "new").write_text("v000002\n")
    os.rename(version.parent / "new", version.parent / "CURRENT")
    np.testing.assert_array_equal(store.mel(0), before)
    assert len(FeatureStore.open(version.parent)) == 2


def test_a_forked_process_reads_the_same_bytes(version):
    store = FeatureStore.open(version)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(store.mel(0).tobytes()))
    child.start()
    assert queue.get() == store.mel(0).tobytes()
    child.join()


def test_another_process_reopens_the_version_instead_of_receiving_its_bytes(version):
    store = FeatureStore.open(version)
    sent = pickle.dumps(store)
    assert len(sent) < 500
    assert pickle.loads(sent).path == version


def test_opening_needs_neither_tensorflow_nor_anything_of_the_data_set(version):
    code = (
        "import sys; from myxtts.data.store import FeatureStore; FeatureStore.open(sys.argv[1]); "
        "print([m for m in sys.modules if m.split('.')[0] in ('tensorflow', 'pydantic', 'soundfile')])"
    )
    command = [sys.executable, "-c", code, str(version)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Every way the files can be wrong


def test_no_such_folder(tmp_path):
    refused(tmp_path / "nowhere", "no feature store", "myxtts precompute")


def test_a_folder_without_a_store(tmp_path):
    refused(tmp_path, "no feature store", "myxtts precompute")


def test_several_stores_are_named(version):
    other = version.parent.parent / "other"
    make_version(other / "v000001")
    (other / "CURRENT").write_text("v000001\n")
    refused(version.parent.parent, "2 feature stores", "other", "store")


@pytest.mark.parametrize("text", ["", "v000009\n", "../../etc\n", "v00001\x00", "\xff\xfe", "v000001/..\n"])
def test_a_pointer_that_names_no_version(version, text):
    (version.parent / "CURRENT").write_text(text, "latin-1")
    refused(version.parent, "CURRENT", "verify-cache --fix")


def test_a_version_without_a_manifest(version):
    (version / MANIFEST_FILE).unlink()
    refused(version.parent, "no manifest")


@pytest.mark.parametrize("name", ["mel.bin", "tokens.bin", "index.bin"])
def test_a_missing_file_is_named(version, name):
    (version / name).unlink()
    refused(version, name, "No such file")


@pytest.mark.parametrize("name", ["mel.bin", "tokens.bin"])
@pytest.mark.parametrize("by", [-1, 1, -8, 4096])
def test_a_data_file_of_another_size_is_refused_with_both_sizes(version, name, by):
    size = os.stat(version / name).st_size
    os.truncate(version / name, max(0, size + by))
    refused(version, name, f"has {max(0, size + by):,} bytes", f"should have {size:,}", verify="none")


@pytest.mark.parametrize("size", [0, 1, 63, 64, 100])
def test_a_truncated_index_is_refused(version, size):
    os.truncate(version / INDEX_FILE, size)
    for verify in ("quick", "none"):
        refused(version, INDEX_FILE, verify=verify)


def test_an_index_with_bytes_behind_it_is_refused(version):
    with open(version / INDEX_FILE, "ab") as file:
        file.write(b"\0")
    refused(version, INDEX_FILE, verify="none")


def test_an_index_longer_than_the_data_is_refused(tmp_path):
    make_version(tmp_path / "v000001", mel_length=np.array([3, 0, 50]))
    refused(tmp_path / "v000001", INDEX_FILE, "rows of mel.bin", verify="none")


def test_an_index_with_fewer_clips_than_the_manifest_is_refused(tmp_path):
    make_version(tmp_path / "v000001", clips=4)
    refused(tmp_path / "v000001", INDEX_FILE, "clips", verify="none")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("mel_offset", [0, 4, 3]),  # overlapping
        ("mel_offset", [1, 3, 3]),  # a row that belongs to nobody
        ("mel_offset", [0, -(2**60), 3]),
        ("mel_length", [4, -1, 5]),
        ("token_offset", [0, 2**62, 6]),
        ("speaker", [0, 0, 1]),  # one speaker is known
        ("language", [0, -1, 0]),
        ("id_end", [9, 4, 14]),
    ],
)
def test_an_index_that_contradicts_itself_is_refused_even_unverified(tmp_path, column, values):
    make_version(tmp_path / "v000001", **{column: np.array(values)})
    refused(tmp_path / "v000001", INDEX_FILE, verify="none")


def test_a_flipped_bit_of_the_index_is_found_by_the_quick_check(version):
    data = bytearray((version / INDEX_FILE).read_bytes())
    for position in range(0, len(data), 7):
        data[position] ^= 1 << (position % 8)
        (version / INDEX_FILE).write_bytes(data)
        refused(version, INDEX_FILE)
        data[position] ^= 1 << (position % 8)


def test_every_flipped_bit_of_the_manifest_is_found(version):
    sound = (version / MANIFEST_FILE).read_bytes()
    for position in range(len(sound)):
        data = bytearray(sound)
        data[position] ^= 1 << (position % 8)
        (version / MANIFEST_FILE).write_bytes(data)
        refused(version, MANIFEST_FILE, verify="none")


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "\x00", "{" * 100_000, '{"format": "myxtts-store"}'])
def test_a_manifest_that_is_no_manifest(version, text):
    (version / MANIFEST_FILE).write_text(text)
    refused(version, MANIFEST_FILE, "damaged")


def test_a_manifest_of_a_newer_format_says_so(version):
    content = json.loads((version / MANIFEST_FILE).read_bytes())
    content["format_version"] = PARTS_FORMAT_VERSION + 1
    (version / MANIFEST_FILE).write_text(json.dumps(content))
    message = refused(version, f"format {PARTS_FORMAT_VERSION + 1}", "upgrade")
    assert "damaged" not in message


def test_an_older_reader_would_refuse_an_index_of_another_format(version):
    data = bytearray((version / INDEX_FILE).read_bytes())
    data[8] = 2
    (version / INDEX_FILE).write_bytes(data)
    refused(version, INDEX_FILE, verify="none")


def test_a_folder_without_permission_is_one_line(version, python):
    code = (
        "import os, sys\n"
        "from myxtts.data.store import FeatureStore\n"
        "from myxtts.errors import StoreError\n"
        "os.seteuid(65534)\n"
        "try: FeatureStore.open(sys.argv[1])\n"
        "except StoreError as error: print(error)"
    )
    if os.geteuid() != 0:
        pytest.skip("dropping privileges needs root")
    os.chmod(version / MANIFEST_FILE, 0o000)
    _open_to_all(version)
    done = subprocess.run([python, "-c", code, str(version)], capture_output=True, text=True)
    assert "Permission denied" in done.stdout, done.stderr
    assert len(done.stdout.splitlines()) == 1


def _open_to_all(path):
    """Lets other users reach a temporary folder of pytest's, which is private."""
    for parent in [path, *path.parents]:
        if parent.owner() == "root" and parent != Path(parent.anchor):
            os.chmod(parent, os.stat(parent).st_mode | 0o055)
        if parent.name.startswith("pytest-of"):
            break


def test_wrong_verify_argument_is_a_programming_error(version):
    with pytest.raises(ValueError, match="quick"):
        FeatureStore.open(version, verify="full")  # type: ignore[arg-type]


# The format itself


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8).filter(lambda s: s.isprintable()), max_size=20))
def test_ids_survive_packing_whatever_their_letters(ids):
    ends, data = pack_ids(ids)
    packed = Ids(Index({"id_end": ends, "clip_key": ends}, data))
    assert list(packed) == ids
    assert packed[1:3] == ids[1:3]
    if ids:
        assert packed[-1] == ids[-1]


def test_the_size_of_an_index_follows_from_its_counts(version):
    ids = sum(len(one.encode()) for one in ("a", "b/c", "آزمون"))
    assert os.stat(version / INDEX_FILE).st_size == index_bytes(3, ids)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        make_version(tmp_path / name / "v000001")
    for file in ("mel.bin", "tokens.bin", INDEX_FILE, MANIFEST_FILE):
        one, two = (tmp_path / name / "v000001" / file for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_a_store_without_optional_columns_has_the_bytes_that_it_always_had(tmp_path):
    make_version(tmp_path / "v000001")
    known = {
        INDEX_FILE: "673ab8eea08e22a7a038338289016dfec062da14cfd36347779649c9966ad218",
        MANIFEST_FILE: "2f303b2c9a97db76d4bfce98f3ab5cdf77ef3e46451f1c1f8549a726d6400bf6",
    }
    for file, digest in known.items():
        assert hashlib.sha256((tmp_path / "v000001" / file).read_bytes()).hexdigest() == digest
    settings: dict[str, dict[str, Any]] = {"mel": {"n_mels": 80}, "text": {"text_symbols": "graphemes"}}
    data = {"root": None, "sets": [["metadata.csv", "wavs"]]}
    assert fingerprint({**settings, "data": data}) == "62645729e62dde25"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../mel"},
        {"name": "index"},  # its file would be that of the index
        {"name": "mel"},
        {"dtype": "object"},
        {"row_shape": (0,)},
        {"row_shape": ("2",)},
        {"padding": "0"},
        {"rows": 0},
    ],
    ids=str,
)
def test_an_optional_column_that_cannot_be_is_no_manifest(version, change):
    path = version / MANIFEST_FILE
    manifest = Manifest.from_bytes(path.read_bytes(), path)
    column = OptionalColumn("pitch", "float32", (), 0.0, rows=9, index_checksum="0" * 32)
    assert replace(manifest, optional_columns=(column,)).format_version == FORMAT_VERSION
    with pytest.raises(ValueError, match="not a valid"):
        replace(manifest, optional_columns=(replace(column, **change),))


def test_the_files_of_an_optional_column_are_missed(version):
    path = version / MANIFEST_FILE
    column = OptionalColumn("pitch", "float32", (), 0.0, rows=9, index_checksum="0" * 32)
    manifest = replace(Manifest.from_bytes(path.read_bytes(), path), optional_columns=(column,))
    path.write_bytes(manifest.to_bytes())
    assert Manifest.from_bytes(path.read_bytes(), path) == manifest
    refused(version, "pitch.bin")
    (version / "pitch.bin").write_bytes(bytes(36))
    refused(version, "pitch.index")
    (version / "pitch.index").write_bytes(bytes(80))
    refused(version, "pitch.index", "damaged")
