"""Options that several commands share, each declared once, and the configuration that they set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
import yaml

from myxtts.cli import output
from myxtts.config.config import ALIASES, SECTIONS, XTTSConfig, section_of
from myxtts.config.presets import preset_names
from myxtts.config.resolve import ResolvedConfig, resolve
from myxtts.errors import UsageError
from myxtts.hardware import Gpu

data_option = partial(typer.Option, rich_help_panel="Data")
config_option = partial(typer.Option, rich_help_panel="Configuration")
run_option = partial(typer.Option, rich_help_panel="Run")

CheckpointOption = Annotated[Path, typer.Option("--checkpoint", help="Folder of a checkpoint or of a training run.")]
VoiceOption = Annotated[
    Path, typer.Option("--checkpoint", help="Folder of a checkpoint, of a training run, or of a bundle.")
]

VocoderOption = Annotated[
    str,
    typer.Option(
        "--vocoder",
        help="What makes audio of mels: auto, griffin-lim, a vocoder's folder, a bundle, or a file (.onnx, .tflite).",
    ),
]

JudgesOption = Annotated[
    str | None,
    typer.Option(
        "--judges", help="wer, dnsmos, similarity (separated by commas), or none; default: those that are installed."
    ),
]

# The configuration keys that a switch sets.
_SWITCHES: dict[str, dict[str, Any]] = {
    "disable_tf_native_loading": {"use_tf_native_loading": False},
    "disable_gpu_prefetch": {"prefetch_to_gpu": False, "enhanced_gpu_prefetch": False},
    "disable_cpu_gpu_overlap": {"optimize_cpu_gpu_overlap": False},
}


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """Options that set configuration keys. `command` names those that a command takes.

    A field has the name of its key. None, or False for a switch, means that the option was not given.
    """

    data_path: Annotated[
        list[Path] | None, data_option(help="Folder of the data set; repeatable: several are used as one.")
    ] = None
    data_layout: Annotated[
        str | None, data_option("--layout", help="Layout of the data set, e.g. vctk; default: recognised by looking.")
    ] = None
    language: Annotated[str | None, data_option(help="Language of clips that do not name one, e.g. fa.")] = None
    preprocessing_mode: Annotated[str | None, data_option(help="auto, precompute or runtime.")] = None
    batch_size: Annotated[int | None, data_option(help="Clips per batch.")] = None
    num_workers: Annotated[
        int | None, data_option(help="Parallel workers; default: the CPUs this process may use.")
    ] = None
    prefetch_buffer_size: Annotated[int | None, data_option(help="Batches to prepare ahead.")] = None
    cache_dir: Annotated[Path | None, data_option(help="Folder of the feature stores.")] = None
    disable_tf_native_loading: Annotated[
        bool, data_option("--disable-tf-native-loading", help="Load batches through Python, one at a time.")
    ] = False
    disable_gpu_prefetch: Annotated[
        bool, data_option("--disable-gpu-prefetch", help="Do not copy batches to the GPU ahead of the step.")
    ] = False
    disable_cpu_gpu_overlap: Annotated[
        bool,
        data_option("--disable-cpu-gpu-overlap", help="Load each batch only when the step needs it; for debugging."),
    ] = False

    config: Annotated[Path | None, config_option(help="Configuration file (YAML).")] = None
    preset: Annotated[str | None, config_option(help=f"One of {', '.join(preset_names())}.")] = None
    settings: Annotated[
        list[str] | None, config_option("--set", metavar="KEY=VALUE", help="Set any configuration key; repeatable.")
    ] = None

    epochs: Annotated[int | None, run_option(help="Passes over the training clips.")] = None
    max_steps: Annotated[int | None, run_option(help="Optimizer steps, instead of epochs.")] = None
    checkpoint_dir: Annotated[Path | None, run_option(help="Folder of the run; default: ./runs/default.")] = None
    optimization_level: Annotated[str | None, run_option(help="basic, enhanced or experimental.")] = None
    device: Annotated[str | None, run_option(help="auto, cpu or gpu.")] = None
    seed: Annotated[
        int | None, run_option(help="Seed of the initial weights, the order of the clips and the noise; default: 0.")
    ] = None
    deterministic: Annotated[
        bool, run_option("--deterministic", help="The same seed gives the same losses, bit for bit; slower.")
    ] = False

    def load(self, machine: Sequence[Gpu] | None = None, **more: Any) -> ResolvedConfig:
        """The configuration that these options give.

        Args:
            machine: the GPUs to tune for; None: those of this machine.
            more: flat configuration keys, over those of the options; None: not given.

        A `batch_size` replaces a frame budget that comes from a file or preset.

        Raises:
            ConfigError: an option, a key or a value is wrong.
        """
        values: dict[str, Any] = {}
        for key, value in (vars(self) | more).items():
            given = value is not None and value is not False and value not in ([], ())
            if given and key not in ("config", "preset", "settings"):
                values |= _SWITCHES.get(key, {key: as_text(value)})
        for setting in self.settings or ():
            key, value = _parse_setting(setting)
            values[key] = value
        if "batch_size" in values:
            values.setdefault("max_frames_per_batch", None)
        return resolve(yaml_path=self.config, preset=self.preset, command_line=values, machine=machine)


@dataclass(frozen=True)
class _OutputOptions:
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no messages, only errors.")] = (
        False
    )


def command(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command of the program.

    A parameter whose type is a dataclass of options stands for one option per field; of `ConfigOptions`, for the
    fields in `names`, or for all without names. Every command also gets `--json` and `--quiet`.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        groups: dict[str, tuple[type, list[str]]] = {}
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            kind = parameter.annotation
            if is_dataclass(kind) and isinstance(kind, type):
                taken = _option_parameters(kind, names if kind is ConfigOptions else ())
                groups[parameter.name] = kind, [option.name for option in taken]
                parameters += taken
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        parameters += _option_parameters(_OutputOptions)

        @wraps(function)
        def run(**values: Any) -> None:
            output.set_format(as_json=values.pop("as_json"), quiet=values.pop("quiet"))
            for name, (kind, taken) in groups.items():
                values[name] = kind(**{option: values.pop(option) for option in taken})
            function(**values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _option_parameters(kind: type, names: Sequence[str] = ()) -> list[inspect.Parameter]:
    """A function parameter for each field in `names` of a dataclass of options; without names, for every field."""
    hints = get_type_hints(kind, include_extras=True)
    defaults = {field.name: field.default for field in fields(kind)}
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[name],
            default=inspect.Parameter.empty if defaults[name] is MISSING else defaults[name],
        )
        for name in names or defaults
    ]


def as_text(value: Any) -> Any:
    """A path, or each of a list, as a string; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [as_text(one) for one in value]
    return str(value) if isinstance(value, Path) else value


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
    # YAML 1.1 reads no and off as false. On a command line, where the shell removes quotes, they are words.
    return name, text if isinstance(value, bool) and not _is_switch(name) else value


def _is_switch(key: str) -> bool:
    section = section_of(key)
    field = None if section is None else SECTIONS[section].model_fields.get(ALIASES.get(key, key))
    return field is not None and field.annotation is bool


def write_config(config: XTTSConfig, path: Path, overwrite: bool) -> None:
    """Writes a configuration file.

    Raises:
        UsageError: the file exists and `overwrite` is false.
    """
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists; --force replaces it")
    config.to_yaml(path)
