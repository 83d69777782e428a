"""Which clips a checkpoint was not trained on, and which speakers it was trained on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import Metadata, read_metadata
from myxtts.errors import DataError
from myxtts.models.checkpoint import Checkpoint

Subset = Literal["auto", "train", "val", "test", "all"]
SUBSETS: tuple[Subset, ...] = get_args(Subset)
DataPath = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

# Where metadata and audio are; in another data set these may be elsewhere.
_LAYOUT = (
    "data_layout",
    "metadata_file",
    "metadata_train_file",
    "metadata_eval_file",
    "wavs_dir",
    "wavs_train_dir",
    "wavs_eval_dir",
)


@dataclass(frozen=True)
class HeldOutData:
    """The part of a data set to evaluate with.

    Attributes:
        config: of the data set, with the checkpoint's settings of text and mel.
        metadata: of the whole data set.
        splits: those to evaluate with; all clips if empty.
        description: the same in words.
        trained_speakers: names of the speakers that the checkpoint was trained on; None if not known.
    """

    config: DataConfig
    metadata: Metadata
    splits: tuple[str, ...]
    description: str
    trained_speakers: frozenset[str] | None

    @classmethod
    def find(cls, checkpoint: Checkpoint, data_path: DataPath | None, subset: Subset) -> HeldOutData:
        """Reads the metadata of a data set, by default the checkpoint's own, and decides which of its clips are held
        out; `subset` is that of `evaluate`.

        Raises:
            DataError: the data set cannot be read.
        """
        trained_with = checkpoint.config.data
        paths = trained_with.dataset_paths if data_path is None else _paths(data_path)
        same_place = _places(paths) == _places(trained_with.dataset_paths)
        config = trained_with.of_data_sets(paths)
        try:
            metadata = read_metadata(config)
        except DataError:
            if same_place:
                raise
            defaults = DataConfig()
            config = config.model_copy(update={name: getattr(defaults, name) for name in _LAYOUT})
            metadata = read_metadata(config)
        # A data set that was moved or copied is still the checkpoint's own.
        own = same_place or metadata.origin()["clips"] == checkpoint.details.get("clips")
        speakers = checkpoint.details.get("speakers", metadata.origin()["speakers"] if own else None)
        splits, description = _chosen(subset, own)
        return cls(config, metadata, splits, description, None if speakers is None else frozenset(speakers))

    def rows(self, metadata: Metadata) -> list[int]:
        """Positions of the clips to evaluate with in `metadata`, which may have fewer clips by now.

        Raises:
            DataError: there are fewer than two.
        """
        splits = metadata.splits
        rows = [row for row in range(len(metadata.clips)) if not self.splits or splits[row] in self.splits]
        if len(rows) < 2:
            shown = f": {metadata.problems[0]}" if metadata.problems and not metadata.clips else ""
            where = ", ".join(self.config.dataset_paths)
            raise DataError(
                f"{where}: {len(rows)} of {len(metadata.clips):,} clips to evaluate with "
                f"({self.description}); two are needed{shown}\nGive another data set, or --subset all"
            )
        return rows


def _paths(data_path: DataPath) -> list[str]:
    given = [data_path] if isinstance(data_path, (str, os.PathLike)) else data_path
    return [os.fspath(path) for path in given]


def _places(paths: Sequence[str]) -> list[str]:
    return [os.path.realpath(path) for path in paths]


def _chosen(subset: Subset, own: bool) -> tuple[tuple[str, ...], str]:
    if subset == "all" or (subset == "auto" and not own):
        return (), "all clips" if own else "all clips of another data set than the checkpoint's"
    if subset == "auto":
        return ("val", "test"), "clips not trained on"
    return (subset,), f"split {subset}"
