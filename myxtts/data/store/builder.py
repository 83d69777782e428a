"""Builds a new version of a store in one place, with the lock held: its columns, then the index, then the manifest.

Columns are built in the order of the registry, the cheap ones first. A clip that fails in one column is not computed
for the next, and the columns that already have it are laid out again without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.data.clips import Clip, number_names
from myxtts.data.clips.audio_headers import probe_audio
from myxtts.data.store.column_builder import BuiltColumn, ColumnBuilder
from myxtts.data.store.columns import AUDIO, TEXT, ColumnEntry
from myxtts.data.store.feature_store import FeatureStore
from myxtts.data.store.folder import SALVAGE, StoreFolder, disk_errors, require_space, synced_file
from myxtts.data.store.format import INDEX_FILE, MANIFEST_FILE, Column, FailedClip, Manifest
from myxtts.data.store.index import Index, index_bytes, pack_ids, write_column_index
from myxtts.data.store.job import BuildJob, ClipList, PrecomputeResult, TooManyFailuresError
from myxtts.data.store.records import FAILED
from myxtts.data.store.target import ReusableColumns, Target, fingerprint
from myxtts.data.store.verify import quick_check
from myxtts.data.store.workers import WorkerPool, computers_of
from myxtts.errors import DataError, StoreError


class BuildPlace(NamedTuple):
    """Where columns are built.

    Attributes:
        folder: of the data files and their journals.
        salvage: where an interrupted build goes that cannot be continued in place.
        shards: folders in which others have computed clips.
    """

    folder: Path
    salvage: Path
    shards: Sequence[Path] = ()

    @classmethod
    def of_store(cls, folder: StoreFolder) -> BuildPlace:
        """The place of a store's next version."""
        shards = folder.shards()
        aside = [path for shard in shards for path in sorted((shard / SALVAGE).glob("*"))]
        return cls(folder.building, folder.salvage, [*shards, *aside])


