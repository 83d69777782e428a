"""`myxtts text`: show how a text is normalised and turned into symbols; in Persian also why each word is read so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from myxtts.cli.options import command
from myxtts.cli.output import emit
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from myxtts.text.persian_reading.reader import ReadWord


@command()
def text(
    written: Annotated[str, typer.Argument(metavar="TEXT", help="Text to show, as people write it.")],
    language: Annotated[str, typer.Option("--language", help="Language of the text, e.g. fa.")] = "en",
    symbols: Annotated[str, typer.Option("--symbols", help="auto, graphemes or phonemes.")] = "auto",
    lexicon: Annotated[
        list[str] | None,
        typer.Option(
            "--lexicon",
            metavar="LANGUAGE=FILE",
            help="File of pronunciations, each line a word, a tab and its IPA; repeatable.",
        ),
    ] = None,
    extra_language: Annotated[
        list[str] | None,
        typer.Option("--extra-language", help="Language of espeak-ng besides the built-in ones; repeatable."),
    ] = None,
    add_blank: Annotated[
        bool, typer.Option("--add-blank", help="Put a blank between the symbols, as training does.")
    ] = False,
) -> None:
    """Show a text normalised, as symbols, and as ids; in Persian also each word, its ezafe and its reading.

    Example: myxtts text "در ۱۴۰۳/۰۵/۱۲ آمد." --language fa
    """
    from myxtts.text import TextSettings, Tokenizer, language_id, normalize

    settings = TextSettings(
        symbols=symbols,  # type: ignore[arg-type]
        add_blank=add_blank,
        lexicons=dict(_language_and_file(entry) for entry in lexicon or ()),
        extra_languages=tuple(extra_language or ()),
    )
    number = language_id(language, settings.extra_languages)
    tokenizer = Tokenizer(settings)
    normalized = normalize(written, language)
    ids = tokenizer.encode(normalized, language, normalized=True)
    spoken = tokenizer.transcribe([normalized], language)[0]
    words = tokenizer.words([normalized], language)[0]
    result: dict[str, Any] = {
        "written": written,
        "language": language,
        "language_id": number,
        "normalized": normalized,
        tokenizer.symbols: spoken,
        "symbols": tokenizer.decode(ids),
        "ids": ids.tolist(),
        "unknown": dict(tokenizer.unknown),
    }
    if words or (language == "fa" and tokenizer.symbols == "phonemes"):
        result["words"] = [vars(word) for word in words]

    def render(console: Console) -> None:
        rows = {
            "written": written,
            "normalised": normalized,
            tokenizer.symbols: spoken,
            "ids": " ".join(map(str, ids)),
        }
        if tokenizer.unknown:
            rows["unknown"] = ", ".join(f"{symbol!r} {count}x" for symbol, count in tokenizer.unknown.items())
        for name, value in rows.items():
            console.print(f"{name:<12}{value}", markup=False)
        if words:
            _render_words(console, words)

    emit(result, render)


def _render_words(console: Console, words: Sequence[ReadWord]) -> None:
    """A line for each word; the Persian comes last, because terminals disagree on where to put what follows it."""
    console.print(f"\n{'phonemes':<20}{'ezafe':<7}{'part':<6}{'why':<30}word", markup=False)
    for word in words:
        notes = [word.why]
        if not word.known:
            notes.append("unknown word")
        if word.ambiguous:
            notes.append("ambiguous")
        ezafe = "yes" if word.ezafe else ""
        line = f"{word.ipa:<20}{ezafe:<7}{word.part_of_speech:<6}{', '.join(notes):<30}{word.written}"
        console.print(line, markup=False, soft_wrap=True)


def _language_and_file(entry: str) -> tuple[str, Path]:
    code, equals, path = entry.partition("=")
    if not equals or not path:
        raise UsageError(f"--lexicon {entry}: should be LANGUAGE=FILE, e.g. --lexicon fa=names.tsv")
    return code, Path(path)
