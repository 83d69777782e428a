"""A store in parts of any number of clips, without audio to compute it from.

Index and manifests are real. Feature files are sparse, so a store of terabytes takes no room, unless `filled` asks
for random features. Parts have the same index, linked and not copied.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import xxhash

from myxtts.config.config import DataConfig
from myxtts.data.store.feature_store import POINTER_FILE
from myxtts.data.store.format import INDEX_FILE, MANIFEST_FILE, MEL_FILE, TOKENS_FILE, Manifest
from myxtts.data.store.index import INDEX_COLUMNS, Index, pack_ids
from myxtts.data.store.parts import SPLITS_FILE, Part, PartsManifest
from myxtts.data.store.target import fingerprint, parts_candidates

VERSION = "v000001"
VAL_SHARE = 0.01


def configure(folder: Path, clips_per_part: int, **settings: object) -> DataConfig:
    """The configuration whose store `make_parts` makes in `folder`."""
    fixed = {
        "dataset_path": str(folder / "data"),
        "cache_dir": str(folder),
        "max_clips_per_part": clips_per_part,
        "trust_store": True,
        "text_symbols": "graphemes",
    }
    return DataConfig(**fixed | settings)


def make_parts(config: DataConfig, parts: int, *, filled: bool = False, speakers: int = 4) -> Path:
    """Makes the store of a configuration with so many full parts; returns its folder."""
    (cache, settings), *_ = parts_candidates(config)
    clips = config.max_clips_per_part or 1
    random = np.random.default_rng(0)
    columns = _index(clips, speakers, random)
    first = cache / "part-0000" / VERSION
    manifest = _write_part(first, columns, settings, config, speakers)
    entries = [Part("../part-0000", xxhash.xxh3_128_hexdigest(manifest.to_bytes()), clips)]
    for number in range(parts):
        version = cache / f"part-{number:04d}" / VERSION
        if number:
            version.mkdir(parents=True)
            for name in (INDEX_FILE, MANIFEST_FILE):
                os.link(first / name, version / name)
            entries.append(Part(f"../part-{number:04d}", entries[0].manifest_checksum, clips))
        (version.parent / POINTER_FILE).write_text(f"{VERSION}\n")
        for name, size in manifest.data_bytes.items():
            with open(version / name, "wb") as file:
                file.truncate(size)
        if filled:
            _fill(version, manifest, random)
    splits = (random.random(parts * clips) < VAL_SHARE).astype(np.uint8)
    splits[-1] = 1
    whole = PartsManifest(
        fingerprint=fingerprint(settings),
        settings=settings,
        data_sets=(),
        parts=tuple(entries),
        splits_checksum=xxhash.xxh3_128_hexdigest(splits.data),
        origin={"speakers": ["0"], "clips": "synthetic"},
    )
    store = cache / whole.fingerprint
    (store / VERSION).mkdir(parents=True)
    (store / VERSION / SPLITS_FILE).write_bytes(splits.tobytes())
    (store / VERSION / MANIFEST_FILE).write_bytes(whole.to_bytes())
    (store / POINTER_FILE).write_text(f"{VERSION}\n")
    return store


def _index(clips: int, speakers: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Lengths are spread as in LJSpeech, as in `bench_plan`."""
    columns = {name: np.zeros(clips, dtype) for name, dtype in INDEX_COLUMNS.items()}
    columns["mel_length"] = (random.beta(2.6, 1.5, clips) * 775 + 95).astype(np.int32)
    columns["token_length"] = columns["mel_length"] // 6
    for name in ("mel", "token"):
        lengths = columns[f"{name}_length"].astype(np.int64)
        columns[f"{name}_offset"] = np.cumsum(lengths) - lengths
    columns["speaker"] = random.integers(0, speakers, clips).astype(np.int32)
    return columns


def _write_part(
    version: Path, columns: dict[str, np.ndarray], settings: object, config: DataConfig, speakers: int
) -> Manifest:
    version.mkdir(parents=True)
    columns["id_end"], id_bytes = pack_ids([f"clip-{number:07d}" for number in range(len(columns["id_end"]))])
    with open(version / INDEX_FILE, "wb") as file:
        checksum = Index(columns, id_bytes).write(file)
    manifest = Manifest(
        fingerprint="0" * 16,
        settings=settings,  # type: ignore[arg-type]
        clips=len(columns["id_end"]),
        mel_dtype=config.mel_dtype,
        n_mels=config.n_mels,
        mel_rows=int(columns["mel_length"].sum()) + 1,
        mel_padding=float(np.log(config.log_floor)),
        token_count=int(columns["token_length"].sum()) + 1,
        index_checksum=checksum,
        speakers=tuple(str(number) for number in range(speakers)),
        languages=("en",),
    )
    (version / MANIFEST_FILE).write_bytes(manifest.to_bytes())
    return manifest


def _fill(version: Path, manifest: Manifest, random: np.random.Generator) -> None:
    mels = random.normal(size=(manifest.mel_rows, manifest.n_mels)).astype(manifest.mel_dtype)
    mels[-1] = manifest.mel_padding
    mels.tofile(version / MEL_FILE)
    tokens = random.integers(1, 30, manifest.token_count).astype(np.int32)
    tokens[-1] = 0
    tokens.tofile(version / TOKENS_FILE)
