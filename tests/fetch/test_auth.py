"""Where credentials go, what a Referer says, and what the archive is told of both."""

from __future__ import annotations

import time

import pytest

from lycosa.config.credentials import BasicAuth
from lycosa.core.errors import ConfigError
from lycosa.crawl.policy.request_profiles import referer_for
from lycosa.fetch.auth import BasicCredentials
from lycosa.http.fields import without_sessions
from tests.fetch.fetching import allowed, fetch, impatient_listener, open_fetcher

SETTINGS = [
    BasicAuth(url="https://h.example/club", user="w", password_env="P"),
    BasicAuth(url="https://h.example/club/inner/", user="ü", password_env="Q"),
]


@pytest.mark.parametrize(
    ("url", "user"),
    [
        ("https://h.example/club", "w"),
        ("https://h.example/club/a?b", "w"),
        ("https://h.example/club?x", "w"),
        ("https://h.example/club/inner/x", "ü"),
        ("https://h.example/clubs", ""),
        ("https://h.example/", ""),
        ("http://h.example/club/", ""),
        ("https://h.example:8443/club/", ""),
        ("https://h.example.evil.test/club/", ""),
    ],
)
def test_credentials_stay_below_their_path(url: str, user: str) -> None:
    expected = {"w": "Basic dzpwYXNz", "ü": "Basic w7w6d29yZA==", "": ""}
    assert BasicCredentials(SETTINGS, {"P": "pass", "Q": "word"}).header(url) == expected[user]


def test_a_missing_password_is_named() -> None:
    with pytest.raises(ConfigError, match="the environment variable Q is not set"):
        BasicCredentials(SETTINGS, {"P": "pass"})


@pytest.mark.parametrize(
    ("referrer", "url", "output"),
    [
        ("https://a.example/x?y", "https://a.example/z", "https://a.example/x?y"),
        ("https://a.example/x?y", "https://b.example/z", "https://a.example/"),
        ("https://a.example/x", "https://a.example:8443/", "https://a.example/"),
        ("http://a.example/x", "https://a.example/", "http://a.example/"),
        ("https://a.example/x", "http://a.example/", ""),
        ("", "http://a.example/", ""),
        ("gopher://a.example/", "http://a.example/", ""),
        ("http://a.example/" + "x" * 5_000, "http://a.example/", "http://a.example/"),
    ],
)
def test_referer(referrer: str, url: str, output: str) -> None:
    assert referer_for(referrer, url) == output


def test_what_is_sent_and_what_is_recorded() -> None:
    with (
        impatient_listener(2, reset=False) as (origin, received),
        open_fetcher(allowed(origin), accept_language="xx") as fetcher,
    ):
        exchange = fetch(
            fetcher,
            f"{origin}/a",
            ("Authorization", "Basic abc"),
            ("Cookie", "s=1"),
            ("accept-language", "fi"),
        )
        again = fetch(fetcher, f"{origin}/a")
    assert b"\r\nAuthorization: Basic abc\r\nCookie: s=1\r\naccept-language: fi\r\n" in received[0]
    assert b"xx" not in received[0]
    assert (
        b"\r\nAuthorization: [redacted]\r\nCookie: [redacted]\r\naccept-language: fi\r\n\r\n"
        in exchange.request_head
    )
    assert b"abc" not in exchange.request_head
    assert again.request_head == received[1]
    assert b"Accept-Language: xx\r\n\r\n" in received[1]


def test_the_archive_gets_no_session() -> None:
    head = (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: sid=secret; Path=/\r\nset-cookie:x=\r\nX: Set-Cookie: "
        b"a=b\r\nSet-Cookie: alone\r\n\r\n"
    )
    redacted = (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: sid=[redacted]; "
        b"Path=/\r\nset-cookie:x=[redacted]\r\nX: Set-Cookie: a=b\r\n"
    )
    assert without_sessions(head).startswith(redacted)
    assert b"secret" not in without_sessions(head)
    for line in (
        b"Set-Cookie: secret; Path=/",
        b"Set-Cookie : a=secret",
        b"Set-Cookie:\r\n a=secret",
        b"Set-Cookie: a=b\r\n\tsecret",
    ):
        assert (
            without_sessions(b"HTTP/1.1 200 OK\r\n" + line + b"\r\nX: y\r\n\r\n").count(
                b"[redacted]"
            )
            == 1
        )
        assert b"secret" not in without_sessions(
            b"HTTP/1.1 200 OK\r\n" + line + b"\r\nX: y\r\n\r\n"
        )


def test_a_long_cookie_line_costs_what_it_is_long() -> None:
    def cpu_s(size: int) -> float:
        began = time.process_time()
        without_sessions(b"HTTP/1.1 200 OK\r\nSet-Cookie: " + b" " * size + b"\r\n\r\n")
        return time.process_time() - began

    # by squares: 256 times
    assert cpu_s(64_000) < 64 * max(min(cpu_s(4_000) for _ in range(3)), 0.001)