@dataclass
class ColumnsBuild:
    """What building a store and building a shard of one have in common; with the lock held.

    Attributes:
        job: what is to be done.
        target: where.
        reusable: what may be reused.
        lock: file descriptor of the lock.
        spare: room to leave on the disk, as a share of the store's size.
        failed: clips that could not be computed, as they are found.
    """

    job: BuildJob
    target: Target
    reusable: ReusableColumns
    lock: int
    spare: float = 0.0
    failed: list[FailedClip] = field(default_factory=list)

    def _columns(self) -> list[tuple[ColumnEntry, Column]]:
        return list(zip(self.target.entries, self.target.columns, strict=True))

    def _pool(self) -> WorkerPool:
        return WorkerPool(self.job.workers, computers_of(self.target.entries, self.job.config), self.lock)

    def _builder(
        self, entry: ColumnEntry, column: Column, plan: ClipList, place: BuildPlace, reuse: bool = True
    ) -> ColumnBuilder:
        progress, seconds_per_row = self.job.progress, entry.seconds_per_row(self.job.config)
        return ColumnBuilder(
            column=column,
            folder=place.folder,
            salvage=place.salvage,
            shards=place.shards,
            plan=plan.records[entry.source.name],
            by_content=plan.by_content or not entry.source.has_time,
            sources=self.reusable.by_column[entry.name] if reuse else (),
            item=lambda row: entry.source.item(plan.clips[row]),
            chunk=entry.clips_per_task,
            on_progress=lambda done, rows: progress.advance(done, rows * seconds_per_row),
        )

    def missing(self, place: BuildPlace) -> dict[str, np.ndarray]:
        """By column, the positions in the plan of the clips that would have to be computed there."""
        plan = self.job.plan
        with disk_errors(self.target.folder.path):
            return {
                entry.name: self._builder(entry, column, plan, place).survey().missing
                for entry, column in self._columns()
            }

    def _build_column(
        self, entry: ColumnEntry, builder: ColumnBuilder, plan: ClipList, pool: WorkerPool
    ) -> BuiltColumn:
        """Builds one column, watched; clips that fail are among `failed` afterwards."""
        self.job.progress.stage(entry.stage, len(plan.clips))
        result = builder.build(pool)
        self.failed += [
            FailedClip(plan.clips[row].id, reason, *plan.stamp(row)) for row, reason in result.reasons.items()
        ]
        return result

    def _look_ahead(self, builders: Mapping[str, tuple[ColumnBuilder, ClipList]]) -> float:
        """Looks at what has to be computed, and makes sure that the disk has room for it.

        Clips whose header cannot be read are among `failed` afterwards.

        Args:
            builders: by column, what builds it, and of which clips.

        Returns:
            The seconds of audio that will be read.
        """
        config = self.job.config
        with disk_errors(self.target.folder.path):
            surveys = {name: builder.survey() for name, (builder, _) in builders.items()}
        unread: dict[str, tuple[ClipList, int]] = {}  # by id, the plan and the row in it
        for entry in self.target.entries:
            if entry.source is AUDIO and entry.name in builders:
                plan = builders[entry.name][1]
                unread |= {plan.clips[row].id: (plan, row) for row in surveys[entry.name].missing.tolist()}
        headers = probe_audio([plan.clips[row] for plan, row in unread.values()], self.job.workers)
        samples = dict(zip(unread, headers.samples_at(config.sample_rate).tolist(), strict=True))
        longest = max((plan.clips for _, plan in builders.values()), key=len)
        needed = index_bytes(len(longest), sum(len(clip.id) * 2 for clip in longest))
        for entry, column in self._columns():
            if entry.name in builders:
                survey, plan = surveys[entry.name], builders[entry.name][1]
                needed += (survey.known_rows - survey.done_rows) * column.row_bytes
                missing = (plan.clips[row] for row in survey.missing.tolist())
                needed += sum(entry.expected_bytes(config, clip, samples.get(clip.id, 0)) for clip in missing)
        require_space(self.target.folder.path, needed, int(needed * self.spare))
        for problem in headers.problems:
            if (clip_id := problem.clip_id) is not None:
                plan, row = unread[clip_id]
                self.failed.append(FailedClip(clip_id, problem.message, *plan.stamp(row)))
        return float(headers.seconds.sum())

    def _left(self, plan: ClipList) -> ClipList:
        """The clips of a plan that have not failed."""
        return plan.without([entry.id for entry in self.failed])


