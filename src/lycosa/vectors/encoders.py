"""Encoders: a Python function, an OpenAI-compatible API, fastembed or sentence-transformers.

The operator names the address of an API, which may be private. Page texts and the API key are sent
to it and to no other one: redirects are not followed. Responses are untrusted input.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from lycosa.config.settings import Config, EncoderSettings, FetchSettings
from lycosa.core.errors import ConfigError, EncoderError, UsageError
from lycosa.core.units import number_of
from lycosa.core.version import VERSION
from lycosa.fetch.json_client import JsonClient, NoResponse

FASTEMBED, SENTENCE_TRANSFORMERS = "fastembed", "sentence-transformers"
MAX_DIMENSIONS = 16_384
_MAX_QUERIES = 256  # whose vectors are cached
Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Any]
"""Return an array float32[n, d], a row for each text."""


class Encoder:
    """The configured encoder. Threads may share it if its function allows that.

    `name` distinguishes its vectors from those of other encoders.

    Args:
        passages: encodes chunks.
        queries: encodes queries, within `query_timeout`.
        stop: ends a call of `passages` that waits for its next attempt.
    """

    def __init__(
        self,
        settings: EncoderSettings,
        passages: Encode,
        queries: Encode,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        parts = (settings.source, settings.model, settings.query_prefix, settings.passage_prefix)
        self.name = " ".join(part.replace("\n", " ") for part in parts if part)
        self.settings = settings
        self.stop = stop
        self._passages = passages
        self._queries = queries
        self._cached = lru_cache(_MAX_QUERIES)(self._encode_query)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of length 1 of chunks.

        Raises:
            EncoderError: the encoder failed, or returned no such array.
        """
        prefix = self.settings.passage_prefix
        return self._unit(self._passages, [prefix + text for text in texts])

    def query(self, text: str) -> Vectors:
        """Return the vector of a query. Raises EncoderError as `passages` does."""
        return self._cached(text)

    def _encode_query(self, text: str) -> Vectors:
        rows = self._unit(self._queries, [self.settings.query_prefix + text])
        first: Vectors = rows[0]
        return first

    def _unit(self, encode: Encode, texts: list[str]) -> Vectors:
        try:
            rows = np.asarray(encode(texts), np.float32)
        except EncoderError:
            raise
        except Exception as error:  # third-party code
            raise EncoderError(
                f"the encoder {self.name} raised {type(error).__name__}: {error}"
            ) from error
        shape = rows.shape
        if len(shape) != 2 or shape[0] != len(texts) or not 1 <= shape[1] <= MAX_DIMENSIONS:
            raise EncoderError(
                f"the encoder {self.name} returned an array of shape {shape} for "
                f"{number_of(len(texts), 'text')}, not ({len(texts)}, dimensions)"
            )
        if not np.isfinite(rows).all():
            raise EncoderError(f"the encoder {self.name} returned values that are not finite")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.maximum(lengths, 1e-9), np.float32)


def load_encoder(config: Config) -> Encoder:
    """Return the encoder of the settings, which name one.

    Raises:
        ConfigError: it does not exist, is not installed, or its settings are wrong.
    """
    settings = config.encoder
    source = settings.source
    if source.startswith(("http://", "https://")):
        api = EmbeddingApi(settings, config.fetch)
        return Encoder(settings, api.passages, api.queries, api.stop)
    if source == FASTEMBED:
        model = _library("fastembed", "TextEmbedding", settings)
        return Encoder(
            settings,
            lambda texts: np.array([*model.passage_embed(texts)]),
            lambda texts: np.array([*model.query_embed(texts)]),
        )
    if source == SENTENCE_TRANSFORMERS:
        model = _library("sentence_transformers", "SentenceTransformer", settings)
        return Encoder(settings, model.encode_document, model.encode_query)
    encode = _function(source)
    return Encoder(settings, encode, encode)


def _library(module: str, name: str, settings: EncoderSettings) -> Any:
    """Load a model with a library that may not be installed."""
    if not settings.model:
        raise ConfigError(f"encoder.source = {settings.source!r} needs encoder.model")
    try:
        make = getattr(importlib.import_module(module), name)
    except ImportError:
        raise ConfigError(
            f"encoder.source = {settings.source!r} needs a package that is not installed: "
            f"pip install 'lycosa[{settings.source}]'"
        ) from None
    try:
        return make(settings.model)
    except Exception as error:
        raise ConfigError(
            f"encoder.model = {settings.model!r} cannot be loaded by {settings.source}: {error}"
        ) from error


def _function(source: str) -> Encode:
    module, colon, name = source.partition(":")
    if not (module and colon and name):
        raise ConfigError(
            f"encoder.source = {source!r}: write package.module:function, the URL of an API, "
            f"{FASTEMBED} or {SENTENCE_TRANSFORMERS}"
        )
    try:
        target = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"encoder.source = {source!r}: {error}") from None
    encode = target() if isinstance(target, type) else target
    if not callable(encode):
        raise ConfigError(f"encoder.source = {source!r} is not a function")
    checked: Encode = encode
    return checked


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
