"""The device that training runs on, set up before TensorFlow uses it: memory, precision, determinism."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from myxtts import hardware
from myxtts.config.config import TrainingConfig
from myxtts.errors import UsageError
from myxtts.hardware import Gpu
from myxtts.training.cluster import Rank

logger = logging.getLogger(__name__)

REMEDY = "install its CUDA libraries with pip install 'myxtts[gpu]'"

# Compute capabilities from which a GPU has matrix units for these types.
_BFLOAT16_FROM = (8, 0)
_FLOAT16_FROM = (7, 0)


@dataclass(frozen=True)
class Device:
    """What the step runs on.

    Attributes:
        name: TensorFlow's, `/GPU:0` or `/CPU:0`.
        capability: compute capability of a GPU, such as (8, 9); None for a CPU, or if it is not known.
        gpu_name: such as `NVIDIA GeForce RTX 4090`; None for a CPU, or if it is not known.
    """

    name: str
    capability: tuple[int, int] | None = None
    gpu_name: str | None = None

    @property
    def is_gpu(self) -> bool:
        return "GPU" in self.name


def usable_gpus(device: str) -> Sequence[Gpu]:
    """The GPUs that training could use, in TensorFlow's order; none if `device` is `cpu` or TensorFlow cannot use
    any."""
    if device == "cpu":
        return ()
    found = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "unknown GPU") for gpu in found]
    return gpus_named(names, hardware.gpus()) if names else ()


def gpus_named(names: Sequence[str], present: Sequence[Gpu]) -> list[Gpu]:
    """A GPU for each of TensorFlow's names, with its memory by the driver; 0 (unknown) if that has none of the name.

    The driver numbers GPUs differently from TensorFlow, and may see more of them, or none.
    """
    memory = {gpu.name: gpu.memory_bytes for gpu in present}
    return [Gpu(name, memory.get(name, 0)) for name in names]


def prepare_device(config: TrainingConfig, rank: Rank | None = None) -> Device:
    """Chooses the device and sets it up. Call it before anything else runs in TensorFlow.

    Args:
        config: the training section.
        rank: one of several processes that train together: each takes another GPU of its machine.

    Raises:
        UsageError: `device` is gpu and there is none that TensorFlow can use, or it is cpu and a GPU is in use
            already.
    """
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    if config.enable_xla_compilation:
        # XLA optimises what it compiles. TensorFlow's own optimizer would take seconds for every graph beside it, two
        # of them before the first step; such graphs run too seldom to be worth it.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    found = tf.config.list_physical_devices("GPU")
    if config.device == "cpu":
        if found:
            _hide_gpus()
        return Device("/CPU:0")
    if not found:
        present = [gpu.name for gpu in hardware.gpus()]
        if config.device == "gpu":
            what = (
                f"TensorFlow cannot use the {present[0]}: {REMEDY}" if present else "this machine has no NVIDIA GPU"
            )
            raise UsageError(f"device is gpu, but {what}")
        if present:
            logger.warning(
                "training on the CPU, which is many times slower: TensorFlow cannot use the %s of this machine; "
                "%s, or say --device cpu to mean it",
                present[0],
                REMEDY,
            )
        return Device("/CPU:0")
    if rank is not None and len(found) > 1:  # under Slurm a process may see its own GPU alone
        if rank.on_machine >= len(found):
            raise UsageError(
                f"{rank.of_machine} processes on this machine, which has {len(found)} GPUs; lower --devices"
            )
        found = found[rank.on_machine :][:1]
        tf.config.set_visible_devices(found, "GPU")
    for gpu in found:
        _limit_memory(gpu, config.gpu_memory_limit_mb)
    details = tf.config.experimental.get_device_details(found[0])
    return Device("/GPU:0", details.get("compute_capability"), details.get("device_name"))


def precision_policy(config: TrainingConfig, device: Device) -> str:
    """The Keras dtype policy that `mixed_precision` means on this device."""
    if config.mixed_precision == "off":
        return "float32"
    if config.mixed_precision != "auto":
        return f"mixed_{config.mixed_precision}"
    if device.capability is not None and device.capability >= _BFLOAT16_FROM:
        return "mixed_bfloat16"
    if device.capability is not None and device.capability >= _FLOAT16_FROM:
        return "mixed_float16"
    return "float32"


def _hide_gpus() -> None:
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError:
        raise UsageError(
            "device is cpu, but TensorFlow has begun to use the GPU; create the trainer before the model"
        ) from None


def _limit_memory(gpu: tf.config.PhysicalDevice, megabytes: int | None) -> None:
    try:
        if megabytes is None:
            tf.config.experimental.set_memory_growth(gpu, True)
        else:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=megabytes)
            tf.config.set_logical_device_configuration(gpu, [limit])
    except RuntimeError:
        logger.warning(
            "TensorFlow takes the GPU's memory as it did when it started; to have it grow as needed, or up to "
            "gpu_memory_limit_mb, create the trainer before the model"
        )
