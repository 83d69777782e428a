"""DNSMOS: how a listener would rate the sound, from 1 to 5, as two small networks learnt it from listeners.

`ovrl` rates speech and background together (ITU-T P.835), `p808` rates the whole (ITU-T P.808). Both depend on the
level, so every clip is brought to one peak first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from myxtts.evaluation.judges.judge import RATE, Figure, Observation, missing_modules

PEAK = 0.9


class DNSMOSJudge:
    """Mean opinion scores, the mean of all clips."""

    name: ClassVar[str] = "dnsmos"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("dnsmos_ovrl", "DNSMOS", "sound and background as listeners would rate them, 1 to 5, 5 is best"),
        Figure("dnsmos_p808", "P.808", "overall quality as listeners would rate it (P.808), 1 to 5, 5 is best"),
    )
    needs_text: ClassVar[bool] = False
    needs_recordings: ClassVar[bool] = False
    languages: ClassVar[frozenset[str] | None] = None

    def __init__(self) -> None:
        import onnxruntime
        from speechmos import dnsmos

        class OneThread(dnsmos.DNSMOS):
            """Its two networks on one thread each: clips are what is judged in parallel."""

            def __init__(self) -> None:
                folder = Path(dnsmos.__file__).parent / "dnsmos_models"
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = options.inter_op_num_threads = 1
                self.onnx_sess, self.p808_onnx_sess = (
                    onnxruntime.InferenceSession(str(folder / file), options, providers=["CPUExecutionProvider"])
                    for file in ("sig_bak_ovr.onnx", "model_v8.onnx")
                )

        self._rate = OneThread()

    @classmethod
    def missing(cls) -> str | None:
        return missing_modules(["speechmos", "onnxruntime", "librosa", "requests"])

    def observe(self, audio: np.ndarray, text: str, language: str) -> Mapping[str, Any]:
        loudest = np.abs(audio).max()
        scores = self._rate(audio * (PEAK / loudest) if loudest > 0 else audio, RATE, False)
        return {"dnsmos_ovrl": float(scores["ovrl_mos"]), "dnsmos_p808": float(scores["p808_mos"])}

    @classmethod
    def summarize(cls, observed: Sequence[Observation], recordings: Sequence[Observation]) -> dict[str, float | None]:
        return {figure.name: float(np.mean([one.values[figure.name] for one in observed])) for figure in cls.figures}
