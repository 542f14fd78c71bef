"""Normalisation of http, https, ftp and gopher URLs."""

from __future__ import annotations

import re

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.config.settings import Collection
from lycosa.core.errors import Refusal, UrlError
from lycosa.core.records import UrlId
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.file_types import unindexable
from lycosa.url.keys import Identifier, host_key
from lycosa.url.normalise import MAX_URL_LENGTH, LinkResolver, normalise
from lycosa.url.schemes import path_start, scheme_of
from lycosa.url.scope import Admission, hostname, url_origin
from tests.url.strategies import absolute, decoded, hrefs, normalised_escapes

# description, URL, normalised URL
CASES = [
    ("case of the scheme", "HTTP://h/", "http://h/"),
    ("case of the host", "http://ExAmple.ORG/A", "http://example.org/A"),
    ("IDNA", "http://faß.DE/", "http://xn--fa-hia.de/"),
    ("IDNA, ideographic full stop", "http://例え。jp/", "http://xn--r8jz45g.jp/"),
    ("escapes in the host", "http://ex%41mple.org/", "http://example.org/"),
    ("default port of http", "http://host:80/", "http://host/"),
    ("default port of https", "https://host:443/", "https://host/"),
    ("the default port of the other scheme is kept", "https://host:80/", "https://host:80/"),
    ("an empty port", "http://host:/", "http://host/"),
    ("zeros before a port", "http://host:0080/", "http://host/"),
    ("empty path", "http://HOST", "http://host/"),
    ("empty path before a query", "http://host?q", "http://host/?q"),
    ("one slash", "http:/path", "http://path/"),
    ("no slash", "http:path", "http://path/"),
    ("many slashes", "http:////host/p", "http://host/p"),
    ("backslashes", "http:\\\\host\\a\\b", "http://host/a/b"),
    ("a backslash in a query stays", "http://host/?a\\b", "http://host/?a\\b"),
    ("dot segments", "http://h/a/./b/../c", "http://h/a/c"),
    ("escaped dot segments", "http://h/a/%2e/b/%2E%2e/c", "http://h/a/c"),
    ("above the root", "http://h/../../a", "http://h/a"),
    ("three dots are a name", "http://h/%2e%2e%2e/a", "http://h/.../a"),
    ("dots within a segment", "http://h/a..;b/.c/d.", "http://h/a..;b/.c/d."),
    ("empty segments stay", "http://h/a//b/", "http://h/a//b/"),
    ("tabs and newlines inside", "ht\ttp://ho\nst/a\r\nb", "http://host/ab"),
    ("white space around", " \x00\x1f http://h/a \n", "http://h/a"),
    ("a space inside", "http://h/a b?c d", "http://h/a%20b?c%20d"),
    ("NUL inside", "http://h/a\x00b", "http://h/a%00b"),
    ("non-ASCII in path and query", "http://h/ü?ü", "http://h/%C3%BC?%C3%BC"),
    ("upper-case escapes", "http://h/%c3%bc?%c3%bc%2f", "http://h/%C3%BC?%C3%BC%2F"),
    ("needless escapes", "http://h/%41%7a%30%2D%2e%5F%7E", "http://h/Az0-._~"),
    ("needless escapes in a query", "http://h/?%61%3d%7e", "http://h/?a%3D~"),
    (
        "reserved escapes stay",
        "http://h/%2F%3f%23%5B%40%21%24%26%27%28%3B%3D",
        "http://h/%2F%3F%23%5B%40%21%24%26%27%28%3B%3D",
    ),
    ("an encoded percent sign stays", "http://h/%2541", "http://h/%2541"),
    ("an encoded percent sign before decoded digits", "http://h/%25%34%31", "http://h/%2541"),
    ("broken escapes stay", "http://h/%zz%a/%", "http://h/%zz%a/%"),
    ("decoding must not complete an escape", "http://h/%2%45", "http://h/%2%45"),
    ("decoding must not start an escape", "http://h/%%34%31", "http://h/%%341"),
    ("an unfinished escape before a good one", "http://h/%a%7e", "http://h/%a%7E"),
    ("fragment", "http://h/a#b?c", "http://h/a"),
    ("fragment with a second #", "http://h/a?b#c#d", "http://h/a?b"),
    ("an empty query is kept", "http://h/a?", "http://h/a?"),
    ("userinfo", "http://user:pass@h/a", "http://h/a"),
    ("userinfo with @", "http://a@b:c@d@h:8080/@x", "http://h:8080/@x"),
    ("userinfo over https", "https://u@h/a?b@c", "https://h/a?b@c"),
    ("decimal IPv4", "http://2130706433/", "http://127.0.0.1/"),
    ("octal IPv4", "http://0177.0.0.01/", "http://127.0.0.1/"),
    ("hexadecimal IPv4", "http://0x7F000001/", "http://127.0.0.1/"),
    ("short IPv4", "http://127.1/", "http://127.0.0.1/"),
    ("full-width IPv4", "http://１２７.0.0.1/", "http://127.0.0.1/"),
    ("IPv4 with a trailing dot", "http://127.0.0.1./", "http://127.0.0.1/"),
    ("IPv6", "http://[2001:DB8:0:0::1]:80/", "http://[2001:db8::1]/"),
    ("IPv4 in IPv6", "http://[::FFFF:1.2.3.4]/", "http://[::ffff:102:304]/"),
    ("a trailing dot of the host stays", "http://example.org./", "http://example.org./"),
    ("lone surrogate", "http://h/\ud800", "http://h/%EF%BF%BD"),
    ("surrogate pair", "http://h/\ud83d\ude00", "http://h/%F0%9F%98%80"),
    ("order of parameters stays", "http://h/?b=2&a=1&&b=2", "http://h/?b=2&a=1&&b=2"),
    ("plus stays", "http://h/a+b?c+d", "http://h/a+b?c+d"),
]


