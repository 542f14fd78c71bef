"""Requests to a search cluster: one connection that is kept, bounded waits, retries, credentials
that are never shown.

What may pass is tried again: no connection, a broken or late answer, 408, 429, 500, 502, 503, 504.
Whether a request whose answer was lost has been carried out is not known, so whatever is sent must
be harmless twice.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lycosa.core.errors import UsageError, WorkError
from lycosa.http.fields import retry_after_s

AUTH_VARIABLE = "LYCOSA_BULK_AUTH"
"""The environment variable with the credentials: `user:password`, or a whole Authorization value
(`Bearer …`, `ApiKey …`).
"""

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_MAX_ANSWER = 256 * 2**20  # bytes: an answer holds some 200 for each of a request's documents
_MAX_TOLD = 300  # characters of an answer that go into a message


@dataclass(slots=True, frozen=True)
class Patience:
    """How long to try: `attempts` in a row without any success; waits doubled from `wait_s` to
    `most_wait_s`, half of each by chance.
    """

    attempts: int = 12
    wait_s: float = 0.5
    most_wait_s: float = 60.0
    timeout_s: float = 120.0


@dataclass(slots=True, frozen=True)
class BulkResponse:
    """A whole answer that is none to try again."""

    status: int
    content: bytes

    def document(self) -> dict[str, Any] | None:
        """Its JSON object; None if it is none: a proxy's page, an answer that was cut."""
        try:
            found = json.loads(self.content)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    @property
    def excerpt(self) -> str:
        """The beginning, for a message."""
        text = " ".join(self.content.decode(errors="replace").split())
        return text[:_MAX_TOLD] + ("…" if len(text) > _MAX_TOLD else "")


class Waiting:
    """How often in a row nothing went forward, and how long to wait then. `say` is told of each
    wait.
    """

    def __init__(
        self,
        patience: Patience,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._patience = patience
        self._say = say
        self._sleep = sleep
        self._failures = 0

    def success(self) -> None:
        self._failures = 0

    def failed(self, why: str, asked_s: float = 0.0) -> None:
        """Wait before the next attempt, at least as long as the server asked.

        Raises:
            WorkError: it was tried often enough.
        """
        self._failures += 1
        if self._failures >= self._patience.attempts:
            raise WorkError(
                f"stopped after {self._failures} attempts: {why}; run the same command again to "
                "continue after the confirmed documents"
            )
        longest = min(self._patience.most_wait_s, self._patience.wait_s * 2 ** (self._failures - 1))
        pause = max(asked_s, longest / 2 + random.random() * longest / 2)
        self._say(f"{why}; trying again in {pause:.1f} s")
        self._sleep(pause)


class BulkClient:
    """Requests to one server; `waiting` counts what goes wrong in a row. Not for several threads.

    Raises:
        UsageError: the URL is none, or carries credentials.
    """

    def __init__(
        self,
        url: str,
        waiting: Waiting,
        timeout_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise UsageError("--url is not a URL: write it as http://HOST:PORT") from None
        if parts.username is not None or parts.password is not None:
            raise UsageError(
                "--url contains credentials, which logs would show: set them in the environment, "
                f"as {AUTH_VARIABLE}=user:password"
            )
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
        ):
            raise UsageError(f"{url!r} is not a server address: write it as http://HOST:PORT")
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._base = parts.path.rstrip("/")
        self._host, self._port, self._tls = parts.hostname, port, parts.scheme == "https"
        self._timeout_s = timeout_s
        self.waiting = waiting
        self._authorization = authorization(
            (os.environ if environment is None else environment).get(AUTH_VARIABLE, "")
        )
        self._connection: http.client.HTTPConnection | None = None

    @property
    def url(self) -> str:
        """The server's address with its path, for people and for the name of the target."""
        return self.origin + self._base

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> BulkResponse:
        """Make a request until there is an answer that is none to try again.

        Raises:
            WorkError: none came, or the credentials were refused.
        """
        while True:
            asked_s = 0.0
            try:
                answer, asked_s = self._once(method, path, body, content_type)
            except ssl.SSLCertVerificationError as error:
                raise WorkError(
                    f"{self.url} has an invalid TLS certificate: {error.verify_message}; to trust "
                    "it, set SSL_CERT_FILE"
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                why = f"{self.url} did not answer ({type(error).__name__}: {error})"
            else:
                if answer.status in (401, 403):
                    raise WorkError(
                        f"{self.url} refused the request ({answer.status}): set {AUTH_VARIABLE} "
                        "to credentials with write access"
                    )
                if answer.status not in RETRIED:
                    return answer
                why = f"{self.url} answered {answer.status}"
            self.waiting.failed(why, asked_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _once(
        self, method: str, path: str, body: bytes | None, content_type: str
    ) -> tuple[BulkResponse, float]:
        if self._connection is None:
            if self._tls:
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._timeout_s, context=context
                )
            else:
                self._connection = http.client.HTTPConnection(
                    self._host, self._port, timeout=self._timeout_s
                )
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        if self._authorization:
            headers["Authorization"] = self._authorization
        self._connection.request(method, self._base + path, body, headers)
        response = self._connection.getresponse()
        content = response.read(_MAX_ANSWER + 1)
        if len(content) > _MAX_ANSWER:
            raise http.client.HTTPException(f"the response is larger than {_MAX_ANSWER} bytes")
        if response.length:  # with a limit, `read` does not say that the body was cut
            raise http.client.IncompleteRead(content, response.length)
        if response.will_close:
            self.close()
        return BulkResponse(response.status, content), retry_after_s(
            response.getheader("Retry-After")
        )


def authorization(secret: str) -> str:
    """The Authorization header for what the environment says; "" without credentials.

    Raises:
        UsageError: it cannot be a header.
    """
    secret = secret.strip()
    if not secret:
        return ""
    if not secret.isprintable() or not (" " in secret or ":" in secret):
        raise UsageError(
            f"{AUTH_VARIABLE} is neither user:password nor a complete Authorization "
            "value such as `Bearer TOKEN`"
        )
    if secret.partition(" ")[0] in ("Basic", "Bearer", "ApiKey") and " " in secret:
        return secret
    return "Basic " + base64.b64encode(secret.encode()).decode()
