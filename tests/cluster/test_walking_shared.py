"""Walks over random webs by several workers fetch exactly the pages within the depth."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lycosa.cluster.engines.local import LocalEngine
from lycosa.commands.crawling.cluster_crawl import crawl_together
from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.crawl.worker import Limits
from lycosa.store.workspace import Workspace
from tests.crawl.test_walking import HOSTS, Page, RandomWeb
from tests.servers.nginx import Nginx, Server, nginx

CONFIG = """
[crawl]
patience = "500ms"
[fetch]
retries = 0
[cluster]
ping_interval = "200ms"
hold = "1500ms"
reassign = "3s"
"""


class Crawls:
    """Crawls of one workspace. Each method returns the pages that it requested."""

    def __init__(self, root: Path, server: Nginx) -> None:
        self._root = str(root)
        self._server = server
        self._config: Config = parse_config(CONFIG)
        settings = {
            "scope": "any",
            "delay": 0,
            "courtesy_factor": 0.0,
            "traps": False,
            "strategy": "breadth-first",
        }
        self._collection = Collection.model_construct(**{**Collection().model_dump(), **settings})

    def url(self, page: Page) -> str:
        return f"http://{HOSTS[page[0]]}:{self._server.port}/{page[1]}.html"

    def first_crawl(self, pages: int) -> list[Page]:
        """Crawl in one process, with seeds on each host: other private addresses are refused."""
        seeds = tuple(self.url((host, 0)) for host in range(len(HOSTS)))
        return self._requests(
            CrawlOrder(
                self._root,
                self._config,
                self._collection,
                seeds,
                Limits(max_pages=pages),
                index=False,
            ),
            1,
        )

    def walk(self, start: str, depth: int | None, workers: int) -> list[Page]:
        order = CrawlOrder(
            self._root, self._config, self._collection, index=False, start=start, start_depth=depth
        )
        return self._requests(order, workers)

    def _requests(self, order: CrawlOrder, workers: int) -> list[Page]:
        mark = self._server.mark()
        if workers == 1:
            assert crawl(order).ended in ("finished", "max_pages")
        else:
            with LocalEngine() as engine:
                assert crawl_together(order, engine, workers).ended == "finished"
        result = [
            request for request in self._server.requests(mark) if request.uri != "/robots.txt"
        ]
        return [
            (HOSTS.index(each.server), int(each.uri[1:].removesuffix(".html"))) for each in result
        ]


def verify_walks(
    tmp_path: Path,
    seed: int,
    depths: tuple[int | None, ...],
    *,
    workers: int,
    to_the_end: bool = False,
) -> None:
    """Crawl 5 pages, then walk from visited pages to the given depths."""
    web = RandomWeb(seed)
    servers = [
        Server(name, tmp_path / str(host), autoindex=False, extra=web.rules(host, "$server_port"))
        for host, name in enumerate(HOSTS)
    ]
    with nginx(servers) as server:
        web.write(tmp_path, server.port)
        crawls, chance = Crawls(tmp_path / "w", server), random.Random(seed)
        visited = set(crawls.first_crawl(5))
        for depth in depths:
            start = chance.choice(sorted(visited))
            reached = {
                page
                for page, distance in web.distances(start).items()
                if depth is None or distance <= depth
            }
            fetched = crawls.walk(crawls.url(start), depth, workers)
            assert sorted(fetched) == sorted(reached - visited), (start, depth)
            visited |= set(fetched)
        if to_the_end:
            reachable = {page for host in range(len(HOSTS)) for page in web.distances((host, 0))}
            assert sorted(crawls.walk("unvisited", None, workers)) == sorted(reachable - visited)
    workspace = Workspace.open(str(tmp_path / "w"))
    assert not [name for name in workspace.storage.names("run") if name.startswith("walk-")]
    assert not workspace.state().holders


def test_two_workers_fetch_exactly_the_pages_within_the_depth(tmp_path: Path) -> None:
    verify_walks(tmp_path, 1, (4,), workers=2)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(2, 8))
def test_three_workers_fetch_exactly_the_pages_within_the_depth_of_many_webs(
    tmp_path: Path, seed: int
) -> None:
    verify_walks(tmp_path, seed, (1, 2, 3, 5, None), workers=3, to_the_end=True)