@pytest.mark.parametrize(
    ("url", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_normalise(url: str, expected: str) -> None:
    assert (normalise(url), normalise(expected)) == (expected, expected)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", Refusal.UNPARSABLE),
        (" ", Refusal.UNPARSABLE),
        ("example.org/", Refusal.UNPARSABLE),
        ("//host/path", Refusal.UNPARSABLE),
        ("/path", Refusal.UNPARSABLE),
        ("?q", Refusal.UNPARSABLE),
        ("#f", Refusal.UNPARSABLE),
        ("http:", Refusal.UNPARSABLE),
        ("http://", Refusal.UNPARSABLE),
        ("http:///", Refusal.UNPARSABLE),
        ("http://?q", Refusal.UNPARSABLE),
        ("http://user@/", Refusal.UNPARSABLE),
        ("http://a b/", Refusal.UNPARSABLE),
        ("http://a\x00b/", Refusal.UNPARSABLE),
        ("http://a%2fb/", Refusal.UNPARSABLE),
        ("http://h:99999/", Refusal.UNPARSABLE),
        ("http://h:x/", Refusal.UNPARSABLE),
        ("http://[::1%25eth0]/", Refusal.UNPARSABLE),
        ("http://[::1/", Refusal.UNPARSABLE),
        ("http://1.2.3.4.5/", Refusal.UNPARSABLE),
        ("http://256.256.256.256/", Refusal.UNPARSABLE),
        ("http://\ud800/", Refusal.UNPARSABLE),
        ("javascript:void(0)", Refusal.SCHEME),
        ("JavaScript:alert('http://h/')", Refusal.SCHEME),
        (" java\nscript:x", Refusal.SCHEME),
        ("mailto:a@b", Refusal.SCHEME),
        ("data:text/html,x", Refusal.SCHEME),
        ("data:," + "x" * MAX_URL_LENGTH, Refusal.SCHEME),
        ("tel:+1", Refusal.SCHEME),
        ("telnet://h/", Refusal.SCHEME),
        ("file:///etc/passwd", Refusal.SCHEME),
        ("ws://h/", Refusal.SCHEME),
        ("blob:http://h/x", Refusal.SCHEME),
        ("localhost:8080/x", Refusal.SCHEME),  # as in browsers, `localhost:` is a scheme
        ("http+unix://x/", Refusal.SCHEME),
        ("http://h/" + "a" * MAX_URL_LENGTH, Refusal.TOO_LONG),
        ("http://h/" + "ü" * (MAX_URL_LENGTH // 4), Refusal.TOO_LONG),
    ],
)
def test_refused_urls(url: str, reason: Refusal) -> None:
    with pytest.raises(UrlError) as caught:
        normalise(url)
    assert caught.value.reason is reason
    assert caught.value.url == url


def test_longest_url_is_unchanged() -> None:
    longest = "http://h/" + "a" * (MAX_URL_LENGTH - 9)
    assert normalise(longest) == longest


@pytest.mark.proves("consistency-urls")
@given(hrefs | absolute)
def test_any_text_gives_a_url_or_a_reason(text: str) -> None:
    try:
        url = normalise(text)
    except UrlError as error:
        outcome: str | Refusal = error.reason
    else:
        outcome = url
    if isinstance(outcome, Refusal):
        assert outcome in (Refusal.UNPARSABLE, Refusal.SCHEME)
    else:
        assert re.fullmatch(r"(https?|ftp|gopher)://[^/?#@]+/[!-~]*", outcome)
        assert "#" not in outcome


@pytest.mark.proves("consistency-urls")
@given(absolute)
def test_idempotent_and_a_fixed_point_of_the_parser(text: str) -> None:
    try:
        url = normalise(text)
    except UrlError:
        return
    assert (normalise(url), ada_url.URL(url).href) == (url, url)


@given(absolute)
def test_result_equals_the_standard_except_for_escapes_and_userinfo(text: str) -> None:
    if not ada_url.URL.can_parse(text):
        with pytest.raises(UrlError):
            normalise(text)
        return
    theirs, ours = ada_url.URL(text), ada_url.URL(normalise(text))
    assert (ours.protocol, ours.host, ours.username, ours.password, ours.hash) == (
        theirs.protocol,
        theirs.host,
        "",
        "",
        "",
    )
    for mine, standard in ((ours.pathname, theirs.pathname), (ours.search, theirs.search)):
        assert mine == normalised_escapes(standard)
        assert decoded(mine) == decoded(standard)
        assert [decoded(part) for part in mine.split("/")] == [
            decoded(part) for part in standard.split("/")
        ]
        assert [decoded(part) for part in mine.split("&")] == [
            decoded(part) for part in standard.split("&")
        ]


@given(
    st.lists(
        st.sampled_from(("%", "2", "4", "5", "e", "E", "g", "%25", "%34", "%45", "%2", "%65", "~")),
        max_size=10,
    ).map("".join)
)
def test_escapes_are_never_completed(path: str) -> None:
    once = normalise(f"http://h/{path}?{path}")
    assert (normalise(once), decoded(once.partition("?")[2])) == (once, decoded(path))


DOMAINS = Domains(bundled_suffix_list())


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("FTP://H.Example:21/pub/", "ftp://h.example/pub/"),
        ("ftp://h", "ftp://h/"),
        ("ftp://me:secret@h/a", "ftp://h/a"),
        ("ftp://h/a;type=A", "ftp://h/a"),  # RFC 1738 section 3.2.2
        ("ftp://h/a;type=a;type=i", "ftp://h/a"),
        ("ftp://h/a;b", "ftp://h/a;b"),
        ("ftp://h/a?b=c#d", "ftp://h/a%3Fb=c"),
        ("ftp://h/a?/..//=../b", "ftp://h//=../b"),
        ("ftp://h/a/b/..;type=i", "ftp://h/a/"),
        ("ftp://h/a/.?/..;type=a;type=i", "ftp://h/a/"),
        ("ftp://h/%7ea%2fb%20c/../d", "ftp://h/d"),
        ("ftp://h/%7ea%2fb%20c", "ftp://h/~a%2Fb%20c"),
        # from the file system's root: RFC 1738 section 3.2.2
        ("ftp://h/%2fetc/motd", "ftp://h/%2Fetc/motd"),
        ("ftp://h/100%", "ftp://h/100%25"),
        ("ftp://h/[1]|{2}", "ftp://h/%5B1%5D%7C%7B2%7D"),
        ("ftp://münchen.example/ü", "ftp://xn--mnchen-3ya.example/%C3%BC"),
        ("gopher://H.Example:70", "gopher://h.example/"),
        ("gopher://h/1", "gopher://h/"),  # RFC 4266 section 2.1
        ("gopher://h/1/", "gopher://h/1/"),
        ("gopher://h:7070/0/a/../b", "gopher://h:7070/0/a/../b"),  # a selector is no path
        ("gopher://h/0/a?b c#d", "gopher://h/0/a%3Fb%20c"),
        ("gopher://h/7/find%09words", "gopher://h/7/find%09words"),
        ("gopher://h/0%2Fa", "gopher://h/0/a"),
        ("gopher://me@h/", "gopher://h/"),
        ("gopher://[::1]:70/", "gopher://[::1]/"),
    ],
)
def test_normalise_ftp_and_gopher(written: str, normal: str) -> None:
    assert (normalise(written), normalise(normal)) == (normal, normal)


