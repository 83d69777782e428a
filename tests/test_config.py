"""The configuration: flat and by section, YAML round trip, layers, wrong input."""

from __future__ import annotations

import ast
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import myxtts
from myxtts.config.config import SECTIONS, DataConfig, XTTSConfig, create_default_config
from myxtts.config.presets import load_preset, preset_names
from myxtts.config.resolve import preset_for, resolve
from myxtts.data.store.columns import COLUMNS
from myxtts.errors import ConfigError
from myxtts.hardware import Gpu

GIB = 1 << 30

# Keys that decide how layers are put together; the configuration itself reads them.
READ_WHEN_RESOLVING = {"data.auto_tune_performance"}


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# Construction


def test_flat_keys_land_in_their_sections() -> None:
    config = XTTSConfig(data_path="./data/ljspeech", preprocessing_mode="precompute", batch_size=48, epochs=3)
    assert config.data.dataset_path == "./data/ljspeech"
    assert config.data.preprocessing_mode == "precompute"
    assert config.data.batch_size == 48
    assert config.training.epochs == 3


def test_flat_keys_and_sections_combine() -> None:
    config = XTTSConfig(data=DataConfig(num_workers=3), batch_size=48)
    assert (config.data.num_workers, config.data.batch_size) == (3, 48)


def test_create_default_config_takes_flat_keys() -> None:
    assert create_default_config(data_path="x", batch_size=7) == XTTSConfig(data_path="x", batch_size=7)


def test_data_path_is_dataset_path_in_the_section_too() -> None:
    assert DataConfig(data_path="x").dataset_path == "x"  # type: ignore[call-arg]


def test_a_key_given_flat_and_by_section_with_two_values_is_refused() -> None:
    with pytest.raises(ValidationError, match="given twice"):
        XTTSConfig(data={"batch_size": 1}, batch_size=2)


def test_no_key_is_in_two_sections() -> None:
    names = [key for section in SECTIONS.values() for key in [*section.model_fields, *section.obsolete]]
    assert len(names) == len(set(names))


def test_every_key_has_a_description_that_ends_without_a_full_stop() -> None:
    for section in SECTIONS.values():
        for key, field in section.model_fields.items():
            assert field.description, key
            assert not field.description.endswith("."), key


def test_an_assigned_value_is_checked() -> None:
    with pytest.raises(ValidationError):
        DataConfig().batch_size = 0


def test_auto_workers_are_the_usable_cpus_and_a_number_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("myxtts.config.sections.usable_cpus", lambda: 5)
    assert DataConfig().workers == 5
    assert DataConfig().prefetch == 10
    assert DataConfig(num_workers=3, prefetch_buffer_size=7).workers == 3
    assert DataConfig(num_workers=3, prefetch_buffer_size=7).prefetch == 7


def test_a_key_without_effect_is_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert DataConfig(shuffle_buffer_multiplier=10) == DataConfig()  # type: ignore[call-arg]
    [record] = caplog.records
    assert record.getMessage().startswith("data.shuffle_buffer_multiplier has no effect: every epoch shuffles")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train_split": 0.9, "val_split": 0.2}, "train_split"),
        ({"win_length": 2048}, "win_length"),
        ({"hop_length": 255}, "even"),
        ({"mel_fmax": 12000}, "mel_fmax"),
        ({"mel_fmin": 9000, "mel_fmax": 8000}, "mel_fmin"),
        ({"metadata_train_file": "train.csv"}, "metadata_eval_file"),
        ({"batch_size": True}, "number"),
        ({"log_floor": float("nan")}, "finite"),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataConfig(**values)


# YAML

