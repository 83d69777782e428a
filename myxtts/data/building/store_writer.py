"""Writes the index and the manifest of a finished building folder, which make it a version."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from myxtts.data.building.fingerprint import Settings, fingerprint
from myxtts.data.clips import Clip
from myxtts.data.store_format import INDEX_FILE, MANIFEST_FILE, FailedClip, Index, Manifest, pack_ids


def write_version(
    folder: Path,
    clips: Sequence[Clip],
    mel: np.ndarray,
    token: np.ndarray,
    settings: Settings,
    mel_padding: float,
    failed: Sequence[FailedClip],
) -> Manifest:
    """Puts index and manifest on the disk, the manifest last.

    Args:
        folder: the building folder, with both data files complete.
        clips: the clips of the store, in order.
        mel: RECORD [N], where their mels lie.
        token: RECORD [N], where their tokens lie.
        settings: what they were made with.
        mel_padding: the value of the padding row.
        failed: clips of the data set that are not among them.
    """
    id_end, id_bytes = pack_ids([clip.id for clip in clips])
    speakers, speaker = number_names(clip.speaker for clip in clips)
    languages, language = number_names(clip.language for clip in clips)
    columns = {
        "clip_key": mel["clip"],
        "mel_offset": mel["offset"],
        "mel_checksum": mel["checksum"],
        "token_offset": token["offset"],
        "token_checksum": token["checksum"],
        "source_size": mel["size"],
        "source_mtime_ns": mel["mtime"],
        "source_hash": mel["content"],
        "text_hash": token["content"],
        "id_end": id_end,
        "mel_length": mel["length"],
        "token_length": token["length"],
        "speaker": speaker,
        "language": language,
    }
    with open(folder / INDEX_FILE, "wb") as file:
        index_checksum = Index(columns, id_bytes).write(file)
        file.flush()
        os.fsync(file.fileno())
    manifest = Manifest(
        fingerprint=fingerprint(settings),
        settings=settings,
        clips=len(clips),
        mel_dtype=settings["mel"]["mel_dtype"],
        n_mels=settings["mel"]["n_mels"],
        mel_rows=int(mel["length"].sum()) + 1,
        mel_padding=mel_padding,
        token_count=int(token["length"].sum()) + 1,
        index_checksum=index_checksum,
        speakers=speakers,
        languages=languages,
        failed=tuple(failed),
    )
    temporary = folder / (MANIFEST_FILE + ".new")
    with open(temporary, "wb") as file:
        file.write(manifest.to_bytes())
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, folder / MANIFEST_FILE)
    return manifest


def number_names(names: Iterable[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The distinct names in the order of their first appearance, so that clips appended later change no number, and
    the number of each, int32."""
    numbers: dict[str, int] = {}
    numbered = [numbers.setdefault(name, len(numbers)) for name in names]
    return tuple(numbers), np.array(numbered, np.int32)
