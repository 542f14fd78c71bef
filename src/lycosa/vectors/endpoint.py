"""Encode texts with an OpenAI-compatible API: POST /v1/embeddings.

The operator names the address, which may be private. Page texts and the API key are sent to it and
to no other one: redirects are not followed. Responses are untrusted input.
"""

from __future__ import annotations

import json
import os
import random
import threading
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from lycosa.config.settings import EncoderSettings, FetchSettings
from lycosa.core.errors import ConfigError, EncoderError, UsageError
from lycosa.core.version import VERSION
from lycosa.fetch.json_client import JsonClient, NoResponse

MAX_RESPONSE_BYTES = 128 * 2**20
_PATH = "/embeddings"
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_FIRST_WAIT_S, _MAX_WAIT_S = 0.5, 60.0
_MAX_EXCERPT = 200  # characters of a response that are quoted in an error


class EmbeddingApi:
    """One API and its model. Shared by threads.

    Raises:
        ConfigError: the address is wrong, the model or the key is missing, or the key would be
            sent unencrypted over a network.
    """

    def __init__(self, settings: EncoderSettings, fetch: FetchSettings) -> None:
        headers = [f"User-Agent: lycosa/{VERSION}", *_authorization(settings)]
        if not settings.model:
            raise ConfigError("encoder.source is an API: name its model in encoder.model")
        try:
            self._client = JsonClient(settings.source, fetch, "an API", headers, MAX_RESPONSE_BYTES)
        except UsageError as error:
            raise ConfigError(f"encoder.source: {error}") from None
        self._settings = settings
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the waiting for a next attempt."""
        self._stopped.set()

    def passages(self, texts: list[str]) -> NDArray[np.float32]:
        """Return a row for each text, after several attempts if needed. Raises EncoderError."""
        return self._encode(texts, self._settings.timeout, self._settings.retries)

    def queries(self, texts: list[str]) -> NDArray[np.float32]:
        """Return a row for each text, in one attempt. Raises EncoderError."""
        return self._encode(texts, self._settings.query_timeout, 0)

    def _encode(self, texts: list[str], timeout_ms: int, retries: int) -> NDArray[np.float32]:
        content = {"model": self._settings.model, "input": texts, "encoding_format": "float"}
        request = json.dumps(content).encode()
        for attempt in range(retries + 1):
            wait_s = 0.0
            try:
                response = self._client.exchange(_PATH, request, timeout_ms / 1000)
            except NoResponse as error:
                problem = str(error)
            else:
                if response.status == 200:
                    return self._rows(response.body, len(texts))
                wait_s = response.wait_s
                problem = (
                    f"{self._client.url}{_PATH} returned HTTP {response.status}: "
                    f"{_excerpt(response.body)}"
                )
                if response.status not in _RETRIED:
                    raise EncoderError(problem)
            if attempt < retries:
                backoff_s = _FIRST_WAIT_S * 2**attempt * random.uniform(0.5, 1.0)
                if self._stopped.wait(min(_MAX_WAIT_S, max(wait_s, backoff_s))):
                    break
        raise EncoderError(problem)

    def _rows(self, body: bytes, count: int) -> NDArray[np.float32]:
        try:
            document: Any = json.loads(body)
            by_index = {each["index"]: each["embedding"] for each in document["data"]}
            return np.array([by_index[place] for place in range(count)], np.float32)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise EncoderError(
                f"{self._client.url}{_PATH} returned no embeddings for {count} texts "
                f"({type(error).__name__}): {_excerpt(body)}"
            ) from None


def _authorization(settings: EncoderSettings) -> list[str]:
    """Return the header with the API key, if there is one."""
    name = settings.api_key_env
    if not name:
        return []
    key = os.environ.get(name, "")
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigError(f"encoder.api_key_env: {name} is not set, or is no API key")
    parts = urlsplit(settings.source)
    if parts.scheme != "https" and not _is_private(parts.hostname or ""):
        raise ConfigError(
            f"encoder.source = {settings.source!r}: an API key is sent over https only, or to "
            "localhost or a private IP address"
        )
    return [f"Authorization: Bearer {key}"]


def _is_private(host: str) -> bool:
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost"


def _excerpt(body: bytes) -> str:
    text = " ".join(body[: 4 * _MAX_EXCERPT].decode("utf-8", "replace").split())
    return "".join(filter(str.isprintable, text))[:_MAX_EXCERPT]
