"""How much one client may ask for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What is refused, or given up, beyond these.

    Attributes:
        text_characters: of a text; OpenAI's limit.
        json_bytes: of a JSON body: that text with every character escaped, and room to spare.
        upload_bytes: of a recording.
        reference_seconds: of a recording, decoded.
        decoding_seconds: to decode it.
        receiving_seconds: for the whole body to arrive.
        sending_seconds: that a client may take to receive the next piece of a response.
        unsent_bytes: of a response that wait for a slow client; then its worker waits, too.
        kept_voices: from uploaded recordings; the one that was not used for the longest time goes.
        connections: at once, over HTTP, and as many over Wyoming.
        finishing_seconds: that what is being spoken may take after SIGTERM.
    """

    text_characters: int = 4096
    json_bytes: int = 2**16
    upload_bytes: int = 20 * 2**20
    reference_seconds: int = 120
    decoding_seconds: float = 10.0
    receiving_seconds: float = 20.0
    sending_seconds: float = 60.0
    unsent_bytes: int = 2**20
    kept_voices: int = 100
    connections: int = 200
    finishing_seconds: int = 30
