"""When alignments are searched for, kept, and reused (`freeze_alignment_after`).

In the first whole epoch after that step each clip's alignment is found once more and kept; from then on no step
searches. Which batches that concerns follows from their numbers alone, so a resumed run does the same.
"""

from __future__ import annotations

import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import UsageError
from myxtts.training.kept_alignments import KeptAlignments
from myxtts.training.step import TrainingStep
from myxtts.training.steps_in_flight import CompletedStep
from myxtts.training.training_data import TrainingData
from myxtts.training.training_state import RunState

SEARCH, KEEP, REUSE = "search", "keep", "reuse"


class AlignmentPhases:
    """Follows a run through the phases.

    Args:
        config: `freeze_alignment_after`; none: every step searches.
        data: must be the trainer's own, for it has to be known which clips are in a batch.
        run: where the run stands; its `alignments` is the phase.

    Attributes:
        kept: the alignments, or None.

    Raises:
        UsageError: alignments cannot be kept for this data.
    """

    def __init__(self, config: TrainingConfig, data: TrainingData, run: RunState) -> None:
        self.kept: KeptAlignments | None = None
        self._run = run
        if config.freeze_alignment_after is None:
            run.alignments = SEARCH
            return
        epoch = data.batches_per_epoch
        if data.token_lengths is None or epoch is None:
            raise UsageError("freeze_alignment_after needs the datasets of prepare_datasets, which know their clips")
        self.kept = KeptAlignments(data.token_lengths)
        wanted = config.freeze_alignment_after * config.gradient_accumulation_steps
        if run.alignments == KEEP:
            # At least one batch of that epoch is done, perhaps all.
            self._keep_from = (run.batch - 1) // epoch * epoch
        else:
            self._keep_from = -(-max(wanted, run.batch) // epoch) * epoch
        self._reuse_from = self._keep_from + epoch

    def due(self) -> str | None:
        """The phase that the next batch begins, if it begins one."""
        if self.kept is None:
            return None
        if self._run.alignments == SEARCH and self._run.batch == self._keep_from:
            return KEEP
        if self._run.alignments == KEEP and self._run.batch == self._reuse_from:
            return REUSE
        return None

    def enter(self, phase: str, step: TrainingStep) -> None:
        """Begins a phase; for `reuse` no step may be in flight."""
        self._run.alignments = phase
        if phase == REUSE and self.kept is not None:
            step.use_alignments(self.kept)

    def completed(self, done: CompletedStep, index: tf.Tensor | None, durations: tf.Tensor) -> None:
        """Takes in a completed step, which belongs to a phase by its number."""
        if self.kept is None or index is None or self._run.alignments == REUSE:
            return
        if self._keep_from < done.step.batch <= self._reuse_from:
            self.kept.keep(index.numpy(), durations.numpy())
