"""The page in a real browser: it speaks, words light up, a recording becomes a voice. Skipped without Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
import soundfile
from browser import Browser, opened_browser
from running_server import RunningServer, running_server
from tone_speaker import RATE

from myxtts.serving.access import Access

TOKEN = "0123456789abcdef-token"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened_browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(window: Browser, server: RunningServer) -> Iterator[Browser]:
    """The page, loaded; no test may leave a complaint in its console."""
    window.resize(1000, 900)
    window.open(server.url)
    window.wait("about")
    yield window
    assert window.complaints() == []


def status(browser: Browser) -> str:
    return browser.run("return document.getElementById('status').textContent")


def click(browser: Browser, name: str) -> None:
    browser.run("document.getElementById(arguments[0]).click()", name)


def choose_language(browser: Browser, code: str) -> None:
    browser.run(
        "const list = document.getElementById('language'); list.value = arguments[0];"
        "list.dispatchEvent(new Event('change'))",
        code,
    )


def test_the_page_loads_nothing_else_and_may_not(server: RunningServer) -> None:
    answer = httpx.get(server.url)
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert policy["frame-ancestors"] == "'none'"
    assert re.findall(r"""(?:src|href)=["'](?!data:)[^"']+""", answer.text) == []
    assert "http:" not in answer.text
    assert "https:" not in answer.text


def test_every_field_has_a_label(server: RunningServer) -> None:
    html = httpx.get(server.url).text
    fields = re.findall(r"<(?:input|select|textarea|canvas)\b[^>]*>", html)
    assert len(fields) >= 8
    for field in fields:
        name = re.search(r'id="([^"]+)"', field)
        assert name is not None
        assert "aria-label" in field or f'for="{name[1]}"' in html, field


def test_text_is_spoken_and_its_words_light_up(browser: Browser, server: RunningServer) -> None:
    # ChromeDriver cannot type what UTF-16 writes in two.
    browser.run("document.getElementById('text').value = arguments[0]", "Pay $3.50 for the 🎉 fox.")
    click(browser, "speak")
    assert browser.wait("document.querySelector('.lit')?.textContent") == "Pay"
    assert browser.wait("[...document.querySelectorAll('.lit')].some((word) => word.textContent === '$3.50')")
    browser.wait("speech.done")
    words = browser.run("return [...document.querySelectorAll('#spoken span')].map((word) => word.textContent)")
    assert words == ["Pay", "$3.50", "for", "the", "🎉", "fox"]
    assert browser.run("return document.getElementById('spoken').textContent") == "Pay $3.50 for the 🎉 fox."
    assert re.fullmatch(r"Ready: \d+\.\d s of speech\.", status(browser))
    seconds = browser.wait("document.getElementById('player').duration")
    assert seconds == pytest.approx(browser.run("return speech.seconds"), abs=0.01)
    drawn = "document.getElementById('mel').getContext('2d').getImageData(5, 5, 1, 1).data[3]"
    assert browser.run(f"return {drawn}") == 255
    assert browser.run("return document.getElementById('download').href").startswith("blob:")
    click(browser, "stop")


def test_a_word_lights_up_where_the_player_is(browser: Browser) -> None:
    browser.type("#text", "One two three.")
    click(browser, "speak")
    browser.wait("speech && speech.done")
    click(browser, "stop")
    browser.wait("document.getElementById('player').duration")
    browser.run("document.getElementById('player').currentTime = (speech.words[2].start + speech.words[2].end) / 2")
    assert browser.wait("document.querySelector('.lit')?.textContent") == "three"


def test_persian_runs_from_right_to_left(browser: Browser) -> None:
    choose_language(browser, "fa")
    browser.type("#text", "سلام دنیا.")
    click(browser, "speak")
    assert browser.wait("document.querySelector('.lit')?.textContent") == "سلام"
    direction = "getComputedStyle(document.getElementById(arguments[0])).direction"
    assert [browser.run(f"return {direction}", name) for name in ("text", "spoken")] == ["rtl", "rtl"]
    click(browser, "stop")


def test_a_file_becomes_a_voice(browser: Browser, server: RunningServer, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "me.flac", 0.3 * np.sin(np.arange(int(2.2 * RATE)) * 0.1), RATE)
    browser.type("#file", str(tmp_path / "me.flac"))
    browser.wait("document.getElementById('status').textContent.includes('is ready')")
    assert status(browser).startswith("The voice of me.flac is ready (2.2 s)")
    chosen = browser.run("return document.getElementById('voice').value")
    assert chosen.startswith("voice_")
    browser.type("#text", "Hello.")
    click(browser, "speak")
    browser.wait("speech && speech.done")
    click(browser, "stop")


def test_the_microphone_becomes_a_voice(browser: Browser) -> None:
    click(browser, "record")
    browser.wait("recorder && recorder.state === 'recording'")
    # A second, which is the least that a voice needs.
    browser.run("return new Promise((done) => setTimeout(done, 1500))")
    click(browser, "record")
    browser.wait("document.getElementById('status').textContent.includes('is ready')")
    assert browser.run("return document.getElementById('voice').value").startswith("voice_")


def test_what_is_wrong_is_said(browser: Browser, tmp_path: Path) -> None:
    browser.type("#text", "?!")
    click(browser, "speak")
    browser.wait("document.getElementById('status').classList.contains('bad')")
    assert "nothing" in status(browser) or "no text" in status(browser)
    (tmp_path / "a.wav").write_bytes(b"no sound")
    browser.type("#file", str(tmp_path / "a.wav"))
    browser.wait("document.getElementById('status').textContent.includes('cannot read')")
    # The browser itself complains of the 400.
    assert all("400" in message for message in browser.complaints())


def test_it_works_with_the_keyboard_and_fits_a_phone(browser: Browser) -> None:
    browser.resize(500, 800)
    browser.type("#text", "One.\ue009\ue007\ue000")  # Ctrl+Enter
    browser.wait("speech && speech.done")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    small = browser.run(
        "return [...document.querySelectorAll('button, select, textarea')].filter((one) => one.offsetParent !== null"
        " && one.getBoundingClientRect().height < 44).map((one) => one.id)"
    )
    assert small == []
    click(browser, "stop")


def test_a_guarded_server_asks_for_its_token(window: Browser) -> None:
    with running_server(Access(TOKEN)) as server:
        window.open(server.url)
        window.wait("!document.getElementById('token-field').hidden")
        window.type("#token", TOKEN + "\ue004")
        window.wait("about")
        window.type("#text", "One.")
        click(window, "speak")
        window.wait("speech && speech.done")
        click(window, "stop")
    window.complaints()
