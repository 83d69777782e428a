"""The graphs that speech is made of: what each takes and gives, whoever runs it.

| graph | takes | gives |
|---|---|---|
| `plan` | tokens int32 [T], language int32 [], voice [D], speed [] | mean [F, n_mels], features [F, C], |
| | | alignment int32 [F] |
| `decoder`, of a regression decoder | features, mean, voice | point [F, n_mels] |
| `velocity`, of a flow decoder | point [F, n_mels], time [], features, mean, voice | velocity [F, n_mels] |
| `voice` | crops [n, R, n_mels] | voices [n, D] |
| `pitch` | mel [F, n_mels] | scores [F, classes], voicing [F] |
| `filters` | mel, pitch [F], voiced [F] | pulses [F, bins], noise [F, bins], phase [F, bins] |

All are float32 where nothing else is said. `mean`, `point` and `velocity` are on the model's scale
(`models/mel_scale.py`); `crops` and `mel` are natural-log mels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Arrays in the order of its inputs → arrays in the order of its outputs.
Graph = Callable[..., tuple[np.ndarray, ...]]


class GraphNames(NamedTuple):
    """The names of a graph's inputs and outputs, in their order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


GRAPHS = {
    "plan": GraphNames(("tokens", "language", "voice", "speed"), ("mean", "features", "alignment")),
    "decoder": GraphNames(("features", "mean", "voice"), ("point",)),
    "velocity": GraphNames(("point", "time", "features", "mean", "voice"), ("velocity",)),
    "voice": GraphNames(("crops",), ("voices",)),
    "pitch": GraphNames(("mel",), ("scores", "voicing")),
    "filters": GraphNames(("mel", "pitch", "voiced"), ("pulses", "noise", "phase")),
}
