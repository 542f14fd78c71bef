"""Credentials, login forms and cookies (RFC 6265)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.config.credentials import BasicAuth
from lycosa.core.errors import ConfigError
from lycosa.core.records import Request
from lycosa.crawl.policy.request_profiles import referer_for
from lycosa.fetch.auth import BasicCredentials
from lycosa.fetch.cookies import MAX_A_DOMAIN, CookieJar, parse_cookie_date
from lycosa.fetch.login import FORM_TYPE, Form, has_password_field, read_form
from lycosa.http.fields import without_sessions
from lycosa.url.domain import Domains, bundled_suffix_list
from tests.fetch.fetching import allowed, fetch, keep_alive_listener, open_fetcher, run
from tests.servers.members import PASSWORD, USER, Members, served_site

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
def test_credentials_are_sent_only_below_their_path(url: str, user: str) -> None:
    expected = {"w": "Basic dzpwYXNz", "ü": "Basic w7w6d29yZA==", "": ""}
    assert BasicCredentials(SETTINGS, {"P": "pass", "Q": "word"}).header(url) == expected[user]


def test_missing_password_is_reported() -> None:
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


def test_credentials_are_sent_and_redacted_in_the_recorded_request() -> None:
    with (
        keep_alive_listener(2, reset=False) as (origin, received),
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


def test_set_cookie_values_are_redacted_in_the_archive() -> None:
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
        output = without_sessions(b"HTTP/1.1 200 OK\r\n" + line + b"\r\nX: y\r\n\r\n")
        assert output.count(b"[redacted]") == 1
        assert b"secret" not in output


def test_redaction_of_a_long_cookie_takes_linear_time() -> None:
    def cpu_s(size: int) -> float:
        began = time.process_time()
        without_sessions(b"HTTP/1.1 200 OK\r\nSet-Cookie: " + b" " * size + b"\r\n\r\n")
        return time.process_time() - began

    # 16 times the size; a quadratic algorithm takes 256 times as long
    assert cpu_s(64_000) < 64 * max(min(cpu_s(4_000) for _ in range(3)), 0.001)


URL = "https://h.example/a/login?x=1"


@pytest.mark.parametrize(
    ("markup", "action", "fields"),
    [
        ('<form method=post><input name=pw type=password><input name=t value="a&amp;b" type=hidden>', URL, [("t", "a&b")]),
        ("<form method=POST action=../in><input name=pw></form>", "https://h.example/in", [("pw", "")]),
        ("<base href=/b/><form method=post action=in><input name=pw></form>", "https://h.example/b/in", [("pw", "")]),
        ("<form method=post action=/q><input name=q></form><form method=post action=/in><INPUT "
         "TYPE=Password name=x></form>",
         "https://h.example/in", [("x", "")]),
        ("<form method=post><input name=pw><input type=checkbox name=stay checked><input "
         "type=checkbox name=e value='' checked>"
         "<input type=checkbox name=no><input type=submit name=go>"
         "<select name=s><option>1<option selected value=2>two</select><input name=off "
         "disabled><textarea name=w>words</textarea></form>",
         URL, [("pw", ""), ("stay", "on"), ("e", ""), ("s", "2"), ("w", "words")]),
    ],
)  # fmt: skip
def test_login_form_is_read(markup: str, action: str, fields: list[tuple[str, str]]) -> None:
    form = read_form(markup.encode(), URL, "pw")
    assert form is not None
    assert (form.action, [pair for pair in form.fields if pair[0] != "x" or pair[1]]) == (
        action,
        [pair for pair in fields if pair[0] != "x"],
    )


@pytest.mark.parametrize(
    "markup",
    [
        "",
        "<form><input name=pw type=password></form>",
        "<form method=post action=mailto:x><input name=pw></form>",
    ],
)
def test_other_forms_are_not_login_forms(markup: str) -> None:
    assert read_form(markup.encode(), URL, "pw") is None


def test_form_is_filled_and_encoded() -> None:
    form = Form("https://h.example/in", (("pw", ""), ("t", "1"), ("user", "default")))
    assert form.filled({"user": "wölf", "pw": "a b&c"}) == b"t=1&user=w%C3%B6lf&pw=a+b%26c"


def test_password_field_is_detected() -> None:
    assert has_password_field(b"<INPUT TYPE=PassWord>")
    assert not has_password_field(b"<p>your password was changed</p>")


def test_form_is_posted_once_and_the_next_request_is_a_get() -> None:
    body = f"token=t%261&user={USER}&pass={PASSWORD}".encode()
    with served_site(Members()) as site, open_fetcher([("127.0.0.1", site.port)]) as fetcher:
        [posted] = run(
            fetcher,
            [
                Request(
                    site.url("/login"),
                    headers=(("Content-Type", FORM_TYPE), ("Cookie", "form=1")),
                    form=body,
                )
            ],
        )
        [got] = run(fetcher, [Request(site.url("/welcome"))])
    assert [(each.method, each.body) for each in site.requests] == [("POST", body), ("GET", b"")]
    assert site.requests[0].headers["content-length"] == str(len(body))
    assert (posted.status, got.status) == (302, 200)
    assert posted.request_head.startswith(b"POST /login HTTP/1.1\r\n")
    assert got.request_head.startswith(b"GET /welcome HTTP/1.1\r\n")
    assert b"Content-Length" not in posted.request_head  # would reveal the length of the password


DOMAINS = Domains(bundled_suffix_list())
NOW = 1_800_000_000_000


def jar(*stored: tuple[str, str], max_bytes: int = 1 << 20) -> CookieJar:
    cookies = CookieJar(DOMAINS, max_bytes=max_bytes)
    for url, line in stored:
        cookies.store(url, [line], NOW)
    return cookies


CASES = [
    # (URL that sets the cookie, Set-Cookie, requested URL, Cookie); comments name the clause of
    # draft-ietf-httpbis-rfc6265bis
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
    # private section of the public suffix list
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
    # the last Path attribute is used
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


@pytest.mark.parametrize(("source", "line", "target", "expected"), CASES)
def test_cookie_rules_by_clause(source: str, line: str, target: str, expected: str) -> None:
    assert jar((source, line)).header(target, NOW) == expected


def test_order_replacement_and_expiry_of_cookies() -> None:
    cookies = jar(
        ("http://h.example/a/b/c", "long=1; Path=/a/b"),
        ("http://h.example/", "old=1; Max-Age=10"),
        ("http://h.example/", "new=1"),
        ("http://h.example/", "old=2; Max-Age=20"),
    )
    # longer paths first, then by age
    assert cookies.header("http://h.example/a/b/", NOW) == "long=1; old=2; new=1"
    assert cookies.header("http://h.example/", NOW + 19_999) == "old=2; new=1"
    assert cookies.header("http://h.example/", NOW + 20_000) == "new=1"


def test_cookie_set_over_http_does_not_hide_a_secure_one() -> None:
    cookies = jar(
        ("https://h.example/", "a=safe; Secure"),
        ("http://h.example/", "a=forged"),
        ("http://h.example/x/y", "a=forged"),
    )
    assert cookies.header("https://h.example/x/y", NOW) == "a=safe"
    assert cookies.header("http://h.example/x/y", NOW) == ""


def test_number_and_size_of_cookies_are_bounded() -> None:
    cookies = jar(*[("http://h.example/", f"c{number}=1") for number in range(2 * MAX_A_DOMAIN)])
    assert len(cookies) == MAX_A_DOMAIN
    assert "c0=" not in cookies.header("http://h.example/", NOW)
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
def test_cookie_dates(text: str, at: int | None) -> None:
    assert parse_cookie_date(text) == at


@given(
    st.text(max_size=200),
    st.sampled_from(["http://a.example.org/x/y", "https://[::1]/", "http://localhost/"]),
)
def test_any_set_cookie_gives_a_single_header_line(line: str, url: str) -> None:
    sent = jar((url, line)).header(url, NOW)
    assert not any(ord(character) < 32 and character != "\t" for character in sent)
