"""A headless Chromium, driven over its debugging pipe (Chrome DevTools Protocol, file descriptors 3
and 4): no driver, no port.
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

LIMIT_S = 60.0
_PRESSES, _HEARD_S = 3, 5.0
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
    # Nothing but loopback is even looked up, whatever the browser wants for itself.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)


_KEYS = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}
# Where to press an element: in the middle of its first line, if it is what one touches there.
_PLACE = """(() => {
  const found = %s;
  if (!found) return "there is no such thing on the page";
  found.scrollIntoView({block: "center", inline: "nearest"});
  const box = found.getClientRects()[0];
  if (!box) return "it is not shown";
  const at = [box.left + box.width / 2, box.top + box.height / 2];
  const there = document.elementFromPoint(...at);
  return found.contains(there) ? at : `something else lies there: ${there?.outerHTML.slice(0, 200)}`;
})()"""


class Browser:
    """One page of one browser.

    Of what happened since they were last cleared: `asked`, the URL of every request of pages;
    `fonts`, those that asked for a font; `errors`, what the console and the browser complained of;
    `shifts`, by how much things moved that nobody had touched.
    """

    def __init__(self, commands: int, events: int) -> None:
        self._commands = commands
        self._events = events
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._loads = 0
        self._loaded: set[str] = set()  # the loaders of those pages
        self._documents = 0  # that were asked for
        self._session = ""
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.fonts: list[str] = []
        self.shifts: list[float] = []
        self._taken: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Page.setLifecycleEventsEnabled", enabled=True)
        self._call("PerformanceTimeline.enable", eventTypes=["layout-shift"])

    def open(self, url: str) -> None:
        """Go to a URL and wait until it has loaded."""
        before = self._loads
        answer = self._call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        if "loaderId" not in answer:  # the same document, another part of it
            self._wait_for_load(before)
            return
        # not any page: the one before may just have been coming again by itself
        self._read_until(lambda: answer["loaderId"] in self._loaded)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, or of its promise; not bound by the page's
        Content Security Policy.
        """
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """Wait until an expression is true, on whatever page is there by then, and give its
        value.
        """
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._send(
                "Runtime.evaluate",
                {"expression": expression, "returnByValue": True, "awaitPromise": True},
            )
            # nothing, while one page gives way to another
            value = answer.get("result", {}).get("result", {}).get("value")
            if value:
                return value
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.03)

    @property
    def loads(self) -> int:
        """Pages that have loaded so far."""
        self.evaluate("0")
        return self._loads

    def click(self, find: str) -> None:
        """Press the element that an expression gives, as a finger does: it must be in sight, and
        nothing over it.
        """
        place = self.evaluate(_PLACE % find)
        assert not isinstance(place, str), f"{find}: {place}"
        for kind in ("mousePressed", "mouseReleased"):
            self._call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    def follow(self, find: str) -> None:
        """Press what leads to another page, and wait until that has loaded. Where nobody heard it,
        it is pressed again: for a moment after a page has come, a frame that is another process may
        take what falls where one was before.
        """
        before, asked = self._loads, self._documents
        for _ in range(_PRESSES):
            self.click(find)
            until = time.monotonic() + _HEARD_S
            while self._documents == asked and self._comes(until):
                pass
            if self._documents > asked:
                break
        self._wait_for_load(before)

    def take(self, find: str, folder: Path) -> Path:
        """Press what gives a file, and wait until it lies in the folder."""
        behaviour = {"behavior": "allow", "downloadPath": str(folder), "eventsEnabled": True}
        assert "error" not in self._send("Browser.setDownloadBehavior", behaviour, whole=True)
        self._taken = None
        self.click(find)
        self._read_until(lambda: self._taken)
        return Path(str(self._taken))

    def forget(self, origin: str) -> None:
        """Drop the cookies and what a site has stored."""
        self._call("Network.clearBrowserCookies")
        self._call("Storage.clearDataForOrigin", origin=origin, storageTypes="local_storage")

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the window's size in CSS pixels and the preferred colour scheme."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def scripts(self, *, allowed: bool) -> None:
        """Whether pages that are opened from now on may run scripts."""
        self._call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def type_text(self, text: str) -> None:
        """Type into what has the focus."""
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
        """The window as PNG."""
        return base64.b64decode(
            self._call("Page.captureScreenshot", format="png", optimizeForSpeed=True)["data"]
        )

    def _wait_for_load(self, before: int) -> None:
        self._read_until(lambda: self._loads != before)

    def _read_until(self, reached: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not reached():
            self._read(deadline)

    def _comes(self, until: float) -> bool:
        """Take the next message if it comes by then."""
        if (
            b"\0" not in self._buffer
            and not select.select([self._events], [], [], max(0.0, until - time.monotonic()))[0]
        ):
            return False
        self._read(time.monotonic() + LIMIT_S)
        return True

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        answer = self._send(method, parameters)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _send(
        self, method: str, parameters: Mapping[str, object], *, whole: bool = False
    ) -> dict[str, Any]:
        """Have the page, or the browser as a whole, do something; its answer."""
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session and not whole:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == number:
                return answer

    def _read(self, deadline: float) -> dict[str, Any]:
        """The next message; events are noted."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select(
                [self._events], [], [], max(0.0, deadline - time.monotonic())
            )
            assert ready, f"the browser said nothing for {LIMIT_S:.0f} s"
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
                self.asked.append(message["params"]["request"]["url"])
                kind = message["params"].get("type")
                self._documents += kind == "Document"
                if kind == "Font":
                    self.fonts.append(message["params"]["request"]["url"])
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
                    self.shifts.append(float(shift.get("value", 0)))
            case "Browser.downloadProgress" if message["params"]["state"] == "completed":
                self._taken = str(message["params"]["filePath"])
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in `folder`; skips the test, by name, where there is no
    Chromium.
    """
    program = require_program("chromium")
    flags = [
        *FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    their_commands, our_commands = os.pipe()
    our_events, their_events = os.pipe()
    line = (
        f"exec {shlex.join([program, *flags, 'about:blank'])} 3<&{their_commands} 4>&{their_events}"
    )
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/bash", "-c", line],
            pass_fds=(their_commands, their_events),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.close(their_commands)
    os.close(their_events)
    try:
        yield Browser(our_commands, our_events)
    finally:
        os.close(our_commands)  # the browser ends when its pipe does
        os.close(our_events)
        try:
            process.wait(timeout=15)
        finally:
            process.kill()
            process.wait()
