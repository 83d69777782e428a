"""The program `myxtts`: its commands in groups, its exit codes, its one-line errors.

Exit codes: 0 done; 1 the work failed or found problems; 2 wrong usage; 130 interrupted by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from myxtts import __version__
from myxtts.cli import (
    benchmark,
    check_data,
    create_config,
    demo,
    diagnose,
    evaluate,
    make_corpus,
    monitor,
    output,
    precompute,
    profile,
    show_config,
    synthesize,
    text,
    train,
    tune,
    verify_cache,
)
from myxtts.errors import MyXTTSError

INTERRUPTED = 130

app = typer.Typer(
    name="myxtts",
    help="Train text-to-speech voices with an accelerator that never waits for data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

START = "To begin with"
CONFIGURATION = "Configuration"
DATA = "Data"
VOICE = "Voice"
PERFORMANCE = "Performance"

app.command(rich_help_panel=START)(demo.demo)
app.command(rich_help_panel=CONFIGURATION)(create_config.create_config)
app.command(rich_help_panel=CONFIGURATION)(show_config.show_config)
app.command(rich_help_panel=DATA)(make_corpus.make_corpus)
app.command(rich_help_panel=DATA)(check_data.check_data)
app.command(rich_help_panel=DATA)(precompute.precompute)
app.command(rich_help_panel=DATA)(verify_cache.verify_cache)
app.command(rich_help_panel=DATA)(text.text)
app.command(rich_help_panel=VOICE)(train.train)
app.command(rich_help_panel=VOICE)(evaluate.evaluate)
app.command(rich_help_panel=VOICE)(synthesize.synthesize)
app.command(rich_help_panel=VOICE)(synthesize.clone_voice)
app.command(rich_help_panel=PERFORMANCE)(diagnose.diagnose)
app.command(rich_help_panel=PERFORMANCE)(monitor.monitor)
app.command(rich_help_panel=PERFORMANCE)(profile.profile)
app.command(rich_help_panel=PERFORMANCE)(benchmark.benchmark)
app.command(rich_help_panel=PERFORMANCE)(tune.tune)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"myxtts {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Runs the program and exits. A user's mistake ends in one to three lines, never in a traceback."""
    # TensorFlow's start-up messages are not the user's business; their own setting wins.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    output.start_logging()
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        code = app(arguments, standalone_mode=False, prog_name="myxtts")
    except typer.TyperException as error:
        return _fail(error.format_message(), error.exit_code, hint=error.exit_code == 2)
    except MyXTTSError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing may be flushed to the closed pipe on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return int(code or 0)


def _fail(message: str, code: int, hint: bool = False) -> int:
    for line in message.strip().splitlines() or ["see 'myxtts --help'"]:
        print(f"error: {line}", file=sys.stderr)
    if hint:
        print("see 'myxtts --help', or 'myxtts COMMAND --help' with an example", file=sys.stderr)
    return code
