"""`diagnose` on PyTorch loaders and Python iterables: the fault of each is named, and no twin accused.

As for `tf.data` (`test_diagnose_faults`), the conclusions are checked on measurements that were recorded once. What
is measured here runs in processes of their own, because workers must not be forked beside TensorFlow.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fault_table import loaders, loses_far_less, pipelines

from myxtts.performance import Diagnosis, LoopWatch
from myxtts.performance.culprits import CULPRITS
from myxtts.performance.facts import SlowElements
from myxtts.performance.stack_sampler import StackSampler, busiest_thread, main_function

FAULTS = loaders()
HERE = Path(__file__).parent
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.mark.parametrize("name", FAULTS.cases)
def test_a_fault_is_named_with_lines_to_paste(name: str) -> None:
    found, culprit = FAULTS.conclusion(name, "faulty"), CULPRITS[FAULTS.cases[name].culprit]
    assert found.culprit == culprit.name, f"\n{found}"
    assert found.culprit_text
    assert found.evidence or found.culprit == "per-clip-work"
    assert found.fixes[0].text == culprit.remedy
    assert found.fixes[0].lines


@pytest.mark.parametrize("name", FAULTS.cases)
def test_the_fixed_twin_is_not_accused_and_loses_far_less(name: str) -> None:
    faulty, fixed = FAULTS.conclusion(name, "faulty"), FAULTS.conclusion(name, "fixed")
    assert fixed.culprit == "none", f"\n{fixed}"
    assert loses_far_less(fixed, faulty)


@pytest.mark.parametrize("name", FAULTS.healthy)
def test_a_healthy_loader_is_left_alone(name: str) -> None:
    found = FAULTS.conclusion(name, "healthy")
    assert (found.verdict, found.culprit, found.fixes) == ("not input-bound", "none", ()), f"\n{found}"


def test_every_loader_is_recorded() -> None:
    assert list(FAULTS.recorded_measurements) == FAULTS.names


@pytest.mark.tensorflow
def test_every_culprit_has_a_faulty_input() -> None:
    cases = (*FAULTS.cases.values(), *pipelines().cases.values())
    without_gpu = set(CULPRITS) - {"no-pin-memory"}
    assert {case.culprit for case in cases} == without_gpu


def test_a_slow_clip_is_slow_again_and_chance_is_not() -> None:
    names = [f"clip {number}" for number in range(40)]
    seconds = np.full(40, 0.002)
    seconds[[7, 31]] = 0.5
    found = SlowElements.find(names, seconds, lambda position: float(seconds[position]))
    assert found is not None
    assert found.names == ("clip 7", "clip 31")
    assert SlowElements.find(names, seconds, lambda position: 0.002) is None


class TestStacks:
    def test_the_innermost_function_with_half_of_the_time_is_named(self) -> None:
        outer, load, decode, log = (
            compile(f"def {name}(): pass", "data.py", "exec").co_consts[0]
            for name in ("outer", "load", "decode", "log")
        )
        stacks = {(outer, load, decode): 0.6, (outer, load): 0.2, (outer, log): 0.2}
        found = main_function(stacks)
        assert found is not None
        assert (found.name, found.share) == ("decode (data.py:1)", pytest.approx(0.6))

    def test_a_thread_that_waits_for_another_does_not_make_the_batches(self) -> None:
        wait = compile("def wait(): pass", "/lib/threading.py", "exec").co_consts[0]
        load = compile("def load(): pass", "data.py", "exec").co_consts[0]
        assert busiest_thread({1: {(wait,): 1.0}, 2: {(load,): 0.4, (wait,): 0.6}}, otherwise=1) == 2
        assert busiest_thread({1: {(wait,): 1.0}}, otherwise=1) == 1

    def test_a_function_that_computes_is_seen(self) -> None:
        import threading
        import time

        def work() -> int:
            total, ends = 0, time.thread_time() + 0.05
            while time.thread_time() < ends:
                total += 1
            return total

        with StackSampler() as sampler:
            work()
        found = main_function(sampler.stacks()[threading.get_ident()])
        assert found is not None
        assert "work" in found.name


CALLBACKS = {
    "on_train_batch_start": "lightning.pytorch.callbacks",
    "on_step_begin": "transformers",
}


@pytest.mark.parametrize("hook", CALLBACKS)
def test_the_callbacks_of_the_document_diagnose_the_loader_once(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins of the two packages, which call the hooks as these do."""
    text = (HERE.parent / "docs" / "diagnose.md").read_text(encoding="utf-8")
    (code,) = (block.split("```")[0] for block in text.split("```python\n")[1:] if hook in block.split("```")[0])
    module: Any = types.ModuleType(CALLBACKS[hook])
    module.Callback = module.TrainerCallback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", types.ModuleType("lightning.pytorch"))
    monkeypatch.setitem(sys.modules, CALLBACKS[hook], module)
    names: dict[str, Any] = {}
    exec(code, names)
    shown: list[Diagnosis] = []
    callback = names["Diagnose"]()
    callback.watch = LoopWatch(steps=6, num_batches=5, show=shown.append)
    batches = [np.zeros([2, 3])] * 8
    trainer = types.SimpleNamespace(train_dataloader=batches)
    for index, batch in enumerate(batches):
        if hook == "on_step_begin":
            callback.on_step_begin(None, None, None, model=None, train_dataloader=batches)
            callback.on_step_end(None, None, None, model=None, train_dataloader=batches)
        else:
            callback.on_train_batch_start(trainer, None, batch, index)
            callback.on_train_batch_end(trainer, None, None, batch, index)
    assert len(shown) == 1
    assert shown[0].simulated


PARTS = """
from faulty_loaders import Clips, SHORT_EPOCH, loader
from myxtts.performance.torch_loader import TimedLoader, loader_nodes, read_settings
import sys, torch

given = loader(Clips(0.002, count=SHORT_EPOCH), 1, multiprocessing_context=sys.argv[1])
timed = TimedLoader(given)
assert all(torch.equal(one, other) for one, other in zip(given, timed, strict=True))
nodes = {node.kind: node for node in loader_nodes(timed.times, read_settings(given), "Clips")}
assert nodes["Dataset"].seconds >= 0.016, nodes
assert nodes["Dataset"].calls == 8
assert min(nodes[kind].seconds for kind in ("Send", "Receive", "Collate")) > 0, nodes
assert nodes["Pin"].seconds == 0
assert "tensorflow" not in sys.modules
"""


@needs_torch
@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.soak)])
def test_parts_are_timed_in_real_workers_and_batches_stay_the_same(method: str) -> None:
    guarded = "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in PARTS.splitlines())
    subprocess.run([sys.executable, "-c", guarded, method], cwd=HERE, check=True, timeout=300)


@needs_torch
@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS.names)
def test_measured_on_this_machine_the_fault_is_named_and_its_twin_is_not_accused(name: str) -> None:
    program = [sys.executable, str(HERE / "fault_table.py"), "--loaders", "--check", name]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
