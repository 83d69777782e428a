"""The parts of `diagnose`, one by one."""

from __future__ import annotations

import ctypes
import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from myxtts.performance import Diagnosis, SimulatedStep, cpu_use, diagnose
from myxtts.performance.batches import BatchStream, padding_share
from myxtts.performance.cpu_use import CpuMeter, CpuUse, LockProbe, held_share
from myxtts.performance.culprit_rules import Suspect
from myxtts.performance.culprits import CULPRITS, SettingsChange, choose
from myxtts.performance.diagnosis import NONE, Fix, Pattern, StallSplit, StepSeries
from myxtts.performance.experiments import eager_operations
from myxtts.performance.graph_nodes import Node, TimedPipeline, ends_with_prefetch, stage_seconds, stages
from myxtts.performance.pattern import find_pattern, period
from myxtts.performance.python_functions import PythonTimes
from myxtts.performance.step_run import drain, run_steps


def sample(**changes: object) -> Diagnosis:
    values: dict[str, object] = {
        "verdict": "moderately input-bound",
        "input_share": 0.124,
        "uncertainty": 0.008,
        "steps": 300,
        "step_ms": 212.0,
        "ceiling_ms": 186.0,
        "split": StallSplit(0.091, 0.026, 0.007),
        "culprit": "python-function",
        "culprit_text": "ParallelMap load_mel: 71 % of the pipeline's blocking time, a Python function",
        "lost_share": 0.124,
        "evidence": ("the interpreter lock is held 80 % of the time that batches are made",),
        "pattern": Pattern(0.38, "moderate", 41, "with a new batch shape"),
        "fixes": (Fix("python-function", "take the work out of Python", 0.08, ("dataset = ...",)),),
        "nodes": (),
        "series": StepSeries(np.array([200.0, 212.0, 230.0]), np.array([20.0, 25.0, 40.0])),
    }
    return Diagnosis(**(values | changes))  # type: ignore[arg-type]


class TestText:
    def test_one_screen_says_verdict_ceiling_split_culprit_pattern_and_fix(self) -> None:
        lines = str(sample()).splitlines()
        assert lines[0] == ("VERDICT   moderately input-bound: 12.4 % (±0.8) of step time waits for data (300 steps)")
        assert lines[1] == "CEILING   with perfect input: 212 → 186 ms per step (-12 %); beyond that, tune the model"
        assert lines[2] == "SPLIT     preparation 9.1 %, fetch 2.6 %, copy to device 0.7 %"
        assert lines[3].startswith("CULPRIT   python-function: ParallelMap load_mel: 71 %")
        assert lines[5] == "PATTERN   slow every 41 steps, with a new batch shape; std/mean 38 % (moderate)"
        assert lines[6] == "FIX       1. take the work out of Python (estimated -8 %)"
        assert len(lines) < 24

    def test_an_input_that_is_good_enough_is_called_so(self) -> None:
        text = str(sample(verdict="not input-bound", input_share=0.004, culprit=NONE, fixes=(), evidence=()))
        assert "not input-bound: stop tuning input" in text
        assert "nothing to fix" in text

    def test_waiting_that_nothing_explains_is_not_called_fine(self) -> None:
        text = str(sample(culprit=NONE, fixes=()))
        assert "none known" in text
        assert "stop tuning" not in text

    def test_the_text_says_that_the_accelerator_is_simulated(self) -> None:
        assert "simulated accelerator" in str(sample(simulated=True))

    def test_a_diagnosis_is_ready_for_json(self) -> None:
        again = json.loads(json.dumps(sample().to_dict()))
        assert again["culprit"] == "python-function"
        assert again["series"]["stall_ms"] == [20.0, 25.0, 40.0]


