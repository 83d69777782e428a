"""How a data set is prepared for training, decided in one place.

    precompute   the store is complete before anything else happens, or nothing else happens
    runtime      nothing is written; features are computed for every batch
    auto         precompute if the disk has room and the data can be read, otherwise runtime; whoever can change from
                 one to the other need not wait for a store that takes long: it is built meanwhile

Everything that loads a data set comes through `prepare`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.background_build import BackgroundBuild, estimate_build
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.clips import Problem
from myxtts.data.clips.metadata import Metadata, read_metadata
from myxtts.data.parts import StoredMetadata, open_trusted
from myxtts.data.precompute import PrecomputeResult, TooManyFailuresError, WorkProgress, open_up_to_date
from myxtts.data.store import FeatureStore
from myxtts.data.store.columns import COLUMNS
from myxtts.data.store.folder import StorageError
from myxtts.data.store.job import BuildJob
from myxtts.data.store.target import Settings, fingerprint
from myxtts.errors import DataError, StoreError
from myxtts.text import TextSettings

logger = logging.getLogger(__name__)

# `auto` leaves this share of the store's size free on the disk, and takes a data set of which more clips than
# this cannot be read to be incomplete (still being copied, on a disk that is not there).
AUTO_SPARE = 0.1
AUTO_MOST_FAILED = 0.1
_SHOWN = 5


@dataclass(frozen=True)
class PreparedData:
    """A data set that is ready to be loaded.

    Attributes:
        mode: `precompute` or `runtime`.
        reason: why, in one line.
        metadata: the usable clips. With a store, clip `i` is row `i` of it.
        config: the data section it was prepared by.
        store: the open store, or None.
        precomputed: what making the store took, or None.
        building: in mode `runtime`, the build of the store that is to take over, or None.
        stands_for: in mode `runtime`, settings of the store whose batches are given, bit for bit, or None.
        source_of_run: `plan_source` as a run that is continued has it; it is kept if it means the same.
    """

    mode: Literal["precompute", "runtime"]
    reason: str
    metadata: Metadata
    config: DataConfig
    store: FeatureStore | None = None
    precomputed: PrecomputeResult | None = None
    building: BackgroundBuild | None = None
    stands_for: Settings | None = None
    source_of_run: str = ""

    @property
    def plan_source(self) -> str:
        """What a plan of batches is called after: the store, also while it is being built; otherwise `runtime`."""
        settings = self.stands_for if self.store is None else self.store.manifest.settings
        if settings is None:
            return "runtime"
        # Not the store's own: a column that batches do not have should not keep a run from being continued.
        sections = {section: settings[section] for section in ("mel", "text", "data")}
        names = [fingerprint(sections)]
        if not any(code.partition("-")[0] == "fa" for code in self.metadata.languages):
            # Runs of version 0.1.0 did not say how Persian is read.
            text = {key: value for key, value in sections["text"].items() if key != "persian_reading"}
            names.append(fingerprint(sections | {"text": text}))
        return self.source_of_run if self.source_of_run in names else names[0]

    @cached_property
    def runtime_clips(self) -> tuple[RuntimeClips, Metadata]:
        """The clips of mode `runtime`, and the metadata without those that turn out not to be usable.

        Headers are read and texts tokenized at the first access, which also logs the clips that are left out.
        """
        mel, text = MelSettings.from_config(self.config), TextSettings.from_config(self.config)
        clips, usable = RuntimeClips.build(self.metadata, mel, text, self.config.workers)
        left_out = len(self.metadata.clips) - len(usable.clips)
        if left_out:
            shown = "; ".join(str(problem) for problem in usable.problems[-left_out:][:_SHOWN])
            logger.warning("%s clips are left out: %s", f"{left_out:,}", shown)
        if self.config.use_tf_native_loading and not clips.graph_readable.all():
            logger.warning("%s", _through_python(clips, mel))
        return clips, usable

    def report(self) -> dict[str, Any]:
        """What was decided and done, as plain values."""
        clips = len(self.metadata.clips if self.store is None else self.store)
        report: dict[str, Any] = {"mode": self.mode, "reason": self.reason, "clips": clips}
        done = self.precomputed
        if done is not None:
            report |= {"store": str(done.version), "store_bytes": done.size_bytes}
            for name, counts in done.columns.items():
                plural = COLUMNS[name].plural
                report |= {f"{plural}_reused": counts.reused, f"{plural}_rebuilt": counts.computed}
            report |= {
                "precompute_seconds": done.seconds,
                "failed": {entry.id: entry.reason for entry in done.failed},
            }
        return report


def prepare(
    config: DataConfig,
    metadata: Metadata | None = None,
    progress: WorkProgress | None = None,
    *,
    beside: bool = False,
) -> PreparedData:
    """Prepares a data set as `preprocessing_mode` says.

    Args:
        config: the data set and how to load it.
        metadata: of the data set, if it was read already.
        progress: watches the store being made.
        beside: in mode `auto`, a store that would take longer than `build_beside_minutes` is not waited for: it is
            `building`, and meanwhile the mode is `runtime`.

    Raises:
        DataError: the data set cannot be used; in mode `precompute` also: it cannot be used completely.
        StoreError: the store cannot be made (not in mode `auto`), or the configuration forbids to rebuild it.
    """
    if config.trust_store:
        stored = open_trusted(config)
        return PreparedData(
            "precompute", "trust_store is true: the store as it is", StoredMetadata.of(stored), config, stored
        )
    metadata = metadata or read_metadata(config)
    if metadata.problems and config.preprocessing_mode != "precompute":  # which refuses them
        logger.warning("%s", _without_clip(metadata.problems))
    if config.preprocessing_mode == "runtime":
        return PreparedData("runtime", "preprocessing_mode is runtime", metadata, config)
    automatic = config.preprocessing_mode == "auto"
    options: dict[str, Any] = {"retry_failed": not automatic}
    if automatic:
        options |= {"spare": AUTO_SPARE, "most_failed": AUTO_MOST_FAILED}
    job = _job_for_beside(config, metadata, progress) if automatic and beside else None
    if job is not None and (building := _begin_beside(job, options)) is not None:
        reason = f"the store is being built beside, about {minutes_text(building.seconds_left)} left"
        settings = building.estimate.settings
        return PreparedData("runtime", reason, metadata, config, building=building, stands_for=settings)
    try:
        store, done = open_up_to_date(config, metadata, progress=progress, job=job, **options)
    except (StorageError, TooManyFailuresError) as error:
        if not automatic:
            raise
        reason = str(error).splitlines()[0]
        logger.warning("features are computed while training: %s", reason)
        return PreparedData("runtime", reason, metadata, config)
    if not automatic and not done.complete:
        store.close()
        raise DataError(_incomplete(done))
    if done.failed:
        reasons = [f"{entry.id} ({entry.reason})" for entry in done.failed]
        logger.warning("%s clips are left out: %s", f"{len(reasons):,}", _first(reasons))
    reason = "a new version of the store was made" if done.published else "the store is up to date"
    usable = metadata.leave_out_failed({entry.id: entry.reason for entry in done.failed})
    return PreparedData("precompute", reason, usable, config, store, done)


def _job_for_beside(config: DataConfig, metadata: Metadata, progress: WorkProgress | None) -> BuildJob | None:
    """What there is to do for a store, if batches would be those of the store before it is complete."""
    if config.trim_silence:  # then a clip's length, which the batches depend on, is known only when it has been read
        return None
    if config.in_parts:  # which batches there are depends on the parts
        return None
    return BuildJob(config, metadata, None, progress)


def _begin_beside(job: BuildJob, options: dict[str, Any]) -> BackgroundBuild | None:
    """A build of the store in another process, if it takes long."""
    try:
        estimate = estimate_build(job)
    except StoreError:
        return None  # whoever waits for the store is told why
    if estimate is None or estimate.seconds <= 60 * job.config.build_beside_minutes:
        return None
    return BackgroundBuild(job.config, estimate, **options)


def minutes_text(seconds: float) -> str:
    """A time to wait, as people say it: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3 * 3600 else f"{seconds / 3600:.1f} h"


