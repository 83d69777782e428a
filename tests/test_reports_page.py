"""The shared skeleton of HTML reports: well-formed, escaped, and fetching nothing."""

from __future__ import annotations

import base64
from html.parser import HTMLParser

from myxtts.reports.page import figure, image, page, paragraph, row, section, sound, table

HOSTILE = "</title><script>alert('\"&')</script>"
VOID = {"meta", "img"}


class _Outline(HTMLParser):
    """The elements of a page; closing one that is not open is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def whole() -> str:
    parts = [
        paragraph(HOSTILE, note=True),
        table(["a", HOSTILE], [[HOSTILE, 1]], numeric=[1]),
        row(figure(HOSTILE, image(b"png", HOSTILE), sound(b"wav", HOSTILE))),
    ]
    return page(HOSTILE, [section(HOSTILE, *parts)], lead=HOSTILE)


def test_every_element_is_closed() -> None:
    assert _Outline(whole()).open == []


def test_plain_text_is_never_html() -> None:
    outline = _Outline(whole())
    assert "script" not in {tag for tag, _ in outline.elements}
    assert outline.text.count(HOSTILE) == 8
    assert [values["alt"] for tag, values in outline.elements if tag == "img"] == [HOSTILE]


def test_nothing_is_fetched_from_outside() -> None:
    sources = [values.get("src") or values.get("href") for _, values in _Outline(whole()).elements]
    given = [source for source in sources if source]
    assert len(given) == 2
    assert all(source.startswith("data:") for source in given)
    assert "default-src 'none'" in whole()


def test_pictures_and_sounds_are_in_the_page() -> None:
    assert f"data:image/png;base64,{base64.b64encode(b'png').decode()}" in whole()
    assert f"data:audio/wav;base64,{base64.b64encode(b'wav').decode()}" in whole()


def test_texts_of_any_language_find_their_direction() -> None:
    text = "سلام دنیا"
    outline = _Outline(page("Report", [section(text, paragraph(text), table(["text"], [[text]]))]))
    assert [tag for tag, values in outline.elements if values.get("dir") == "auto"] == ["h1", "h2", "p", "th", "td"]
