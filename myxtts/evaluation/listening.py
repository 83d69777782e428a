"""Has an evaluation judged: recordings, their mels through the vocoder, and generated speech, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from myxtts.audio.mel import MelSettings, trim
from myxtts.audio.reading import read_audio
from myxtts.data.precompute import WorkProgress
from myxtts.evaluation.judges import Judgements, JudgePanel, Speech
from myxtts.evaluation.result import CEILING, OURS, RECORDING, TEXTS, SentenceResult, SpokenText
from myxtts.inference.vocoder import Vocoder


def judge_evaluation(
    panel: JudgePanel,
    results: Sequence[SentenceResult],
    texts: Sequence[SpokenText],
    settings: MelSettings,
    vocoder: Vocoder,
    progress: WorkProgress,
) -> Judgements:
    """The judges' figures of an evaluation.

    Args:
        panel: the judges.
        results: sentences that were recorded and generated.
        texts: sentences that were only generated.
        settings: of the mels.
        vocoder: makes audio of recorded and generated mels alike.
        progress: is told how the work goes.

    Raises:
        AudioError: a recording cannot be read.
        MyXTTSError: a judge cannot load its model, or its process died.
    """
    rate = settings.sample_rate
    groups: dict[str, list[Speech]] = {RECORDING: [], CEILING: [], OURS: []}
    if panel.judges:
        progress.stage("making the audio to judge", len(results))
        for one in results:
            recorded = trim(read_audio(one.audio_path, rate, *one.part), settings)
            clip = Speech(recorded, rate, one.text, one.speaker, one.id, one.language)
            groups[RECORDING].append(clip)
            groups[CEILING].append(clip._replace(audio=vocoder(one.true_mel)))
            groups[OURS].append(clip._replace(audio=vocoder(one.mel)))
            progress.advance(1)
        if texts:
            groups[TEXTS] = [Speech(one.audio, rate, one.text, one.speaker, language=one.language) for one in texts]
    return panel.judge(groups, "en", RECORDING, progress=progress)
