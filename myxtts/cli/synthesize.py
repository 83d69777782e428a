"""`myxtts synthesize` and `myxtts clone-voice`: speak a text into a WAV file, sentence by sentence."""

from __future__ import annotations

import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from myxtts.cli.machine_config import start_tensorflow
from myxtts.cli.options import VocoderOption, VoiceOption, command
from myxtts.cli.output import emit, say
from myxtts.errors import TextError, UsageError
from myxtts.text.encoding import as_utf8

if TYPE_CHECKING:
    import numpy as np

    from myxtts.inference.xtts_inference import Utterance


@dataclass(frozen=True)
class SpeechOptions:
    """What to speak, how, and where to write it."""

    checkpoint: VoiceOption
    text: Annotated[str | None, typer.Option(help="Text to speak.")] = None
    text_file: Annotated[Path | None, typer.Option(help="File with the text to speak, in UTF-8.")] = None
    language: Annotated[
        str | None, typer.Option(help="Language of the text, e.g. fa; default: the checkpoint's.")
    ] = None
    speed: Annotated[float, typer.Option(help="0.25 to 4; 2 is twice as fast.")] = 1.0
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, help="Other seeds speak a little differently (flow decoder only).")
    ] = 0
    vocoder: VocoderOption = "auto"
    output: Annotated[Path, typer.Option(help="WAV file to write.")] = Path("out.wav")
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture (PNG) of the mel and the alignment to this file.")
    ] = None
    timestamps: Annotated[
        Path | None, typer.Option(help="Write when each word is spoken to this file: .json, .srt or .vtt.")
    ] = None
    ssml: Annotated[
        bool, typer.Option("--ssml", help="Read the text as SSML, even if it does not begin with <speak.")
    ] = False
    voice: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help='Recording of a voice that <voice name="NAME"> asks for; repeatable.'),
    ] = None
    config: Annotated[
        Path | None, typer.Option(help="Fail if the checkpoint was trained with another configuration.")
    ] = None


@command()
def synthesize(
    speech: SpeechOptions,
    reference: Annotated[Path | None, typer.Option(help="Recording of the voice to speak with.")] = None,
) -> None:
    """Speak a text with a trained voice.

    Example: myxtts synthesize --checkpoint runs/voice/best --text "Hello there." --output hello.wav
    """
    _speak(speech, reference)


@command()
def clone_voice(
    speech: SpeechOptions, reference: Annotated[Path, typer.Option(help="Recording of the voice to speak with.")]
) -> None:
    """Speak a text with the voice of a recording of a few seconds.

    Example: myxtts clone-voice --checkpoint runs/voices/best --reference me.wav --text "Is this me?"
    """
    _speak(speech, reference)


