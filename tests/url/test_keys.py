"""Keys and partitions of URLs, registrable domains, and contact addresses."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from lycosa.core.errors import UrlError
from lycosa.crawl.session.planning import CONTACT_NEEDED, is_reachable_contact
from lycosa.url import domain as domain_module
from lycosa.url import keys as module
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.keys import Identifier, host_key, url_key
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname
from tests.url.strategies import absolute

DOMAINS = Domains("com\nuk\nco.uk\norg\n")


@pytest.fixture
def identifier() -> Identifier:
    return Identifier(DOMAINS, 64)


def test_keys_never_change() -> None:
    # Keys are stored in every table. The constant was computed with `xxhsum -H3`.
    assert (host_key(""), url_key("")) == (0x2D06800538D394C2, host_key(""))
    assert host_key("example.org") == int(xxhash.xxh3_64(b"example.org").hexdigest(), 16)
    assert url_key("http://example.org/") != host_key("example.org")


def test_identify(identifier: Identifier) -> None:
    result = identifier.identify("https://www.example.co.uk:8443/a?b")
    assert (result.url, result.host) == ("https://www.example.co.uk:8443/a?b", "www.example.co.uk")
    assert result.host_key == host_key("www.example.co.uk")
    assert result.url_key == url_key("https://www.example.co.uk:8443/a?b")
    assert (
        result.partition
        == xxhash.xxh3_64_intdigest(b"example.co.uk") % 64
        == identifier.partition("example.co.uk")
    )
    assert identifier.identify("https://www.example.co.uk:8443/a?b") == result


@pytest.mark.parametrize(
    ("url", "host", "domain"),
    [
        ("http://example.com/", "example.com", "example.com"),
        ("http://a.example.com./", "a.example.com.", "example.com"),
        ("http://10.0.0.1:8000/", "10.0.0.1", "10.0.0.1"),
        ("https://[2001:db8::1]/", "[2001:db8::1]", "[2001:db8::1]"),
        ("https://[2001:db8::1]:8443/", "[2001:db8::1]", "[2001:db8::1]"),
        ("http://localhost/", "localhost", "localhost"),
        ("http://h/", "h", "h"),
    ],
)
def test_host_and_registrable_domain_of_a_url(url: str, host: str, domain: str) -> None:
    result = Identifier(DOMAINS, 1 << 40).identify(url)
    assert (result.host, result.host_key) == (host, host_key(host))
    assert result.partition == xxhash.xxh3_64_intdigest(domain.encode()) % (1 << 40)


def test_host_key_is_independent_of_port_and_scheme(identifier: Identifier) -> None:
    hosts = {
        identifier.identify(url)[1:3]
        for url in ("http://h.com/", "https://h.com/", "http://h.com:81/x")
    }
    assert hosts == {("h.com", host_key("h.com"))}


@given(absolute)
def test_every_url_has_an_identity(text: str) -> None:
    try:
        url = normalise(text)
    except UrlError:
        return
    result = Identifier(DOMAINS, 7).identify(url)
    assert result == (url, hostname(url), host_key(hostname(url)), url_key(url), result.partition)
    assert 0 <= result.partition < 7


def test_cached_origins_are_bounded(
    identifier: Identifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_ORIGINS", 10)
    for number in range(100):
        assert identifier.identify(f"http://h{number}.com/").host == f"h{number}.com"
        assert len(identifier._origins) <= 10


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(UrlError):
        Identifier(DOMAINS, 64).identify("mailto:a@b")
    with pytest.raises(ValueError, match="at least one partition"):
        Identifier(DOMAINS, 0)


LIST = """// a comment
com
uk
co.uk
*.ck
!www.ck
jp
*.kawasaki.jp
!city.kawasaki.jp
cn
公司.cn
// ===BEGIN PRIVATE DOMAINS===
github.io
"""
DOMAINS_OF_LIST = Domains(LIST)
BUNDLED = Domains(bundled_suffix_list())
REFERENCE = PublicSuffixList()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("WWW.Example.COM", "example.com"),
        ("www.example.com.", "example.com"),
        ("example.com.", "example.com"),
        ("www.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("com", "com"),
        ("com.", "com"),
        ("a.b.c.ck", "b.c.ck"),
        ("c.ck", "c.ck"),
        ("a.www.ck", "www.ck"),
        ("x.y.kawasaki.jp", "x.y.kawasaki.jp"),
        ("x.city.kawasaki.jp", "city.kawasaki.jp"),
        ("me.github.io", "me.github.io"),
        ("a.me.github.io", "me.github.io"),
        ("www.食狮.公司.cn", "食狮.公司.cn"),
        ("www.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("a.b.unknown", "b.unknown"),  # the list's default rule is `*`
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("10.1.2.3", "10.1.2.3"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("[::ffff:102:304]", "[::ffff:102:304]"),
        ("a..com", "a..com"),
        ("..", "."),
        (".", "."),
        ("", ""),
    ],
)
def test_registrable_domain(host: str, expected: str) -> None:
    for _ in range(2):  # computed, then cached
        assert DOMAINS_OF_LIST.registrable(host) == expected


def test_custom_suffix_list_is_used() -> None:
    assert Domains("com\n").registrable("a.b.co.uk") == "co.uk"
    assert Domains("uk\nco.uk\n").registrable("a.b.co.uk") == "b.co.uk"


labels = st.sampled_from(
    (
        "a",
        "www",
        "b-c",
        "com",
        "co",
        "uk",
        "jp",
        "city",
        "kawasaki",
        "ck",
        "github",
        "io",
        "xn--55qx5d",
        "公司",
        "cn",
        "org",
    )
)


@given(st.lists(labels, min_size=2, max_size=5).map(".".join))
def test_registrable_domain_equals_the_reference(host: str) -> None:
    result = BUNDLED.registrable(host)
    assert host == result or host.endswith("." + result)
    assert (BUNDLED.registrable(result), BUNDLED.registrable(host + ".")) == (result, result)
    assert BUNDLED.registrable("x." + result).endswith(result)
    assert result == (REFERENCE.privatesuffix(host) or host)


def test_cached_domains_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_module, "_MAX_HOSTS", 10)
    domains = Domains(LIST)
    for number in range(100):
        assert domains.registrable(f"www.h{number}.co.uk") == f"h{number}.co.uk"
        assert len(domains._cached) <= 10


def test_equal_lists_are_parsed_once() -> None:
    one, other = Domains(LIST), Domains("".join(list(LIST)))
    assert (one.registrable("a.b.co.uk"), other.registrable("c.b.co.uk")) == ("b.co.uk", "b.co.uk")
    assert one._rules is other._rules


REACHABLE = (
    "robots@library.edu",
    "mailto:robots@library.edu",
    "Robots <robots@news.library.edu>",
    "müller@bücher.de",
    "https://library.edu/robot",
    "http://library.edu",
    "https://library.edu:8443/robot?lang=de",
    "https://xn--bcher-kva.de/",
    "https://bücher.de/",
    "see https://library.edu/robot, please",
)
UNREACHABLE = (
    "",
    "library",
    "library.edu",
    "robots@",
    "@library.edu",
    "robots@localhost",
    "robots@10.0.0.1",
    "https://127.0.0.1/robot",
    "https://[::1]/",
    "https://localhost/",
    "https:///robot",
    "ftp://library.edu/robot",
    "you@example.org",
    "https://www.example.com/robot",
    "https://newsroom.example/robot",
    "me@machine.local",
    "a@b@library.edu",
    "x@" * 50_000,
)


@pytest.mark.parametrize("contact", REACHABLE)
def test_reachable_contacts(contact: str) -> None:
    assert is_reachable_contact(contact, "lycosa/0.1")
    assert is_reachable_contact("", f"LibraryBot/2 (+{contact})")


@pytest.mark.parametrize("contact", UNREACHABLE)
def test_unreachable_contacts(contact: str) -> None:
    assert not is_reachable_contact(contact, "lycosa/0.1")
    assert not is_reachable_contact("", f"LibraryBot/2 (+{contact})")


def test_one_reachable_contact_is_sufficient() -> None:
    assert is_reachable_contact("you@example.org", "LibraryBot/2 (+https://library.edu/robot)")


def test_error_shows_a_valid_setting() -> None:
    lines = CONTACT_NEEDED.splitlines()
    assert "fetch.contact" in lines[0]
    assert is_reachable_contact(next(line for line in lines if "contact =" in line), "")
