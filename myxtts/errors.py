"""The errors a user can cause, and the exit codes they end in.

Everything here is shown to a person as one to three lines without a traceback: what is wrong, where (file and
line, or configuration key), and what to do. An exception of any other type is a defect in MyXTTS.
"""


class MyXTTSError(Exception):
    """Base of all errors that are reported to the user instead of raised through.

    Attributes:
        exit_code: what the command line ends with: 1, the work failed or found problems; 2, wrong usage.
    """

    exit_code = 1


class UsageError(MyXTTSError):
    """The command or call cannot be carried out as it was given."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file, key or value is wrong."""


class DataError(MyXTTSError):
    """A data set cannot be used as it is."""


class AudioError(DataError):
    """One audio file cannot be read."""


class TextError(DataError):
    """One text cannot be turned into symbols."""


class StoreError(DataError):
    """A feature store is missing, damaged, or made with other settings."""


class CheckpointError(MyXTTSError):
    """A checkpoint is missing, damaged, or of another configuration."""


class TrainingError(MyXTTSError):
    """Training cannot begin or go on."""


class MissingExtraError(UsageError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the '{extra}' extra: pip install 'myxtts[{extra}]'")
