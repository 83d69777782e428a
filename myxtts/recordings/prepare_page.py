"""The page that `prepare` writes: what the recordings are like, and the worst of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.recordings.measurement import (
    LEAST_SPEECH_SECONDS,
    LOWEST_BANDWIDTH_HZ,
    LOWEST_SNR_DB,
    MOST_FLAT_PEAKS,
)
from myxtts.recordings.waveform import waveform
from myxtts.reports.page import page, paragraph, section, sound, table

if TYPE_CHECKING:
    from myxtts.recordings.prepare import CleanClip, PrepareReport

_SHOWN_CLIPS = 20
_SHOWN_LINES = 200

_MEANING = {
    "clipped": f"more than {MOST_FLAT_PEAKS} peaks are cut flat",
    "noisy": f"speech is less than {LOWEST_SNR_DB:g} dB above the noise",
    "band-limited": f"highest frequency below {LOWEST_BANDWIDTH_HZ:,.0f} Hz, as in a telephone call",
    "near-empty": f"less than {LEAST_SPEECH_SECONDS:g} s of speech",
}


def prepare_page(report: PrepareReport, wavs: Path) -> str:
    """The page as HTML; waveforms and sounds are read from `wavs`."""
    kept = report.kept
    lead = f"{len(kept):,} of {len(report.clips):,} clips, {sum(clip.seconds for clip in kept) / 60:,.1f} minutes"
    counts = [[fault, count, _MEANING[fault]] for fault, count in report.faults.items()]
    sections = [section("Faults", table(["fault", "clips", "which means"], counts, numeric=[1]))]
    if report.problems:
        sections.append(section("Not readable", *map(paragraph, report.problems[:_SHOWN_LINES])))
    if report.takes:
        rows = [[ids[0], ", ".join(ids[1:])] for ids in report.takes[:_SHOWN_LINES]]
        sections.append(section("Takes of the same sentence", table(["best take", "others"], rows)))
    sections += [_clip_section(clip, wavs) for clip in report.worst(_SHOWN_CLIPS)]
    return page("Prepared recordings", sections, lead=lead)


def _clip_section(clip: CleanClip, wavs: Path) -> str:
    file = wavs / f"{clip.clip.id}.wav"
    before = clip.before
    figures: list[list[object]] = [
        ["loudness", "silent" if clip.loudness is None else f"{clip.loudness:.1f} LUFS"],
        ["largest sample, as recorded", f"{before.peak_db:.1f} dB"],
        ["flat peaks", before.flat_peaks],
        ["speech above noise", f"{before.snr_db:.1f} dB"],
        ["highest frequency", f"{before.bandwidth_hz:,.0f} Hz"],
        ["speech", f"{before.speech_seconds:.1f} of {before.seconds:.1f} s"],
        ["rumble below 40 Hz", f"{before.rumble_db:.0f} dB"],
    ]
    state = ", ".join(clip.faults) or "no fault"
    note = f"left out: {clip.left_out}" if clip.left_out else ""
    return section(
        f"{clip.clip.id}: {state}",
        paragraph(clip.clip.text),
        waveform(file, clip.clip.id),
        sound(file.read_bytes(), clip.clip.id),
        table(["figure", "value"], figures, numeric=[1]),
        paragraph(note, note=True) if note else "",
    )
