"""`myxtts check-data`: what a data set contains, and everything that is wrong with it."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from myxtts.cli.machine_config import start_tensorflow
from myxtts.cli.options import ConfigOptions, command
from myxtts.cli.output import StageProgress, duration_text, emit, progress
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from myxtts.data.clips.inspection import DataReport, Portion
    from myxtts.evaluation.transcripts import TranscriptFit

_BAR_WIDTH = 40
_LABEL_WIDTH = 14
_SHOWN_NAMES = 10
_NAME_LENGTH = 32
_SHOWN_CHARACTERS = 120
_SHOWN_WORDS = 20
_SHOWN_TEXTS = 30


@command("data_layout", "language", "num_workers", "config", "settings")
def check_data(
    given: ConfigOptions,
    path: Annotated[
        list[Path] | None,
        typer.Argument(help="Folder of the data set, or of several; default: as in the configuration."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Voice trained on the data set (a checkpoint or run): rank clips whose text does not fit."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="With --checkpoint: write a page with the clips that fit least to this file.")
    ] = None,
) -> None:
    """Report what a data set contains and everything that is wrong with it.

    With a voice that was trained on it, also the clips whose text is probably not what is said. The exit code is 1 if
    a clip cannot be used or training could not start.

    Example: myxtts check-data ./data/ljspeech
    """
    from myxtts.data.clips.inspection import inspect_data
    from myxtts.data.clips.metadata import read_metadata

    if html is not None and checkpoint is None:
        raise UsageError("--html: shows the clips that a --checkpoint finds; give one")
    if html is not None and not html.absolute().parent.is_dir():
        raise UsageError(f"{html}: the folder {html.parent} does not exist")
    if checkpoint is not None:
        from myxtts.models.checkpoint import read_checkpoint

        read_checkpoint(checkpoint)

    data = given.load(data_path=path).config.data
    metadata = read_metadata(data)
    with progress("reading headers", len(metadata.clips)) as bar:
        report = inspect_data(metadata, data, bar.advance)
    fits = [] if checkpoint is None or not report.clips else _rank(checkpoint, data.dataset_paths, html)
    ranked = {"transcripts": [fit.to_dict() for fit in fits]} if checkpoint is not None else {}
    emit(report.to_dict() | ranked, lambda out: _render(out, report, fits))
    if not report.ok:
        raise typer.Exit(1)


def _rank(checkpoint: Path, data_path: Sequence[str], html: Path | None) -> list[TranscriptFit]:
    start_tensorflow()
    from myxtts.evaluation.transcripts import rank_transcripts
    from myxtts.evaluation.transcripts_page import transcripts_page

    with StageProgress() as progress:
        fits = rank_transcripts(checkpoint, data_path, progress)
    if html is not None:
        html.write_text(transcripts_page(fits), encoding="utf-8")
    return fits


def _render(out: Console, report: DataReport, fits: Sequence[TranscriptFit]) -> None:
    def line(label: str, text: str) -> None:
        out.print(f"{label:<{_LABEL_WIDTH}}{_without_controls(text)}", markup=False)

    splits = ", ".join(f"{split} {count:,}" for split, count in report.splits.items() if count)
    line("data set", report.path)
    line("layout", report.layout)
    line("clips", f"{report.clips:,}{f' ({splits})' if splits else ''}")
    if report.clips:
        line("audio", _audio_text(report))
        line("speakers", _shares_text(report.speakers))
        line("languages", _shares_text(report.languages))
        line("sample rates", _counts_text(report.sample_rates, "{:,} Hz", report.clips))
        line("channels", _counts_text(report.channels, "{}", report.clips))
        line("characters", _characters_text(report.characters))
        line("symbols", f"{report.text_symbols}, {_unknown_text(report.unknown_symbols)}")
        for label, words in (("unknown", report.unknown_words), ("ambiguous", report.ambiguous_words)):
            if words:
                line(label, _words_text(words))
        if report.too_long:
            line("too long", f"{report.too_long:,} clips over max_mel_frames or max_tokens")
        _render_histogram(out, report)
    for note in report.notes:
        line("note", note)
    if report.problems:
        left_out = len({(problem.file, problem.line) for problem in report.problems})
        out.print(
            f"\n{len(report.problems):,} problem{'s' * (len(report.problems) > 1)}; "
            f"{left_out:,} line{'s' * (left_out > 1)} of metadata left out (mode precompute would not start):"
        )
        for problem in report.problems:
            out.print(_without_controls(str(problem)), markup=False)
    if fits:
        wrong = sum(fit.wrong for fit in fits)
        out.print(
            f"\n{wrong:,} text{'s' * (wrong != 1)} probably not what is said; those that fit least (1: not at all):"
        )
        for fit in fits[:_SHOWN_TEXTS]:
            out.print(f"{fit.misfit:5.2f}  {_without_controls(f'{fit.clip.id}  {fit.clip.text}')}", markup=False)
    for obstacle in report.obstacles:
        out.print(f"\ntraining cannot start: {obstacle}", markup=False)
    if report.ok:
        out.print("\nno problems")


def _render_histogram(out: Console, report: DataReport) -> None:
    rows = report.histogram()
    most = max(count for _, _, count in rows)
    out.print(f"\n{'seconds':>11}  {'clips':>7}")
    for low, high, count in rows:
        bar = "█" * round(_BAR_WIDTH * count / most) or "▏" * (count > 0)
        out.print(f"{f'{low:g} to {high:g}':>11}  {count:>7,}  {bar}".rstrip(), markup=False)


def _audio_text(report: DataReport) -> str:
    lengths = sorted(report.lengths.tolist())
    return (
        f"{duration_text(report.seconds)}; {lengths[0]:.1f} to {lengths[-1]:.1f} s, "
        f"median {lengths[len(lengths) // 2]:.1f} s"
    )


def _shares_text(shares: Mapping[str, Portion]) -> str:
    ordered = sorted(shares.items(), key=lambda item: -item[1].seconds)
    shown = [f"{_shortened(name)} ({duration_text(share.seconds)})" for name, share in ordered[:_SHOWN_NAMES]]
    if len(ordered) > _SHOWN_NAMES:
        shown.append(f"and {len(ordered) - _SHOWN_NAMES:,} more")
    return f"{len(shares):,}: {', '.join(shown)}"


def _counts_text(counts: Mapping[int, int], form: str, clips: int) -> str:
    if len(counts) == 1:
        return form.format(next(iter(counts)))
    return ", ".join(f"{form.format(value)} ({count:,} of {clips:,})" for value, count in counts.items())


def _characters_text(characters: Mapping[str, int]) -> str:
    ordered = sorted(characters)
    shown = " ".join(_visible(character) for character in ordered[:_SHOWN_CHARACTERS])
    more = f" and {len(ordered) - _SHOWN_CHARACTERS:,} more" if len(ordered) > _SHOWN_CHARACTERS else ""
    return f"{len(ordered):,}: {shown}{more}"


def _unknown_text(unknown: Mapping[str, int]) -> str:
    if not unknown:
        return "none unknown"
    ordered = sorted(unknown.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{_visible(symbol)} ({count:,})" for symbol, count in ordered[:_SHOWN_CHARACTERS])
    return f"{len(unknown):,} unknown: {shown}"


def _words_text(words: Mapping[str, int]) -> str:
    """The most frequent words that a lexicon should have."""
    ordered = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    shown = "، ".join(f"{word} ({count:,})" for word, count in ordered[:_SHOWN_WORDS])
    more = f" and {len(ordered) - _SHOWN_WORDS:,} more" if len(ordered) > _SHOWN_WORDS else ""
    return f"{len(ordered):,} Persian word{'s' * (len(ordered) > 1)}, {sum(words.values()):,} times: {shown}{more}"


def _shortened(name: str) -> str:
    """A name of any length; Common Voice calls its speakers by 128 digits."""
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"


def _without_controls(text: str) -> str:
    """Text without control characters, which a terminal would obey."""
    return "".join(f"\\x{ord(c):02x}" if unicodedata.category(c) == "Cc" else c for c in text)


def _visible(symbol: str) -> str:
    """A symbol as it can be recognised on a screen: by its name if it is invisible."""
    if symbol == " ":
        return "space"
    if len(symbol) != 1 or (symbol.isprintable() and not unicodedata.combining(symbol)):
        return symbol
    return unicodedata.name(symbol, f"U+{ord(symbol):04X}").lower()