@pytest.mark.parametrize(
    "written",
    [
        "ftp://h/a%0d%0aDELE%20b",
        "ftp://h/%00",
        "gopher://h/0%0AQUIT",
        "gopher:///x",
        "gopher://h:99999/",
        "gopher://h:0/",
        "gopher:h",
        "ftp://",
    ],
)
def test_refused_ftp_and_gopher_urls(written: str) -> None:
    with pytest.raises(UrlError) as caught:
        normalise(written)
    assert caught.value.reason == Refusal.UNPARSABLE


@given(
    st.sampled_from(
        ["ftp://h.example", "gopher://h.example", "gopher://h.example:7070/1", "ftp://h/a/"]
    ),
    st.text(max_size=40),
)
def test_normalisation_of_ftp_and_gopher_is_idempotent(start: str, rest: str) -> None:
    try:
        normal = normalise(start + rest)
    except UrlError:
        return
    assert normalise(normal) == normal
    assert normal.isascii()
    assert normal.isprintable()
    assert (normal[path_start(normal)], url_origin(normal)) == ("/", normal[: path_start(normal)])


def test_relative_references_of_ftp_and_gopher() -> None:
    folder = LinkResolver("ftp://h/pub/")
    assert [
        folder.resolve(each)
        for each in ("./a%20b", "./d/", "..", "/x", "http://w", "./q%3Fr", "?q", "a;type=i")
    ] == [
        "ftp://h/pub/a%20b",
        "ftp://h/pub/d/",
        "ftp://h/",
        "ftp://h/x",
        "http://w/",
        "ftp://h/pub/q%3Fr",
        "ftp://h/pub/%3Fq",
        "ftp://h/pub/a",
    ]
    menu = LinkResolver("gopher://h/h/dir/page.html")
    targets = [menu.resolve(each) for each in ("other.html", "/1/menu", "gopher://g/1")]
    assert targets == ["gopher://h/h/dir/other.html", "gopher://h/1/menu", "gopher://g/"]
    assert LinkResolver("http://h/d/").resolve("ftp://f/x;type=i") == "ftp://f/x"
    assert LinkResolver("http://h/d/").resolve("telnet://f/") == Refusal.SCHEME


