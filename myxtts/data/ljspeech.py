"""The data set as users import it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.metadata import Clip, Metadata, read_metadata
from myxtts.data.splits import SPLITS, Split
from myxtts.errors import UsageError


class LJSpeechDataset:
    """The clips of one split of a data set, in LJSpeech's layout or as the configuration describes it.

    ```python
    train = LJSpeechDataset("./data/ljspeech", XTTSConfig(val_split=0.1))
    val = LJSpeechDataset("./data/ljspeech", XTTSConfig(val_split=0.1), subset="val")
    len(train), train[0].text, train.speakers
    ```

    Attributes:
        config: the data section in use.
        subset: `train`, `val` or `test`.
        metadata: of the whole data set, whichever the split, with what was wrong in it.
        rows: positions in `metadata.clips` of the clips of this split, int64.
    """

    def __init__(
        self,
        data_path: str | os.PathLike[str] | None = None,
        config: DataConfig | XTTSConfig | None = None,
        subset: Split = "train",
    ) -> None:
        """Reads the metadata; audio is looked for and not opened.

        Args:
            data_path: the data set's folder; none: the configuration's `dataset_path`.
            config: everything else about it; none: the defaults.
            subset: which split.

        Raises:
            DataError: the data set cannot be read, has no usable clip, or nothing to validate with.
            UsageError: there is no such split.
        """
        if subset not in SPLITS:
            raise UsageError(f"subset is '{subset}'; it should be one of {', '.join(SPLITS)}")
        if config is None:
            config = DataConfig()
        self.config: DataConfig = config.data if isinstance(config, XTTSConfig) else config
        if data_path is not None:
            self.config = self.config.model_copy(update={"dataset_path": os.fspath(data_path)})
        self.subset: Split = subset
        self.metadata: Metadata = read_metadata(self.config)
        self.metadata.require_usable()
        self.rows: np.ndarray = self.metadata.rows(subset)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Clip:
        return self.metadata.clips[self.rows[index]]

    def __iter__(self) -> Iterator[Clip]:
        return (self.metadata.clips[row] for row in self.rows)

    @property
    def clips(self) -> list[Clip]:
        """The clips of this split."""
        return list(self)

    @property
    def speakers(self) -> list[str]:
        """Names of all speakers of the data set; a speaker's number is its place here."""
        return self.metadata.speakers

    @property
    def languages(self) -> list[str]:
        """Codes of all languages of the data set."""
        return self.metadata.languages
