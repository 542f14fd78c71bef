"""HTTP client for another Lycosa server: bounded in time and size, without redirects.

The operator names the address. Responses are untrusted input: limited in size while they are
received, and validated by models.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import pycurl
from pydantic import BaseModel, ValidationError

from lycosa.config.settings import FetchSettings
from lycosa.core.errors import UsageError
from lycosa.core.version import VERSION
from lycosa.fetch.handle import find_ca_bundle, new_handle
from lycosa.search.federation.backend import BackendError, IncompatiblePeer
from lycosa.search.federation.replica import GenerationGone

MAX_ANSWER_BYTES = 8 * 2**20
_MAX_IDLE = 8  # handles that keep their connections
_OLD = (404, 405)  # what a Lycosa without a route answers
_Message = TypeVar("_Message", bound=BaseModel)


class PeerHttp:
    """One peer's address. Shared by threads.

    Raises:
        UsageError: it is no address of a server.
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
        # No address guard: the operator named the peer, so it may lie anywhere (`fetch.guard`), and
        # nothing that it says is dialled.
        self._settings = settings.model_copy(update={"connect_to": ()})
        self._authorities = find_ca_bundle(settings.ca_file)
        self._idle: list[Any] = []
        self._lock = threading.Lock()

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
        curl = self._handle()
        parts: list[bytes] = []
        size = 0

        def take(piece: bytes) -> int:
            nonlocal size
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                return 0  # libcurl ends the transfer
            parts.append(piece)
            return len(piece)

        curl.setopt(pycurl.URL, f"{self.url}{path}")
        curl.setopt(pycurl.WRITEFUNCTION, take)
        curl.setopt(pycurl.TIMEOUT_MS, timeout_ms)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, timeout_ms)
        headers = [
            "Accept: application/json",
            "Accept-Encoding: identity",
            "Expect:",
            f"User-Agent: lycosa-peer/{VERSION}",
        ]
        if content is None:
            curl.setopt(pycurl.HTTPGET, 1)
        else:
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDS, content)
            headers.append("Content-Type: application/json")
        curl.setopt(pycurl.HTTPHEADER, headers)
        try:
            curl.perform()
            status = int(curl.getinfo(pycurl.RESPONSE_CODE))
        except pycurl.error as error:
            curl.close()
            if size > MAX_ANSWER_BYTES:
                raise BackendError(
                    f"{self.url} returned more than {MAX_ANSWER_BYTES // 2**20} MiB"
                ) from None
            if error.args[0] == pycurl.E_OPERATION_TIMEDOUT:
                raise BackendError(f"{self.url} did not respond in time") from None
            raise BackendError(f"{self.url} cannot be reached: {curl_reason(error)}") from None
        except BaseException:
            curl.close()
            raise
        self._give_back(curl)
        return status, b"".join(parts)

    def _handle(self) -> Any:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        curl = new_handle(self._settings, self._authorities)
        curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 1)
        curl.setopt(pycurl.PATH_AS_IS, 0)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        return curl

    def _give_back(self, curl: Any) -> None:
        curl.setopt(pycurl.WRITEFUNCTION, _drop)
        with self._lock:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(curl)
                return
        curl.close()

    def close(self) -> None:
        """End its connections."""
        with self._lock:
            for curl in self._idle:
                curl.close()
            self._idle = []


class FailureBackoff:
    """A peer that failed is left alone for a while: who searches should not wait for it each time.
    Shared by threads.
    """

    def __init__(self, rest_s: float) -> None:
        self._rest_s = rest_s
        self._until = 0.0
        self._reason = ""

    def require(self) -> None:
        """Raises BackendError, with the reason that it had before, while it rests."""
        if time.monotonic() < self._until:
            raise BackendError(self._reason)

    def failed(self, reason: str) -> None:
        self._until, self._reason = time.monotonic() + self._rest_s, reason

    def answered(self) -> None:
        self._until = 0.0


def curl_reason(error: pycurl.error) -> str:
    """libcurl's own words, on one line."""
    return " ".join(str(error.args[1] if len(error.args) > 1 else error).split())[:200]


def _drop(piece: bytes) -> int:
    return len(piece)


def _first(error: ValidationError) -> str:
    problem = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc'])[:80]}: {problem['msg'][:120]}"
