"""The whole configuration: sections, flat construction, YAML.

Example:
    >>> config = XTTSConfig(data_path="./data/ljspeech", preprocessing_mode="precompute", batch_size=48)
    >>> config.data.batch_size
    48
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from myxtts.config.messages import describe
from myxtts.config.sections import DataConfig, ModelConfig, Section, TrainingConfig, VocoderConfig
from myxtts.config.yaml_file import read_yaml, render_yaml, write_yaml
from myxtts.errors import ConfigError

__all__ = [
    "ALIASES", "LEVELS", "LEVEL_KEY", "SECTIONS", "DataConfig", "ModelConfig", "TrainingConfig", "VocoderConfig",
    "XTTSConfig",
    "create_default_config", "level_settings", "section_of", "to_config_error", "valid_keys",
]  # fmt: skip

SECTIONS: dict[str, type[Section]] = {
    "model": ModelConfig,
    "data": DataConfig,
    "training": TrainingConfig,
    "vocoder": VocoderConfig,
}

ALIASES = {alias: key for section in SECTIONS.values() for alias, key in section.aliases.items()}

LEVEL_KEY = "training.optimization_level"

_ENHANCED: dict[str, Any] = {
    "training.enable_xla_compilation": True,
    "training.mixed_precision": "auto",
    "data.prefetch_to_gpu": True,
    "data.enhanced_gpu_prefetch": True,
}

# An optimization level is a name for some ordinary settings. A setting that is given beside it wins.
LEVELS: dict[str, dict[str, Any]] = {
    "basic": {
        "training.enable_xla_compilation": False,
        "training.mixed_precision": "off",
        "data.prefetch_to_gpu": False,
        "data.enhanced_gpu_prefetch": False,
    },
    "enhanced": _ENHANCED,  # the default level, so these are the defaults of the keys
    "experimental": _ENHANCED | {"data.preprocessing_mode": "runtime", "data.feature_device": "accelerator"},
}


def level_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the level in flat `section.key` values, without keys that are given there themselves."""
    level = values.get(LEVEL_KEY)
    settings = LEVELS.get(level, {}) if isinstance(level, str) else {}
    return {key: value for key, value in settings.items() if key not in values}


def section_of(key: str) -> str | None:
    """The section of a flat key, or None. Obsolete keys have a section too."""
    key = ALIASES.get(key, key)
    for name, section in SECTIONS.items():
        if key in section.model_fields or key in section.obsolete:
            return name
    return None


def valid_keys() -> dict[str, list[str]]:
    """The keys of each section; under "", what is allowed at the top level: sections and flat keys."""
    keys = {name: list(section.model_fields) for name, section in SECTIONS.items()}
    return {"": [*SECTIONS, *ALIASES, *(key for names in keys.values() for key in names)], **keys}


class XTTSConfig(BaseModel):
    """A complete configuration. Keys can be given in their section, or flat: no name is in two sections."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, protected_namespaces=())

    model: ModelConfig = Field(default_factory=lambda: ModelConfig(), description="The model")
    data: DataConfig = Field(
        default_factory=lambda: DataConfig(), description="The data set, its features, and how batches are loaded"
    )
    training: TrainingConfig = Field(default_factory=lambda: TrainingConfig(), description="Training")
    vocoder: VocoderConfig = Field(
        default_factory=lambda: VocoderConfig(), description="The vocoder, and how it is trained"
    )

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)

    @model_validator(mode="before")
    @classmethod
    def _sort_into_sections(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        # A key of no section stays at the top level, where pydantic refuses it by name.
        sections = {key: value for key, value in values.items() if section_of(key) is None}
        for key, value in values.items():
            section = section_of(key)
            if section is None:
                continue
            given = sections.get(section, {})
            if isinstance(given, BaseModel):
                given = given.model_dump(exclude_unset=True)
            if not isinstance(given, dict):
                continue
            name = ALIASES.get(key, key)
            if name in given and given[name] != value:
                raise ValueError(f"{key} is given twice, flat and as {section}.{name}")
            sections[section] = {**given, name: value}
        return sections

    @model_validator(mode="after")
    def _apply_level(self) -> XTTSConfig:
        for key, value in LEVELS[self.training.optimization_level].items():
            name, _, key = key.partition(".")
            section: Section = getattr(self, name)
            if key not in section.model_fields_set and getattr(section, key) != value:
                # Assignment would validate again, and change a section object that the caller may still use.
                self.__dict__[name] = section.model_copy(update={key: value})
        return self

    @classmethod
    def from_yaml(cls, path: str | Path) -> XTTSConfig:
        """Reads a file; keys that are not in it get their default.

        Raises:
            ConfigError: the file is missing, not YAML, not a mapping, or has a wrong key or value; one line
                for each problem.
        """
        document = read_yaml(path)
        try:
            return cls(**document.values)
        except ValidationError as error:
            raise to_config_error(error, source=document.locate) from None

    def as_begun(self, saved: XTTSConfig) -> tuple[XTTSConfig, dict[str, Any]]:
        """This configuration for a run that was begun before some keys existed.

        Args:
            saved: what the run has written, which was every key of its time.

        Returns:
            The configuration, in which a later key that has its default has the value that changes nothing for the
            run; and these values by key.
        """
        sections: dict[str, Section] = {}
        changed: dict[str, Any] = {}
        for name, kind in SECTIONS.items():
            section, written = getattr(self, name), getattr(saved, name).model_fields_set
            later = {
                key: value
                for key, value in kind.before.items()
                if key not in written and getattr(section, key) == kind.model_fields[key].default
            }
            if later:
                sections[name] = section.model_copy(update=later)
                changed |= later
        return self.model_copy(update=sections), changed

    def to_yaml(self, path: str | Path) -> None:
        """Writes the configuration to `path`, with the description of each key as a comment."""
        write_yaml(path, render_yaml(self, SECTIONS))


def create_default_config(**values: Any) -> XTTSConfig:
    """The default configuration with these flat keys set, such as `data_path="./d", batch_size=8`."""
    return XTTSConfig(**values)


def to_config_error(error: ValidationError, source: Any = None) -> ConfigError:
    """A ConfigError with one line for each problem.

    Args:
        error: pydantic's error from validating an XTTSConfig.
        source: a function from a key to the place that set it, e.g. `my.yaml:12`; None: show only the key.
    """
    lines = []
    for key, message in describe(error, valid_keys()):
        where = source(key) if source else ""
        lines.append(f"{where}: {key}: {message}" if where else f"{key}: {message}")
    return ConfigError("\n".join(lines))
