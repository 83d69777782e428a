"""Adapts the documents to the site that `mkdocs build` makes; on GitHub they are read as they are.

- README.md and README.fa.md become the front pages, and the other documents outside docs/ pages.
- Links are written for the repository, and lead to the same documents on the site.
- Persian pages run from right to left, in a theme that speaks Persian, and list only Persian pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Documents outside docs/, by where they stand in the repository and on the site.
OUTSIDE = {
    "README.md": "index.md",
    "README.fa.md": "fa/index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "myxtts/text/persian_reading/NOTICE.md": "persian-sources.md",
}
PERSIAN = "fa/"

_LINK = re.compile(r"(\]\()([^()\s:#]+)((?:#[^()\s]*)?\))")
_FENCE = re.compile(r"^(```+).*?^\1 *$", re.MULTILINE | re.DOTALL)
_WHOLE_DIV = re.compile(r'\A<div dir="rtl">\n(.*)\n</div>\s*\Z', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if is_persian(page):
        # The page itself runs from right to left; a div around all of it would hide its title.
        markdown = _WHOLE_DIV.sub(r"\1", markdown)
        markdown = re.sub(r'^<div dir="(rtl|ltr)">$', r'<div dir="\1" markdown>', markdown, flags=re.MULTILINE)
    return adapt_links(markdown, page.file.src_uri)


def adapt_links(markdown: str, page: str) -> str:
    """Links between places in the repository as links between pages of the site."""
    repository = {page: source for source, page in OUTSIDE.items()}
    folder = posixpath.dirname(repository.get(page, f"docs/{page}"))

    def adapt(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        target = OUTSIDE.get(target, target.removeprefix("docs/"))
        return match[1] + posixpath.relpath(target, posixpath.dirname(page) or ".") + match[3]

    pieces, end = [], 0
    for fence in _FENCE.finditer(markdown):
        pieces += [_LINK.sub(adapt, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*pieces, _LINK.sub(adapt, markdown[end:])])


def on_page_context(context: dict[str, Any], page: Page, config: MkDocsConfig, nav: Navigation) -> dict[str, Any]:
    persian = is_persian(page)
    config.theme["language"], config.theme["direction"] = ("fa", "rtl") if persian else ("en", "ltr")
    sections = [item for item in nav.items if isinstance(item, Section) and _is_persian_section(item)]
    items = sections[0].children if persian else [item for item in nav.items if item not in sections]
    pages = [one for one in nav.pages if is_persian(one) == persian]
    context["nav"] = Navigation(items, pages)
    context["nav"].homepage = pages[0]
    return context


def is_persian(page: Page) -> bool:
    return page.file.src_uri.startswith(PERSIAN)


def _is_persian_section(section: Section) -> bool:
    return all(isinstance(child, Page) and is_persian(child) for child in section.children)
