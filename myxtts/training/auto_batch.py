"""The largest frame budget that fits, found by trying.

On a GPU: the largest budget whose step fits its memory. On a CPU memory seldom limits a batch, and beyond some size a
larger batch only learns more slowly: there the budget grows while it makes the step faster per frame, and within the
memory this process may use.

Trials run in a process of their own, so that one that does not fit ends only that process.
"""

from __future__ import annotations

import json
import logging
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from myxtts.child_program import child_command
from myxtts.config.config import XTTSConfig
from myxtts.data.batches.plan import BatchPlan
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.precompute import WorkProgress
from myxtts.errors import TrainingError
from myxtts.hardware import memory_limit_bytes
from myxtts.training.device import usable_gpus

logger = logging.getLogger(__name__)

# A budget should leave the optimizer some steps in an epoch.
LEAST_BATCHES = 10
# Of the memory that a process may use, the rest is for the input, for checkpoints and for other programs.
MEMORY_SHARE = 0.8
# On a CPU a doubling has to bring this much more frames per second.
LEAST_GAIN = 1.05

Shape = tuple[int, int, int]  # clips, frames, tokens


@dataclass(frozen=True)
class BudgetTrial:
    """A budget whose step fitted.

    Attributes:
        budget: frames per batch.
        shape: of the batch that was tried, the largest that the budget gives.
        seconds: a step took.
        peak_bytes: of memory, so far.
    """

    budget: int
    shape: Shape
    seconds: float
    peak_bytes: int

    @property
    def frames_per_second(self) -> float:
        return self.shape[0] * self.shape[1] / self.seconds

    def __str__(self) -> str:
        clips, frames, tokens = self.shape
        return (
            f"{self.budget:,} frames per batch (such as {clips} × {frames} × {tokens}): "
            f"{self.peak_bytes / 2**30:.1f} GiB, {1e3 * self.seconds:,.0f} ms, {self.frames_per_second:,.0f} frames/s"
        )


def find_frame_budget(
    config: XTTSConfig, progress: WorkProgress | None = None, dataset: LJSpeechDataset | None = None
) -> BudgetTrial:
    """Tries frame budgets for a data set and its model on this machine, and logs each that fitted.

    Args:
        config: of the run. `batch_size` and `max_frames_per_batch` play no part.
        progress: watches the store being made.
        dataset: the configuration's, if it was read already.

    Raises:
        TrainingError: not even a batch of the longest clip fits.
    """
    source = (dataset or LJSpeechDataset(None, config)).batches("train", config, progress)
    on_gpu = bool(usable_gpus(config.training.device))
    lengths = source.clips.mel_lengths[source.plan.rows], source.clips.token_lengths[source.plan.rows]
    budgets = candidate_budgets(*lengths, config)
    limit = None if on_gpu else int(MEMORY_SHARE * min(memory_limit_bytes(), psutil.virtual_memory().available))
    tried = _try(config, budgets, limit)
    if on_gpu and 0 < len(tried) < len(budgets):
        smaller = list(budgets)[len(tried) - 1] * 3 // 2
        tried += _try(config, {smaller: largest_shape(_plan(*lengths, smaller, config))}, limit)
    if not tried:
        clips, frames, tokens = next(iter(budgets.values()))
        raise TrainingError(
            f"not even a batch of {clips} clips × {frames} frames × {tokens} tokens fits; "
            f"lower max_mel_frames ({config.data.max_mel_frames}) or take a smaller model"
        )
    return choose(tried, on_gpu)


def candidate_budgets(mel_lengths: np.ndarray, token_lengths: np.ndarray, config: XTTSConfig) -> dict[int, Shape]:
    """Budgets to try, each twice the one before, and the largest batch that each gives."""
    budget = 1 << min(int(mel_lengths.max()), config.data.max_mel_frames).bit_length()  # more than the longest clip
    candidates: dict[int, Shape] = {}
    plan = _plan(mel_lengths, token_lengths, budget, config)
    while not candidates or len(plan) >= LEAST_BATCHES:
        candidates[budget] = largest_shape(plan)
        budget *= 2
        plan = _plan(mel_lengths, token_lengths, budget, config)
    return candidates


def largest_shape(plan: BatchPlan) -> Shape:
    """The batch of a plan that takes the most memory: what grows fastest is tokens × frames, the alignment."""
    largest = max(plan.buckets, key=lambda bucket: bucket.batch_size * bucket.frames * bucket.tokens)
    return largest.batch_size, largest.frames, largest.tokens


def choose(tried: Sequence[BudgetTrial], on_gpu: bool) -> BudgetTrial:
    """The largest on a GPU; on a CPU the last one that was worth its doubling."""
    if on_gpu:
        return max(tried, key=lambda trial: trial.budget)
    chosen = tried[0]
    for trial in tried[1:]:
        if trial.frames_per_second < LEAST_GAIN * chosen.frames_per_second:
            break
        chosen = trial
    return chosen


def _plan(mel_lengths: np.ndarray, token_lengths: np.ndarray, budget: int, config: XTTSConfig) -> BatchPlan:
    data = config.data
    return BatchPlan(
        mel_lengths,
        token_lengths,
        max_frames_per_batch=budget,
        num_buckets=data.num_buckets,
        max_mel_frames=data.max_mel_frames,
        max_tokens=data.max_tokens,
        long_clips=data.long_clips,
    )


def _try(config: XTTSConfig, budgets: dict[int, Shape], limit: int | None) -> list[BudgetTrial]:
    request = {"config": config.model_dump(), "shapes": list(budgets.values()), "limit_bytes": limit}
    tried: list[BudgetTrial] = []
    enough = False
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            child_command("myxtts.training.memory_trial"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request))
        process.stdin.close()
        for budget, line in zip(budgets, process.stdout, strict=False):
            result: dict[str, Any] = json.loads(line)
            tried.append(BudgetTrial(budget, tuple(result["shape"]), result["seconds"], result["peak_bytes"]))
            logger.info("%s", tried[-1])
            enough = limit is not None and choose(tried, on_gpu=False) is not tried[-1]
            if enough:
                process.kill()
                break
        # A signal (a negative code) is how the system takes memory back; any other code is an error of the trial.
        if process.wait() > 0 and not enough:
            errors.seek(0)
            lines = errors.read().strip().splitlines() or ["no message"]
            raise TrainingError(f"frame budgets cannot be tried: {lines[-1]}")
    return tried