_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_language = st.from_regex(r"[a-z]{2,3}", fullmatch=True)
_configs = st.builds(
    XTTSConfig,
    dataset_path=_text,
    metadata_file=st.none() | _text,
    speaker_pattern=st.none() | _text,
    checkpoint_dir=_text,
    language=_language,
    extra_languages=st.lists(_language, max_size=3),
    lexicons=st.dictionaries(_language, _text, max_size=3),
    preprocessing_mode=st.sampled_from(["auto", "precompute", "runtime"]),
    num_workers=st.just("auto") | st.integers(1, 64),
    max_frames_per_batch=st.none() | st.integers(1, 10**6),
    learning_rate=st.floats(1e-12, 1),
    log_floor=st.floats(1e-30, 1e-2),
    ema_decay=st.none() | st.floats(0.1, 0.9999),
    deterministic=st.booleans(),
    seed=st.integers(0, 2**63 - 1),
    decoder=st.sampled_from(["auto", "regression", "flow"]),
)


@pytest.mark.long
@settings(deadline=None, max_examples=40)
@given(config=_configs)
def test_any_configuration_survives_a_yaml_round_trip(
    config: XTTSConfig, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.yaml"
    config.to_yaml(path)
    assert XTTSConfig.from_yaml(path) == config


@settings(deadline=None, max_examples=300)
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="replace")))
def test_no_file_content_raises_anything_but_a_config_error(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.yaml"
    path.write_bytes(content)
    with suppress(ConfigError):
        XTTSConfig.from_yaml(path)


def test_a_written_file_has_a_comment_for_every_key(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    XTTSConfig().to_yaml(path)
    lines = path.read_text().splitlines()
    keys = [number for number, line in enumerate(lines) if line.startswith("  ") and not line.startswith("  #")]
    assert len(keys) == sum(len(section.model_fields) for section in SECTIONS.values())
    assert all(lines[number - 1].startswith("  # ") for number in keys)


def test_scientific_notation_without_a_dot_is_a_number(tmp_path: Path) -> None:
    assert XTTSConfig.from_yaml(write(tmp_path, "training: {learning_rate: 1e-4}")).training.learning_rate == 1e-4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("data: {batchsize: 3}", ":1: data.batchsize: no such key; did you mean 'batch_size'?"),
        ("traning: {epochs: 3}", ":1: traning: no such key; did you mean 'training'?"),
        (
            "data:\n  preprocessing_mode: fast",
            ":2: data.preprocessing_mode: should be one of 'auto', 'precompute', 'runtime' (got 'fast')",
        ),
        (
            "data:\n  num_workers: many",
            ":2: data.num_workers: should be a valid integer, or should be 'auto' (got 'many')",
        ),
        ("language: no", "data.language: should be a valid string; write it in quotes (got False)"),
        ("cache_dir: 2024", "data.cache_dir: should be a valid string; write it in quotes (got 2024)"),
        ("mixed_precision: off", "'float16', 'bfloat16'; write it in quotes (got False)"),
        ("num_workers: yes", "data.num_workers: should be a number, or should be 'auto' (got True)"),
        ("data: {batch_size: 0}", "data.batch_size: should be greater than or equal to 1 (got 0)"),
        ("data: {language: Persian}", "data.language: should match pattern"),
        ("batch_size: 8\nbatch_size: 9", ":2: 'batch_size' is given twice, first on line 1"),
        ("data: 3", ":1: data: should be a mapping of keys to values"),
        ("", "empty"),
        ("- 1\n- 2", "should be a mapping"),
        ("just words", "should be a mapping"),
        ("data: [", "not valid YAML"),
        ("a: b: c", ":1: not valid YAML"),
        ("1: 2", "should be a name"),
        ("? [a]\n: 1", "unhashable key"),
        ("data: !!python/object/apply:os.system ['true']", "not valid YAML"),
        (b"\xff\xfe\x00binary", "not text"),
        (b"x" * (1 << 20) + b"yy", "larger than 1 MiB"),
        ("[" * 1000, "nested too deeply"),
    ],
)
def test_a_wrong_file_gives_one_clear_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        XTTSConfig.from_yaml(write(tmp_path, content))
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file; 'myxtts create-config"):
        XTTSConfig.from_yaml(tmp_path / "none.yaml")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        XTTSConfig.from_yaml(tmp_path)


