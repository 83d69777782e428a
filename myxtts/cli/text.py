"""`myxtts text`: what becomes of a text, stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli.options import JsonOption, QuietOption
from myxtts.cli.output import emit
from myxtts.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def text(
    written: Annotated[str, typer.Argument(metavar="TEXT", help="What to look at, as one would write it.")],
    language: Annotated[str, typer.Option("--language", help="Its language, e.g. fa.")] = "en",
    symbols: Annotated[str, typer.Option("--symbols", help="auto, graphemes or phonemes.")] = "auto",
    lexicon: Annotated[
        list[str] | None,
        typer.Option(
            "--lexicon", metavar="LANGUAGE=FILE", help="Pronunciations, lines of word, tab, IPA; repeatable."
        ),
    ] = None,
    extra_language: Annotated[
        list[str] | None,
        typer.Option("--extra-language", help="A language of espeak-ng beside the built-in ones; repeatable."),
    ] = None,
    add_blank: Annotated[bool, typer.Option("--add-blank", help="Show ids with blanks between them.")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show what becomes of a text: normalised, as symbols, as ids.

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
    result = {
        "written": written,
        "language": language,
        "language_id": number,
        "normalized": normalized,
        tokenizer.symbols: spoken,
        "symbols": tokenizer.decode(ids),
        "ids": ids.tolist(),
        "unknown": dict(tokenizer.unknown),
    }

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

    emit(result, as_json, render)


def _language_and_file(entry: str) -> tuple[str, Path]:
    code, equals, path = entry.partition("=")
    if not equals or not path:
        raise UsageError(f"--lexicon {entry}: should be LANGUAGE=FILE, e.g. --lexicon fa=names.tsv")
    return code, Path(path)
