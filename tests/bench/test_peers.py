"""Tests of the comparison with peers: tables in the docs, trials with wget, readers of archives."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from bench.peers.__main__ import attack, kill
from bench.peers.bubing_agent import configuration
from bench.peers.build import SOURCES
from bench.peers.commands import COMMANDS
from bench.peers.heritrix_job import CHANGES, SEED, job
from bench.peers.nutch_crawl import ACCEPT_ALL, recover, url_filter
from bench.peers.products import PEERS, json_pages, nutch_pages, warc_pages
from bench.peers.stormcrawler_topology import rules, wait_until_idle

from tests.servers.nginx import Server, nginx
from tests.servers.system import require_program

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "compare-measured.md"
WARC = (
    b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:%d>\r\n"
    b"WARC-Date: 2026-11-26T00:00:00Z\r\nWARC-Target-URI: http://a.test/%d%%20b\r\n"
    b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
)


def test_every_table_of_the_docs_has_all_peers() -> None:
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)[1:]
    tables = [re.findall(r"\| `([a-z0-9]+)` (?=\|)", section) for section in sections]
    assert [sorted(set(peers)) for peers in tables if peers] == [sorted(PEERS)] * 4
    assert PEERS.keys() <= COMMANDS.keys()


def test_docs_have_the_stored_data_and_the_steps_of_each_peer() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for peer in PEERS.values():
        assert f"| {peer.version} | {peer.keeps} | {'; '.join(peer.steps)} |\n" in text


@pytest.mark.parametrize("peer", [name for name in PEERS if name not in ("lycosa", "wget")])
def test_version_of_a_peer_in_the_docs_is_the_pinned_one(peer: str) -> None:
    version = PEERS[peer].version.split()[-1]
    assert f"| {PEERS[peer].version} |" in PAGE.read_text(encoding="utf-8")
    files = SOURCES / peer.partition("-")[0]
    pins = "".join(path.read_text() for path in files.iterdir())
    assert f"=={version}\n" in pins or f"<version>{version}</version>" in pins


def test_wget_fetches_pages_again_after_a_kill(tmp_path: Path) -> None:
    require_program("wget")
    names = [f"{number}.html" for number in range(20)]
    (tmp_path / "index.html").write_text("".join(f"<a href={name}>x</a>" for name in names))
    for name in names:
        (tmp_path / name).write_text("<p>x")
    with nginx([Server("127.0.0.1", tmp_path)]) as server:
        result = kill("wget", "little", [f"http://127.0.0.1:{server.port}/"], server)
    assert (result.kept, result.lost, result.exit_code) == (21, 0, 0)
    assert result.twice == result.before >= 10


@pytest.mark.parametrize(
    ("endpoint", "limit_s", "reached", "exit_code", "good"),
    [("hang-before-headers", 5.0, "time", -9, 0), ("redirect-endless", 60.0, "", 8, 21)],
)
def test_attack_is_stopped_at_its_limit(
    endpoint: str, limit_s: float, reached: str, exit_code: int, good: int
) -> None:
    require_program("wget")
    result = attack("wget", endpoint, limit_s)
    assert (result.limit, result.exit_code, result.good) == (reached, exit_code, good)
    assert result.requests >= 1


def test_truncated_archives_are_read_up_to_their_end(tmp_path: Path) -> None:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>x"
    records = [gzip.compress(WARC % (number, number, len(http), http)) for number in range(3)]
    path = tmp_path / "a.warc.gz"
    path.write_bytes(b"".join(records)[:-20])
    assert {"http://a.test/0 b", "http://a.test/1 b"} <= warc_pages([path])
    assert json_pages(['{"url": "http://a.test/%20"}', '{"url": "http', "{}"]) == {
        "http://a.test/ "
    }


def test_the_job_of_heritrix_requires_the_pinned_profile() -> None:
    profile = "\n".join([*CHANGES, SEED])
    assert job(profile, ["http://a.test/", "http://b.test/"]).endswith(
        "http://a.test/\nhttp://b.test/"
    )
    with pytest.raises(SystemExit, match="does not have"):
        job(profile.replace(SEED, ""), [])


def test_the_agent_of_bubing_is_limited_to_the_hosts_of_the_seeds() -> None:
    lines = configuration(["http://127.0.1.1:8080/", "http://a.test/x", "http://a.test/"], 7)
    settings = [line.partition("=")[::2] for line in lines.splitlines()]
    values = dict(settings)
    assert values["scheduleFilter"].startswith(
        "( URLMatchesRegex(http://127[.]0[.]1[.]1:8080/.*)"
        " or URLMatchesRegex(http://a[.]test/.*) ) and not PathEndsWithOneOf(.axd\\,.xls\\,"
    )
    assert (values["fetchingThreads"], values["ipDelay"]) == ("7", "0")
    assert [value for name, value in settings if name == "seed"] == [
        *("http://127.0.1.1:8080/", "http://a.test/x", "http://a.test/")
    ]


def test_nutch_accepts_the_hosts_of_the_seeds_alone() -> None:
    seeds = ["http://127.0.1.1:80/", "http://127.0.1.1:80/a", "http://b.test/"]
    assert url_filter(f"-[?]{ACCEPT_ALL}", seeds) == (
        "-[?]\n+^http://127\\.0\\.1\\.1:80/\n+^http://b\\.test/\n"
    )
    with pytest.raises(SystemExit, match="does not end with"):
        url_filter("-[?]\n", seeds)


@pytest.mark.parametrize(("folder", "discarded"), [("crawl_parse", False), ("_temporary", True)])
def test_nutch_discards_locks_and_the_unfinished_segment(
    tmp_path: Path, folder: str, discarded: bool
) -> None:
    require_program("java")
    crawl, program = tmp_path / "crawl", tmp_path / "bin" / "nutch"
    for segment, part in (("1", "crawl_parse"), ("2", "crawl_fetch"), ("2", folder)):
        (crawl / "segments" / segment / part).mkdir(parents=True)
    (crawl / "crawldb").mkdir()
    (crawl / "crawldb" / ".locked").touch()
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$1" "${3##*/}" >> steps\n')
    program.chmod(0o755)
    recover(tmp_path, tmp_path)
    assert (crawl / "segments" / "2").exists() != discarded
    assert (crawl / "segments" / "1").exists()
    assert not (crawl / "crawldb" / ".locked").exists()
    steps = tmp_path / "steps"
    assert steps.exists() != discarded
    assert discarded or steps.read_text() == "updatedb 2\ninvertlinks 2\n"


def test_pages_of_nutch_are_html_and_fetched() -> None:
    record = "\nRecno:: 0\nURL:: http://a.test/{}\n\nCrawlDatum::\nStatus: 33 ({})\n\n"
    content = "Content::\nurl: http://a.test/\ncontentType: {}\nContent:\n<p>x\n"
    cases = [
        ("%20a", "fetch_success", content.format("text/html")),
        ("b", "fetch_success", content.format("application/xhtml+xml")),
        ("c", "fetch_success", content.format("text/plain")),
        ("d", "fetch_redir_perm", content.format("text/html")),
        ("e", "fetch_gone", ""),
    ]
    dump = "".join(record.format(*case) + case[2] for case in cases)
    assert nutch_pages(dump.encode()) == {"http://a.test/ a", "http://a.test/b"}


QUEUED, NOTHING = (
    f"LoggingMetricsConsumer 1795837534\tlocalhost:1024\t  4:fetcher \tin_queues \t{number}\n"
    for number in (3, 0)
)
FETCHED = "FetcherBolt [Fetcher #4] Fetched http://a.test/ with status 200 in msec 5\n"
PARSING = "JSoupParserBolt Parsing : starting http://a.test/\n"
PARSED = "JSoupParserBolt Parsed http://a.test/ in 5 msec\n"
LINKED = "JSoupParserBolt Total for http://a.test/ - 9 msec\n"
ARCHIVED = "HDFSWriter Attempting to sync all data to filesystem\n"


@pytest.mark.parametrize(
    ("log", "left"),
    [
        ([NOTHING] * 9, 0),  # nothing was fetched yet
        ([QUEUED, *[NOTHING] * 9], 5),
        ([FETCHED, *[NOTHING] * 9], 5),
        ([FETCHED, NOTHING, NOTHING, ARCHIVED, *[NOTHING] * 9], 5),
        ([FETCHED, PARSING, NOTHING, PARSED, *[NOTHING] * 9], 0),
        ([FETCHED, PARSING, NOTHING, PARSED, LINKED, *[NOTHING] * 9], 5),
    ],
)
def test_stormcrawler_ends_when_no_url_is_left(log: list[str], left: int) -> None:
    lines = iter(log)
    assert wait_until_idle(lines) == (log != [NOTHING] * 9)
    assert len([*lines]) == left


def test_stormcrawler_is_limited_to_hosts_and_ports_of_the_seeds() -> None:
    seeds = ["http://127.0.1.10:80/a", "http://127.0.1.10:80/b"]
    assert rules(seeds) == "+^https?://127\\.0\\.1\\.10:80(/|$)\n"
