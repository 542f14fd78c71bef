"""Tests of the Python API: examples of docs/reference/python.md, streams, results, errors."""

from __future__ import annotations

import asyncio
import errno
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lycosa import LycosaError, Workspace
from lycosa.api.checked_calls import _KINDS, CheckedCalls, _types_of
from lycosa.api.exports import Exports
from lycosa.api.groups import Part
from lycosa.api.inspection import Texts, WorkspaceStatistics
from lycosa.api.options import (
    CrawlArguments,
    FindArguments,
    HuntArguments,
    SearchArguments,
    TermsArguments,
)
from lycosa.api.streams import PageStream
from lycosa.cli.main import COMMANDS, load_command
from lycosa.cli.output import json_text
from lycosa.commands.maintenance.export import BulkOptions, LibraryOptions
from lycosa.core.errors import UsageError, WorkError, WorkspaceError
from lycosa.core.parameters import Duration
from lycosa.export.chunks.files import ChunkOptions
from lycosa.processes.threads import StopFlag, Stoppable
from tests.cli.conftest import run_here, small_site

EXAMPLES = re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).parent.parent / "docs/reference/python.md").read_text(encoding="utf-8"),
    re.DOTALL,
)
QUICK = ("crawl.patience=0", "index.heap=15MiB")
EAST = timezone(timedelta(hours=5, minutes=30))
SLOW = ("collection.delay=2m", "collection.courtesy_factor=0")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with small_site(tmp_path_factory.mktemp("site"), "127.0.4.3") as url:
        yield f"{url}/"


