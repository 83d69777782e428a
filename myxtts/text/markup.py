"""Text with marks for how it is spoken: `[pause]` in any text, or SSML (`ssml.py`), as segments.

A segment is spoken in one way: one language, one voice, one rate, one volume. Offsets into the source stay with every
character, so that the time of a word can be given together with the place where the user wrote it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from myxtts.errors import TextError
from myxtts.text.normalization import INLINE_IPA

# Seconds. A longer silence is better put between two files.
DEFAULT_PAUSE = 0.7
LONGEST_PAUSE = 10.0

_IPA = INLINE_IPA.pattern.strip("()")
_PAUSE = re.compile(rf"{_IPA}|(?P<pause>\[pause(?::(?P<seconds>[^\[\]]*))?\])", re.IGNORECASE)
_SECONDS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?|\.[0-9]{1,6}")
_BEGINS_AS_SSML = re.compile(r"\ufeff?\s*<(?:speak\b|\?xml\b|!doctype\b|!--)", re.IGNORECASE)

End = Literal["sentence", "paragraph"]


@dataclass(frozen=True)
class Style:
    """How a segment is spoken.

    Attributes:
        language: its code.
        voice: the name of a voice; None: the voice of the whole text.
        rate: 2 is twice as fast as the rest.
        gain: factor of the samples; 2 is 6 dB louder.
    """

    language: str
    voice: str | None = None
    rate: float = 1.0
    gain: float = 1.0


@dataclass(frozen=True, eq=False)
class Segment:
    """A part of a text that is spoken in one way.

    Attributes:
        text: to be normalised and spoken, with `[[ipa]]` where phonemes are given; empty for a pause before all text.
        firsts: int32 [len(text)], for each character the place in the source where what it says is written.
        lasts: int32 [len(text)], the place after it.
        style: how it is spoken.
        pause: seconds of silence after it, instead of what its punctuation makes; None: as its punctuation says.
        ends: what ends with it, whatever its punctuation.
    """

    text: str
    firsts: np.ndarray
    lasts: np.ndarray
    style: Style
    pause: float | None = None
    ends: End | None = None


@dataclass(frozen=True, eq=False)
class Markup:
    """A text, and how each part of it is spoken.

    Attributes:
        source: as the user wrote it, with all marks.
        shown: what a reader would see of it: no tags, no marks.
        places: int32 [len(shown)], where each of its characters stands in the source; rising.
        segments: what is spoken, in order.
        ignored: marks that change nothing here, each named once.
    """

    source: str
    shown: str
    places: np.ndarray
    segments: tuple[Segment, ...]
    ignored: tuple[str, ...] = ()

    def shown_between(self, first: int, last: int) -> str:
        """What a reader sees between two places of the source."""
        start, stop = np.searchsorted(self.places, [first, last])
        return self.shown[start:stop]


def parse_markup(text: str, language: str, *, ssml: bool | None = None) -> Markup:
    """The segments of a text.

    ```python
    parse_markup("Well [pause:1.5] no.", "en").segments[0].pause    # 1.5
    ```

    Args:
        text: plain text with `[pause]` and `[pause:1.5]`, or an SSML document.
        language: of what names no other.
        ssml: whether it is SSML; None: if it begins with `<speak`, or with what may stand before that.

    Raises:
        TextError: a pause that is not 0 to 10 seconds, or SSML that is not right.
        UsageError: SSML names a language that is not a language code.
    """
    if ssml or (ssml is None and _BEGINS_AS_SSML.match(text)):
        from myxtts.text.ssml import parse_ssml

        return parse_ssml(text, language)
    places = np.arange(len(text), dtype=np.int32)
    builder = MarkupBuilder(text, Style(language))
    builder.add_text(text, places, places + 1)
    return builder.finish()


@dataclass
class MarkupBuilder:
    """Collects the segments of a source, from its start to its end.

    Attributes:
        source: the whole text as written.
        style: of the text that is added next.
    """

    source: str
    style: Style
    _segments: list[Segment] = field(default_factory=list)
    _spoken: list[tuple[str, np.ndarray, np.ndarray]] = field(default_factory=list)
    _shown: list[tuple[str, np.ndarray]] = field(default_factory=list)
    _ignored: dict[str, None] = field(default_factory=dict)

    _MOST_NAMED = 20

    def add_text(self, text: str, firsts: np.ndarray, lasts: np.ndarray) -> None:
        """Text that is seen and spoken, with `[pause]` in it; for each character where it stands in the source."""
        start = 0
        for match in _PAUSE.finditer(text):
            if match["pause"]:
                self._add(text, firsts, lasts, start, match.start())
                self.add_pause(_seconds(match))
                start = match.end()
        self._add(text, firsts, lasts, start, len(text))

    def add_replaced(self, shown: str, firsts: np.ndarray, lasts: np.ndarray, spoken: str, at: int) -> None:
        """Text that is seen, and what is spoken in its place.

        Args:
            shown: what is seen.
            firsts: where its characters begin in the source.
            lasts: where they end.
            spoken: what is spoken.
            at: a place in the source, for the case that nothing is seen.
        """
        self._shown.append((shown, firsts))
        inside = [place for place, character in enumerate(shown) if not character.isspace()]
        first, last = (firsts[inside[0]], lasts[inside[-1]]) if inside else (at, at)
        count = len(spoken)
        self._spoken.append((spoken, np.full(count, first, np.int32), np.full(count, last, np.int32)))

    def add_pause(self, seconds: float) -> None:
        """Silence; together with the pause before it at most `LONGEST_PAUSE`."""
        self.end_segment()
        if not self._segments:
            nothing = np.zeros(0, np.int32)
            self._segments.append(Segment("", nothing, nothing, self.style))
        last = self._segments[-1]
        self._segments[-1] = replace(last, pause=min(LONGEST_PAUSE, (last.pause or 0.0) + seconds))

    def ignore(self, what: str) -> None:
        """Notes a mark that changes nothing."""
        if len(self._ignored) < self._MOST_NAMED:
            self._ignored[what] = None
        else:
            self._ignored["and more"] = None

    def end_segment(self, ends: End | None = None) -> None:
        """What comes next is another segment; `ends` says what the last one ends with."""
        text = "".join(spoken for spoken, _, _ in self._spoken)
        if text.strip():
            firsts = np.concatenate([firsts for _, firsts, _ in self._spoken])
            lasts = np.concatenate([lasts for _, _, lasts in self._spoken])
            self._segments.append(Segment(text, firsts, lasts, self.style))
        self._spoken.clear()
        if ends and self._segments:
            last = self._segments[-1]
            both = "paragraph" if "paragraph" in (ends, last.ends) else ends
            self._segments[-1] = replace(last, ends=both)

    def finish(self) -> Markup:
        """All of it."""
        self.end_segment()
        places = [places for _, places in self._shown] or [np.zeros(0, np.int32)]
        return Markup(
            self.source,
            "".join(shown for shown, _ in self._shown),
            np.concatenate(places),
            tuple(self._segments),
            tuple(self._ignored),
        )

    def _add(self, text: str, firsts: np.ndarray, lasts: np.ndarray, start: int, stop: int) -> None:
        if start < stop:
            part = slice(start, stop)
            self._spoken.append((text[part], firsts[part], lasts[part]))
            self._shown.append((text[part], firsts[part]))


def _seconds(match: re.Match[str]) -> float:
    written = match["seconds"]
    if written is None:
        return DEFAULT_PAUSE
    if not _SECONDS.fullmatch(written.strip()) or float(written) > LONGEST_PAUSE:
        raise TextError(f"{match['pause'][:40]}: write seconds from 0 to {LONGEST_PAUSE:g}, such as [pause:1.5]")
    return float(written)
