"""`diagnose` names the fault of every faulty pipeline, and accuses neither its mended twin nor a healthy one.

What the pipelines are is in `faulty_pipelines`. Most of their faults do not use the CPU, but a machine that is busy
with other things makes healthy pipelines wait for real. So they run alone (`make test`), what others do is measured
beside each of them, and one that fails is tried once more: then on a busy machine it is skipped with the reason, on a
quiet one it has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from faulty_pipelines import CASES, HEALTHY, STEP, Case

from myxtts.performance import Diagnosis, SimulatedStep, diagnose
from myxtts.performance.cpu_use import CpuMeter, CpuUse

pytestmark = pytest.mark.alone

TRIES = 2
BUSY = 0.4
LEAST_REMOVED = 0.8


def busy(use: CpuUse) -> bool:
    return use.others >= BUSY * use.cpus * use.wall


def unless_busy(check: Callable[[], None], tries: int = TRIES) -> None:
    """Runs a check; an error of it may bring along, as `use`, what the CPUs did while it mattered."""
    for tries_left in reversed(range(tries)):
        meter = CpuMeter()
        try:
            check()
            return
        except AssertionError as error:
            use = getattr(error, "use", None) or meter.read()
            if not tries_left and not busy(use):
                raise
            reason = f"{str(error).splitlines()[0]}; {use}"
    pytest.skip(f"this machine is too busy to judge: {reason}")


def lost_ms(diagnosis: Diagnosis) -> float:
    return diagnosis.lost_share * diagnosis.step_ms


def check_case(case: Case) -> None:
    pipeline, step = case.faulty(), case.faulty_step()
    with case.around():
        faulty = diagnose(pipeline, step, case.num_batches)
    meter = CpuMeter()  # competitors that belong to a fault do not make the machine busy
    mended = diagnose(case.mended(), (case.mended_step or case.faulty_step)(), case.num_batches)
    try:
        assert faulty.culprit == case.culprit, f"\n{faulty}"
        assert mended.culprit == "none", f"the twin is accused:\n{mended}"
        assert lost_ms(mended) <= (1 - LEAST_REMOVED) * lost_ms(faulty), f"\n{faulty}\n{mended}"
    except AssertionError as error:
        error.use = meter.read()  # type: ignore[attr-defined]
        raise


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named_and_its_mended_twin_is_not_accused(name: str) -> None:
    unless_busy(lambda: check_case(CASES[name]))


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_pipeline_is_left_alone(name: str) -> None:
    def check() -> None:
        found = diagnose(HEALTHY[name](), SimulatedStep(STEP), 60)
        assert (found.verdict, found.culprit, found.fixes) == ("not input-bound", "none", ()), f"\n{found}"
        assert "stop tuning input" in str(found)

    unless_busy(check)


def test_there_is_a_fault_for_every_culprit() -> None:
    from myxtts.performance.diagnosis import CULPRITS

    assert {case.culprit for case in CASES.values()} | {"none"} == set(CULPRITS)


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named_again_and_again(name: str) -> None:
    case: Any = CASES[name]
    for _ in range(3):
        unless_busy(lambda: check_case(case), tries=1)
