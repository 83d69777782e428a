"""What clips a data set has, their splits, and what is wrong with them.

Reading does not stop at a wrong line, so that one pass reports everything: each such line becomes a `Problem` with
its file and line. `DataError` is only for what makes all lines meaningless.

Audio is looked for by name only. `audio_headers` reads the headers; its problems go to `Metadata.leave_out`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args
from unicodedata import normalize

import numpy as np
import xxhash

from myxtts.config.config import DataConfig
from myxtts.data.clips import AUDIO_PROBLEMS, Clip, Problem, ProblemKind
from myxtts.data.clips.audio_files import AudioFolder, EscapingId, canonical_id, split_id
from myxtts.data.clips.metadata_file import read_metadata_file
from myxtts.errors import ConfigError, DataError, UsageError
from myxtts.text.languages import known_language

DEFAULT_METADATA_FILE = "metadata.csv"
DEFAULT_SPEAKER = "default"

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

_Fault = tuple[ProblemKind, str]
_SHOWN = 3  # problems that an error message quotes before it refers to check-data


@dataclass(frozen=True)
class SplitRule:
    """Shares of the clips per split, and the seed of the hash; what the two leave over is `test`.

    A clip's split is a hash of (split_seed, id) and nothing else: not its position, not the other clips. Appending
    clips therefore moves none of those already there, with one exception that small data sets need: if no clip
    falls into the validation split by itself, the one with the lowest hash is put there, until a clip with a lower
    hash is appended. Even then no clip that was trained on ever moves into validation.
    """

    train: float
    val: float
    seed: int

    def position(self, clip_id: str) -> float:
        """Where the id falls between 0 and 1."""
        return xxhash.xxh3_64_intdigest(f"{self.seed}:{clip_id}".encode()) / 2**64

    def split_of(self, clip_id: str) -> Split:
        position = self.position(clip_id)
        if position < self.val:
            return "val"
        # Shares are written in decimal: 0.95 + 0.05 may fall just short of 1 and must not leave a test split.
        return "train" if position < self.val + self.train + 1e-9 else "test"

    def assign(self, ids: Sequence[str]) -> list[Split]:
        """The split of every id; of two or more, one is always in validation."""
        splits = [self.split_of(clip_id) for clip_id in ids]
        if self.val > 0 and len(ids) > 1 and "val" not in splits:
            lowest = min(range(len(ids)), key=lambda i: (self.position(ids[i]), ids[i]))
            splits[lowest] = "val"
        return splits


@dataclass(frozen=True)
class Metadata:
    """The usable clips of a data set, and what was wrong with the rest.

    Attributes:
        clips: in the order of the files.
        problems: one or more for each line that gives no usable clip.
        rule: how clips are split.
        notes: what a person may want to know; nothing of it leaves a clip out.
        validation_source: the metadata file whose clips are the validation set, if that is a set of its own.
    """

    clips: list[Clip]
    problems: list[Problem]
    rule: SplitRule
    notes: list[str] = field(default_factory=list)
    validation_source: str | None = None

    @cached_property
    def splits(self) -> list[Split]:
        """The split of each clip."""
        if self.validation_source is not None:
            return ["val" if clip.source == self.validation_source else "train" for clip in self.clips]
        return self.rule.assign([clip.id for clip in self.clips])

    @cached_property
    def speakers(self) -> list[str]:
        """Names of the speakers, in the order of their first clip: appending clips renumbers none."""
        return list(dict.fromkeys(clip.speaker for clip in self.clips))

    @cached_property
    def languages(self) -> list[str]:
        """Codes of the languages, in the order of their first clip."""
        return list(dict.fromkeys(clip.language for clip in self.clips))

    def rows(self, split: Split) -> np.ndarray:
        """Positions in `clips` of the clips of one split, int64."""
        return np.flatnonzero([given == split for given in self.splits])

    def origin(self) -> dict[str, Any]:
        """What a model trained on these clips should remember of them: the names of the training `speakers`, and
        `clips`, a hash of the training clips' ids and texts by which the data set is known again elsewhere."""
        trained = [self.clips[row] for row in self.rows("train")]
        digest = xxhash.xxh3_64()
        for clip in trained:
            digest.update(f"{clip.id}\0{clip.text}\0".encode())
        return {"speakers": sorted({clip.speaker for clip in trained}), "clips": digest.hexdigest()}

    def leave_out(self, problems: Iterable[Problem]) -> Metadata:
        """The same without the clips that `problems` name, which are added to those known."""
        problems = list(problems)
        unusable = {problem.clip_id for problem in problems}
        clips = [clip for clip in self.clips if clip.id not in unusable]
        return replace(self, clips=clips, problems=self.problems + problems)

    def without_audio(self) -> list[Problem]:
        """The problems of lines whose audio is missing or cannot be read, one for each."""
        return [problem for problem in self.problems if problem.kind in AUDIO_PROBLEMS]

    def require_usable(self) -> None:
        """Makes sure that there is something to train on and something to validate with.

        Raises:
            DataError: no clip is usable, or a split that training needs is empty.
        """
        if not self.clips:
            shown = [str(problem) for problem in self.problems[:_SHOWN]]
            if len(self.problems) > _SHOWN:
                shown.append(f"and {len(self.problems) - _SHOWN:,} more; `myxtts check-data` lists them")
            reason = ":" if shown else ": its metadata has no lines"
            raise DataError("\n".join([f"the data set has no usable clip{reason}", *shown]))
        if "val" not in self.splits:
            if self.validation_source is not None:
                reason = self._no_clip_of(self.validation_source)
            elif self.rule.val == 0:
                reason = "val_split is 0; set it above 0, or name a metadata_eval_file"
            else:
                reason = "there is only one usable clip"
            raise DataError(f"the validation split is empty: {reason}")
        if "train" not in self.splits:
            if self.validation_source is not None:
                reason = "the training metadata has no usable clip"
            else:
                reason = f"train_split is {self.rule.train:g} of {len(self.clips)} usable clips; add more"
            raise DataError(f"the training split is empty: {reason}")

    def _no_clip_of(self, source: str) -> str:
        first = next((f"; the first problem: {problem}" for problem in self.problems if problem.file == source), "")
        return f"{source} has no usable clip{first}"


