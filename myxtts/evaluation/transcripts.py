"""Finds clips whose text is not what is said in them, with a voice that was trained on the data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.data.clips import Clip
from myxtts.data.precompute import NoProgress, WorkProgress
from myxtts.errors import DataError, TextError
from myxtts.evaluation.clips import EvaluationClips
from myxtts.evaluation.held_out import DataPath, HeldOutData
from myxtts.inference.reference import reference_crops
from myxtts.models.checkpoint import Checkpoint, as_checkpoint, load_model
from myxtts.models.text_fit import WRONG, text_misfit
from myxtts.text import TextSettings, Tokenizer, language_id

_BATCH = 16


@dataclass(frozen=True)
class TranscriptFit:
    """How well a clip's text fits its recording.

    Attributes:
        clip: as the metadata has it.
        misfit: the error of its text over that of other clips' texts: small where it fits, about 1 where it does not.
    """

    clip: Clip
    misfit: float

    @property
    def wrong(self) -> bool:
        """Whether the text is probably not what is said."""
        return self.misfit >= WRONG

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"id": self.clip.id, "misfit": self.misfit, "wrong": self.wrong, "text": self.clip.text}


def rank_transcripts(
    checkpoint: str | os.PathLike[str] | Checkpoint,
    data_path: DataPath | None = None,
    progress: WorkProgress | None = None,
) -> list[TranscriptFit]:
    """All clips of a data set, those whose text fits least first.

    Args:
        checkpoint: a voice of the same language, best one that was trained on this data set; its folder, or what
            `read_checkpoint` returned.
        data_path: the data set's folder, or several; None: the one that the checkpoint was trained on.
        progress: is told how the work goes.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
        DataError: the data set cannot be used, or has fewer than two clips.
    """
    progress = progress or NoProgress()
    saved = as_checkpoint(checkpoint)
    data = HeldOutData.find(saved, data_path, "all")
    clips = EvaluationClips(data.config, data.metadata)
    if len(clips) < 2:
        raise DataError(f"{', '.join(data.config.dataset_paths)}: has {len(clips)} usable clips; two are needed")
    judge = _Judge(saved, clips)
    progress.stage("comparing texts and recordings", len(clips))
    misfits = np.zeros(len(clips))
    # Clips of about the same length together: their texts are what each is compared with.
    order = np.argsort(clips.lengths, kind="stable")
    for rows in _batches(order):
        misfits[rows] = judge(rows)
        progress.advance(len(rows))
    ranked = np.argsort(-misfits, kind="stable").tolist()
    return [TranscriptFit(clips[row], round(float(misfits[row]), 4)) for row in ranked]


def _batches(order: np.ndarray) -> list[np.ndarray]:
    """Rows in batches; the last has at least half of the usual size where there is more than one."""
    return np.array_split(order, max(1, round(len(order) / _BATCH)))


class _Judge:
    """Compares the texts of batches of clips with their recordings."""

    def __init__(self, checkpoint: Checkpoint, clips: EvaluationClips) -> None:
        config = checkpoint.config.data
        model = load_model(checkpoint)
        self._clips = clips
        self._tokenizer = Tokenizer(TextSettings.from_config(config))
        self._extra = config.extra_languages
        self._reference_seconds = config.reference_seconds
        bands = clips.settings.n_mels
        names = {"tokens": [None, None], "token_lengths": [None], "mel_lengths": [None], "language": [None]}
        spec = {name: tf.TensorSpec(shape, tf.int32) for name, shape in names.items()}
        mels = ["mel", "reference_mel"] if self._reference_seconds else ["mel"]
        spec |= {name: tf.TensorSpec([None, None, bands], tf.float32) for name in mels}
        self._misfit = tf.function(lambda batch: text_misfit(model, batch), input_signature=[spec], autograph=False)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        clips = [self._clips[row] for row in rows]
        mels = [self._clips.load_mel(row) for row in rows]
        tokens = [self._tokens(clip) for clip in clips]
        batch = {
            "tokens": _padded(tokens, np.int32),
            "token_lengths": np.array([len(ids) for ids in tokens], np.int32),
            "mel": _padded(mels, np.float32),
            "mel_lengths": np.array([len(mel) for mel in mels], np.int32),
            "language": np.array([language_id(clip.language, self._extra) for clip in clips], np.int32),
        }
        if self._reference_seconds:
            settings, seconds = self._clips.settings, self._reference_seconds
            crops = [reference_crops(mel, settings, seconds)[0] for mel in mels]
            batch["reference_mel"] = _padded(crops, np.float32, np.log(settings.log_floor))
        return self._misfit({name: tf.constant(value) for name, value in batch.items()}).numpy()

    def _tokens(self, clip: Clip) -> np.ndarray:
        """int32 [T]; none if the text cannot be turned into symbols, which fits no recording."""
        try:
            return self._tokenizer.encode_batch([clip.text], [clip.language], [clip.ipa])[0]
        except TextError:
            return np.zeros(0, np.int32)


def _padded(values: Sequence[np.ndarray], dtype: type, padding: float = 0) -> np.ndarray:
    """[B, longest, …]."""
    longest = max(1, *map(len, values))
    result = np.full((len(values), longest, *np.shape(values[0])[1:]), padding, dtype)
    for place, value in enumerate(values):
        result[place, : len(value)] = value
    return result
