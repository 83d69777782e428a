"""How a data set is prepared for training, decided in one place.

    precompute   the store is complete before anything else happens, or nothing else happens
    runtime      nothing is written; features are computed for every batch
    auto         precompute if the disk has room and the data can be read, otherwise runtime

Everything that loads a data set comes through `prepare`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

from myxtts.config.config import DataConfig
from myxtts.data.clips import Problem
from myxtts.data.metadata import Metadata, read_metadata
from myxtts.data.precompute import Precomputed, Progress, TooManyFailures, precompute
from myxtts.data.store import FeatureStore
from myxtts.data.store_folder import StorageError
from myxtts.data.store_format import FailedClip
from myxtts.errors import DataError

logger = logging.getLogger(__name__)

# `auto` leaves this share of the store's size free on the disk, and takes a data set of which more clips than
# this cannot be read to be incomplete (still being copied, on a disk that is not there).
AUTO_SPARE = 0.1
AUTO_MOST_FAILED = 0.1
_SHOWN = 5


@dataclass(frozen=True)
class Prepared:
    """A data set that is ready to be loaded.

    Attributes:
        mode: `precompute` or `runtime`.
        reason: why, in one line.
        metadata: the usable clips. With a store, clip `i` is row `i` of it.
        store: the open store, or None.
        precomputed: what making the store took, or None.
    """

    mode: Literal["precompute", "runtime"]
    reason: str
    metadata: Metadata
    store: FeatureStore | None = None
    precomputed: Precomputed | None = None

    def report(self) -> dict[str, Any]:
        """What was decided and done, as plain values."""
        report: dict[str, Any] = {"mode": self.mode, "reason": self.reason, "clips": len(self.metadata.clips)}
        done = self.precomputed
        if done is not None:
            report |= {
                "store": str(done.version),
                "store_bytes": done.size_bytes,
                "mels_reused": done.mels_reused,
                "mels_rebuilt": done.mels_computed,
                "tokens_reused": done.tokens_reused,
                "tokens_rebuilt": done.tokens_computed,
                "precompute_seconds": done.seconds,
                "failed": {entry.id: entry.reason for entry in done.failed},
            }
        return report


def prepare(config: DataConfig, metadata: Metadata | None = None, progress: Progress | None = None) -> Prepared:
    """Prepares a data set as `preprocessing_mode` says.

    Args:
        config: the data set and how to load it.
        metadata: of the data set, if it was read already.
        progress: watches the store being made.

    Raises:
        DataError: the data set cannot be used; in mode `precompute` also: it cannot be used completely.
        StoreError: the store cannot be made (not in mode `auto`), or the configuration forbids to rebuild it.
    """
    metadata = metadata or read_metadata(config)
    if config.preprocessing_mode == "runtime":
        return Prepared("runtime", "preprocessing_mode is runtime", metadata)
    automatic = config.preprocessing_mode == "auto"
    try:
        done = precompute(
            config,
            metadata,
            retry_failed=not automatic,
            spare=AUTO_SPARE if automatic else 0.0,
            most_failed=AUTO_MOST_FAILED if automatic else 1.0,
            progress=progress,
        )
    except (StorageError, TooManyFailures) as error:
        if not automatic:
            raise
        reason = str(error).splitlines()[0]
        logger.warning("features are computed while training: %s", reason)
        return Prepared("runtime", reason, metadata)
    if not automatic and not done.complete:
        raise DataError(_incomplete(done))
    if done.failed:
        logger.warning("%s", _left_out(done.failed))
    verify: Literal["quick", "none"] = "quick" if config.cache_verification else "none"
    store = FeatureStore.open(done.version, verify, config.enable_memory_mapping)
    reason = "a new version of the store was made" if done.published else "the store is up to date"
    return Prepared("precompute", reason, _usable(metadata, done.failed), store, done)


def _usable(metadata: Metadata, failed: tuple[FailedClip, ...]) -> Metadata:
    """The metadata without the clips that are not in the store."""
    if not failed:
        return metadata
    reasons = {entry.id: entry.reason for entry in failed}
    return metadata.leave_out(
        Problem("unreadable-audio", reasons[clip.id], clip.source, clip.line, clip.id)
        for clip in metadata.clips
        if clip.id in reasons
    )


def _incomplete(done: Precomputed) -> str:
    reasons = [f"{entry.id}: {entry.reason}" for entry in done.failed] + [str(one) for one in done.problems]
    shown = "; ".join(reasons[:_SHOWN])
    more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return (
        f"{len(reasons):,} clips are not in the store, and preprocessing_mode is precompute:\n{shown}{more}\n"
        "mend them, or leave them out with --preprocessing-mode auto"
    )


def _left_out(failed: tuple[FailedClip, ...]) -> str:
    shown = "; ".join(f"{entry.id} ({entry.reason})" for entry in failed[:_SHOWN])
    more = f"; and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    return f"{len(failed):,} clips are left out: {shown}{more}"
