"""A picture of a run's steps: how long each took, and how long of that the device waited for data."""

from __future__ import annotations

import json
from pathlib import Path

from myxtts.reports.page import figure

_WIDTH, _HEIGHT = 600, 120
_MOST_BARS = 120


def step_picture(run: Path) -> str:
    """A figure of HTML, from the times that `myxtts train` writes; nothing if there are none.

    Args:
        run: folder of the run.
    """
    steps = _read(run / "timing.jsonl")
    if not steps:
        return ""
    bars = min(_MOST_BARS, len(steps))
    means = []
    for bar in range(bars):
        some = steps[bar * len(steps) // bars : (bar + 1) * len(steps) // bars]
        means.append([sum(values) / len(some) for values in zip(*some, strict=True)])
    longest = max(step for step, _ in means)
    width = _WIDTH / bars
    shapes = []
    for place, (step, stall) in enumerate(means):
        heights = (_HEIGHT * step / longest, _HEIGHT * stall / longest)
        for height, colour in zip(heights, ("var(--accent)", "var(--bad)"), strict=True):
            shapes.append(
                f'<rect x="{place * width:.2f}" y="{_HEIGHT - height:.2f}" width="{0.85 * width:.2f}" '
                f'height="{height:.2f}" fill="{colour}"/>'
            )
    each = "" if bars == len(steps) else f" (means of {len(steps) / bars:.0f})"
    caption = (
        f"{len(steps):,} steps{each}, the tallest {longest:.0f} ms; red: the device waited for data. "
        "Steps taken while something was compiled are left out."
    )
    return figure(
        caption, f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="step times">{"".join(shapes)}</svg>'
    )


def _read(path: Path) -> list[tuple[float, float]]:
    """Milliseconds of each step, and those of them that it stalled."""
    try:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        return [(line["step_ms"], line["stall_ms"]) for line in lines if "step_ms" in line and not line["compiled"]]
    except (OSError, ValueError, KeyError):
        return []
