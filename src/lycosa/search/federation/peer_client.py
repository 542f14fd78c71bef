"""HTTP client for another Lycosa server.

The operator names the address. Responses are untrusted input: limited in size while they are
received, and validated by models.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from lycosa.config.settings import FetchSettings
from lycosa.core.version import VERSION
from lycosa.fetch.json_client import JsonClient, NoResponse
from lycosa.search.federation.backend import BackendError, GenerationGone, IncompatiblePeer

MAX_ANSWER_BYTES = 8 * 2**20
_OLD = (404, 405)  # responses of a version without the route
_Message = TypeVar("_Message", bound=BaseModel)


class PeerHttp:
    """One peer's address. Shared by threads.

    Raises:
        UsageError: it is not the address of a server.
    """

    def __init__(self, url: str, settings: FetchSettings) -> None:
        agent = f"User-Agent: lycosa-peer/{VERSION}"
        self._client = JsonClient(url, settings, "a Lycosa server", [agent], MAX_ANSWER_BYTES)
        self.url = self._client.url

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
            raise BackendError(str(error)) from None
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

    def close(self) -> None:
        """End its idle connections."""
        self._client.close()


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
