"""Headless Chromium, driven by ChromeDriver over its own HTTP interface (https://www.w3.org/TR/webdriver2/)."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Seconds after which something will not come any more.
PATIENCE = 120
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
)


class Browser:
    """One window.

    Args:
        driver: address of ChromeDriver.
        folder: for what the browser keeps.
    """

    def __init__(self, driver: str, folder: Path) -> None:
        self._driver = driver
        options = {"args": [*OPTIONS, f"--user-data-dir={folder}"], "binary": shutil.which("chromium")}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"
        self._send("POST", f"{self._session}/timeouts", {"script": 60_000})

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._driver + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)["value"]

    def open(self, url: str) -> None:
        self._send("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a function returns, in the page; awaits promises."""
        return self._send("POST", f"{self._session}/execute/sync", {"script": script, "args": arguments})

    def wait(self, expression: str) -> Any:
        """The value of an expression in the page, as soon as it is true."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run(f"return {expression}")):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)
        return value

    def type(self, selector: str, text: str) -> None:
        """Types into a field, or gives a file to it."""
        found = self._send("POST", f"{self._session}/element", {"using": "css selector", "value": selector})
        self._send("POST", f"{self._session}/element/{found[ELEMENT]}/value", {"text": text})

    def resize(self, width: int, height: int) -> None:
        self._send("POST", f"{self._session}/window/rect", {"width": width, "height": height})

    def complaints(self) -> list[str]:
        """What the console shows of warnings and errors since it was asked last."""
        entries = self._send("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]

    def close(self) -> None:
        self._send("DELETE", self._session)


@contextlib.contextmanager
def opened_browser(folder: Path) -> Iterator[Browser]:
    """A browser; skips the test where there is none."""
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        pytest.skip("needs chromium and chromedriver")
    command = ["chromedriver", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            port = next(line.split()[-1].rstrip(".") for line in process.stdout if "started successfully" in line)
            browser = Browser(f"http://127.0.0.1:{port}", folder)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            process.terminate()
