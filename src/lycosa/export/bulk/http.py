"""HTTP requests to a search cluster: one connection, bounded retries, hidden credentials.

Requests are retried after connection failures, broken or late responses, and the statuses 408, 429,
500, 502, 503 and 504. A request may have been executed although its response was lost, so every
request must be harmless if it is repeated.
"""

from __future__ import annotations

import base64
import http.client
import os
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from lycosa.core.errors import UsageError, WorkError
from lycosa.core.json_object import json_object
from lycosa.http.fields import retry_after_s

AUTH_VARIABLE = "LYCOSA_BULK_AUTH"
"""The environment variable with the credentials.

It has the form `user:password`, or is a complete Authorization value (`Bearer …`, `ApiKey …`).
"""

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
TIMEOUT_S = 120.0
_MAX_RESPONSE_BYTES = 256 * 2**20  # a response has about 200 bytes per document
_MAX_EXCERPT = 300  # characters


@dataclass(slots=True, frozen=True)
class BulkResponse:
    """A complete response with a status that is not retried."""

    status: int
    content: bytes

    def document(self) -> dict[str, Any] | None:
        """Return the JSON object, None for other content such as the error page of a proxy."""
        return json_object(self.content) or None

    @property
    def excerpt(self) -> str:
        """The beginning of the content, for a message."""
        text = " ".join(self.content.decode(errors="replace").split())
        return text[:_MAX_EXCERPT] + ("…" if len(text) > _MAX_EXCERPT else "")


@dataclass(slots=True)
class Backoff:
    """Waits between attempts, and counts the consecutive failures.

    The wait doubles from `wait_s` to `max_wait_s`, with jitter. `notify` is called before each.
    """

    notify: Callable[[str], None]
    attempts: int = 12
    wait_s: float = 0.5
    max_wait_s: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    _failures: int = field(default=0, init=False)

    def success(self) -> None:
        """Restart the count."""
        self._failures = 0

    def failure(self, reason: str, retry_after_s: float = 0.0) -> None:
        """Wait before the next attempt. Raises WorkError after the last one."""
        self._failures += 1
        if self._failures >= self.attempts:
            raise WorkError(
                f"stopped after {self._failures} attempts: {reason}; run the same command again to "
                "continue after the confirmed documents"
            )
        longest = min(self.max_wait_s, self.wait_s * 2 ** (self._failures - 1))
        pause = max(retry_after_s, random.uniform(longest / 2, longest))
        self.notify(f"{reason}; trying again in {pause:.1f} s")
        self.sleep(pause)


class BulkClient:
    """Requests to one server, from one thread.

    Raises:
        UsageError: the URL is invalid or contains credentials.
    """

    def __init__(
        self,
        url: str,
        backoff: Backoff,
        timeout_s: float = TIMEOUT_S,
        environment: Mapping[str, str] = os.environ,
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
        connections = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        if parts.scheme not in connections or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(f"{url!r} is not a server address: write it as http://HOST:PORT")
        self.backoff = backoff
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._path = parts.path.rstrip("/")
        self._authorization = authorization(environment.get(AUTH_VARIABLE, ""))
        self._connection = connections[parts.scheme](parts.hostname, port, timeout=timeout_s)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> BulkResponse:
        """Send a request until it gets a response that is not retried.

        Raises:
            WorkError: there was no such response, or the credentials were refused.
        """
        while True:
            wait_s = 0.0
            try:
                response, wait_s = self._once(method, path, body, content_type)
            except ssl.SSLCertVerificationError as error:
                raise WorkError(
                    f"{self.url} has an invalid TLS certificate: {error.verify_message}; to trust "
                    "it, set SSL_CERT_FILE"
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                reason = f"{self.url} did not answer ({type(error).__name__}: {error})"
            else:
                if response.status in (401, 403):
                    raise WorkError(
                        f"{self.url} refused the request ({response.status}): set {AUTH_VARIABLE} "
                        "to credentials with write access"
                    )
                if response.status not in RETRIED:
                    return response
                reason = f"{self.url} answered {response.status}"
            self.backoff.failure(reason, wait_s)

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connection.close()

    def _once(
        self, method: str, path: str, body: bytes | None, content_type: str
    ) -> tuple[BulkResponse, float]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        if self._authorization:
            headers["Authorization"] = self._authorization
        self._connection.request(method, self._path + path, body, headers)
        response = self._connection.getresponse()
        content = response.read(_MAX_RESPONSE_BYTES + 1)
        if len(content) > _MAX_RESPONSE_BYTES:
            raise http.client.HTTPException(f"response over {_MAX_RESPONSE_BYTES} bytes")
        if response.length:  # a read with a limit does not report a truncated body
            raise http.client.IncompleteRead(content, response.length)
        wait_s = retry_after_s(response.getheader("Retry-After"))
        return BulkResponse(response.status, content), wait_s


def authorization(secret: str) -> str:
    """Return the Authorization header for the credentials, "" for none.

    Raises:
        UsageError: the credentials are not valid in a header.
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
