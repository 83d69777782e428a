"""Measures the faulty pipelines on this machine, and prints what `diagnose` says of each. A table, not a test.

    python tests/fault_table.py [--seconds 60]
    python tests/fault_table.py --record [NAME ...]

Begins no further pipeline after `--seconds`, and says which are missing. What a busy machine makes of a pipeline is
printed as it is, and the exit code is 0. `--record` measures all of them, with their fixed twins and the healthy
ones, until each is as it should be, and writes the measurements that the tests replay; it needs a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from faulty_pipelines import CASES, HEALTHY, STEP
from recorded_measurements import RECORDED, read_recorded, to_json, write_recorded

from myxtts.performance import Diagnosis, SimulatedStep
from myxtts.performance.diagnose_pipeline import judge, take_measurements
from myxtts.performance.facts import Measurements

TRIES = 4
LEAST_REMOVED = 0.8
HEALTHY_BATCHES = 60


def measure(name: str, variant: str, num_batches: int | None = None) -> Measurements:
    """Measures the `faulty` or `fixed` variant of a case, or a `healthy` pipeline."""
    if variant == "healthy":
        return take_measurements(HEALTHY[name](), SimulatedStep(STEP), num_batches or HEALTHY_BATCHES)
    case = CASES[name]
    make, step = (case.faulty, case.faulty_step) if variant == "faulty" else (case.fixed, case.fixed_step)
    pipeline, around = make(), case.around if variant == "faulty" else nullcontext
    with around():
        return take_measurements(pipeline, (step or case.faulty_step)(), num_batches or case.num_batches)


def lost_ms(diagnosis: Diagnosis) -> float:
    return diagnosis.lost_share * diagnosis.step_ms


def is_right(name: str, found: dict[str, Diagnosis]) -> bool:
    """Whether the culprit is named, its fixed twin is not accused, and a healthy pipeline is left alone."""
    if "healthy" in found:
        return (found["healthy"].verdict, found["healthy"].culprit) == ("not input-bound", "none")
    faulty, fixed = found["faulty"], found["fixed"]
    removed = lost_ms(fixed) <= (1 - LEAST_REMOVED) * lost_ms(faulty)
    return faulty.culprit == CASES[name].culprit and fixed.culprit == "none" and removed


def record(names: Sequence[str]) -> None:
    """Measures pipelines until they are as they should be, and writes the measurements. All, if none is named."""
    recorded = read_recorded() if RECORDED.exists() else {}
    for name in names or (*CASES, *HEALTHY):
        variants = ("faulty", "fixed") if name in CASES else ("healthy",)
        for left in reversed(range(TRIES)):
            measured = {variant: measure(name, variant) for variant in variants}
            found = {variant: judge(one) for variant, one in measured.items()}
            if is_right(name, found):
                break
            print(f"{name}: not as it should be\n" + "\n".join(map(str, found.values())), flush=True)
            if not left:
                raise SystemExit(f"{name}: not as it should be in {TRIES} tries; is this machine busy?")
        recorded[name] = {variant: to_json(one) for variant, one in measured.items()}
        write_recorded({name: recorded[name] for name in (*CASES, *HEALTHY) if name in recorded})
        print(f"{name}: recorded", flush=True)


def print_table(seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Prints a line per pipeline as it is measured."""
    began, missing, named = clock(), list[str](), 0
    print(f"{'faulty pipeline':<40}{'its fault':<18}{'named':<18}{'waits %':>8}{'lost ms':>9}", flush=True)
    for name, case in CASES.items():
        if clock() - began > seconds:
            missing.append(name)
            continue
        try:
            found = judge(measure(name, "faulty"))
        except Exception as error:
            print(f"{name:<40}{case.culprit:<18}not measured: {type(error).__name__}: {error}", flush=True)
            continue
        named += found.culprit == case.culprit
        print(
            f"{name:<40}{case.culprit:<18}{found.culprit:<18}{100 * found.input_share:>8.1f}{lost_ms(found):>9.1f}",
            flush=True,
        )
    print(f"{named} of {len(CASES) - len(missing)} named in {clock() - began:.0f} s")
    if missing:
        print(f"not measured for want of time: {', '.join(missing)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="after which no further pipeline is measured")
    parser.add_argument("--record", nargs="*", metavar="NAME", help="write the measurements that the tests replay")
    arguments = parser.parse_args()
    if arguments.record is not None:
        record(arguments.record)
    else:
        print_table(arguments.seconds)


if __name__ == "__main__":
    main()
