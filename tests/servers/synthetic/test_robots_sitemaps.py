"""Tests of robots.txt, sitemaps and feeds of the synthetic web."""

from __future__ import annotations

import gzip
from collections import Counter
from xml.etree import ElementTree

import pytest

from lycosa.fetch.robots_txt import Robots
from lycosa.page.parse import parse_page
from tests.servers.synthetic import sitemaps
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.web import Web

PLAN = WebPlan(seed=6, hosts=100, pages=800)
AT = PLAN.epoch_ms + 86_400_000
_S = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@pytest.fixture(scope="module")
def web() -> Web:
    return Web(PLAN)


def follow(web: Web, url: str, at_ms: int) -> Answer:
    """Return the response after redirects."""
    answer = web.answer(url, {}, at_ms)
    for _ in range(5):
        location = answer.header("Location")
        if not location:
            break
        url = location if location.startswith("http") else "/".join(url.split("/")[:3]) + location
        answer = web.answer(url, {}, at_ms)
    return answer


@pytest.mark.parametrize("agent", ["lycosa", "BadBot", "another"])
def test_robots_rules_of_the_web_equal_those_that_lycosa_reads(web: Web, agent: str) -> None:
    counts: Counter[bool] = Counter()
    for number in range(PLAN.hosts):
        host = web.layout.hosts.get(number)
        answer = follow(web, f"http://{host.name}/robots.txt", AT)
        if host.access or answer.status != 200:
            continue
        ours = Robots(answer.body.decode(), agent)
        paths = [
            "/",
            "/private/1",
            "/privat",
            "/x.exe",
            "/x.exe?y",
            "/cgi-bin/",
            "/cgi-bin/about",
            "/tmp/1",
            "/robots.txt",
        ]
        for path in [*paths, *web.layout.extras(host, 0), web.layout.path(host, host.size - 1)]:
            url = f"http://{host.name}{path}"
            assert web.robots_allows(url, AT, agent) == ours.allowed(url), (host.robots, path)
            counts[ours.allowed(url)] += 1
        assert web.crawl_delay(host.name, AT, agent) == (ours.crawl_delay_ms() or 0)
    assert min(counts.values()) > 50


def test_statuses_and_redirects_of_robots_txt_depend_on_the_host(web: Web) -> None:
    styles = set()
    for host in (web.layout.hosts.get(number) for number in range(PLAN.hosts)):
        if host.access:
            continue
        statuses = {
            web.answer(
                f"http://{host.name}/robots.txt", {}, PLAN.epoch_ms + hour * 3_600_000
            ).status
            for hour in range(50)
        }
        expected = {
            "missing": {404},
            "failing": {200, 503},
            "redirecting": {302},
            "foreign": {302},
        }.get(host.robots, {200})
        assert statuses == expected
        if host.robots == "failing":
            first = web.answer(f"http://{host.name}/robots.txt", {}, PLAN.epoch_ms)
            assert first.status == 503
            assert not web.robots_allows(f"http://{host.name}/", PLAN.epoch_ms)
            assert web.robots_allows(f"http://{host.name}/")
        if host.robots != "closed":
            assert web.robots_allows(f"http://{host.name}/")
        location = web.answer(f"http://{host.name}/robots.txt", {}, AT).header("Location")
        if location:
            url = location if location.startswith("http") else f"http://{host.name}{location}"
            assert web.robots_of(url.split("/")[2], "/" + url.split("/", 3)[3]) == host.name
            assert web.kind(url) is Kind.ROBOTS
        styles.add(host.robots)
    assert len(styles) == 7


def urls_of(web: Web, sitemap: str, kinds: Counter[str]) -> set[str]:
    """Return the URLs of a sitemap or of all sitemaps of an index; count formats and elements."""
    answer = web.answer(sitemap, {}, AT)
    assert answer.status == 200, sitemap
    assert web.kind(sitemap) is Kind.SITEMAP
    body = answer.body
    if sitemap.endswith(".gz"):
        kinds["gzip"] += 1
        body = gzip.decompress(body)
    if sitemap.endswith(".txt"):
        kinds["text"] += 1
        return set(body.decode().split())
    root = ElementTree.fromstring(body)
    kinds[root.tag.removeprefix(_S)] += 1
    kinds["lastmod"] += sum(1 for _ in root.iter(f"{_S}lastmod"))
    kinds["alternates"] += sum(1 for _ in root.iter("{http://www.w3.org/1999/xhtml}link"))
    kinds["news"] += sum(
        1 for _ in root.iter("{http://www.google.com/schemas/sitemap-news/0.9}title")
    )
    locations = [element.text or "" for element in root.iter(f"{_S}loc")]
    if root.tag == f"{_S}sitemapindex":
        return set().union(*(urls_of(web, location, kinds) for location in locations))
    return set(locations)


def test_sitemaps_list_the_pages_of_their_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "ENTRIES", 50)
    web = Web(
        WebPlan.calm(hosts=24, pages=2_000, sitemaps=1.0, lastmod_lying=0.2, lastmod_absent=0.2)
    )
    kinds: Counter[str] = Counter()
    for host in list(web.open_hosts())[1:]:
        [sitemap] = web.robots(host.name).sitemaps
        urls = urls_of(web, sitemap, kinds)
        pages = {
            f"http://{host.name}{web.layout.path(host, number)}" for number in range(host.size)
        }
        assert urls <= pages if host.sitemap == "news" else urls == pages
    for kind in ("gzip", "text", "urlset", "sitemapindex", "lastmod", "alternates", "news"):
        assert kinds[kind] > 0, kind


def test_feeds_list_the_newest_pages_first() -> None:
    web = Web(WebPlan.calm(hosts=6, pages=100, feeds=1.0))
    for host in list(web.open_hosts())[1:]:
        answer = web.answer(f"http://{host.name}/{host.feed}.xml", {}, AT)
        feed = parse_page(
            answer.body, url=f"http://{host.name}/", content_type=answer.header("Content-Type")
        )
        assert not feed.faults
        newest = [
            f"http://{host.name}{web.layout.path(host, number)}" for number in range(host.size)
        ][::-1][:20]
        targets = {link.target for link in feed.links}
        assert [target for target in newest if target in targets] == newest
        assert (
            f'href="/{host.feed}.xml"' in web.answer(f"http://{host.name}/", {}, AT).body.decode()
        )
