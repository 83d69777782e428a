"""A picture of speech: the mel, and which token each frame belongs to."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from myxtts.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from myxtts.inference.xtts_inference import Utterance


def require_plotting(feature: str = "--plot") -> None:
    """Checks that matplotlib is installed, which the option `feature` needs.

    Raises:
        MissingExtraError: the `plot` extra is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError(feature, "plot")


def plot_speech(
    path: str | Path, utterances: Sequence[Utterance], symbols: Sequence[Sequence[str]], frame_seconds: float
) -> None:
    """Writes a PNG with the mel above and the alignment below it, sentences side by side without their pauses.

    Args:
        path: of the picture.
        utterances: what was spoken.
        symbols: the symbols of each utterance's tokens.
        frame_seconds: seconds from one mel frame to the next.

    Raises:
        MissingExtraError: the `plot` extra is not installed.
        UsageError: the file cannot be written.
    """
    require_plotting()
    from matplotlib.figure import Figure

    frames = sum(len(utterance.mel) for utterance in utterances)
    figure = Figure(figsize=(min(40.0, 4 + 0.025 * frames), 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
    extent = (0.0, frames * frame_seconds)
    mel = np.concatenate([utterance.mel for utterance in utterances])
    picture = above.imshow(
        mel.T, origin="lower", aspect="auto", extent=(*extent, 0, mel.shape[1]), interpolation="nearest"
    )
    figure.colorbar(picture, ax=above, label="natural log", pad=0.01)
    above.set_ylabel("mel band")

    start, first = 0, 0
    for utterance, names in zip(utterances, symbols, strict=True):
        below.step(
            (start + np.arange(len(utterance.alignment))) * frame_seconds,
            first + utterance.alignment,
            where="post",
            color="tab:blue",
            linewidth=1,
        )
        # Each symbol where its frames begin; in longer speech they would overlap.
        if frames <= 1000:
            for token in np.unique(utterance.alignment):
                frame = start + int(np.argmax(utterance.alignment == token))
                if len(names[token]) == 1:
                    below.annotate(names[token], (frame * frame_seconds, first + token), fontsize=7)
        if start:
            for axes in (above, below):
                axes.axvline(start * frame_seconds, color="gray", linewidth=0.8)
        start += len(utterance.mel)
        first += len(utterance.tokens)
    below.set(xlim=extent, xlabel="seconds, without pauses", ylabel="token")
    try:
        figure.savefig(path, format="png", dpi=100)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
