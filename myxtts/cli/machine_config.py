"""The configuration of commands that load or train on this machine; mistakes are found before TensorFlow starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts import hardware
from myxtts.cli import options
from myxtts.cli.tensorflow_start import start_tensorflow
from myxtts.config.automatic import preset_for
from myxtts.config.resolve import ResolvedConfig
from myxtts.errors import TrainingError

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.data.ljspeech import LJSpeechDataset


@dataclass(frozen=True)
class MachineConfig(ResolvedConfig):
    """A configuration for this machine, and its data set, whose metadata was read to check it."""

    dataset: LJSpeechDataset


def resolve_for_machine(
    config: Path | None,
    preset: str | None,
    settings: Sequence[str] | None,
    check: Callable[[XTTSConfig], object] | None = None,
    **given: Any,
) -> MachineConfig:
    """As `options.load_config`; what nobody set is chosen for the devices that TensorFlow can use.

    Args:
        check: raises what else is wrong, before TensorFlow starts.

    Raises:
        ConfigError: something in the options is wrong.
        DataError: the data set cannot be used.
    """
    from myxtts.data.ljspeech import LJSpeechDataset

    present = hardware.gpus()
    resolved = options.load_config(config, preset, settings, machine=present, **given)
    dataset = LJSpeechDataset(None, resolved.config)
    if check is not None:
        check(resolved.config)

    # From here on TensorFlow is needed; a mistake in what was given has been reported without waiting for it.
    start_tensorflow()
    from myxtts.training.device import usable_gpus

    device = resolved.config.training.device
    usable = usable_gpus(device)
    # Only where it may change something, since keys without effect are said to be so each time.
    if device != "cpu" and preset_for(usable) != preset_for(present):
        resolved = options.load_config(config, preset, settings, machine=usable, **given)
    return MachineConfig(resolved.config, resolved.sources, dataset)


def batch_text(config: XTTSConfig) -> str:
    """What a batch is, for people."""
    if config.data.max_frames_per_batch:
        return f"{config.data.max_frames_per_batch:,} frames"
    return f"{config.data.batch_size} clips"


@contextmanager
def loading_errors() -> Iterator[None]:
    """What TensorFlow raises where batches are loaded and steps are run, as one line with the cause.

    Raises:
        DataError: a batch cannot be loaded.
        TrainingError: there is no memory for a batch, or for its step.
    """
    import tensorflow as tf

    from myxtts.training import going_wrong

    try:
        with going_wrong.loading_errors():
            yield
    except tf.errors.OpError as error:
        raise TrainingError("out of memory; lower batch_size, max_frames_per_batch or max_mel_frames") from error
