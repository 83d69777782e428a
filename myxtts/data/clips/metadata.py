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
from myxtts.data.clips.audio_files import (
    AudioFolder,
    AudioTree,
    EscapingIdError,
    WrittenPaths,
    canonical_id,
    split_id,
)
from myxtts.data.clips.layouts.layout import ClipRow, ClipSet, Role
from myxtts.data.clips.layouts.lists import DEFAULT_METADATA_FILE
from myxtts.data.clips.layouts.recognition import describe, find_sets, open_named
from myxtts.errors import ConfigError, DataError, UsageError
from myxtts.text.languages import known_language

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
        validation_ids: of the clips of the validation set, if that is a set of its own.
        validation_source: where that set is listed.
        layout: the layout that was recognised, and where, in one line.
    """

    clips: list[Clip]
    problems: list[Problem]
    rule: SplitRule
    notes: list[str] = field(default_factory=list)
    validation_ids: frozenset[str] | None = None
    validation_source: str = ""
    layout: str = ""

    @cached_property
    def splits(self) -> list[Split]:
        """The split of each clip."""
        if self.validation_ids is not None:
            return ["val" if clip.id in self.validation_ids else "train" for clip in self.clips]
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

    def leave_out_failed(self, reasons: Mapping[str, str]) -> Metadata:
        """The same without clips whose features could not be computed; `reasons` are by id."""
        left_out = (clip for clip in self.clips if clip.id in reasons)
        return (
            self.leave_out(clip.problem("unreadable-audio", reasons[clip.id]) for clip in left_out)
            if reasons
            else self
        )

    def data_sets(self) -> np.ndarray:
        """The number of each clip's data set, where several are used as one, int64 [N]."""
        return np.zeros(len(self.clips), np.int64)

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
            if self.validation_ids is not None:
                reason = self._no_clip_of(self.validation_source)
            elif self.rule.val == 0:
                reason = "val_split is 0; set it above 0, or name a metadata_eval_file"
            else:
                reason = "there is only one usable clip"
            raise DataError(f"the validation split is empty: {reason}")
        if "train" not in self.splits:
            if self.validation_ids is not None:
                reason = "the training metadata has no usable clip"
            else:
                reason = f"train_split is {self.rule.train:g} of {len(self.clips)} usable clips; add more"
            raise DataError(f"the training split is empty: {reason}")

    def _no_clip_of(self, source: str) -> str:
        own = (problem for problem in self.problems if f"{problem.file}{os.sep}".startswith(f"{source}{os.sep}"))
        first = next((f"; the first problem: {problem}" for problem in own), "")
        return f"{source} has no usable clip{first}"


def metadata_sets(config: DataConfig) -> list[tuple[str, str]]:
    """The metadata files that a configuration names and the folder of the audio of each: one, or one to train on and
    one to validate with. What it does not name is recognised by looking, and stands here as `metadata.csv`."""
    if config.metadata_train_file is not None and config.metadata_eval_file is not None:
        return [
            (config.metadata_train_file, config.wavs_train_dir or config.wavs_dir),
            (config.metadata_eval_file, config.wavs_eval_dir or config.wavs_dir),
        ]
    return [(config.metadata_file or DEFAULT_METADATA_FILE, config.wavs_dir)]


def read_metadata(config: DataConfig) -> Metadata:
    """Reads and checks the metadata of the data set that a configuration names, or of several as one, in whichever
    layouts they are.

    Raises:
        DataError: a file or folder is missing or is not what it should be as a whole.
        ConfigError: `speaker_pattern` is not a regular expression, `language` is not known, or `data_layout` does not
            go with the other keys.
    """
    if len(config.dataset_paths) == 1:
        return _read_data_set(config)
    from myxtts.data.clips.joined import JoinedMetadata

    return JoinedMetadata.of(config.dataset_paths, [_read_data_set(one) for one in config.for_each_data_set()])


