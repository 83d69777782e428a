"""Which layout a data set has, by looking at its folder.

Each layout is tried in turn: in the folder itself, then in the folders in it, so that metadata may lie one level
down. The first that fits is taken. `data_layout` names one in place of that, `metadata_file` a file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from myxtts.data.clips.layouts.festvox import FESTVOX
from myxtts.data.clips.layouts.layout import ClipSet, Folder, Layout, choose_by_name
from myxtts.data.clips.layouts.lists import (
    COMMON_VOICE,
    DEFAULT_METADATA_FILE,
    LJSPEECH,
    M_AILABS,
    PIPER,
    open_list,
)
from myxtts.data.clips.layouts.manifests import LHOTSE, NEMO
from myxtts.data.clips.layouts.text_files import LIBRITTS, TEXT_FILES, VCTK
from myxtts.errors import ConfigError, DataError
from myxtts.text.languages import LANGUAGES

# In the order in which they are tried. A `metadata.csv` in the folder itself comes before all of them. A list by
# another name comes late, since others have lists as well; texts beside audio are the least certain, and come last.
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (FESTVOX, COMMON_VOICE, M_AILABS, LHOTSE, NEMO, VCTK, LIBRITTS, LJSPEECH, PIPER, TEXT_FILES)
}
_ONLY_IN_THE_FOLDER_ITSELF = (M_AILABS.name, LIBRITTS.name, TEXT_FILES.name)  # which look further down by themselves
_LANGUAGE_FOLDER = re.compile(r"([a-z]{2})(?:[_-][A-Z]{2})?")
_SHOWN = 5
# The folders of features that TensorFlowTTS's preprocessing makes, for training and for validation.
_DUMP_SETS, _DUMP_FEATURES = ("train", "valid"), ("ids", "raw-feats")


def find_sets(path: str, wavs_dir: str, layout: str = "auto") -> list[ClipSet]:
    """The sets of the data set in a folder.

    Args:
        path: the folder.
        wavs_dir: of its audio, if there is such a folder.
        layout: one of `LAYOUTS`, or `auto`.

    Raises:
        DataError: the folder is not laid out in any way that is known, or not as it should be.
    """
    folder = Folder(path, path, wavs_dir)
    if layout == "auto" and DEFAULT_METADATA_FILE in folder.files:
        return list(LJSPEECH.find(folder))
    tried = list(LAYOUTS.values()) if layout == "auto" else [LAYOUTS[layout]]
    for one in tried:
        found = list(one.find(folder)) if one is not TEXT_FILES else []
        if found:
            return found
    for one in tried:
        if one.name not in _ONLY_IN_THE_FOLDER_ITSELF:
            found = _find_one_level_down(folder, one)
            if found:
                return found
    found = list(TEXT_FILES.find(folder)) if TEXT_FILES in tried else []
    if found:
        return found
    if _is_dump(folder):
        raise DataError(
            f"{path}: features that TensorFlowTTS has computed, not a data set; give the folder of recordings and "
            "metadata that they were computed from (docs/from-tensorflowtts.md)"
        )
    raise DataError(_not_recognised(folder, tried))


def open_named(path: str, root: str, wavs_dir: str, layout: str = "auto") -> list[ClipSet]:
    """The sets of a metadata file, or of a folder, that is named.

    Args:
        path: the file or folder.
        root: the data set's folder.
        wavs_dir: of its audio, relative to `root`, if there is such a folder.
        layout: one of `LAYOUTS`, or `auto`.

    Raises:
        DataError: the folder is not laid out in any way that is known.
        ConfigError: the layout has no such file.
    """
    if os.path.isdir(path):
        return find_sets(path, wavs_dir, layout)
    folder = Folder(root, root, wavs_dir)
    if layout != "auto":
        opened = LAYOUTS[layout].open_file
        if opened is None:
            raise ConfigError(f"data_layout is {layout}, which has no metadata file; leave metadata_file out")
        return [opened(folder, path)]
    for one in LAYOUTS.values():
        if one.open_file is not None and one.recognises(path):
            return [one.open_file(folder, path)]
    return [open_list(folder, path)]


def describe(sets: Sequence[ClipSet], root: str) -> str:
    """The layout that was taken, and from where, in one line."""
    names = [os.path.relpath(one.path, root) if one.path.startswith(root) else one.path for one in sets]
    if len(sets) > _SHOWN:
        what = f"{len(sets):,} sets, the first of them {names[0]}"
    else:
        purposes = {"train": " to train on", "val": " to validate with", None: ""}
        what = ", ".join(f"{name}{purposes[one.role]}" for name, one in zip(names, sets, strict=True))
    return f"{' and '.join(dict.fromkeys(one.layout for one in sets))} ({'the folder' if what == '.' else what})"


def _find_one_level_down(folder: Folder, layout: Layout) -> list[ClipSet]:
    """The sets in the folders of a folder. A folder may be called after its language. Those of several folders are a
    speaker each, unless they name speakers, or what the folders are called says which are to train on."""
    found = [(name, one) for name in folder.folders for one in layout.find(folder.folder(name))]
    names = [name for name, _ in found]
    sets = [
        replace(one, id_prefix=f"{name}/{one.id_prefix}", language=one.language or _language_of(name))
        for name, one in found
    ]
    if len(set(names)) < 2:
        return sets
    chosen = choose_by_name(sets, names)
    if chosen is not None:
        return chosen
    return [replace(one, speaker=one.speaker or name) for name, one in zip(names, sets, strict=True)]


def _language_of(folder: str) -> str | None:
    """The language that a folder is called after, as `fa` or `en_US`."""
    match = _LANGUAGE_FOLDER.fullmatch(folder)
    return match[1] if match and match[1] in LANGUAGES else None


def _is_dump(folder: Folder) -> bool:
    sets = [folder, *(folder.folder(name) for name in _DUMP_SETS if name in folder.folders)]
    return any(set(_DUMP_FEATURES) <= set(one.folders) for one in sets)


def _not_recognised(folder: Folder, tried: Sequence[Layout]) -> str:
    suffixes = Counter(os.path.splitext(name)[1].lower() or "no suffix" for name in folder.files)
    files = [f"{count:,} file{'s' * (count > 1)} with {suffix}" for suffix, count in suffixes.most_common(_SHOWN)]
    folders = [f"{name}/" for name in folder.folders[:_SHOWN]]
    if len(folder.folders) > _SHOWN:
        folders.append(f"{len(folder.folders) - _SHOWN:,} more folders")
    looked = "; ".join(f"{one.name}: {one.looks_for}" for one in tried)
    first = "" if len(tried) == 1 else f"{folder.join(DEFAULT_METADATA_FILE)}: no such file, and "
    what = f"the layout is not {tried[0].name}" if len(tried) == 1 else "no other layout is recognised"
    return (
        f"{first or folder.path + ': '}{what}. There: {', '.join(folders + files) or 'nothing'}. "
        f"Looked for, there and one folder down: {looked}. "
        "A configuration can name a layout (data_layout) or a list (metadata_file)"
    )
