"""Exclusion rules match the same URLs in Python and in table queries."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.errors import UsageError
from lycosa.store.exclusion.exclusions import Exclusions, parse_rule
from lycosa.store.tables.visible import is_excluded
from lycosa.url.keys import host_key
from lycosa.url.scope import hostname


def make_exclusions(*texts: str) -> Exclusions:
    exclusions = Exclusions()
    exclusions.add(map(parse_rule, texts), 1)
    return exclusions


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("host:WWW.Example.ORG", "host:www.example.org"),
        ("host: bücher.example", "host:xn--bcher-kva.example"),
        ("host:[2001:DB8::1]", "host:[2001:db8::1]"),
        ("domain:example.org.", "domain:example.org"),
        ("domain:github.io", "domain:github.io"),
        ("domain:localhost", "domain:localhost"),
        ("host:com", "host:com"),
        ("prefix:https://www.example.org/a b/", "prefix:www.example.org/a%20b/"),
        ("prefix:www.example.org:8080/x", "prefix:www.example.org:8080/x"),
        ("prefix:http://www.example.org", "prefix:www.example.org/"),
        ("prefix:www.example.org:443/x", "prefix:www.example.org/x"),
        ("www.example.org:443", "host:www.example.org"),
    ],
)
def test_rules_are_normalised(text: str, normalised: str) -> None:
    assert parse_rule(text.replace(": ", ":")) == normalised
    assert parse_rule(normalised) == normalised


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:",
        "host:a/b",
        "host:a b",
        "domain:a@b",
        "prefix:",
        "prefix:telnet://a/",
        "example.org:",
        "path:/x",
        "a b",
        "domain:.",
        "host:*",
        "domain:*.example.org",
        "domain:.example.org",
        "host:example.org:8080",
        "host:[::1]:8080",
        "domain:com",
        "domain:co.uk",
        "domain:xn--p1ai",
        "domain:рф",
    ],
)
def test_invalid_rules_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rule(text)


@pytest.mark.parametrize(
    ("rule", "url", "excluded"),
    [
        ("host:a.example", "http://a.example/", True),
        ("host:a.example", "https://a.example:8080/x", True),
        ("host:a.example", "http://a.example./", True),
        ("host:a.example", "http://b.a.example/", False),
        ("host:a.example", "http://aa.example/", False),
        ("domain:a.example", "http://a.example/", True),
        ("domain:a.example", "http://x.y.a.example./", True),
        ("domain:a.example", "http://xa.example/", False),
        ("domain:a.example", "http://example/", False),
        ("prefix:http://a.example/p/", "http://a.example/p/x", True),
        ("prefix:http://a.example/p/", "https://a.example/p/", True),
        ("prefix:http://a.example/p/", "http://a.example/p", False),
        ("prefix:http://a.example/p/", "http://a.example:81/p/x", False),
        ("prefix:http://a.example/p/", "http://b.example/?u=http://a.example/p/", False),
        ("host:[2001:db8::1]", "http://[2001:db8::1]:80/x", True),
    ],
)
def test_rule_matches_urls(rule: str, url: str, excluded: bool) -> None:
    exclusions = make_exclusions(rule)
    assert exclusions.excluded(url, hostname(url)) == excluded
    assert is_excluded_in_table(exclusions, url) == excluded


def test_without_rules_nothing_is_excluded() -> None:
    assert not Exclusions()
    assert not Exclusions().excluded("http://a.example/", "a.example")
    assert is_excluded(Exclusions(), "urls") is None
    assert is_excluded(make_exclusions("prefix:http://a.example/"), "hosts") is None


def test_repeated_rule_keeps_its_entry() -> None:
    exclusions = make_exclusions("host:a.example")
    exclusions.add(["host:a.example", "host:b.example"], 7)
    assert exclusions.rules == {"host:a.example": 1, "host:b.example": 7}


@pytest.mark.parametrize(
    ("rule", "host", "domain", "excluded"),
    [
        ("host:a.example", "a.example", "a.example", True),
        ("host:a.example", "", "a.example", False),  # the registrable domain's own row
        ("domain:a.example", "", "a.example", True),
        ("domain:a.example", "x.a.example", "a.example", True),
        ("domain:a.example", "b.example", "b.example", False),
    ],
)
def test_rule_matches_host_rows(rule: str, host: str, domain: str, excluded: bool) -> None:
    hidden = is_excluded(make_exclusions(rule), "hosts")
    assert hidden is not None
    assert (
        pl.DataFrame({"host": [host], "registrable_domain": [domain]}).select(hidden).item()
        == excluded
    )


_hosts = st.sampled_from(
    ["a.example", "b.a.example", "c.b.a.example", "xa.example", "example", "b.example."]
)
_paths = st.sampled_from(["/", "/p", "/p/", "/p/x", "/q?p=/p/"])
_rules = st.lists(
    st.one_of(
        _hosts.map("host:{}".format),
        _hosts.map("domain:{}".format),
        st.builds("prefix:http://{}{}".format, _hosts, _paths),
    ),
    max_size=4,
)


@given(_rules, st.sampled_from(["http", "https"]), _hosts, st.sampled_from(["", ":81"]), _paths)
def test_python_and_table_queries_agree(
    texts: list[str], scheme: str, name: str, port: str, path: str
) -> None:
    url = f"{scheme}://{name}{port}{path}"
    exclusions = make_exclusions(*texts)
    assert exclusions.excluded(url, hostname(url)) == is_excluded_in_table(exclusions, url)


def is_excluded_in_table(exclusions: Exclusions, url: str) -> bool:
    hidden = is_excluded(exclusions, "urls")
    frame = pl.DataFrame(
        {"url": [url], "host_key": [host_key(hostname(url))]},
        schema={"url": pl.String, "host_key": pl.UInt64},
    )
    return hidden is not None and bool(frame.select(hidden).item())
