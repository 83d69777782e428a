"""A disk without room, wherever something is written: one line that names the file, and nothing half-written.

`/dev/full` refuses every write as a full disk does. Stores have tests of their own (test_precompute_faults.py).
"""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.cli.synthesize import wav_file
from myxtts.errors import UsageError
from myxtts.recordings.wav_file import write_bytes

FULL = Path("/dev/full")

pytestmark = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


def test_speech_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "said.wav"
    path.symlink_to(FULL)
    refused = pytest.raises(UsageError, match=r"said\.wav: cannot be written \(No space left on device\)")
    with refused, wav_file(path, 22050) as write:
        write(np.zeros(50_000, np.float32))


def test_speech_is_written_piece_by_piece(tmp_path: Path) -> None:
    path = tmp_path / "said.wav"
    pieces = [np.linspace(-1, 1, 700, dtype=np.float32), np.full(300, 0.25, np.float32)]
    with wav_file(path, 16000) as write:
        write(pieces[0])
        assert len(soundfile.read(path)[0]) == 700
        write(pieces[1])
    samples, rate = soundfile.read(path)
    assert rate == 16000
    np.testing.assert_allclose(samples, np.concatenate(pieces), atol=1 / 32768)


def test_a_clip_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "wavs" / "a.wav"
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_bytes(path, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.filename == str(path)
    assert list(path.parent.iterdir()) == []


def test_output_that_cannot_be_written_is_one_line(python: str) -> None:
    with FULL.open("w") as full:
        done = subprocess.run([python, "-m", "myxtts", "show-config"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: a file cannot be written: No space left on device; make room on the disk\n"
