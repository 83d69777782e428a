"""Recordings of strangers, decoded in a process of their own, which can be killed. Nothing is written to a disk."""

from __future__ import annotations

import asyncio
import contextlib
import os

import numpy as np

from myxtts.child_program import child_command, child_environment
from myxtts.errors import AudioError
from myxtts.serving.limits import Limits


async def decode_reference(data: bytes, sample_rate: int, limits: Limits) -> np.ndarray:
    """The samples of an audio file in memory, float32 [n].

    Args:
        data: the file, in any format that libsndfile knows.
        sample_rate: in Hz, of the result.
        limits: of its seconds, and of the time that decoding may take.

    Raises:
        AudioError: it is not audio, is too long, or takes too long to decode.
    """
    with os.fdopen(os.memfd_create("reference"), "w+b") as file:
        file.write(data)
        file.flush()
        process = await asyncio.create_subprocess_exec(
            *child_command("myxtts.serving.reference_decoder", sample_rate, limits.reference_seconds),
            stdin=file,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=child_environment(),
        )
        try:
            samples, message = await asyncio.wait_for(process.communicate(), limits.decoding_seconds)
        except asyncio.TimeoutError:
            raise AudioError("the recording: takes too long to decode") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode == 0:
        return np.frombuffer(samples, np.float32)
    if process.returncode == 1 and message:
        raise AudioError(message.decode("utf-8", "replace").strip().splitlines()[-1])
    raise AudioError("the recording: cannot be decoded")
