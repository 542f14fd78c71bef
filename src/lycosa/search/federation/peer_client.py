"""HTTP client for another Lycosa server: bounded in time and size, without redirects.

The operator names the address. Responses are untrusted input: limited in size while they are
received, and validated by models.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import pycurl
from pydantic import BaseModel, ValidationError

from lycosa.config.settings import FetchSettings
from lycosa.core.errors import UsageError
from lycosa.core.version import VERSION
from lycosa.fetch.handle import find_ca_bundle, new_handle
from lycosa.search.federation.backend import BackendError, GenerationGone, IncompatiblePeer

MAX_ANSWER_BYTES = 8 * 2**20
_MAX_IDLE = 8  # handles with open connections
_OLD = (404, 405)  # responses of a version without the route
_HEADERS = (
    "Accept: application/json",
    "Accept-Encoding: identity",
    "Expect:",
    f"User-Agent: lycosa-peer/{VERSION}",
)
_Message = TypeVar("_Message", bound=BaseModel)


class PeerHttp:
    """One peer's address. Shared by threads.

    Raises:
        UsageError: it is not the address of a server.
    """

    def __init__(self, url: str, settings: FetchSettings) -> None:
        try:
            parts = urlsplit(url.strip())
            is_named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            raise UsageError(
                f"{url!r} is not the address of a Lycosa server: write it as http://HOST:PORT"
            ) from None
        if (
            parts.scheme not in ("http", "https")
            or not is_named
            or "@" in parts.netloc
            or parts.query
            or parts.fragment
        ):
            raise UsageError(
                f"{url!r} is not the address of a Lycosa server: write it as "
                "http://HOST:PORT, without user, password, ? or #"
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        # No address guard: the operator named the peer, and no address in a response is dialled.
        self._settings = settings.model_copy(update={"connect_to": ()})
        self._authorities = find_ca_bundle(settings.ca_file)
        self._idle: deque[Any] = deque(maxlen=_MAX_IDLE)

    def ask(
        self, path: str, body: BaseModel | None, answer: type[_Message], timeout_s: float
    ) -> _Message:
        """POST a message, or GET without one.

        Raises:
            BackendError: no response in time, or an invalid one.
            IncompatiblePeer: it has no such route.
            GenerationGone: its index has changed since the generation of the message.
        """
        content = None if body is None else body.model_dump_json().encode()
        status, data = self._exchange(path, content, timeout_s)
        if status in _OLD:
            raise IncompatiblePeer(f"{self.url} has no {path}")
        if status == 410:
            raise GenerationGone(f"the index of {self.url} has changed")
        if status != 200:
            raise BackendError(f"{self.url} returned HTTP {status}")
        try:
            return answer.model_validate_json(data)
        except ValidationError as error:
            raise BackendError(
                f"{self.url} returned an invalid response ({_first(error)})"
            ) from None

    def get(
        self,
        path: str,
        parameters: Sequence[tuple[str, str]],
        answer: type[_Message],
        timeout_s: float,
    ) -> _Message:
        """GET with a query. Raises as `ask`."""
        return self.ask(f"{path}?{urlencode(parameters)}", None, answer, timeout_s)

    def _exchange(self, path: str, content: bytes | None, timeout_s: float) -> tuple[int, bytes]:
        timeout_ms = int(timeout_s * 1000)
        if timeout_ms <= 0:
            raise BackendError(f"{self.url} did not respond in time")
        headers = [*_HEADERS, *([] if content is None else ["Content-Type: application/json"])]
        curl = self._handle()
        curl.setopt(pycurl.URL, f"{self.url}{path}")
        curl.setopt(pycurl.TIMEOUT_MS, timeout_ms)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, timeout_ms)
        curl.setopt(pycurl.HTTPHEADER, headers)
        if content is None:
            curl.setopt(pycurl.HTTPGET, 1)
        else:
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDS, content)
        try:
            body: bytes = curl.perform_rb()
        except pycurl.error as error:  # the handle is not used again
            if error.args[0] == pycurl.E_FILESIZE_EXCEEDED:
                reason = f"returned more than {MAX_ANSWER_BYTES // 2**20} MiB"
            elif error.args[0] == pycurl.E_OPERATION_TIMEDOUT:
                reason = "did not respond in time"
            else:
                reason = f"cannot be reached: {' '.join(str(error.args[-1]).split())[:200]}"
            raise BackendError(f"{self.url} {reason}") from None
        status = int(curl.getinfo(pycurl.RESPONSE_CODE))
        self._idle.append(curl)
        return status, body

    def _handle(self) -> Any:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        curl = new_handle(self._settings, self._authorities)
        curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 1)
        curl.setopt(pycurl.PATH_AS_IS, 0)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.MAXFILESIZE_LARGE, MAX_ANSWER_BYTES)
        return curl

    def close(self) -> None:
        """End its idle connections."""
        self._idle.clear()


class FailureBackoff:
    """Skips a peer for a while after a failure, so that not every search waits for it.

    Shared by threads.
    """

    def __init__(self, rest_s: float) -> None:
        self._rest_s = rest_s
        self._until = 0.0
        self._reason = ""

    def require(self) -> None:
        """Raise BackendError, with the reason of the failure, while the peer is skipped."""
        if time.monotonic() < self._until:
            raise BackendError(self._reason)

    def failed(self, reason: str) -> None:
        self._until, self._reason = time.monotonic() + self._rest_s, reason

    def answered(self) -> None:
        self._until = 0.0


def _first(error: ValidationError) -> str:
    problem = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc'])[:80]}: {problem['msg'][:120]}"
