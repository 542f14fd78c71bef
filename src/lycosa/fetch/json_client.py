"""HTTP client for a JSON API of the operator: limited in time and size.

There is no address guard: the operator named the address, and no address in a response is
requested. Redirects are not followed, and proxies of the environment are not used.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pycurl

from lycosa.config.settings import FetchSettings
from lycosa.core.errors import UsageError, WorkError
from lycosa.fetch.handle import find_ca_bundle, new_handle
from lycosa.http.decode import parse_head
from lycosa.http.fields import retry_after_s

_MAX_IDLE = 8  # handles with open connections


class NoResponse(WorkError):
    """There was no response in time, or it is too large.

    The message has the address.
    """


class JsonResponse(NamedTuple):
    """A response. `wait_s`: value of the header Retry-After; 0: none."""

    status: int
    body: bytes
    wait_s: float


class JsonClient:
    """Client of one server. Thread-safe.

    Args:
        what: the kind of server, for messages, such as `a Lycosa server`.
        headers: header lines of all requests.

    Raises:
        UsageError: the address is not that of a server.
    """

    def __init__(
        self,
        url: str,
        settings: FetchSettings,
        what: str,
        headers: Sequence[str],
        max_bytes: int,
    ) -> None:
        try:
            parts = urlsplit(url.strip())
            is_named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            raise UsageError(
                f"{url!r} is not the address of {what}: write it as http://HOST:PORT"
            ) from None
        if (
            parts.scheme not in ("http", "https")
            or not is_named
            or "@" in parts.netloc
            or parts.query
            or parts.fragment
        ):
            raise UsageError(
                f"{url!r} is not the address of {what}: write it as "
                "http://HOST:PORT, without user, password, ? or #"
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._settings = settings.model_copy(update={"connect_to": ()})
        self._authorities = find_ca_bundle(settings.ca_file)
        self._headers = ["Accept: application/json", "Accept-Encoding: identity", "Expect:"]
        self._headers += headers
        self._max_bytes = max_bytes
        self._idle: deque[Any] = deque(maxlen=_MAX_IDLE)

    def exchange(self, path: str, content: bytes | None, timeout_s: float) -> JsonResponse:
        """POST JSON, or GET without content.

        Raises:
            NoResponse: there was no response in time, or it is too large.
        """
        timeout_ms = int(timeout_s * 1000)
        if timeout_ms <= 0:
            raise NoResponse(f"{self.url} did not respond in time")
        kind = [] if content is None else ["Content-Type: application/json"]
        head: list[bytes] = []
        curl = self._handle()
        curl.setopt(pycurl.URL, f"{self.url}{path}")
        curl.setopt(pycurl.TIMEOUT_MS, timeout_ms)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, timeout_ms)
        curl.setopt(pycurl.HTTPHEADER, [*self._headers, *kind])
        curl.setopt(pycurl.HEADERFUNCTION, head.append)
        if content is None:
            curl.setopt(pycurl.HTTPGET, 1)
        else:
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDS, content)
        try:
            body: bytes = curl.perform_rb()
        except pycurl.error as error:  # the handle is not used again
            if error.args[0] == pycurl.E_FILESIZE_EXCEEDED:
                reason = f"returned more than {self._max_bytes // 2**20} MiB"
            elif error.args[0] == pycurl.E_OPERATION_TIMEDOUT:
                reason = "did not respond in time"
            else:
                reason = f"cannot be reached: {' '.join(str(error.args[-1]).split())[:200]}"
            raise NoResponse(f"{self.url} {reason}") from None
        status = int(curl.getinfo(pycurl.RESPONSE_CODE))
        self._idle.append(curl)
        wait_s = retry_after_s(parse_head(b"".join(head)).get("retry-after"))
        return JsonResponse(status, body, wait_s)

    def _handle(self) -> Any:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        curl = new_handle(self._settings, self._authorities)
        curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 1)
        curl.setopt(pycurl.PATH_AS_IS, 0)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.MAXFILESIZE_LARGE, self._max_bytes)
        return curl

    def close(self) -> None:
        """End the idle connections."""
        self._idle.clear()