def metadata_sets(config: DataConfig) -> list[tuple[str, str]]:
    """The metadata files of a data set and the folder of the audio of each: one, or one to train on and one to
    validate with."""
    if config.metadata_train_file is not None and config.metadata_eval_file is not None:
        return [
            (config.metadata_train_file, config.wavs_train_dir or config.wavs_dir),
            (config.metadata_eval_file, config.wavs_eval_dir or config.wavs_dir),
        ]
    return [(config.metadata_file or DEFAULT_METADATA_FILE, config.wavs_dir)]


def read_metadata(config: DataConfig) -> Metadata:
    """Reads and checks the metadata of the data set that a configuration names.

    Raises:
        DataError: a file or folder is missing or is not what it should be as a whole.
        ConfigError: `speaker_pattern` is not a regular expression, or `language` is not known.
    """
    root = config.dataset_path
    if not os.path.isdir(root):
        raise DataError(f"{root}: no such folder; dataset_path should be the folder of the data set")
    sets = metadata_sets(config)
    separate = len(sets) > 1
    files = [os.path.join(root, name) for name, _ in sets]
    missing = [path for path in files if not os.path.isfile(path)]
    if missing:
        raise DataError(f"{' and '.join(missing)}: no such file; set metadata_file if it has another name")
    if separate and os.path.realpath(files[0]) == os.path.realpath(files[1]):
        raise DataError(f"{files[0]}: is both the training and the validation metadata")

    reader = _Reader(config)
    for path, (_, wavs_dir) in zip(files, sets, strict=True):
        reader.read(path, os.path.join(root, wavs_dir), _set_name(path, files[0]))
    rule = SplitRule(config.train_split, config.val_split, config.split_seed)
    return Metadata(reader.clips, reader.problems, rule, reader.notes, files[1] if separate else None)