@pytest.fixture(scope="module")
def root(site: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a crawl of the site."""
    path = tmp_path_factory.mktemp("api") / "lycosa-data"
    report = Workspace(path, QUICK).crawl([site], delay=0)
    assert (report.pages, report.ended) == (2, "finished")
    return path


def test_examples_of_the_reference_run(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    output = []
    for example in EXAMPLES:
        here = example.replace("https://example.org/", site).replace("delay=1", "delay=0")
        exec(compile(here, "docs/reference/python.md", "exec"), names)
        output.append(capsys.readouterr().out)
    assert f"{site} The home of <script> & moths\n" in output[0]
    assert "200 Compound eyes" in output[2]
    assert "is not a workspace" in output[-1]
    assert names["frame"]["title"].to_list() == ["The home of <script> & moths", "Compound eyes"]
    assert names["status"].pages == 2
    assert names["exported"].captures > 2


def test_pages_are_yielded_as_they_are_fetched(site: str, tmp_path: Path) -> None:
    with Workspace(tmp_path / "w", QUICK).crawl_iter(site, delay=0) as stream:
        pages = list(stream)
    assert [page.title for page in pages] == ["The home of <script> & moths", "Compound eyes"]
    assert f"{site}eyes.html" in pages[0].links
    assert (pages[0].status, pages[0].collection, pages[0].language) == (200, "default", "en")
    assert [page.metadata.headline for page in pages] == ["Moths", "Compound eyes"]
    assert pages[0].metadata.raw.keys() <= {"meta", "opengraph"}
    assert stream.report.pages == 2


def test_a_seed_needs_no_scheme(site: str, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w", QUICK)
    assert workspace.crawl(site.removeprefix("http://"), delay=0, max_pages=1).pages == 1
    assert [page.url for page in workspace.pages()] == [site]


def test_closing_a_stream_stops_the_crawl_and_keeps_its_pages(site: str, tmp_path: Path) -> None:
    ws = Workspace(tmp_path / "w", ("index.heap=15MiB",))
    with ws.crawl_iter(site, delay="200ms") as stream:
        first = next(stream)
    assert first.url == site
    assert ws.status().pages >= 1
    assert ws.status().running is None
    assert list(stream) == []


def test_leaving_a_loop_over_a_stream_stops_the_crawl(site: str, tmp_path: Path) -> None:
    ws = Workspace(tmp_path / "w", ("index.heap=15MiB",))
    for page in ws.crawl_iter(site, delay="1s"):
        assert page.url == site
        break
    status = ws.status()
    assert (status.running, status.pages) == (None, 1)


def test_a_stream_is_an_asynchronous_iterator_and_raises_errors(site: str, tmp_path: Path) -> None:
    async def titles(stream: PageStream[Any]) -> list[str]:
        return [page.title async for page in stream]

    ws = Workspace(tmp_path / "w", QUICK)
    assert len(asyncio.run(titles(ws.crawl_iter(site, delay=0)))) == 2
    with pytest.raises(UsageError, match="choose host"):
        next(ws.crawl_iter(site, scope="planet"))


def test_an_asynchronous_reader_can_be_cancelled_without_losing_pages(
    site: str, tmp_path: Path
) -> None:
    async def read(stream: PageStream[Any]) -> list[str]:
        titles = []
        while True:
            try:
                titles.append((await asyncio.wait_for(anext(stream), 0.01)).title)
            except TimeoutError:
                await asyncio.sleep(0.05)
            except StopAsyncIteration:
                return titles

    ws = Workspace(tmp_path / "w", QUICK)
    assert len(asyncio.run(read(ws.crawl_iter(site, delay=0)))) == 2


def test_closing_a_stream_ends_waiting_readers(tmp_path: Path) -> None:
    def run(put: Callable[[int], None], started: Callable[[StopFlag], None]) -> None:
        flag = StopFlag()
        started(flag)
        put(1)
        flag.wait(60)
        raise WorkError("the disk is full")

    async def read(stream: PageStream[int]) -> list[list[int]]:
        async def items() -> list[int]:
            return [item async for item in stream]

        async with stream:
            readers = [asyncio.create_task(items()) for _ in range(3)]
            await asyncio.sleep(0.2)
            with pytest.raises(WorkError, match="disk is full"):
                await asyncio.to_thread(stream.close)
            return await asyncio.wait_for(asyncio.gather(*readers), 10)

    assert sorted(asyncio.run(read(PageStream(run)))) == [[], [], [1]]


def test_a_stream_calls_the_functions_of_its_caller(site: str, tmp_path: Path) -> None:
    urls: list[str] = []
    workers: list[Stoppable] = []
    stream = Workspace(tmp_path / "w", QUICK).crawl_iter(
        site, delay=0, on_page=lambda page: urls.append(page.url), on_start=workers.append
    )
    assert [page.url for page in stream] == urls
    assert len(workers) == 1


@pytest.mark.parametrize("delay", [0, 0.01, "10ms", timedelta(milliseconds=10)])
def test_hunt_accepts_a_single_seed_and_all_forms_of_delays(
    delay: Duration, site: str, tmp_path: Path
) -> None:
    ws = Workspace(tmp_path / "w", (*QUICK, "crawl.patience=1s", *SLOW))
    with ws.hunt("compound eyes of moths", seeds=site, time="1m", delay=delay) as hits:
        assert f"{site}eyes.html" in [hit.url for hit in hits]
    assert hits.report["ended"] == "finished"
    with pytest.raises(UsageError, match=r"delay: -1 is not a duration"):
        ws.hunt("moths", seeds=[site], delay=-1)


def test_results_are_a_sequence_of_hits_with_texts(site: str, root: Path) -> None:
    results = Workspace(root).search("eyes OR moths", explain=True)
    assert len(results) == results.total == 2
    assert {hit.title for hit in results} == {"The home of <script> & moths", "Compound eyes"}
    eyes = next(hit for hit in results if hit.url.endswith("eyes.html"))
    assert eyes.text.startswith("A compound eye sees movement")
    assert eyes.main_text in eyes.text != ""
    assert eyes.main_text.startswith("A compound eye sees movement")
    assert results[0].explanation is not None
    assert results[:1] == [results[0]]
    assert isinstance(results, Sequence)
    html = results._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert results.asdict() == asdict(results)
    json.dumps(results.asdict())


def test_json_of_commands_equals_that_of_the_api(site: str, root: Path) -> None:
    ws = Workspace(root)

    def printed(*words: str) -> Any:
        return json.loads(run_here("-w", str(root), *words, "--json").out)

    def as_json(model: Any) -> Any:
        return json.loads(json_text(model))

    assert printed("search", "moths") | {"took_ms": 0} == as_json(ws.search("moths")) | {
        "took_ms": 0
    }
    assert printed("status") == as_json(ws.status())
    assert printed("explain", f"{site}eyes.html") == as_json(ws.explain(f"{site}eyes.html"))
    assert printed("collection", "list") == as_json(ws.collections.list())
    assert printed("site", site) == as_json(ws.sites.audit(site))
    assert printed("links", "--to", f"{site}eyes.html") == as_json(
        ws.sites.links(to=f"{site}eyes.html")
    )
    assert printed("status", "--by", "language") == as_json(ws.statistics.groups("language"))
    assert printed("versions", f"{site}eyes.html") == as_json(
        ws.archive.versions(f"{site}eyes.html")
    )
    assert printed("fetch", f"{site}eyes.html")[-1]["status"] == 200


def test_pages_are_iterated_and_converted(root: Path) -> None:
    pages = Workspace(root).pages(language="en")
    assert {record.title for record in pages} == {"The home of <script> & moths", "Compound eyes"}
    assert pages.arrow().num_rows == pages.polars().collect().height == 2
    assert list(Workspace(root).pages(site="elsewhere.example")) == []


def test_pages_of_a_site_are_those_of_its_port_and_path(root: Path, site: str) -> None:
    workspace = Workspace(root)
    host = site.split("/")[2]
    for sites, pages in [
        ((site, host, host.partition(":")[0]), 2),
        (("127.0.4.3:9", f"{site}no/such/"), 0),
    ]:
        for name in sites:
            assert len(list(workspace.pages(site=name))) == pages
            assert workspace.pages(site=name).arrow().num_rows == pages


def test_methods_have_types_and_documentation() -> None:
    for name, method in inspect.getmembers(Workspace, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.getdoc(method), name
            parameters = inspect.signature(method).parameters.values()
            assert all(
                each.annotation is not each.empty for each in parameters if each.name != "self"
            )


def test_names_of_the_workspace_are_completed(root: Path) -> None:
    ws = Workspace(root)
    assert ws.statistics.names("collections") == ["default"]
    assert ws.statistics.names("hosts") == ["127.0.4.3"]
    assert ws.statistics.names("languages") == ["en"]
    options = {
        option
        for panel in COMMANDS.values()
        for name in panel
        for parameter in load_command(name).params
        if getattr(parameter, "_custom_shell_complete", None)
        for option in parameter.opts
    }
    assert {"--collection", "--site", "--lang"} <= options


def test_import_and_search_load_no_modules_that_they_do_not_need(root: Path) -> None:
    program = (
        "import sys, lycosa; assert 'lycosa.api' not in sys.modules\n"
        f"hits = [hit.url for hit in lycosa.Workspace({str(root)!r}).search('shape')]\n"
        "assert len(hits) == 1 and hits[0].endswith('/eyes.html'), hits\n"
        "loaded = {'polars', 'pyarrow', 'numpy', 'pycurl'} & sys.modules.keys()\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_search_includes_pages_indexed_after_the_last_search(site: str, tmp_path: Path) -> None:
    ws = Workspace(tmp_path / "data", QUICK)
    ws.crawl(f"{site}eyes.html", delay="0", depth=0, index=False)
    assert not list(ws.search("movement"))
    assert ws.maintenance.index().documents == 1
    assert [hit.title for hit in ws.search("movement")] == ["Compound eyes"]


def test_passages_check_their_arguments(root: Path) -> None:
    ws = Workspace(root)
    with pytest.raises(UsageError, match="query: None is not text"):
        ws.texts.passages(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="not a language code"):
        ws.texts.passages("moths", language="english")


def test_invalid_calls_raise_errors_and_create_no_files(tmp_path: Path) -> None:
    ws = Workspace(tmp_path)
    with pytest.raises(WorkspaceError, match="is not a workspace"):
        ws.search("x")
    with pytest.raises(LycosaError, match="is not a workspace"):
        ws.search("x")
    with pytest.raises(WorkspaceError, match="is not a workspace"):
        Workspace(__file__).search("x")
    with pytest.raises(UsageError, match="choose host"):
        ws.crawl("http://127.0.0.1/", scope="planet")
    with pytest.raises(UsageError, match="not a duration"):
        ws.crawl("http://127.0.0.1/", delay="5 parsecs")
    with pytest.raises(UsageError, match="not a language code"):
        ws.search("x", language="english")
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = __import__("lycosa").no_such_thing
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "call",
    [
        lambda ws: ws.crawl(collection=""),
        lambda ws: ws.crawl(workers=0),
        lambda ws: ws.crawl("http://127.0.0.1/", workers="2"),
        lambda ws: ws.crawl(address="10.0.0.1:6379"),
        lambda ws: ws.maintenance.rank(address="10.0.0.1:6379"),
        lambda ws: ws.add(),
        lambda ws: ws.add([]),
        lambda ws: ws.hunt("moths", agents=0),
        lambda ws: ws.hunt("moths", pages="3"),
        lambda ws: ws.hunt(None),
        lambda ws: ws.hunt("moths", seeds=3),
        lambda ws: ws.texts.passages(None),
        lambda ws: ws.fetch("http://127.0.0.1/", mode="short"),
        lambda ws: ws.archive.markdown("http://127.0.0.1/", mode="short"),
        lambda ws: ws.archive.reparse(since="2026-01-01"),
        lambda ws: ws.export.markdown("out", mode="short"),
        lambda ws: ws.export.warc("out", since="2026-01-01"),
        lambda ws: ws.export.library("xml", "out", since="2026-01-01"),
        lambda ws: ws.export.library("xml", "out", since=date(2026, 2, 1), until=date(2026, 1, 1)),
        lambda ws: ws.statistics.terms(since=2, until=1),
        lambda ws: ws.export.library("xml", "s3://bucket/out"),
        lambda ws: ws.export.warc("s3://bucket/out"),
        lambda ws: ws.export.wacz("s3://bucket/out.wacz"),
        lambda ws: ws.export.markdown(Path("webhdfs://host:9870/out")),
        lambda ws: ws.sites.changes("2026-01-01"),
        lambda ws: ws.statistics.hosts(-1),
        lambda ws: ws.statistics.names("pages"),
        lambda ws: ws.watches.matches(count=-1),
        lambda ws: ws.pages(collection="unknown"),
        lambda ws: ws.pages(language="english"),
        lambda ws: ws.texts.chunks("example.org", max_tokens="200"),
        lambda ws: ws.texts.passages("moths", budget="200"),
        lambda ws: ws.archive.text(None),
        lambda ws: ws.sites.audit(None),
        lambda ws: ws.sites.audit("127.0.4.3", large_bytes="1MB"),
        lambda ws: ws.sql(None),
        lambda ws: ws.sql("select '\ud800'"),
        lambda ws: ws.export.library("xml", "out", language="english"),
        lambda ws: ws.export.warc("out", language="english"),
        lambda ws: ws.export.chunks("out", ChunkOptions(max_tokens="200")),  # type: ignore[arg-type]
        lambda ws: ws.maintenance.duplicates(-1),
        lambda ws: ws.maintenance.exclude(None),
        lambda ws: ws.archive.import_files("pages.warc", collection=""),
        lambda ws: ws.archive.import_files(),
        lambda ws: ws.search("moths", across=["de", "zz"]),
        lambda ws: ws.export.wacz(""),
        lambda ws: ws.export.bulk("quickwit", "http://127.0.0.1:1", BulkOptions("i", "pages")),  # type: ignore[arg-type]
    ],
)
def test_wrong_parameters_are_usage_errors(root: Path, call: Callable[[Any], object]) -> None:
    with pytest.raises(UsageError):
        call(Workspace(root))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda ws: Workspace(None), "Workspace: root: None is not a path or text such as 'lycosa-data'; leave it out for the"),  # type: ignore[arg-type]
        (lambda ws: Workspace(settings=3), "settings: 3 is not a mapping such as {'fetch'"),  # type: ignore[arg-type]
        (lambda ws: ws.search("x", count=None), "Workspace.search: count: None is not an integer of "),
        (lambda ws: ws.search("x", copies=1), "copies: 1 is not True or False; leave it out for the"),
        (lambda ws: ws.search("x", collection=3), "collection: 3 is not text; leave it out for the"),
        (lambda ws: ws.search("x", collection="a\0"), "'a\\x00' has a null character or half of a"),
        (lambda ws: ws.search("x", facets=[3]), "facets: 3 is not text"),
        (lambda ws: ws.export.warc("out", max_size=1000), "Exports.warc: max_size: 1000 is not text such as '1GB'"),
        (lambda ws: ws.export.jsonl("out.jsonl"), "output: 'out.jsonl' is not a file that is open"),
        (lambda ws: ws.export.chunks("out", "jsonl"), "options: 'jsonl' is not of type ChunkOptions"),
        (lambda ws: ws.export.library("xml", "out", options=LibraryOptions(max_size=3)), "options.max_size: 3 is not text"),  # type: ignore[arg-type]
        (lambda ws: ws.monitors.add("http://a.example/", evry="1m"), "unknown setting 'evry'; did you mean 'every'"),
        (lambda ws: ws.crawl(on_page=3), "on_page: 3 is not a function"),
        (lambda ws: ws.fetch(b"http://127.0.0.1/"), "url: b'http://127.0.0.1/' is not text"),
        (lambda ws: ws.sites.audit("127.0.4.3", slow=[]), "slow: [] is not a duration: seconds, a"),
        (lambda ws: ws.statistics.hosts(2**63), "is not an integer of at least 0 and below 2**63"),
        (lambda ws: ws.watches.add("moths", "\ud800"), "'\\ud800' has a null character or half of a"),
    ],
)  # fmt: skip
def test_errors_name_the_method_the_argument_and_its_type(
    root: Path, call: Callable[[Any], object], problem: str
) -> None:
    with pytest.raises(UsageError) as error:
        call(Workspace(root))
    assert problem in str(error.value)


def test_paths_are_accepted_as_texts_and_every_text_as_query(root: Path, tmp_path: Path) -> None:
    ws = Workspace(root)
    assert ws.export.warc(tmp_path / "warc").captures > 2  # type: ignore[arg-type]
    assert ws.search("\0\ud800").total == 0


def test_all_methods_check_their_arguments() -> None:
    for group in {Workspace, Exports, *Part.__subclasses__()}:
        for name, method in inspect.getmembers(group, inspect.isfunction):
            if name.startswith("_"):
                continue
            names = inspect.unwrap(method).__globals__
            assert inspect.unwrap(method) is not method, name
            for parameter in [*inspect.signature(method).parameters.values()][1:]:
                for kind in _types_of(parameter.annotation) - {"None"}:
                    assert kind in _KINDS or isinstance(names[kind], type), (name, kind)


def test_a_text_is_accepted_in_place_of_a_list(root: Path) -> None:
    ws = Workspace(root)
    watch = ws.watches.add("moths", ignore="case", notify="file matches.jsonl")
    [target] = watch.notify
    assert target.target.endswith("/matches.jsonl")
    ws.watches.remove(watch.id)
    assert list(ws.texts.find("MOTHS", ignore="case").run())
    with pytest.raises(WorkspaceError, match="elsewhere is not a workspace"):
        ws.search("moths", workspaces="elsewhere")


def test_a_version_is_named_by_number_or_time(site: str, root: Path) -> None:
    archive = Workspace(root).archive
    newest = archive.text(site)
    later = datetime.now(timezone(timedelta(hours=-12)))
    assert archive.text(site, 1) == archive.text(site, later) == newest


def test_a_period_starts_at_a_day_or_a_time(root: Path) -> None:
    ws = Workspace(root)
    for since in (date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=EAST)):
        assert len(ws.sites.changes(since)) == 2
        assert ws.watches.matches(since=since).total == 0


def test_an_error_of_a_callback_ends_the_crawl(site: str, tmp_path: Path) -> None:
    def fail(value: object) -> None:
        raise ValueError("a callback failed")

    ws = Workspace(tmp_path / "w", QUICK)
    with pytest.raises(ValueError, match="a callback failed"):
        ws.crawl(site, delay=0, on_page=fail)
    with pytest.raises(ValueError, match="a callback failed"):
        list(ws.crawl_iter(site, delay=0, on_page=fail))
    assert ws.crawl(site, delay=0).replayed > 0


@pytest.fixture
def kolkata_time() -> Iterator[None]:
    """The local time of the process is that of Kolkata."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("kolkata_time")
def test_periods_of_all_methods_are_dates_or_times(root: Path, tmp_path: Path) -> None:
    ws = Workspace(root)
    at = next(iter(ws.pages())).fetched_at.replace(tzinfo=None)
    captures = ws.export.warc(str(tmp_path / "all")).captures
    for number, (since, everything) in enumerate(
        [
            (at.date(), True),
            (at - timedelta(minutes=5), True),
            ((at - timedelta(minutes=5)).replace(tzinfo=UTC).astimezone(EAST), True),
            (at + timedelta(minutes=5), False),
            ((at + timedelta(minutes=5)).replace(tzinfo=UTC).astimezone(EAST), False),
            (at.date() + timedelta(days=1), False),
        ]
    ):
        pages = 2 * everything
        assert ws.statistics.terms(since=since).pages == pages
        assert ws.archive.reparse(since=since).pages == pages
        exported = ws.export.warc(str(tmp_path / f"{number}"), since=since)
        assert exported.captures == captures * everything
    assert ws.statistics.terms(until=at.date()).pages == 0


class _Failing(CheckedCalls):
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, number: int, path: str | None) -> None:
        raise OSError(number, os.strerror(number), path)