def _read_data_set(config: DataConfig) -> Metadata:
    root = config.dataset_folder
    if not os.path.isdir(root):
        raise DataError(f"{root}: no such folder; dataset_path should be the folder of the data set")
    reader = _Reader(config)
    sets = _find_clip_sets(config)
    ids: dict[str | None, set[str]] = {}
    for one in sets:
        before = len(reader.clips)
        reader.read(one, _set_name(one.path, sets[0].path))
        ids.setdefault(one.role, set()).update(clip.id for clip in reader.clips[before:])
    rule = SplitRule(config.train_split, config.val_split, config.split_seed)
    return Metadata(
        reader.clips,
        reader.problems,
        rule,
        reader.notes,
        validation_ids=frozenset(ids["val"]) if "val" in ids else None,
        validation_source=next((one.path for one in sets if one.role == "val"), ""),
        layout=describe(sets, root),
    )


def _find_clip_sets(config: DataConfig) -> list[ClipSet]:
    """The sets of clips that a configuration names; those to train on come first."""
    root, layout = config.dataset_folder, config.data_layout
    named = metadata_sets(config)
    if len(named) == 1 and config.metadata_file is None:
        return sorted(find_sets(root, config.wavs_dir, layout), key=lambda one: one.role == "val")
    paths = [os.path.join(root, name) for name, _ in named]
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise DataError(f"{' and '.join(missing)}: no such file; set metadata_file if it has another name")
    if len(paths) == 1:
        return open_named(paths[0], root, config.wavs_dir, layout)
    if os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
        raise DataError(f"{paths[0]}: is both the training and the validation metadata")
    roles: tuple[Role, Role] = ("train", "val")
    return [
        replace(one, role=role)
        for path, (_, wavs_dir), role in zip(paths, named, roles, strict=True)
        for one in open_named(path, root, wavs_dir, layout)
    ]


class _Reader:
    """Collects clips and problems over the sets of one data set."""

    def __init__(self, config: DataConfig) -> None:
        self.clips: list[Clip] = []
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self._default_language = config.language
        self._extra_languages = config.extra_languages
        self._languages: dict[str, str | None] = {}  # as written: as known, or None
        if self._known_language(config.language) is None:
            raise ConfigError(f"data.language: '{config.language}' is not known; extra_languages can add it")
        self._pattern = _compile_pattern(config.speaker_pattern)
        self._folders: dict[str, AudioFolder | None] = {}
        # Where an id or an audio file was first named.
        self._first: dict[tuple[str, str], tuple[str, int]] = {}
        # Of the sets that were read before: all ids, and the audio of the clips.
        self._ids_before: set[str] = set()
        self._audio_before: dict[str, str] = {}

    def read(self, one: ClipSet, name: str) -> None:
        """Adds the clips of one set.

        Two recordings of the same id in two sets are two clips; the later one's id then begins with `name`.
        """
        self._ids_before = {given for kind, given in self._first if kind == "id"}
        self._audio_before = {clip.id: clip.audio_path for clip in self.clips}
        audio = _SetAudio(one, [folder for folder in map(self._folder, one.folders) if folder])
        content = one.read()
        self.notes += [*one.notes, *content.notes]
        problems = content.problems
        clips, missing = len(self.clips), 0
        for row in content.rows:
            clip_id, faults = self._read_row(row, one, audio, name)
            problems += [Problem(kind, message, row.file, row.line, clip_id) for kind, message in faults]
            missing += any(kind == "missing-audio" for kind, _ in faults)
        if missing and len(self.clips) == clips and one.search_below is not None:
            raise DataError(
                f"{one.wavs}: no such folder, and none of the {missing:,} ids in {one.path} names an audio file\n"
                "Set wavs_dir to the folder of the audio."
            )
        self.problems += sorted(problems, key=lambda problem: (problem.file, problem.line))

    def _read_row(
        self, row: ClipRow, one: ClipSet, audio: _SetAudio, set_name: str
    ) -> tuple[str | None, list[_Fault]]:
        """Adds the clip of one row if nothing is wrong with it; its id, and everything that is."""
        cells, place = row.cells, (row.file, row.line)
        raw_id = cells.get("id", "")
        try:
            parts, audio_path = audio.find(row)
        except EscapingIdError as escape:
            return raw_id, [("escaping-id", f"the id {raw_id!r} {escape}; it is refused")]
        if not parts:
            return None, [("empty-id", "the id is empty")]

        written_id = one.id_prefix + canonical_id(parts)
        if row.start and "id" not in cells:
            written_id += f"@{row.start:.3f}"
        text = cells.get("normalized_text") or cells.get("text") or ""
        ipa = cells.get("ipa") or None
        written_language = cells.get("language") or one.language or self._default_language
        language = self._known_language(written_language)
        speaker = self._speaker(written_id, cells, one)
        clip_id = f"{set_name}/{written_id}" if self._is_of_both(written_id, audio_path) else written_id

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
            faults.append(("missing-audio", audio.missing(row, written_id)))
        elif not faults:
            recording = f"{audio_path}@{row.start:.3f}" if row.start else audio_path
            faults += self._named_before(("audio file", recording), place)
        if not faults and audio_path and speaker and language:
            part = (row.start, row.duration)
            self.clips.append(Clip(clip_id, audio_path, text, speaker, language, ipa, *place, *part))
        return clip_id, faults

    def _is_of_both(self, clip_id: str, audio_path: str | None) -> bool:
        """Whether a set before has this id too, for another recording."""
        if clip_id not in self._ids_before:
            return False
        other = self._audio_before.get(clip_id)
        # Two folders may well hold links to one file, and what is trained on must not be validated with.
        return not (other and audio_path and _is_same_file(other, audio_path))

    def _named_before(self, what: tuple[str, str], place: tuple[str, int]) -> list[_Fault]:
        first = self._first.setdefault(what, place)
        if first == place:
            return []
        where = f"line {first[1]}" if first[0] == place[0] else f"{first[0]}:{first[1]}"
        return [("duplicate-id", f"the {what[0]} {what[1]!r} is already that of {where}")]

    def _speaker(self, clip_id: str, cells: Mapping[str, str], one: ClipSet) -> str | None:
        if cells.get("speaker"):
            return cells["speaker"]
        if self._pattern is not None:
            match = self._pattern.search(clip_id)
            return match.group(1 if self._pattern.groups else 0) or None if match else None
        return one.speaker or (None if "speaker" in cells else DEFAULT_SPEAKER)

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


