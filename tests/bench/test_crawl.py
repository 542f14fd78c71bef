"""The report of the crawl benchmark: ratios pair by pair, floors that bite, complaints about
unequal work.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from bench.crawl import HERE, Run, below_floors, markdown, ratios, run_once, targets, unequal_pages

from tests.servers.nginx import Server, nginx
from tests.servers.system import require_program

FLOORS = {"scrapy_all": 2.5, "scrapy_python_doc": 4.5, "links_all": 12.0, "memory_mb": 400.0}


def _run(
    contender: str, target: str, number: int, pages: int, cpu_s: float, memory: float = 100.0
) -> Run:
    return Run(contender, target, number, pages, pages, cpu_s, cpu_s, memory, memory, 0.1)


def _runs(ours: float, memory: float = 100.0) -> list[Run]:
    runs = []
    for number in range(3):
        slow = 1 + number  # each round slower than the one before, for all alike
        for target in ("all", "python-doc"):
            runs.append(_run("scrapy", target, number, 100, 100 * slow))
            runs.append(_run("lycosa", target, number, 100, 100 * slow / ours, memory))
            runs.append(_run("links", target, number, 100, 100 * slow / 13))
    return runs


def test_ratios_are_taken_round_by_round() -> None:
    assert ratios(_runs(5.0)) == {
        "lycosa/scrapy on all": 5.0,
        "links/scrapy on all": 13.0,
        "lycosa/scrapy on python-doc": 5.0,
        "links/scrapy on python-doc": 13.0,
    }


def test_floors() -> None:
    assert below_floors(_runs(5.0), FLOORS) == []
    assert len(below_floors(_runs(3.0), FLOORS)) == 1  # enough on all, too little on python-doc
    assert len(below_floors(_runs(2.0), FLOORS)) == 2
    assert len(below_floors(_runs(5.0, memory=401), FLOORS)) == 1


def test_a_floor_that_was_not_measured_is_a_complaint() -> None:
    assert len(below_floors([run for run in _runs(5.0) if run.target == "all"], FLOORS)) == 1
    assert len(below_floors([], FLOORS)) == 3


def test_the_committed_floors_are_complete() -> None:
    assert tomllib.loads((HERE / "floors.toml").read_text())["crawl"].keys() == FLOORS.keys()


def test_unequal_pages_are_a_complaint() -> None:
    assert unequal_pages(_runs(5.0)) == []
    assert len(unequal_pages([*_runs(5.0), _run("wget", "all", 0, 90, 1.0)])) == 1


def test_targets() -> None:
    assert [name for name, _ in targets("each")] == [sites[0] for _, sites in targets("each")]
    assert targets("python-doc") == [("python-doc", ("python-doc",))]
    assert len(targets("all")[0][1]) == 6


def test_markdown_names_every_contender() -> None:
    text = markdown(_runs(5.0))
    assert all(f"| {name} |" in text for name in ("lycosa", "scrapy", "links"))
    assert "| lycosa/scrapy on all | 5.0 |" in text


def test_pages_are_counted_from_the_log_of_nginx(tmp_path: Path) -> None:
    """wget on a little site: one index, one page, one text; the missing page and the text are
    requests, not pages.
    """
    require_program("wget")
    (tmp_path / "index.html").write_text(
        '<a href="a.html">x</a><a href="b.txt">x</a><a href="missing.html">x</a><img src="i.png">'
    )
    (tmp_path / "a.html").write_text("<p>x")
    (tmp_path / "b.txt").write_text("x")
    with nginx([Server("127.0.0.1", tmp_path)]) as server:
        run = run_once("wget", "little", 0, [f"http://127.0.0.1:{server.port}/"], server)
    assert (run.pages, run.requests) == (2, 4)
    assert 0 < run.cpu_s < 2
