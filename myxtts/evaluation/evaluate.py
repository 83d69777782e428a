"""Measures how well a trained voice speaks sentences that it was not trained on.

docs/evaluation.md says what each figure means, with its formula, and what it does not say.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.audio.mel import log_mel
from myxtts.data.precompute import NoProgress, WorkProgress
from myxtts.errors import UsageError
from myxtts.evaluation.clips import EvaluationClips
from myxtts.evaluation.distance import halved, mel_cepstral_distortion, mel_distances
from myxtts.evaluation.held_out import SUBSETS, DataPath, HeldOutData, Subset
from myxtts.evaluation.judges import JudgePanel
from myxtts.evaluation.listening import judge_evaluation
from myxtts.evaluation.result import Evaluation, SentenceResult, SpokenText, VoiceResult
from myxtts.evaluation.selection import Selection
from myxtts.evaluation.synthesizer import ModelSynthesizer, Sentence, Synthesizer
from myxtts.inference.vocoder import AUTO, Vocoder, VocoderChoice, as_vocoder
from myxtts.models.checkpoint import Checkpoint, as_checkpoint, load_model
from myxtts.text import TextSettings, Tokenizer, language_id

SENTENCES = 60
CANDIDATES = 20
VOICES = 20

# Most voice trials with seen voices, and the same with unseen ones.
TRIALS = 160

# Speech is cut at this many times the length of the recording; comparing minutes of babble would take minutes.
LONGEST = 4


def evaluate(
    checkpoint: str | os.PathLike[str] | Checkpoint,
    data_path: DataPath | HeldOutData | None = None,
    *,
    sentences: int = SENTENCES,
    candidates: int = CANDIDATES,
    voices: int = VOICES,
    subset: Subset = "auto",
    seed: int = 0,
    vocoder: Vocoder | VocoderChoice = AUTO,
    texts: Sequence[str] = (),
    panel: JudgePanel | None = None,
    progress: WorkProgress | None = None,
) -> Evaluation:
    """Measures a checkpoint on held-out clips.

    ```python
    result = evaluate("runs/voice/best", "data/ljspeech")
    print(result.retrieval, result.mcd, result.to_dict())
    ```

    Args:
        checkpoint: its folder, or what `read_checkpoint` returned.
        data_path: the data set's folder, those of several, or what `HeldOutData.find` returned (`subset` is then
            ignored); None: the data set that the checkpoint was trained on.
        sentences: how many are spoken; all if there are fewer.
        candidates: each sentence is compared with this many clips of about its length, its own included.
        voices: each generated voice is compared with this many voices, its own included.
        subset: `train`, `val`, `test`, `all`, or `auto`: what the checkpoint was not trained on, that is, `val` and
            `test` of its own data set, and all clips of another.
        seed: chooses sentences, references and candidates.
        vocoder: makes audio of recorded and generated mels; or what `create_vocoder` takes.
        texts: further sentences to speak, which nobody recorded, with the voices of the held-out clips in turn.
        panel: the judges to ask, as `JudgePanel.choose()` finds those that are installed; None: nobody.
        progress: is told how the work goes.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
        DataError: the data set cannot be used, or has fewer than two clips to evaluate with.
        UsageError: an argument is out of range.
        VocoderError: the vocoder cannot be read, or does not fit the checkpoint's mels.
    """
    for name, value in (("sentences", sentences), ("candidates", candidates), ("voices", voices)):
        if value < 2:
            raise UsageError(f"{name} should be at least 2 (got {value})")
    if subset not in SUBSETS:
        raise UsageError(f"subset is '{subset}'; it should be one of {', '.join(SUBSETS)}")
    saved = as_checkpoint(checkpoint)
    held_out = data_path if isinstance(data_path, HeldOutData) else HeldOutData.find(saved, data_path, subset)
    clips = EvaluationClips(held_out.config, held_out.metadata)
    rows = held_out.rows(clips.metadata)
    config = saved.config.model_copy(update={"data": held_out.config})
    evaluator = Evaluator(
        clips,
        ModelSynthesizer(load_model(saved), config, seed),
        as_vocoder(vocoder, clips.settings, saved.path),
        Tokenizer(TextSettings.from_config(held_out.config)),
        Selection(clips.metadata.clips, clips.lengths, seed),
        config.data.reference_seconds,
        progress or NoProgress(),
    )
    results = evaluator.sentences(rows, sentences, candidates)
    trained = held_out.trained_speakers
    trials = [] if trained is None else evaluator.voices(rows, trained, voices)
    spoken = evaluator.texts(texts, rows)
    judgements = None
    if panel is not None:
        judgements = judge_evaluation(panel, results, spoken, clips.settings, evaluator.vocoder, evaluator.progress)
    return Evaluation(
        checkpoint=saved.given,
        data_path=", ".join(held_out.config.dataset_paths),
        subset=held_out.description,
        seed=seed,
        mel_settings=clips.settings,
        vocoder=evaluator.vocoder,
        retrieval_candidates=candidates,
        results=tuple(results),
        voice_results=tuple(trials),
        voices_known=trained is not None,
        texts=tuple(spoken),
        judgements=judgements,
    )


@dataclass(frozen=True)
class Evaluator:
    """Has sentences spoken and compares them with recordings.

    Attributes:
        clips: of the data set.
        synthesizer: speaks the sentences.
        vocoder: makes audio of recorded and generated mels alike.
        tokenizer: with the checkpoint's settings.
        selection: chooses among the clips.
        reference_seconds: how long a reference should be; 0: everything is spoken with the default voice.
        progress: is told how the work goes.
    """

    clips: EvaluationClips
    synthesizer: Synthesizer
    vocoder: Vocoder
    tokenizer: Tokenizer
    selection: Selection
    reference_seconds: float
    progress: WorkProgress

    @property
    def _reference_frames(self) -> int:
        settings = self.clips.settings
        return settings.frames(int(self.reference_seconds * settings.sample_rate))

    def sentences(self, rows: Sequence[int], most: int, candidates: int) -> list[SentenceResult]:
        """Has at most `most` of the clips' sentences spoken, and compares each with its recording."""
        chosen = self.selection.sentences(rows, most)
        spoken = self._speak("speaking", chosen)
        self.progress.stage("comparing", len(chosen))
        results = []
        for row, mel in zip(chosen, spoken, strict=True):
            results.append(self._result(row, mel, candidates))
            self.progress.advance(1)
        return results

    def voices(self, rows: Sequence[int], trained: frozenset[str], voices: int) -> list[VoiceResult]:
        """Has sentences among `rows` spoken with the voices of other recordings, and finds whose recording of the
        sentence is nearest, of so many voices. The training data has the speakers `trained`."""
        if not self._reference_frames:
            return []
        trials: list[tuple[int, ...]] = []
        for seen in (True, False):
            of_kind = [row for row in rows if (self.clips[row].speaker in trained) is seen]
            trials += self.selection.voice_trials(of_kind, voices, TRIALS)
        if not trials:
            return []
        spoken = self._speak("speaking with other voices", [rows[0] for rows in trials])
        self.progress.stage("comparing voices", len(trials))
        results = []
        for compared, mel in zip(trials, spoken, strict=True):
            clip, rank = self.clips[compared[0]], self._rank(mel, compared)
            results.append(VoiceResult(clip.id, clip.speaker, clip.speaker in trained, rank, len(compared)))
            self.progress.advance(1)
        return results

    def texts(self, texts: Sequence[str], rows: Sequence[int]) -> list[SpokenText]:
        """Has texts spoken with the voices of the clips' speakers in turn, each in that clip's language."""
        if not texts:
            return []
        first = {self.clips[row].speaker: row for row in reversed(rows)}
        voices = sorted(first.values())
        chosen = [voices[place % len(voices)] for place in range(len(texts))]
        clips = [self.clips[row] for row in chosen]
        tokens = self.tokenizer.encode_batch(list(texts), [clip.language for clip in clips], [None] * len(texts))
        wanted = [self._sentence(row, ids) for row, ids in zip(chosen, tokens, strict=True)]
        self.progress.stage("speaking texts", len(texts))
        mels = self.synthesizer(wanted, self.progress.advance)
        return [
            SpokenText(text, clip.language, clip.speaker, mel, self.vocoder(mel))
            for text, clip, mel in zip(texts, clips, mels, strict=True)
        ]

    def _speak(self, stage: str, rows: Sequence[int]) -> list[np.ndarray]:
        clips = [self.clips[row] for row in rows]
        tokens = self.tokenizer.encode_batch(
            [clip.text for clip in clips], [clip.language for clip in clips], [clip.ipa for clip in clips]
        )
        wanted = [self._sentence(row, ids) for row, ids in zip(rows, tokens, strict=True)]
        self.progress.stage(stage, len(rows))
        mels = self.synthesizer(wanted, self.progress.advance)
        return [mel[: LONGEST * len(self.clips.mel(row))] for row, mel in zip(rows, mels, strict=True)]

    def _sentence(self, row: int, tokens: np.ndarray) -> Sentence:
        """Tokens to be spoken with the voice and in the language of a clip."""
        reference = self.selection.reference(row, self._reference_frames) if self._reference_frames else None
        mel = None if reference is None else self.clips.mel(reference)
        extra = self.tokenizer.settings.extra_languages
        return Sentence(row, tokens, language_id(self.clips[row].language, extra), mel)

    def _result(self, row: int, mel: np.ndarray, candidates: int) -> SentenceResult:
        clip, true = self.clips[row], self.clips.mel(row)
        near = self.selection.like_length(row)[: candidates - 1]
        another = self.selection.another(row)
        return SentenceResult(
            id=clip.id,
            text=clip.text,
            speaker=clip.speaker,
            language=clip.language,
            audio_path=clip.audio_path,
            mcd=mel_cepstral_distortion(self._heard(mel), true),
            mcd_ceiling=mel_cepstral_distortion(self._heard(true), true),
            mcd_floor=None if another is None else mel_cepstral_distortion(self.clips.mel(another), true),
            rank=self._rank(mel, [row, *near]) if len(near) == candidates - 1 else None,
            mel=mel,
            true_mel=true,
            part=(clip.start, clip.duration),
        )

    def _heard(self, mel: np.ndarray) -> np.ndarray:
        """The mel of the audio that the vocoder makes of a mel."""
        return log_mel(self.vocoder(mel), self.clips.settings)

    def _rank(self, mel: np.ndarray, rows: Sequence[int]) -> int:
        """The rank of the first row, by the distance of all rows' mels to `mel`; 1 is the nearest."""
        # At half the frame rate, which gives the same ranks in a quarter of the time.
        distances = mel_distances(halved(mel), [halved(self.clips.mel(row)) for row in rows])
        return 1 + int(np.sum(distances[1:] <= distances[0]))
