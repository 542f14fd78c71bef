"""`lycosa crawl --from`: follows stored links and fetches only URLs that were never visited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Lycosa, Outcome
from tests.servers.nginx import Nginx, Server, nginx

# Two branches of five and three pages below the home page; a3 links to a redirect to a6.
LINKS = {
    "index": ("a1", "b1"),
    "a1": ("", "a2"),
    "a2": ("a3",),
    "a3": ("a4", "old"),
    "a4": ("a5",),
    "a5": (),
    "b1": ("b2",),
    "b2": ("b3",),
    "b3": (),
    "a6": (),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    root = tmp_path_factory.mktemp("walked")
    for name, targets in LINKS.items():
        links = "".join(
            f'<a href="/{target and target + ".html"}">{target}</a>' for target in targets
        )
        (root / f"{name}.html").write_text(
            f"<title>{name}</title><p>This is the page {name} of the test site.</p>{links}"
        )
    extra = "location = /old.html { return 301 /a6.html; }"
    with nginx(
        [Server("127.0.4.2", root, index="index.html", autoindex=False, extra=extra)]
    ) as server:
        yield server


class Crawls:
    """Runs `lycosa crawl` in one workspace."""

    def __init__(self, here: Lycosa, root: Path, site: Nginx) -> None:
        self._here, self._root, self._site = here, root, site
        self.address = f"http://127.0.4.2:{site.port}"

    def __call__(self, *arguments: str, code: int = 0) -> Outcome:
        options = ("--delay", "0", "--set", "crawl.patience=3s", "--json")
        outcome = self._here("-w", str(self._root), "crawl", *arguments, *options)
        assert outcome.code == code, outcome.err
        return outcome

    def fetched(self, *arguments: str) -> list[str]:
        """Run a crawl; return the pages that it fetched, in order."""
        mark = self._site.mark()
        self(*arguments)
        paths = [request.uri for request in self._site.requests(mark)]
        return [
            path.removeprefix("/").removesuffix(".html") or "index"
            for path in paths
            if path != "/robots.txt"
        ]


@pytest.fixture
def crawls(here: Lycosa, tmp_path: Path, site: Nginx) -> Crawls:
    return Crawls(here, tmp_path / "w", site)


def test_crawl_from_a_url_fetches_only_unvisited_pages_within_its_depth(crawls: Crawls) -> None:
    assert crawls.fetched(f"{crawls.address}/", "--depth", "1") == ["index", "a1", "b1"]
    assert crawls.fetched("--from", f"{crawls.address}/a1.html", "--depth", "1") == ["a2"]
    # Within 3 links: a4 through a2 and a3, b2 through the home page and b1.
    assert sorted(crawls.fetched("--from", f"{crawls.address}/a1.html", "--depth", "3")) == [
        "a3",
        "a4",
        "a6",
        "b2",
        "old",
    ]
    assert crawls.fetched("--from", f"{crawls.address}/b1.html", "--depth", "0") == []
    assert crawls.fetched("--from", f"{crawls.address}/b1.html") == ["b3"]
    assert crawls.fetched("--depth", "1") == [], "the depth of the collection is unchanged"
    assert crawls.fetched() == ["a5"]


def test_depth_from_a_url_is_the_shortest_path(crawls: Crawls) -> None:
    assert crawls.fetched(f"{crawls.address}/a2.html", "--depth", "2") == [
        "a2",
        "a3",
        "a4",
        "old",
        "a6",
    ]
    # a5 is the only unvisited page one link from a4.
    assert crawls.fetched("--from", f"{crawls.address}/a4.html", "--depth", "1") == ["a5"]


def test_strategy_applies_to_a_crawl_from_a_url(crawls: Crawls) -> None:
    crawls(f"{crawls.address}/", "--depth", "0")
    deep = crawls.fetched(
        "--from", f"{crawls.address}/", "--strategy", "depth-first", "--depth", "3"
    )
    assert deep in (["a1", "a2", "a3", "b1", "b2", "b3"], ["b1", "b2", "b3", "a1", "a2", "a3"])


def test_crawl_from_all_unvisited_urls(crawls: Crawls) -> None:
    assert crawls.fetched(f"{crawls.address}/", "--max-pages", "1") == ["index"]
    remaining = crawls.fetched("--from", "unvisited", "--strategy", "breadth-first")
    assert [sorted(remaining[0:2]), sorted(remaining[2:4]), sorted(remaining[4:6])] == [
        ["a1", "b1"],
        ["a2", "b2"],
        ["a3", "b3"],
    ]
    assert sorted(remaining[6:]) == ["a4", "a5", "a6", "old"]
    repeated = crawls.fetched(
        "--from", "unvisited", "--set", "collection.recrawl=age", "--set", "collection.max_age=1s"
    )
    assert repeated == [], "visited pages are not fetched again, even if they are due"
    assert "index" in crawls.fetched(
        "--set", "collection.recrawl=age", "--set", "collection.max_age=1s", "--max-time", "4s"
    )


def test_invalid_start_of_a_crawl_is_refused(crawls: Crawls, tmp_path: Path) -> None:
    assert "is not a workspace" in crawls("--from", "unvisited", code=1).err
    crawls(f"{crawls.address}/", "--max-pages", "1")
    assert (
        "is not known in collection 'default'"
        in crawls("--from", f"{crawls.address}/nowhere.html", code=2).err
    )
    assert (
        "this workspace has no data of collection 'news'"
        in crawls("--from", "unvisited", "--collection", "news", code=2).err
    )
    assert "leave out other URLs" in crawls(crawls.address, "--from", "unvisited", code=2).err
    assert (
        "choose breadth-first" in crawls("--from", "unvisited", "--strategy", "random", code=2).err
    )