@dataclass
class StoreBuilder(ColumnsBuild):
    """One build of a whole store in one place.

    Attributes:
        most_failed: share of clips that may be unreadable.
        publish_always: make a new version even if it has the content of the current one.
    """

    most_failed: float = 1.0
    publish_always: bool = False

    def run(self) -> tuple[FeatureStore, PrecomputeResult]:
        """Builds, publishes, removes what is no longer needed, and opens the store.

        Raises:
            As `myxtts.data.precompute.precompute`.
        """
        job, folder = self.job, self.target.folder
        if not self.reusable.trusted:
            job.hash_sources()
        self.failed += job.failed
        self._place = BuildPlace.of_store(folder)
        audio_seconds = self._look_ahead(
            {
                entry.name: (self._builder(entry, column, job.plan, self._place), job.plan)
                for entry, column in self._columns()
            }
        )
        plan = self._left(job.plan)
        self._require_readable(plan)
        with disk_errors(folder.path):
            folder.building.mkdir(exist_ok=True)
        with self._pool() as pool:
            plan, records, computed = self._build_columns(plan, pool)
        self._require_readable(plan)
        failed = self._in_order()
        with disk_errors(folder.path):
            manifest = write_version(folder.building, plan.clips, self.target, records, failed)
            published = self.publish_always or not self._is_current(manifest.to_bytes())
            if published:
                folder.publish()
            self.reusable.close()
            folder.remove_unneeded()
        store = job.open(self.target)
        return store, job.result(store, failed, published, computed, audio_seconds)

    def _build_columns(
        self, plan: ClipList, pool: WorkerPool
    ) -> tuple[ClipList, dict[str, np.ndarray], dict[str, int]]:
        """The clips that have all columns, their records by column, and how many were computed for each."""
        built: dict[str, np.ndarray] = {}
        computed: dict[str, np.ndarray] = {}  # keys of clips

        def build(entry: ColumnEntry, column: Column) -> BuiltColumn:
            return self._build_column(entry, self._builder(entry, column, plan, self._place), plan, pool)

        for entry, column in self._columns():
            result = build(entry, column)
            plan = self._left(plan)
            built[entry.name] = result.records[result.records["length"] != FAILED]
            computed[entry.name] = result.records["clip"][result.computed]
        kept = plan.records[TEXT.name]["clip"]
        for entry, column in self._columns():
            if len(built[entry.name]) > len(kept):
                built[entry.name] = build(entry, column).records
        return plan, built, {name: int(np.isin(kept, keys).sum()) for name, keys in computed.items()}

    def _require_readable(self, plan: ClipList) -> None:
        if not plan.clips:
            count = len(self.job.metadata.clips)
            raise DataError(f"none of the {count:,} clips can be computed; the first: {self.failed[0].reason}")
        # A line whose audio is not there has not become a clip, and speaks for an incomplete data set just the same.
        absent = self.job.metadata.without_audio()
        count = len(self.job.metadata.clips) + len(absent)
        reasons = [entry.reason for entry in self.failed] + [problem.message for problem in absent]
        if len(reasons) > self.most_failed * count:
            raise TooManyFailuresError(f"{len(reasons):,} of {count:,} clips cannot be read, the first: {reasons[0]}")

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


def write_version(
    folder: Path,
    clips: Sequence[Clip],
    target: Target,
    records: Mapping[str, np.ndarray],
    failed: Sequence[FailedClip],
) -> Manifest:
    """Puts the indexes and the manifest on the disk, the manifest last, which makes the folder a version.

    Args:
        folder: the building folder, with all data files complete.
        clips: the clips of the store, in order.
        target: its settings and columns.
        records: by column, RECORD [N], where the clips lie.
        failed: clips of the data set that are not among them.

    Raises:
        StoreError: columns were made from different audio.
    """
    id_end, id_bytes = pack_ids([clip.id for clip in clips])
    speakers, speaker = number_names(clip.speaker for clip in clips)
    languages, language = number_names(clip.language for clip in clips)
    index = {"id_end": id_end, "speaker": speaker, "language": language}
    for entry in target.entries:
        made = records[entry.name]
        index |= {f"{entry.name}_{part}": made[part] for part in ("offset", "checksum", "length")}
        for part, name in {"clip": "clip_key", **entry.source.index_entries}.items():
            differing = np.flatnonzero(index.setdefault(name, made[part]) != made[part])
            if len(differing):
                raise StoreError(
                    f"the audio of {len(differing):,} clips changed, the first of them {clips[differing[0]].id}: "
                    "run `myxtts precompute --verify-source` when the data set is complete"
                )
    with synced_file(folder / INDEX_FILE) as file:
        index_checksum = Index(index, id_bytes).write(file)
    column_checksums = {}
    for column in target.columns:
        if column.optional:
            with synced_file(folder / column.index_file) as file:
                column_checksums[column.name] = write_column_index(file, records[column.name])
    manifest = Manifest.of(
        target.columns,
        {name: int(made["length"].sum()) + 1 for name, made in records.items()},
        column_checksums,
        fingerprint=fingerprint(target.settings),
        settings=target.settings,
        clips=len(clips),
        index_checksum=index_checksum,
        speakers=speakers,
        languages=languages,
        failed=tuple(failed),
    )
    temporary = folder / (MANIFEST_FILE + ".new")
    with synced_file(temporary) as file:
        file.write(manifest.to_bytes())
    os.rename(temporary, folder / MANIFEST_FILE)
    return manifest
