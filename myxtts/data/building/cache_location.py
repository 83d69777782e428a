"""Where the stores of a data set are kept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.config import DataConfig

FOLDER_IN_DATA_SET = "cached_features"


@dataclass(frozen=True)
class CacheFolder:
    """A folder of stores.

    Attributes:
        path: which need not exist.
        root: the data set's folder, if the folder is shared by data sets; None if it lies in its data set.
    """

    path: Path
    root: str | None

    def writable(self) -> bool:
        """Whether a store could be built here, as far as permissions tell."""
        folder = self.path
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK, effective_ids=True)


def cache_folders(config: DataConfig) -> list[CacheFolder]:
    """Where a store may be, the preferred place first.

    `cache_dir` if it is set. Otherwise `cached_features` in the data set's folder, and the user's cache folder for
    data sets that cannot be written to.
    """
    root = os.path.realpath(config.dataset_path)
    if config.cache_dir is not None:
        return [CacheFolder(Path(os.path.abspath(os.path.expanduser(config.cache_dir))), root)]
    return [
        CacheFolder(Path(os.path.abspath(config.dataset_path)) / FOLDER_IN_DATA_SET, None),
        CacheFolder(user_cache_folder(), root),
    ]


def user_cache_folder() -> Path:
    """`$XDG_CACHE_HOME/myxtts/cached_features`, with `~/.cache` where the variable is not set."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "myxtts" / FOLDER_IN_DATA_SET
