"""Chromium as an isolated child process.

It communicates only with this process. It is controlled over two pipes (DevTools protocol, messages
ended by a zero byte), so no port is open. It has no network of its own: every name fails to
resolve, all traffic is directed to a proxy with such a name, and WebRTC may use nothing else.
Resources of a page are passed through the pipes. When this process dies, the pipes close, and the
browser ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lycosa.core.errors import ConfigError, WorkError
from lycosa.processes.platform import group_memory, process_exists

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")

Message = dict[str, Any]
"""One message of the DevTools protocol; its fields are Chromium's."""

_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-dev-shm-usage",
    "--disable-notifications",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillSer"
    "verCommunication,NetworkTimeServiceQuerying",
    "--disable-backgrounding-occluded-windows",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-pings",
    "--password-store=basic",
    "--blink-settings=imagesEnabled=false",
    "--renderer-process-limit=8",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=http://nowhere.invalid:9",
    "--proxy-bypass-list=<-loopback>",
    "about:blank",
)
_ENVIRONMENT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "FONTCONFIG_FILE",
    "FONTCONFIG_PATH",
)
_FOLDER = "lycosa-browser-"
_READ_FD, _WRITE_FD = 3, 4  # file descriptors of Chromium's pipes
_ABOVE = 10
_PIECE = 1 << 20
_MAX_UNSENT = 256 * 2**20
_END_S = 2.0


def find_browser(configured: str, *, sandbox: bool) -> str:
    """Return the browser program.

    Raises:
        ConfigError: there is no browser, or it cannot use its sandbox.
    """
    if sandbox and os.geteuid() == 0:
        raise ConfigError(
            "render.sandbox: Chromium's sandbox does not work as root; run Lycosa as another "
            "user, or set render.sandbox to false "
            "(scripts of web pages then run without a sandbox)"
        )
    for name in (configured,) if configured else NAMES:
        path = shutil.which(name)
        if path:
            return path
    raise ConfigError(
        f"render.browser: {configured or 'no Chromium'} "
        f"{'is not a program' if configured else 'was found'}; rendering pages needs one: "
        "apt-get install chromium, or set collection.render to never"
    )


class BrowserProcess:
    """One Chromium process with an empty profile in a temporary folder.

    Not thread-safe.
    """

    def __init__(self, program: str, *, largest_message: int, sandbox: bool = True) -> None:
        """
        Raises:
            WorkError: the program cannot be started.
        """
        _sweep_folders()
        self._largest = largest_message
        self._folder = tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-")
        self.pid = 0
        to_read, self._output = os.pipe()
        self._input, to_write = os.pipe()
        high = [
            fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
            for descriptor in (to_read, to_write)
        ]
        arguments = [program, *_FLAGS[:-1], f"--user-data-dir={self._folder}"]
        if not sandbox:
            arguments.append("--no-sandbox")
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (0, 1, 2)]
        actions += [
            (os.POSIX_SPAWN_DUP2, high[0], _READ_FD),
            (os.POSIX_SPAWN_DUP2, high[1], _WRITE_FD),
        ]
        try:
            self.pid = os.posix_spawn(
                program,
                [*arguments, _FLAGS[-1]],
                _environment(self._folder),
                file_actions=actions,
                setpgroup=0,
            )
        except OSError as error:
            os.close(self._input)
            os.close(self._output)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise WorkError(f"{program} cannot be started: {error.strerror}") from error
        finally:
            for descriptor in (to_read, to_write, null, *high):
                os.close(descriptor)
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        self._received = bytearray()
        self._unsent = bytearray()
        self._searched = 0
        self.broken = False

    def send(self, message: Message) -> None:
        """Send a message; the part that the pipe does not accept is sent by the next call."""
        self._unsent += json.dumps(message, ensure_ascii=True).encode() + b"\0"
        if len(self._unsent) > _MAX_UNSENT:
            self.broken = True
        self.flush()

    def flush(self) -> None:
        """Send as many of the unsent bytes as the pipe accepts."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self._output, memoryview(self._unsent)[:_PIECE])]
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True

    def receive(self) -> list[Message]:
        """Return the received messages.

        Sets `broken` if the browser has ended, or if a message is too large.
        """
        self.flush()
        try:
            while piece := os.read(self._input, _PIECE):
                self._received += piece
                if len(self._received) > self._largest + _PIECE:
                    break
            else:
                self.broken = True
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True
        messages = []
        while (end := self._received.find(b"\0", self._searched)) >= 0:
            messages.append(json.loads(bytes(self._received[:end])))
            del self._received[: end + 1]
            self._searched = 0
        self._searched = len(self._received)
        if len(self._received) > self._largest:
            self.broken = True
        return messages

    def memory(self) -> int:
        """Return the memory of the browser's processes in bytes."""
        return group_memory(self.pid)

    def close(self) -> None:
        """End the browser with all its processes, and remove its folder."""
        if not self.pid:
            return
        for descriptor in (self._input, self._output):
            os.close(descriptor)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            with suppress(ChildProcessError):
                if os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                    time.sleep(0.005)
                    continue
            break
        self.pid = 0
        self.broken = True
        shutil.rmtree(self._folder, ignore_errors=True)


def _environment(folder: str) -> dict[str, str]:
    """Return the environment variables that the browser needs.

    Others may contain passwords.
    """
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return environment | {"HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder}


def _sweep_folders() -> None:
    """Remove the profiles of workers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        with suppress(OSError, ValueError):
            owner = int(folder.name.removeprefix(_FOLDER).partition("-")[0])
            if folder.stat().st_uid == os.geteuid() and not process_exists(owner):
                shutil.rmtree(folder, ignore_errors=True)
