"""What `diagnose` found: the verdict, the one change that helps most, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

NONE = "none"

_WRAPPED = " " * 10


def number(value: float) -> str:
    """Three digits for small numbers, all before the point for large ones."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class StallSplit:
    """Where the waiting comes from, as shares of step time.

    Attributes:
        preparation: making batches: decoding, computing, padding, Python.
        fetch: the pipeline itself waiting for bytes.
        copy: moving a batch from the host to the device; 0 without a GPU.
    """

    preparation: float
    fetch: float
    copy: float


@dataclass(frozen=True)
class Pattern:
    """How step times vary.

    Attributes:
        variation: standard deviation of the step times over their mean.
        swing: `stable` (below 0.2), `moderate`, or `high` (above 0.5).
        period: in steps, or None if nothing repeats.
        cause: what it goes with, such as a new shape or the start of an epoch, or None.
    """

    variation: float
    swing: str
    period: int | None = None
    cause: str | None = None

    def __str__(self) -> str:
        spread = f"std/mean {100 * self.variation:.0f} % ({self.swing})"
        if self.period is None and self.cause is None:
            return f"none; {spread}"
        every = f"slow every {self.period} steps" if self.period else "slow now and then"
        return f"{every}{', ' + self.cause if self.cause else ''}; {spread}"


@dataclass(frozen=True)
class Fix:
    """A change and what it is worth.

    Attributes:
        culprit: what it fixes.
        text: the change in words.
        lines: the lines of a pipeline to change, as code.
        gain: estimated share of the present step time that it saves, 0 to 1.
        measured: whether the gain was measured by trying the change, not computed.
    """

    culprit: str
    text: str
    gain: float
    lines: tuple[str, ...] = ()
    measured: bool = False


@dataclass(frozen=True)
class NodeTime:
    """One node of a `tf.data` pipeline.

    Attributes:
        name: its kind, and the name of its function if that has one.
        ms: milliseconds of work per batch, added up over its threads.
        parallelism: calls that may run at once.
        calls: elements it makes for a batch.
        python: share of its time spent in Python functions, 0 to 1.
    """

    name: str
    ms: float
    parallelism: int
    calls: float
    python: float = 0.0

    @property
    def blocking_ms(self) -> float:
        """Milliseconds per batch that its consumer waits for it, its threads working side by side."""
        return self.ms / max(1, self.parallelism)


@dataclass(frozen=True, eq=False)
class StepSeries:
    """The measured steps one by one, in milliseconds, for pictures."""

    step_ms: np.ndarray
    stall_ms: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        return {name: [round(float(value), 3) for value in values] for name, values in vars(self).items()}


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """All findings. Shares are of the time of the measured steps, 0 to 1.

    Attributes:
        verdict: `not input-bound`, `moderately input-bound` (from 5 %) or `highly input-bound` (from 20 %).
        input_share: share of step time that waits for data.
        uncertainty: half the width of its 95 % interval.
        steps: how many were measured.
        step_ms: milliseconds per step, waits included; steps spent compiling are not among them.
        ceiling_ms: the same with replayed batches from memory, that is, with perfect input.
        split: what the input's share consists of.
        culprit: what costs most of the lost time: a name from `culprits.CULPRITS`, or `none`.
        culprit_text: which node, clip or setting, in words.
        lost_share: the input's share and what the step itself loses to compiling or running eagerly.
        evidence: what was measured, a line each.
        pattern: how step times vary.
        fixes: changes, the most useful first.
        nodes: the pipeline from its end to its source; empty if it is not `tf.data`, or steps hardly wait.
        series: the measured steps.
        simulated: whether the step was a simulated accelerator's.
        cold_fetch_share: what waiting for bytes adds with a cold page cache; None if that was not measured.
        settings: of what was measured, for the report.
    """

    verdict: str
    input_share: float
    uncertainty: float
    steps: int
    step_ms: float
    ceiling_ms: float
    split: StallSplit
    culprit: str
    culprit_text: str
    lost_share: float
    evidence: tuple[str, ...]
    pattern: Pattern
    fixes: tuple[Fix, ...]
    nodes: tuple[NodeTime, ...]
    series: StepSeries
    simulated: bool = False
    cold_fetch_share: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stall_ms(self) -> float:
        """Milliseconds per step that wait for data."""
        return self.input_share * self.step_ms

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"stall_ms": self.stall_ms, "series": self.series.to_dict()}

    def __str__(self) -> str:
        return "\n".join(f"{name:<10}{text}" for name, text in self.lines())

    def lines(self) -> list[tuple[str, str]]:
        """The findings as label and text, one screen of them; a text may have several lines, already indented."""
        simulated = ", simulated accelerator" if self.simulated else ""
        rows = [("VERDICT", f"{self._verdict_text()} ({self.steps:,} steps{simulated})")]
        rows.append(("CEILING", self._ceiling_text()))
        parts = self.split
        shares = {"preparation": parts.preparation, "fetch": parts.fetch, "copy to device": parts.copy}
        rows.append(("SPLIT", ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())))
        rows.append(("CULPRIT", f"{self.culprit}: {self.culprit_text}" if self.culprit != NONE else "none"))
        if self.evidence:
            rows.append(("EVIDENCE", f"\n{_WRAPPED}".join(self.evidence)))
        rows.append(("PATTERN", str(self.pattern)))
        rows.append(("FIX", self._fix_text()))
        return rows

    def _verdict_text(self) -> str:
        waits = f"{100 * self.input_share:.1f} % (±{100 * self.uncertainty:.1f}) of step time waits for data"
        if self.verdict.startswith("not") and self.culprit == NONE:
            return f"{self.verdict}: stop tuning input; {waits}"
        return f"{self.verdict}: {waits}"

    def _ceiling_text(self) -> str:
        saved = max(0.0, 1 - self.ceiling_ms / self.step_ms) if self.step_ms else 0.0
        return (
            f"with perfect input: {number(self.step_ms)} → {number(min(self.ceiling_ms, self.step_ms))} ms per step "
            f"(-{100 * saved:.0f} %); beyond that, tune the model"
        )

    def _fix_text(self) -> str:
        if not self.fixes:
            known = self.verdict.startswith("not")
            return (
                "nothing to fix in the input" if known else "none known: nothing that was tried explains the waiting"
            )
        shown = []
        for place, fix in enumerate(self.fixes, 1):
            how = "measured" if fix.measured else "estimated"
            shown.append(f"{place}. {fix.text} ({how} -{100 * fix.gain:.0f} %)")
            shown.extend(f"   {line}" for line in fix.lines)
        return f"\n{_WRAPPED}".join(shown)
