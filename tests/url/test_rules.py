"""Opt-in rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.config.settings import Collection
from lycosa.core.errors import UrlError
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from tests.url.strategies import absolute

JAVA = "0A1B2C3D4E5F60718293A4B5C6D7E8F9"
PHP = "q2w3e4r5t6y7u8i9o0p1a2s3d4"

SESSIONS = [
    ("http://h/a;jsessionid=" + JAVA, "http://h/a"),
    ("http://h/a;JSESSIONID=" + JAVA + ".node1?b=1", "http://h/a?b=1"),
    ("http://h/a;jsessionid=x!1!2;v=2/c", "http://h/a;v=2/c"),
    ("http://h/a;jsessionid=x/b;jsessionid=y", "http://h/a/b"),
    ("http://h/a;jsessionid", "http://h/a"),
    ("http://h/a;jsessionids=1", "http://h/a;jsessionids=1"),
    # the segment that is uncovered is a dot segment
    ("http://h/a/..;jsessionid=x/b", "http://h/b"),
    ("http://a;jsessionid=1/x", "http://a;jsessionid=1/x"),  # a host
    ("http://h/?jsessionid=" + JAVA, "http://h/"),
    ("http://h/?a=1&PHPSESSID=" + PHP + "&b=2", "http://h/?a=1&b=2"),
    ("http://h/?phpsessid=abc", "http://h/"),
    ("http://h/?ASPSESSIONIDQQRADDAB=MBHHDGCBGGBJBMAEGLDAJLGF&x", "http://h/?x"),
    ("http://h/?ASP.NET_SessionId=abc", "http://h/"),
    ("http://h/(S(rm3nfyiwlmd2so45f1v4qkjt))/page.aspx", "http://h/page.aspx"),
    ("http://h/x/(A(abcdefghijklmnopqrstuvwx)S(rm3nfyiwlmd2so45f1v4qkjt))/", "http://h/x/"),
    ("http://h/(S(short))/page.aspx", "http://h/(S(short))/page.aspx"),
    ("http://h/?CFID=123&CFTOKEN=4a5b6c-7", "http://h/"),
    ("http://h/?cfid=abc", "http://h/?cfid=abc"),
    ("http://h/?osCsid=1&zenid=2&p=3", "http://h/?p=3"),
    ("http://h/?sid=" + JAVA, "http://h/"),
    ("http://h/?sid=" + PHP, "http://h/"),
    ("http://h/?session_id=" + JAVA.lower(), "http://h/"),
    ("http://h/?sid=3", "http://h/?sid=3"),
    ("http://h/?sid=world-news", "http://h/?sid=world-news"),
    (
        "http://h/?sid=internationalwirtschaftsnachrichten",
        "http://h/?sid=internationalwirtschaftsnachrichten",
    ),
    ("http://h/?sid=12345678901234567890123", "http://h/?sid=12345678901234567890123"),
    ("http://h/?session=morning", "http://h/?session=morning"),
    ("http://h/?next=PHPSESSID%3D1", "http://h/?next=PHPSESSID%3D1"),
    ("http://h/?inside=1", "http://h/?inside=1"),
    ("http://h/?", "http://h/?"),
    ("http://h/", "http://h/"),
]

PARAMETERS = [
    (("utm_*",), "http://h/?utm_source=a&b=1&utm_medium=c", "http://h/?b=1"),
    (("utm_*",), "http://h/?utm_source=a", "http://h/"),
    (("utm_*",), "http://h/?b=1&&c", "http://h/?b=1&&c"),
    (("utm_*",), "http://h/?b&utm_x&", "http://h/?b&"),
    (("utm_*",), "http://h/?UTM_source=a", "http://h/?UTM_source=a"),  # names are case-sensitive
    (("utm_*",), "http://h/?xutm_source=a", "http://h/?xutm_source=a"),
    (("utm_*",), "http://h/utm_source=a", "http://h/utm_source=a"),
    (("utm_*",), "http://h/?", "http://h/?"),
    (("fbclid", "gclid"), "http://h/?fbclid=1&gclid=2&fbclids=3", "http://h/?fbclids=3"),
    (("fbclid",), "http://h/?fbclid", "http://h/"),
    (("*id",), "http://h/?id=1&sid=2&idx=3", "http://h/?idx=3"),
    (("a**b",), "http://h/?ab=1&axb=2&b=3", "http://h/?b=3"),
    (("*",), "http://h/?a=1&b", "http://h/"),
    (("a.c",), "http://h/?abc=1&a.c=2", "http://h/?abc=1"),
    (("f[x]",), "http://h/?f%5Bx%5D=1&f[x]=2&fx=3", "http://h/?fx=3"),
    (("ü",), "http://h/?%C3%BC=1&u=2", "http://h/?u=2"),
]


@pytest.mark.parametrize(("url", "expected"), SESSIONS)
def test_session_ids(url: str, expected: str) -> None:
    assert normalise(url) == url
    assert Rules(Collection(drop_session_ids=True)).apply(url) == expected
    assert Rules(Collection()).apply(url) is url


@pytest.mark.parametrize(("patterns", "url", "expected"), PARAMETERS)
def test_parameters(patterns: tuple[str, ...], url: str, expected: str) -> None:
    assert normalise(url) == url
    assert Rules(Collection(drop_parameters=patterns)).apply(url) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h//a///b//", "http://h/a/b/"),
        ("http://h//", "http://h/"),
        ("http://h/a/b", "http://h/a/b"),
        ("http://h/a?x=//b", "http://h/a?x=//b"),
        ("http://h//a?x=http://y//", "http://h/a?x=http://y//"),
        ("http://h/a/%2F/b", "http://h/a/%2F/b"),
    ],
)
def test_slashes(url: str, expected: str) -> None:
    assert Rules(Collection(merge_slashes=True)).apply(url) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.org./a", "http://example.org/a"),
        ("https://example.org.:8443/a", "https://example.org:8443/a"),
        ("http://example.org/a.", "http://example.org/a."),
        ("http://example.org/a./b.:/", "http://example.org/a./b.:/"),
        ("http://localhost./", "http://localhost/"),
        ("http://./", "http://./"),
        ("http://a../", "http://a../"),
    ],
)
def test_trailing_dot(url: str, expected: str) -> None:
    assert normalise(url) == url
    assert Rules(Collection(drop_trailing_dot=True)).apply(url) == expected


collections = st.builds(
    Collection,
    drop_parameters=st.sampled_from(((), ("utm_*",), ("a*", "%*"))),
    drop_session_ids=st.booleans(),
    merge_slashes=st.booleans(),
    drop_trailing_dot=st.booleans(),
)
pieces = st.sampled_from(
    (
        "/",
        "/..",
        "..",
        ";jsessionid=x",
        ";v",
        "?",
        "&",
        "PHPSESSID=1",
        "a=1",
        "utm_x=1",
        "%",
        "%2",
        "45",
        "(S(aaaaaaaaaaaaaaaaaaaaaaaa))",
        ".",
    )
)
sessions = st.builds(
    lambda host, parts: f"http://{host}/{''.join(parts)}",
    st.sampled_from(("h", "h.", "a..", ".", "1.2.3.4.")),
    st.lists(pieces, max_size=8),
)


@given(collections, absolute | sessions)
def test_result_is_normalised_and_stays(collection: Collection, text: str) -> None:
    try:
        url = normalise(text)
    except UrlError:
        return
    rules = Rules(collection)
    once = rules.apply(url)
    assert normalise(once) == once
    assert rules.apply(once) == once
    assert len(once) <= len(url)
    if not rules.active:
        assert once is url
