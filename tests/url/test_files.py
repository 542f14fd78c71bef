"""URLs of ftp and gopher: one form, whoever wrote it, and nothing in them that a server could take
for a command.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.config.settings import Collection
from lycosa.core.errors import Refusal, UrlError
from lycosa.core.records import UrlId
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.file_types import unindexable
from lycosa.url.keys import Identifier, host_key
from lycosa.url.normalise import LinkResolver, normalise
from lycosa.url.schemes import path_start, scheme_of
from lycosa.url.scope import Admission, hostname, url_origin

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
def test_one_form(written: str, normal: str) -> None:
    assert normalise(written) == normal
    assert normalise(normal) == normal


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
def test_what_is_none(written: str) -> None:
    with pytest.raises(UrlError) as caught:
        normalise(written)
    assert caught.value.reason == Refusal.UNPARSABLE


@given(
    st.sampled_from(
        ["ftp://h.example", "gopher://h.example", "gopher://h.example:7070/1", "ftp://h/a/"]
    ),
    st.text(max_size=40),
)
def test_any_text(start: str, rest: str) -> None:
    try:
        normal = normalise(start + rest)
    except UrlError:
        return
    assert normalise(normal) == normal
    assert normal.isascii()
    assert normal.isprintable()
    assert normal[path_start(normal)] == "/"
    assert url_origin(normal) == normal[: path_start(normal)]


def test_references() -> None:
    folder = LinkResolver("ftp://h/pub/")
    assert [
        folder.resolve(each)
        for each in ("./a%20b", "./d/", "..", "/x", "http://w", "./q%3Fr", "?q", "a;type=i")
    ] == [
        *(
            "ftp://h/pub/a%20b",
            "ftp://h/pub/d/",
            "ftp://h/",
            "ftp://h/x",
            "http://w/",
            "ftp://h/pub/q%3Fr",
            "ftp://h/pub/%3Fq",
        ),
        "ftp://h/pub/a",
    ]
    menu = LinkResolver("gopher://h/h/dir/page.html")
    led = [menu.resolve(each) for each in ("other.html", "/1/menu", "gopher://g/1")]
    assert led == ["gopher://h/h/dir/other.html", "gopher://h/1/menu", "gopher://g/"]
    assert LinkResolver("http://h/d/").resolve("ftp://f/x;type=i") == "ftp://f/x"
    assert LinkResolver("http://h/d/").resolve("telnet://f/") == Refusal.SCHEME


def test_parts() -> None:
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


def test_scope() -> None:
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
def test_what_cannot_be_indexed(url: str, reason: str) -> None:
    assert unindexable(url) == reason
