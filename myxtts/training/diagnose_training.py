"""Diagnoses a run as a configuration describes it: its own pipeline, and its own step or a simulated accelerator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.batch_source import BatchSource
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.precompute import WorkProgress
from myxtts.performance.culprits import CULPRITS, LESS_WORK
from myxtts.performance.diagnose_pipeline import diagnose
from myxtts.performance.diagnosis import Diagnosis, Fix
from myxtts.performance.simulated_accelerator import SimulatedStep
from myxtts.training.device import prepare_device
from myxtts.training.measured_steps import StepRunner, warm_batches
from myxtts.training.objective import Shape

Report = Callable[[str], None]


def diagnose_training(
    config: XTTSConfig,
    num_batches: int = 100,
    *,
    simulated_step_seconds: float | None = None,
    progress: WorkProgress | None = None,
    report: Report = lambda what: None,
    dataset: LJSpeechDataset | None = None,
) -> Diagnosis:
    """Measures the training that a configuration describes; nothing of it is kept.

    Args:
        config: of the run.
        num_batches: steps to measure.
        simulated_step_seconds: a simulated accelerator of this speed instead of the real step.
        progress: watches a store being made.
        report: called with what is being measured.
        dataset: the configuration's, if it was read already.

    Raises:
        DataError: the data set cannot be used.
        UsageError: the device is not available.
    """
    device = prepare_device(config.training)
    dataset = dataset or LJSpeechDataset(None, config)
    source = dataset.batches("train", config, progress)
    step: Callable[[Any], Any]
    if simulated_step_seconds is not None:
        step = SimulatedStep(simulated_step_seconds)
    else:
        compiled: list[Shape] = []

        def compiling(shape: Shape) -> None:
            compiled.append(shape)
            report(f"compiling the step, shape {len(compiled)} of {len(source.plan.buckets)}")

        runner = StepRunner(config, device, compiling)
        warm_batches(source, config.training.seed, runner)  # so that no measured step is spent compiling
        step = runner.dispatch
    batches = source.dataset(seed=config.training.seed)
    with tf.device(device.name):
        diagnosis = diagnose(batches, step, num_batches, files=_audio_files(source), report=report)
    # Our own pipelines are changed by settings, not by lines of code.
    fixes = tuple(_as_settings(fix, next_changes(config, fix.culprit)) for fix in diagnosis.fixes)
    settings = {
        "mode": dataset.prepare(config=config).mode,
        "data set": ", ".join(config.data.dataset_paths),
        "device": device.name,
    }
    if simulated_step_seconds is not None:
        settings["device"] = f"simulated, {1e3 * simulated_step_seconds:g} ms a step"
    return replace(diagnosis, fixes=fixes, settings=settings)


def _audio_files(source: BatchSource) -> list[Path]:
    """What is read while training; a store is mapped, and mapped files cannot be taken out of the page cache."""
    return [Path(path) for path in source.clips.audio_paths] if isinstance(source.clips, RuntimeClips) else []


def next_changes(config: XTTSConfig, culprit: str, input_bound: bool = False) -> dict[str, Any]:
    """The settings to change next, as `section.key` and value; empty if none is left to change.

    Args:
        config: what was measured.
        culprit: what was found.
        input_bound: whether steps wait for data. Then, after the culprit's own settings, those follow that make any
            pipeline lighter.
    """
    own = CULPRITS[culprit].settings if culprit in CULPRITS else ()
    for change in own + (LESS_WORK if input_bound else ()):
        changes = {key: value for key, value in change.values.items() if _value(config, key) != value}
        if changes and not _has_no_effect(config, changes):
            return changes
    return {}


def changed(config: XTTSConfig, changes: Mapping[str, Any]) -> XTTSConfig:
    """A copy of a configuration with other values for some `section.key`s."""
    copy = config.model_copy(deep=True)
    for key, value in changes.items():
        section, _, name = key.partition(".")
        setattr(getattr(copy, section), name, value)
    return copy


def _has_no_effect(config: XTTSConfig, changes: dict[str, Any]) -> bool:
    """Whether the configuration already does what the changes ask for."""
    data = config.data
    if set(changes) == {"data.preprocessing_mode"}:
        return data.preprocessing_mode == "auto"  # decides by itself, and says why if it must compute while training
    if set(changes) == {"data.num_workers"}:
        return data.workers >= type(data)(num_workers="auto").workers
    if set(changes) == {"data.prefetch_buffer_size"}:
        return data.prefetch >= type(data)(num_workers=data.num_workers).prefetch
    return set(changes) == {"data.num_buckets"} and data.num_buckets > changes["data.num_buckets"]


def _value(config: XTTSConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)


def _as_settings(fix: Fix, changes: dict[str, Any]) -> Fix:
    instead = CULPRITS[fix.culprit].with_settings
    text = f"{fix.text}; {instead}" if changes and instead else fix.text
    return replace(fix, text=text, lines=tuple(f"{key}: {yaml_text(value)}" for key, value in changes.items()))


def yaml_text(value: Any) -> str:
    """A value as a configuration file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