def test_everything_wrong_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        XTTSConfig.from_yaml(write(tmp_path, "data: {batch_size: 0, batchsize: 3}\ntraining: {epochs: no}"))
    assert len(str(caught.value).splitlines()) == 3


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        XTTSConfig().to_yaml(tmp_path / "no" / "such" / "folder.yaml")


# Runs of earlier versions


def saved_without(folder: Path, key: str) -> XTTSConfig:
    """The configuration of a run that was saved before a key existed."""
    XTTSConfig(max_steps=5000).to_yaml(folder / "whole.yaml")
    lines = (folder / "whole.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    return XTTSConfig.from_yaml(write(folder, "".join(line for line in lines if not line.startswith(f"  {key}:"))))


def test_a_key_that_a_run_was_begun_without_changes_nothing_for_it(tmp_path: Path) -> None:
    saved = saved_without(tmp_path, "mel_adversarial_share")
    now = XTTSConfig(max_steps=6000)
    begun, changed = now.as_begun(saved)
    assert changed == {"mel_adversarial_share": 0}
    assert begun.training.mel_adversarial_share == 0
    assert begun.training.max_steps == 6000
    assert now.training.mel_adversarial_share > 0


def test_a_value_that_is_given_for_such_a_run_is_kept(tmp_path: Path) -> None:
    given = XTTSConfig(mel_adversarial_share=0.25)
    assert given.as_begun(saved_without(tmp_path, "mel_adversarial_share")) == (given, {})


def test_a_run_that_was_begun_with_a_key_keeps_its_default(tmp_path: Path) -> None:
    XTTSConfig().to_yaml(tmp_path / "config.yaml")
    assert XTTSConfig().as_begun(XTTSConfig.from_yaml(tmp_path / "config.yaml")) == (XTTSConfig(), {})


@pytest.mark.parametrize("name", SECTIONS)
def test_what_a_key_meant_before_it_existed_is_another_valid_value(name: str) -> None:
    section = SECTIONS[name]
    for key, value in section.before.items():
        assert getattr(section(**{key: value}), key) != section.model_fields[key].default


# Layers


def test_command_line_over_yaml_over_preset_over_automatic_over_default(tmp_path: Path) -> None:
    path = write(tmp_path, "data: {batch_size: 11, num_workers: 12}")
    resolved = resolve(yaml_path=path, preset="rtx4090", command_line={"batch_size": 10}, machine=[])
    data = resolved.config.data
    assert (data.batch_size, resolved.sources["data.batch_size"]) == (10, "command line")
    assert (data.num_workers, resolved.sources["data.num_workers"]) == (12, str(path))
    assert (data.prefetch_buffer_size, resolved.sources["data.prefetch_buffer_size"]) == (
        32,
        "preset rtx4090",
    )
    assert resolved.sources["training.epochs"] == "default"


def test_none_on_the_command_line_is_a_value(tmp_path: Path) -> None:
    path = write(tmp_path, "max_frames_per_batch: 9000")
    resolved = resolve(yaml_path=path, command_line={"max_frames_per_batch": None}, machine=[])
    assert resolved.config.data.max_frames_per_batch is None
    assert resolved.sources["data.max_frames_per_batch"] == "command line"


def test_automatic_tuning_gives_way_to_everything_else(tmp_path: Path) -> None:
    gpu = [Gpu("NVIDIA GeForce RTX 3060", 12 * GIB)]
    resolved = resolve(machine=gpu)
    assert (resolved.config.data.batch_size, resolved.sources["data.batch_size"]) == (
        8,
        "automatic (rtx3060)",
    )
    assert resolved.config.data.num_workers == "auto"
    resolved = resolve(yaml_path=write(tmp_path, "batch_size: 5"), machine=gpu)
    assert resolved.config.data.batch_size == 5


def test_automatic_tuning_can_be_switched_off() -> None:
    resolved = resolve(
        command_line={"auto_tune_performance": False}, machine=[Gpu("NVIDIA GeForce RTX 3060", 12 * GIB)]
    )
    assert resolved.sources["data.batch_size"] == "default"


def test_an_error_names_the_layer_it_came_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^command line: data\.batch_size"):
        resolve(yaml_path=write(tmp_path, "batch_size: 5"), command_line={"batch_size": 0}, machine=[])


def test_a_flat_key_in_a_file_is_located(tmp_path: Path) -> None:
    path = write(tmp_path, "epochs: 3\nbatch_size: 0")
    with pytest.raises(ConfigError, match=r"config.yaml:2: data.batch_size"):
        resolve(yaml_path=path, machine=[])


@pytest.mark.parametrize(
    ("name", "memory", "preset"),
    [
        ("NVIDIA GeForce RTX 4090", 24, "rtx4090"),
        ("NVIDIA GeForce RTX 3090 Ti", 24, "rtx3090"),
        ("NVIDIA GeForce RTX 3060", 12, "rtx3060"),
        ("NVIDIA A100-SXM4-40GB", 40, "rtx3090"),
        ("Tesla T4", 15, "rtx3060"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 0, "rtx3060"),
        ("NVIDIA GeForce RTX 4090", 0, "rtx4090"),
    ],
)
def test_the_gpu_chooses_the_preset(name: str, memory: int, preset: str) -> None:
    assert preset_for([Gpu(name, memory * GIB)]) == preset


def test_without_a_gpu_the_preset_is_cpu() -> None:
    assert preset_for([]) == "cpu"


# Presets


@pytest.mark.parametrize(
    ("name", "batch_size", "workers", "prefetch"),
    [
        ("rtx4090", 32, 24, 32),
        ("rtx3090", 24, 16, 24),
        ("rtx3060", 8, 8, 8),
        ("max-gpu", 48, 16, 12),
        ("low-storage", 16, 8, 4),
    ],
)
def test_presets_have_the_documented_values(name: str, batch_size: int, workers: int, prefetch: int) -> None:
    data = XTTSConfig(**load_preset(name)).data
    assert (data.batch_size, data.num_workers, data.prefetch_buffer_size) == (batch_size, workers, prefetch)


def test_every_preset_is_a_valid_configuration() -> None:
    assert preset_names() == ["cpu", "demo", "low-storage", "max-gpu", "rtx3060", "rtx3090", "rtx4090"]
    for name in preset_names():
        XTTSConfig(**load_preset(name))


def test_an_unknown_preset_names_the_nearest_and_lists_all() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'rtx4090'\?.*Presets: cpu, demo"):
        load_preset("rtx490")


# Nothing is set in vain


@pytest.mark.long
def test_every_key_is_read_somewhere_outside_the_configuration() -> None:
    read = _attributes_read_from_configurations()
    # Where a key may be 'auto', code reads what it amounts to.
    read |= {"num_workers"} if "workers" in read else set()
    read |= {"prefetch_buffer_size"} if "prefetch" in read else set()
    # Where data sets may be several, code reads their folders, and the section of each.
    read |= {"dataset_path"} if "dataset_paths" in read else set()
    read |= {"data_languages"} if "for_each_data_set" in read else set()
    # A column of the store names the key that allows to build it again.
    read |= {column.rebuild_key for column in COLUMNS.values() if column.rebuild_key is not None}
    keys = {f"{name}.{key}" for name, section in SECTIONS.items() for key in section.model_fields}
    assert {key for key in keys - READ_WHEN_RESOLVING if key.partition(".")[2] not in read} == set()


def _attributes_read_from_configurations() -> set[str]:
    """The attributes that the package reads from anything called a configuration or one of its sections."""
    package = Path(myxtts.__file__).parent
    read = set()
    for path in package.rglob("*.py"):
        if "config" in path.relative_to(package).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                owner = str(getattr(node.value, "attr", getattr(node.value, "id", "")))
                if "config" in owner or owner in SECTIONS:
                    read.add(node.attr)
    return read
