"""The program `myxtts`: its commands, exit codes and one-line errors.

Exit codes: 0 success; 1 the work failed or found problems; 2 wrong usage; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

from myxtts import __version__
from myxtts.cli import (
    benchmark,
    check_data,
    config,
    demo,
    diagnose,
    evaluate,
    export,
    judge,
    make_corpus,
    monitor,
    output,
    precompute,
    prepare,
    profile,
    say,
    serve,
    serve_data,
    split,
    synthesize,
    text,
    train,
    train_vocoder,
    tune,
    verify_cache,
    vocoder,
)
from myxtts.errors import NO_ROOM, MyXTTSError, needing_train_extra

INTERRUPTED = 130

app = typer.Typer(
    name="myxtts",
    help="Train text-to-speech voices with an accelerator that never waits for data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (say.say, demo.demo),
    "Configuration": (config.create_config, config.show_config),
    "Data": (
        make_corpus.make_corpus,
        prepare.prepare,
        split.split,
        check_data.check_data,
        precompute.precompute,
        verify_cache.verify_cache,
        serve_data.serve_data,
        text.text,
    ),
    "Voice": (
        train.train,
        evaluate.evaluate,
        judge.judge,
        synthesize.synthesize,
        synthesize.clone_voice,
        export.export,
        serve.serve,
    ),
    "Vocoder": (train_vocoder.train_vocoder, vocoder.vocode, vocoder.import_vocoder),
    "Performance": (diagnose.diagnose, monitor.monitor, profile.profile, benchmark.benchmark, tune.tune),
}
for _panel, _functions in _COMMANDS.items():
    for _function in _functions:
        app.command(rich_help_panel=_panel)(_function)


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


@cache
def commands() -> Callable[..., Any]:
    """All commands with their options. Making them takes longer than some of them run."""
    return typer.main.get_command(app)


def main(arguments: list[str] | None = None) -> None:
    """Runs the program and exits. A user's mistake prints one to three lines, never a traceback."""
    # Hides TensorFlow's messages, unless the user has set the level: those at its start, and complaints where nothing
    # is wrong (a compiled program that is read is tried as text first). What fails raises an error as well.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    output.start_logging()
    sys.exit(_run(arguments))


def _run(arguments: list[str] | None) -> int:
    try:
        with needing_train_extra("this command"):
            code = commands()(arguments, standalone_mode=False, prog_name="myxtts")
    except typer.TyperException as error:
        return _fail(error.format_message(), error.exit_code, hint=error.exit_code == 2)
    except MyXTTSError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Python would try to flush to it on exit, and fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        # A command that writes says which file; this is for what none of them expects.
        if error.errno not in NO_ROOM:
            raise
        return _fail(f"{error.filename or 'a file cannot be written'}: {error.strerror}; make room on the disk", 1)
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return int(code or 0)


def _fail(message: str, code: int, hint: bool = False) -> int:
    for line in message.strip().splitlines() or ["see 'myxtts --help'"]:
        print(f"error: {line}", file=sys.stderr)
    if hint:
        print("see 'myxtts --help', or 'myxtts COMMAND --help' with an example", file=sys.stderr)
    return code
