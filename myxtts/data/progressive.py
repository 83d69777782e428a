"""Training that begins before its store is there: batches of runtime features first, of the store as soon as it is.

Both halves follow the same plan and give the same bytes (`BatchSource.exact`), so a run does not depend on when the
store takes over, and a position counts in both. The change happens between two epochs: while the last batches of one
are used, a thread opens the store and loads the first batch of the next.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from myxtts.config.config import DataConfig
from myxtts.data.background_build import BackgroundBuild
from myxtts.data.batch_source import BatchSource
from myxtts.data.batches.plan import BatchOrder
from myxtts.data.batches.position import Position
from myxtts.data.clips.metadata import Split
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.modes import PreparedData, minutes_text, prepare
from myxtts.errors import MyXTTSError

Batch = Mapping[str, tf.Tensor]

_SPLITS: tuple[Split, ...] = ("train", "val")


def batches_of_run(
    dataset: LJSpeechDataset,
    prepared: PreparedData,
    config: DataConfig,
    position: Position | None,
    say: Callable[[str], None],
) -> tuple[BatchSource, BatchSource]:
    """The training and the validation batches of a run: of the store, or of computed features until it is there.

    Args:
        dataset: the data set.
        prepared: as `dataset.prepare` gave it.
        config: how it is loaded.
        position: where a run continues; None for a new one.
        say: is told in one line when and why features are computed.

    Raises:
        DataError: no clip of a split can be used.
    """
    if position is not None:
        prepared = replace(prepared, source_of_run=position.plan.source)
    batches = [BatchSource.build(prepared, config, split) for split in _SPLITS]
    if prepared.building is not None:
        say(f"features are computed while training: {prepared.reason}")
        store = PendingStore(prepared, prepared.building, say)
        batches = [ProgressiveSource.of(one, split, store) for one, split in zip(batches, _SPLITS, strict=True)]
    elif position is not None and prepared.store is not None and position.plan.hash != batches[0].plan.hash:
        # It may have been begun without the store, whose clips then turned out to be others.
        settings = prepared.store.manifest.settings
        before = PreparedData("runtime", "the store has other clips", dataset.metadata, config, stands_for=settings)
        before = replace(before, source_of_run=prepared.source_of_run)
        computed = BatchSource.build(before, config, "train")
        if computed.plan.hash == position.plan.hash:
            say("features are computed while training: the store gives other batches than this run was begun with")
            batches = [computed, BatchSource.build(before, config, "val")]
    train, validation = batches
    return train, validation


class PendingStore:
    """The store that is being built, and the batches of it once it is complete.

    Args:
        prepared: the data set, with a build under way.
        say: is told in one line when the store takes over, or why it does not.

    Attributes:
        building: the build.
    """

    def __init__(self, prepared: PreparedData, building: BackgroundBuild, say: Callable[[str], None]) -> None:
        self.building = building
        self.say = say
        self._prepared = prepared
        self._complete: PreparedData | None = None
        self._sources: dict[tuple[Split, str], BatchSource | None] = {}
        self._lock = threading.Lock()

    def source(self, runtime: BatchSource, split: Split) -> BatchSource | None:
        """The same batches from the store; None while it is not complete, or if it would give other batches."""
        if self.building.running:
            return None
        with self._lock:
            key = split, runtime.plan.hash
            if key not in self._sources:
                self._sources[key] = self._open(runtime, split)
            return self._sources[key]

    def _open(self, runtime: BatchSource, split: Split) -> BatchSource | None:
        if self.building.error is not None:
            self.say(f"features are computed while training: {self.building.error}")
            return None
        try:
            if self._complete is None:
                complete = prepare(self._prepared.config, self._prepared.metadata)
                self._complete = replace(complete, source_of_run=self._prepared.source_of_run)
            stored = BatchSource.build(self._complete, runtime.config, split)
        except MyXTTSError as error:
            self.say(f"features are computed while training: {str(error).splitlines()[0]}")
            return None
        if stored.plan.hash != runtime.plan.hash:
            # A header that promised more than its file has, or a clip that only failed when it was computed.
            self.say(
                f"the {split} batches of the store would be others, so features are computed to the end of the run"
            )
            return None
        return stored


@dataclass(frozen=True)
class ProgressiveSource(BatchSource):
    """The batches of a split whose store is being built.

    Attributes:
        split: which.
        store: the store.
    """

    split: Split = "train"
    store: PendingStore | None = None

    @classmethod
    def of(cls, source: BatchSource, split: Split, store: PendingStore) -> ProgressiveSource:
        """A source of runtime features that changes to a store."""
        return cls(**vars(source), split=split, store=store)

    def dataset(self, order: BatchOrder | None = None, **changes: Any) -> Any:
        """The split's batches: `element_spec`, `cardinality` and iteration are those of a `tf.data.Dataset`."""
        assert self.store is not None
        return ProgressiveBatches(self, self.store, replace(order or BatchOrder(), **changes))

    def runtime_dataset(self, order: BatchOrder) -> tf.data.Dataset:
        """Its batches of runtime features."""
        return super().dataset(order)


