"""`myxtts serve`: voices behind a server."""

from __future__ import annotations

import importlib
import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from myxtts.cli import output
from myxtts.cli.machine_config import start_tensorflow
from myxtts.cli.options import VocoderOption, command
from myxtts.cli.output import say
from myxtts.errors import MissingExtraError, UsageError
from myxtts.hardware import usable_cpus

if TYPE_CHECKING:
    from myxtts.serving.access import Access


@command()
def serve(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Bundles that `myxtts export` made, or checkpoints.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the web server; 0: a free one.")] = 8020,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that clients must send."),
    ] = None,
    allow_any_client: Annotated[
        bool,
        typer.Option("--allow-any-client", help="Let other machines in without a token. Wyoming has no tokens."),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name under which clients may ask, besides addresses; repeatable."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Origin of web pages that may ask: https://example.org; repeatable."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Requests spoken at a time; default: the CPUs, at most 4.")
    ] = None,
    queue: Annotated[int, typer.Option(min=0, max=10000, help="Requests that may wait; others get 429.")] = 32,
    wyoming_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Also serve Wyoming (Home Assistant) on this port.")
    ] = None,
    vocoder: VocoderOption = "auto",
) -> None:
    """Serve voices: OpenAI's API, Wyoming, and a web page.

    Example: myxtts serve voices/anna --port 8020 --wyoming-port 10200
    """
    _require("serve", "serve", "starlette", "uvicorn")
    if wyoming_port is not None:
        _require("--wyoming-port", "wyoming", "wyoming")
    from myxtts.inference.xtts_inference import XTTSInference, read_voice
    from myxtts.models.checkpoint import Checkpoint
    from myxtts.serving.catalogue import Catalogue, ServedModel, model_ids
    from myxtts.serving.limits import Limits
    from myxtts.serving.metrics import Metrics
    from myxtts.serving.server import Server, listen
    from myxtts.serving.service import Service
    from myxtts.serving.speech_queue import SpeechQueue

    access = _access(host, token_file, allow_any_client, allow_host or [], cors or [], wyoming_port)
    names = model_ids(paths)
    voices = [read_voice(path) for path in paths]
    http = listen(host, port)
    wyoming = None if wyoming_port is None else listen(host, wyoming_port)
    # Warnings of the rest of the program quote texts.
    logging.getLogger("myxtts").setLevel(logging.ERROR)
    logging.getLogger("myxtts.serving").setLevel(logging.ERROR if output.chosen.quiet else logging.INFO)

    limits = Limits()
    workers = workers or min(4, usable_cpus())
    if any(isinstance(voice, Checkpoint) for voice in voices):
        start_tensorflow()
    speakers = [XTTSInference(voice, vocoder=vocoder) for voice in voices]
    models = [ServedModel(name, speaker) for name, speaker in zip(names, speakers, strict=True)]
    service = Service(
        Catalogue(models, limits.kept_voices), SpeechQueue(workers, queue, limits.unsent_bytes), limits, Metrics()
    )

    def announce() -> None:
        say(f"serving {', '.join(names)} on http://{_address(http)}")
        if wyoming is not None:
            say(f"Wyoming on tcp://{_address(wyoming)}")

    Server(service, access, http, wyoming, announce).run()


def _require(feature: str, extra: str, *packages: str) -> None:
    try:
        for package in packages:
            importlib.import_module(package)
    except ImportError:
        raise MissingExtraError(feature, extra) from None


def _access(
    host: str, token_file: Path | None, any_client: bool, hosts: list[str], origins: list[str], wyoming: int | None
) -> Access:
    from myxtts.serving.access import Access, check_origins, is_loopback, read_token

    token = None if token_file is None else read_token(token_file)
    if not is_loopback(host) and not any_client:
        if token is None:
            raise UsageError(
                f"--host {host}: other machines could reach the server; give it a token with --token-file, "
                "or let everybody in with --allow-any-client"
            )
        if wyoming is not None:
            raise UsageError(
                f"--wyoming-port {wyoming}: Wyoming has no tokens, and other machines could reach it at {host}; "
                "let everybody in with --allow-any-client"
            )
    return Access(token, frozenset(name.lower().rstrip(".") for name in hosts), check_origins(origins))


def _address(bound: socket.socket) -> str:
    host, port, *_ = bound.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
