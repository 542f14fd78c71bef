"""`lycosa import`: captures of other crawlers are stored and indexed like fetched pages, once."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from warcio.statusandheaders import StatusAndHeaders

import lycosa
from lycosa.archive.warc.reader import read_exchanges, read_response
from lycosa.archive.warc.record import PROFILE_IDENTICAL, PROFILE_NOT_MODIFIED
from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.commands.crawling.import_archives import ImportOptions, import_files
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.errors import ConfigError, UsageError
from lycosa.core.records import UrlId
from lycosa.crawl.admission.link_gate import LinkGate
from lycosa.crawl.recovery.import_archives import Imported
from lycosa.export.archives.warc import export_warc
from lycosa.search.engine.searcher import Searcher
from lycosa.search.presentation.results import SearchRequest
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.archive.exchanges import pair
from tests.archive.foreign_files import (
    ANSWERS,
    AT,
    HOST,
    Answer,
    Writer,
    arc,
    html,
    wacz,
    warc,
    write_every_format,
)
from tests.archive.test_writer import write
from tests.cli.conftest import run_here
from tests.crawl.conftest import ServeWeb, page, serve
from tests.servers.system import require_program
from tests.waiting import until

__all__ = ["serve"]

CONFIG = parse_config("", overrides=("crawl.patience=0",))
PAGES = {f"{HOST}/": "Home", f"{HOST}/eyes": "Compound eyes", f"{HOST}/wings": "Wings"}


def import_paths(
    root: Path,
    *paths: Path,
    index: bool = False,
    settings: dict[str, object] | None = None,
    base: str = "",
    in_scope: bool = False,
) -> Imported:
    collection = (
        "default"
        if settings is None
        else Collection.model_validate({"name": "default", **settings})
    )
    options = ImportOptions(base, in_scope, index)
    return import_files(str(root), CONFIG, collection, [str(path) for path in paths], options)


def rows(root: Path, table: str) -> pl.DataFrame:
    return LiveTables(Workspace.open(str(root))).scan(table).collect()


def titles(root: Path) -> dict[str, str]:
    return dict(rows(root, "pages").select("url", "title").iter_rows())


def states(root: Path) -> dict[str, str]:
    return dict(
        rows(root, "urls").filter(pl.col("operation") == "").select("url", "state").iter_rows()
    )


def assert_valid(root: Path) -> None:
    report = verify(Workspace.open(str(root)), deep=True)
    assert report.ok, report.findings


@pytest.mark.parametrize(
    "kind", ["plain.warc", "members.warc.gz", "dictionary.warc.zst", "v2.arc", "moths.wacz"]
)
def test_captures_of_every_format_are_imported_once(kind: str, tmp_path: Path) -> None:
    path = write_every_format(tmp_path)[kind]
    root = tmp_path / "workspace"
    report = import_paths(root, path, index=kind == "moths.wacz")
    assert (report.captures, report.imported, report.pages, dict(report.left_out)) == (5, 5, 3, {})
    assert titles(root) == PAGES
    assert states(root) == {
        **dict.fromkeys([*PAGES, f"{HOST}/old"], "visited"),
        f"{HOST}/gone": "gone",
    }
    again = import_paths(root, path)
    assert (again.imported, again.already_there, rows(root, "visits").height) == (0, 5, 5)
    assert rows(root, "pages").filter(pl.col("url") == f"{HOST}/wings")[
        "redirect_from"
    ].to_list() == [f"{HOST}/old"]
    links = rows(root, "links").filter(pl.col("source") == f"{HOST}/")
    assert sorted(links["target"]) == [
        "http://moths.example/eyes",
        "http://moths.example/wings",
        "http://other.example/",
    ]
    workspace = Workspace.open(str(root))
    bodies = {
        stored.exchange.url: stored.exchange.body
        for file in workspace.state().warcs
        for stored in read_exchanges(workspace.path(file))
    }
    assert bodies == {answer.url: answer.body for answer in ANSWERS}
    if kind == "moths.wacz":
        assert [
            result.url for result in Searcher(str(root)).search(SearchRequest("facets")).hits
        ] == [f"{HOST}/eyes"]
    assert_valid(root)


def test_captures_whose_key_another_url_has_are_skipped_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = LinkGate.enter_imported

    def collide(gate: LinkGate, identity: UrlId, *arguments: Any) -> None:
        if identity.url.endswith("/eyes"):
            raise KeyError(identity.url)
        enter(gate, identity, *arguments)

    monkeypatch.setattr(LinkGate, "enter_imported", collide)
    paths = [tmp_path / "a.warc", tmp_path / "b.warc"]
    content = warc()
    for path in paths:
        path.write_bytes(content)
    report = import_paths(tmp_path / "w", *paths)
    counts = (report.captures, report.imported, report.already_there, dict(report.left_out))
    assert counts == (10, 4, 4, {"key_collision": 2})


def test_scope_limits_links_and_optionally_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(warc((*ANSWERS, Answer("http://other.example/", html("Other", "/far")))))
    seeded: dict[str, object] = {"seeds": [f"{HOST}/"]}
    import_paths(tmp_path / "all", path, settings=seeded)
    assert titles(tmp_path / "all") == {**PAGES, "http://other.example/": "Other"}
    assert "http://other.example/far" not in states(tmp_path / "all")
    report = import_paths(tmp_path / "some", path, settings=seeded, in_scope=True)
    assert (titles(tmp_path / "some"), report.left_out) == (PAGES, {"out_of_scope": 1})
    import_paths(tmp_path / "wide", path, settings={"scope": "any"})
    assert states(tmp_path / "wide")["http://other.example/far"] == "known"


def test_excluded_urls_are_not_imported(tmp_path: Path) -> None:
    listed = tmp_path / "excluded.txt"
    listed.write_text(f"prefix {HOST}/eyes\n")
    path = write_every_format(tmp_path)["plain.warc"]
    config = parse_config("", overrides=(f'crawl.exclusions="{listed}"',))
    report = import_files(
        str(tmp_path / "w"), config, "default", [str(path)], ImportOptions(index=False)
    )
    assert report.left_out == {"excluded": 1}
    assert f"{HOST}/eyes" not in titles(tmp_path / "w")


def write_revisit(
    writer: Writer, url: str, original: str, date: str, body: bytes, *, profile: str = ""
) -> None:
    """Write a revisit record; with a profile, one without an HTTP head."""
    response = writer.create_warc_record(
        original,
        "response",
        io.BytesIO(body),
        http_headers=StatusAndHeaders("200 OK", [], protocol="HTTP/1.1"),
    )
    writer.ensure_digest(response, block=False, payload=True)
    head = StatusAndHeaders(
        "200 OK", [("Content-Type", "text/html; charset=utf-8")], protocol="HTTP/1.1"
    )
    record = writer.create_revisit_record(
        url,
        response.rec_headers.get_header("WARC-Payload-Digest"),
        original,
        AT,
        http_headers=None if profile else head,
    )
    if profile:
        record.rec_headers.replace_header("WARC-Profile", profile)
    record.rec_headers.replace_header("WARC-Date", date)
    writer.write_record(record)


def test_revisits_are_resolved_to_their_originals(tmp_path: Path) -> None:
    output = io.BytesIO()
    writer = Writer(output, gzip=True)
    body = ANSWERS[1].body
    # the same URL later
    write_revisit(writer, f"{HOST}/eyes", f"{HOST}/eyes", "2026-11-21T11:00:00Z", body)
    # another URL with the same payload
    write_revisit(writer, f"{HOST}/eyes-too", f"{HOST}/eyes", "2026-11-21T11:00:01Z", body)
    later, first = tmp_path / "later.warc.gz", tmp_path / "first.warc.gz"
    later.write_bytes(output.getvalue())
    first.write_bytes(warc(gzipped=True))
    root = tmp_path / "w"
    report = import_paths(root, later)
    assert (report.imported, report.left_out) == (0, {"revisit_without_original": 2})
    report = import_paths(root, first, later)
    assert (report.imported, dict(report.left_out)) == (7, {})
    assert titles(root) == {**PAGES, f"{HOST}/eyes-too": "Compound eyes"}
    visits = rows(root, "visits").filter(pl.col("url") == f"{HOST}/eyes").sort("fetched_at")
    assert visits["changed"].to_list() == [True, False]
    assert import_paths(root, first, later).already_there == 7
    assert_valid(root)


def test_revisits_without_a_head_are_versions(tmp_path: Path) -> None:
    output = io.BytesIO()
    writer = Writer(output, gzip=True)
    for day, profile in (("22", PROFILE_NOT_MODIFIED), ("23", PROFILE_IDENTICAL)):
        url, date = f"{HOST}/eyes", f"2026-11-{day}T11:00:00Z"
        write_revisit(writer, url, url, date, ANSWERS[1].body, profile=profile)
    path, root = tmp_path / "a.warc.gz", tmp_path / "w"
    path.write_bytes(warc(gzipped=True) + output.getvalue())
    assert import_paths(root, path).imported == 7
    visits = rows(root, "visits").filter(pl.col("url") == f"{HOST}/eyes").sort("fetched_at")
    assert visits["http_status"].to_list() == [200, 304, 200]
    assert visits["changed"].to_list() == [True, False, False]
    assert import_paths(root, path).already_there == 7
    assert_valid(root)


def test_not_modified_refers_to_the_capture_of_its_time(tmp_path: Path) -> None:
    url, old, new, root = f"{HOST}/", tmp_path / "old.warc", tmp_path / "new.warc", tmp_path / "w"
    output = io.BytesIO()
    write_revisit(
        Writer(output, gzip=False), url, url, "2026-11-22T11:00:00Z", b"",
        profile=PROFILE_NOT_MODIFIED,
    )  # fmt: skip
    old.write_bytes(warc() + output.getvalue())
    new.write_bytes(warc((Answer(url, html("A new start")),), date="2026-12-01T00:00:00Z"))
    import_paths(root, new)
    assert import_paths(root, old).imported == len(ANSWERS) + 1
    captures = rows(root, "visits").filter(pl.col("url") == url).sort("fetched_at")
    assert captures["http_status"].to_list() == [200, 304, 200]
    assert captures["digest"][1] == captures["digest"][0] != captures["digest"][2]
    file, offset = captures["warc_file"][1], captures["warc_offset"][1]
    record = read_response(root / file, offset, captures["warc_length"][1])
    assert record.headers["warc-refers-to"] == f"<{captures['record_id'][0]}>"
    assert_valid(root)


def test_originals_may_be_in_later_files(tmp_path: Path) -> None:
    output, root = io.BytesIO(), tmp_path / "w"
    writer, url, body = Writer(output, gzip=True), f"{HOST}/eyes", ANSWERS[1].body
    for day, profile in (("22", PROFILE_NOT_MODIFIED), ("23", PROFILE_IDENTICAL)):
        write_revisit(writer, url, url, f"2026-11-{day}T11:00:00Z", body, profile=profile)
    write_revisit(writer, f"{HOST}/eyes-too", url, "2026-11-21T11:00:01Z", body)
    (tmp_path / "a.warc.gz").write_bytes(output.getvalue())
    (tmp_path / "b.warc.gz").write_bytes(warc(gzipped=True))
    report = import_paths(root, tmp_path / "a.warc.gz", tmp_path / "b.warc.gz")
    assert (report.imported, report.left_out) == (len(ANSWERS) + 3, {})
    assert titles(root) == {**PAGES, f"{HOST}/eyes-too": "Compound eyes"}
    assert_valid(root)


@pytest.mark.parametrize("own", [True, False])
def test_bodies_above_the_limit_are_marked_and_counted(tmp_path: Path, own: bool) -> None:
    path, body = tmp_path / "big.warc.gz", bytes(2 * 2**20)
    if own:
        write(path, pair(f"{HOST}/big", body=body), pair(f"{HOST}/small"))
    else:
        path.write_bytes(warc((Answer(f"{HOST}/big", body), ANSWERS[0]), gzipped=True))
    config = parse_config("", overrides=("fetch.max_body=64KiB",))
    options = ImportOptions(index=False)
    report = import_files(str(tmp_path / "w"), config, "default", [str(path)], options)
    assert (report.imported, report.truncated) == (2, 1)
    visits = rows(tmp_path / "w", "visits").sort("url")
    big = visits["url"].to_list().index(f"{HOST}/big")
    assert visits["truncated"].to_list() == ["length" if at == big else "" for at in range(2)]
    assert visits["content_length"][big] < len(body)
    assert_valid(tmp_path / "w")


def test_only_pages_of_own_archives_are_pages(tmp_path: Path) -> None:
    path = tmp_path / "own.warc.gz"
    kinds = ["page", "robots", "sitemap", "feed", "login", "requisite"]
    pairs = [pair(f"http://www.example.org/{kind}") for kind in kinds]
    write(
        path,
        *(
            (exchange, replace(visit, kind=visit.url.rpartition("/")[2]))
            for exchange, visit in pairs
        ),
    )
    assert import_paths(tmp_path / "w", path).imported == len(kinds)
    assert rows(tmp_path / "w", "visits")["kind"].sort().to_list() == sorted(kinds)
    assert list(states(tmp_path / "w")) == list(titles(tmp_path / "w")) == [pairs[0][0].url]
    assert_valid(tmp_path / "w")


def test_responses_to_other_methods_are_no_pages(tmp_path: Path) -> None:
    path = tmp_path / "put.warc"
    path.write_bytes(warc().replace(b"GET / HTTP/1.1", b"PUT / HTTP/1.1", 1))
    report = import_paths(tmp_path / "w", path)
    assert (report.imported, report.left_out) == (len(ANSWERS) - 1, {"not_get": 1})
    assert f"{HOST}/" not in titles(tmp_path / "w")


def test_an_older_capture_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    new, old = tmp_path / "new.warc", tmp_path / "old.warc"
    new.write_bytes(warc())
    old.write_bytes(
        warc((Answer(f"{HOST}/", html("Home as it was")),), date="2020-01-01T00:00:00Z")
    )
    root = tmp_path / "w"
    import_paths(root, new)
    assert import_paths(root, old).imported == 1
    assert titles(root)[f"{HOST}/"] == "Home"
    assert rows(root, "visits").filter(pl.col("url") == f"{HOST}/").height == 2
    assert_valid(root)


def test_damaged_file_is_reported_and_the_rest_is_imported(tmp_path: Path) -> None:
    broken, intact = tmp_path / "a.warc.gz", tmp_path / "b.arc"
    broken.write_bytes(warc(gzipped=True)[:-100])
    intact.write_bytes(b"".join(arc((Answer("http://b.example/", html("Intact")),))))
    assert list(import_paths(tmp_path / "w", broken, intact).damaged) == [str(broken)]
    assert {"Home", "Compound eyes", "Intact"} <= set(titles(tmp_path / "w").values())
    result = run_here("-w", str(tmp_path / "v"), "import", str(broken), str(intact))
    result.expect(1, err=[str(broken)])
    with pytest.raises(UsageError, match="does not exist"):
        import_paths(tmp_path / "w", tmp_path / "none.warc")


@pytest.mark.proves("consistency-archive")
def test_exported_crawl_is_imported_with_the_same_rows(tmp_path: Path, serve: ServeWeb) -> None:
    """Crawl, export, import elsewhere: the same pages, links, URLs and search results."""
    site = {
        f"/{name}.html": page("/", f"/{(number + 1) % 12}.html", text=f"words of page {name}")
        for number, name in enumerate(map(str, range(12)))
    }
    web = serve(
        {"/index.html": page("/0.html", "/5.html", "/none.html", text="The start of it"), **site}
    )
    settings = {
        "name": "default",
        "delay": 0,
        "courtesy_factor": 0.0,
        "traps": False,
        "seeds": [web.url()],
    }
    collection = Collection.model_validate(settings)
    one, two = tmp_path / "one", tmp_path / "two"
    crawl(CrawlOrder(str(one), CONFIG, collection))
    exported = export_warc(Workspace.open(str(one)), tmp_path / "out")
    assert (
        import_paths(two, tmp_path / "out", index=True, settings=settings).imported
        == exported.captures
    )
    compared = {
        "pages": [
            "url",
            "fetched_at",
            "title",
            "text",
            "main_text",
            "language",
            "redirect_from",
            "record_id",
            "text_digest",
        ],
        "links": ["source", "target", "anchor", "kind", "position"],
        "urls": ["url", "depth", "state", "visited_at", "referrer", "digest", "record_id"],
        "visits": [
            "url",
            "kind",
            "fetched_at",
            "http_status",
            "digest",
            "redirect_to",
            "depth",
            "record_id",
        ],
    }
    for table, columns in compared.items():
        first, second = (rows(root, table).select(columns).sort(columns) for root in (one, two))
        assert first.equals(second), (
            table,
            first.join(second, on=columns, how="anti"),
            second.join(first, on=columns, how="anti"),
        )
    for query in ("start", "words page", "7"):
        actual = [
            [
                (each.url, each.title)
                for each in Searcher(str(root)).search(SearchRequest(query)).hits
            ]
            for root in (one, two)
        ]
        assert actual[0] == actual[1]
        assert actual[0]
    assert_valid(two)


@pytest.mark.proves("durability-import-kill")
def test_killed_import_is_resumed(tmp_path: Path) -> None:
    path, root = tmp_path / "many.warc.gz", tmp_path / "w"
    path.write_bytes(
        warc(
            tuple(Answer(f"http://h{n % 7}.example/{n}", html(f"Page {n}")) for n in range(900)),
            gzipped=True,
        )
    )
    command = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "-w",
        str(root),
        "import",
        str(path),
        "--no-index",
        "--set",
        "crawl.commit_pages=100",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: process.poll() is not None or len(list(root.glob("data/*/pages.parquet"))) > 1)
    process.kill()
    process.wait()
    assert process.returncode == -9
    before = rows(root, "pages").height
    report = import_paths(root, path)
    assert report.already_there >= before
    assert report.imported == 900 - report.already_there
    assert rows(root, "pages").height == rows(root, "visits").height == 900
    assert_valid(root)


def test_warc_and_mirror_of_wget_are_imported(tmp_path: Path, serve: ServeWeb) -> None:
    wget = require_program("wget")
    web = serve(
        {
            "/index.html": page("/a.html", "/sub/", text="start"),
            "/a.html": page(text="first"),
            "/sub/index.html": page(text="second"),
        }
    )
    call = [wget, "-q", "--no-proxy", "-r", "-e", "robots=off", web.url()]
    subprocess.run([*call, "--warc-file=w", "-P", "one"], cwd=tmp_path, check=True, timeout=60)
    subprocess.run([*call, "-P", "mirror"], cwd=tmp_path, check=True, timeout=60)
    by_warc, by_folder = tmp_path / "a", tmp_path / "b"
    report = import_paths(by_warc, tmp_path / "w.warc.gz")
    assert report.pages == 3
    assert sum(report.others.values()) == 2  # records about the run of wget
    assert import_paths(by_folder, tmp_path / "mirror").pages == 3
    assert (
        titles(by_warc)
        == titles(by_folder)
        == {web.url(): "start", web.url("/a.html"): "first", web.url("/sub/"): "second"}
    )


def test_base_collection_and_settings_of_an_import_apply(tmp_path: Path) -> None:
    folder, root = tmp_path / "folder", tmp_path / "w"
    folder.mkdir()
    (folder / "a.html").write_text("<title>First</title><main><p>Some text")
    import_paths(root, folder, base="moths.example/docs")
    assert titles(root) == {"http://moths.example/docs/a.html": "First"}
    for base in ("nonsense://x", "http://", "http://a.example/?x=1"):
        with pytest.raises(UsageError):
            import_paths(root, folder, base=base)
    archive = lycosa.Workspace(root, ["collection.markdown=true"]).archive
    archive.import_files(str(folder), base="b.example", collection="second", index=False)
    assert rows(root, "pages")["markdown"].drop_nulls().to_list() == ["Some text\n"]
    with pytest.raises(ConfigError, match="lower-case letters"):
        archive.import_files(str(folder), base="b.example", collection="Not a name")


def test_page_is_imported_into_two_collections(tmp_path: Path) -> None:
    path = wacz(tmp_path / "a.wacz", ("a.warc.gz", warc(gzipped=True)))
    root = tmp_path / "w"
    import_paths(root, path)
    report = import_files(str(root), CONFIG, "second", [str(path)], ImportOptions(index=False))
    assert report.pages == 3
    assert rows(root, "pages").group_by("collection").len().sort("collection").rows() == [
        ("default", 3),
        ("second", 3),
    ]
    assert_valid(root)
