"""One self-contained HTML page: it fetches nothing, runs no script, and suits phones, light and dark mode.

```python
from myxtts.reports.page import image, page, section, sound, table

html = page(
    "How the voice does",
    [
        section("Summary", table(["figure", "value"], [["retrieval", "96.7 %"]], numeric=[1])),
        section("Sentence 1", image(png, "mel of sentence 1"), sound(wav, "generated")),
    ],
    lead="30 held-out sentences",
)
Path("report.html").write_text(html, encoding="utf-8")
```

Everything that takes plain text escapes it. `page` and `section` take HTML: what the functions here return, or an
inline `<svg>`. Its colours can be the page's own: `var(--ink)`, `var(--faint)`, `var(--line)`, `var(--panel)`,
`var(--accent)`, `var(--good)`, `var(--warn)`, `var(--bad)`.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Collection, Iterable, Sequence

_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --panel: #f5f6f8; --ink: #1c2330; --faint: #5d6779;
  --line: #d9dde4; --accent: #2459c4; --good: #1d7a46; --warn: #96600a; --bad: #b3322a; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --panel: #1d2229; --ink: #e4e8ee; --faint: #9aa5b5;
  --line: #343b46; --accent: #7aa5f8; --good: #62c48d; --warn: #dca750; --bad: #ee8479; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; line-height: 1.35; margin: 0 0 .75rem; overflow-wrap: anywhere; }
p { margin: 0 0 .75rem; overflow-wrap: anywhere; }
.lead, .note, figcaption { color: var(--faint); }
.note, figcaption { font-size: .875rem; }
section { margin-top: 2rem; padding-top: 1.25rem; border-top: 1px solid var(--line); }
.wide { overflow-x: auto; margin-bottom: .75rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .9rem .35rem 0; text-align: start; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 500; font-size: .875rem; }
.number { text-align: right; white-space: nowrap; }
figure { margin: 0; min-width: 0; }
img, svg { display: block; width: 100%; height: auto; border-radius: 4px; }
audio { display: block; width: 100%; margin: .4rem 0 0; }
.row { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
"""


def page(title: str, sections: Iterable[str], *, lead: str = "") -> str:
    """A whole page, whose own words are English; the direction of other texts is detected by the browser.

    Args:
        title: plain text, of the window and of the heading.
        sections: HTML, as `section` makes it.
        lead: plain text under the heading.
    """
    introduction = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1 dir="auto">{escape(title)}</h1>\n{introduction}\n'
        + "\n".join(sections)
        + "\n</main>\n</body>\n</html>\n"
    )


def section(heading: str, *parts: str) -> str:
    """A part of the page: a heading in plain text, then HTML."""
    return f'<section>\n<h2 dir="auto">{escape(heading)}</h2>\n' + "\n".join(parts) + "\n</section>"


def paragraph(text: str, note: bool = False) -> str:
    """A paragraph of plain text; as a note smaller and fainter."""
    return f'<p{" class=note" if note else ""} dir="auto">{escape(text)}</p>'


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numeric: Collection[int] = ()) -> str:
    """A table of plain text; one that is wider than the screen scrolls.

    Args:
        columns: headings.
        rows: as many values each.
        numeric: positions of the columns that are aligned right.
    """

    def cells(kind: str, values: Sequence[object]) -> str:
        return "".join(
            f"<{kind}{' class=number' if position in numeric else ' dir=auto'}>{escape(value)}</{kind}>"
            for position, value in enumerate(values)
        )

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', columns)}</tr></thead>"
    return f'<div class="wide"><table>\n{head}\n<tbody>\n{body}\n</tbody>\n</table></div>'


def row(*parts: str) -> str:
    """HTML side by side, or stacked on a narrow screen."""
    return f'<div class="row">{"".join(parts)}</div>'


def figure(caption: str, *parts: str) -> str:
    """Pictures and players under one caption in plain text."""
    return f"<figure><figcaption>{escape(caption)}</figcaption>{''.join(parts)}</figure>"


def image(png: bytes, description: str, *, ratio: float | None = None) -> str:
    """A PNG inside the page, as wide as the page allows.

    Args:
        png: the file.
        description: for people who cannot see it.
        ratio: width over height that the picture is stretched to; none: its own.
    """
    shape = f' style="aspect-ratio: {ratio:g}"' if ratio else ""
    return f'<img alt="{escape(description)}"{shape} src="data:image/png;base64,{_base64(png)}">'


def sound(wav: bytes, description: str) -> str:
    """A WAV file inside the page, with a player."""
    source = f"data:audio/wav;base64,{_base64(wav)}"
    return f'<audio controls preload="metadata" aria-label="{escape(description)}" src="{source}"></audio>'


def escape(text: object) -> str:
    """Any value as escaped text, for use between tags and in attributes."""
    return html.escape(str(text), quote=True)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
