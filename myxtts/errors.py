"""The errors that a user can cause, and their exit codes.

Each is shown as one to three lines without a traceback: what is wrong, where (file and line, or configuration key),
and what to do. An exception of any other type is a bug in MyXTTS.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

# What an `OSError` has as its number where the disk is full, or as much of it as the user may have.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_TRAIN_PACKAGES = ("tensorflow", "keras", "tensorboard", "scipy")


class MyXTTSError(Exception):
    """Base class of all errors that are reported to the user.

    Attributes:
        exit_code: of the program: 1, the work failed or found problems; 2, wrong usage.
    """

    exit_code = 1


class UsageError(MyXTTSError):
    """The command or call is wrong."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file, key or value is wrong."""


class DataError(MyXTTSError):
    """A data set cannot be used."""


class AudioError(DataError):
    """One audio file cannot be read."""


class TextError(DataError):
    """One text cannot be converted to symbols."""


class StoreError(DataError):
    """A feature store is missing, damaged, or was made with other settings."""


class CheckpointError(MyXTTSError):
    """A checkpoint is missing, damaged, or has another configuration."""


class VocoderError(MyXTTSError):
    """A vocoder cannot be read, or does not fit the mels."""


class ExportError(MyXTTSError):
    """What was exported does not say what the model says."""


class TrainingError(MyXTTSError):
    """Training cannot start or continue."""


class MissingExtraError(UsageError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the '{extra}' extra: pip install 'myxtts[{extra}]'")


@contextmanager
def needing_train_extra(feature: str) -> Iterator[None]:
    """Where a package that only training needs is not installed, says what to install.

    Raises:
        MissingExtraError: one of them is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _TRAIN_PACKAGES:
            raise
        raise MissingExtraError(feature, "train") from None