def _without_clip(problems: Sequence[Problem]) -> str:
    lines = len({(problem.file, problem.line) for problem in problems})
    what = "1 line of the metadata gives" if lines == 1 else f"{lines:,} lines of the metadata give"
    return f"{what} no clip, the first: {problems[0]}; `myxtts check-data` lists them"


def _incomplete(done: PrecomputeResult) -> str:
    reasons = [f"{entry.id}: {entry.reason}" for entry in done.failed] + [str(one) for one in done.problems]
    return (
        f"{len(reasons):,} clips are not in the store, and preprocessing_mode is precompute:\n{_first(reasons)}\n"
        "fix them, or leave them out with --preprocessing-mode auto"
    )


def _first(reasons: Sequence[str]) -> str:
    more = [f"and {len(reasons) - _SHOWN} more"] if len(reasons) > _SHOWN else []
    return "; ".join([*reasons[:_SHOWN], *more])


def _through_python(clips: RuntimeClips, settings: MelSettings) -> str:
    """Which files the graph cannot decode, and what they cost."""
    rows = np.flatnonzero(~clips.graph_readable)
    example = clips.audio_paths[rows[0]]
    start = time.perf_counter()
    clips.read_samples(int(rows[0]), settings, np.float32)
    milliseconds = (time.perf_counter() - start) * 1000
    return (
        f"{len(rows):,} of {len(clips):,} files are not 16-bit WAV at {settings.sample_rate:,} Hz and are read "
        f"through Python ({example} takes {milliseconds:.1f} ms); preprocessing_mode precompute reads them only once"
    )
