"""Registrable domains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from lycosa.url import domain as module
from lycosa.url.domain import Domains, bundled_suffix_list

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
OURS = Domains(LIST)
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
def test_table(host: str, expected: str) -> None:
    assert OURS.registrable(host) == expected
    assert OURS.registrable(host) == expected


def test_the_list_is_the_one_given() -> None:
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
def test_properties(host: str) -> None:
    result = BUNDLED.registrable(host)
    assert host == result or host.endswith("." + result)
    assert BUNDLED.registrable(result) == result
    assert BUNDLED.registrable(host + ".") == result
    assert BUNDLED.registrable("x." + result).endswith(result)
    assert result == (REFERENCE.privatesuffix(host) or host)


def test_hosts_known_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_HOSTS", 10)
    domains = Domains(LIST)
    for number in range(100):
        assert domains.registrable(f"www.h{number}.co.uk") == f"h{number}.co.uk"
        assert len(domains._cached) <= 10


def test_the_same_list_is_read_once() -> None:
    one, other = Domains(LIST), Domains("".join(list(LIST)))
    assert (one.registrable("a.b.co.uk"), other.registrable("c.b.co.uk")) == ("b.co.uk", "b.co.uk")
    assert one._rules is other._rules
