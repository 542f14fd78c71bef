"""robots.txt by the clauses of RFC 9309, and common deviations."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protego import Protego

from lycosa.fetch.robots_txt import (
    MAX_CACHE_MS,
    MAX_CRAWL_DELAY_MS,
    MAX_ROBOTS_BYTES,
    MIN_CACHE_MS,
    Robots,
    cache_ms,
    product_token,
    robots_url,
    robots_verdict,
)
from lycosa.http.decode import parse_head

SITE = "https://site.test"
AGENT = "Lycosa/0.1 (+https://robot.test/)"


def allowed(body: str, path: str, agent: str = AGENT) -> bool:
    return Robots(body, agent).allowed(SITE + path)


@pytest.mark.proves("politeness-robots", "limits-robots-size")
@pytest.mark.parametrize(
    ("clause", "body", "path", "expected"),
    [
        ("2.2.1 token of this crawler", "User-agent: lycosa\nDisallow: /a", "/a", False),
        ("2.2.1 token in any case", "USER-AGENT: LYCOSA\nDisallow: /a", "/a", False),
        ("2.2.1 token with a version", "User-agent: Lycosa/1.0\nDisallow: /a", "/a", False),
        ("2.2.1 groups of other crawlers are ignored", "User-agent: other\nDisallow: /", "/a", True),
        ("2.2.1 a shorter token is another crawler", "User-agent: lycos\nDisallow: /", "/a", True),
        ("2.2.1 a longer token is another crawler", "User-agent: lycosa-news\nDisallow: /", "/a", True),
        ("2.2.1 the group of the token precedes *", "User-agent: *\nDisallow: /\n\nUser-agent: lycosa\nAllow: /", "/a", True),
        ("2.2.1 an empty group of the token precedes *", "User-agent: lycosa\nDisallow:\n\nUser-agent: *\nDisallow: /", "/a", True),
        ("2.2.1 groups of one token are joined", "User-agent: lycosa\nDisallow: /a\n\nUser-agent: lycosa\nDisallow: /b", "/b", False),
        ("2.2.1 one group for several tokens", "User-agent: x\nUser-agent: lycosa\nUser-agent: y\nDisallow: /a", "/a", False),
        ("several tokens in a line", "User-agent: x, Lycosa/2,y\nDisallow: /a\n\nUser-agent: *\nAllow: /", "/a", False),
        ("a comma after the token", "User-agent: lycosa,\nDisallow:\n\nUser-agent: *\nDisallow: /", "/a", True),
        ("2.2.1 *", "User-agent: *\nDisallow: /a", "/a", False),
        ("2.2.1 no group", "Disallow: /a", "/a", True),
        ("2.2.1 other records do not end the list of agents", "User-agent: lycosa\nSitemap: /s.xml\nUser-agent: x\nDisallow: /a", "/a", False),
        ("2.2.1 unknown records do not end the list of agents", "User-agent: lycosa\nNoindex: /n\nUser-agent: x\nDisallow: /a", "/a", False),
        ("2.2.2 prefix", "User-agent: *\nDisallow: /a", "/abc", False),
        ("2.2.2 case counts in paths", "User-agent: *\nDisallow: /A", "/a", True),
        ("2.2.2 the longest match wins", "User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("2.2.2 order does not matter", "User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/c", False),
        ("2.2.2 equal length: allow", "User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        ("2.2.2 no match", "User-agent: *\nDisallow: /a", "/b", True),
        ("2.2.2 an empty disallow", "User-agent: *\nDisallow:", "/a", True),
        ("2.2.2 query", "User-agent: *\nDisallow: /*?sort=", "/list?sort=up", False),
        ("2.2.2 percent-encoding is equal to the character", "User-agent: *\nDisallow: /%D0%B0", "/%d0%b0", False),
        ("2.2.2 characters beyond ASCII", "User-agent: *\nDisallow: /а", "/%D0%B0", False),
        ("2.2.2 /robots.txt is always allowed", "User-agent: *\nDisallow: /", "/robots.txt", True),
        ("2.2.3 * in a path", "User-agent: *\nDisallow: /*.pdf", "/x/y.pdf?z", False),
        ("2.2.3 $ in a path", "User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?z", True),
        ("2.2.3 $ matches the end", "User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("2.2.3 # starts a comment", "User-agent: * # all\nDisallow: /a # not this", "/a", False),
        ("2.2 white space", "  User-agent :  *  \n\t Disallow :\t/a  ", "/a", False),
        ("2.2 CR", "User-agent: *\rDisallow: /a\r", "/a", False),
        ("2.2 CRLF", "User-agent: *\r\nDisallow: /a\r\n", "/a", False),
        ("BOM", "\ufeffUser-agent: *\nDisallow: /a", "/a", False),
        ("misspelt", "User agent: *\nDissallow: /a", "/a", False),
        ("no colon", "User-agent *\nDisallow /a", "/a", False),
        ("U+2028 is not a line separator", "User-agent: *\nAllow: /x\u2028Disallow: /a", "/a", True),
        ("2.5 beyond the size limit", "User-agent: *\nDisallow: /a\n" + "#" * MAX_ROBOTS_BYTES + "\nDisallow: /b", "/b", True),
        ("2.5 within the size limit", "User-agent: *\nDisallow: /a\n" + "#" * MAX_ROBOTS_BYTES + "\nDisallow: /b", "/a", False),
        ("2.5 at least 500 KiB", "#" * (500 * 1024 - 40) + "\nUser-agent: *\nDisallow: /a\n", "/a", False),
        ("2.5 a line cut at the limit is ignored", "User-agent: *\nDisallow: /\n" + "Allow: /a#".ljust(MAX_ROBOTS_BYTES, "x"), "/a", False),
        ("empty file", "", "/a", True),
        ("a web page", "<!doctype html><html><body>User-agent: *<br>Disallow: /</body></html>", "/a", True),
    ],
)  # fmt: skip
def test_verdict_by_rfc_9309_clause(clause: str, body: str, path: str, expected: bool) -> None:
    assert allowed(body, path) is expected, clause


@pytest.mark.parametrize(
    ("body", "path", "line"),
    [
        ("User-agent: *\nDisallow: /a\nDisallow: /a/b # deep", "/a/b/c", "Disallow: /a/b"),
        ("User-agent: *\nDisallow: /a\nAllow: /a/*.html$", "/a/x.html", "Allow: /a/*.html$"),
        ("User-agent: *\nDisallow: /a\nAllow: /a/*.html$", "/a/x.htm", "Disallow: /a"),
        ("User-agent: *\nDisallow: /a", "/b", ""),
        ("User-agent: x\nDisallow: /", "/b", ""),
        ("user-agent: *\ndisallow /a", "/a", "disallow /a"),
    ],
)
def test_deciding_line_is_returned(body: str, path: str, line: str) -> None:
    assert Robots(body, AGENT).line(SITE + path) == line


@pytest.mark.proves("politeness-crawl-delay")
@pytest.mark.parametrize(
    ("body", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 5", 5_000),
        ("User-agent: *\nCrawl-delay: 0.5", 500),
        ("User-agent: *\nCrawl-delay: .25", 250),
        ("User-agent: *\nCrawl-delay: 0", 0),
        ("User-agent: *\nCrawl-delay: 10 # seconds", 10_000),
        ("User-agent: *\nCrawl-delay: 86400", MAX_CRAWL_DELAY_MS),
        ("User-agent: *\nCrawl-delay: 99999999999", MAX_CRAWL_DELAY_MS),
        ("User-agent: *\nCrawl-delay: 10s", 10_000),
        ("User-agent: x, lycosa\nCrawl-delay: 1.5sec", 1_500),
        ("User-agent: *\nCrawl-delay: 10ms", None),
        ("User-agent: *\nCrawl-delay: ten", None),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: inf", None),
        ("User-agent: *\nCrawl-delay: nan", None),
        ("User-agent: *\nCrawl-delay: 1e9", None),
        ("User-agent: *\nCrawl-delay:", None),
        ("User-agent: *\nCrawl-delay: 5\n\nUser-agent: lycosa\nDisallow: /a", None),
        ("User-agent: lycosa\nCrawl-delay: 7\n\nUser-agent: *\nCrawl-delay: 9", 7_000),
        ("User-agent: bingbot\nCrawl-delay: 60\n\nUser-agent: *\nDisallow: /a", None),
        ("User-agent: *\nDisallow: /a\nCrawl-delay: 3", 3_000),
        ("Crawl-delay: 3", None),
        ("", None),
    ],
)
def test_crawl_delay(body: str, delay: int | None) -> None:
    assert Robots(body, AGENT).crawl_delay_ms() == delay


def test_sitemaps_are_independent_of_user_agent_groups() -> None:
    body = (
        "Sitemap: https://a.test/1.xml\nUser-agent: x\nDisallow: "
        "/\nsitemap:https://a.test/2.xml\nSitemap: https://a.test/1.xml\nSitemap:\n"
    )
    assert Robots(body, AGENT).sitemaps() == ["https://a.test/1.xml", "https://a.test/2.xml"]


def test_allow_all_and_deny_all() -> None:
    for url in (f"{SITE}/", f"{SITE}/robots.txt", f"{SITE}/a?b"):
        assert Robots.everything().allowed(url)
        assert not Robots.nothing().allowed(url)
    assert Robots.nothing().line(f"{SITE}/") == ""
    assert (Robots.nothing().crawl_delay_ms(), Robots.nothing().sitemaps()) == (None, [])


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        ("lycosa/0.1", "lycosa"),
        ("Lycosa/0.1 (+https://x.test/)", "Lycosa"),
        ("My_Bot-2", "My_Bot-2"),
        ("bot (x/y)", "bot"),
        ("", ""),
    ],
)
def test_product_token(agent: str, token: str) -> None:
    assert product_token(agent) == token


@pytest.mark.proves("politeness-robots-unreachable")
@pytest.mark.parametrize(
    ("status", "error", "verdict"),
    [
        *((status, "", "parse") for status in (200, 204)),
        *((status, "", "allow_all") for status in (301, 400, 401, 403, 404, 410, 451)),
        *((status, "", "deny_all") for status in (0, 101, 429, 500, 503, 599, 999)),
        *(
            (status, error, "deny_all")
            for status, error in ((0, "dns"), (200, "timeout"), (404, "incomplete"))
        ),
    ],
)
def test_verdicts(status: int, error: str, verdict: str) -> None:
    assert robots_verdict(status, error) == verdict


@pytest.mark.proves("limits-robots-size")
@pytest.mark.parametrize(
    ("cache_control", "lifetime"),
    [
        ("", MAX_CACHE_MS),
        ("private", MAX_CACHE_MS),
        ("max-age=7200", 7_200_000),
        ('public, max-age="7200"', 7_200_000),
        ("max-age=1", MIN_CACHE_MS),
        ("no-cache", MIN_CACHE_MS),
        ("no-store", MIN_CACHE_MS),
        ("max-age=31536000", MAX_CACHE_MS),
        ("max-age=99999999999999999999", MAX_CACHE_MS),
        ("max-age=-1", MAX_CACHE_MS),
        ("max-age=soon", MAX_CACHE_MS),
    ],
)
def test_lifetime(cache_control: str, lifetime: int) -> None:
    assert (
        cache_ms(parse_head(f"HTTP/1.1 200 OK\r\nCache-Control: {cache_control}\r\n\r\n".encode()))
        == lifetime
    )


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "User-agent: *",
                "User-agent: lycosa",
                "User-agent: other",
                "",
                "# note",
                "Crawl-delay: 2",
                "Sitemap: x",
                "junk",
            ]
        ),
        st.builds(
            "{}: /{}".format, st.sampled_from(["Allow", "Disallow"]), st.text("ab/*$", max_size=5)
        ),
    ),
    max_size=12,
)


@pytest.mark.proves("politeness-robots")
@given(LINES, st.text("ab/", max_size=5))
@settings(max_examples=200)
def test_verdict_equals_that_of_protego_and_matches_the_deciding_line(
    lines: list[str], path: str
) -> None:
    """Records between user agents are left out, because protego differs from the RFC there; tokens
    are exact.
    """
    body = "\n".join(line for line in lines if not line.startswith(("Crawl", "junk")))
    robots = Robots(body, AGENT)
    url = f"{SITE}/{path}"
    assert robots.allowed(url) is Protego.parse(body).can_fetch(url, "lycosa")
    line = robots.line(url)
    if not robots.allowed(url):
        assert line.startswith("Disallow: ")
    assert line == "" or line.startswith("Allow" if robots.allowed(url) else "Disallow")


@pytest.mark.proves("isolation-any-input")
@given(st.text(max_size=200), st.text(max_size=30))
@settings(max_examples=200)
def test_no_text_raises(body: str, path: str) -> None:
    robots = Robots(f"User-agent: *\nDisallow: {body}\n{body}", AGENT)
    robots.allowed(f"{SITE}/{path}")
    robots.line(f"{SITE}/{path}")
    robots.sitemaps()


def test_robots_rules_of_ftp_and_gopher() -> None:
    """FTP follows RFC 9309 section 2.3.

    Gopher follows its search engines: rules apply to selectors, with or without a slash.
    """
    assert robots_url("ftp://h:2121") == "ftp://h:2121/robots.txt"
    assert robots_url("gopher://h") == "gopher://h/0robots.txt"
    ftp = Robots("User-agent: *\nDisallow: /private/\n", "lycosa", "ftp://h")
    assert [ftp.allowed(f"ftp://h/{path}") for path in ("", "private/", "public/")] == [
        True,
        False,
        True,
    ]
    gopher = Robots(
        "User-agent: *\r\nDisallow: 1/old\r\nDisallow: /private\r\nDisallow:\r\n.\r\n",
        "lycosa",
        "gopher://h",
    )
    output = {
        path: gopher.allowed(f"gopher://h/{path}")
        for path in (
            "",
            "0/about",
            "1/private",
            "0private/a",
            "11/old/a",
            "11/new",
            "0/private.txt",
        )
    }
    assert output == {
        "": True,
        "0/about": True,
        "1/private": False,
        "0private/a": False,
        "11/old/a": False,
        "11/new": True,
        "0/private.txt": False,
    }
    assert gopher.line("gopher://h/1/private") == "Disallow: /private"
    assert not Robots("User-agent: *\nDisallow: /\n", "lycosa", "gopher://h").allowed(
        "gopher://h/0about"
    )
