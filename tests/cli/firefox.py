"""Firefox without a window that a test gives orders, by WebDriver BiDi; the page is used as that of chromium.py."""

import asyncio
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from chromium import becomes

_NAMES = ("firefox", "firefox-esr")
_LISTENS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
_SECONDS = 60


class Page:
    """A page of the browser."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: Any):
        self._loop, self._connection, self._count = loop, connection, 0
        self.requests: list[str] = []
        """Addresses that were asked for."""
        self.errors: list[str] = []
        """What its scripts threw."""
        self.order("session.new", capabilities={})
        self._context = self.order("browsingContext.getTree")["contexts"][0]["context"]
        events = ["network.beforeRequestSent", "log.entryAdded"]
        self.order("session.subscribe", events=events, contexts=[self._context])

    def order(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers."""
        self._count += 1
        message = json.dumps({"id": self._count, "method": method, "params": parameters})
        self._wait(self._connection.write_message, message)
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert answer["type"] == "success", answer
                return answer["result"]

    def _wait(self, start: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        async def result() -> Any:
            return await asyncio.wait_for(start(*arguments), timeout=5 * _SECONDS)

        return self._loop.run_until_complete(result())

    def _next(self) -> dict[str, Any]:
        text = self._wait(self._connection.read_message)
        assert text is not None, "the browser has ended"
        message = json.loads(text)
        if message.get("method") == "network.beforeRequestSent":
            self.requests.append(message["params"]["request"]["url"])
        if message.get("method") == "log.entryAdded" and message["params"]["type"] == "javascript":
            self.errors.append(str(message["params"]["text"]))
        return message

    def open(self, url: str) -> None:
        """Goes to an address."""
        self.order("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def phone(self) -> None:
        """Makes it 390 pixels wide."""
        size = {"width": 390, "height": 844}
        self.order("browsingContext.setViewport", context=self._context, viewport=size, devicePixelRatio=2)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, or of the promise that it is."""
        answer = self.order(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer
        text = answer["result"].get("value")
        return None if text is None else json.loads(text)

    def until(self, condition: str, seconds: int = _SECONDS) -> None:
        """Waits until an expression is true."""
        assert self.evaluate(becomes(condition, seconds)), condition


@contextlib.contextmanager
def firefox_page(folder: pathlib.Path) -> Iterator[Page]:
    """An empty page. The test is skipped where there is no Firefox; `folder` takes its profile."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip(f"no Firefox is installed, looked for {', '.join(_NAMES)}")
    websocket = pytest.importorskip(
        "tornado.websocket", reason="tornado, which dask brings, speaks to Firefox"
    )
    profile = folder / "profile"
    profile.mkdir()
    command = [
        browser,
        "--headless",
        "--no-remote",
        "--profile",
        str(profile),
        "--remote-debugging-port",
        "0",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    loop = asyncio.new_event_loop()
    try:
        assert process.stderr is not None
        found = next(filter(None, map(_LISTENS.search, process.stderr)), None)
        assert found is not None, "Firefox did not say where it listens"

        async def connect() -> Any:
            return await websocket.websocket_connect(f"{found[1]}/session", max_message_size=1 << 28)

        yield Page(loop, loop.run_until_complete(connect()))
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