def test_parts_and_keys_of_ftp_and_gopher_urls() -> None:
    for url, start in (
        ("http://h/a", 8),
        ("https://h/a", 9),
        ("ftp://h/a", 7),
        ("gopher://h/0a", 10),
        ("ftp://h", -1),
        ("gopher://h", -1),
    ):
        assert path_start(url) == start
    assert [scheme_of(url) for url in ("ftp://h/", "gopher://h/", "https://h/")] == [
        "ftp://",
        "gopher://",
        "https://",
    ]
    assert [hostname(url) for url in ("ftp://h:2121/a", "gopher://[::1]:7070/", "gopher://h/")] == [
        "h",
        "[::1]",
        "h",
    ]
    identifier = Identifier(DOMAINS, 64)
    ids = [
        identifier.identify(url)
        for url in ("ftp://h/a", "gopher://h/a", "http://h/a", "gopher://i/a")
    ]
    assert [type(each) for each in ids] == [UrlId] * 4
    assert [each.host_key for each in ids] == [host_key("h")] * 3 + [host_key("i")]
    assert len({each.url_key for each in ids}) == 4


def _admitted(seeds: list[str], *, other_schemes: bool = False, **settings: object) -> list[str]:
    admission = Admission(
        Collection.model_validate(settings), seeds, DOMAINS, other_schemes=other_schemes
    )
    urls = [
        "http://h.example/pub/a",
        "ftp://h.example/pub/a",
        "ftp://h.example/a",
        "gopher://h.example/1a",
        "ftp://ftp.h.example/a",
    ]
    return [url for url in urls if admission.refuse(url) is None]


def test_scope_of_ftp_and_gopher() -> None:
    web, ftp = "http://h.example/pub/a", "ftp://h.example/pub/a"
    assert _admitted([web]) == [web]
    assert _admitted([web], other_schemes=True) == [
        web,
        ftp,
        "ftp://h.example/a",
        "gopher://h.example/1a",
    ]
    assert _admitted([ftp]) == [web, ftp, "ftp://h.example/a"]
    assert _admitted([ftp], scope="prefix") == [ftp]
    assert _admitted([web], scope="domain", other_schemes=True)[-1] == "ftp://ftp.h.example/a"
    assert _admitted([web], scope="any") == [web]
    assert "fetch.other_schemes is off" in Admission(Collection(), [web], DOMAINS).explain(ftp)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("gopher://h/9/a.zip", "archive"),
        ("gopher://h/1/a.zip", ""),
        ("gopher://h/0/a.png", ""),
        ("gopher://h/I/a", "image"),
        ("gopher://h/7/find", "search"),
        ("gopher://h/9/a.pdf", ""),
        ("gopher://h/", ""),
        ("ftp://h/a.zip", "archive"),
        ("ftp://h/a.zip/", ""),
        ("ftp://h/pub/README", ""),
    ],
)
def test_unindexable_ftp_and_gopher_urls(url: str, reason: str) -> None:
    assert unindexable(url) == reason
