"""Optimization levels are names for ordinary settings, which give way to explicit ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from myxtts.config.config import LEVELS, DataConfig, TrainingConfig, XTTSConfig
from myxtts.config.resolve import resolve
from myxtts.hardware import Gpu


def value(config: XTTSConfig, key: str) -> object:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_a_level_is_its_settings(level: str) -> None:
    config = XTTSConfig(optimization_level=level)
    assert {key: value(config, key) for key in LEVELS[level]} == LEVELS[level]


def test_the_default_level_is_the_defaults() -> None:
    assert XTTSConfig(optimization_level="enhanced") == XTTSConfig()


def test_basic_is_graph_only() -> None:
    config = XTTSConfig(optimization_level="basic")
    assert (config.training.enable_xla_compilation, config.training.mixed_precision) == (False, "off")
    assert (config.data.prefetch_to_gpu, config.data.enhanced_gpu_prefetch) == (False, False)


def test_experimental_computes_features_on_the_device() -> None:
    data = XTTSConfig(optimization_level="experimental").data
    assert (data.preprocessing_mode, data.feature_device) == ("runtime", "accelerator")


def test_an_explicit_setting_stays() -> None:
    config = XTTSConfig(
        optimization_level="basic", enable_xla_compilation=True, data=DataConfig(prefetch_to_gpu=True)
    )
    assert config.training.enable_xla_compilation is True
    assert config.data.prefetch_to_gpu is True
    assert config.training.mixed_precision == "off"


def test_a_section_that_was_passed_in_is_not_changed() -> None:
    training = TrainingConfig(optimization_level="basic")
    assert XTTSConfig(training=training).training.enable_xla_compilation is False
    assert training.enable_xla_compilation is True


def test_a_level_on_the_command_line_is_over_the_file_and_under_other_options(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    XTTSConfig().to_yaml(file)
    resolved = resolve(
        yaml_path=file, command_line={"optimization_level": "basic", "prefetch_to_gpu": True}, machine=()
    )
    assert resolved.config.training.enable_xla_compilation is False
    assert resolved.sources["training.enable_xla_compilation"] == "command line (level basic)"
    assert resolved.config.data.prefetch_to_gpu is True
    assert resolved.sources["data.prefetch_to_gpu"] == "command line"


def test_a_setting_on_the_command_line_is_over_a_level_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("training:\n  optimization_level: basic\n")
    resolved = resolve(yaml_path=file, command_line={"mixed_precision": "bfloat16"}, machine=())
    assert resolved.config.training.mixed_precision == "bfloat16"
    assert resolved.config.training.enable_xla_compilation is False


def test_a_written_configuration_means_the_same_when_read(tmp_path: Path) -> None:
    config = XTTSConfig(optimization_level="experimental", enable_xla_compilation=False)
    config.to_yaml(tmp_path / "c.yaml")
    assert XTTSConfig.from_yaml(tmp_path / "c.yaml") == config


def test_with_device_cpu_the_machine_is_tuned_as_one_without_a_gpu() -> None:
    gpu = Gpu("NVIDIA GeForce RTX 4090", 24 << 30)
    assert resolve(machine=(gpu,)).config.model.size == "base"
    assert resolve(machine=(gpu,), command_line={"device": "cpu"}).config.model.size == "tiny"
