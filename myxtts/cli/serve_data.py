"""`myxtts serve-data`: load batches for a training process on another machine."""

from __future__ import annotations

import socket
import sys
import threading
from typing import Annotated

import typer

from myxtts.cli.options import command
from myxtts.cli.output import PRIVATE_NETWORK, emit, say

DEFAULT_PORT = 5050


@command()
def serve_data(
    port: Annotated[
        int, typer.Option(min=1, max=65534, help="Port that trainers ask; the port after it sends batches.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str | None,
        typer.Option(help="Name or address under which trainers reach this machine; default: its host name."),
    ] = None,
) -> None:
    """Compute batches for `myxtts train --preprocessing-mode runtime --data-service`, until it is stopped.

    The trainer says what to load; the data set has to be at the same path here. Ctrl-C stops it.

    Example: myxtts serve-data --port 5050
    """
    from myxtts.data.batch_service import serve_batches

    reached_at = host or socket.gethostname()
    kept = serve_batches(port, reached_at)
    emit({"address": f"{reached_at}:{port}", "ports": [port, port + 1]}, lambda out: None)
    sys.stdout.flush()  # whoever started it waits for this
    say(f"loading for trainers with --data-service {reached_at}:{port}: {PRIVATE_NETWORK}")
    threading.Event().wait()
    del kept