class TestPattern:
    def test_a_steady_series_has_none(self) -> None:
        assert find_pattern(np.array([10.0, 10.1, 9.9] * 20), {}) == Pattern(
            pytest.approx(0.008, abs=0.002),  # type: ignore[arg-type]
            "stable",
        )

    def test_a_slow_step_in_every_seven_is_a_period_of_seven(self) -> None:
        times = np.array([30.0 if step % 7 == 0 else 10.0 for step in range(70)])
        assert period(times) == 7

    def test_noise_has_no_period(self) -> None:
        assert period(np.random.default_rng(1).normal(10, 2, 200)) is None

    def test_slow_steps_are_matched_with_what_happened_then(self) -> None:
        times = np.full(60, 10.0)
        times[[12, 30, 47]] = 80.0
        events = {"with the start of an epoch": [5, 25, 45], "with a new batch shape": [12, 30, 47]}
        pattern = find_pattern(times, events)
        assert (pattern.swing, pattern.cause) == ("high", "with a new batch shape")

    def test_what_happens_all_the_time_explains_nothing(self) -> None:
        times = np.full(60, 10.0)
        times[[12, 30, 47]] = 80.0
        assert find_pattern(times, {"always": range(60)}).cause is None


class Pending:
    """A result that cannot be read yet."""

    def __init__(self) -> None:
        self.ready = threading.Event()

    def block_until_ready(self) -> None:
        assert self.ready.wait(60)


class TestSteps:
    def test_a_dispatched_step_is_not_waited_for(self) -> None:
        """Each result can be read only after the next step was called, so waiting for one would never end."""
        results: list[Pending] = []

        def step(batch: int) -> Pending:
            results.append(Pending())
            for result in results if batch == 9 else results[:-1]:
                result.ready.set()
            return results[-1]

        assert len(run_steps(iter(range(10)), step, 9)) == 9

    def test_a_simulated_step_takes_its_time_on_the_device(self) -> None:
        run = run_steps(iter([np.zeros([2, 3])] * 30), SimulatedStep(0.004), 20)
        assert len(run) == 20
        assert run.step_times.min() >= 0.0039

    def test_batches_are_taken_until_there_are_enough_or_the_time_is_over(self) -> None:
        now = iter(range(1000))
        source = iter(range(100))
        assert drain(source, 5, clock=lambda: float(next(now)))[0] == 5
        assert drain(source, 50, least=2, seconds=0, clock=lambda: float(next(now)))[0] == 2
        assert next(source) == 7
        assert drain(iter(range(3)), 50) == (3, pytest.approx(0, abs=60))

    def test_a_step_that_blocks_ends_with_its_call(self) -> None:
        run = run_steps(iter([np.zeros(3)] * 9), lambda batch: time.sleep(0.005), 8)
        assert run.calls.min() >= 0.005
        assert run.step_times.mean() >= 0.005

    def test_waiting_for_a_batch_is_a_stall(self) -> None:
        def slowly() -> object:
            while True:
                time.sleep(0.02)
                yield np.zeros(3)

        run = run_steps(slowly(), SimulatedStep(0.001), 10)  # type: ignore[arg-type]
        assert run.stalls.mean() > 0.01

    def test_passes_over_the_source_are_counted(self) -> None:
        stream = BatchStream([np.zeros(2)] * 4)
        run = run_steps(stream.batches(), lambda batch: None, 9, epoch_of=lambda: stream.passes)
        assert run.epoch_starts == (3, 7)

    def test_an_error_of_the_step_is_raised(self) -> None:
        def fail(batch: object) -> None:
            raise RuntimeError("no")

        with pytest.raises(RuntimeError, match="no"):
            run_steps(iter([1, 2, 3]), fail, 2)

    def test_a_source_without_batches_is_refused(self) -> None:
        with pytest.raises(ValueError, match="ended"):
            diagnose([], SimulatedStep(0.001), 10)


