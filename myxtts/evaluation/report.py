"""An evaluation as files: WAVs, or one HTML page with the sentences' audio and mels side by side."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import soundfile
import soxr

from myxtts.audio.mel import log_mel, trim
from myxtts.audio.reading import read_audio, to_pcm16
from myxtts.data.precompute import NoProgress, WorkProgress
from myxtts.errors import UsageError
from myxtts.evaluation.result import CEILING, OURS, RECORDING, TEXTS, TITLES, Evaluation, SentenceResult
from myxtts.inference.plot import require_plotting
from myxtts.reports.page import figure, image, page, paragraph, row, section, sound, table

# Most sentences on a page, so that the file stays small enough to send.
SHOWN = 12
# Samples per second on a page: enough for mels up to 8 kHz.
PAGE_RATE = 16000
# Colours of a mel picture; more look the same and take more bytes.
_LEVELS = 64


def _sound_of(sentence: SentenceResult, result: Evaluation) -> dict[str, np.ndarray]:
    """The audio of a sentence in three versions, by name: float32 [n] within full scale."""
    settings = result.mel_settings
    found = {
        "generated": result.vocoder(sentence.mel),
        "vocoded": result.vocoder(sentence.true_mel),
        "recording": trim(read_audio(sentence.audio_path, settings.sample_rate, *sentence.part), settings),
    }
    return {name: audio / max(1.0, np.abs(audio).max(initial=0.0)) for name, audio in found.items()}


def write_samples(result: Evaluation, folder: str | Path, progress: WorkProgress | None = None) -> None:
    """Writes `ID.generated.wav`, `ID.vocoded.wav` and `ID.recording.wav` for every sentence, and
    `text-001.generated.wav` and so on for the sentences of a text file.

    Raises:
        UsageError: the folder cannot be written to.
    """
    progress = progress or NoProgress()
    progress.stage("writing samples", result.sentences)
    rate = result.mel_settings.sample_rate
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for sentence in result.results:
            name = re.sub(r"[^\w.-]", "_", sentence.id)
            for kind, audio in _sound_of(sentence, result).items():
                (folder / f"{name}.{kind}.wav").write_bytes(_wav(audio, rate))
            progress.advance(1)
        for number, text in enumerate(result.texts, 1):
            audio = text.audio / max(1.0, np.abs(text.audio).max(initial=0.0))
            (folder / f"text-{number:03}.generated.wav").write_bytes(_wav(audio, result.mel_settings.sample_rate))
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: cannot be written ({error.strerror})") from None


def write_page(result: Evaluation, path: str | Path, progress: WorkProgress | None = None) -> None:
    """Writes one HTML file with everything in it.

    Raises:
        MissingExtraError: the `plot` extra is not installed.
        UsageError: the file cannot be written.
    """
    require_plotting("--html")
    progress = progress or NoProgress()
    shown = _spread(result)
    progress.stage("writing the page", len(shown))
    notes = [paragraph(note, note=True) for note in result.notes()]
    sections = [
        section("Summary", table(["figure", "value", "meaning"], result.summary(), numeric=[1]), *notes),
        *_judges(result),
        _sentences(result),
    ]
    for sentence in shown:
        sections.append(_sentence(sentence, result))
        progress.advance(1)
    sections += _texts(result)
    lead = f"{result.checkpoint} on {result.data_path}: {result.sentences} sentences, {result.subset}"
    try:
        Path(path).write_text(page("How the voice does", sections, lead=lead), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def _spread(result: Evaluation) -> list[SentenceResult]:
    """The sentences to show, evenly spread from the best to the worst."""
    ranked = sorted(result.results, key=lambda sentence: sentence.mcd)
    places = np.linspace(0, len(ranked) - 1, min(SHOWN, len(ranked))).round().astype(int)
    return [ranked[place] for place in places]


def _judges(result: Evaluation) -> list[str]:
    """What judges say of recording, ceiling and generated speech, a section; none if nobody was asked."""
    judgements = result.judgements
    if judgements is None or not judgements.groups:
        return []
    head, rows = judgements.table(TITLES)
    meanings = [(figure.title, figure.meaning) for figure in judgements.columns]
    return [
        section(
            "What judges hear",
            table(head, rows, numeric=range(1, len(head))),
            table(["figure", "meaning"], meanings),
        )
    ]


def _texts(result: Evaluation) -> list[str]:
    """The first sentences of the text file, a section each."""
    settings = result.mel_settings
    sections = []
    for place, text in enumerate(result.texts[:SHOWN]):
        caption = f"generated, {len(text.audio) / settings.sample_rate:.1f} s"
        picture = _mel_picture(text.mel, len(text.mel), float(text.mel.min()), float(text.mel.max()))
        audio = text.audio / max(1.0, np.abs(text.audio).max(initial=0.0))
        player = sound(_page_wav(audio, settings.sample_rate), caption)
        shown = figure(caption, image(picture, f"mel, {caption}", ratio=2), player, *_observed(result, TEXTS, place))
        facts = f"text file, {text.speaker}, {text.language}: nobody recorded it"
        sections.append(section(text.text, paragraph(facts, note=True), row(shown)))
    return sections


def _observed(result: Evaluation, group: str, place: int) -> list[str]:
    """What judges observed of one clip, a paragraph; none if nobody was asked."""
    values = result.judged(group, place)
    parts = [f"heard: {values['heard']}"] if "heard" in values else []
    parts += [f"{name} {value:.2f}" for name, value in values.items() if isinstance(value, float)]
    return [paragraph("; ".join(parts), note=True)] if parts else []


def _sentences(result: Evaluation) -> str:
    shown = f"{SHOWN} of the {result.sentences}" if result.sentences > SHOWN else f"All {result.sentences}"
    return section(
        "Sentences",
        paragraph(
            f"{shown} sentences, evenly spread from the lowest distortion to the highest. "
            f"Each has three versions: what the model speaks; the ceiling, which is {result.vocoder.name} of the "
            "recorded mel; and the recording. The pictures of a sentence share one time axis and one scale."
        ),
    )


def _sentence(sentence: SentenceResult, result: Evaluation) -> str:
    settings = result.mel_settings
    audio = _sound_of(sentence, result)
    heard = log_mel(audio["vocoded"], settings)
    columns = (
        (OURS, f"generated, {sentence.duration_ratio:.2f} of the recorded length", sentence.mel, audio["generated"]),
        (CEILING, f"ceiling: {result.vocoder.name} of the recorded mel", heard, audio["vocoded"]),
        (RECORDING, "recording", sentence.true_mel, audio["recording"]),
    )
    place = next(place for place, one in enumerate(result.results) if one is sentence)
    frames = max(len(sentence.mel), len(sentence.true_mel))
    scale = float(sentence.true_mel.min()), float(sentence.true_mel.max())
    figures = [
        figure(
            caption,
            image(_mel_picture(mel, frames, *scale), f"mel, {caption}", ratio=2),
            sound(_page_wav(one, settings.sample_rate), caption),
            *_observed(result, group, place),
        )
        for group, caption, mel, one in columns
    ]
    found = "" if sentence.rank is None else f", rank {sentence.rank} of {result.retrieval_candidates}"
    floor = "" if sentence.mcd_floor is None else f", floor {sentence.mcd_floor:.2f}"
    facts = (
        f"{sentence.id}, {sentence.speaker}, {sentence.language}: mcd {sentence.mcd:.2f} dB "
        f"(ceiling {sentence.mcd_ceiling:.2f}{floor}){found}"
    )
    return section(sentence.text, paragraph(facts, note=True), row(*figures))


def _mel_picture(mel: np.ndarray, frames: int, low: float, high: float) -> bytes:
    """A PNG of a mel with colours from `low` to `high`; beyond the mel, up to `frames`, it is transparent."""
    from matplotlib import colormaps
    from PIL import Image

    levels = np.full((frames, mel.shape[1]), _LEVELS, np.uint8)  # the last level is that without colour
    levels[: len(mel)] = (np.clip((mel - low) / max(high - low, 1e-6), 0, 1) * (_LEVELS - 1)).round()
    picture = Image.fromarray(np.ascontiguousarray(levels.T[::-1])).convert("P")
    colours = np.vstack([colormaps["magma"](np.linspace(0, 1, _LEVELS))[:, :3], [[0.5, 0.5, 0.5]]])
    picture.putpalette((colours * 255).round().astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True, transparency=_LEVELS)
    return buffer.getvalue()


def _page_wav(audio: np.ndarray, rate: int) -> bytes:
    return _wav(audio, rate) if rate <= PAGE_RATE else _wav(soxr.resample(audio, rate, PAGE_RATE), PAGE_RATE)


def _wav(audio: np.ndarray, rate: int) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, to_pcm16(audio), rate, format="WAV", subtype="PCM_16")
    return buffer.getvalue()
