"""What can be asked of an export. Needs no TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.errors import UsageError
from myxtts.runtime.bundle import SUFFIXES, is_bundle
from myxtts.runtime.speech_model import DEFAULT_VOICE

SAVED_MODEL = "saved-model"
FORMATS = (*SUFFIXES, SAVED_MODEL)
# What can be quantised: rounding a duration would shift all that follows.
DECODER = "decoder"
_VOICE_NAME = re.compile(r"\w[\w.-]{0,63}")


@dataclass(frozen=True)
class ExportOptions:
    """What to export, besides the checkpoint.

    Attributes:
        vocoder: what `find_vocoder` takes.
        runs_with: one of `FORMATS`.
        quantized: whether the decoder's weights become integers of 8 bits.
        voices: recordings of voices to keep in the bundle, by name.
    """

    vocoder: str = "auto"
    runs_with: str = "onnx"
    quantized: bool = False
    voices: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.runs_with not in FORMATS:
            raise UsageError(f"--format {self.runs_with}: should be one of {', '.join(FORMATS)}")
        if self.quantized and self.runs_with == SAVED_MODEL:
            raise UsageError("--quantize: TensorFlow's own format stays exact; choose --format onnx or litert")
        for name in self.voices:
            if name == DEFAULT_VOICE or not _VOICE_NAME.fullmatch(name):
                raise UsageError(f"--voice {name}=…: a name of letters, digits, '-', '_' and '.', and not 'default'")


def check_output(output: Path) -> None:
    """
    Raises:
        UsageError: there is something else already; a bundle is replaced.
    """
    if output.exists() and not is_bundle(output):
        raise UsageError(f"{output}: exists, and is not a bundle; name a new folder")