class TestCpu:
    def test_waiting_for_a_cpu_that_others_use_is_being_denied_it(self) -> None:
        alone = CpuUse(wall=1.0, own=1.9, queued=1.0, others=0.0, cpus=2, machine_cpus=2)
        crowded = CpuUse(wall=1.0, own=0.2, queued=1.6, others=1.8, cpus=2, machine_cpus=2)
        assert alone.denied_share == 0.0
        assert crowded.denied_share == pytest.approx(0.8)

    def test_a_quota_counts(self) -> None:
        held = CpuUse(wall=2.0, own=0.5, throttled=1.0, cpus=1, machine_cpus=8)
        assert held.denied_share == pytest.approx(0.5)
        assert "quota held it back 50 %" in str(held)
        assert "the machine has 8 CPUs" in str(held)

    @pytest.mark.parametrize(
        ("membership", "folder", "text"),
        [
            ("0::/job", "job", "usage_usec 9\nnr_throttled 3\nthrottled_usec 2500000\n"),
            ("3:cpu:/job", "cpu/job", "nr_periods 7\nnr_throttled 3\nthrottled_time 2500000000\n"),
        ],
    )
    def test_throttling_is_read_from_either_kind_of_cgroup(
        self, tmp_path: Path, membership: str, folder: str, text: str
    ) -> None:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "cpu.stat").write_text(text)
        (tmp_path / "membership").write_text(membership + "\n")
        assert cpu_use._throttled_seconds(tmp_path, tmp_path / "membership") == 2.5

    def test_work_of_this_process_is_its_own(self) -> None:
        meter = CpuMeter()
        ends = time.process_time() + 0.05
        while time.process_time() < ends:
            pass
        assert meter.read().own >= 0.05


class TestLock:
    def test_being_late_beyond_the_usual_is_blamed_on_the_lock(self) -> None:
        assert held_share(0.010, 0.0) == pytest.approx(10 / 11)
        assert held_share(0.010, 0.010) == 0.0
        assert held_share(0.001, 0.005) == 0.0

    @pytest.mark.soak
    def test_a_function_that_keeps_the_lock_shows_and_one_that_waits_does_not(self) -> None:
        def late(wait: object) -> float:
            with LockProbe() as probe:
                for _ in range(6):
                    wait()  # type: ignore[operator]
            return probe.late

        keeps = late(lambda: ctypes.PyDLL(None).usleep(50_000))
        releases = late(lambda: time.sleep(0.05))
        assert held_share(keeps, releases) > 0.5
        assert held_share(releases, releases) == 0.0


class TestPadding:
    def test_what_fills_a_batch_up_is_padding(self) -> None:
        batch = np.random.default_rng(0).normal(size=[4, 100, 3]).astype(np.float32)
        batch[:2, 50:] = 0.0
        assert padding_share([{"mel": batch}]) == pytest.approx(0.25)

    def test_a_full_batch_has_none(self) -> None:
        assert padding_share([np.random.default_rng(0).normal(size=[4, 100])]) == 0.0

    def test_constant_data_tells_nothing(self) -> None:
        assert padding_share([np.zeros([4, 100, 3])]) == 0.0


class TestNodes:
    def test_a_node_with_threads_of_its_own_begins_a_stage(self) -> None:
        times = {
            "Prefetch": (0.0, 1, 1),
            "Batch": (0.010, 1, 1),
            "ParallelMap": (0.080, 8, 4),
            "Shuffle": (0.001, 8, 1),
        }
        nodes = [Node(kind, kind, *values) for kind, values in times.items()]
        assert [round(stage_seconds(stage), 4) for stage in stages(nodes)] == [0.0, 0.01, 0.02, 0.001]

    def test_nodes_are_those_that_were_written_with_their_functions(self) -> None:
        def load_mel(number: object) -> object:
            return tf.cast(number, tf.float32) + 1.0

        dataset = tf.data.Dataset.range(1000).shuffle(10).map(load_mel, num_parallel_calls=2).batch(4).prefetch(2)
        timed = TimedPipeline(dataset)
        for _ in range(3):
            next(timed.batches)
        timed.start()
        for _ in range(60):
            next(timed.batches)
        nodes = timed.read(60)
        assert [node.name for node in nodes] == ["Prefetch", "Batch", "ParallelMap load_mel", "Shuffle", "Range"]
        assert nodes[2].calls == pytest.approx(4, rel=0.2)
        assert all(node.seconds > 0 for node in nodes)

    def test_options_do_not_hide_a_prefetch(self) -> None:
        dataset = tf.data.Dataset.range(4).batch(2)
        assert not ends_with_prefetch(dataset)
        assert ends_with_prefetch(dataset.prefetch(1).with_options(tf.data.Options()))

    def test_python_functions_are_timed_and_left_as_they_were(self) -> None:
        def pause(number: int) -> int:
            time.sleep(0.003)
            return number

        dataset = tf.data.Dataset.range(20).map(lambda number: tf.numpy_function(pause, [number], tf.int64))
        with PythonTimes(dataset) as python:
            list(dataset)
        (seconds,) = python.seconds().values()
        assert seconds >= 0.06
        list(dataset)
        assert list(python.seconds().values()) == [seconds]


