"""A headless Chromium, driven over its debugging pipe (Chrome DevTools Protocol, file descriptors 3 and 4): no driver, no port."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.system import require_program

LIMIT_S = 60.0
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


class Browser:
    """One page of one browser. `asked` holds the URL of every request that pages made since it was last cleared."""

    def __init__(self, commands: int, events: int) -> None:
        self._commands = commands
        self._events = events
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._loads = 0
        self._session = ""
        self.asked: list[str] = []
        self.errors: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Go to a URL and wait until it has loaded."""
        before = self._loads
        answer = self._call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self._wait_for_load(before)

    def does(self, script: str) -> None:
        """Run a script that leads to another page, and wait until that has loaded."""
        before = self._loads
        self.evaluate(script)
        self._wait_for_load(before)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, or of its promise; not bound by the page's Content Security Policy."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the window's size in CSS pixels and the preferred colour scheme."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def scripts(self, *, allowed: bool) -> None:
        """Whether pages that are opened from now on may run scripts."""
        self._call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def type_text(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    def press_enter(self) -> None:
        """Press Enter and wait until the next page has loaded."""
        before = self._loads
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
        self._wait_for_load(before)

    def screenshot(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def _wait_for_load(self, before: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self._loads == before:
            self._read(deadline)

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        deadline = time.monotonic() + LIMIT_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self, deadline: float) -> dict[str, Any]:
        """The next message; events are noted."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._events], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the browser said nothing for {LIMIT_S:.0f} s"
            piece = os.read(self._events, 1 << 16)
            assert piece, "the browser ended"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        match message.get("method"):
            case "Page.loadEventFired":
                self._loads += 1
            case "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
            case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"]["text"])
        return message


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in `folder`; skips the test, by name, where there is no Chromium."""
    program = require_program("chromium")
    flags = [*FLAGS, f"--user-data-dir={folder / 'profile'}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    their_commands, our_commands = os.pipe()
    our_events, their_events = os.pipe()
    line = f"exec {shlex.join([program, *flags, 'about:blank'])} 3<&{their_commands} 4>&{their_events}"
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/bash", "-c", line], pass_fds=(their_commands, their_events), stdout=log, stderr=log, start_new_session=True
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
