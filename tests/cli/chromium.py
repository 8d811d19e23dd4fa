"""A browser without a window that a test gives orders, by Chrome's DevTools protocol over two pipes."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def becomes(condition: str, seconds: int) -> str:
    """JavaScript that waits until a condition is true; undefined if it stays false so long."""
    turns = f"for (let i = 0; i < {seconds * 20}; ++i) {{ if ({condition}) return true; "
    waiting = "await new Promise(done => setTimeout(done, 50)); }"
    return f"(async () => {{ {turns} {waiting} }})()"


class Page:
    """A page of the browser."""

    def __init__(self, reading: int, writing: int):
        self._reading, self._writing, self._count, self._rest = reading, writing, 0, b""
        self.requests: list[str] = []
        """Addresses that were asked for."""
        self.errors: list[str] = []
        """What its scripts threw."""
        self._session: str | None = None
        target = self.order("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.order("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.order(f"{domain}.enable")

    def order(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            got = os.read(self._reading, 1 << 16)
            assert got, "the browser has ended"
            self._rest += got
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"]["exception"].get("description", "?"))
        return message

    def open(self, url: str) -> None:
        """Goes to an address."""
        self.order("Page.navigate", url=url)

    def phone(self) -> None:
        """Makes it 390 pixels wide."""
        size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        self.order("Emulation.setDeviceMetricsOverride", **size)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of the promise that it is."""
        answer = self.order("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition: str, seconds: int = 60) -> None:
        """Waits until an expression is true."""
        assert self.evaluate(becomes(condition, seconds)), condition


@contextlib.contextmanager
def browser_page(folder: pathlib.Path) -> Iterator[Page]:
    """An empty page. The test is skipped where there is no browser; `folder` takes its profile."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip(f"no browser is installed, looked for {', '.join(_NAMES)}")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder / 'profile'}",
        "--remote-debugging-pipe",
    ]  # fmt: skip
    (to_browser, writing), (reading, from_browser) = os.pipe(), os.pipe()

    def as_files_3_and_4() -> None:
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
        for number, end in enumerate(ends, 3):
            os.dup2(end, number)

    process = subprocess.Popen(
        command, preexec_fn=as_files_3_and_4, pass_fds=(3, 4), stderr=subprocess.DEVNULL
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(reading, writing)
    finally:
        process.kill()
        process.wait()
        os.close(writing)
        os.close(reading)
