"""Judges of speech: what a recogniser hears, how the sound is rated, whose voice it is. docs/evaluation.md."""

from myxtts.evaluation.judges.judge import Figure, Judge, Observation, Speech
from myxtts.evaluation.judges.panel import JUDGES, Judgement, Judgements, JudgePanel, judge_speech

__all__ = [
    "JUDGES",
    "Figure",
    "Judge",
    "JudgePanel",
    "Judgement",
    "Judgements",
    "Observation",
    "Speech",
    "judge_speech",
]
