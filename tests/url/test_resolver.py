"""Link resolution equals a reference and the vectors of the standard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lycosa.core.errors import Refusal, UrlError
from lycosa.url import normalise as module
from lycosa.url.normalise import MAX_URL_LENGTH, LinkResolver, normalise
from tests.url.strategies import absolute, hrefs, normalised_escapes
from tests.url.vectors import vectors

BASE = "http://example.org:8080/docs/lib/page.html?x=1"

bases = st.sampled_from(
    (
        BASE,
        "http://h/",
        "https://h.example/a",
        "https://h.example/a/b%2F/..%41/c/?q#f",
        "http://u:p@[::1]/x//y/z",
        "http://h.example/%2/4",
    )
)
plain = st.text("abAB/._-~?=&:%234E7F;,@+ #", max_size=12)


def reference(base: str, href: str) -> str | Refusal:
    """Resolve by the standard's join and `normalise`.

    Schemes that are not crawled give `Refusal.SCHEME`, even if the URL is invalid.
    """
    text = href.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    scheme = re.match(
        r"([a-z][a-z0-9+.-]*):",
        re.sub(r"[\t\n\r]", "", text.lstrip("".join(map(chr, range(33))))),
        re.IGNORECASE,
    )
    # always absolute, because the scheme differs from that of the base
    if scheme and scheme[1].lower() in ("ftp", "gopher"):
        try:
            return normalise(text)
        except UrlError as error:
            return error.reason
    if scheme and scheme[1].lower() not in ("http", "https"):
        return Refusal.SCHEME
    if not ada_url.URL.can_parse(text, base):
        return Refusal.UNPARSABLE
    return normalise(ada_url.URL(text, base).href)


@given(bases, st.lists(hrefs | absolute | plain, min_size=1, max_size=6))
@example(BASE, ["foo #bar", "foo \t#bar", " #", "\t#x", "#", ""])
@example(BASE, ["http:x", "http:?q", "http:#f", "http:", "https:x", " ?q", "\t?q", "?q"])
@example(
    BASE,
    [
        "ftp://f/",
        "FTP://u:p@f/a;type=i#x",
        "ftp:x",
        "gopher://g/1/a/../b",
        "gopher:x",
        "go\tpher://g",
    ],
)
@example(
    BASE,
    [
        "a",
        "http://q.example/a",
        "http://q.example/b",
        "http://q.example/%41",
        "http://q.example",
        "http://q.example\\b/c",
    ],
)
@example(
    BASE,
    [
        "%2E%2e/x",
        ".%2e",
        "a/..",
        "a/.",
        "..",
        "a/./b",
        "a:b",
        "./a:b",
        "a?b:c",
        "/a:b",
        "/wiki/A:B",
        "//",
        "///",
        "//h",
        "/\\h/x",
    ],
)
def test_resolver_equals_the_reference(base: str, texts: list[str]) -> None:
    resolver = LinkResolver(base)
    for text in (*texts, *texts):  # the second time from the cache
        assert resolver.resolve(text) == reference(base, text)


@given(plain)
@example("./a")
@example("a/../b")
@example("%41")
@example("a" * MAX_URL_LENGTH)
def test_base_of_a_cached_origin_is_normalised(path: str) -> None:
    assert LinkResolver("http://h.example/").base == "http://h.example/"
    base = f"http://h.example/{path}"
    assert result_or_reason(lambda: LinkResolver(base).base) == result_or_reason(
        lambda: normalise(base)
    )


def result_or_reason(make: Callable[[], str]) -> str | Refusal:
    try:
        return make()
    except UrlError as error:
        return error.reason


@given(plain, st.sampled_from(("b?x", "c/", "c/d?", "d%41/e")))
def test_pages_of_a_folder_do_not_share_page_dependent_results(href: str, page: str) -> None:
    one, other = "http://example.org/a/b", f"http://example.org/a/{page}"
    LinkResolver(one).resolve(href)
    assert LinkResolver(other).resolve(href) == reference(other, href)


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("", BASE),
        ("#", BASE),
        ("#top", BASE),
        (" \n", BASE),
        (" #top", BASE),
        ("page.html", "http://example.org:8080/docs/lib/page.html"),
        ("page.html#a?b", "http://example.org:8080/docs/lib/page.html"),
        ("./", "http://example.org:8080/docs/lib/"),
        ("..", "http://example.org:8080/docs/"),
        ("../../../..", "http://example.org:8080/"),
        ("..\\x", "http://example.org:8080/docs/x"),
        ("?q", "http://example.org:8080/docs/lib/page.html?q"),
        ("?", "http://example.org:8080/docs/lib/page.html?"),
        ("/", "http://example.org:8080/"),
        ("/a b", "http://example.org:8080/a%20b"),
        ("//other/p", "http://other/p"),
        ("//", Refusal.UNPARSABLE),
        ("///a", "http://a/"),
        (
            "http:/path",
            "http://example.org:8080/path",
        ),  # relative, because the base has the same scheme
        ("http:path", "http://example.org:8080/docs/lib/path"),
        ("https:path", "https://path/"),
        ("HTTP://HOST", "http://host/"),
        ("http://host:80/", "http://host/"),
        (" \thttp://h/a\n", "http://h/a"),
        ("ü/例", "http://example.org:8080/docs/lib/%C3%BC/%E4%BE%8B"),
        ("%zz", "http://example.org:8080/docs/lib/%zz"),
        ("%7euser", "http://example.org:8080/docs/lib/~user"),
        ("a\x00b", "http://example.org:8080/docs/lib/a%00b"),
        ("\ud800", "http://example.org:8080/docs/lib/%EF%BF%BD"),
        ("http://[fe80::1%25eth0]/", Refusal.UNPARSABLE),
        ("http://h:70000/", Refusal.UNPARSABLE),
        ("javascript:void(0)", Refusal.SCHEME),
        ("JAVASCRIPT:#", Refusal.SCHEME),
        ("java\nscript:x", Refusal.SCHEME),
        ("mailto:a@b?subject=x", Refusal.SCHEME),
        ("data:image/png;base64,AAAA", Refusal.SCHEME),
        ("data:," + "A" * MAX_URL_LENGTH, Refusal.SCHEME),
        ("Special:Random", Refusal.SCHEME),
        ("a" * (MAX_URL_LENGTH + 1), Refusal.TOO_LONG),
        ("a" * MAX_URL_LENGTH, Refusal.TOO_LONG),  # too long after joining
    ],
)
def test_resolve(href: str, expected: str | Refusal) -> None:
    assert LinkResolver(BASE).resolve(href) == expected


def test_length_limit_applies_to_the_joined_url() -> None:
    base = "http://h/" + "a" * (MAX_URL_LENGTH - 12) + "/"
    resolver = LinkResolver(base)
    assert resolver.resolve("bb") == base + "bb"
    assert resolver.resolve("bbb") is Refusal.TOO_LONG
    assert resolver.resolve("/bbb") == "http://h/bbb"


@pytest.mark.parametrize(
    ("base", "reason"),
    [("about:blank", Refusal.SCHEME), ("/relative", Refusal.UNPARSABLE), ("", Refusal.UNPARSABLE)],
)
def test_invalid_base_is_refused(base: str, reason: Refusal) -> None:
    with pytest.raises(UrlError) as caught:
        LinkResolver(base)
    assert caught.value.reason is reason


def test_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ENTRIES", 100)
    monkeypatch.setattr(module, "_MAX_ORIGINS", 10)
    resolved = module._ResolvedLinks()
    monkeypatch.setattr(module, "_resolved", resolved)
    largest = 0
    for number in range(500):
        base = f"http://h/{number}/"
        resolver = LinkResolver(base)
        for href in (
            "a",
            f"b{number}",
            "c" * 300,
            f"http://h{number}.example/x",
            f"http://h{number}.example/y",
            "?q",
        ):
            assert resolver.resolve(href) == reference(base, href)
        largest = max(largest, len(resolved))
        assert len(resolved._origins) <= 10
    assert 50 < largest <= 100
    long_folder = "http://h/" + "f" * 600 + "/"
    assert LinkResolver(long_folder).resolve("a") == long_folder + "a"
    assert long_folder not in resolved._folders


@pytest.mark.parametrize(
    ("encoding", "href", "expected"),
    [
        ("windows-1252", "?q=é#é", "http://h/?q=%E9"),
        # the standard maps this label to windows-1252; paths are UTF-8
        ("iso-8859-1", "/é?q=€", "http://h/%C3%A9?q=%80"),
        ("windows-1251", "http://o/?q=привет", "http://o/?q=%EF%F0%E8%E2%E5%F2"),
        ("windows-1251", "?q=é&b=ы", "http://h/?q=%26%23233%3B&b=%FB"),
        ("koi8-r", "?q=а'б", "http://h/?q=%C1%27%C2"),
        ("euc-jp", "?q=日本", "http://h/?q=%C6%FC%CB%DC"),
        ("shift_jis", "?q=ソ", "http://h/?q=%83\\"),
        ("Shift_JIS", "?q=①−¥", "http://h/?q=%87@%81|\\"),
        ("windows-874", "?q=ก", "http://h/?q=%A1"),
        ("ISO-8859-8-I", "?q=א", "http://h/?q=%E0"),
        ("big5", "?q=中文", "http://h/?q=%A4%A4%A4%E5"),
        ("gb2312", "?q=中文", "http://h/?q=%D6%D0%CE%C4"),
        ("euc-kr", "?q=한", "http://h/?q=%C7%D1"),
        ("windows-1252", "?q=\ud800", "http://h/?q=%26%2365533%3B"),
        ("utf-16", "?q=é", "http://h/?q=%C3%A9"),
        ("no such encoding", "?q=é", "http://h/?q=%C3%A9"),
        ("rot13", "?q=é", "http://h/?q=%C3%A9"),
        ("\0é", "?q=é", "http://h/?q=%C3%A9"),
        ("", "?q=é", "http://h/?q=%C3%A9"),
    ],
)
def test_queries_use_the_encoding_of_the_page(encoding: str, href: str, expected: str) -> None:
    assert LinkResolver("http://h/").resolve(href) == normalise(
        ada_url.join_url("http://h/", href.replace("\ud800", "\ufffd"))
    )
    assert LinkResolver("http://h/", encoding).resolve(href) == expected
    assert normalise(expected) == expected


@given(
    hrefs, st.sampled_from(("windows-1251", "shift_jis", "gbk", "iso-2022-jp", "euc-kr", "big5"))
)
def test_encodings_never_raise_and_do_not_affect_ascii(href: str, encoding: str) -> None:
    result = LinkResolver(BASE, encoding).resolve(href)
    if href.isascii():
        assert result == LinkResolver(BASE).resolve(href)
    elif not isinstance(result, Refusal):
        assert normalise(result) == result


def test_absolute_hrefs_are_cached_by_encoding() -> None:
    href = "http://other.example/search?q=é"
    for _ in range(2):  # computed, then cached
        for folder in ("http://a.example/", "http://a.example/b/", "https://c.example/d/"):
            assert LinkResolver(folder).resolve(href) == "http://other.example/search?q=%C3%A9"
            assert (
                LinkResolver(folder, "windows-1252").resolve(href)
                == "http://other.example/search?q=%E9"
            )


def expected(href: str) -> str:
    """Return the expected result for the href of a vector.

    The fragment and userinfo are removed, and percent-encoding is normalised. FTP and gopher URLs
    have rules of their own (see `test_normalise`).
    """
    if not href.startswith("http"):
        return normalise(href)
    url = ada_url.URL(href)
    url.username = url.password = ""
    return normalised_escapes(url.href.partition("#")[0])


CRAWLED = ("http:", "https:", "ftp:", "gopher:")


def test_url_parsing_vectors() -> None:
    done: Counter[str] = Counter()
    for case in vectors("urltestdata.json"):
        text, base = case["input"], case.get("base")
        if base is None:
            outcome = _outcome_of(text)
        elif not base.startswith(("http://", "https://", "ftp://", "gopher://")):
            done["base of another scheme"] += 1  # only crawled schemes can be a base
            with pytest.raises(UrlError, match="only http, https"):
                LinkResolver(base)
            if not case.get("failure"):
                outcome = _outcome_of(case["href"])
                assert outcome == (
                    expected(case["href"]) if case["protocol"] in CRAWLED else Refusal.SCHEME
                ), case
            continue
        else:
            outcome = LinkResolver(base).resolve(text)
        if case.get("failure"):
            done["failure"] += 1
            assert outcome in (Refusal.UNPARSABLE, Refusal.SCHEME), case
        elif case["protocol"] == "gopher:" and not case["href"].startswith("gopher://"):
            done["no host"] += 1
            assert outcome is Refusal.UNPARSABLE, case
        elif case["protocol"] in CRAWLED:
            done["crawled"] += 1
            assert outcome == expected(case["href"]), case
        else:
            done["another scheme"] += 1
            assert outcome is Refusal.SCHEME, case
    # All cases of the file. A base of another scheme (file:, about:, mailto: …) is refused, so the
    # href of the vector is normalised without joining.
    assert done == {
        "crawled": 256,
        "another scheme": 240,
        "no host": 4,
        "failure": 257,
        "base of another scheme": 134,
    }


def test_host_vectors() -> None:
    cases = vectors("toascii.json")
    assert len(cases) > 80
    for case in cases:
        if case["output"] is None:
            with pytest.raises(UrlError):
                normalise(f"https://{case['input']}/x")
        else:
            assert normalise(f"https://{case['input']}/x") == f"https://{case['output']}/x", case


def test_query_encoding_vectors() -> None:
    passed, different = 0, []
    for case in vectors("percent-encoding.json"):
        for encoding, output in case["output"].items():
            if (
                LinkResolver("http://h/", encoding).resolve(f"?{case['input']}")
                == f"http://h/?{output}"
            ):
                passed += 1
            else:
                different.append((case["input"], encoding))
    assert passed == 14
    # Python's codecs differ from the standard: a control character that ISO-2022-JP cannot encode,
    # and a private-use character that GB18030 (2005) maps and the standard does not.
    assert different == [("\x0eA", "iso-2022-jp"), ("\ue5e5", "gb18030")]


def _outcome_of(text: str) -> str | Refusal:
    try:
        return normalise(text)
    except UrlError as error:
        return error.reason
