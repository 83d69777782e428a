"""Alignments that are found once per clip and then reused (`freeze_alignment_after`).

On a GPU the search is a loop of hundreds of small kernels. Once the model has learned which frame belongs to which
token, every search finds the same again.

In the first whole epoch after step `freeze_alignment_after` each clip's alignment is found once more and kept; from
then on no step searches. Which batches are in which phase follows from their numbers alone, so a resumed run does the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.training.collective import Collective
    from myxtts.training.step import TrainingStep
    from myxtts.training.steps_in_flight import CompletedStep
    from myxtts.training.training_data import TrainingData
    from myxtts.training.training_state import RunState

SEARCH, KEEP, REUSE = "search", "keep", "reuse"


class AlignmentCache:
    """Durations of the clips' tokens, packed one clip after another.

    Args:
        token_lengths: int [N], tokens of each clip; a batch's `index` are positions here.

    Attributes:
        durations: uint16, of all tokens of all clips.
        known: bool [N], the clips whose durations are here.
    """

    def __init__(self, token_lengths: np.ndarray) -> None:
        self._lengths = token_lengths.astype(np.int64)
        self._offsets = np.cumsum(self._lengths) - self._lengths
        self.durations = np.zeros(int(self._lengths.sum()), np.uint16)
        self.known = np.zeros(len(token_lengths), bool)
        self._found = np.zeros(len(token_lengths), bool)  # by this process, and not in the others' caches

    def keep(self, index: np.ndarray, durations: np.ndarray) -> None:
        """Keeps what a step found: for the clips int64 [B], where −1 is an empty place, whole numbers [B, T]."""
        for place in np.flatnonzero(index >= 0):
            clip = index[place]
            found = durations[place, : self._lengths[clip]]
            self.durations[self._offsets[clip] : self._offsets[clip] + len(found)] = found
            self.known[clip] = self._found[clip] = True

    def collect(self, collective: Collective) -> None:
        """Where several processes train together, brings what each has found to all. Every one must call it."""
        # A clip is found by one process alone; what all know already is brought by the chief.
        mine = self.known if collective.is_chief else self._found
        tokens = np.where(np.repeat(mine, self._lengths), self.durations, 0).astype(np.float32)
        with collective.lost_ranks():
            durations, known = collective.sum([tf.constant(tokens), tf.constant(mine.astype(np.float32))])
        self.durations[:] = durations.numpy()
        self.known[:] = known.numpy() > 0
        self._found[:] = False

    def on_device(self) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
        """A graph function from `index` int64 [B] and `tokens` int32 [B, T] to durations int32 [B, T]."""
        # The entry after the last stands for padding, the clip after the last for an empty place.
        # Numbers up to 65,535 as float32: int32 variables stay on the host, where XLA on a GPU cannot read them.
        durations = tf.Variable(np.append(self.durations, 0).astype(np.float32), trainable=False)
        offsets = tf.constant(np.append(self._offsets, 0))
        lengths = tf.constant(np.append(self._lengths, 0))
        padding = len(self.durations)
        empty = len(self.known)

        def look_up(index: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
            clip = tf.where(index < 0, tf.constant(empty, tf.int64), index)
            token = tf.range(tf.shape(tokens, tf.int64)[1])[None]  # [1, T]
            inside = token < tf.gather(lengths, clip)[:, None]  # [B, T]
            place = tf.where(inside, tf.gather(offsets, clip)[:, None] + token, padding)
            return tf.cast(tf.gather(durations, place), tf.int32)

        return look_up


class AlignmentPhases:
    """Moves a run from searching alignments to keeping and to reusing them.

    Args:
        config: without `freeze_alignment_after` every step searches.
        data: from `prepare_datasets`, since the clips of each batch must be known.
        run: its `alignments` is the current phase.
        collective: the processes that train together; None: this one alone.

    Attributes:
        cache: the alignments kept so far; None if every step searches.

    Raises:
        UsageError: alignments cannot be kept for this data.
    """

    def __init__(
        self, config: TrainingConfig, data: TrainingData, run: RunState, collective: Collective | None = None
    ) -> None:
        self.cache: AlignmentCache | None = None
        self._collective = collective
        self._run = run
        if config.freeze_alignment_after is None:
            run.alignments = SEARCH
            return
        epoch = data.batches_per_epoch
        if data.token_lengths is None or epoch is None:
            raise UsageError("freeze_alignment_after needs the datasets of prepare_datasets, which know their clips")
        self.cache = AlignmentCache(data.token_lengths)
        wanted = config.freeze_alignment_after * config.gradient_accumulation_steps
        if run.alignments == KEEP:
            # At least one batch of that epoch is done, perhaps all of them.
            self._keep_from = (run.batch - 1) // epoch * epoch
        else:
            self._keep_from = -(-max(wanted, run.batch) // epoch) * epoch
        self._reuse_from = self._keep_from + epoch

    def due(self) -> str | None:
        """The phase that starts with the next batch; None if none does."""
        if self.cache is None:
            return None
        if self._run.alignments == SEARCH and self._run.batch == self._keep_from:
            return KEEP
        if self._run.alignments == KEEP and self._run.batch == self._reuse_from:
            return REUSE
        return None

    def enter(self, phase: str, step: TrainingStep) -> None:
        """Starts a phase. No step may be in flight when `reuse` starts."""
        self.collect()
        self._run.alignments = phase
        if phase == REUSE and self.cache is not None:
            step.use_alignments(self.cache)

    def collect(self) -> None:
        """Brings what each process has found in the phase that keeps to all of them. No step may be in flight."""
        if self.cache is not None and self._collective is not None and self._run.alignments == KEEP:
            self.cache.collect(self._collective)

    def completed(self, done: CompletedStep, index: tf.Tensor | None, durations: tf.Tensor) -> None:
        """Keeps the alignments of a completed step, if its number is in the phase that keeps."""
        if self.cache is None or index is None or self._run.alignments == REUSE:
            return
        if self._keep_from < done.step.batch <= self._reuse_from:
            self.cache.keep(index.numpy(), durations.numpy())
