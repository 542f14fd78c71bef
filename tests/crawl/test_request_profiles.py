"""Request profiles: language, referrer, cookies, credentials and logins."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from lycosa.core.errors import ConfigError
from tests.crawl.conftest import Crawled, RunCrawl, assert_valid_warc
from tests.crawl.sessions import collection, work
from tests.servers.members import PASSWORD, USER, Members, served_site

LOGIN = {"fields": {"user": USER}, "password_field": "pass", "password_env": "LYCOSA_TEST_PASSWORD"}


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LYCOSA_TEST_PASSWORD", PASSWORD)


def everything_on_disk(root: Path) -> bytes:
    """Return all bytes of a workspace, with WARCs and tables decoded."""
    parts = [
        path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix != ".gz"
    ]
    parts += [gzip.decompress(path.read_bytes()) for path in root.rglob("*.gz")]
    tables = ["visits", "pages", "links", "urls", "hosts"]
    parts += [json.dumps(Crawled(root, None).rows(table), default=str).encode() for table in tables]  # type: ignore[arg-type]
    return b"\n".join(parts)


@pytest.mark.proves("politeness-cookies")
def test_language_and_referrer_are_sent(run: RunCrawl) -> None:
    with served_site(Members()) as site:
        run(site.url(), depth=1, accept_language="de, en;q=0.5", referer=True)
    [home], [inner] = site.requests_to("/"), site.requests_to("/open/1")
    assert "referer" not in home.headers
    assert inner.headers["referer"] == site.url()
    assert home.headers["accept-language"] == inner.headers["accept-language"] == "de, en;q=0.5"
    assert all(
        "cookie" not in each.headers and "authorization" not in each.headers
        for each in site.requests
    )


def test_language_of_a_collection_is_sent(run: RunCrawl) -> None:
    with served_site(Members()) as site:
        run(site.url(), depth=0, language="fi")
        run(site.url("/open/1"), depth=0, name="plain", settings=("fetch.accept_language=xx",))
    # the robots.txt is stored already
    assert [each.headers.get("accept-language") for each in site.requests] == [None, "fi", "xx"]


@pytest.mark.proves("politeness-cookies")
def test_cookies_are_stored_if_enabled(run: RunCrawl) -> None:
    with served_site(Members()) as site:
        crawled = run(site.url(), depth=1, cookies=True)
    assert [
        each.headers.get("cookie") for each in site.requests if each.path.startswith("/open/")
    ] == ["seen=home"] * 4
    assert "cookie" not in site.requests_to("/basic/1")[0].headers
    assert crawled.titles().count("open seen=home") == 4
    assert b"Cookie: [redacted]" in everything_on_disk(crawled.root)
    assert b"\nCookie: seen" not in everything_on_disk(crawled.root)


@pytest.mark.parametrize("cookies", [False, True])
def test_redirect_to_the_same_url_is_followed_once_with_its_cookie(
    run: RunCrawl, cookies: bool
) -> None:
    with served_site(Members()) as site:
        crawled = run(site.url("/wall"), site.url("/loop"), cookies=cookies)
    assert [len(site.requests_to(path)) for path in ("/wall", "/loop")] == [1 + cookies] * 2
    assert crawled.titles() == ["behind the wall"] * cookies
    states = {row["url"]: (row["state"], row["reason"]) for row in crawled.rows("urls")}
    assert states[site.url("/loop")] == ("visited", "redirect")
    crawled.assert_sound()


@pytest.mark.proves("politeness-cookies")
def test_basic_credentials_are_sent_only_below_their_url(run: RunCrawl) -> None:
    with served_site(Members()) as site:
        auth = [{"url": site.url("/basic"), "user": USER, "password_env": "LYCOSA_TEST_PASSWORD"}]
        crawled = run(site.url(), depth=1, auth=auth)
    assert {each.path for each in site.requests if "authorization" in each.headers} == {
        f"/basic/{number}" for number in range(4)
    }
    assert crawled.titles().count("secret basic") == 4
    stored = everything_on_disk(crawled.root)
    assert PASSWORD.encode() not in stored
    assert b"Authorization: [redacted]" in stored
    crawled.assert_sound()


def test_crawl_with_a_missing_password_is_refused(run: RunCrawl, tmp_path: Path) -> None:
    auth = [{"url": "http://127.0.0.1:1/", "user": "x", "password_env": "LYCOSA_TEST_NOT_SET"}]
    with pytest.raises(ConfigError, match="LYCOSA_TEST_NOT_SET"):
        run("http://127.0.0.1:1/", auth=auth)
    assert not list((tmp_path / "workspace").glob("data/*"))


@pytest.mark.proves("politeness-forms")
def test_login_form_is_posted_once_and_its_session_is_used(run: RunCrawl) -> None:
    with served_site(Members()) as site:
        crawled = run(
            site.url(), depth=1, login=[{"url": site.url("/login"), **LOGIN, "success": "welcome"}]
        )
    order = [(each.method, each.path) for each in site.requests]
    assert order[:5] == [
        ("GET", "/robots.txt"),
        ("GET", "/login"),
        ("POST", "/login"),
        ("GET", "/welcome"),
        ("GET", "/"),
    ]
    assert Counter(each.method for each in site.requests)["POST"] == 1
    assert sum(title.startswith("club") for title in crawled.titles()) == 4
    kinds = Counter(str(row["kind"]) for row in crawled.rows("visits"))
    assert kinds == {"robots": 1, "login": 3, "page": 13}
    stored = everything_on_disk(crawled.root)
    assert PASSWORD.encode() not in stored
    assert b"s3cr3t" not in stored
    assert b"session=[redacted]; HttpOnly" in stored
    crawled.assert_sound()
    assert_valid_warc(next(crawled.root.glob("data/*/archive.warc.gz")))


def test_expired_session_is_renewed_by_another_login(run: RunCrawl) -> None:
    with served_site(Members(pages_per_session=2)) as site:
        crawled = run(site.url(), depth=1, login=[{"url": site.url("/login"), **LOGIN}])
    assert sum(title.startswith("club") for title in crawled.titles()) == 4
    assert Counter(each.method for each in site.requests)["POST"] == 2
    assert crawled.count("visits", error="logged_out") == 1
    assert crawled.progress.errors["logged_out"] == 1


@pytest.mark.proves("politeness-robots", "politeness-forms")
@pytest.mark.parametrize(
    ("password", "robots", "requests", "failures", "why"),
    [
        (
            "wrong",
            "",
            ["GET /robots.txt", "GET /login", "POST /login"],
            1,
            "the page after the login has a password field",
        ),
        (
            PASSWORD,
            "User-agent: *\nDisallow: /login",
            ["GET /robots.txt"],
            1,
            "robots.txt or an exclusion forbids the form",
        ),
    ],
)
def test_failing_login_is_attempted_once_and_a_disallowed_form_never(
    run: RunCrawl,
    monkeypatch: pytest.MonkeyPatch,
    password: str,
    robots: str,
    requests: list[str],
    failures: int,
    why: str,
) -> None:
    monkeypatch.setenv("LYCOSA_TEST_PASSWORD", password)
    with served_site(Members(robots=robots) if robots else Members()) as site:
        crawled = run(
            site.url(),
            depth=1,
            login=[{"url": site.url("/login"), **LOGIN}],
            settings=("crawl.patience=1s",),
        )
    assert [f"{each.method} {each.path}" for each in site.requests] == requests
    assert crawled.progress.errors["login_failed"] == failures
    assert crawled.progress.failures == {site.url("/login"): f"login_failed: {why}"}
    assert crawled.count("urls", state="known") == 1
    assert crawled.progress.later == {"login_failed": 1}


def test_collections_share_requests_only_with_equal_request_profiles(tmp_path: Path) -> None:
    """Another language, or a password for the URL, causes a separate request."""
    with served_site(Members()) as site:
        auth = [{"url": site.url("/basic"), "user": USER, "password_env": "LYCOSA_TEST_PASSWORD"}]
        seeds = [site.url()]
        jobs = [
            (collection("one", depth=1), seeds),
            (collection("two", depth=1), seeds),
            (collection("finnish", depth=1, language="fi"), seeds),
            (collection("member", depth=1, auth=auth), seeds),
        ]
        crawled = work(tmp_path / "w", jobs)
    assert len(site.requests_to("/robots.txt")) == 1
    request_counts = Counter(
        (each.path, each.headers.get("accept-language"), "authorization" in each.headers)
        for each in site.requests
    )
    for path in ("/", "/open/0", "/basic/0", "/club/3"):
        member = (path, None, True) if path == "/basic/0" else (path, None, False)
        expected = Counter([(path, None, False), (path, "fi", False), member])
        assert {key: number for key, number in request_counts.items() if key[0] == path} == dict(
            expected
        )
    stored_titles = {
        name: {str(row["title"]) for row in crawled.rows("pages") if row["collection"] == name}
        for name in ("one", "two", "member")
    }
    assert "secret basic" in stored_titles["member"]
    assert "secret basic" not in stored_titles["one"] | stored_titles["two"]
    assert stored_titles["one"] == stored_titles["two"]
    crawled.assert_sound()
