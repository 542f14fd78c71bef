"""Admission of URLs by scope and patterns, and optional rewriting rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.config.settings import Collection
from lycosa.core.errors import Refusal, UrlError
from lycosa.url import scope as module
from lycosa.url.domain import Domains
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission, hostname, url_origin
from tests.url.strategies import absolute

DOMAINS = Domains("com\nuk\nco.uk\norg\n")
SCOPE, PATTERN, TOO_LONG, SCHEME = Refusal.SCOPE, Refusal.PATTERN, Refusal.TOO_LONG, Refusal.SCHEME


def make_admission(*seeds: str, **settings: Any) -> Admission:
    return Admission(Collection(**settings), seeds, DOMAINS)


@pytest.mark.parametrize(
    ("scope", "seeds", "url", "expected"),
    [
        ("host", ["http://www.example.co.uk/a/"], "http://www.example.co.uk/b?c", None),
        ("host", ["http://www.example.co.uk/a/"], "https://www.example.co.uk/", None),
        ("host", ["https://www.example.co.uk:443/"], "http://www.example.co.uk/", None),
        ("host", ["http://www.example.co.uk/"], "http://example.co.uk/", SCOPE),
        ("host", ["http://www.example.co.uk/"], "http://www.example.co.uk:8080/", SCOPE),
        ("host", ["http://www.example.co.uk/"], "http://www.example.co.uk.evil.com/", SCOPE),
        ("host", ["http://127.0.1.14:8600/"], "http://127.0.1.14:8600/x", None),
        ("host", ["http://127.0.1.14:8600/"], "http://127.0.1.14:8601/x", SCOPE),
        ("host", ["http://[::1]:80/"], "http://[0:0::1]/x", None),
        ("host", ["http://h.com/", "http://g.com/"], "http://g.com/x", None),
        ("host", ["http://h.com/"], "http://h.com./", SCOPE),
        ("host", [], "http://h.com/", SCOPE),
        ("domain", ["http://www.example.co.uk/a/"], "https://other.example.co.uk:8443/", None),
        ("domain", ["http://www.example.co.uk/a/"], "http://example.co.uk./", None),
        ("domain", ["http://www.example.co.uk/a/"], "http://example2.co.uk/", SCOPE),
        ("domain", ["http://www.example.co.uk/a/"], "http://co.uk/", SCOPE),
        ("domain", ["http://127.0.0.1/"], "http://127.0.0.1:81/", None),
        ("domain", ["http://127.0.0.1/"], "http://126.0.0.1/", SCOPE),
        ("prefix", ["http://h.com/docs/index.html?q=/x/y"], "http://h.com/docs/a/b", None),
        ("prefix", ["http://h.com/docs/"], "http://h.com/docs/", None),
        ("prefix", ["http://h.com/docs/"], "http://h.com/docs", SCOPE),
        (
            "prefix",
            ["http://h.com/docs"],
            "http://h.com/other",
            None,
        ),  # the folder of the seed is /
        ("prefix", ["http://h.com/docs/"], "http://h.com/docs2/", SCOPE),
        ("prefix", ["http://h.com/docs/"], "https://h.com/docs/", None),
        ("prefix", ["https://h.com/docs/"], "https://h.com/", SCOPE),
        ("prefix", ["http://h.com/docs/"], "http://h.com:81/docs/", SCOPE),
        ("prefix", ["http://h.com"], "http://h.com.evil.org/", SCOPE),
        ("prefix", ["http://h.com/docs/"], "http://h.com/docs/%2E%2E/x", SCOPE),
        ("prefix", [], "http://h.com/", SCOPE),
        ("any", [], "http://h.com/", None),
        ("any", ["http://h.com/"], "https://other/", None),
    ],
)
def test_scopes(scope: str, seeds: list[str], url: str, expected: Refusal | None) -> None:
    admission = make_admission(*seeds, scope=scope)
    for _ in range(2):  # computed, then cached
        assert admission.refuse(normalise(url)) is expected
    assert admission.explain(normalise(url)).startswith(
        "admitted" if expected is None else "refused (scope)"
    )


@pytest.mark.parametrize(
    ("settings", "url", "expected"),
    [
        ({"deny": (r"\.zip$",)}, "http://h.com/a.zip", PATTERN),
        ({"deny": (r"\.zip$",)}, "http://h.com/a.zip?x", None),
        ({"deny": ("ogi",)}, "http://h.com/login", PATTERN),
        ({"allow": ("/news/",)}, "http://h.com/a/news/b", None),
        ({"allow": ("/news/", "/sport/")}, "http://h.com/sport/b", None),
        ({"allow": ("/news/",)}, "http://h.com/", PATTERN),
        ({"allow": ("/news/",), "deny": ("print",)}, "http://h.com/news/print", PATTERN),
        ({"allow": ("^http://h",)}, "http://h.com/", None),
        ({"allow": ("(?i)NEWS",)}, "http://h.com/news", None),
    ],
)
def test_patterns(settings: dict[str, Any], url: str, expected: Refusal | None) -> None:
    admission = make_admission("http://h.com/", **settings)
    assert admission.refuse(url) is expected
    assert admission.explain(url).startswith(
        "admitted" if expected is None else "refused (pattern)"
    )


def test_url_length_limit() -> None:
    admission = make_admission("http://h.com/", max_url_length=64)
    assert admission.refuse("http://h.com/" + "a" * 51) is None
    assert admission.refuse("http://h.com/" + "a" * 52) is TOO_LONG


def test_precedence_of_reasons() -> None:
    admission = make_admission("http://h.com/", max_url_length=64, deny=("x",))
    assert admission.refuse("ftp://x/" + "x" * 100) is SCHEME
    assert admission.refuse("http://x.com/" + "x" * 100) is TOO_LONG
    assert admission.refuse("http://x.com/x") is SCOPE
    assert admission.refuse("http://h.com/x") is PATTERN
    assert admission.refuse("http://h.com/y") is None


def test_seeds_are_normalised_and_rewritten() -> None:
    admission = make_admission(
        "HTTP://u:p@EXAMPLE.org.:80//a//b?utm_x=1",
        scope="prefix",
        drop_trailing_dot=True,
        merge_slashes=True,
    )
    assert admission.refuse("http://example.org/a/c") is None
    assert admission.refuse("http://example.org/b") is SCOPE
    with pytest.raises(UrlError):
        make_admission("example.org")


@pytest.mark.parametrize(
    ("settings", "url", "expected"),
    [
        ({}, "http://h.com/x", "admitted: scope = host: h.com is the host of a seed"),
        (
            {},
            "http://g.com:8/x",
            "refused (scope): g.com:8 is not the host and port of a seed (h.com)",
        ),
        (
            {"scope": "domain"},
            "http://www.h.com/",
            "admitted: scope = domain: h.com is the registrable domain of a seed",
        ),
        (
            {"scope": "domain"},
            "http://www.g.com/",
            "refused (scope): g.com is not the registrable domain of a seed (h.com)",
        ),
        (
            {"scope": "prefix"},
            "http://h.com/d/e",
            "admitted: scope = prefix: below http://h.com/d/, the folder of a seed",
        ),
        (
            {"scope": "prefix"},
            "http://h.com/",
            "refused (scope): not below the folder of a seed (http://h.com/d/)",
        ),
        ({"scope": "any"}, "http://g.com/", "admitted: scope = any"),
        (
            {"allow": ("x",)},
            "http://h.com/x",
            "admitted: scope = host: h.com is the host of a seed; allow 'x' matches",
        ),
        ({"allow": ("x",)}, "http://h.com/", "refused (pattern): no allow expression matches (x)"),
        ({"deny": ("x", "y")}, "http://h.com/y", "refused (pattern): deny 'y' matches"),
        ({}, "mailto:x", "refused (scheme): only http, https, ftp and gopher are crawled"),
        (
            {"max_url_length": 64},
            "http://h.com/" + "a" * 60,
            "refused (too_long): 73 characters, max_url_length is 64",
        ),
    ],
)
def test_explanations(settings: dict[str, Any], url: str, expected: str) -> None:
    assert make_admission("http://h.com/d/", **settings).explain(url) == expected


def test_explanation_of_many_seeds_is_short() -> None:
    admission = make_admission(*(f"http://h{number}.com/" for number in range(9)))
    assert admission.explain("http://g.com/").endswith("(h0.com, h1.com, h2.com and 6 more)")
    assert make_admission().explain("http://g.com/").endswith("(no seeds)")


@given(absolute, st.sampled_from(("host", "domain", "prefix", "any")))
def test_seed_is_in_its_own_scope(text: str, scope: str) -> None:
    try:
        url = normalise(text)
    except UrlError:
        return
    admission = make_admission(text, scope=scope)
    assert admission.refuse(url) is None
    assert admission.explain(url).startswith("admitted: ")


def test_cached_origins_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ORIGINS", 10)
    admission = make_admission("http://h.com/")
    for number in range(100):
        assert admission.refuse(f"http://h{number}.com/") is SCOPE
        assert admission.refuse("http://h.com/") is None
        assert len(admission._origins) <= 10


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("http://h/", "http://h", "h"),
        ("https://h.com:8443/a:b?c", "https://h.com:8443", "h.com"),
        ("http://[::1]/", "http://[::1]", "[::1]"),
        ("http://[::1]:81/", "http://[::1]:81", "[::1]"),
        ("http://1.2.3.4:5/", "http://1.2.3.4:5", "1.2.3.4"),
    ],
)
def test_origin_and_hostname(url: str, origin: str, host: str) -> None:
    assert (url_origin(url), hostname(url)) == (origin, host)


@pytest.mark.parametrize("url", ["", "mailto:x", "h/", "telnet://h/"])
def test_origin_and_hostname_of_other_texts_are_refused(url: str) -> None:
    for part in (url_origin, hostname):
        with pytest.raises(UrlError):
            part(url)


def test_host_is_named_by_a_seed_or_its_scope() -> None:
    seeds = ["https://www.example.org/docs/"]
    anywhere = Admission(Collection(scope="any"), seeds, DOMAINS)
    assert anywhere.is_named("https://www.example.org/x")
    assert not anywhere.is_named("https://blog.example.org/x")
    assert Admission(Collection(scope="domain"), seeds, DOMAINS).is_named(
        "https://blog.example.org/x"
    )


JAVA = "0A1B2C3D4E5F60718293A4B5C6D7E8F9"
PHP = "q2w3e4r5t6y7u8i9o0p1a2s3d4"

SESSIONS = [
    ("http://h/a;jsessionid=" + JAVA, "http://h/a"),
    ("http://h/a;JSESSIONID=" + JAVA + ".node1?b=1", "http://h/a?b=1"),
    ("http://h/a;jsessionid=x!1!2;v=2/c", "http://h/a;v=2/c"),
    ("http://h/a;jsessionid=x/b;jsessionid=y", "http://h/a/b"),
    ("http://h/a;jsessionid", "http://h/a"),
    ("http://h/a;jsessionids=1", "http://h/a;jsessionids=1"),
    # the remaining segment is a dot segment
    ("http://h/a/..;jsessionid=x/b", "http://h/b"),
    ("http://a;jsessionid=1/x", "http://a;jsessionid=1/x"),  # part of the host name
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
def test_session_ids_are_removed(url: str, expected: str) -> None:
    assert normalise(url) == url
    assert Rules(Collection(drop_session_ids=True)).apply(url) == expected
    assert Rules(Collection()).apply(url) is url


@pytest.mark.parametrize(("patterns", "url", "expected"), PARAMETERS)
def test_parameters_are_removed(patterns: tuple[str, ...], url: str, expected: str) -> None:
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
def test_repeated_slashes_are_merged(url: str, expected: str) -> None:
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
def test_trailing_dot_of_the_host_is_removed(url: str, expected: str) -> None:
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
def test_rewritten_url_is_normalised_and_stable(collection: Collection, text: str) -> None:
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
