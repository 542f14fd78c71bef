"""`lycosa crawl --from`: the known web is walked again, and only what was never visited is
fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Lycosa, Outcome
from tests.servers.nginx import Nginx, Server, nginx

# Two branches of five and three pages below the front page; /a2 is led to by a redirect too.
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
            f"<title>{name}</title><p>This is page {name}, and it says so.</p>{links}"
        )
    extra = "location = /old.html { return 301 /a6.html; }"
    with nginx(
        [Server("127.0.4.2", root, index="index.html", autoindex=False, extra=extra)]
    ) as server:
        yield server


class Crawls:
    """Calls of `crawl` into one workspace, and what each of them asked the server for."""

    def __init__(self, lycosa: Lycosa, root: Path, site: Nginx) -> None:
        self._lycosa, self._root, self._site = lycosa, root, site
        self.address = f"http://127.0.4.2:{site.port}"

    def __call__(self, *arguments: str, code: int = 0) -> Outcome:
        outcome = self._lycosa(
            "-w",
            str(self._root),
            "crawl",
            *arguments,
            "--delay",
            "0",
            "--set",
            "crawl.patience=3s",
            "--json",
        )
        assert outcome.code == code, outcome.err
        return outcome

    def asked(self, *arguments: str) -> list[str]:
        """The pages that a call fetched, in order."""
        mark = self._site.mark()
        self(*arguments)
        paths = [request.uri for request in self._site.requests(mark)]
        return [
            path.removeprefix("/").removesuffix(".html") or "index"
            for path in paths
            if path != "/robots.txt"
        ]


@pytest.fixture
def crawls(lycosa: Lycosa, tmp_path: Path, site: Nginx) -> Crawls:
    return Crawls(lycosa, tmp_path / "w", site)


def test_from_a_url_only_what_it_reaches_is_fetched_and_nothing_twice(crawls: Crawls) -> None:
    assert crawls.asked(f"{crawls.address}/", "--depth", "1") == ["index", "a1", "b1"]
    assert crawls.asked("--from", f"{crawls.address}/a1.html", "--depth", "1") == ["a2"]
    # Three links on: a4 by a2 and a3, and b2 by the front page and b1.
    assert sorted(crawls.asked("--from", f"{crawls.address}/a1.html", "--depth", "3")) == [
        "a3",
        "a4",
        "a6",
        "b2",
        "old",
    ]
    assert crawls.asked("--from", f"{crawls.address}/b1.html", "--depth", "0") == []
    assert crawls.asked("--from", f"{crawls.address}/b1.html") == ["b3"]
    assert crawls.asked("--depth", "1") == [], "the walks did not widen the collection"
    assert crawls.asked() == ["a5"]


def test_the_depth_of_a_walk_is_counted_by_the_shortest_way(crawls: Crawls) -> None:
    assert crawls.asked(f"{crawls.address}/a2.html", "--depth", "2") == [
        "a2",
        "a3",
        "a4",
        "old",
        "a6",
    ]
    # From a4 everything lies one link on; the way back to a1 leads over nothing that is known.
    assert crawls.asked("--from", f"{crawls.address}/a4.html", "--depth", "1") == ["a5"]


def test_strategies_hold_from_a_url(crawls: Crawls) -> None:
    crawls(f"{crawls.address}/", "--depth", "0")
    deep = crawls.asked("--from", f"{crawls.address}/", "--strategy", "depth-first", "--depth", "3")
    assert deep in (["a1", "a2", "a3", "b1", "b2", "b3"], ["b1", "b2", "b3", "a1", "a2", "a3"])


def test_from_all_that_is_unvisited(crawls: Crawls) -> None:
    assert crawls.asked(f"{crawls.address}/", "--max-pages", "1") == ["index"]
    rest = crawls.asked("--from", "unvisited", "--strategy", "breadth-first")
    assert [sorted(rest[0:2]), sorted(rest[2:4]), sorted(rest[4:6])] == [
        ["a1", "b1"],
        ["a2", "b2"],
        ["a3", "b3"],
    ]
    assert sorted(rest[6:]) == ["a4", "a5", "a6", "old"]
    again = crawls.asked(
        "--from", "unvisited", "--set", "collection.recrawl=age", "--set", "collection.max_age=1s"
    )
    assert again == [], "visited pages rest, whatever their schedule says"
    assert "index" in crawls.asked(
        "--set", "collection.recrawl=age", "--set", "collection.max_age=1s", "--max-time", "4s"
    )


def test_wrong_starts_say_so(crawls: Crawls, tmp_path: Path) -> None:
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
