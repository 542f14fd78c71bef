"""Test tools and resources of the MCP server with the official client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from lycosa import Workspace
from lycosa.commands.demo.demo import DemoWeb
from lycosa.commands.untrusted.client_fetch import ClientFetches
from lycosa.commands.untrusted.sql import SqlLimits, SqlRunner
from lycosa.core.errors import UsageError, WorkError
from lycosa.crawl.worker import Limits
from lycosa.mcp.output import NOTICE
from lycosa.mcp.server import McpOptions, create_server
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace as Store
from mcp import Client, MCPError
from tests.mcp.conftest import QUICK, address, call, failure, new_root, run_client
from tests.servers.local_http import QuietHandler, serving_handler

QUESTION = "how do wolf spider mothers carry their young"
READ_TOOLS = {
    *("search", "passages", "read_page", "page_history", "find_text", "list_collections", "sql"),
}


def _tools(options: McpOptions) -> dict[str, Any]:
    async def script(client: Client) -> dict[str, Any]:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    return run_client(options, script)


@pytest.mark.proves("access-mcp-read-only")
def test_tools_only_read_by_default(root: str) -> None:
    assert _tools(McpOptions(root)).keys() == READ_TOOLS
    assert _tools(McpOptions(root, allow_fetch=True)).keys() == READ_TOOLS | {"fetch_page"}
    crawling = _tools(McpOptions(root, allow_crawl=True))
    assert crawling.keys() == READ_TOOLS | {"crawl_site", "focused_crawl"}
    writing = {name for name, tool in crawling.items() if not tool.annotations.read_only_hint}
    assert writing == {"crawl_site", "focused_crawl"}
    assert all(tool.annotations.open_world_hint for tool in crawling.values())
    assert all(not tool.annotations.destructive_hint for tool in crawling.values())


@pytest.mark.proves("access-mcp-marked")
def test_every_result_and_error_is_marked_as_untrusted(root: str, site: str) -> None:
    async def script(client: Client) -> None:
        assert NOTICE in (client.instructions or "")
        for tool in (await client.list_tools()).tools:
            assert tool.output_schema is not None
            assert tool.output_schema["properties"].keys() == {"notice", "result"}
        answer = await client.call_tool("search", {"query": "spider"})
        assert answer.structured_content is not None
        assert answer.structured_content["notice"] == NOTICE
        (block,) = answer.content
        assert block.type == "text"
        assert json.loads(block.text) == answer.structured_content
        wrong = await client.call_tool("read_page", {"url": f"{site}none"})
        assert wrong.is_error
        assert wrong.content[0].text.endswith(NOTICE)  # type: ignore[union-attr]
        page = await client.read_resource(f"lycosa://page?url={quote(site, safe='')}")
        assert page.contents[0].text.startswith(NOTICE)  # type: ignore[union-attr]

    run_client(McpOptions(root, allow_fetch=True, allow_crawl=True), script)


def test_search_and_read_the_best_page(root: str, site: str) -> None:
    options = McpOptions(root)
    hits = call(options, "search", query=QUESTION, count=3)["hits"]
    assert (len(hits), hits[0]["url"]) == (3, f"{site}life/mothers.html")
    page = call(options, "read_page", url=hits[0]["url"])
    assert page["markdown"].startswith("# ")
    assert "The mother spins a disc of silk" in page["markdown"]
    assert (page["next_start"], page["length"]) == (None, len(page["markdown"]))
    assert page["fetched_at"].endswith("Z")
    assert call(options, "search", query="spider", language="de")["total"] == 1


def test_passages_cite_their_source(root: str, site: str) -> None:
    options = McpOptions(root)
    result = call(options, "passages", query=QUESTION, count=3, max_tokens=60)
    best = result["passages"][0]
    assert f"{site}life/mothers.html" in [each["url"] for each in result["passages"]]
    assert 0 < best["tokens"] <= 60
    assert sum(each["tokens"] for each in result["passages"]) == result["tokens"] <= 2_000
    version = call(options, "page_history", url=best["url"])["versions"][0]
    assert best["record_id"] == version["record_id"]


def test_parts_of_a_page_join_to_the_complete_text(root: str, site: str) -> None:
    async def script(client: Client) -> tuple[str, str]:
        async def part(**named: Any) -> Any:
            url = f"{site}life/mothers.html"
            answer = await client.call_tool("read_page", {"url": url, **named})
            return answer.structured_content["result"]

        whole, parts, start = await part(), [], 0
        while start is not None:
            result = await part(start=start, length=100)
            assert result["start"] == start
            parts.append(result["markdown"])
            start = result["next_start"]
        return whole["markdown"], "".join(parts)

    whole, joined = run_client(McpOptions(root), script)
    assert joined == whole
    assert len(whole) > 300


def test_history_texts_and_collections(root: str, site: str) -> None:
    options = McpOptions(root)
    history = call(options, "page_history", url=site)
    assert (history["total"], history["versions"][0]["status"]) == (1, 200)
    at = history["versions"][0]["at"]
    assert call(options, "read_page", url=site, at="1") == call(options, "read_page", url=site)
    assert "there is no version 2" in failure(options, "read_page", url=site, at="2")
    assert at.startswith("20")
    result = call(options, "find_text", texts=["wolf spiders"], ignore=["case"])
    assert result["complete"]
    assert result["pages"] == 18
    assert all("wolf spiders" in each["context"].lower() for each in result["matches"])
    few = call(options, "find_text", texts=["the"], count=2)
    assert (len(few["matches"]), few["complete"]) == (2, False)
    (collection,) = call(options, "list_collections")
    assert (collection["name"], collection["pages"]) == ("default", 18)


def test_a_page_is_readable_as_a_resource(root: str, site: str) -> None:
    async def script(client: Client) -> str:
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == ["lycosa://page{?url,at}"]
        assert templates[0].mime_type == "text/markdown"
        url = quote(f"{site}life/mothers.html", safe="")
        with pytest.raises(MCPError, match="no copy of this page is archived"):
            await client.read_resource("lycosa://page?url=https%3A%2F%2Fnone.example%2F..%2Fx")
        content = (await client.read_resource(f"lycosa://page?url={url}&at=1")).contents[0]
        assert content.mime_type == "text/markdown"
        return content.text  # type: ignore[union-attr]

    text = run_client(McpOptions(root), script)
    assert f"\nURL: {site}life/mothers.html\n" in text
    assert "The mother spins a disc of silk" in text


def test_a_missing_workspace_is_reported(tmp_path: Path) -> None:
    assert "is not a workspace" in failure(McpOptions(new_root(tmp_path)), "search", query="x")


# -- SQL


@pytest.fixture(scope="module")
def sql(root: str) -> Iterator[SqlRunner]:
    runner = SqlRunner(root, SqlLimits(time_s=5.0))
    yield runner
    runner.close()


def test_sql_returns_rows_as_json(root: str, site: str) -> None:
    query = f"SELECT url, fetched_at, headings FROM pages WHERE url = '{site}'"
    result = call(McpOptions(root), "sql", query=query)
    assert result["columns"] == ["url", "fetched_at", "headings"]
    ((url, at, headings),) = result["rows"]
    assert (url, at[-1], type(headings)) == (site, "Z", list)
    assert not result["truncated"]


@pytest.mark.proves("access-mcp-limits")
def test_rows_and_values_are_limited(sql: SqlRunner) -> None:
    rows = sql.run("SELECT target FROM links", max_rows=3)
    assert (len(rows.rows), rows.truncated) == (3, True)
    assert not sql.run("SELECT url FROM pages", max_rows=18).truncated
    long = sql.run(f"SELECT '{'x' * 30_000}' AS x FROM pages", max_rows=1)
    ((text,),) = long.rows
    assert (len(text), long.truncated) == (20_000, True)
    many = sql.run(f"SELECT '{'x' * 10_000}' AS x FROM links", max_rows=1_000)
    assert many.truncated
    assert 10 < len(many.rows) < 30


@pytest.mark.proves("access-mcp-read-only")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM READ_CSV ('{file}')",
        "SELECT * FROM \"read_csv\"('{file}')",
        "SELECT * FROM `read_csv` ('{file}')",
        "SELECT * FROM read_csv/* ' */('{file}')",
        "SELECT * FROM read_csv--\n('{file}')",
        "/* ' */ SELECT * FROM read_csv\u2003('{file}') /* ' */",
        "SELECT url FROM pages WHERE url IN (SELECT a FROM read_csv('{file}'))",
        "SELECT * FROM pages, read_ndjson('{file}')",
        "SELECT * FROM read_parquet('http://127.0.0.1:1/x.parquet')",
        "SELECT * FROM read_ipc('http://169.254.169.254/latest/meta-data')",
        "WITH secret AS (SELECT * FROM read_csv('{file}')) SELECT * FROM secret",
    ],
)
def test_sql_reads_no_other_file_or_address(query: str, sql: SqlRunner, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\nsecret,2\n")
    with pytest.raises(UsageError, match="functions that read files or addresses") as caught:
        sql.run(query.replace("{file}", str(file)))
    assert "secret" not in str(caught.value)


def test_a_plan_that_scans_another_file_is_refused(root: str, tmp_path: Path) -> None:
    """This check finds table functions that the query text does not show."""
    import polars as pl

    file = tmp_path / "secret.csv"
    file.write_text("a,b\nsecret,2\n")
    tables = LiveTables(Store.open(root))
    assert tables._scans_own_files(tables.scan("links"))
    pl.read_csv(file).write_parquet(tmp_path / "pages.parquet")
    for scan in (pl.scan_csv(file), pl.scan_parquet(tmp_path / "pages.parquet")):
        assert not tables._scans_own_files(scan)
        assert not tables._scans_own_files(pl.concat([tables.scan("links"), scan], how="diagonal"))


@pytest.mark.proves("access-mcp-read-only")
@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM pages",
        "INSERT INTO pages (url) VALUES ('x')",
        "UPDATE pages SET url = ''",
        "CREATE TABLE x AS SELECT 1",
        "COPY pages TO '/tmp/x'",
        "ATTACH 'x.db' AS x",
        "SELECT 1; SELECT 2",
        "PRAGMA database_list",
        "",
        "\0",
    ],
)
def test_sql_changes_nothing(query: str, sql: SqlRunner) -> None:
    with pytest.raises(UsageError):
        sql.run(query)


def test_the_name_of_a_table_function_in_a_string_is_allowed(sql: SqlRunner) -> None:
    assert sql.run("SELECT url FROM pages WHERE text LIKE '%read_csv%'").rows == []


@pytest.mark.parametrize("query", ["SELECT '" + "x" * 9_900 + "'", "/**/" * 2_000 + "SELECT 1"])
def test_checking_a_long_query_is_fast(query: str, sql: SqlRunner) -> None:
    sql.run("SELECT 1")
    started = time.monotonic()
    assert len(sql.run(query).rows) == 1
    assert time.monotonic() - started < 2


@pytest.mark.proves("access-mcp-limits")
def test_endless_queries_are_aborted(sql: SqlRunner) -> None:
    started = time.monotonic()
    endless = " CROSS JOIN ".join(f"links AS l{number}" for number in range(9))
    with pytest.raises(UsageError, match=r"took longer than 5 s|needs too much memory"):
        sql.run(f"SELECT l0.source, count(*) FROM {endless} GROUP BY l0.source")
    assert time.monotonic() - started < 15
    with pytest.raises(UsageError, match="needs too much memory"):
        sql.run("SELECT * FROM generate_series(1, 1000000000000)")
    assert sql.run("SELECT count(*) AS n FROM pages").rows == [[18]]


# -- fetching


class _Site(QuietHandler):
    """Redirect to the URL of the parameter `to`."""

    def do_GET(self) -> None:
        path, _, target = self.path.partition("?to=")
        if path == "/robots.txt":
            self.answer(404)
        elif target:
            self.answer(302, Location=target)
        else:
            self.answer(200, b"<title>Secret</title><p>The secret is here.</p>")


@pytest.fixture
def secret() -> Iterator[str]:
    with serving_handler(_Site) as origin:
        yield origin


def test_fetch_a_page_as_markdown(root: str, site: str) -> None:
    options = McpOptions(root, QUICK, allow_fetch=True, allow_private=[address(site)])
    page = call(options, "fetch_page", url=f"{site}life/mothers.html")
    assert page["title"].startswith("Mothers with a load")
    assert "The mother spins a disc of silk" in page["markdown"]
    before = Workspace(root).status().visits
    call(options, "fetch_page", url=site, mode="citations", length=10)
    assert Workspace(root).status().visits == before


@pytest.mark.proves("access-mcp-politeness")
def test_robots_txt_is_obeyed(root: str, site: str) -> None:
    options = McpOptions(root, QUICK, allow_fetch=True, allow_private=[address(site)])
    message = failure(options, "fetch_page", url=f"{site}private/notebook.html")
    assert "robots.txt disallows it" in message


@pytest.mark.proves("access-mcp-addresses")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "[::1]"])
def test_private_addresses_are_refused(host: str, root: str, secret: str) -> None:
    port = secret.rpartition(":")[2]
    options = McpOptions(root, QUICK, allow_fetch=True, allow_private=["127.0.0.9:80"])
    message = failure(options, "fetch_page", url=f"http://{host}:{port}/")
    assert "address_refused" in message
    assert "secret" not in message


@pytest.mark.proves("access-mcp-addresses")
def test_a_redirect_to_a_private_address_is_refused(root: str, site: str, secret: str) -> None:
    with serving_handler(_Site, "127.0.0.2") as allowed:
        options = McpOptions(root, QUICK, allow_fetch=True, allow_private=[address(allowed)])
        assert "address_refused" in failure(options, "fetch_page", url=f"{allowed}/?to={secret}/")
        metadata = "http://169.254.169.254/latest/meta-data/"
        assert "address_refused" in failure(options, "fetch_page", url=f"{allowed}/?to={metadata}")
        assert "secret" in call(options, "fetch_page", url=f"{allowed}/")["markdown"]


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "data:,x", "", "\0"]
)
def test_other_schemes_are_refused(url: str, root: str) -> None:
    options = McpOptions(root, QUICK, allow_fetch=True, allow_private=["127.0.0.1:21"])
    message = failure(options, "fetch_page", url=url)
    assert "cannot be used" in message or "unsupported_scheme" in message


@pytest.mark.proves("access-mcp-politeness")
def test_exclusions_apply(site: str, tmp_path: Path) -> None:
    workspace = Workspace(new_root(tmp_path), QUICK)
    workspace.crawl(site, max_pages=1)
    workspace.maintenance.exclude(f"prefix:{site}life/")
    file = tmp_path / "exclusions.txt"
    file.write_text(f"prefix {site}species/\n")
    settings = (*QUICK, f'crawl.exclusions="{file}"')
    options = McpOptions(
        workspace.root,
        settings,
        allow_fetch=True,
        allow_crawl=True,
        allow_private=[address(site)],
    )
    for path in ("life/mothers.html", "species/"):
        assert "the operator excluded it" in failure(options, "fetch_page", url=f"{site}{path}")
        assert "is excluded by the operator" in failure(options, "crawl_site", url=f"{site}{path}")
    assert call(options, "fetch_page", url=f"{site}questions.html")["title"]


@pytest.mark.proves("access-mcp-politeness")
def test_a_host_is_paused_between_fetches(site: str, tmp_path: Path) -> None:
    pairs = [f"{address(site)}:{address(site)}"]
    config = Workspace(new_root(tmp_path), {"fetch.connect_to": pairs}).config("mcp")
    now, slept = [100.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    fetches = ClientFetches(new_root(tmp_path), config, 20_000, lambda: now[0], sleep)
    for _ in range(3):
        fetches.page(site)
    assert slept == [0.0, 20.0, 20.0]
    slow = ClientFetches(new_root(tmp_path), config, 50_000, lambda: now[0], sleep)
    slow.page(site)
    with pytest.raises(WorkError, match="its host is paused for 50 s"):
        slow.page(site)


# -- crawling


def _crawling(root: str, *sites: str, **named: Any) -> McpOptions:
    return McpOptions(
        root, QUICK, allow_crawl=True, allow_private=[address(site) for site in sites], **named
    )


def test_crawl_a_site_and_search_it(site: str, tmp_path: Path) -> None:
    reports: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total))

    async def script(client: Client) -> Any:
        arguments = {"url": site, "max_pages": 18}
        answer = await client.call_tool("crawl_site", arguments, progress_callback=on_progress)
        assert answer.structured_content is not None, answer
        return answer.structured_content["result"]

    options = _crawling(new_root(tmp_path), site)
    report = run_client(options, script)
    assert (report["pages"], report["collection"]) == (18, "mcp")
    assert reports[0] == (0, 18)
    assert call(options, "search", query="spider")["total"] == 18
    assert Workspace(options.root).sites.links(to=site)


@pytest.mark.proves("access-mcp-limits")
def test_a_crawl_stays_below_its_path_and_its_limits(site: str, tmp_path: Path) -> None:
    options = _crawling(new_root(tmp_path), site, limits=Limits(2, 60_000))
    report = call(options, "crawl_site", url=f"{site}life/", max_pages=1_000, max_seconds=9_999)
    assert (report["pages"], report["ended"]) == (2, "max_pages")
    call(_crawling(new_root(tmp_path), site), "crawl_site", url=f"{site}life/")
    urls = Workspace(options.root).sql("SELECT url FROM pages")["url"].to_list()
    assert len(urls) == 8
    assert all(url.startswith(f"{site}life/") for url in urls)


@pytest.mark.proves("access-mcp-addresses")
def test_private_site_is_not_crawled_by_later_crawls(site: str, tmp_path: Path) -> None:
    """URLs of clients are not stored as seeds, which later crawls would trust."""
    options = McpOptions(new_root(tmp_path), QUICK, allow_crawl=True)
    report = call(options, "crawl_site", url=site)
    assert (report["pages"], list(report["failures"])) == (0, [f"{site}robots.txt"])
    assert "address_refused" in report["failures"][f"{site}robots.txt"]
    with pytest.raises(UsageError, match="nothing to crawl"):
        Workspace(options.root, QUICK).crawl(collection="mcp")
    result = call(options, "focused_crawl", question="wolf spider", seeds=[site])
    assert (result["pages"], result["hits"]) == (0, [])
    assert Workspace(options.root).status().pages == 0


def test_a_configured_collection_keeps_its_scope(web: DemoWeb, site: str, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "lycosa.toml").write_text(f'[[collection]]\nname = "mcp"\nseeds = ["{site}"]\n')
    other = f"{web.origins['harbour']}/"
    options = _crawling(str(root), site, other)
    assert "is not accepted by collection 'mcp'" in failure(options, "crawl_site", url=other)
    assert call(options, "crawl_site", url=site, max_pages=2)["pages"] == 2


def test_focused_crawl_follows_relevant_links(site: str, tmp_path: Path) -> None:
    options = _crawling(new_root(tmp_path), site)
    result = call(options, "focused_crawl", question=QUESTION, seeds=[site], enough=2)
    assert result["relevant"] >= len(result["hits"]) > 0
    assert f"{site}life/mothers.html" in [hit["url"] for hit in result["hits"]]
    assert all(0 < hit["score"] <= 1 for hit in result["hits"])
    assert failure(options, "focused_crawl", question="", seeds=[site]).endswith(NOTICE)


def test_only_one_crawl_runs_and_a_cancelled_one_stops(site: str, tmp_path: Path) -> None:
    slow = tuple(each for each in QUICK if "delay" not in each and "courtesy" not in each)
    options = McpOptions(
        new_root(tmp_path),
        slow,
        allow_crawl=True,
        allow_private=[address(site)],
    )

    async def script(client: Client) -> str:
        with anyio.move_on_after(3):
            await client.call_tool("crawl_site", {"url": site})
        started = time.monotonic()
        answer = await client.call_tool("crawl_site", {"url": site, "max_pages": 1})
        assert time.monotonic() - started < 30
        assert not answer.is_error, answer.content

        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "crawl_site", {"url": site, "max_seconds": 4})
            await anyio.sleep(1)
            second = await client.call_tool("crawl_site", {"url": site})
        assert second.is_error
        return second.content[0].text  # type: ignore[union-attr]

    assert "a crawl of this server is running" in run_client(options, script)
    assert 0 < Workspace(options.root).status().pages < 18


def test_a_crawl_of_another_process_is_reported(root: str, site: str) -> None:
    with Store.open(root).own("crawl"):
        message = failure(_crawling(root, site), "crawl_site", url=site)
    assert "uses the workspace" in message
    assert not Store.open(root).storage.names("inbox")


@pytest.mark.parametrize("pair", ["127.0.0.1", ":80", "a:b", "127.0.0.1:99999"])
def test_an_invalid_private_address_is_reported(pair: str, root: str) -> None:
    with pytest.raises(UsageError, match=r"HOST:PORT|is not a port"):
        create_server(McpOptions(root, allow_private=[pair]))
