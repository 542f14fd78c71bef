"""Depths over several hosts and calls.

A decreased depth is propagated along the stored links. A call that starts at a URL fetches exactly
the unvisited pages within its depth.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.crawl.worker import Limits
from tests.crawl.conftest import RunCrawl, ServeWeb, SmallWeb, page
from tests.crawl.test_crawl import assert_counts_add_up
from tests.servers.nginx import Nginx, Server, nginx

HOSTS = ("127.0.4.11", "127.0.4.12", "127.0.4.13")
PAGES = 24  # per host
CONFIG = '[crawl]\npatience = "3s"\n[fetch]\nretries = 0\n'
STEPS = 4

Page = tuple[int, int]
"""(host, page)"""


class RandomWeb:
    """Pages of several hosts with random links and some redirects."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.pages = [(host, page) for host in range(len(HOSTS)) for page in range(PAGES)]
        self.redirects = {
            page: chance.choice(self.pages)
            for page in chance.sample([page for page in self.pages if page[1]], 6)
        }
        self.links = {
            page: chance.sample(self.pages, chance.choice((1, 1, 2, 2, 3)))
            for page in self.pages
            if page not in self.redirects
        }

    def distances(self, start: Page) -> dict[Page, int]:
        """Return the number of links to each page; redirects do not count."""
        results = {start: 0}
        level = [start]
        while level:
            following: list[Page] = []
            for node in level:  # grows while redirects are met
                steps = (
                    [(self.redirects[node], 0)]
                    if node in self.redirects
                    else [(target, 1) for target in self.links[node]]
                )
                for target, step in steps:
                    if target not in results or results[target] > results[node] + step:
                        results[target] = results[node] + step
                        (following if step else level).append(target)
            level = following
        return results

    def write(self, root: Path, port: int) -> None:
        for host in range(len(HOSTS)):
            (root / str(host)).mkdir(exist_ok=True)
        for (host, at), targets in self.links.items():
            links = "".join(
                f'<a href="http://{HOSTS[to]}:{port}/{number}.html">to</a>'
                for to, number in targets
            )
            (root / str(host) / f"{at}.html").write_text(
                f"<title>{host} {at}</title><p>Page {at} of host {host}.</p>{links}"
            )

    def rules(self, host: int, port: str) -> str:
        moved = [(page, target) for (at, page), target in self.redirects.items() if at == host]
        return " ".join(
            f"location = /{page}.html {{ return 302 http://{HOSTS[to]}:{port}/{number}.html; }}"
            for page, (to, number) in moved
        )


@pytest.fixture(params=[1, 2, 3])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[RandomWeb, Nginx]]:
    web = RandomWeb(request.param)
    servers = [
        Server(name, tmp_path / str(host), autoindex=False, extra=web.rules(host, "$server_port"))
        for host, name in enumerate(HOSTS)
    ]
    with nginx(servers) as server:
        web.write(tmp_path, server.port)
        yield web, server


@pytest.mark.parametrize(
    "strategy", ["breadth-first", pytest.param("depth-first", marks=pytest.mark.prove)]
)
def test_crawl_fetches_exactly_the_unvisited_pages_within_its_depth(
    served: tuple[RandomWeb, Nginx], tmp_path: Path, strategy: str
) -> None:
    web, server = served
    chance = random.Random(len(strategy))
    config: Config = parse_config(CONFIG)
    settings = {
        "scope": "any",
        "delay": 0,
        "courtesy_factor": 0.0,
        "traps": False,
        "strategy": strategy,
    }
    collection = Collection.model_construct(**{**Collection().model_dump(), **settings})
    root = str(tmp_path / "w")

    def url(page: Page) -> str:
        return f"http://{HOSTS[page[0]]}:{server.port}/{page[1]}.html"

    def fetched_pages(order: CrawlOrder) -> list[Page]:
        mark = server.mark()
        assert crawl(order).ended in ("finished", "max_pages")
        return [
            (HOSTS.index(request.server), int(request.uri[1:].removesuffix(".html")))
            for request in server.requests(mark)
            if request.uri != "/robots.txt"
        ]

    # private addresses are only requested if they are seeds
    seeds = [(host, 0) for host in range(len(HOSTS))]
    first = fetched_pages(
        CrawlOrder(
            root, config, collection, tuple(map(url, seeds)), Limits(max_pages=5), index=False
        )
    )
    visited = set(first)
    for _ in range(STEPS):
        start = chance.choice(sorted(visited))
        depth = chance.choice((1, 2, 3, 5, None))
        within_depth = {
            page
            for page, distance in web.distances(start).items()
            if depth is None or distance <= depth
        }
        fetched = fetched_pages(
            CrawlOrder(root, config, collection, index=False, start=url(start), start_depth=depth)
        )
        assert sorted(fetched) == sorted(within_depth - visited), (start, depth)
        visited |= set(fetched)
    reachable = {page for seed in seeds for page in web.distances(seed)}
    rest = fetched_pages(CrawlOrder(root, config, collection, index=False, start="unvisited"))
    assert sorted(rest) == sorted(reachable - visited)


def chain(serve: ServeWeb) -> SmallWeb:
    """Serve a chain: / -> 1 -> 2 on host 1, then t -> u -> v -> w on host 2.

    `/short.html` of host 1, a later seed, links to t directly.
    """
    web = serve({}, {})
    far = web.url("/t.html", host=2)
    web.write(
        {
            "index.html": page("/1.html"),
            "1.html": page("/2.html", text="1"),
            "2.html": page(far, text="2"),
            "short.html": page(far, text="short"),
        }
    )
    names = {"t": "u", "u": "v", "v": "w"}
    pages = {f"{name}.html": page(f"/{after}.html", text=name) for name, after in names.items()}
    pages |= {"w.html": page(text="w"), "index.html": page(text="home of the second")}
    web.write(pages, host=2)
    return web


@pytest.mark.parametrize("depth", [4, None])
def test_decreased_depth_propagates_over_hosts_and_admits_further_pages(
    serve: ServeWeb, run: RunCrawl, depth: int | None
) -> None:
    web = chain(serve)
    first = run(web.url(), web.url(host=2), scope="any", depth=depth)
    assert (first.depths()["/u.html"], "/v.html" in first.depths()) == (4, depth is None)
    mark = web.server.mark()
    second = run(web.url("/short.html"), scope="any", depth=depth)
    assert web.requested_paths(mark) == ["/short.html", *(["/v.html", "/w.html"] if depth else [])]
    depths = {"/t.html": 1, "/u.html": 2, "/v.html": 3, "/w.html": 4}
    assert depths.items() <= second.depths().items()
    assert_counts_add_up(second)


def test_depth_limits_do_not_apply_to_sitemaps(serve: ServeWeb, run: RunCrawl) -> None:
    """Sitemap rows have no depth limit and do not propagate their depth."""
    web = serve(
        {
            "/index.html": page("/1.html"),
            "/1.html": page("/2.html"),
            "/2.html": page(),
            "/alone.html": page(text="alone"),
        }
    )
    robots = f"Sitemap: {web.url('/map.txt')}\n"
    web.write({"robots.txt": robots, "map.txt": web.url("/alone.html")})
    run(web.url(), max_pages=0)
    run(web.url(), depth=0, max_pages=0)
    crawled = run(web.url())
    assert crawled.pages() == ["/", "/1.html", "/2.html", "/alone.html"]
    operations = Counter((str(row["operation"]), str(row["state"])) for row in crawled.rows("urls"))
    assert (operations[("sitemap", "visited")], max(Counter(web.requested_paths()).values())) == (
        1,
        1,
    )
    assert_counts_add_up(crawled)
