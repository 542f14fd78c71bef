"""A headless Chromium, controlled by the Chrome DevTools Protocol over a pipe.

The pipe is file descriptors 3 and 4 of the browser: neither a driver nor a port is needed.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.system import require_program

TIMEOUT_S = 60.0
_CLICK_ATTEMPTS, _CLICK_TIMEOUT_S = 3, 5.0
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    # Prevents the browser's own background requests: only loopback is resolved.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)

_KEYS = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}
# Returns the centre of the first line box of an element, or why it cannot be clicked there.
_CLICK_POINT = """(() => {
  const element = %s;
  if (!element) return "the element does not exist";
  element.scrollIntoView({block: "center", inline: "nearest"});
  const box = element.getClientRects()[0];
  if (!box) return "the element is not shown";
  const point = [box.left + box.width / 2, box.top + box.height / 2];
  const top = document.elementFromPoint(...point);
  return element.contains(top) ? point : `the element is covered by ${top?.outerHTML.slice(0, 200)}`;
})()"""


class Browser:
    """One page of one browser.

    Events since the lists were last cleared:
        requests: URLs that pages requested.
        font_requests: those of `requests` that are fonts.
        errors: errors and warnings of the console and of the browser.
        layout_shifts: scores of layout shifts without user input.
    """

    def __init__(self, commands: int, events: int) -> None:
        self._commands = commands
        self._events = events
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._loads = 0
        self._loaded: set[str] = set()  # loader IDs of the loaded pages
        self._document_requests = 0
        self._session = ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.font_requests: list[str] = []
        self.layout_shifts: list[float] = []
        self._download: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Page.setLifecycleEventsEnabled", enabled=True)
        self._call("PerformanceTimeline.enable", eventTypes=["layout-shift"])

    def open(self, url: str) -> None:
        """Open a URL and wait until it has loaded."""
        before = self._loads
        answer = self._call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        if "loaderId" not in answer:  # a fragment of the same document
            self._wait_for_load(before)
            return
        # Not just any load event: the previous page may be reloading itself.
        self._read_until(lambda: answer["loaderId"] in self._loaded)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, or of its promise, in the page.

        The Content Security Policy of the page does not apply.
        """
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_until(self, expression: str) -> Any:
        """Wait until an expression is true; return its value."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._send(
                "Runtime.evaluate",
                {"expression": expression, "returnByValue": True, "awaitPromise": True},
            )
            # There is no result during navigation.
            value = answer.get("result", {}).get("result", {}).get("value")
            if value:
                return value
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.03)

    @property
    def loads(self) -> int:
        """Number of pages that have loaded so far."""
        self.evaluate("0")
        return self._loads

    def click(self, element: str) -> None:
        """Click the element that an expression returns.

        It must be visible and not covered by another element.
        """
        point = self.evaluate(_CLICK_POINT % element)
        assert not isinstance(point, str), f"{element}: {point}"
        for kind in ("mousePressed", "mouseReleased"):
            self._call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=point[0],
                y=point[1],
                button="left",
                clickCount=1,
            )

    def follow(self, element: str) -> None:
        """Click an element that opens another page; wait until it has loaded.

        A click without effect is repeated: shortly after a page has loaded, a frame in another
        process may receive clicks where an earlier frame was.
        """
        before, requests = self._loads, self._document_requests
        for _ in range(_CLICK_ATTEMPTS):
            self.click(element)
            deadline = time.monotonic() + _CLICK_TIMEOUT_S
            while self._document_requests == requests and self._read_by(deadline):
                pass
            if self._document_requests > requests:
                break
        self._wait_for_load(before)

    def download(self, element: str, folder: Path) -> Path:
        """Click a download link; return the path of the complete file."""
        behaviour = {"behavior": "allow", "downloadPath": str(folder), "eventsEnabled": True}
        assert "error" not in self._send("Browser.setDownloadBehavior", behaviour, to_browser=True)
        self._download = None
        self.click(element)
        self._read_until(lambda: self._download)
        return Path(str(self._download))

    def clear_site_data(self, origin: str) -> None:
        """Delete all cookies and the local storage of an origin."""
        self._call("Network.clearBrowserCookies")
        self._call("Storage.clearDataForOrigin", origin=origin, storageTypes="local_storage")

    def set_window(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the window size in CSS pixels and the preferred colour scheme."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def show_print(self) -> None:
        """Show pages as they are printed from a dark screen, until the next `set_window`."""
        scheme = {"name": "prefers-color-scheme", "value": "dark"}
        self._call("Emulation.setEmulatedMedia", media="print", features=[scheme])

    def allow_scripts(self, allowed: bool) -> None:
        """Allow or forbid scripts in pages that are opened from now on."""
        self._call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def type_text(self, text: str) -> None:
        """Type into the focused element."""
        self._call("Input.insertText", text=text)

    def key(self, name: str) -> None:
        """Press one key: a character, Enter, Escape, or an arrow."""
        text = "\r" if name == "Enter" else name if len(name) == 1 else ""
        code = _KEYS.get(name, ord(name[0].upper()))
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, text=text
            )

    def press_enter(self) -> None:
        """Press Enter and wait until the next page has loaded."""
        before = self._loads
        self.key("Enter")
        self._wait_for_load(before)

    def screenshot(self) -> bytes:
        """Return the window as a PNG image."""
        return base64.b64decode(
            self._call("Page.captureScreenshot", format="png", optimizeForSpeed=True)["data"]
        )

    def _wait_for_load(self, before: int) -> None:
        self._read_until(lambda: self._loads != before)

    def _read_until(self, reached: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not reached():
            self._read(deadline)

    def _read_by(self, deadline: float) -> bool:
        """Read the next message; return False if none arrives in time."""
        if (
            b"\0" not in self._buffer
            and not select.select([self._events], [], [], max(0.0, deadline - time.monotonic()))[0]
        ):
            return False
        self._read(time.monotonic() + TIMEOUT_S)
        return True

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        answer = self._send(method, parameters)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _send(
        self, method: str, parameters: Mapping[str, object], *, to_browser: bool = False
    ) -> dict[str, Any]:
        """Send a command to the page or to the browser; return the response."""
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session and not to_browser:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == number:
                return answer

    def _read(self, deadline: float) -> dict[str, Any]:
        """Read the next message and record it if it is an event."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select(
                [self._events], [], [], max(0.0, deadline - time.monotonic())
            )
            assert ready, f"the browser sent nothing for {TIMEOUT_S:.0f} s"
            piece = os.read(self._events, 1 << 16)
            assert piece, "the browser ended"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        match message.get("method"):
            case "Page.loadEventFired":
                self._loads += 1
            case "Page.lifecycleEvent" if message["params"]["name"] == "load":
                self._loaded.add(message["params"]["loaderId"])
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
                kind = message["params"].get("type")
                self._document_requests += kind == "Document"
                if kind == "Font":
                    self.font_requests.append(message["params"]["request"]["url"])
            case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if message["params"]["type"] in (
                "error",
                "warning",
                "assert",
            ):
                self.errors.append(str(message["params"]["args"]))
            case "PerformanceTimeline.timelineEventAdded":
                shift = message["params"]["event"].get("layoutShiftDetails", {})
                if not shift.get("hadRecentInput"):
                    self.layout_shifts.append(float(shift.get("value", 0)))
            case "Browser.downloadProgress" if message["params"]["state"] == "completed":
                self._download = str(message["params"]["filePath"])
        return message


@contextmanager
def launch_browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile, or skip the test."""
    program = require_program("chromium")
    flags = [
        *FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    command_reader, command_writer = os.pipe()
    event_reader, event_writer = os.pipe()
    line = (
        f"exec {shlex.join([program, *flags, 'about:blank'])} 3<&{command_reader} 4>&{event_writer}"
    )
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/bash", "-c", line],
            pass_fds=(command_reader, event_writer),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.close(command_reader)
    os.close(event_writer)
    try:
        yield Browser(command_writer, event_reader)
    finally:
        os.close(command_writer)  # the browser ends when its pipe does
        os.close(event_reader)
        try:
            process.wait(timeout=15)
        finally:
            process.kill()
            process.wait()