def _speak(speech: SpeechOptions, reference: Path | None) -> None:
    # Report what is wrong with the options before TensorFlow takes seconds to load.
    text = _given_text(speech.text, speech.text_file)
    output, plot, timestamps = speech.output, speech.plot, speech.timestamps
    check_wav_path(output)
    if plot is not None and not plot.parent.is_dir():
        raise UsageError(f"{plot}: the folder {plot.parent} does not exist")
    from myxtts.audio.mel import MelSettings
    from myxtts.audio.reading import audio_info
    from myxtts.config.config import XTTSConfig
    from myxtts.inference.plot import plot_speech, require_plotting
    from myxtts.inference.vocoder import find_vocoder
    from myxtts.inference.word_times import check_timestamps_file, write_timestamps
    from myxtts.inference.xtts_inference import XTTSInference, read_voice
    from myxtts.models.checkpoint import Checkpoint
    from myxtts.text.markup import parse_markup

    voices = dict(name_and_file(entry) for entry in speech.voice or ())
    for recording in (reference, *voices.values()):
        if recording is not None:
            audio_info(recording)
    if timestamps is not None:
        check_timestamps_file(timestamps)
    if plot is not None:
        require_plotting()
    config = None if speech.config is None else XTTSConfig.from_yaml(speech.config)
    checkpoint = read_voice(speech.checkpoint)
    find_vocoder(speech.vocoder, MelSettings.from_config(checkpoint.config.data), checkpoint.path)
    language = speech.language or checkpoint.config.data.language
    markup = parse_markup(text, language, ssml=speech.ssml or None)

    if isinstance(checkpoint, Checkpoint):
        start_tensorflow()
    speaker = XTTSInference(checkpoint, config, speech.vocoder)
    stream = speaker.stream(markup, reference, speed=speech.speed, seed=speech.seed, voices=voices)
    utterances = _write(output, stream, speaker.sample_rate)
    if plot is not None:
        symbols = [speaker.tokenizer.decode(utterance.tokens) for utterance in utterances]
        settings = speaker.mel_settings
        plot_speech(plot, utterances, symbols, settings.hop_length / settings.sample_rate)

    seconds = sum(len(utterance.audio) for utterance in utterances) / speaker.sample_rate
    if timestamps is not None:
        words = [word for utterance in utterances for word in utterance.words]
        write_timestamps(timestamps, words, seconds, markup.shown_between)
    compute = sum(utterance.compute_seconds for utterance in utterances)
    result: dict[str, Any] = {
        "output": str(output),
        "vocoder": speaker.vocoder.name,
        "sample_rate": speaker.sample_rate,
        "seconds": round(seconds, 3),
        "sentences": [utterance.text for utterance in utterances],
        "compute_seconds": round(compute, 3),
        "real_time_factor": round(compute / seconds, 4),
        "plot": None if plot is None else str(plot),
        "timestamps": None if timestamps is None else str(timestamps),
    }

    def render(console: Console) -> None:
        console.print(
            f"{output}: {seconds:.1f} s of speech in {compute:.2f} s "
            f"(real-time factor {compute / seconds:.3f}, {seconds / compute:.0f} times faster than speech)"
        )
        if plot is not None:
            console.print(f"{plot}: mel and alignment")
        if timestamps is not None:
            console.print(f"{timestamps}: times of the words")

    emit(result, render)


def _given_text(text: str | None, text_file: Path | None) -> str:
    if (text is None) == (text_file is None):
        raise UsageError("give the text with either --text or --text-file")
    if text_file is not None:
        return read_text_file(text_file)
    assert text is not None
    if not text.strip():
        raise TextError("there is no text to speak")
    return text


def read_text_file(path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
        TextError: the file cannot be read, is not text, or has no text in it.
    """
    try:
        text = as_utf8(path.read_bytes()).decode()
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: not text (byte {error.start + 1} is not UTF-8); save it as UTF-8") from None
    except OSError as error:
        raise TextError(f"{path}: cannot be read ({error.strerror})") from None
    if not text.strip():
        raise TextError(f"{path}: no text in it")
    return text


def name_and_file(entry: str) -> tuple[str, Path]:
    """The two parts of `NAME=FILE`.

    Raises:
        UsageError: it is not of this form.
    """
    name, equals, path = entry.partition("=")
    if not name.strip() or not equals or not path:
        raise UsageError(f"--voice {entry}: should be NAME=FILE, e.g. --voice anna=anna.wav")
    return name.strip(), Path(path)


def check_wav_path(path: Path) -> None:
    """
    Raises:
        UsageError: the name does not end in .wav, or its folder does not exist.
    """
    if path.suffix.lower() != ".wav":
        raise UsageError(f"{path}: the file written is WAV; name it .wav")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist")


@contextmanager
def wav_file(path: Path, sample_rate: int) -> Iterator[Callable[[np.ndarray], None]]:
    """Writes a WAV file of 16 bits and one channel: what it gives is called with float32 samples, piece after piece.

    Raises:
        UsageError: it cannot be written.
    """
    from myxtts.audio.reading import to_pcm16

    # Not by libsndfile, which says "System error" of a full disk.
    try:
        with open(path, "wb") as raw, wave.open(raw, "wb") as file:
            file.setparams((1, 2, sample_rate, 0, "NONE", ""))

            def write(audio: np.ndarray) -> None:
                file.writeframes(to_pcm16(audio).astype("<i2").tobytes())
                raw.flush()

            yield write
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def _write(path: Path, utterances: Any, sample_rate: int) -> list[Utterance]:
    written = []
    with wav_file(path, sample_rate) as write:
        for utterance in utterances:
            write(utterance.audio)
            written.append(utterance)
            say(f"{len(utterance.audio) / sample_rate:6.1f} s  {utterance.text}")
    return written
