"""Options that several commands share, each defined once, and the configuration they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from myxtts.cli import output
from myxtts.config.config import ALIASES, SECTIONS, XTTSConfig, section_of
from myxtts.config.resolve import ResolvedConfig, resolve
from myxtts.errors import UsageError
from myxtts.hardware import Gpu


def _apply_quiet(quiet: bool) -> bool:
    output.set_quiet(quiet)
    return quiet


JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, alone, on standard output.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, no messages; errors only.", callback=_apply_quiet)
]

_CONFIG = "Configuration"
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="A configuration file (YAML).", rich_help_panel=_CONFIG)
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="rtx4090, rtx3090, rtx3060, max-gpu, low-storage, cpu or demo.",
        rich_help_panel=_CONFIG,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any other configuration key; repeatable.", rich_help_panel=_CONFIG
    ),
]

_DATA = "Data"
DataPathOption = Annotated[
    Path | None, typer.Option("--data-path", help="The data set's folder.", rich_help_panel=_DATA)
]
ModeOption = Annotated[
    str | None,
    typer.Option("--preprocessing-mode", help="auto, precompute or runtime.", rich_help_panel=_DATA),
]
BatchSizeOption = Annotated[int | None, typer.Option("--batch-size", help="Clips per batch.", rich_help_panel=_DATA)]
NumWorkersOption = Annotated[
    int | None,
    typer.Option("--num-workers", help="Parallel workers; default: the usable CPUs.", rich_help_panel=_DATA),
]
PrefetchOption = Annotated[
    int | None, typer.Option("--prefetch-buffer-size", help="Batches prepared ahead.", rich_help_panel=_DATA)
]
CacheDirOption = Annotated[
    Path | None, typer.Option("--cache-dir", help="Folder of the feature stores.", rich_help_panel=_DATA)
]
LanguageOption = Annotated[
    str | None,
    typer.Option("--language", help="Language of clips that name none, e.g. fa.", rich_help_panel=_DATA),
]
DisableTFNativeOption = Annotated[
    bool,
    typer.Option(
        "--disable-tf-native-loading", help="Load through Python, a batch at a time.", rich_help_panel=_DATA
    ),
]
DisableGpuPrefetchOption = Annotated[
    bool,
    typer.Option("--disable-gpu-prefetch", help="Do not move batches to the GPU ahead.", rich_help_panel=_DATA),
]
DisableOverlapOption = Annotated[
    bool,
    typer.Option("--disable-cpu-gpu-overlap", help="Load synchronously, for debugging.", rich_help_panel=_DATA),
]
EpochsOption = Annotated[int | None, typer.Option("--epochs", help="Passes over the training clips.")]


def load_config(
    config: Path | None = None,
    preset: str | None = None,
    settings: Sequence[str] | None = None,
    *,
    disable_tf_native_loading: bool = False,
    disable_gpu_prefetch: bool = False,
    disable_cpu_gpu_overlap: bool = False,
    machine: Sequence[Gpu] | None = None,
    **given: Any,
) -> ResolvedConfig:
    """The configuration that a command's options add up to.

    Args:
        config: `--config`.
        preset: `--preset`.
        settings: the values of `--set`.
        disable_tf_native_loading, disable_gpu_prefetch, disable_cpu_gpu_overlap: the switches of those names.
        machine: the GPUs to tune for; none: those of this machine.
        given: flat configuration keys; None means the option was not given. A `batch_size`, here or in `settings`,
            takes the place of a frame budget that is given elsewhere.

    Raises:
        ConfigError: something in them is wrong.
    """
    values = {
        key: str(value) if isinstance(value, Path) else value for key, value in given.items() if value is not None
    }
    if disable_tf_native_loading:
        values["use_tf_native_loading"] = False
    if disable_gpu_prefetch:
        values |= {"prefetch_to_gpu": False, "enhanced_gpu_prefetch": False}
    if disable_cpu_gpu_overlap:
        values["optimize_cpu_gpu_overlap"] = False
    for setting in settings or ():
        key, value = _parse_setting(setting)
        values[key] = value
    if "batch_size" in values:
        values.setdefault("max_frames_per_batch", None)
    return resolve(yaml_path=config, preset=preset, command_line=values, machine=machine)


def _parse_setting(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    section, _, name = key.rpartition(".")
    if not equals:
        raise UsageError(f"--set {setting}: should be KEY=VALUE, e.g. --set n_mels=100")
    if section and section_of(name) not in (section, None):
        raise UsageError(f"--set {setting}: '{name}' is in section {section_of(name)}, not {section}")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return name, text
    # YAML 1.1 takes no and off for false; on a command line, where quotes are the shell's, they are words.
    return name, text if isinstance(value, bool) and not _is_switch(name) else value


def _is_switch(key: str) -> bool:
    section = section_of(key)
    field = None if section is None else SECTIONS[section].model_fields.get(ALIASES.get(key, key))
    return field is not None and field.annotation is bool


def write_config(config: XTTSConfig, path: Path, overwrite: bool) -> None:
    """Writes a configuration file, an existing one only by request.

    Raises:
        UsageError: the file exists and `overwrite` is false.
    """
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists; --force replaces it")
    config.to_yaml(path)
