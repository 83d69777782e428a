"""A subset of SSML 1.1 (https://www.w3.org/TR/speech-synthesis11/) as segments of `markup.py`.

What a stranger sends is parsed by expat and nothing else: a document type is refused before any of it is read, so
that there are no entities but XML's own five, and depth and size are bounded. A tag is never spoken. What the subset
does not have is ignored and named; its text is spoken, except where SSML says that it is not for the ear.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn
from xml.parsers import expat

import numpy as np

from myxtts.errors import TextError
from myxtts.text.languages import canonical_language
from myxtts.text.markup import LONGEST_PAUSE, Markup, MarkupBuilder, Style
from myxtts.text.say_as import SAY_AS, say_as

LONGEST_SSML = 200_000  # characters
DEEPEST = 32

# Seconds; those of `[pause]` and of the punctuation between.
BREAKS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.2}
RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.35, "x-fast": 1.8}
VOLUMES = {"silent": 0.0, "x-soft": 0.25, "soft": 0.5, "medium": 1.0, "default": 1.0, "loud": 1.6, "x-loud": 2.5}
_LOUDEST = 10.0

_NOT_FOR_THE_EAR = frozenset(["desc", "lexicon", "meta", "metadata", "title"])
_REPLACING = frozenset(["phoneme", "say-as", "sub"])
_ATTRIBUTES = {
    "speak": {"version"},
    "p": set(),
    "s": set(),
    "break": {"time", "strength"},
    "phoneme": {"alphabet", "ph"},
    "sub": {"alias"},
    "prosody": {"rate", "volume"},
    "say-as": {"interpret-as", "format"},
    "lang": set(),
    "voice": {"name"},
}
_WITH_LANGUAGE = frozenset(["speak", "p", "s", "lang", "voice"])

_TIME = re.compile(r"\+?([0-9]{1,6}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})(ms|s)")
_NUMBER = re.compile(r"([+-]?)([0-9]{1,4}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})(%|dB)?")


def parse_ssml(text: str, language: str) -> Markup:
    """The segments of an SSML document.

    Args:
        text: the document.
        language: of what names no other.

    Raises:
        TextError: it is not well-formed XML, has a document type, is too long or too deep, does not begin with
            `<speak>`, or an attribute has a value that SSML does not have.
        UsageError: a language that is not a language code.
    """
    if len(text) > LONGEST_SSML:
        raise TextError(
            f"the SSML has {len(text):,} characters; at most {LONGEST_SSML:,} are accepted\nSplit it into parts"
        )
    return _Parser(text, language).parse()


@dataclass
class _Element:
    """An element that is open.

    Attributes:
        name: of the tag.
        outside: the style around it.
        attributes: as written.
        at: where its tag stands in the source.
        silent: nothing inside is spoken.
        replacing: its content is collected, and something else is spoken.
    """

    name: str
    outside: Style
    attributes: dict[str, str]
    at: int
    silent: bool
    replacing: bool


class _Parser:
    def __init__(self, text: str, language: str) -> None:
        self._text = text.removeprefix("\ufeff")
        self._skipped = len(text) - len(self._text)
        self._builder = MarkupBuilder(text, Style(language))
        self._open: list[_Element] = []
        self._collected: list[tuple[str, np.ndarray, np.ndarray]] = []
        self._bytes = self._text.encode("utf-8", "surrogatepass")
        # For each byte the number of the character that it belongs to.
        starts = (np.frombuffer(self._bytes, np.uint8) & 0xC0) != 0x80
        self._character = np.cumsum(starts) - 1

        parser = self._expat = expat.ParserCreate("utf-8")
        parser.StartDoctypeDeclHandler = self._refuse_document_type
        parser.EntityDeclHandler = self._refuse_document_type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters

    def parse(self) -> Markup:
        try:
            self._expat.Parse(self._bytes, True)
        except expat.ExpatError as error:
            hint = "each <tag> needs its </tag>, and & and < in the text are written &amp; and &lt;"
            raise TextError(f"SSML, line {error.lineno}: {expat.ErrorString(error.code)}\nIn XML {hint}") from None
        return self._builder.finish()

    def _fail(self, message: str) -> NoReturn:
        raise TextError(f"SSML, line {self._expat.CurrentLineNumber}: {message}")

    def _refuse_document_type(self, *_: object) -> None:
        self._fail("a document type (<!DOCTYPE …>) is not accepted; begin with <speak>")

    def _place(self) -> int:
        """Where the parser is, in characters of the text without its byte order mark."""
        at = self._expat.CurrentByteIndex
        return int(self._character[at]) if at < len(self._character) else len(self._text)

    def _characters(self, data: str) -> None:
        # Line breaks mean nothing in XML, and an empty line would begin a paragraph.
        at = self._place()
        count = len(data)
        if self._text.startswith("&", at) and count == 1:
            end = self._text.find(";", at) + 1
            firsts, lasts = np.array([at], np.int32), np.array([end], np.int32)
        else:
            firsts = np.arange(at, at + count, dtype=np.int32)
            lasts = firsts + 1
        data = data.replace("\n", " ").replace("\r", " ")
        self._collected.append((data, firsts + self._skipped, lasts + self._skipped))

    def _end_of_text(self) -> tuple[str, np.ndarray, np.ndarray]:
        """The text since the last tag."""
        empty = np.zeros(0, np.int32)
        text = "".join(data for data, _, _ in self._collected)
        firsts = np.concatenate([empty, *(firsts for _, firsts, _ in self._collected)])
        lasts = np.concatenate([empty, *(lasts for _, _, lasts in self._collected)])
        self._collected.clear()
        return text, firsts, lasts

    def _speak_text(self) -> None:
        text, firsts, lasts = self._end_of_text()
        if text and not self._open[-1].silent:
            self._builder.add_text(text, firsts, lasts)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._open and name != "speak":
            self._fail(f"the document is <{name[:40]}>; SSML is <speak>…</speak>")
        if len(self._open) >= DEEPEST:
            self._fail(f"tags stand inside each other more than {DEEPEST} deep")
        inside = self._open[-1] if self._open else None
        if inside is not None and inside.replacing:
            # Its content goes on; what stands inside is no more than its text.
            self._builder.ignore(f"<{name[:40]}> inside <{inside.name}>")
            self._open.append(replace(inside, name=name))
            return
        if inside is not None:
            self._speak_text()
        silent = (inside is not None and inside.silent) or name in _NOT_FOR_THE_EAR
        element = _Element(name, self._builder.style, attributes, self._place() + self._skipped, silent, False)
        self._open.append(element)
        if silent:
            self._builder.ignore(f"<{name[:40]}>")
            return
        if name not in _ATTRIBUTES or (name == "speak" and inside is not None):
            self._builder.ignore(f"<{name[:40]}>")
            return
        self._name_unknown_attributes(name, attributes)
        element.replacing = name in _REPLACING and self._can_replace(name, attributes)
        if name in ("p", "s"):
            self._builder.end_segment("paragraph" if name == "p" else "sentence")
        elif name == "break":
            self._builder.add_pause(self._break(attributes))
        self._change_style(name, attributes)

    def _end(self, name: str) -> None:
        element = self._open[-1]
        if element.replacing:
            if len(self._open) > 1 and self._open[-2].replacing:
                self._open.pop()
                return
            shown, firsts, lasts = self._end_of_text()
            self._builder.add_replaced(shown, firsts, lasts, self._replacement(element, shown), element.at)
        else:
            self._speak_text()
        self._open.pop()
        if element.silent:
            return
        if name in ("p", "s"):
            self._builder.end_segment("paragraph" if name == "p" else "sentence")
        self._set_style(element.outside)

    def _name_unknown_attributes(self, name: str, attributes: dict[str, str]) -> None:
        for attribute in attributes:
            if attribute == "xml:lang" and name in _WITH_LANGUAGE:
                continue
            if attribute not in _ATTRIBUTES[name] and not attribute.startswith(("xml", "xsi:")):
                self._builder.ignore(f"{attribute[:40]} of <{name}>")

    def _change_style(self, name: str, attributes: dict[str, str]) -> None:
        style = self._builder.style
        code = attributes.get("xml:lang", "").strip()
        if name == "lang" and not code:
            self._fail('<lang> needs a language: <lang xml:lang="fr">')
        if code and name in _WITH_LANGUAGE:
            style = replace(style, language=canonical_language(code))
        if name == "voice":
            voice = attributes.get("name", "").strip()
            style = replace(style, voice=voice or style.voice)
        elif name == "prosody":
            rate = self._relative(attributes, "rate", style.rate, RATES, _rate)
            gain = self._relative(attributes, "volume", style.gain, VOLUMES, _gain)
            style = replace(style, rate=rate, gain=min(gain, _LOUDEST))
        self._set_style(style)

    def _set_style(self, style: Style) -> None:
        if style != self._builder.style:
            self._builder.end_segment()
            self._builder.style = style

    def _can_replace(self, name: str, attributes: dict[str, str]) -> bool:
        if name == "phoneme":
            alphabet = attributes.get("alphabet", "ipa").strip().lower()
            if alphabet != "ipa":
                self._builder.ignore(f"<phoneme> in {alphabet[:40]}")
                return False
            if not attributes.get("ph", "").strip() or set(attributes["ph"]) & set("[]"):
                self._fail('<phoneme> needs its sounds in IPA: <phoneme alphabet="ipa" ph="təˈmɑːtəʊ">')
        elif name == "sub":
            if not attributes.get("alias", "").strip():
                self._fail('<sub> needs what is spoken: <sub alias="doctor">Dr.</sub>')
        else:
            kind = attributes.get("interpret-as", "").strip().lower()
            if kind not in SAY_AS:
                self._builder.ignore(f"<say-as> {kind[:40]}" if kind else "<say-as>")
                return False
        return True

    def _replacement(self, element: _Element, shown: str) -> str:
        attributes = element.attributes
        if element.name == "phoneme":
            return f"[[{' '.join(attributes['ph'].split())}]]"
        if element.name == "sub":
            return " ".join(attributes["alias"].split())
        kind = attributes["interpret-as"].strip().lower()
        spoken = say_as(shown, kind, attributes.get("format", ""), self._builder.style.language)
        if spoken is None:
            self._builder.ignore(f"<say-as> {kind} of '{' '.join(shown.split())[:20]}'")
            return shown
        return spoken

    def _break(self, attributes: dict[str, str]) -> float:
        if "time" in attributes:
            match = _TIME.fullmatch(attributes["time"].strip())
            seconds = float(match[1]) / (1000 if match[2] == "ms" else 1) if match else -1.0
            if not 0 <= seconds <= LONGEST_PAUSE:
                self._wrong("break", "time", attributes["time"], f"500ms or 1.5s, at most {LONGEST_PAUSE:g}s")
            return seconds
        strength = attributes.get("strength", "medium").strip()
        if strength not in BREAKS:
            self._wrong("break", "strength", strength, ", ".join(BREAKS))
        return BREAKS[strength]

    def _relative(
        self,
        attributes: dict[str, str],
        name: str,
        now: float,
        names: dict[str, float],
        read: Callable[[re.Match[str], float], float | None],
    ) -> float:
        """The value of a prosody attribute, given what holds around it."""
        written = attributes.get(name)
        if written is None:
            return now
        if written.strip() in names:
            return names[written.strip()]
        match = _NUMBER.fullmatch(written.strip())
        value = read(match, now) if match else None
        if value is None:
            example = "80%, +20%" if name == "rate" else "+6dB, 50"
            self._wrong("prosody", name, written, f"{', '.join(names)}, or {example}")
        return value

    def _wrong(self, tag: str, name: str, value: str, good: str) -> NoReturn:
        self._fail(f'{name}="{value[:40]}" of <{tag}>: it can be {good}')


def _rate(match: re.Match[str], now: float) -> float | None:
    """`80%` of the usual rate, `+20%` of the present one, `1.2` times the usual one."""
    sign, number, unit = match[1], float(match[2]), match[3]
    if unit == "dB" or (sign and unit != "%"):
        return None
    rate = number / 100 if unit == "%" else number
    rate = now * (1 + (rate if sign == "+" else -rate)) if sign else rate
    return rate if rate > 0 else None


def _gain(match: re.Match[str], now: float) -> float | None:
    """`+6dB` or `+50%` of the present volume, 0 to 100 of the usual one."""
    sign, number, unit = match[1], float(match[2]), match[3]
    signed = -number if sign == "-" else number
    if unit == "dB":
        return float(now * 10 ** (min(signed, 40.0) / 20))
    if sign:
        return max(0.0, now * (1 + signed / 100))
    return number / 100 if number <= 100 else None