class _SetAudio:
    """Finds the audio of the clips of one set."""

    def __init__(self, one: ClipSet, folders: Sequence[AudioFolder]) -> None:
        self._folders = folders
        self._written = WrittenPaths(folders, os.path.dirname(one.path))
        self._below = None if one.search_below is None else AudioTree(one.search_below)

    def find(self, row: ClipRow) -> tuple[tuple[str, ...], str | None]:
        """The parts of a clip's id, none if it is empty, and its audio file, or None.

        Raises:
            EscapingIdError: the id names something outside the data folder.
        """
        cells = row.cells
        if "audio" not in cells:
            return self._find_by_id(split_id(cells["id"]), row)
        inside, path = self._written.find(cells["audio"])
        return (split_id(cells["id"]) if "id" in cells else inside), path or self._search(inside[-1:])

    def missing(self, row: ClipRow, clip_id: str) -> str:
        """Says that a clip has no audio file, and where one was looked for."""
        if self._below is not None:
            found = self._below.find(split_id(row.cells.get("audio") or row.cells.get("id", ""))[-1:])
            if len(found) > 1:
                return f"several audio files for {clip_id!r}: {found[0]} and {found[1]}; set wavs_dir to one folder"
        named = f" ({row.cells['audio']!r})" if "audio" in row.cells else ""
        searched = " or ".join(dict.fromkeys(folder.path for folder in self._folders))
        return f"no audio file for {clip_id!r}{named} in {searched}"

    def _find_by_id(self, parts: tuple[str, ...], row: ClipRow) -> tuple[tuple[str, ...], str | None]:
        if not parts or row.audio_path is not None:
            return parts, row.audio_path or None
        path = self._look_for(parts)
        if path is None and any("\\" in part for part in parts):
            from_windows = split_id("/".join(parts).replace("\\", "/"))
            path = self._look_for(from_windows)
            return (from_windows if path else parts), path
        return parts, path

    def _look_for(self, parts: tuple[str, ...]) -> str | None:
        found = (folder.find(parts) for folder in self._folders if parts)
        return next(filter(None, found), None) or self._search(parts)

    def _search(self, parts: tuple[str, ...]) -> str | None:
        found = self._below.find(parts) if self._below is not None and parts else []
        return found[0] if len(found) == 1 else None


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
