"""HTTP client for another Lycosa server.

The operator names the address. Responses are untrusted input: limited in size while they are
received, and validated by models.
"""

from __future__ import annotations

import time
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from lycosa.config.settings import FetchSettings
from lycosa.core.version import VERSION
from lycosa.fetch.json_client import JsonClient, NoResponse
from lycosa.search.federation.backend import BackendError, GenerationGone, IncompatiblePeer

MAX_ANSWER_BYTES = 8 * 2**20
_OLD = (404, 405)  # responses of a version without the route
_Message = TypeVar("_Message", bound=BaseModel)


class PeerHttp:
    """One peer's address. Skipped for `rest_s` after a failure, so that not every search waits for
    it. Shared by threads.

    Raises:
        UsageError: it is not the address of a server.
    """

    def __init__(self, url: str, settings: FetchSettings, rest_s: float = 0.0) -> None:
        agent = f"User-Agent: lycosa-peer/{VERSION}"
        self._client = JsonClient(url, settings, "a Lycosa server", [agent], MAX_ANSWER_BYTES)
        self.url = self._client.url
        self._rest_s = rest_s
        self._skipped_until = 0.0
        self._reason = ""

    def require(self) -> None:
        """Raise BackendError, with the reason of the failure, while the peer is skipped."""
        if time.monotonic() < self._skipped_until:
            raise BackendError(self._reason)

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
        try:
            status, data, _ = self._client.exchange(path, content, timeout_s)
        except NoResponse as error:
            raise self.failure(str(error)) from None
        if status in _OLD:
            raise IncompatiblePeer(f"{self.url} has no {path}")
        if status == 410:
            raise GenerationGone(f"the index of {self.url} has changed")
        if status != 200:
            raise self.failure(f"{self.url} returned HTTP {status}")
        try:
            message = answer.model_validate_json(data)
        except ValidationError as error:
            problem = f"{self.url} returned an invalid response ({_first(error)})"
            raise self.failure(problem) from None
        self._skipped_until = 0.0
        return message

    def failure(self, reason: str) -> BackendError:
        """Skip the peer from now on; return the error to raise."""
        self._skipped_until, self._reason = time.monotonic() + self._rest_s, reason
        return BackendError(reason)

    def close(self) -> None:
        """End its idle connections."""
        self._client.close()


def _first(error: ValidationError) -> str:
    problem = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc'])[:80]}: {problem['msg'][:120]}"
