"""`diagnose` names the fault of every faulty pipeline, and accuses neither its fixed twin nor a healthy one.

What the pipelines are is in `faulty_pipelines`. The conclusions are checked on measurements that were recorded once
(`python tests/fault_table.py --record`), so no busy machine can change them. The measuring itself runs here as well,
and only has to give a whole diagnosis. Measured verdicts are asserted by `make soak`, on a quiet machine.
"""

from __future__ import annotations

import json

import pytest
from fault_table import loses_far_less, pipelines
from recorded_measurements import from_json, to_json

from myxtts.performance.culprits import CULPRITS
from myxtts.performance.diagnose_pipeline import judge

FAULTS = pipelines()

# One for each way of measuring: a node in Python, epochs, single clips, a plain iterable, shapes, an eager step.
MEASURED = (
    "a Python function that keeps the lock",
    "a shuffle of loaded clips",
    "a few slow clips",
    "a loader without workers",
    "a new length in every batch",
    "a step run eagerly",
)


@pytest.mark.parametrize("name", FAULTS.cases)
def test_a_fault_is_named_with_its_remedy(name: str) -> None:
    found, culprit = FAULTS.conclusion(name, "faulty"), CULPRITS[FAULTS.cases[name].culprit]
    assert found.culprit == culprit.name, f"\n{found}"
    assert found.culprit_text
    assert found.fixes[0].culprit == culprit.name
    assert found.fixes[0].text == culprit.remedy
    assert found.fixes[0].lines in (culprit.tf_data, culprit.iterable)


@pytest.mark.parametrize("name", FAULTS.cases)
def test_the_fixed_twin_is_not_accused_and_loses_far_less(name: str) -> None:
    faulty, fixed = FAULTS.conclusion(name, "faulty"), FAULTS.conclusion(name, "fixed")
    assert fixed.culprit == "none", f"\n{fixed}"
    assert loses_far_less(fixed, faulty)


@pytest.mark.parametrize("name", FAULTS.healthy)
def test_a_healthy_pipeline_is_left_alone(name: str) -> None:
    found = FAULTS.conclusion(name, "healthy")
    assert (found.verdict, found.culprit, found.fixes) == ("not input-bound", "none", ()), f"\n{found}"
    assert "stop tuning input" in str(found)


def test_every_pipeline_is_recorded() -> None:
    assert list(FAULTS.recorded_measurements) == FAULTS.names


@pytest.mark.parametrize("name", MEASURED)
def test_measuring_gives_a_whole_diagnosis_that_can_be_recorded(name: str) -> None:
    measured = FAULTS.measure(name, "faulty")
    found = judge(measured)
    assert 0 < found.steps <= FAULTS.cases[name].num_batches
    assert found.culprit in {*CULPRITS, "none"}
    assert "VERDICT" in str(found)
    again = judge(from_json(json.loads(json.dumps(to_json(measured)))))
    assert (again.culprit, again.verdict) == (found.culprit, found.verdict)


@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS.names)
def test_measured_on_this_machine_the_fault_is_named_and_its_twin_is_not_accused(name: str) -> None:
    """A disturbance may spoil one try of two."""
    for _ in range(2):
        found = {variant: judge(FAULTS.measure(name, variant)) for variant in FAULTS.variants(name)}
        if FAULTS.is_right(name, found):
            return
    pytest.fail("\n\n".join(f"{variant}:\n{one}" for variant, one in found.items()))
