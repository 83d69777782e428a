"""Measures the faulty pipelines on this machine, and prints what `diagnose` says of each. A table, not a test.

    python tests/fault_table.py [--loaders] [--seconds 60] [NAME ...]
    python tests/fault_table.py [--loaders] --check [NAME ...]
    python tests/fault_table.py [--loaders] --record [NAME ...]

`--loaders` measures those of PyTorch and of plain Python, in a process without TensorFlow, which cannot be forked.
Begins no further pipeline after `--seconds`, and says which are missing. What a busy machine makes of a pipeline is
printed as it is, and the exit code is 0. With `--check` it is 1 if a fault is not named, or a twin accused.
`--record` measures all of them, with their fixed twins and the healthy
ones, until each is as it should be, and writes the measurements that the tests replay; it needs a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from fault_case import STEP, Case
from recorded_measurements import LOADERS, PIPELINES, from_json, read_recorded, to_json, write_recorded

from myxtts.performance import Diagnosis, SimulatedStep
from myxtts.performance.diagnose_pipeline import judge, take_measurements
from myxtts.performance.facts import Measurements

TRIES = 4
LEAST_REMOVED = 0.8
HEALTHY_BATCHES = 60


@dataclass(frozen=True)
class Faults:
    """Cases and healthy pipelines, and the file that their measurements are recorded in."""

    cases: Mapping[str, Case]
    healthy: Mapping[str, Callable[[], Any]]
    recorded: Path

    @property
    def names(self) -> list[str]:
        return [*self.cases, *self.healthy]

    def variants(self, name: str) -> tuple[str, ...]:
        return ("faulty", "fixed") if name in self.cases else ("healthy",)

    def measure(self, name: str, variant: str, num_batches: int | None = None) -> Measurements:
        """Measures the `faulty` or `fixed` variant of a case, or a `healthy` pipeline."""
        if variant == "healthy":
            return take_measurements(self.healthy[name](), SimulatedStep(STEP), num_batches or HEALTHY_BATCHES)
        case = self.cases[name]
        make, step = (case.faulty, case.faulty_step) if variant == "faulty" else (case.fixed, case.fixed_step)
        pipeline, around = make(), case.around if variant == "faulty" else nullcontext
        with around():
            return take_measurements(pipeline, (step or case.faulty_step)(), num_batches or case.num_batches)

    @cached_property
    def recorded_measurements(self) -> dict[str, dict[str, Any]]:
        """What `--record` has written on a quiet machine, as `read_recorded` gives it."""
        return read_recorded(self.recorded)

    def conclusion(self, name: str, variant: str) -> Diagnosis:
        """What is concluded from the recorded measurements of a variant."""
        return judge(from_json(self.recorded_measurements[name][variant]))

    def is_right(self, name: str, found: Mapping[str, Diagnosis]) -> bool:
        """Whether the culprit is named, its fixed twin is not accused, and a healthy pipeline is left alone."""
        if "healthy" in found:
            return (found["healthy"].verdict, found["healthy"].culprit) == ("not input-bound", "none")
        faulty, fixed = found["faulty"], found["fixed"]
        named = faulty.culprit == self.cases[name].culprit
        return named and fixed.culprit == "none" and loses_far_less(fixed, faulty)


def pipelines() -> Faults:
    """Of `tf.data`; TensorFlow is imported."""
    from faulty_pipelines import CASES, HEALTHY

    return Faults(CASES, HEALTHY, PIPELINES)


def loaders() -> Faults:
    """Of PyTorch and of plain Python."""
    from faulty_loaders import HEALTHY_LOADERS, LOADER_CASES

    return Faults(LOADER_CASES, HEALTHY_LOADERS, LOADERS)


def lost_ms(diagnosis: Diagnosis) -> float:
    return diagnosis.lost_share * diagnosis.step_ms


def loses_far_less(fixed: Diagnosis, faulty: Diagnosis) -> bool:
    return lost_ms(fixed) <= (1 - LEAST_REMOVED) * lost_ms(faulty)


def record(faults: Faults, names: Sequence[str]) -> None:
    """Measures pipelines until they are as they should be, and writes the measurements. All, if none is named."""
    recorded = read_recorded(faults.recorded) if faults.recorded.exists() else {}
    for name in names or faults.names:
        for left in reversed(range(TRIES)):
            measured = {variant: faults.measure(name, variant) for variant in faults.variants(name)}
            found = {variant: judge(one) for variant, one in measured.items()}
            if faults.is_right(name, found):
                break
            print(f"{name}: not as it should be\n" + "\n".join(map(str, found.values())), flush=True)
            if not left:
                raise SystemExit(f"{name}: not as it should be in {TRIES} tries; is this machine busy?")
        recorded[name] = {variant: to_json(one) for variant, one in measured.items()}
        write_recorded(faults.recorded, {name: recorded[name] for name in faults.names if name in recorded})
        print(f"{name}: recorded", flush=True)


def check(faults: Faults, names: Sequence[str]) -> None:
    """Measures pipelines with their twins, and ends with an error if one is not as it should be in two tries."""
    for name in names or faults.names:
        for _ in range(2):
            found = {variant: judge(faults.measure(name, variant)) for variant in faults.variants(name)}
            if faults.is_right(name, found):
                break
        else:
            shown = "\n\n".join(f"{variant}:\n{one}" for variant, one in found.items())
            raise SystemExit(f"{name}: not as it should be\n{shown}")
        print(f"{name}: as it should be", flush=True)


def print_table(
    faults: Faults, names: Sequence[str], seconds: float, clock: Callable[[], float] = time.monotonic
) -> None:
    """Prints a line per pipeline as it is measured, and the whole diagnosis of those that were named."""
    began, missing, named, chosen = clock(), list[str](), 0, names or list(faults.cases)
    print(f"{'faulty pipeline':<40}{'its fault':<18}{'named':<18}{'waits %':>8}{'lost ms':>9}", flush=True)
    for name in chosen:
        case = faults.cases[name]
        if clock() - began > seconds:
            missing.append(name)
            continue
        try:
            found = judge(faults.measure(name, "faulty"))
        except Exception as error:
            print(f"{name:<40}{case.culprit:<18}not measured: {type(error).__name__}: {error}", flush=True)
            continue
        named += found.culprit == case.culprit
        print(
            f"{name:<40}{case.culprit:<18}{found.culprit:<18}{100 * found.input_share:>8.1f}{lost_ms(found):>9.1f}",
            flush=True,
        )
        if names:
            print(found, flush=True)
    print(f"{named} of {len(chosen) - len(missing)} named in {clock() - began:.0f} s")
    if missing:
        print(f"not measured, because the time was over: {', '.join(missing)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the pipelines; all, if none is named")
    parser.add_argument("--loaders", action="store_true", help="loaders of PyTorch and of plain Python")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which no further pipeline is measured")
    parser.add_argument("--check", action="store_true", help="measure twins as well; exit code 1 if one is wrong")
    parser.add_argument("--record", action="store_true", help="write the measurements that the tests replay")
    arguments = parser.parse_args()
    faults = loaders() if arguments.loaders else pipelines()
    if arguments.record:
        record(faults, arguments.names)
    elif arguments.check:
        check(faults, arguments.names)
    else:
        print_table(faults, arguments.names, arguments.seconds)


if __name__ == "__main__":
    main()