@pytest.mark.parametrize("name", ["w", "w/run/owner.lock", ""])
def test_errors_of_the_system_in_a_workspace_are_work_errors(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    for number in (errno.EROFS, errno.ENOSPC, errno.EACCES):
        with pytest.raises(WorkError, match=f"{re.escape(path)}: {os.strerror(number)}"):
            _Failing(tmp_path / "w").write(number, path)


@pytest.mark.parametrize("name", ["w2", "x/y", None])
def test_errors_of_the_system_elsewhere_are_not_changed(tmp_path: Path, name: str | None) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        _Failing(tmp_path / "w").write(errno.ENOSPC, name and str(tmp_path / name))
    assert not isinstance(caught.value, LycosaError)


def test_a_workspace_is_pickled_after_a_search(root: Path) -> None:
    ws = Workspace(root, QUICK)
    ws.search("moths")
    copy = pickle.loads(pickle.dumps(ws))
    assert (copy.root, copy.settings) == (ws.root, ws.settings)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        (Workspace.search, SearchArguments),
        (Workspace.crawl, CrawlArguments),
        (Workspace.hunt, HuntArguments),
        (WorkspaceStatistics.terms, TermsArguments),
        (Texts.find_in_site, FindArguments),
    ],
)
def test_signatures_list_the_keyword_arguments(method: object, arguments: type) -> None:
    assert callable(method)
    parameters = inspect.signature(method).parameters
    named = {name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
    assert named - {"site"} == arguments.__annotations__.keys() - {"site"}
    assert "options" not in parameters


def test_methods_accept_all_documented_arguments_and_no_others(root: Path) -> None:
    ws = Workspace(root)
    arguments = SearchArguments(
        count=1, offset=0, language="en", collection="default", site="127.0.4.3", order="date",
        per_host=0, copies=True, facets=["host"], explain=True, feedback="off", spelling=False,
        across=(), source_language="en", translate=(), workspaces=(), peers=(), local=True,
    )  # fmt: skip
    assert arguments.keys() == SearchArguments.__annotations__.keys()
    assert len(ws.search("moths", **arguments)) == 1
    with pytest.raises(TypeError, match="hurry"):
        ws.search("moths", hurry=True)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="per_host: -1 is not an integer of at least 0"):
        ws.search("moths", per_host=-1)
    with pytest.raises(UsageError, match="count: 1001 is more than 1,000 results"):
        ws.search("moths", count=1_001)
    terms = TermsArguments(
        language="en", site="127.0.4.3", collection="default", since=1, until=4_000_000_000_000,
        rising=False, period="7d", stop_words=True, count=1_000,
    )  # fmt: skip
    assert terms.keys() == TermsArguments.__annotations__.keys()
    assert "moths" in {term.text.lower() for term in ws.statistics.terms(**terms).terms}
