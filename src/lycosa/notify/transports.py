"""Notifications and their transports: webhook, command, file.

A notification is a small JSON document. A target may get it twice after a crash, with the same
`id`. Webhooks are signed by Standard Webhooks 1.0 (https://www.standardwebhooks.com):
`webhook-id`, `webhook-timestamp`, `webhook-signature`.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import hmac
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, Protocol
from urllib.parse import urlsplit

from lycosa.config.settings import Config
from lycosa.core.clock import SystemClock
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import FetchError, LycosaError, UrlError, UsageError
from lycosa.core.records import Exchange, Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.guard import AddressGuard
from lycosa.http.decode import parse_head
from lycosa.http.fields import retry_after_s
from lycosa.url.normalise import normalise

Kind = Literal["match", "down", "up", "offline", "online", "certificate"]
Fact = str | int | float

_MAX_RESPONSE_BYTES = 64 * 1024  # maximum size of a webhook response
_MAX_EXCERPT = 300  # characters of a response that are quoted in an error
_PERMANENT_STATUSES = frozenset({400, 410, 413, 415, 422})
"""Statuses that refuse a notification permanently; all others are retried."""
_KINDS = "webhook URL, command PROGRAM …, or file PATH"


@dataclass(slots=True, frozen=True)
class Notice:
    """A notification. The same event always has the same `id`.

    `name`: of the watch or monitor; `text`: a sentence for people; `facts`: values for programs.
    """

    id: str
    kind: Kind
    name: str
    url: str
    at: datetime
    text: str
    facts: Mapping[str, Fact] = field(default_factory=lambda: MappingProxyType({}))

    def as_json(self) -> str:
        """Return the object as one line of JSON."""
        at = self.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        document = {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "url": self.url,
            "at": at,
            "text": self.text,
        }
        return json.dumps({**document, "facts": dict(self.facts)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Notice:
        """Parse the result of `as_json`. Raises ValueError, KeyError or TypeError."""
        document = json.loads(text)
        return cls(
            document["id"],
            document["kind"],
            document["name"],
            document["url"],
            datetime.fromisoformat(document["at"]),
            document["text"],
            document["facts"],
        )


class DeliveryError(LycosaError):
    """A delivery failed. `retry`: try again, after `wait_s` seconds at the earliest."""

    def __init__(self, message: str, retry: bool, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry = retry
        self.wait_s = wait_s


class Notifier(Protocol):
    """Sends notifications to one target. Not thread-safe."""

    def send(self, notice: Notice) -> None:
        """Deliver a notification. Raises DeliveryError if the target has not accepted it."""
        ...

    def close(self) -> None:
        """Close connections, if there are any."""
        return


def notifier_of(target: str, config: Config) -> Notifier:
    """Return the notifier for `webhook URL`, `command PROGRAM ARGUMENT…` (as a shell would split
    it, without a shell) or `file PATH`.

    Raises:
        UsageError: it is none of these, or a webhook on a private address
            that `notify.private` does not name.
    """
    kind, rest = _split(target)
    if kind == "webhook":
        return _Webhook(rest, config)
    if kind == "command":
        return _Command(shlex.split(rest), config)
    return _File(rest)


def checked_target(target: str, config: Config) -> str:
    """Return a target as it is stored, with an absolute path for files and programs.

    Raises:
        UsageError: as `notifier_of`; a program or the folder of a file does not exist.
    """
    kind, rest = _split(target)
    if kind == "command":
        program, *arguments = shlex.split(rest)
        document = shutil.which(program)
        if document is None:
            raise UsageError(f"there is no executable program {program!r}")
        rest = shlex.join([os.path.abspath(document), *arguments])
    elif kind == "file":
        rest = os.path.abspath(os.path.expanduser(rest))
        is_special = os.path.exists(rest) and not os.path.isfile(rest)
        if is_special or not os.path.isdir(os.path.dirname(rest)):
            raise UsageError(
                f"{rest} cannot be used as a file: its folder must exist, and it "
                "must not be a folder, pipe or device itself"
            )
    else:
        rest = _web_address(rest)
    target = f"{kind} {rest}"
    notifier_of(target, config).close()
    return target


def redacted_target(target: str) -> str:
    """Return a target for logs and the API: webhooks without path and query (maybe secret)."""
    kind, rest = _split(target)
    if kind != "webhook":
        return target
    parts = urlsplit(rest)
    hidden = "…" if len(parts.path) > 1 or parts.query else ""
    return f"webhook {parts.scheme}://{parts.netloc}/{hidden}"


def _split(target: str) -> tuple[str, str]:
    kind, _, rest = target.strip().partition(" ")
    rest = rest.strip()
    if (
        kind not in ("webhook", "command", "file")
        or not rest
        or any(ord(letter) < 32 for letter in rest)
    ):
        raise UsageError(f"{target!r} is not a notification target: write {_KINDS}")
    if kind == "command":
        try:
            shlex.split(rest)
        except ValueError as error:
            raise UsageError(
                f"{target!r} cannot be split into a program and its arguments: {error}"
            ) from None
    return kind, rest


def _web_address(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if scheme.lower() not in ("http", "https"):
        raise UsageError(f"{url!r} is not a webhook URL: write an http or https URL")
    if "@" in re.split(r"[/?#\\]", rest, maxsplit=1)[0]:
        raise UsageError(
            "a webhook URL must not contain a user name or password, because lists and logs show it"
        )
    try:
        return normalise(url)
    except UrlError as error:
        raise UsageError(str(error)) from None


class _Webhook(Notifier):
    """POSTs to one URL through the address guard, without following redirects."""

    def __init__(self, url: str, config: Config) -> None:
        self._url = _web_address(url)
        parts = urlsplit(self._url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        allowed = [
            (name, int(number))
            for name, _, number in (each.rpartition(":") for each in config.notify.private)
        ]
        guard = AddressGuard(allowed)
        if (
            (":" in host or host.rpartition(".")[2].isdigit())
            and not guard.permits(host, port, host)
            and not config.fetch.connect_to
        ):
            raise UsageError(
                f"{host}:{port} is not a public address: allow it with "
                f"notify.private = [{f'{host}:{port}'!r}]"
            )
        limit = config.notify.timeout
        settings = config.fetch.model_copy(
            update={
                "connections": 2,
                "connect_timeout": limit,
                "first_byte_timeout": limit,
                "total_timeout": limit,
                "max_body": _MAX_RESPONSE_BYTES,
                "other_schemes": False,
            }
        )
        self._limit_ms = limit
        self._secret = _secret(
            os.environ.get(config.notify.secret_env, ""), config.notify.secret_env
        )
        self._fetcher = CurlFetcher(settings, guard, SystemClock())

    def send(self, notice: Notice) -> None:
        body = notice.as_json().encode()
        stamp = str(int(time.time()))
        headers = [
            ("Content-Type", "application/json"),
            ("Accept", "*/*"),
            ("webhook-id", notice.id),
            ("webhook-timestamp", stamp),
        ]
        if self._secret:
            headers.append(("webhook-signature", signature(self._secret, notice.id, stamp, body)))
        self._fetcher.start(Request(self._url, headers=tuple(headers), form=body))
        exchanges: list[Exchange] = []
        while not exchanges:
            exchanges = self._fetcher.wait(self._limit_ms)
        _check_response(exchanges[0])

    def close(self) -> None:
        self._fetcher.close()


def _check_response(exchange: Exchange) -> None:
    status = exchange.status
    if 200 <= status < 300:  # the body of a success response is ignored, even if it is invalid
        return
    where = redacted_target(f"webhook {exchange.url}")
    if exchange.error == FetchError.ADDRESS_REFUSED:
        raise DeliveryError(
            f"{where} resolves to an address that is not public: allow it in notify.private",
            retry=True,
        )
    if not status:
        raise DeliveryError(
            f"{where} did not respond: {exchange.error} {exchange.error_text}".rstrip(), retry=True
        )
    if 300 <= status < 400:
        raise DeliveryError(
            f"{where} returned HTTP {status}: redirects are not followed, so "
            "configure the final URL",
            retry=True,
        )
    wait_s = retry_after_s(parse_head(exchange.response_head).get("retry-after"))
    raise DeliveryError(
        f"{where} returned HTTP {status}", retry=status not in _PERMANENT_STATUSES, wait_s=wait_s
    )


def signature(secret: bytes, id: str, stamp: str, body: bytes) -> str:
    """Return the `webhook-signature` of Standard Webhooks: version 1, HMAC-SHA256 over
    `id.stamp.body`, in base64.
    """
    digest = hmac.new(secret, f"{id}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def _secret(text: str, variable: str) -> bytes:
    if not text.startswith("whsec_"):
        return text.encode()
    try:
        return base64.b64decode(text[6:], validate=True)
    except binascii.Error:
        raise UsageError(
            f"environment variable {variable}: the text after whsec_ is not base64"
        ) from None


class _Command(Notifier):
    """Runs a program with the notification on standard input; exit code 0 accepts it."""

    def __init__(self, command: Sequence[str], config: Config) -> None:
        self._command = command
        self._limit_s = config.notify.timeout / 1000
        self._hidden = config.notify.secret_env

    def send(self, notice: Notice) -> None:
        environment = {name: value for name, value in os.environ.items() if name != self._hidden}
        # no pipe: background processes of the program could keep it open
        with tempfile.TemporaryFile() as stderr:
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    env=environment,
                    start_new_session=True,  # so that its child processes can be ended too
                )
            except OSError as error:
                raise DeliveryError(
                    f"{self._command[0]} could not be run: {error.strerror}", retry=True
                ) from None
            with process:
                try:
                    process.communicate(notice.as_json().encode() + b"\n", timeout=self._limit_s)
                except subprocess.TimeoutExpired:
                    _end_group(process)
                    raise DeliveryError(
                        f"{self._command[0]} did not exit within {self._limit_s:g} s", retry=True
                    ) from None
                except BaseException:
                    _end_group(process)
                    raise
            if process.returncode:
                stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _MAX_EXCERPT))
                excerpt = " ".join(stderr.read().decode(errors="replace").split())
                raise DeliveryError(
                    f"{self._command[0]} exited with code {process.returncode}"
                    + (f": {excerpt}" if excerpt else ""),
                    retry=True,
                )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


class _File(Notifier):
    """Appends one line of JSON, safe on disk when `send` returns."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(os.path.expanduser(path))

    def send(self, notice: Notice) -> None:
        try:
            descriptor = os.open(
                self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                end = os.lseek(descriptor, 0, os.SEEK_END)
                # ends a line that a kill has truncated
                torn = end > 0 and os.pread(descriptor, 1, end - 1) != b"\n"
                line = (b"\n" if torn else b"") + notice.as_json().encode() + b"\n"
                if os.write(descriptor, line) != len(line):
                    raise OSError(28, "the disk is full")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DeliveryError(
                f"{self._path} could not be written: {error.strerror}", retry=True
            ) from None
