"""Cookies by the clauses of RFC 6265 and its revision, and against what a real browser does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.fetch.cookies import MAX_A_DOMAIN, CookieJar, parse_cookie_date
from lycosa.url.domain import Domains, bundled_suffix_list

DOMAINS = Domains(bundled_suffix_list())
NOW = 1_800_000_000_000


def jar(*stored: tuple[str, str], max_bytes: int = 1 << 20) -> CookieJar:
    made = CookieJar(DOMAINS, max_bytes=max_bytes)
    for url, line in stored:
        made.store(url, [line], NOW)
    return made


CASES = [
    # (set at, Set-Cookie, asked at, sent); the clause of draft-ietf-httpbis-rfc6265bis
    ("http://a.example.org/x/y", "a=1", "http://a.example.org/x/z", "a=1"),  # 5.1.4 default path
    ("http://a.example.org/x/y", "a=1", "http://a.example.org/xx", ""),
    ("http://a.example.org/x/y", "a=1", "http://a.example.org/", ""),
    ("http://a.example.org/", "a=1", "http://b.example.org/", ""),  # host-only
    ("http://a.example.org/", "a=1; Domain=example.org", "http://b.example.org/", "a=1"),  # 5.1.3
    ("http://a.example.org/", "a=1; Domain=.Example.ORG", "http://example.org/", "a=1"),
    ("http://a.example.org/", "a=1; Domain=b.example.org", "http://b.example.org/", ""),
    ("http://example.org/", "a=1; Domain=a.example.org", "http://a.example.org/", ""),
    ("http://badexample.org/", "a=1; Domain=example.org", "http://example.org/", ""),
    # 5.7 step 9: public suffix
    ("http://a.example.org/", "a=1; Domain=org", "http://b.example.org/", ""),
    ("http://a.example.co.uk/", "a=1; Domain=co.uk", "http://b.example.co.uk/", ""),
    # the private section
    ("http://a.github.io/", "a=1; Domain=github.io", "http://b.github.io/", ""),
    ("http://github.io/", "a=1; Domain=github.io", "http://github.io/", "a=1"),
    ("http://github.io/", "a=1; Domain=github.io", "http://b.github.io/", ""),
    ("http://127.0.0.1/", "a=1; Domain=127.0.0.1", "http://127.0.0.1/", "a=1"),
    ("http://1.127.0.0.1/", "a=1; Domain=127.0.0.1", "http://127.0.0.1/", ""),
    ("http://127.0.0.1:81/", "a=1", "http://127.0.0.1:82/", "a=1"),  # 8.5: ports are not isolated
    ("https://example.org/", "a=1; Secure", "https://example.org/", "a=1"),
    ("https://example.org/", "a=1; Secure", "http://example.org/", ""),
    ("http://example.org/", "a=1; Secure", "https://example.org/", ""),
    ("https://example.org/", "a=1; SameSite=None", "https://example.org/", ""),
    ("https://example.org/", "a=1; SameSite=None; Secure", "https://example.org/", "a=1"),
    ("https://example.org/", "__Secure-a=1", "https://example.org/", ""),  # 4.1.3
    ("https://example.org/", "__Secure-a=1; Secure", "https://example.org/", "__Secure-a=1"),
    ("https://example.org/", "__Host-a=1; Secure", "https://example.org/", ""),
    ("https://example.org/", "__Host-a=1; Secure; Path=/", "https://example.org/b", "__Host-a=1"),
    (
        "https://example.org/",
        "__host-a=1; Secure; Path=/; Domain=example.org",
        "https://example.org/",
        "",
    ),
    ("http://example.org/a/b", "a=1; Path=/", "http://example.org/", "a=1"),
    ("http://example.org/a/b", "a=1; Path=b", "http://example.org/a/", "a=1"),
    # the last one counts
    ("http://example.org/", "a=1; Path=/b; Path=/", "http://example.org/", "a=1"),
    ("http://example.org/", "a = 1 2 ; HttpOnly", "http://example.org/", "a=1 2"),
    ("http://example.org/", 'a="1;2"', "http://example.org/", 'a="1'),
    ("http://example.org/", "alone", "http://example.org/", "alone"),
    ("http://example.org/", "=value", "http://example.org/", "value"),
    ("http://example.org/", "; Path=/", "http://example.org/", ""),
    ("http://example.org/", "a=1\x01", "http://example.org/", ""),
    ("http://example.org/", "a=1; Max-Age=0", "http://example.org/", ""),
    ("http://example.org/", "a=1; Max-Age=-5", "http://example.org/", ""),
    ("http://example.org/", "a=1; Max-Age=x", "http://example.org/", "a=1"),
    (
        "http://example.org/",
        "a=1; Max-Age=60; Expires=Wed, 09 Jun 1999 10:18:14 GMT",
        "http://example.org/",
        "a=1",
    ),
    (
        "http://example.org/",
        "a=1; Expires=Wed, 09 Jun 1999 10:18:14 GMT",
        "http://example.org/",
        "",
    ),
    ("http://example.org/", "a=" + "x" * 4096, "http://example.org/", ""),
]


@pytest.mark.parametrize(("at", "line", "asked", "sent"), CASES)
def test_by_the_clauses(at: str, line: str, asked: str, sent: str) -> None:
    assert jar((at, line)).header(asked, NOW) == sent


def test_order_replacement_and_expiry() -> None:
    held = jar(
        ("http://h.example/a/b/c", "long=1; Path=/a/b"),
        ("http://h.example/", "old=1; Max-Age=10"),
        ("http://h.example/", "new=1"),
        ("http://h.example/", "old=2; Max-Age=20"),
    )
    # longer paths first, then by age
    assert held.header("http://h.example/a/b/", NOW) == "long=1; old=2; new=1"
    assert held.header("http://h.example/", NOW + 19_999) == "old=2; new=1"
    assert held.header("http://h.example/", NOW + 20_000) == "new=1"


def test_what_came_over_plain_http_hides_nothing_secure() -> None:
    held = jar(
        ("https://h.example/", "a=safe; Secure"),
        ("http://h.example/", "a=forged"),
        ("http://h.example/x/y", "a=forged"),
    )
    assert held.header("https://h.example/x/y", NOW) == "a=safe"
    assert held.header("http://h.example/x/y", NOW) == ""


def test_bounds() -> None:
    held = jar(*[("http://h.example/", f"c{number}=1") for number in range(2 * MAX_A_DOMAIN)])
    assert len(held) == MAX_A_DOMAIN
    assert "c0=" not in held.header("http://h.example/", NOW)
    many = jar(
        *[(f"http://h{number}.example/", "a=" + "x" * 1_000) for number in range(100)],
        max_bytes=20_000,
    )
    assert 10 < len(many) < 20
    assert many.header("http://h99.example/", NOW)
    assert not many.header("http://h0.example/", NOW)
    wide = jar(*[("http://h.example/", f"c{number}=" + "x" * 4_000) for number in range(5)])
    assert len(wide.header("http://h.example/", NOW)) <= 8_190


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784111777000),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784111777000),
        ("Sun Nov  6 08:49:37 1994", 784111777000),
        ("08:49:37 6 november 94", 784111777000),
        ("Thu, 31-Feb-2030 10:00:00 GMT", None),
        ("Thu, 01-Jan-1600 10:00:00 GMT", None),
        ("Thu, 01-Jan-2030 25:00:00 GMT", None),
        ("Thu, 01-Jan-2030", None),
        ("", None),
    ],
)
def test_dates(text: str, at: int | None) -> None:
    assert parse_cookie_date(text) == at


@given(
    st.text(max_size=200),
    st.sampled_from(["http://a.example.org/x/y", "https://[::1]/", "http://localhost/"]),
)
def test_nothing_raises_and_what_is_sent_is_one_line(line: str, url: str) -> None:
    sent = jar((url, line)).header(url, NOW)
    assert not any(ord(character) < 32 and character != "\t" for character in sent)
