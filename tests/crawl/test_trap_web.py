"""Crawls of synthetic webs with traps, sitemaps and feeds.

Traps cost few requests, and every real page is fetched. Without sockets, with a simulated clock.
All settings except the commit interval are the defaults.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.crawl.admission.url_filter import FREE_SUSPECTS
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.worker import Limits
from lycosa.frontier.traps.detector import explain
from lycosa.processes.threads import StopFlag
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.traps import TrapRule
from tests.crawl.conftest import RunCrawl, ServeWeb, page
from tests.servers.synthetic.kinds import Kind
from tests.servers.synthetic.plan import TRAPS, Trap, WebPlan
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

DAY_MS = 86_400_000
MAX_TRAPPED = 0.05
MAX_TRAPPED_PER_HOST = 12  # mean number of trap fetches per host with a trap
_MIXED = {
    "duplicates": 0.04,
    "near_duplicates": 0.03,
    "gone": 0.03,
    "forbidden": 0.03,
    "redirects": 0.05,
    "assets": 0.05,
    "native_slugs": 0.3,
}


@dataclass
class TrapCrawl:
    """A finished crawl of a synthetic web."""

    web: Web
    root: Path
    progress: Progress
    request_log: list[str]  # URLs in the order of the requests, without robots.txt

    @property
    def trapped(self) -> Counter[Trap]:
        """The number of requests of trap URLs, by kind."""
        return Counter(trap for trap in map(self.web.trap, self.request_log) if trap is not None)

    @property
    def share(self) -> float:
        return self.trapped.total() / len(self.request_log)

    @property
    def missing(self) -> list[str]:
        return sorted(set(self.web.real_pages()) - set(self.request_log))

    def count(self, *kinds: Kind) -> int:
        return sum(self.web.kind(url) in kinds for url in self.request_log)

    def unfetched(self) -> Counter[str]:
        """Return the number of known URLs without a fetch, by reason."""
        urls = (
            LiveTables(Workspace.open(str(self.root)))
            .scan("urls")
            .filter(pl.col("state") == "known")
        )
        return Counter(dict(urls.group_by("reason").len().collect().iter_rows()))

    def summary(self) -> str:
        """Return the sizes and the share of traps, for bench/RESULTS.md."""
        return (
            f"{len(set(self.web.real_pages()))} real pages, {len(self.request_log)} fetches, "
            f"{self.trapped.total()} of traps: {self.share:.1%}"
        )


def crawl_web(root: Path, plan: WebPlan, *, seeds: int = 1, max_pages: int) -> TrapCrawl:
    """Crawl a web; the seeds are the home pages of its first hosts."""
    web = Web(plan)
    clock = SimulatedClock(plan.epoch_ms + 1_000)
    config = parse_config("", overrides=("crawl.commit_interval=1h",))
    fetcher = SimulatedFetcher(web, clock, config.fetch)
    order = CrawlOrder(
        str(root),
        config,
        Collection(scope="any"),
        tuple(web.seeds(seeds)),
        Limits(max_pages=max_pages),
        index=False,
    )
    progress = crawl(order, clock=clock, fetcher=fetcher)
    request_log = [f"http://{entry.host}{entry.path}" for entry in fetcher.log]
    return TrapCrawl(
        web, root, progress, [url for url in request_log if web.kind(url) is not Kind.ROBOTS]
    )


def mixed(seed: int, hosts: int, pages: int, traps: float, **more: float) -> WebPlan:
    return WebPlan.calm(
        seed=seed, hosts=hosts, pages=pages, traps=traps, trap_kinds=TRAPS, **(_MIXED | more)
    )


@pytest.mark.proves("limits-traps")
def test_few_trap_pages_and_every_real_page_are_fetched(tmp_path: Path) -> None:
    crawled = crawl_web(tmp_path / "w", mixed(1, 24, 700, 0.34), max_pages=2_000)
    assert (crawled.progress.ended, crawled.missing) == ("finished", [])
    assert len(set(crawled.request_log)) == len(crawled.request_log), "each URL once"
    hosts = sum(bool(host.traps) for host in crawled.web.open_hosts())
    assert hosts >= len(TRAPS)
    assert crawled.trapped.total() <= MAX_TRAPPED_PER_HOST * hosts
    assert set(crawled.trapped) | {Trap.SESSION_PATH, Trap.SESSION_QUERY} == set(TRAPS), (
        "requests of every kind"
    )
    refused = crawled.progress.refused
    assert (
        min(
            refused[f"trap_{rule}"]
            for rule in (
                TrapRule.SESSION_ID,
                TrapRule.QUERY_PERMUTATION,
                TrapRule.REPEATED_SEGMENTS,
            )
        )
        > 0
    )
    reasons = [reason for reason in crawled.unfetched() if reason]
    assert reasons, "URLs of traps detected by content remain known"
    assert all(
        reason.startswith("trap_") and explain(reason.removeprefix("trap_")) for reason in reasons
    )


def test_pages_listed_only_in_sitemaps_are_found_with_few_requests(tmp_path: Path) -> None:
    """A third of the leaf pages is only in sitemaps, some with wrong lastmod.

    The sitemaps are plain files, indexes, gzip, text, news and hreflang.
    """
    plan = mixed(3, 40, 700, 0.2, orphans=0.3, sitemaps=0.7, feeds=0.5, lastmod_lying=0.4)
    crawled = crawl_web(tmp_path / "w", plan, max_pages=2_000)
    assert set(crawled.web.real_pages()) > set(crawled.web.real_pages(orphans=False))
    assert crawled.missing == []
    assert len(set(crawled.request_log)) == len(crawled.request_log), (
        "each URL once, whatever its lastmod"
    )
    hosts = list(crawled.web.open_hosts())
    assert crawled.count(Kind.SITEMAP) <= 2 * sum(bool(host.sitemap) for host in hosts)
    assert crawled.count(Kind.FEED) <= sum(bool(host.feed) for host in hosts)


class SkippingFetcher(SimulatedFetcher):
    """Sleeps for at least a minute of simulated time."""

    def sleep(self, timeout_ms: int, wake: StopFlag) -> None:
        super().sleep(max(timeout_ms, 60_000), wake)


def test_wrong_lastmod_dates_are_ignored_after_a_few_fetches(tmp_path: Path) -> None:
    """No page changes, but half of the hosts update all lastmod dates."""
    plan = WebPlan.calm(
        seed=5,
        hosts=6,
        pages=120,
        size_exponent=0.0,
        sitemaps=1.0,
        lastmod_lying=0.5,
        changes_per_day=0.0,
    )
    web = Web(plan)
    clock = SimulatedClock(plan.epoch_ms + 1_000)
    config = parse_config(
        "", overrides=("crawl.commit_interval=1h", "crawl.patience=30d", "run.merge_interval=30d")
    )
    fetcher = SkippingFetcher(web, clock, config.fetch)
    collection = Collection.model_validate({"scope": "any", "recrawl": "age", "max_age": "60d"})
    order = CrawlOrder(
        str(tmp_path / "w"),
        config,
        collection,
        tuple(web.seeds()),
        Limits(max_time_ms=4 * DAY_MS),
        index=False,
    )
    crawl(order, clock=clock, fetcher=fetcher)
    visits = Counter(f"http://{entry.host}{entry.path}" for entry in fetcher.log)
    refetches = Counter(
        url.split("/")[2] for url in web.real_pages() for _ in range(visits[url] - 1)
    )
    lying = {host.name: host.size for host in web.open_hosts() if host.lastmod == "lying"}
    assert lying
    assert all(refetches[name] <= size + 6 for name, size in lying.items()), (
        "dates are ignored after about six wrong ones"
    )
    assert set(refetches) <= set(lying)
    assert max(visits[url] for url in visits if web.kind(url) is Kind.SITEMAP) > 2, (
        "the sitemaps were read repeatedly"
    )


SMALL = 150


@pytest.mark.parametrize(
    ("form", "text"), [("list", "Page {}"), ("chain", "Page {}"), ("chain", "The same words.")]
)
def test_small_site_with_near_identical_pages_is_fetched_completely(
    serve: ServeWeb, run: RunCrawl, form: str, text: str
) -> None:
    assert SMALL < FREE_SUSPECTS
    paths = [f"/page{number}.html" for number in range(SMALL)]
    links = {
        path: [after] if form == "chain" else []
        for path, after in zip(paths, [*paths[1:], paths[0]], strict=True)
    }
    site = {path: page(*links[path], text=text.format(at)) for at, path in enumerate(paths)}
    web = serve({"/index.html": page(*(paths if form == "list" else paths[:1]))} | site)
    crawled = run(web.url(), traps=True, media_types=())
    assert (set(crawled.pages()), crawled.progress.refused.total()) == ({"/", *paths}, 0)


@pytest.mark.proves("limits-traps")
@pytest.mark.prove
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize(
    ("seeds", "more"),
    [
        pytest.param(1, {"orphans": 0.1, "sitemaps": 0.5}, id="one host is a seed"),
        pytest.param(60, {}, id="every host is a seed"),
    ],
)
def test_share_of_trap_pages_is_below_its_limit(
    tmp_path: Path, seeds: int, more: dict[str, float], seed: int
) -> None:
    crawled = crawl_web(
        tmp_path / "w", mixed(seed, 60, 4_000, 0.4, **more), seeds=seeds, max_pages=8_000
    )
    print("\n", crawled.summary())
    assert 0 < crawled.share <= MAX_TRAPPED
    assert crawled.missing == []


@pytest.mark.prove
def test_share_of_trap_pages_if_every_host_is_a_seed(tmp_path: Path) -> None:
    """Any seed may be a small site with near-identical pages.

    Its suspects cost `FREE_SUSPECTS` fetches once.
    """
    crawled = crawl_web(tmp_path / "w", mixed(4, 60, 12_000, 0.4), seeds=60, max_pages=24_000)
    print("\n", crawled.summary())
    assert crawled.trapped.total() > FREE_SUSPECTS
    assert crawled.share <= MAX_TRAPPED
    assert crawled.missing == []
