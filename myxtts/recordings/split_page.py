"""The page that `split` writes: what was found, what was not, and the least certain clips."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.recordings.waveform import waveform
from myxtts.reports.page import page, paragraph, section, sound, table

if TYPE_CHECKING:
    from myxtts.recordings.split import SplitClip, SplitReport

_SHOWN_CLIPS = 20
_SHOWN_LINES = 500


def split_page(report: SplitReport, wavs: Path) -> str:
    """The page as HTML; waveforms and sounds are read from `wavs`."""
    minutes = sum(clip.end - clip.begin for clip in report.clips) / 60
    lead = f"{len(report.clips):,} clips, {minutes:,.1f} of {report.seconds / 60:,.1f} minutes"
    facts = [
        ["clips", len(report.clips)],
        ["doubtful clips", len(report.doubtful)],
        ["sentences in no clip", len(report.unplaced)],
        ["stretches of speech that no text fits", len(report.other_speech)],
    ]
    sections = [section("Summary", table(["", "number"], facts, numeric=[1]))]
    if report.unplaced:
        rows = [[one["text"], one["reason"]] for one in report.unplaced[:_SHOWN_LINES]]
        sections.append(section("Text that is in no clip", table(["text", "why"], rows)))
    if report.other_speech:
        spans = [[_clock(begin), _clock(end)] for begin, end in report.other_speech[:_SHOWN_LINES]]
        sections.append(section("Speech that no text fits", table(["from", "to"], spans, numeric=[0, 1])))
    worst = sorted(report.clips, key=lambda clip: clip.confidence)[:_SHOWN_CLIPS]
    sections += [_clip_section(clip, wavs) for clip in worst]
    return page("A reading in clips", sections, lead=lead)


def _clip_section(clip: SplitClip, wavs: Path) -> str:
    file = wavs / f"{clip.id}.wav"
    state = "doubtful" if clip.doubtful else "certain enough"
    return section(
        f"{clip.id}: {state}, confidence {clip.confidence:.2f}",
        paragraph(clip.text),
        paragraph(f"heard: {clip.heard}", note=True) if clip.heard is not None else "",
        waveform(file, clip.id),
        sound(file.read_bytes(), clip.id),
        paragraph(f"from {_clock(clip.begin)} to {_clock(clip.end)}", note=True),
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02}:{seconds % 60:05.2f}"