class ProgressiveBatches:
    """Batches of runtime features, and from the first epoch on that begins with a complete store, of the store.

    Attributes:
        changed_at: the epoch from which on batches came from the store, in the last iteration; None before.
    """

    def __init__(self, source: ProgressiveSource, store: PendingStore, order: BatchOrder) -> None:
        self._source = source
        self._store = store
        self._order = order
        self._runtime = source.runtime_dataset(order)
        self.changed_at: int | None = None

    @property
    def element_spec(self) -> Any:
        return self._runtime.element_spec

    def cardinality(self) -> tf.Tensor:
        return self._runtime.cardinality()

    def __iter__(self) -> Iterator[Batch]:
        self.changed_at = None
        if self._order.epochs is None:
            return self._endless()
        stored = self._stored()  # one pass, such as validation, comes from one of the two
        return iter(self._runtime if stored is None else stored.dataset(self._order))

    def _endless(self) -> Iterator[Batch]:
        batches: Iterator[Batch] = iter(self._runtime)
        epoch, left = self._order.start_epoch, len(self._source.plan) - self._order.start_step
        ahead: _LaterEpoch | None = None
        reach = 1  # epochs from this one to the one that is made ready
        while True:
            for _ in range(left):
                if ahead is None and not self._store.building.running:
                    ahead = _LaterEpoch(self._stored, self._order, epoch + reach)
                yield next(batches)
            epoch, left = epoch + 1, len(self._source.plan)
            if self._store.building.running:
                left_text = minutes_text(self._store.building.seconds_left)
                self._store.say(f"the store is being built, about {left_text} left")
            elif ahead is not None and ahead.ready.is_set() and ahead.batches is None:
                yield from batches  # the store cannot be used
            elif ahead is not None and ahead.ready.is_set() and ahead.epoch == epoch:
                self.changed_at = epoch
                self._store.say(f"epoch {epoch + 1:,}: batches come from the store from here on")
                yield from ahead.batches or ()
            elif ahead is not None and ahead.epoch == epoch:
                ahead, reach = None, 2 * reach  # epochs are shorter than it takes to begin one: nothing is waited for

    def _stored(self) -> BatchSource | None:
        return self._store.source(self._source, self._source.split)


class _LaterEpoch:
    """The batches of the store from an epoch on, made ready by a thread.

    Attributes:
        epoch: the epoch.
        ready: they are, and the first one is loaded.
        batches: None if the store does not have them.
    """

    def __init__(self, stored: Callable[[], BatchSource | None], order: BatchOrder, epoch: int) -> None:
        self.epoch = epoch
        self.ready = threading.Event()
        self.batches: Iterator[Batch] | None = None
        self._stored = stored
        self._order = replace(order, start_epoch=epoch, start_step=0)
        threading.Thread(target=self._prepare, name="later-epoch", daemon=True).start()

    def _prepare(self) -> None:
        source = self._stored()
        if source is not None:
            batches = iter(source.dataset(self._order))
            self.batches = itertools.chain([next(batches)], batches)
        self.ready.set()
