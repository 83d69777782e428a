"""`myxtts profile`: how long a batch takes to load, and how long each part of a step takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli.machine_config import batch_text, loading_errors, resolve_for_machine
from myxtts.cli.options import ConfigOptions, command
from myxtts.cli.output import StageProgress, emit, progress, say
from myxtts.errors import UsageError

if TYPE_CHECKING:
    import tensorflow as tf

    from myxtts.config.config import XTTSConfig
    from myxtts.data.batch_source import BatchSource
    from myxtts.performance.loading_profile import LoadingProfile
    from myxtts.training.device import Device
    from myxtts.training.step_parts import StepParts

    Batch = dict[str, tf.Tensor]

_WIDTH = 10
_TRACED_BATCHES = 20
_PARTS_PROGRAMS = 9


@command(
    "data_path",
    "data_layout",
    "language",
    "preprocessing_mode",
    "batch_size",
    "num_workers",
    "config",
    "preset",
    "settings",
)
def profile(
    given: ConfigOptions,
    num_batches: Annotated[int, typer.Option(min=1, help="Batches to load.")] = 100,
    calls: Annotated[int, typer.Option(min=1, help="How often to call each part of the step.")] = 10,
    model: Annotated[
        bool, typer.Option("--model/--no-model", help="Also measure the model's step, or only loading.")
    ] = True,
    trace_dir: Annotated[
        Path | None, typer.Option(help="Write a TensorFlow profiler trace for TensorBoard here.")
    ] = None,
) -> None:
    """Measure how long batches take to load, and each part of the model's step.

    Loading is good under 100 ms per batch, moderate up to 500 ms, and slow above.

    Example: myxtts profile --data-path ./data/ljspeech --num-batches 200
    """
    if trace_dir is not None:
        try:
            trace_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--trace-dir {trace_dir}: cannot be made ({error.strerror})") from None
    machine = resolve_for_machine(given)
    resolved, dataset = machine.config, machine.dataset
    from myxtts.training.device import prepare_device

    device = prepare_device(resolved.training)
    with StageProgress() as bar:
        source = dataset.batches("train", resolved, bar)
    mode = dataset.prepare(config=resolved).mode
    loading, batch = _load(source, source.dataset(seed=resolved.training.seed), num_batches)
    parts = None
    if model:
        from myxtts.training.step_parts import measure_parts

        with loading_errors(), progress("compiling", _PARTS_PROGRAMS, "programs") as compiling:
            parts = measure_parts(resolved, batch, device, calls, lambda name: compiling.advance())
    if trace_dir is not None:
        _trace(trace_dir, resolved, source, device, min(num_batches, _TRACED_BATCHES), model)
    result: dict[str, Any] = {
        "mode": mode,
        "device": device.name,
        "loading": loading.to_dict(),
        "step": None if parts is None else parts.to_dict(),
        "trace_dir": None if trace_dir is None else str(trace_dir),
    }
    emit(result, lambda out: _render(out, resolved, mode, device, loading, parts))


def _load(source: BatchSource, dataset: tf.data.Dataset, num_batches: int) -> tuple[LoadingProfile, Batch]:
    """The loading times, and a batch of the most frequent shape."""
    from myxtts.data.batch_source import AllShapesSeen, clips_in
    from myxtts.performance.loading_profile import profile_loading

    examples: dict[Any, Batch] = {}
    seen: Counter[Any] = Counter()
    with progress("loading", None, "batches") as bar:

        def note(batch: Batch) -> None:
            shape = tuple(tuple(value.shape) for value in batch.values())
            seen[shape] += 1
            examples.setdefault(shape, batch)
            bar.advance()

        with loading_errors():
            loading = profile_loading(
                dataset, num_batches, is_warm=AllShapesSeen(source.plan), count_clips=clips_in, on_batch=note
            )
    return loading, examples[seen.most_common(1)[0][0]]


def _trace(folder: Path, config: XTTSConfig, source: BatchSource, device: Device, batches: int, model: bool) -> None:
    """Records loading, and steps if `model`, with TensorFlow's profiler; without compilation."""
    import tensorflow as tf

    from myxtts.training.measured_steps import StepRunner, warm_batches

    runner = StepRunner(config, device) if model else None
    with loading_errors():
        iterator = warm_batches(source, config.training.seed, runner)
    try:
        with tf.profiler.experimental.Profile(str(folder)):
            for number in range(batches):
                with tf.profiler.experimental.Trace("train", step_num=number, _r=1), loading_errors():
                    batch = next(iterator)
                    if runner is not None:
                        runner.run(iter([batch]), 1)
    except tf.errors.OpError as error:
        raise UsageError(f"--trace-dir {folder}: TensorFlow cannot write the trace ({error.message})") from error
    say(f"trace of {batches} batches in {folder}; 'tensorboard --logdir {folder}' shows it (needs the xprof package)")


def _render(
    out: Console,
    config: XTTSConfig,
    mode: str,
    device: Device,
    loading: LoadingProfile,
    parts: StepParts | None,
) -> None:
    def line(label: str, text: str) -> None:
        out.print(f"{label:<{_WIDTH}}{text}".rstrip())

    times = loading.times
    line("loading", f"{loading.verdict}: {times.mean:.1f} ms per batch (good under 100 ms, slow above 500 ms)")
    line(
        "", f"p50 {times.p50:.1f}, p95 {times.p95:.1f}, p99 {times.p99:.1f} ms; first batch {loading.first_ms:.0f} ms"
    )
    line("", f"std/mean {100 * loading.variation:.0f} % ({loading.variation_verdict})")
    line(
        "",
        f"{loading.clips_per_second:,.0f} clips/s: {times.count:,} batches of {batch_text(config)}, mode {mode}, "
        f"{config.data.workers} workers, nothing else running",
    )
    if parts is None:
        return
    clips, frames, tokens = parts.shape
    line("step", f"{parts.step_ms:.1f} ms on {device.name} for {clips} clips × {frames} frames × {tokens} tokens")
    for name, taken in parts.parts.items():
        line("", f"{name:<20}{taken:>9.1f} ms {100 * taken / parts.step_ms:>6.0f} %")
    line("", f"each part compiled and timed alone, median of {parts.calls} calls; backward, optimizer and the time")
    line("", "between the parts are differences between larger programs")
    if times.mean < parts.step_ms:
        line("together", "a batch loads in less time than a step takes: loading can hide behind it")
    else:
        line("together", "a batch takes longer to load than a step takes: 'myxtts diagnose' says why")
