"""OpenAI-compatible embedding API: requests, retries and errors."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from lycosa.core.errors import ConfigError, EncoderError
from lycosa.vectors.encoders import load_encoder
from tests.servers.embeddings import EmbeddingServer
from tests.vectors.conftest import config_of
from tests.vectors.encoders import hashed_words

TEXTS = ["a car", "a moth", "a lamp"]


def response(*rows: object) -> bytes:
    data = [{"index": place, "embedding": row} for place, row in enumerate(rows)]
    return json.dumps({"data": data}).encode()


def test_vectors_have_the_order_of_the_texts(api: EmbeddingServer) -> None:
    encoder = load_encoder(config_of(api.url, model="m", query_prefix="query: "))
    rows = hashed_words(TEXTS)
    assert np.allclose(encoder.passages(TEXTS), rows / np.linalg.norm(rows, axis=1, keepdims=True))
    assert api.requests[0] == {"model": "m", "input": TEXTS, "encoding_format": "float"}
    encoder.query("a car")
    encoder.query("a car")  # cached
    assert [each["input"] for each in api.requests[1:]] == [["query: a car"]]


def test_overloaded_api_is_retried(api: EmbeddingServer) -> None:
    api.replies = [(429, b"slow down", [("Retry-After", "1")]), (503, b"", ())]
    encoder = load_encoder(config_of(api.url, model="m", retries=2))
    started = time.monotonic()
    assert encoder.passages(["x"]).shape == (1, 384)
    assert len(api.requests) == 3
    assert time.monotonic() - started >= 1.0


def test_query_is_not_retried_after_its_timeout(api: EmbeddingServer) -> None:
    api.delay_s = 1.0
    encoder = load_encoder(config_of(api.url, model="m", query_timeout="100ms"))
    started = time.monotonic()
    with pytest.raises(EncoderError, match="did not respond in time"):
        encoder.query("x")
    assert time.monotonic() - started < 0.9
    assert len(api.requests) == 1


@pytest.mark.proves("access-encoder-responses")
@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, b"<html>", "no embeddings"),
        (200, b'{"data": []}', "no embeddings"),
        (200, b'{"data": 3}', "no embeddings"),
        (200, b"[" * 100_000, "no embeddings"),
        (200, response([1.0], [1.0, 2.0]), "no embeddings"),
        (200, response([1.0], ["x"]), "no embeddings"),
        (200, response([1.0]), "no embeddings"),
        (200, response(1.0, 2.0), "shape"),
        (200, response([], []), "shape"),
        (200, response([float("nan")], [1.0]), "not finite"),
        (302, b"", "HTTP 302"),
        (404, b"no such model", "HTTP 404: no such model"),
        (400, b"too \x1b[31m long", r"HTTP 400: too \[31m long"),
        (500, b"broken", "HTTP 500: broken"),
    ],
)
def test_a_malformed_response_is_an_error(
    api: EmbeddingServer, status: int, body: bytes, problem: str
) -> None:
    location = [("Location", "http://127.0.0.9/v1/embeddings")]
    api.replies, api.sticky = [(status, body, location)], True
    encoder = load_encoder(config_of(api.url, model="m", retries=0))
    with pytest.raises(EncoderError, match=problem):
        encoder.passages(["x", "y"])
    assert len(api.requests) == 1


def test_stop_ends_the_pause_before_a_retry(api: EmbeddingServer) -> None:
    api.replies, api.sticky = [(429, b"", [("Retry-After", "60")])], True
    encoder = load_encoder(config_of(api.url, model="m"))
    encoder.stop()
    started = time.monotonic()
    with pytest.raises(EncoderError, match="429"):
        encoder.passages(["x"])
    assert time.monotonic() - started < 5


def test_unreachable_api_is_an_error(api: EmbeddingServer) -> None:
    encoder = load_encoder(config_of("http://127.0.0.1:9/v1", model="m", retries=0))
    with pytest.raises(EncoderError, match="cannot be reached"):
        encoder.passages(["x"])


@pytest.mark.proves("access-encoder")
def test_the_key_is_sent_to_the_api_only(
    api: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"model": "m", "api_key_env": "TEST_KEY", "retries": 0}
    monkeypatch.delenv("TEST_KEY", raising=False)
    with pytest.raises(ConfigError, match="TEST_KEY is not set"):
        load_encoder(config_of(api.url, **settings))
    monkeypatch.setenv("TEST_KEY", "secret\r\nX-Other: 1")
    with pytest.raises(ConfigError, match="no API key"):
        load_encoder(config_of(api.url, **settings))
    monkeypatch.setenv("TEST_KEY", "secret")
    api.key = "secret"
    assert load_encoder(config_of(api.url, **settings)).passages(["x"]).shape == (1, 384)
    api.key = "other"
    with pytest.raises(EncoderError, match=r"401.*wrong\[31m key") as caught:
        load_encoder(config_of(api.url, **settings)).passages(["x"])
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="over https only"):
        load_encoder(config_of("http://api.example.org/v1", **settings))
    load_encoder(config_of("https://api.example.org/v1", **settings))


@pytest.mark.parametrize(
    "source",
    ["http://", "http://me:pw@127.0.0.1/v1", "http://127.0.0.1/v1?key=1", "http://[::1/v1"],
)
def test_invalid_api_url_is_an_error(source: str) -> None:
    with pytest.raises(ConfigError, match=r"encoder\.source"):
        load_encoder(config_of(source, model="m"))


def test_api_without_model_is_an_error(api: EmbeddingServer) -> None:
    with pytest.raises(ConfigError, match=r"encoder\.model"):
        load_encoder(config_of(api.url))
