"""Walks over random webs: whatever was crawled before, a call from a URL fetches exactly what lies
within its depth and was not visited.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.crawl.worker import Limits
from tests.servers.nginx import Nginx, Server, nginx

HOSTS = ("127.0.4.11", "127.0.4.12", "127.0.4.13")
PAGES = 24  # of each host
CONFIG = '[crawl]\npatience = "3s"\n[fetch]\nretries = 0\n'
STEPS = 4

Page = tuple[int, int]
"""(host, page)"""


class RandomWeb:
    """Pages of several hosts with random links, and some redirects; deep enough that walks
    differ.
    """

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
        """Links from a page; a redirect is none."""
        results = {start: 0}
        level = [start]
        while level:
            following: list[Page] = []
            for page in level:  # grows while redirects are met
                steps = (
                    [(self.redirects[page], 0)]
                    if page in self.redirects
                    else [(target, 1) for target in self.links[page]]
                )
                for target, step in steps:
                    if target not in results or results[target] > results[page] + step:
                        results[target] = results[page] + step
                        (following if step else level).append(target)
            level = following
        return results

    def write(self, root: Path, port: int) -> None:
        for host in range(len(HOSTS)):
            (root / str(host)).mkdir(exist_ok=True)
        for (host, page), targets in self.links.items():
            links = "".join(
                f'<a href="http://{HOSTS[to]}:{port}/{number}.html">to</a>'
                for to, number in targets
            )
            (root / str(host) / f"{page}.html").write_text(
                f"<title>{host} {page}</title><p>Page {page} of host {host}.</p>{links}"
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
def test_exactly_what_lies_within_the_depth(
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

    def request_log(order: CrawlOrder) -> list[Page]:
        mark = server.mark()
        assert crawl(order).ended in ("finished", "max_pages")
        results = [request for request in server.requests(mark) if request.uri != "/robots.txt"]
        return [
            (HOSTS.index(each.server), int(each.uri[1:].removesuffix(".html"))) for each in results
        ]

    # each host is named, or its private address would be refused
    seeds = [(host, 0) for host in range(len(HOSTS))]
    first = request_log(
        CrawlOrder(
            root, config, collection, tuple(map(url, seeds)), Limits(max_pages=5), index=False
        )
    )
    visited = set(first)
    for _ in range(STEPS):
        start = chance.choice(sorted(visited))
        depth = chance.choice((1, 2, 3, 5, None))
        reached = {
            page
            for page, distance in web.distances(start).items()
            if depth is None or distance <= depth
        }
        fetched = request_log(
            CrawlOrder(root, config, collection, index=False, start=url(start), start_depth=depth)
        )
        assert sorted(fetched) == sorted(reached - visited), (start, depth)
        visited |= set(fetched)
    everything = {page for seed in seeds for page in web.distances(seed)}
    rest = request_log(CrawlOrder(root, config, collection, index=False, start="unvisited"))
    assert sorted(rest) == sorted(everything - visited)
