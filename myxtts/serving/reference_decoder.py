"""Decodes one recording, in a process of its own: the file is standard input, its samples go to standard output."""

from __future__ import annotations

import resource
import sys

from myxtts.audio.reading import audio_info, read_audio
from myxtts.errors import AudioError

_FILE = "/dev/stdin"
_MOST_MEMORY = 2**30
_MOST_CPU_SECONDS = 20


def main(sample_rate: int, most_seconds: int) -> int:
    """
    Args:
        sample_rate: in Hz, of the samples that are written, float32.
        most_seconds: that the recording may have.
    """
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_SECONDS, _MOST_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        info = audio_info(_FILE)
        if info.frames > most_seconds * info.sample_rate:
            raise AudioError(f"{_FILE}: longer than {most_seconds} s; send a part of it")
        audio = read_audio(_FILE, sample_rate)
    except AudioError as error:
        print(str(error).replace(_FILE, "the recording"), file=sys.stderr)
        return 1
    except MemoryError:
        print("the recording: takes too much memory to decode", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(audio.tobytes())
    sys.stdout.buffer.flush()
    return 0
