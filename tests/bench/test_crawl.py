"""Tests of the crawl benchmark: report, builds of peers, profile, and floors."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from bench.crawl import (
    HERE,
    Run,
    below_floors,
    fallen,
    markdown,
    parse_arguments,
    ratios,
    run_once,
    targets,
    those_present,
    unequal_pages,
)
from bench.floors import CONTENDERS, TARGETS, check, measure_round, quick_floors
from bench.peers import build
from bench.peers.build import PeerAbsent, built
from bench.profile import IMPORTS, read_stacks, summarize

from tests.servers.nginx import Server, nginx
from tests.servers.system import require_program

FLOORS = {"scrapy_all": 2.5, "scrapy_python_doc": 4.5, "links_all": 12.0, "memory_mb": 400.0}


def _run(
    contender: str, target: str, number: int, pages: int, cpu_s: float, memory: float = 100.0
) -> Run:
    return Run(contender, target, number, pages, pages, cpu_s, cpu_s, memory, memory, 0.1)


def _runs(speed: float, memory: float = 100.0) -> list[Run]:
    """Return 3 rounds in which Lycosa is `speed` times as fast as Scrapy."""
    runs = []
    for number in range(3):
        factor = 1 + number  # the machine becomes slower from round to round
        for target in ("all", "python-doc"):
            runs.append(_run("scrapy", target, number, 100, 100 * factor))
            runs.append(_run("lycosa", target, number, 100, 100 * factor / speed, memory))
            runs.append(_run("links", target, number, 100, 100 * factor / 13))
    return runs


def test_ratios_compare_runs_of_the_same_round() -> None:
    assert ratios(_runs(5.0)) == {
        "lycosa/scrapy on all": 5.0,
        "links/scrapy on all": 13.0,
        "lycosa/scrapy on python-doc": 5.0,
        "links/scrapy on python-doc": 13.0,
    }


def test_low_ratios_and_high_memory_are_reported() -> None:
    assert below_floors(_runs(5.0), FLOORS) == []
    assert len(below_floors(_runs(3.0), FLOORS)) == 1  # too slow on python-doc only
    assert len(below_floors(_runs(2.0), FLOORS)) == 2
    assert len(below_floors(_runs(5.0, memory=401), FLOORS)) == 1


def test_floors_without_a_measurement_are_reported() -> None:
    assert len(below_floors([run for run in _runs(5.0) if run.target == "all"], FLOORS)) == 1
    assert len(below_floors([], FLOORS)) == 3


def test_floors_file_is_complete() -> None:
    assert tomllib.loads((HERE / "floors.toml").read_text())["crawl"].keys() == FLOORS.keys()


def test_different_numbers_of_pages_are_reported() -> None:
    assert unequal_pages(_runs(5.0)) == []
    assert len(unequal_pages([*_runs(5.0), _run("wget", "all", 0, 90, 1.0)])) == 1


def test_targets_are_each_site_one_site_or_all_sites() -> None:
    assert [name for name, _ in targets("each")] == [sites[0] for _, sites in targets("each")]
    assert targets("python-doc") == [("python-doc", ("python-doc",))]
    assert len(targets("all")[0][1]) == 6


def test_markdown_report_has_all_contenders_and_ratios() -> None:
    text = markdown(_runs(5.0))
    assert all(f"| {name} |" in text for name in ("lycosa", "scrapy", "links"))
    assert "| lycosa/scrapy on all | 5.0 |" in text


def test_pages_are_responses_with_status_200_and_html(tmp_path: Path) -> None:
    require_program("wget")
    (tmp_path / "index.html").write_text(
        '<a href="a.html">x</a><a href="b.txt">x</a><a href="missing.html">x</a><img src="i.png">'
    )
    (tmp_path / "a.html").write_text("<p>x")
    (tmp_path / "b.txt").write_text("x")
    with nginx([Server("127.0.0.1", tmp_path)]) as server:
        run = run_once("wget", "little", 0, [f"http://127.0.0.1:{server.port}/"], server)
    assert (run.pages, run.requests, run.robots) == (2, 4, 0)
    assert 0 < run.kept_mb < 1
    assert 0 < run.cpu_s < 2


QUICK_FLOORS = {
    f"{name}/scrapy on {target}": floor
    for target in TARGETS
    for name, floor in (("lycosa", 2.0), ("links", 10.0))
}


def test_a_ratio_may_be_at_most_15_percent_below_its_floor() -> None:
    floors = {"a/b on c": 4.0}
    assert (fallen({"a/b on c": 9.0}, floors), fallen({"a/b on c": 3.41}, floors)) == ([], [])
    assert fallen({"a/b on c": 3.39}, floors) == [
        "a/b on c: 3.39 is more than 15% below its floor 4.0"
    ]
    assert fallen({"a/b on d": 9.0}, floors) == ["a/b on c: not measured (floor 4.0)"]


def test_every_measured_ratio_has_a_floor() -> None:
    names = [name for name in CONTENDERS if name != "scrapy"]
    assert set(quick_floors()) == {
        f"{name}/scrapy on {target}" for name in names for target in TARGETS
    }
    assert all(floor > 1 for floor in quick_floors().values())


def _rounds(
    *speeds: dict[str, float],
) -> tuple[list[Sequence[str]], Callable[[Sequence[str]], list[Run]]]:
    """Return the targets of the measured rounds, and a function that measures a round.

    In each round, Lycosa is `speeds[round][target]` times as fast as Scrapy, 2.0 by default.
    """
    measured: list[Sequence[str]] = []

    def measure(targets: Sequence[str]) -> list[Run]:
        speed = speeds[len(measured)]
        measured.append(list(targets))
        costs = {
            target: {"lycosa": 10 / speed.get(target, 2.0), "links": 1.0, "scrapy": 10.0}
            for target in targets
        }
        return [
            Run(name, target, 0, 100, 100, costs[target][name], 1.0, 100.0, 100.0, 0.1)
            for target in targets
            for name in CONTENDERS
        ]

    return measured, measure


def test_ratios_above_their_floors_are_measured_once() -> None:
    measured, measure = _rounds({TARGETS[0]: 1.91})
    assert check(measure, QUICK_FLOORS)[1] == []
    assert measured == [list(TARGETS)]


def test_low_ratios_are_measured_again_and_the_median_is_compared() -> None:
    measured, measure = _rounds({TARGETS[0]: 1.0}, {TARGETS[0]: 1.75}, {TARGETS[0]: 1.8})
    assert check(measure, QUICK_FLOORS)[1] == []
    assert measured == [list(TARGETS), [TARGETS[0]], [TARGETS[0]]]


def test_a_low_median_is_confirmed_before_it_is_reported() -> None:
    low, high = {TARGETS[1]: 1.6}, {TARGETS[1]: 2.0}
    measured, measure = _rounds(low, low, low, high)
    assert check(measure, QUICK_FLOORS)[1] == []
    assert measured[1:] == [[TARGETS[1]]] * 3
    _, measure = _rounds(*[low] * 6)
    assert check(measure, QUICK_FLOORS)[1] == [
        f"lycosa/scrapy on {TARGETS[1]}: 1.6 is more than 15% below its floor 2.0"
    ]


@pytest.mark.floors
def test_no_ratio_is_below_its_floor() -> None:
    runs, reports = check(measure_round, quick_floors())
    assert not reports, "\n".join([*reports, markdown(runs)])


SOURCE = 'package main\n\nfunc main() { println("%s") }\n'


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with sources of the peer colly, and an empty cache of builds."""
    monkeypatch.setattr(build, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(build, "CACHE", tmp_path / "cache")
    folder = tmp_path / "sources" / "colly"
    folder.mkdir(parents=True)
    (folder / "main.go").write_text(SOURCE % "one")
    return folder


def test_a_peer_without_its_compiler_is_skipped_with_a_message(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(sources))
    with pytest.raises(PeerAbsent, match="go is not installed"):
        built("colly")
    assert those_present(["links", "colly"], tls=False) == ["links"]
    assert (
        "colly is left out: colly cannot be installed: go is not installed"
        in capsys.readouterr().err
    )
    with pytest.raises(PeerAbsent, match="nothing is left"):
        those_present(["colly"], tls=False)


def test_error_of_a_failed_build_contains_the_output_of_the_compiler(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = sources.parent / "go"
    compiler.write_text("#!/bin/sh\necho no such module >&2; exit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sources.parent}:/bin:/usr/bin")
    with pytest.raises(PeerAbsent, match=r"ended with 3:\nno such module"):
        built("colly")


def test_a_program_is_built_again_only_after_changes_of_its_sources(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = sources.parent / "go"
    # go build -o TARGET .
    compiler.write_text(
        f"#!/bin/sh\necho run >> {sources.parent}/runs; mkdir -p $(dirname $3); cp main.go $3\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sources.parent}:/bin:/usr/bin")
    first = built("colly")
    assert (built("colly"), first.read_text()) == (first, SOURCE % "one")
    (sources / "main.go").write_text(SOURCE % "two")
    assert built("colly").read_text() == SOURCE % "two"
    assert not first.exists()
    assert (sources.parent / "runs").read_text() == "run\n" * 2


def test_scrapy_with_http2_is_skipped_without_tls(capsys: pytest.CaptureFixture[str]) -> None:
    options = parse_arguments(["--rivals", "scrapy,scrapy-http2", "--without-lycosa"])
    assert those_present(options.contenders, tls=False) == ["scrapy"]
    assert (
        "scrapy-http2 is left out: Scrapy speaks HTTP/2 over TLS alone" in capsys.readouterr().err
    )
    assert those_present(options.contenders, tls=True) == ["scrapy", "scrapy-http2"]


def test_dependencies_of_peers_are_pinned() -> None:
    assert "github.com/gocolly/colly/v2 v2" in (build.SOURCES / "colly" / "go.sum").read_text()
    assert 'name = "spider"' in (build.SOURCES / "spider" / "Cargo.lock").read_text()


MAIN = "thread (7): MainThread;<module> (lycosa:8);command (lycosa/cli/crawl.py:80);"
LINES = [
    f"{MAIN}walk (lycosa/page/html/walk.py:12) 30",
    f"{MAIN}_read (lycosa/page/html/document.py:9);parse "
    "(selectolax/lexbor.cpython-311-x86_64-linux-gnu.so);0x7f (libc.so.6) 10",
    f"{MAIN}walk (lycosa/page/html/walk.py:30);unicode_split (libpython3.11.so.1.0);malloc "
    "(libc.so.6) 10",
    f"{MAIN}Driver.step (lycosa/fetch/driver.py:60);header_callback "
    "(easycb.c:168);pthread_cond_timedwait (libc.so.6);0x7f (libc.so.6) 500",
    "thread (7): MainThread;_find_and_load (<frozen importlib._bootstrap>:1);<module> "
    "(lycosa/app/crawling.py:3);compile (re.py:2) 50",
    "no stack at all",
]


def test_samples_are_attributed_to_the_innermost_function_of_lycosa() -> None:
    walk, read, split, imports = read_stacks(LINES)  # without the stack that waits
    assert (walk.package, walk.function, walk.native, walk.samples) == (
        "page",
        "page.html.walk: walk",
        False,
        30,
    )
    assert (read.function, read.native) == ("page.html.document: _read", True)
    assert (split.function, split.native) == ("page.html.walk: walk", False)
    assert (imports.package, imports.native) == (IMPORTS, False)


def test_shares_are_of_running_samples() -> None:
    text = summarize(read_stacks(LINES), functions=2)
    assert "100 samples, 10% of them native" in text
    assert "| page | 50.0% | 20% |" in text
    assert "| page.html.walk: walk | 40.0% | 0% |" in text
    assert "page.html.document" not in text
