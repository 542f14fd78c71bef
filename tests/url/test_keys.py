"""Identity of URLs."""

from __future__ import annotations

import pytest
import xxhash
from hypothesis import given

from lycosa.core.errors import UrlError
from lycosa.url import keys as module
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier, host_key, url_key
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname
from tests.url.strategies import absolute

DOMAINS = Domains("com\nuk\nco.uk\norg\n")


def test_keys_are_fixed_for_good() -> None:
    # Stored in every table: computed once with the reference implementation (xxhsum -H3), never to
    # change.
    assert (host_key(""), url_key("")) == (0x2D06800538D394C2, host_key(""))
    assert host_key("example.org") == int(xxhash.xxh3_64(b"example.org").hexdigest(), 16)
    assert url_key("http://example.org/") != host_key("example.org")


def test_identify() -> None:
    identifier = Identifier(DOMAINS, 64)
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
    ("url", "host", "owner"),
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
def test_hosts_and_owners(url: str, host: str, owner: str) -> None:
    result = Identifier(DOMAINS, 1 << 40).identify(url)
    assert (result.host, result.host_key) == (host, host_key(host))
    assert result.partition == xxhash.xxh3_64_intdigest(owner.encode()) % (1 << 40)


def test_ports_and_schemes_share_a_host() -> None:
    identifier = Identifier(DOMAINS, 64)
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


def test_hosts_known_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ORIGINS", 10)
    identifier = Identifier(DOMAINS, 64)
    for number in range(100):
        assert identifier.identify(f"http://h{number}.com/").host == f"h{number}.com"
        assert len(identifier._origins) <= 10


def test_refused() -> None:
    with pytest.raises(UrlError):
        Identifier(DOMAINS, 64).identify("mailto:a@b")
    with pytest.raises(ValueError, match="at least one partition"):
        Identifier(DOMAINS, 0)
