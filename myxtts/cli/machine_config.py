"""What commands that load or train share: starting TensorFlow, a configuration for its devices, clear errors."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from myxtts import hardware
from myxtts.cli.options import ConfigOptions
from myxtts.cli.output import say
from myxtts.config.resolve import ResolvedConfig, preset_for
from myxtts.errors import TrainingError
from myxtts.training.compilation_cache import use_compilation_cache

if TYPE_CHECKING:
    from myxtts.config.config import TrainingConfig, XTTSConfig
    from myxtts.data.ljspeech import LJSpeechDataset


@dataclass(frozen=True)
class MachineConfig(ResolvedConfig):
    """A configuration for this machine, and its data set, whose metadata was read to check it."""

    dataset: LJSpeechDataset


def resolve_for_machine(
    given: ConfigOptions, check: Callable[[XTTSConfig], object] | None = None, **more: Any
) -> MachineConfig:
    """As `ConfigOptions.load`, tuned for the devices that TensorFlow can use; starts TensorFlow.

    Args:
        given: the command's options.
        check: called before TensorFlow starts; raises whatever else is wrong.
        more: flat configuration keys, over those of the options.

    Raises:
        ConfigError: something in the options is wrong.
        DataError: the data set cannot be used.
    """
    from myxtts.data.ljspeech import LJSpeechDataset

    present = hardware.gpus()
    resolved = given.load(present, **more)
    dataset = LJSpeechDataset(None, resolved.config)
    if check is not None:
        check(resolved.config)

    say("starting TensorFlow")
    start_tensorflow(resolved.config.training)
    from myxtts.training.device import usable_gpus

    device = resolved.config.training.device
    usable = usable_gpus(device)
    # Resolve again only if it may change something: every time, a warning is logged for each key without effect.
    if device != "cpu" and preset_for(usable) != preset_for(present):
        resolved = given.load(usable, **more)
    return MachineConfig(resolved.config, resolved.sources, dataset)


def start_tensorflow(training: TrainingConfig | None = None) -> None:
    """Imports TensorFlow and finds its devices; shows what it prints meanwhile only if that fails.

    Its first lines (`absl::InitializeLog`, missing CUDA drivers) come from C++ and cannot be switched off. If a GPU
    cannot be used, the commands themselves say so, and what to do.

    Args:
        training: of a command that trains: whether what it compiles is kept.
    """
    if "tensorflow" in sys.modules:
        return
    if training is not None and training.compilation_cache:
        use_compilation_cache()
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1"):
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            with without_scikit_learn():
                import tensorflow as tf

            tf.config.list_physical_devices()
        except BaseException:
            printed.seek(0)
            with os.fdopen(os.dup(stderr), "wb") as shown:
                shutil.copyfileobj(printed, shown)
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextmanager
def without_scikit_learn() -> Iterator[None]:
    """Hides scikit-learn while TensorFlow is imported.

    Where something else has installed it, Keras imports it for wrappers that nothing here uses: over a second.
    """
    if "sklearn" in sys.modules:
        yield
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["sklearn"]


def batch_text(config: XTTSConfig) -> str:
    """The size of a batch, as people read it."""
    if config.data.max_frames_per_batch:
        return f"{config.data.max_frames_per_batch:,} frames"
    return f"{config.data.batch_size} clips"


def say_compiling(shape: Sequence[int]) -> None:
    """Says that the step is compiled for a shape (clips, frames, tokens)."""
    say(f"compiling the step for {' × '.join(map(str, shape))}")


@contextmanager
def loading_errors() -> Iterator[None]:
    """Turns what TensorFlow raises while batches are loaded and steps run into one line with the cause.

    Raises:
        DataError: a batch cannot be loaded.
        TrainingError: there is no memory for a batch, or for its step.
    """
    import tensorflow as tf

    from myxtts.training import failures

    try:
        with failures.loading_errors():
            yield
    except tf.errors.OpError as error:
        raise TrainingError("out of memory; lower batch_size, max_frames_per_batch or max_mel_frames") from error
