"""A short measured search for settings that make steps faster; it never ends with slower ones than the start.

Settings are tried one after another, each value together with the best of the others so far. The best combination is
then measured again in turns with the start. It is chosen only if it was faster in every one of these rounds, and by
more than one percent in the middle one. Without any real difference, five rounds agree by chance once in 32 times.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROUNDS = 5
NO_TIME = "no time left"
# Gains below these are not worth a move during the search, and not worth a change at its end.
SEARCH_GAIN = 0.02
LEAST_GAIN = 0.01

Changes = Mapping[str, Any]
Measure = Callable[[Changes], float]


class TrialError(Exception):
    """A setting cannot be used here; the message says why."""


@dataclass(frozen=True)
class Axis:
    """One setting and the values to try."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SettingsTrial:
    """One combination of settings.

    Attributes:
        changes: of settings, against the start; empty for the start itself.
        rate: what was measured, more is better; None if it was not.
        note: why it was not measured.
    """

    changes: Changes
    rate: float | None
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Start and winner measured in turns, a rate each per round."""

    start: tuple[float, ...]
    winner: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(after / before for before, after in zip(self.start, self.winner, strict=True))

    @property
    def gain(self) -> float:
        """Of the middle round: 0.1 is 10 % more."""
        return statistics.median(self.ratios) - 1

    @property
    def better(self) -> bool:
        """Whether the gain is beyond noise."""
        return min(self.ratios) > 1 and self.gain > LEAST_GAIN

    def to_dict(self) -> dict[str, Any]:
        return {"start": self.start, "winner": self.winner, "gain": self.gain, "better": self.better}


@dataclass(frozen=True)
class TuningResult:
    """The outcome of a search.

    Attributes:
        changes: to make; empty: the start is best.
        trials: everything that was tried or left out, in order.
        comparison: of start and winner; None if nothing looked better than the start.
    """

    changes: Changes
    trials: tuple[SettingsTrial, ...]
    comparison: Comparison | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "changes": dict(self.changes),
            "trials": [{"changes": dict(one.changes), "rate": one.rate, "note": one.note} for one in self.trials],
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }


def tune(
    axes: Sequence[Axis],
    measure: Measure,
    time_budget: float,
    *,
    on_trial: Callable[[SettingsTrial], None] = lambda trial: None,
    clock: Callable[[], float] = time.monotonic,
) -> TuningResult:
    """Searches for faster settings.

    Args:
        axes: settings in the order they are tried.
        measure: gives the rate under these changes of the start, or raises `TrialError`.
        time_budget: seconds, rounds at the end included; a running measurement is not cut short.
        on_trial: called with each trial.
        clock: seconds that never go back.

    Raises:
        TrialError: the start itself cannot be measured.
    """
    began = clock()
    trials: list[SettingsTrial] = []
    longest = 0.0

    def time_left_for(measurements: int) -> bool:
        return clock() - began + measurements * longest < time_budget

    def try_(changes: dict[str, Any]) -> SettingsTrial:
        nonlocal longest
        started = clock()
        try:
            trial = SettingsTrial(changes, measure(changes))
        except TrialError as error:
            if not changes:
                raise
            trial = SettingsTrial(changes, None, str(error))
        longest = max(longest, clock() - started)
        return trial

    def keep(trial: SettingsTrial) -> SettingsTrial:
        trials.append(trial)
        on_trial(trial)
        return trial

    measure({})  # compiles and fills caches, so that no later measurement profits from it alone
    best = keep(try_({}))
    for axis in axes:
        for value in axis.values:
            changes = {**best.changes, axis.key: value}
            if time_left_for(1 + 2 * ROUNDS):
                trial = keep(try_(changes))
            else:
                trial = keep(SettingsTrial(changes, None, NO_TIME))
            if trial.rate is not None and best.rate is not None and trial.rate > (1 + SEARCH_GAIN) * best.rate:
                best = trial
    if not best.changes:
        return TuningResult({}, tuple(trials), None)

    start, winner = [], []
    for _ in range(ROUNDS):
        start.append(measure({}))
        winner.append(measure(best.changes))
    comparison = Comparison(tuple(start), tuple(winner))
    return TuningResult(best.changes if comparison.better else {}, tuple(trials), comparison)
