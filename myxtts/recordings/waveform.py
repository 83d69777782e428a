"""The waveform of an audio file as an inline picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from myxtts.audio.reading import audio_info, read_audio
from myxtts.reports.page import escape

_WIDTH = 600
_HEIGHT = 120


def waveform(path: Path, description: str) -> str:
    """An `<svg>` of the lowest and highest sample in each of 600 columns, full scale from bottom to top."""
    audio = read_audio(path, audio_info(path).sample_rate)
    edges = np.linspace(0, len(audio), _WIDTH + 1).astype(np.int64)
    middle = _HEIGHT / 2
    lines = []
    for column, (begin, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        part = audio[begin : max(end, begin + 1)]
        low, high = middle - middle * float(part.min()), middle - middle * float(part.max())
        lines.append(f"M{column} {low:.1f}V{high:.1f}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="waveform of {escape(description)}" '
        f'style="background:var(--panel)"><path d="M0 {middle}H{_WIDTH}" stroke="var(--line)"/>'
        f'<path d="{"".join(lines)}" stroke="var(--accent)"/></svg>'
    )