class TestChoice:
    def test_the_easier_change_wins_where_it_is_enough(self) -> None:
        order = choose({"per-clip-work": Suspect(1.0, ""), "no-prefetch": Suspect(0.9, "")})
        assert [name for name, _ in order] == ["no-prefetch", "per-clip-work"]

    def test_otherwise_the_change_that_removes_most(self) -> None:
        order = choose({"no-prefetch": Suspect(0.3, ""), "slow-storage": Suspect(0.6, "")})
        assert order[0][0] == "slow-storage"

    def test_what_removes_next_to_nothing_is_not_named(self) -> None:
        assert choose({"no-prefetch": Suspect(0.1, "")}) == []


def as_settings(change: SettingsChange) -> str:
    """A change of the configuration as the documents write it."""
    lines = (f"{key.partition('.')[2]}: {str(value).lower()}" for key, value in change.values.items())
    return ", ".join(f"`{line}`" for line in lines)


def rows_of_diagnose() -> list[str]:
    rows = []
    for culprit in CULPRITS.values():
        change = culprit.remedy + (f"; {culprit.with_settings}" if culprit.with_settings else "")
        change += f" ({as_settings(culprit.settings[0])})" if culprit.settings else ""
        rows.append(f"| `{culprit.name}` | {culprit.meaning} | {culprit.shown_by} | {change} |")
    return rows


def rows_of_guide() -> list[str]:
    rows = []
    for culprit in CULPRITS.values():
        changes = "; ".join(change.name for change in culprit.settings) or "none: our own pipelines cannot have it"
        rows.append(f"| `{culprit.name}` | {changes} |")
    by_name = {change.name: change for culprit in CULPRITS.values() for change in culprit.settings}
    return rows + [f"| {name} | {as_settings(change)} |" for name, change in by_name.items()]


@pytest.mark.parametrize(
    ("document", "rows"), [("diagnose.md", rows_of_diagnose()), ("performance-guide.md", rows_of_guide())]
)
def test_the_documents_list_the_culprits_as_the_table_has_them(document: str, rows: list[str]) -> None:
    """If this fails, the expected rows are what the document should say."""
    text = (Path(__file__).resolve().parents[1] / "docs" / document).read_text(encoding="utf-8")
    first_cells = {row.split("|")[1] for row in rows}
    listed = [line for line in text.splitlines() if line.startswith("|") and line.split("|")[1] in first_cells]
    assert listed == rows


def test_operations_of_an_eager_step_are_counted_and_a_graph_is_one() -> None:
    def step(batch: object) -> object:
        for _ in range(30):
            batch = batch * 1.1  # type: ignore[operator]
        return batch

    batch = tf.ones([2])
    compiled = tf.function(step)
    compiled(batch)
    assert eager_operations(step, batch) >= 30
    assert eager_operations(compiled, batch) <= 2


def test_the_package_offers_diagnose_without_importing_tensorflow() -> None:
    import subprocess
    import sys

    program = "import sys, myxtts.performance as p; assert 'tensorflow' not in sys.modules; p.diagnose; p.diagnose"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
