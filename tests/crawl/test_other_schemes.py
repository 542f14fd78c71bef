"""Crawls of FTP and Gopher servers.

Every file is fetched once, archived and indexed. Kills and resumes work as on the web.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from tests.crawl.conftest import assert_valid_warc
from tests.crawl.kills import LYCOSA, here, run_json
from tests.crawl.sessions import LaterClock, collection, select, work
from tests.page.document_files import docx, pdf
from tests.servers.ftp import ftp, ftp_log, gopher
from tests.servers.nginx import Server, nginx
from tests.waiting import until

_UNESCAPED = "/!$&'()*+,;=:@-._~"  # of a path, unescaped in a URL
_QUICK = ("crawl.patience=500ms", "crawl.commit_interval=500ms", "fetch.retry_wait=100ms")
_DAY_MS = 86_400_000


def _arguments(url: str, *settings: str) -> list[str]:
    overrides = [part for setting in (*_QUICK, *settings) for part in ("--set", setting)]
    return [*overrides, "crawl", url, "--delay", "0s", "--quiet", "--json"]


def _write_files(root: Path) -> None:
    """Write about 50 files: names that need escapes, documents, an archive."""
    for folder in (
        "",
        "pub",
        "pub/spiders",
        "pub/with space",
        "pub/ключ",
        "deep/er/still",
        "empty",
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for number in range(30):
        (root / "pub" / "spiders" / f"page{number:02}.txt").write_text(
            f"Spider number {number} hunts at night in the meadow.\n"
        )
    for number in range(8):
        (root / "deep" / "er" / "still" / f"page{number}.html").write_text(
            f"<title>Web {number}</title><p>Orb web {number} is round."
        )
    (root / "pub" / "spiders" / "wolf.pdf").write_bytes(pdf(b"They hunt without a web."))
    (root / "pub" / "spiders" / "wolf.docx").write_bytes(docx())
    (root / "pub" / "with space" / "read me?.txt").write_text(
        "A name with a question mark, and words about tarantulas.\n"
    )
    (root / "pub" / "with space" / "100% #1;a=b.txt").write_text("A name with everything in it.\n")
    (root / "pub" / "ключ" / "паук.txt").write_text("Пауки охотятся ночью в поле и в лесу.\n")
    (root / "README").write_text("A file without an extension, in plain words.\n")
    (root / "pub" / "program.tar.gz").write_bytes(b"\x1f\x8b\x08" + bytes(200))


def _expected_urls(root: Path, origin: str, top: str = "") -> set[str]:
    """Return the expected URLs: all folders, and all files except archives."""
    results = set()
    for place, folders, files in os.walk(root / top):
        here = os.path.relpath(place, root)
        here = "" if here == "." else f"{here}/"
        results |= {f"{here}{folder}/" for folder in folders} | {
            f"{here}{file}" for file in files if not file.endswith(".gz")
        }
    return {
        f"{origin}{quote(name, safe=_UNESCAPED)}" for name in (*results, f"{top}/" if top else "")
    }


@contextmanager
def _served(root: Path) -> Iterator[tuple[str, Path]]:
    log = root.parent / "ftp.log"
    with ftp(root, log) as port:
        yield f"ftp://127.0.0.1:{port}/", log


def test_ftp_server_is_crawled_completely(tmp_path: Path) -> None:
    root, workspace = tmp_path / "root", tmp_path / "workspace"
    _write_files(root)
    with _served(root) as (origin, log):
        assert str(run_json(workspace, *_arguments(origin))["ended"]) == "finished"
        expected = _expected_urls(root, origin)
        requests = Counter(f"{origin}{path}" for path in ftp_log(log, root))
    visits = select(
        workspace, "SELECT url, http_status, protocol, content_type FROM visits WHERE kind = 'page'"
    )
    assert Counter(str(row["url"]) for row in visits) == Counter(expected)
    assert {(row["http_status"], row["protocol"]) for row in visits} == {(200, "ftp")}
    assert {row["content_type"] for row in visits if str(row["url"]).endswith("/")} == {
        "text/ftp-dir-listing"
    }
    assert {url: number for url, number in requests.items() if number > 1} == {}
    pages = {
        str(row["url"]): row
        for row in select(workspace, "SELECT url, title, text, language FROM pages")
    }
    assert (set(pages), pages[f"{origin}pub/"]["title"]) == (expected, "Index of /pub/")
    assert pages[f"{origin}pub/spiders/wolf.pdf"]["text"] == "They hunt without a web."
    assert pages[f"{origin}{quote('pub/ключ/паук.txt')}"]["language"] == "ru"
    states = select(workspace, "SELECT state, reason FROM urls WHERE url LIKE '%.tar.gz'")
    assert states == []  # refused by its extension, as on the web
    hits = json.loads(here(workspace, "search", "tarantulas", "--json"))["hits"]
    assert [hit["url"] for hit in hits] == [f"{origin}pub/with%20space/read%20me%3F.txt"]
    _assert_archive(workspace, expected)


def _assert_archive(workspace: Path, expected: set[str]) -> None:
    """Check that warcio, fastwarc and `lycosa check` agree on the records.

    Each page has one resource record.
    """
    for warc in workspace.glob("data/*/archive.warc.gz"):
        assert_valid_warc(warc)
    contents = {}
    for warc in workspace.glob("data/*/archive.warc.gz"):
        with warc.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.resource):
                assert record.verify_block_digest()
                contents[record.headers["WARC-Target-URI"]] = record.reader.read()
        with warc.open("rb") as stream:
            for record in WarcioIterator(stream):
                if record.rec_type == "resource":
                    assert (
                        contents[record.rec_headers.get_header("WARC-Target-URI")]
                        == record.content_stream().read()
                    )
    assert {url for url in contents if not url.endswith("robots.txt")} == expected
    here(workspace, "check", "--deep")


@pytest.mark.proves("politeness-robots")
def test_scope_prefix_is_restricted_to_a_folder_and_obeys_robots_txt(tmp_path: Path) -> None:
    """With scope `prefix`, robots.txt is obeyed (RFC 9309 section 2.3)."""
    root, workspace = tmp_path / "root", tmp_path / "workspace"
    _write_files(root)
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /pub/with%20space/\n")
    with _served(root) as (origin, log):
        work(
            workspace, [(collection("default", media_types=[], scope="prefix"), [f"{origin}pub/"])]
        )
        expected = {url for url in _expected_urls(root, origin, "pub") if "space" not in url}
        requests = {f"{origin}{path}" for path in ftp_log(log, root)}
    assert requests == {*expected, f"{origin}robots.txt"}
    states = {
        (row["state"], row["reason"])
        for row in select(workspace, "SELECT state, reason FROM urls WHERE url LIKE '%space%'")
    }
    assert states == {("excluded", "robots")}


def test_unchanged_ftp_files_are_not_downloaded_again(tmp_path: Path) -> None:
    root, workspace = tmp_path / "root", tmp_path / "workspace"
    (root / "pub").mkdir(parents=True)
    for name in ("same.txt", "other.txt"):
        (root / "pub" / name).write_text("The words of the first day.\n")
        os.utime(root / "pub" / name, (1_700_000_000, 1_700_000_000))
    with _served(root) as (origin, log):
        job = (
            collection("default", media_types=[], recrawl="age", max_age="1d"),
            [f"{origin}pub/"],
        )
        work(workspace, [job], clock=LaterClock(-3 * _DAY_MS))
        (root / "pub" / "other.txt").write_text("The words of another day.\n")
        before = len(ftp_log(log, root))
        work(workspace, [job])
        assert sorted(ftp_log(log, root)[before:]) == ["pub/", "pub/other.txt"]
    query = (
        "SELECT url, http_status, changed FROM visits WHERE kind = 'page' ORDER BY url, fetched_at"
    )
    visits = [
        (str(row["url"]).removeprefix(origin), row["http_status"], row["changed"])
        for row in select(workspace, query)
    ]
    assert visits == [
        ("pub/", 200, True),
        ("pub/", 200, False),
        ("pub/other.txt", 200, True),
        ("pub/other.txt", 200, True),
        ("pub/same.txt", 200, True),
        ("pub/same.txt", 304, False),
    ]
    here(workspace, "check", "--deep")


@pytest.mark.proves("durability-kill")
def test_kill_nine_and_reparse(tmp_path: Path) -> None:
    root, workspace = tmp_path / "root", tmp_path / "workspace"
    _write_files(root)
    with _served(root) as (origin, log):
        process = subprocess.Popen(
            [
                str(LYCOSA),
                "-w",
                str(workspace),
                *_arguments(origin, "crawl.document_timeout=300s"),
            ]
        )
        until(lambda: len(ftp_log(log, root)) > 30, 120, alive=process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        run_json(workspace, *_arguments(origin))
        requests = Counter(ftp_log(log, root))
        expected = _expected_urls(root, origin)
    assert {path for path, number in requests.items() if number > 2} == set()
    assert sum(number - 1 for number in requests.values()) <= 1  # the request in flight
    assert {str(row["url"]) for row in select(workspace, "SELECT url FROM pages")} == expected
    report: dict[str, object] = {**run_json(workspace, "reparse", "--json")}
    assert {name: report[name] for name in ("pages", "changed", "unreadable")} == {
        "pages": len(expected),
        "changed": 0,
        "unreadable": 0,
    }


MENU = (
    "iWelcome to the spider hole\tfake\t(NULL)\t0\r\n0About "
    "spiders\t/about.txt\t{host}\t{port}\r\n1More\t/more\t{host}\t{port}\r\n"
    "1Private\t/private\t{host}\t{port}\r\n7Search\t/search\t{host}\t{port}\r\nIA "
    "picture\t/spider.png\t{host}\t{port}\r\n"
    "hElsewhere\tURL:http://127.0.0.1:1/\t{host}\t{port}\r\n.\r\n"
)
MORE = (
    "9A document\t/wolf.pdf\t{host}\t{port}\r\n0Missing\t/missing\t{host}\t{port}\r\n1Back\t\t{host}\t{port}\r\n"
    "hA page\t/page\t{host}\t{port}\r\n.\r\n"
)


def test_gopher_server_is_crawled_completely(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    content = {
        "robots.txt": b"User-agent: *\r\nDisallow: /private\r\n.\r\n",
        "/about.txt": b"Wolf spiders hunt at night.\r\n.\r\n",
        "/wolf.pdf": pdf(b"They hunt without a web."),
        "/page": b"<title>A page</title><p>Tarantulas wait. <a href='other.html'>more</a>",
        "/other.html": b"<title>Other</title><p>Jumping spiders jump.",
    }
    with gopher(content) as (port, requests):
        host = {"host": "127.0.0.1", "port": port}
        content[""] = MENU.format(**host).encode()
        content["/more"] = MORE.format(**host).encode()
        origin = f"gopher://127.0.0.1:{port}"
        work(workspace, [(collection("default", media_types=[]), [f"{origin}/"])])
    assert Counter(requests) == Counter(
        ["robots.txt", "", "/about.txt", "/more", "/wolf.pdf", "/missing", "/page", "/other.html"]
    )
    pages = {
        str(row["url"]): row for row in select(workspace, "SELECT url, title, text FROM pages")
    }
    assert set(pages) == {
        f"{origin}{path}"
        for path in ("/", "/0/about.txt", "/1/more", "/9/wolf.pdf", "/h/page", "/h/other.html")
    }
    assert pages[f"{origin}/"]["title"] == "Welcome to the spider hole"
    assert pages[f"{origin}/0/about.txt"]["text"] == "Wolf spiders hunt at night."
    assert pages[f"{origin}/9/wolf.pdf"]["text"] == "They hunt without a web."
    states = {
        str(row["url"]): (row["state"], row["reason"])
        for row in select(workspace, "SELECT url, state, reason FROM urls")
    }
    assert states[f"{origin}/0/missing"] == ("gone", "http_404")
    assert states[f"{origin}/1/private"] == ("excluded", "robots")


def test_links_from_web_pages_to_ftp_need_the_setting(tmp_path: Path) -> None:
    root, files = tmp_path / "root", tmp_path / "files"
    root.mkdir()
    files.mkdir()
    (files / "a.txt").write_text("A file.\n")
    with _served(files) as (origin, log), nginx([Server("127.0.0.1", root)]) as served:
        (root / "index.html").write_text(f"<title>One</title><a href='{origin}'>files</a>")
        home = f"http://127.0.0.1:{served.port}/"
        anywhere = (collection("default", media_types=[], scope="any"), [home])
        assert work(tmp_path / "plain", [anywhere]).progress.refused == {"scheme": 1}
        # The link is admitted, but its private address is no seed and therefore refused.
        work(tmp_path / "allowed", [anywhere], settings=("fetch.other_schemes=true",))
        rows = select(
            tmp_path / "allowed", f"SELECT state, reason FROM urls WHERE url = '{origin}'"
        )
        assert rows == [{"state": "excluded", "reason": "address_refused"}]
        assert ftp_log(log, files) == []
        work(tmp_path / "seeded", [(collection("default", media_types=[]), [home, origin])])
        pages = select(tmp_path / "seeded", "SELECT url FROM pages")
        assert {str(row["url"]) for row in pages} == {home, origin, f"{origin}a.txt"}
