"""Encoders: a Python function, an OpenAI-compatible API, fastembed or sentence-transformers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lycosa.config.settings import Config, EncoderSettings
from lycosa.core.errors import ConfigError, EncoderError
from lycosa.core.units import number_of
from lycosa.vectors.endpoint import EmbeddingApi

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
