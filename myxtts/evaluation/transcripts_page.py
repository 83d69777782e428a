"""The clips whose text fits their recording least, on a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.audio.reading import audio_info, read_audio
from myxtts.recordings.wav_file import wav_bytes
from myxtts.recordings.waveform import waveform
from myxtts.reports.page import page, paragraph, section, sound

if TYPE_CHECKING:
    from myxtts.evaluation.transcripts import TranscriptFit

_SHOWN = 30


def transcripts_page(fits: Sequence[TranscriptFit]) -> str:
    """HTML with text, waveform and sound of the first of `fits`, which are in order."""
    wrong = sum(fit.wrong for fit in fits)
    lead = f"{wrong:,} of {len(fits):,} texts are probably not what is said. Below: those that fit least."
    return page("Texts and recordings", [_clip_section(fit) for fit in fits[:_SHOWN]], lead=lead)


def _clip_section(fit: TranscriptFit) -> str:
    file = Path(fit.clip.audio_path)
    rate = audio_info(file).sample_rate
    return section(
        f"{fit.clip.id}: {fit.misfit:.2f}",
        paragraph(fit.clip.text),
        waveform(file, fit.clip.id),
        sound(wav_bytes(read_audio(file, rate, fit.clip.start, fit.clip.duration), rate), fit.clip.id),
    )
