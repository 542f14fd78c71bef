"""The demo sites: responses, links, encodings and redirects; the command `lycosa demo`."""

from __future__ import annotations

import functools
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import psutil
import pytest

import lycosa
from lycosa.commands.demo.demo import (
    SITES,
    WEB,
    DemoWeb,
    free_port,
    load_site,
    run_demo,
    serve_demo_web,
)
from lycosa.core.errors import UsageError, WorkError
from tests.cli.conftest import LYCOSA, printed, printed_here, run_here
from tests.servers.demo import web as web

BROKEN = "/drawings-1998.html"
OUTSIDE = {"www.example.org", "www.example.com", "www.example.net"}


class Answer:
    """A request and its response, without following redirects."""

    def __init__(
        self, url: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> None:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
        try:
            connection.request(
                method,
                parts.path + (f"?{parts.query}" if parts.query else ""),
                headers=headers or {},
            )
            response = connection.getresponse()
            self.status = response.status
            self.headers = response.headers
            self.body = response.read()
        finally:
            connection.close()

    @property
    def text(self) -> str:
        declared = re.search(rb"<meta charset=\"([\w-]+)\"", self.body)
        return self.body.decode(declared[1].decode() if declared else "utf-8")


class Anchors(HTMLParser):
    """Link targets of a page, with and without nofollow."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.follow: list[str] = []
        self.nofollow: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        href = values.get("href")
        if href and (tag == "a" or (tag == "link" and values.get("rel") == "alternate")):
            (self.nofollow if "nofollow" in (values.get("rel") or "") else self.follow).append(href)


def walk(web: DemoWeb) -> dict[str, Answer]:
    """Return the responses of all URLs that are reachable from the home pages.

    Redirects are followed; URLs of other hosts are not requested.
    """
    origins = set(web.origins.values())
    waiting, seen = list(web.seeds()), {}
    while waiting:
        url = urldefrag(waiting.pop()).url
        parts = urlsplit(url)
        if url in seen or f"{parts.scheme}://{parts.netloc}" not in origins:
            assert url in seen or parts.hostname in OUTSIDE, f"{url} is not a URL of the demo sites"
            continue
        seen[url] = answer = Answer(url)
        if answer.headers["Location"]:
            waiting.append(urljoin(url, answer.headers["Location"]))
        elif answer.status == 200 and answer.headers.get_content_type() == "text/html":
            waiting.extend(urljoin(url, href) for href in Anchors(answer.text).follow)
    return seen


@pytest.fixture(scope="module")
def responses(web: DemoWeb) -> dict[str, Answer]:
    return walk(web)


def test_every_link_works_except_the_intentionally_broken_one(
    web: DemoWeb, responses: dict[str, Answer]
) -> None:
    statuses = {
        url: answer.status
        for url, answer in responses.items()
        if answer.status not in (200, 301, 302)
    }
    assert statuses == {web.origins["wolfspiders"] + BROKEN: 404}


def test_links_reach_every_page_that_robots_txt_allows(
    web: DemoWeb, responses: dict[str, Answer]
) -> None:
    bodies = {answer.body for answer in responses.values()}
    unreached = {
        path
        for site in web.resources.values()
        for path, resource in site.items()
        if path.endswith(".html") and resource.body not in bodies
    }
    # The notebook is linked; `walk` does not obey robots.txt.
    assert unreached == {"/links-unchecked.html"}
    assert responses[web.origins["wolfspiders"] + "/private/notebook.html"].status == 200
    assert "Disallow: /private/" in Answer(web.origins["wolfspiders"] + "/robots.txt").text


def test_number_and_languages_of_pages(responses: dict[str, Answer]) -> None:
    pages = [answer.text for answer in responses.values() if answer.status == 200]
    assert 60 <= len(pages) <= 100
    languages = {found[1] for page in pages if (found := re.search(r'<html lang="([a-z]+)"', page))}
    assert languages >= {"en", "de", "fr", "es", "pt", "ru", "zh", "ja", "ar"}
    assert sum('property="article:published_time"' in page for page in pages) > 60
    assert sum('hreflang="' in page for page in pages) >= 10


def test_cross_site_links_carry_the_real_port(web: DemoWeb) -> None:
    page = Answer(web.seeds()[0]).text
    assert web.origins["harbour"] + "/en/" in page
    assert ".demo" not in page


def test_legacy_encodings(web: DemoWeb) -> None:
    french = Answer(web.origins["boulangerie"] + "/horaires.html")
    assert "forêt".encode("iso-8859-1") in french.body
    assert "ça sent la pâte brûlée" in french.text
    chinese = Answer(web.origins["chayuan"] + "/chashi.html")
    assert "武阳买茶".encode("gb18030") in chinese.body
    assert "武阳买茶" in chinese.text
    for answer in (french, chinese):
        assert answer.headers["Content-Type"] == "text/html"


def test_redirect_targets(web: DemoWeb) -> None:
    moved = Answer(web.origins["wolfspiders"] + "/mothers.html")
    assert (moved.status, moved.headers["Location"]) == (301, "/life/mothers.html")
    away = Answer(web.origins["harbour"] + "/teegarten")
    assert (away.status, away.headers["Location"]) == (302, web.origins["chayuan"] + "/")
    folder = Answer(web.origins["wolfspiders"] + "/species")
    assert (folder.status, folder.headers["Location"]) == (301, "/species/")


def test_head_and_revalidation(web: DemoWeb) -> None:
    full = Answer(web.seeds()[0])
    head = Answer(web.seeds()[0], "HEAD")
    assert (head.body, head.headers["Content-Length"]) == (b"", str(len(full.body)))
    conditional = Answer(web.seeds()[0], headers={"If-None-Match": full.headers["ETag"]})
    assert (conditional.status, conditional.body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/%2e%2e/%2e%2e/pyproject.toml", "/_redirects", "/life/../../x"]
)
def test_other_files_are_not_served(web: DemoWeb, path: str) -> None:
    assert Answer(web.origins["wolfspiders"] + path).status == 404


def test_listens_on_loopback_only(web: DemoWeb) -> None:
    port = urlsplit(web.seeds()[0]).port
    assert [urlsplit(seed).hostname for seed in web.seeds()] == [
        f"127.0.2.{number}" for number in range(1, 9)
    ]
    with pytest.raises(OSError):
        socket.create_connection(("127.0.2.9", port), timeout=1)


def test_port_is_free_again_afterwards() -> None:
    with serve_demo_web() as web:
        port = urlsplit(web.seeds()[0]).port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.2.1", port), timeout=1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("index.html", '<a href="http://unknown.demo/">x</a>', r"unknown\.demo"),
        ("_redirects", "/from /to\n", "_redirects"),
    ],
)
def test_invalid_link_or_redirect_is_an_error(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(WorkError, match=message):
        load_site(tmp_path, dict.fromkeys(SITES, "http://127.0.2.1:1"))


def test_every_folder_is_a_site() -> None:
    assert {path.name for path in WEB.iterdir() if path.is_dir()} == set(SITES)


def test_free_port_skips_ports_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        first = listener.getsockname()[1]
        assert first < free_port(first, first + 50) <= first + 50
        with pytest.raises(WorkError, match="all in use"):
            free_port(first, first)


def test_demo_does_not_overwrite_a_folder_that_is_not_a_workspace(tmp_path: Path) -> None:
    file = tmp_path / "demo-data" / "thesis.txt"
    file.parent.mkdir()
    file.write_text("years of work")
    with pytest.raises(UsageError, match="not a Lycosa workspace"):
        run_demo(serve=False, folder=tmp_path, say=lambda line: None)
    run_here("demo", "--pages", "3", cwd=tmp_path).expect(2, err=("--pages requires --url",))
    assert file.read_text() == "years of work"


def test_demo_crawls_and_searches_over_an_earlier_demo(tmp_path: Path) -> None:
    earlier = tmp_path / "demo-data" / "workspace.json"
    earlier.parent.mkdir()
    earlier.write_text("an earlier demo in an unknown format")
    output = printed("demo", "--no-serve", cwd=tmp_path, limit_s=120)
    commands = [line for line in output.splitlines() if line.startswith("$ lycosa -w demo-data ")]
    assert [line.split()[4] for line in commands] == ["crawl", "search", "search"]
    assert "--delay 50ms" in commands[0]
    english, chinese = output.split(commands[1])[1].split(commands[2])
    assert re.search(
        r"^ 1\. Mothers with a load .*\n +http://127\.0\.2\.1:\d+/life/mothers\.html "
        r"+en ",
        english,
        re.MULTILINE,
    )
    assert re.search(
        r"^ 1\. 龙井茶 .*\n +http://127\.0\.2\.4:\d+/longjing\.html +zh ", chinese, re.MULTILINE
    )


def test_sigterm_ends_the_running_command_too(tmp_path: Path) -> None:
    with subprocess.Popen([*LYCOSA, "demo"], cwd=tmp_path, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if line.startswith(b"$ lycosa"))
        while not (commands := psutil.Process(demo.pid).children()):
            pass  # the signal arrives while the command is started
        (command,) = commands
        demo.terminate()
        assert demo.wait(60) == 128 + signal.SIGTERM
    assert not command.is_running()


def test_crawl_finds_every_page_and_obeys_robots_txt(tmp_path: Path) -> None:
    here = functools.partial(printed_here, "-w", str(tmp_path / "w"))
    with serve_demo_web() as web:
        seeds = (*web.seeds(), "--delay", "0")
        printed("-w", str(tmp_path / "w"), "crawl", "--quiet", *seeds, limit_s=120)
    files = {str(path.relative_to(WEB)) for path in WEB.rglob("*.html")}
    status = json.loads(here("status", "--json"))
    assert status["pages"] == len(
        files - {"wolfspiders/links-unchecked.html", "wolfspiders/private/notebook.html"}
    )
    assert status["urls"]["excluded"] == 1  # by robots.txt
    assert (
        status["urls"]["gone"],
        status["refused_links"]["nofollow"],
        set(status["languages"]),
    ) == (
        1,
        1,
        {"en", "de", "fr", "es", "pt", "ru", "zh", "ja", "ar"},
    )
    for query, path in (("武阳买茶", "/chashi.html"), ("canicule", "/horaires.html")):
        # The first page is encoded in GB18030, the second in ISO-8859-1.
        assert json.loads(here("search", "--json", query))["hits"][0]["url"].endswith(path)
    no_results = run_here("-w", str(tmp_path / "w"), "search", "--json", "quagmirelantern")
    assert no_results.json["total"] == 0


def test_an_installed_package_has_the_demo_sites(tmp_path: Path) -> None:
    """Outside a clone of the repository, all files of the demo come from the package."""
    package = Path(lycosa.__file__).parent
    installed = tmp_path / "site-packages"
    shutil.copytree(package, installed / "lycosa", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "from lycosa.commands.demo.demo import serve_demo_web\nwith serve_demo_web() as web: "
        "print(len(web.seeds()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout.strip(), done.stderr) == (str(len(SITES)), "")
