"""The configuration of commands that load or train on this machine; mistakes are found before TensorFlow starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli import options
from myxtts.cli.tensorflow_start import start_tensorflow
from myxtts.config.resolve import ResolvedConfig
from myxtts.data.metadata import read_metadata
from myxtts.errors import DataError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig


def resolve_for_machine(
    config: Path | None, preset: str | None, settings: Sequence[str] | None, **given: Any
) -> ResolvedConfig:
    """As `options.load_config`; what nobody set is chosen for the devices that TensorFlow can use.

    A `batch_size` that is given takes the place of a frame budget.

    Raises:
        ConfigError: something in the options is wrong.
        DataError: the data set cannot be used.
    """
    resolved = options.load_config(config, preset, settings, **given)
    read_metadata(resolved.config.data).require_usable()

    # From here on TensorFlow is needed; a mistake in what was given has been reported without waiting for it.
    start_tensorflow()
    from myxtts.training.device import usable_gpus

    if not usable_gpus(resolved.config.training.device):
        resolved = options.load_config(config, preset, settings, machine=(), **given)
    if given.get("batch_size") is not None:
        resolved.config.data.max_frames_per_batch = None
    return resolved


def batch_text(config: XTTSConfig) -> str:
    """What a batch is, for people."""
    if config.data.max_frames_per_batch:
        return f"{config.data.max_frames_per_batch:,} frames"
    return f"{config.data.batch_size} clips"


@contextmanager
def loading_errors() -> Iterator[None]:
    """What TensorFlow raises when a batch cannot be loaded, as one line with the cause.

    Raises:
        DataError: in its place.
    """
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        # TensorFlow puts its own call chain around the cause.
        lines = [line.strip() for line in str(error.message).splitlines() if line.strip()]
        raise DataError(f"a batch cannot be loaded: {lines[0] if lines else type(error).__name__}") from error
