"""Tests of the synthetic web: its pages, hosts and traps are those of its plan."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from statistics import fmean

import pytest

from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.normalise import normalise
from tests.servers.synthetic.answer import Fault
from tests.servers.synthetic.hosts import SITEMAP_KINDS, STYLES, Access
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.plan import TRAPS, Trap, WebPlan
from tests.servers.synthetic.walk import CrawlResult, targets, walk
from tests.servers.synthetic.web import Web

PLAN = WebPlan(seed=4, hosts=200, pages=1_500, failing_share=0.5)
AT = PLAN.epoch_ms + 3 * 86_400_000


@pytest.fixture(scope="module")
def web() -> Web:
    return Web(PLAN)


@pytest.fixture(scope="module")
def result(web: Web) -> CrawlResult:
    return walk(web, AT)


def fingerprint() -> str:
    """Return a digest of all responses of a small web."""
    web = Web(WebPlan(seed=9, hosts=20, pages=150, births_per_day=3.0))
    digest = sha256()
    for at in (AT, AT + 9 * 86_400_000):
        for url in sorted(walk(web, at).discovered):
            digest.update(repr((url, web.answer(url, {}, at))).encode())
    return digest.hexdigest()


def test_responses_are_the_same_in_every_process() -> None:
    command = [
        sys.executable,
        "-c",
        "from tests.servers.synthetic.test_web import fingerprint; print(fingerprint())",
    ]
    others = [
        subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout.strip()
        for hash_seed in ("1", "2")
    ]
    assert others == [fingerprint()] * 2


def test_another_seed_gives_other_pages() -> None:
    first, second = (set(Web(replace(PLAN, seed=seed)).real_pages()) for seed in (1, 2))
    assert len(first & second) < len(first) / 10


def test_following_links_finds_exactly_the_real_pages(web: Web, result: CrawlResult) -> None:
    assert result.pages == set(web.real_pages(AT))
    assert len([url for url in result.pages if web.kind(url) is Kind.PAGE]) == sum(
        host.size for host in web.open_hosts()
    )


def test_links_lead_to_every_kind_of_url(result: CrawlResult) -> None:
    counts = {Kind(kind): number for kind, number in result.kinds.items()}
    assert set(counts) == set(Kind) - {Kind.ROBOTS, Kind.SITEMAP, Kind.FEED, Kind.MISSING}
    for kind, share in (
        (Kind.REDIRECT, 0.04),
        (Kind.DUPLICATE, 0.04),
        (Kind.GONE, 0.025),
        (Kind.ASSET, 0.04),
    ):
        assert 0.5 * share < counts[kind] / PLAN.pages < 2 * share, kind


def test_links_lead_to_every_trap_and_every_fault(web: Web, result: CrawlResult) -> None:
    assert {web.trap(url) for url in result.discovered} == {*TRAPS, None}
    assert set(result.faults) == set(Fault)
    assert {200, 301, 302, 303, 307, 308, 404, 410, 429, 500, 503} <= set(result.statuses)


def test_shares_of_hosts_are_exact(web: Web) -> None:
    hosts = [web.layout.hosts.get(number) for number in range(PLAN.hosts)]
    robots = Counter(host.robots for host in hosts)
    failures = Counter(host.failure for host in hosts)
    for name in ("missing", "failing", "redirecting", "foreign", "closed", "named"):
        assert robots[name] == round(PLAN.hosts * getattr(PLAN, f"robots_{name}")), name
    for name in ("failing", "limiting", "resetting", "closing", "cutting", "hanging", "stalling"):
        assert failures[name] == round(PLAN.hosts * getattr(PLAN, name)), name
    assert sum(host.access is Access.REFUSED for host in hosts) == PLAN.hosts * PLAN.refused
    assert sum(host.access is Access.UNRESOLVED for host in hosts) == PLAN.hosts * PLAN.unresolved
    assert sum(bool(host.traps) for host in hosts) == PLAN.hosts * PLAN.traps
    assert Counter(host.sitemap for host in hosts).keys() == {*SITEMAP_KINDS, ""}
    assert {host.feed for host in hosts} == {"rss", "atom", ""}
    assert {host.validators for host in hosts} == {"right", "absent", "restless", "frozen"}
    assert {host.style for host in hosts} == set(STYLES)
    assert {host.language for host in hosts} == set(PLAN.languages)
    for flag in ("noisy", "compressed", "chunked", "rushing", "native_slugs"):
        assert sum(getattr(host, flag) for host in hosts) == round(
            PLAN.hosts * getattr(PLAN, flag)
        ), flag


def test_host_0_has_no_failures_and_no_traps() -> None:
    for seed in range(20):
        host = Web(WebPlan(seed=seed)).layout.hosts.get(0)
        assert (host.access, host.robots, host.failure, host.traps, host.crawl_delay_ms) == (
            Access.OPEN,
            "plain",
            "",
            (),
            0,
        )


def test_sizes_follow_a_power_law_and_add_up() -> None:
    web = Web(WebPlan(hosts=500, pages=50_000))
    sizes = [web.layout.hosts.size(number) for number in range(500)]
    assert (sum(sizes), sizes) == (50_000, sorted(sizes, reverse=True))
    assert sizes[1] / sizes[100] == pytest.approx(101 / 2, rel=0.1)
    assert min(sizes) >= 1


def test_urls_are_normalised_and_domains_match_the_public_suffix_list(web: Web) -> None:
    domains = Domains(bundled_suffix_list())
    names = [web.layout.hosts.get(number).name for number in range(PLAN.hosts)]
    assert len(set(names)) == PLAN.hosts
    assert all(web.registrable(name) == domains.registrable(name) for name in names)
    assert (
        Counter(map(web.registrable, names)).most_common(1)[0][1] > PLAN.hosts * PLAN.subdomains / 4
    )
    urls = list(web.real_pages())
    assert all(normalise(url) == url for url in urls)
    assert any("%" in url for url in urls)
    assert any("?" in url for url in urls)


def test_unknown_paths_and_hosts_are_missing(web: Web) -> None:
    [front] = web.seeds()
    for path in (
        "nothing",
        "a-99999.html",
        "go/0x",
        "calendar/2024/01",
        "item/3",
        "-1.html",
        "article.php?id=1",
        "robots-of/77.txt",
    ):
        assert web.kind(front + path) in (Kind.MISSING, Kind.REDIRECT), path
        assert web.answer(front + "nothing", {}, AT).status == 404
    assert web.kind("http://elsewhere.test/") is Kind.UNREACHABLE
    assert web.kind("ftp://x/") is Kind.UNREACHABLE
    assert web.answer(front.replace("-0.", "-1."), {}, AT).fault is Fault.UNRESOLVED


@pytest.mark.parametrize("trap", TRAPS)
def test_traps_are_endless_and_contain_no_real_page(trap: Trap) -> None:
    web = Web(WebPlan.calm(hosts=2, pages=60, traps=0.5, trap_kinds=(trap,)))
    result = walk(web, AT, traps=400)
    trap_urls = {url for url in result.discovered if web.is_trap(url)}
    assert result.kinds[Kind.TRAP] > 400
    assert len(trap_urls) > 400
    assert result.pages == set(web.real_pages())
    assert all(result.answers[url].status == 200 for url in trap_urls if url in result.answers)


def test_no_link_leads_to_an_orphan() -> None:
    web = Web(WebPlan.calm(hosts=30, pages=900, sitemaps=0.9, orphans=0.2))
    pages, linked = set(web.real_pages()), set(web.real_pages(orphans=False))
    assert 0.02 * len(pages) < len(pages - linked) < 0.2 * len(pages)
    assert walk(web, AT).pages == linked


def test_popular_pages_have_most_links_and_change_most_often() -> None:
    web = Web(WebPlan.calm(hosts=20, pages=1_000, static=0.4))
    pages = list(web.real_pages())
    links = Counter(
        target for url in pages for target in set(targets(url, web.answer(url, {}, AT)))
    )
    ranked = [url for url, _ in links.most_common()]
    assert set(ranked) <= set(pages)
    tenth = len(pages) // 10
    assert sum(links[url] for url in ranked[:tenth]) > 0.4 * links.total()
    assert fmean(map(web.change_rate, ranked[:tenth])) > 3 * fmean(
        map(web.change_rate, ranked[tenth:])
    )
    degrees = Counter(len(targets(url, web.answer(url, {}, AT))) for url in pages)
    assert max(degrees) > 4 * degrees.most_common(1)[0][0]


def test_plain_web_has_only_pages_with_status_200() -> None:
    result = walk(Web(WebPlan.calm(hosts=20, pages=200)), AT)
    assert (set(result.kinds), set(result.statuses)) == ({Kind.PAGE}, {200})


def count_calls(web: Web, urls: list[str]) -> int:
    """Return the number of Python calls that the responses take."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        for url in urls:
            web.answer(url, {}, AT)
    finally:
        sys.setprofile(None)
    return calls


def test_cost_of_a_page_does_not_depend_on_the_size_of_the_web() -> None:
    large, small = Web(WebPlan(hosts=2_000, pages=1_000_000)), Web(WebPlan(hosts=20, pages=2_000))
    assert large.layout.hosts.get.cache_info().misses == 0
    urls = list(islice(large.real_pages(), 2_000, 3_000))
    assert large.layout.hosts.get.cache_info().misses == 1
    calls = count_calls(small, list(islice(small.real_pages(), 500, 1_500)))
    assert count_calls(large, urls) < 2 * calls
    assert large.layout.hosts.get.cache_info().misses <= 2_000
