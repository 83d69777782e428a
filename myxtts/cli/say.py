"""`myxtts say`: speaks a text at once, with the voice that comes with MyXTTS or any other."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from myxtts.cli.machine_config import start_tensorflow
from myxtts.cli.options import command
from myxtts.cli.output import emit
from myxtts.cli.synthesize import check_wav_path, wav_file
from myxtts.errors import TextError, UsageError
from myxtts.models.shipped import STARTER

if TYPE_CHECKING:
    from myxtts.inference.xtts_inference import Synthesis

# Programs that play a WAV file, of PipeWire, PulseAudio, ALSA, macOS and SoX.
PLAYERS = (("pw-play",), ("paplay",), ("aplay", "-q"), ("afplay",), ("play", "-q"))
# Written where nothing can play it.
UNHEARD = Path("said.wav")
_LONGEST_PLAYING = 3600.0  # seconds


@command()
def say(
    text: Annotated[str, typer.Argument(help="Text to speak.")],
    language: Annotated[str | None, typer.Option(help="Language of the text; default: the voice's.")] = None,
    checkpoint: Annotated[
        Path, typer.Option(help="Folder of another voice: a checkpoint, a training run, or a bundle.")
    ] = Path(STARTER),
    speed: Annotated[float, typer.Option(help="0.25 to 4; 2 is twice as fast.")] = 1.0,
    output: Annotated[Path | None, typer.Option(help="Write a WAV file instead of playing it.")] = None,
) -> None:
    """Speak a text at once. Nothing needs to be trained.

    Example: myxtts say "Hello there."
    """
    if not text.strip():
        raise TextError("there is no text to speak")
    if output is not None:
        check_wav_path(output)
    from myxtts.inference.xtts_inference import XTTSInference, read_voice
    from myxtts.models.checkpoint import Checkpoint

    read = read_voice(checkpoint)
    if isinstance(read, Checkpoint):
        start_tensorflow()
    speaker = XTTSInference(read)
    spoken = language or speaker.language
    if spoken not in speaker.languages:
        raise UsageError(f"--language {spoken}: this voice speaks {', '.join(speaker.languages)}")
    # A bundle may have a voice for each of its languages.
    voice = speaker.named_voice(spoken) if spoken in speaker.voices else None
    speech = speaker.synthesize(text, language=spoken, speed=speed, voice=voice)

    player = None if output is not None else _play(speech)
    written = None if player is not None else output or UNHEARD
    if written is not None:
        _write(speech, written)
    result = {
        "seconds": round(speech.seconds, 3),
        "language": spoken,
        "output": None if written is None else str(written),
        "player": player,
    }

    def render(console: Console) -> None:
        if written is not None:
            why = "" if output is not None else ", because there is no sound device here, or no program to play it"
            console.print(f"{written}: {speech.seconds:.1f} s of speech{why}")

    emit(result, render)


def _write(speech: Synthesis, path: Path) -> None:
    with wav_file(path, speech.sample_rate) as write:
        write(speech.audio)


def _play(speech: Synthesis) -> str | None:
    """Plays speech; returns the program that could, or None."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / UNHEARD
        _write(speech, path)
        return play_file(path)


def play_file(path: Path) -> str | None:
    """Plays a WAV file; returns the program that could, or None."""
    for name, *options in PLAYERS:
        program = shutil.which(name)
        if program is None:
            continue
        try:
            done = subprocess.run([program, *options, str(path)], capture_output=True, timeout=_LONGEST_PLAYING)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return name
    return None
