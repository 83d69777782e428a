"""Builds a new version of a store in one place, with the lock held: tokens first, then mels, then the index.

Tokens come first because they are cheap. A clip whose text fails is then not computed at all, and for a clip whose
audio fails only the tokens have to be laid out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from myxtts.data.building.build_job import BuildJob, Precomputed, TooManyFailures
from myxtts.data.building.build_plan import BuildPlan, Estimate, estimate
from myxtts.data.building.column import FAILED, Column, Reusable
from myxtts.data.building.column_builder import BuiltColumn, ColumnBuilder
from myxtts.data.building.features import settings_to_json
from myxtts.data.building.free_space import require_space
from myxtts.data.building.store_target import Sources, Target
from myxtts.data.building.store_writer import write_version
from myxtts.data.building.worker_pool import WorkerPool
from myxtts.data.store import FeatureStore
from myxtts.data.store_folder import disk_errors
from myxtts.data.store_format import MANIFEST_FILE, FailedClip, index_bytes
from myxtts.data.verify import quick_check
from myxtts.errors import DataError

# A mel takes milliseconds and goes to a worker by itself, so that little is lost when it is killed; texts go in
# numbers that are worth calling the phonemiser for.
CHUNK = {"mel": 1, "token": 64}
_BYTES_PER_LETTER = 10  # of tokens: blanks between symbols, four bytes each, numbers written out


@dataclass
class StoreBuilder:
    """One build in one place, with the lock held.

    Attributes:
        job: what is to be done.
        target: where.
        sources: what may be taken over.
        lock: file descriptor of the lock.
        spare: room to leave on the disk, as a share of the store's size.
        most_failed: share of clips that may be unreadable.
        publish_always: make a new version even if it has the content of the current one.
        failed: clips that could not be computed, as they are found.
    """

    job: BuildJob
    target: Target
    sources: Sources
    lock: int
    spare: float = 0.0
    most_failed: float = 1.0
    publish_always: bool = False
    failed: list[FailedClip] = field(default_factory=list)

    def run(self) -> Precomputed:
        """Builds, publishes, and removes what is no longer needed.

        Raises:
            As `myxtts.data.precompute.precompute`.
        """
        job, folder, layout = self.job, self.target.folder, self.target.layout
        if not self.sources.trusted:
            job.hash_sources()
        plan = job.plan
        self.failed += job.failed
        expected = self._estimate(plan)
        plan = self._leave_out(plan, expected.failed)
        self._require_readable(plan)
        with disk_errors(folder.path):
            folder.building.mkdir(exist_ok=True)
        settings = settings_to_json(job.mel, job.config.mel_dtype, job.text)
        with WorkerPool(job.workers, settings, self.lock) as pool:
            tokens = self._column(layout.token, plan, "text").build(pool)
            plan = self._leave_out(plan, self._failures(plan, tokens))
            mels = self._column(layout.mel, plan, "mels").build(pool)
            has_mel = mels.records["length"] != FAILED
            tokens_computed = tokens.computed[tokens.records["length"] != FAILED][has_mel]
            if not has_mel.all():
                plan = self._leave_out(plan, self._failures(plan, mels))
                tokens = self._column(layout.token, plan, "text").build(pool)
        self._require_readable(plan)
        failed = self._in_order()
        with disk_errors(folder.path):
            manifest = write_version(
                folder.building,
                plan.clips,
                _usable(mels.records),
                _usable(tokens.records),
                self.target.settings,
                job.mel.padding_value,
                failed,
            )
            published = self.publish_always or not self._is_current(manifest.to_bytes())
            if published:
                folder.publish()
            self.sources.close()
            folder.remove_unneeded()
        with FeatureStore.open(folder.path, job.verify) as store:
            return job.result(
                store,
                failed,
                published,
                mels_computed=int(mels.computed[has_mel].sum()),
                tokens_computed=int(tokens_computed.sum()),
                audio_seconds=expected.seconds,
            )

    def _column(self, column: Column, plan: BuildPlan, stage: str | None = None) -> ColumnBuilder:
        is_mel = column.name == "mel"
        clips = plan.clips
        hop_seconds = self.job.mel.hop_length / self.job.mel.sample_rate if is_mel else 0.0
        if stage is not None:
            self.job.progress.stage(stage, len(clips))

        def item(row: int) -> Any:
            clip = clips[row]
            return clip.audio_path if is_mel else (clip.text, clip.language, clip.ipa)

        sources: list[Reusable] = self.sources.mel if is_mel else self.sources.token
        return ColumnBuilder(
            column=column,
            folder=self.target.folder.building,
            salvage=self.target.folder.salvage,
            plan=plan.mel if is_mel else plan.token,
            by_content=plan.by_content or not is_mel,
            sources=sources,
            item=item,
            chunk=CHUNK[column.name],
            padding=self.target.layout.padding[column.name],
            on_progress=lambda done, rows: self.job.progress.advance(done, rows * hop_seconds),
        )

    def _estimate(self, plan: BuildPlan) -> Estimate:
        """Looks at what has to be computed, and makes sure that the disk has room for it."""
        layout = self.target.layout
        with disk_errors(self.target.folder.path):
            mels = self._column(layout.mel, plan).survey()
            tokens = self._column(layout.token, plan).survey()
        expected = estimate(plan, mels.missing, self.job.mel, self.job.workers)
        mel_rows = mels.known_rows - mels.done_rows + int(expected.mel_rows.sum())
        letters = sum(len(plan.clips[row].text) for row in tokens.missing)
        ids = sum(len(clip.id) * 2 for clip in plan.clips)
        needed = (
            mel_rows * layout.mel.row_bytes
            + (tokens.known_rows - tokens.done_rows) * layout.token.row_bytes
            + letters * _BYTES_PER_LETTER
            + index_bytes(len(plan.clips), ids)
        )
        require_space(self.target.folder.path, needed, int(needed * self.spare))
        return expected

    def _leave_out(self, plan: BuildPlan, failed: Sequence[FailedClip]) -> BuildPlan:
        self.failed += failed
        return plan.without([entry.id for entry in failed])

    def _failures(self, plan: BuildPlan, built: BuiltColumn) -> list[FailedClip]:
        return [FailedClip(plan.clips[row].id, reason, *plan.stamp(row)) for row, reason in built.reasons.items()]

    def _require_readable(self, plan: BuildPlan) -> None:
        if not plan.clips:
            count = len(self.job.metadata.clips)
            raise DataError(f"none of the {count:,} clips can be computed; the first: {self.failed[0].reason}")
        # A line whose audio is not there has not become a clip, and speaks for an incomplete data set just the same.
        absent = self.job.metadata.without_audio()
        count = len(self.job.metadata.clips) + len(absent)
        reasons = [entry.reason for entry in self.failed] + [problem.message for problem in absent]
        if len(reasons) > self.most_failed * count:
            raise TooManyFailures(f"{len(reasons):,} of {count:,} clips cannot be read, the first: {reasons[0]}")

    def _in_order(self) -> list[FailedClip]:
        """The failures in the order of the data set, one per clip."""
        by_id = {entry.id: entry for entry in self.failed}
        return [by_id[clip.id] for clip in self.job.metadata.clips if clip.id in by_id]

    def _is_current(self, manifest: bytes) -> bool:
        """Whether the current version can be opened and has this manifest, and with its checksums this content."""
        current = self.target.folder.current()
        if current is None or not quick_check(current).sound:
            return False
        return (current / MANIFEST_FILE).read_bytes() == manifest


def _usable(records: np.ndarray) -> np.ndarray:
    return records[records["length"] != FAILED]
