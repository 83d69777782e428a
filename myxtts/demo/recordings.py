"""Somebody's recordings, as far as the demo has to know them before it begins."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import DataError

# Fewer teach nothing, and leave too few to evaluate with.
FEWEST_CLIPS = 20


@dataclass(frozen=True)
class Recordings:
    """A data set in any layout.

    Attributes:
        folder: of the data set. Nothing is written into it.
        clips: that can be used, as far as metadata says.
        training_clips: those that are not held out.
        speakers: how many.
        language: of most clips.
        identity: a hash of the clips' ids and texts.
    """

    folder: Path
    clips: int
    training_clips: int
    speakers: int
    language: str
    identity: str

    @classmethod
    def find(cls, folder: Path, language: str | None, settings: dict[str, Any]) -> Recordings:
        """Reads the metadata; no audio.

        Args:
            folder: of the data set.
            language: of clips that do not name one; None: the configuration's.
            settings: configuration keys of how clips are split.

        Raises:
            DataError: there is no data set in the folder, or too little of one.
            ConfigError: the language is not known.
        """
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; --human takes the folder of your recordings")
        known = {} if language is None else {"language": language}
        metadata = read_metadata(DataConfig(dataset_path=str(folder), **known, **settings))
        training, clips = len(metadata.rows("train")), len(metadata.clips)
        if clips < FEWEST_CLIPS or clips - training < 2:
            why = f": {metadata.problems[0]}" if metadata.problems else ""
            raise DataError(
                f"{folder}: {clips} clip{'s' * (clips != 1)} with text, and the demo needs {FEWEST_CLIPS} or more: "
                f"it trains on most and evaluates with the others{why}"
            )
        languages = Counter(clip.language for clip in metadata.clips)
        return cls(
            folder,
            clips,
            training,
            len(metadata.speakers),
            languages.most_common(1)[0][0],
            metadata.origin()["clips"],
        )