class _Reader:
    """Collects clips and problems over the metadata files of one data set."""

    def __init__(self, config: DataConfig) -> None:
        self.clips: list[Clip] = []
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self._root = config.dataset_path
        self._default_language = config.language
        self._extra_languages = config.extra_languages
        self._languages: dict[str, str | None] = {}  # as written: as known, or None
        if self._known_language(config.language) is None:
            raise ConfigError(f"data.language: '{config.language}' is not known; extra_languages can add it")
        self._pattern = _compile_pattern(config.speaker_pattern)
        self._folders: dict[str, AudioFolder | None] = {}
        # Where an id or an audio file was first named.
        self._first: dict[tuple[str, str], tuple[str, int]] = {}
        self._audio_of: dict[str, str] = {}  # of the clips of files that were read before

    def read(self, path: str, wavs: str, name: str) -> None:
        """Adds the clips of one metadata file; their audio is in `wavs`, or named from the root.

        Two recordings of the same id in two files are two clips; the later one's id then begins with `name`.
        """
        self._audio_of = {clip.id: clip.audio_path for clip in self.clips}
        folders = [folder for folder in (self._folder(wavs), self._folder(self._root)) if folder]
        content = read_metadata_file(path)
        self.notes += content.notes
        problems = content.problems
        clips, missing = len(self.clips), 0
        for line, cells in content.rows:
            clip_id, faults = self._read_row((path, line), cells, folders, name)
            problems += [Problem(kind, message, path, line, clip_id) for kind, message in faults]
            missing += any(kind == "missing-audio" for kind, _ in faults)
        if missing and len(self.clips) == clips and self._folder(wavs) is None:
            raise DataError(
                f"{wavs}: no such folder, and none of the {missing:,} ids in {path} names an audio file\n"
                "Set wavs_dir to the folder of the audio."
            )
        self.problems += sorted(problems, key=lambda problem: problem.line)

    def _read_row(
        self, place: tuple[str, int], cells: Mapping[str, str], folders: Sequence[AudioFolder], set_name: str
    ) -> tuple[str | None, list[_Fault]]:
        """Adds the clip of one row if nothing is wrong with it; its id, and everything that is."""
        raw_id = cells["id"]
        try:
            parts = split_id(raw_id)
        except EscapingId as escape:
            return raw_id, [("escaping-id", f"the id {raw_id!r} {escape}; it is refused")]
        if not parts:
            return None, [("empty-id", "the id is empty")]

        written_id = canonical_id(parts)
        text = cells.get("normalized_text") or cells.get("text") or ""
        ipa = cells.get("ipa") or None
        written_language = cells.get("language") or self._default_language
        language = self._known_language(written_language)
        speaker = self._speaker(written_id, cells)
        audio_path = next(filter(None, (folder.find(parts) for folder in folders)), None)
        clip_id = f"{set_name}/{written_id}" if self._is_of_both(written_id, audio_path, place) else written_id

        faults: list[_Fault] = self._named_before(("id", clip_id), place)
        if not _has_content(text) and not _has_content(ipa or ""):
            faults.append(("empty-text", f"the text of {written_id!r} is empty"))
        if language is None:
            message = f"the language {written_language!r} is not known; extra_languages can add it"
            faults.append(("unknown-language", message))
        if speaker is None:
            reason = "speaker_pattern does not match" if self._pattern else "the speaker column is empty for"
            faults.append(("no-speaker", f"{reason} {written_id!r}"))
        if audio_path is None:
            searched = " or ".join(dict.fromkeys(folder.path for folder in folders))
            faults.append(("missing-audio", f"no audio file for {written_id!r} in {searched}"))
        elif not faults:
            faults += self._named_before(("audio file", audio_path), place)
        if not faults and audio_path and speaker and language:
            self.clips.append(Clip(clip_id, audio_path, text, speaker, language, ipa, *place))
        return clip_id, faults

    def _is_of_both(self, clip_id: str, audio_path: str | None, place: tuple[str, int]) -> bool:
        """Whether the other metadata file has this id too, for another recording."""
        if self._first.get(("id", clip_id), place)[0] == place[0]:
            return False
        other = self._audio_of.get(clip_id)
        # Two folders may well hold links to one file, and what is trained on must not be validated with.
        return not (other and audio_path and _is_same_file(other, audio_path))

    def _named_before(self, what: tuple[str, str], place: tuple[str, int]) -> list[_Fault]:
        first = self._first.setdefault(what, place)
        if first == place:
            return []
        where = f"line {first[1]}" if first[0] == place[0] else f"{first[0]}:{first[1]}"
        return [("duplicate-id", f"the {what[0]} {what[1]!r} is already that of {where}")]

    def _speaker(self, clip_id: str, cells: Mapping[str, str]) -> str | None:
        if cells.get("speaker"):
            return cells["speaker"]
        if self._pattern is not None:
            match = self._pattern.search(clip_id)
            return match.group(1 if self._pattern.groups else 0) or None if match else None
        return None if "speaker" in cells else DEFAULT_SPEAKER

    def _known_language(self, code: str) -> str | None:
        if code not in self._languages:
            try:
                self._languages[code] = known_language(code, self._extra_languages)
            except UsageError:
                self._languages[code] = None
        return self._languages[code]

    def _folder(self, path: str) -> AudioFolder | None:
        if path not in self._folders:
            try:
                self._folders[path] = AudioFolder(path)
            except (FileNotFoundError, NotADirectoryError):
                self._folders[path] = None
            except OSError as error:
                raise DataError(f"{path}: cannot be listed: {error.strerror}") from error
        return self._folders[path]


def _set_name(path: str, training: str) -> str:
    """What a metadata file's set is called: its folder, or the file itself beside the training metadata."""
    folder, file = os.path.split(os.path.abspath(path))
    beside = os.path.samefile(folder, os.path.dirname(os.path.abspath(training)))
    return normalize("NFC", os.path.splitext(file)[0] if beside else os.path.basename(folder))


def _is_same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return one == other


def _compile_pattern(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"data.speaker_pattern: '{pattern}' is not a regular expression: {error}") from None


def _has_content(text: str) -> bool:
    """Whether a text has anything besides spaces, joiners and control characters."""
    return any(character.isprintable() and not character.isspace() for character in text)
