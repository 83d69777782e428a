"""A diagnosis as one self-contained HTML page: the verdict first, then the pictures, then the figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from myxtts.performance.diagnosis import Diagnosis, NodeTime, number
from myxtts.reports.page import escape, figure, page, paragraph, section, table

_WIDTH, _HEIGHT, _MARGIN = 720, 200, 8
_MOST_BARS = 240
_BINS = 24
_LABELS = {"VERDICT": "waiting"}
_COLOURS = {
    "not input-bound": "var(--good)",
    "moderately input-bound": "var(--warn)",
    "highly input-bound": "var(--bad)",
}


def diagnosis_page(diagnosis: Diagnosis, title: str = "Is the accelerator waiting for data?") -> str:
    """The whole page as text."""
    sections = [_verdict(diagnosis), _timeline(diagnosis), _distribution(diagnosis)]
    if diagnosis.nodes:
        sections.append(_nodes(diagnosis.nodes))
    sections.append(_fixes(diagnosis))
    sections.append(_figures(diagnosis))
    kind = "simulated accelerator" if diagnosis.simulated else "measured"
    return page(title, sections, lead=f"{diagnosis.steps:,} steps, {kind}")


def _verdict(diagnosis: Diagnosis) -> str:
    colour = _COLOURS[diagnosis.verdict]
    # The headline already says the verdict, so its line leaves it out.
    details = [(label, text.removeprefix(f"{diagnosis.verdict}: ")) for label, text in diagnosis.lines()]
    headline = f'<p style="font-size:1.5rem;margin:0;color:{colour}"><strong>{escape(diagnosis.verdict)}</strong></p>'
    rows = "".join(
        f'<tr><th style="white-space:nowrap">{escape(_LABELS.get(label, label.lower()))}</th><td>'
        + "<br>".join(escape(line.strip()) for line in text.splitlines())
        + "</td></tr>"
        for label, text in details
        if label != "FIX"
    )
    return section("Verdict", headline, f"<table><tbody>{rows}</tbody></table>")


def _timeline(diagnosis: Diagnosis) -> str:
    series = diagnosis.series
    steps, stalls, each = _shortened(series.step_ms, series.stall_ms)
    # A single step spent compiling would make all others invisible.
    top = min(float(steps.max()), 4 * float(np.median(steps)) + 1e-9) or 1.0
    shapes = _bars(np.minimum(steps, top) / top, stalls / np.maximum(steps, 1e-9))
    of = f"means of {each} steps" if each > 1 else "one bar a step"
    caption = (
        f"Time per step, {of}: working (blue), waiting for data (red). The full height is {number(top)} ms; "
        f"longer steps are cut off."
    )
    return section("Step by step", figure(caption, _svg(shapes, "step times with waits")))


def _shortened(step_ms: np.ndarray, stall_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Steps averaged in groups, so that there are few enough to be seen."""
    each = -(-len(step_ms) // _MOST_BARS)
    groups = [slice(start, start + each) for start in range(0, len(step_ms), each)]
    means = [np.array([float(values[group].mean()) for group in groups]) for values in (step_ms, stall_ms)]
    return means[0], means[1], each


def _distribution(diagnosis: Diagnosis) -> str:
    steps, stalls = diagnosis.series.step_ms, diagnosis.series.stall_ms
    high = float(np.quantile(steps, 0.99)) or 1.0
    edges = np.linspace(min(0.0, float(steps.min())), max(high, 1e-9), _BINS + 1)
    places = np.clip(np.digitize(steps, edges) - 1, 0, _BINS - 1)
    counts = np.bincount(places, minlength=_BINS)
    waits = np.bincount(places, weights=stalls / np.maximum(steps, 1e-9), minlength=_BINS)
    shapes = _bars(counts / max(1, int(counts.max())), waits / np.maximum(counts, 1))
    p50, p95, p99 = np.quantile(steps, [0.5, 0.95, 0.99])
    caption = (
        f"How many steps took how long, from 0 to {number(edges[-1])} ms; red is the part spent waiting. "
        f"Half take at most {number(p50)} ms, 95 % at most {number(p95)} ms, 99 % at most {number(p99)} ms."
    )
    return section("Distribution", figure(caption, _svg(shapes, "histogram of step times")))


def _nodes(nodes: Sequence[NodeTime]) -> str:
    longest = max((node.blocking_ms for node in nodes), default=0.0) or 1.0
    bars = []
    for node in nodes:
        colour = "var(--bad)" if node.python >= 0.5 else "var(--accent)"
        share = 100 * node.blocking_ms / longest
        bars.append(
            f'<p style="margin:.6rem 0 .15rem">{escape(node.name)} '
            f'<span class="note">{number(node.blocking_ms)} ms</span></p>'
            f'<div style="background:var(--panel);border-radius:4px"><div style="width:{share:.1f}%;min-width:2px;'
            f'height:.7rem;border-radius:4px;background:{colour}"></div></div>'
        )
    return section(
        "Nodes of the pipeline",
        paragraph("From the end to the source: milliseconds per batch that a node holds up. Red: Python.", note=True),
        *bars,
    )


def _fixes(diagnosis: Diagnosis) -> str:
    if not diagnosis.fixes:
        return section("What to do", paragraph("Nothing in the input. To be faster, tune the model."))
    items = []
    for fix in diagnosis.fixes:
        how = "measured" if fix.measured else "estimated"
        lines = "".join(f"<br><code>{escape(line)}</code>" for line in fix.lines)
        items.append(f"<li>{escape(fix.text)} <span class=note>({how} −{100 * fix.gain:.0f} %)</span>{lines}</li>")
    return section("What to do", f"<ol>{''.join(items)}</ol>")


def _figures(diagnosis: Diagnosis) -> str:
    split = diagnosis.split
    rows = [
        ("steps", f"{diagnosis.steps:,}"),
        ("step", f"{number(diagnosis.step_ms)} ms"),
        ("step with perfect input", f"{number(diagnosis.ceiling_ms)} ms"),
        ("waiting for data", f"{100 * diagnosis.input_share:.1f} % (±{100 * diagnosis.uncertainty:.1f})"),
        ("· preparation", f"{100 * split.preparation:.1f} %"),
        ("· fetch", f"{100 * split.fetch:.1f} %"),
        ("· copy to device", f"{100 * split.copy:.1f} %"),
        ("step time, std/mean", f"{100 * diagnosis.pattern.variation:.0f} %"),
        *diagnosis.settings.items(),
    ]
    parts = [table(["figure", "value"], rows, numeric=[1])]
    if diagnosis.nodes:
        columns = ["node", "ms of work", "at once", "calls a batch", "in Python"]
        nodes = [
            (node.name, f"{number(node.ms)}", node.parallelism, f"{node.calls:,.0f}", f"{100 * node.python:.0f} %")
            for node in diagnosis.nodes
        ]
        parts.append(table(columns, nodes, numeric=range(1, 5)))
    return section("Figures", *parts)


def _svg(shapes: Sequence[str], description: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(description)}" '
        f'style="background:var(--panel)">{"".join(shapes)}</svg>'
    )


def _bars(heights: np.ndarray, red_shares: np.ndarray) -> list[str]:
    """Bars side by side, of heights from 0 to 1, each with a share of it in red at its top."""
    width, inner = (_WIDTH - 2 * _MARGIN) / len(heights), _HEIGHT - 2 * _MARGIN
    shapes = []
    for place, (height, share) in enumerate(zip(heights.tolist(), red_shares.tolist(), strict=True)):
        left, tall, red = _MARGIN + (place + 0.06) * width, inner * height, inner * height * share
        for top, part, colour in ((tall, red, "var(--bad)"), (tall - red, tall - red, "var(--accent)")):
            shapes.append(
                f'<rect x="{left:.2f}" y="{_MARGIN + inner - top:.2f}" width="{0.88 * width:.2f}" '
                f'height="{max(0.0, part):.2f}" fill="{colour}"/>'
            )
    return shapes
