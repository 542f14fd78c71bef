"""Decompression bombs, parser bombs and endless redirects."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import brotli
import pytest
import zstandard

from tests.crawl.conftest import page
from tests.crawl.kills import LYCOSA, ask
from tests.page.document_files import docx, pdf
from tests.servers.nginx import Nginx, Server, nginx

# Quick tests of each kind are in tests/http/test_decode.py, tests/page/test_hostile.py, …
pytestmark = pytest.mark.prove

MIB = 2**20
MAX_MIB = 1_000
"""Maximum peak memory: parsing 10 MiB of markup takes about 370 MiB, the crawl itself 200 MiB."""

HOSTS = 3  # hosts that redirect in a circle

# A million sitemap entries. The index also lists itself.
MAPS, ENTRIES = 20, 50_000


@dataclass
class Outcome:
    """Results by path, and the peak memory of the crawl."""

    rows: dict[str, dict[str, object]]
    requests: Counter[str]
    refused: dict[str, int]
    peak_mib: float
    ended: str


def encode(name: str, data: bytes) -> bytes:
    match name:
        case "gzip":
            return gzip.compress(data)
        case "br":
            packed: bytes = brotli.compress(data, quality=5)
            return packed
        case _:
            return zstandard.compress(data)


def flate_bomb(size: int) -> bytes:
    """Return a PDF with `size` bytes of white space, compressed twice."""
    stream = zlib.compress(zlib.compress(b" " * size, 9), 9)
    return (
        b"%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 "
        b"R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>endobj\n"
        b"4 0 obj<</Filter[/FlateDecode/FlateDecode]/Length %d>>stream\n"
        % len(stream)
        + stream
        + b"\nendstream endobj\ntrailer<</Root 1 0 R>>\n"
    )


def write_bombs(root: Path) -> list[str]:
    """Write the bombs as files; return their paths."""
    links = b"".join(b"<a href=/x/%d>" % number for number in range(700_000))
    laughs = (
        b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a0 '
        b'"ha">%s]><rss><channel><title>&a30;</title></channel></rss>'
        % b"".join(
            b'<!ENTITY a%d "&a%d;&a%d;">' % (number, number - 1, number - 1)
            for number in range(1, 31)
        )
    )
    quadratic = (
        b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a '
        b'"%s">]><rss><channel><title>%s</title></channel></rss>'
        % (
            b"a" * 50_000,
            b"&a;" * 50_000,
        )
    )
    files = {
        **{
            f"zeros.{name}": encode(name, b"<p>zeros" + bytes(60 * MIB))
            for name in ("gzip", "br", "zstd")
        },
        "links.gzip": encode("gzip", b"<title>links</title>" + links),
        "deep.gzip": encode("gzip", b"<title>deep</title>" + b"<div>" * 2_000_000),
        "table.gzip": encode("gzip", b"<title>table</title>" + b"<table><tr><td>" * 500_000),
        "laughs.xml": laughs,
        "quadratic.xml": quadratic,
        "flate.pdf": flate_bomb(100 * MIB),
        "zip.docx": docx(
            more={
                "word/footnotes.xml": b"<w:p><w:r><w:t>"
                + b"word " * (12 * MIB)
                + b"</w:t></w:r></w:p>"
            }
        ),
        "laughs.docx": docx(more={"word/document.xml": laughs.replace(b"rss>", b"document>")}),
        "good.pdf": pdf(b"They hunt at night."),
        "good.html": page(text="nothing to see").encode(),
    }
    for name, data in files.items():
        (root / name).write_bytes(data)
    return [f"/{name}" for name in files]


def write_large_page(root: Path) -> str:
    """Write an uncompressed page with 100 MB of links; return its path."""
    with (root / "links-100-mb.html").open("wb") as file:
        file.write(b"<title>links</title>")
        for ten_thousand in range(500):
            file.write(
                b"".join(
                    b"<a href=/x/%07d>a</a>\n" % (ten_thousand * 10_000 + number)
                    for number in range(10_000)
                )
            )
    return "/links-100-mb.html"


def write_sitemaps(root: Path, origin: str) -> None:
    """Write a robots.txt with a sitemap index, and the sitemaps."""
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    names = [*(f"map-{number}.xml" for number in range(MAPS)), "maps.xml"]
    (root / "robots.txt").write_text(f"User-agent: *\nDisallow:\nSitemap: {origin}/maps.xml\n")
    listed = "".join(f"<sitemap><loc>{origin}/{name}</loc></sitemap>" for name in names)
    (root / "maps.xml").write_text(
        f"{head}<sitemapindex "
        f'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{listed}</sitemapindex>'
    )
    for number in range(MAPS):
        urls = "".join(
            f"<url><loc>{origin}/x/map-{number}-{place}</loc></url>" for place in range(ENTRIES)
        )
        (root / f"map-{number}.xml").write_text(
            f'{head}<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        )


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Nginx, list[str]]]:
    roots = [tmp_path_factory.mktemp(f"host-{number}") for number in range(1, HOSTS + 1)]
    paths = write_bombs(roots[0])
    targets = [f"http://127.0.3.{number}:$server_port" for number in (2, 3, 1)]
    redirects = [f"location /round {{ return 302 {target}$uri-and-on; }}" for target in targets]
    as_html = "types { } default_type text/html; add_header Content-Encoding"
    codings = " ".join(
        f"location ~ \\.{name}$ {{ {as_html} {name}; }}" for name in ("gzip", "br", "zstd")
    )
    paths.append(write_large_page(roots[0]))
    (roots[0] / "index.html").write_text(page(*paths, "/round"))
    for root in roots[1:]:
        (root / "index.html").write_text(page(text="a host"))
    extra = [f"{redirects[0]} {codings}", *redirects[1:]]
    servers = [
        Server(f"127.0.3.{place + 1}", root, "index.html", False, extra[place])
        for place, root in enumerate(roots)
    ]
    with nginx(servers) as server:
        write_sitemaps(roots[0], f"http://127.0.3.1:{server.port}")
        yield server, paths


@pytest.fixture(scope="module")
def outcome(web: tuple[Nginx, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Crawl all bombs in a separate process."""
    server, _ = web
    workspace = tmp_path_factory.mktemp("bombs") / "w"
    settings = (
        "collection.courtesy_factor=0",
        "crawl.document_timeout=5s",
        "crawl.patience=2s",
        "collection.deny=/x/",
    )
    overrides = [part for setting in settings for part in ("--set", setting)]
    seeds = [f"http://127.0.3.{number}:{server.port}/" for number in range(1, HOSTS + 1)]
    command = [
        str(LYCOSA),
        "-w",
        str(workspace),
        *overrides,
        "crawl",
        *seeds,
        "--delay",
        "1ms",
        "--json",
        "--quiet",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        summary = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    listed = ask(workspace, "SELECT url, http_status, error FROM visits WHERE kind = 'page'")
    rows = {"/" + str(row["url"]).split("/", 3)[3]: row for row in listed}
    counted = Counter(request.uri for request in server.requests())
    return Outcome(rows, counted, summary["refused"], usage.ru_maxrss / 1024, summary["ended"])


@pytest.mark.proves("limits-bombs")
def test_crawl_with_bombs_ends_and_each_bomb_is_fetched_once(
    outcome: Outcome, web: tuple[Nginx, list[str]]
) -> None:
    assert outcome.ended == "finished"
    for path in web[1]:
        assert outcome.rows[path]["http_status"] == 200, path
        assert outcome.requests[path] == 1, path


@pytest.mark.proves("limits-bombs")
def test_memory_stays_bounded(outcome: Outcome) -> None:
    print(f"peak memory: {outcome.peak_mib:.0f} MiB")
    assert outcome.peak_mib < MAX_MIB


@pytest.mark.proves("limits-redirects")
def test_redirects_between_hosts_end_at_max_redirects(outcome: Outcome) -> None:
    hops = [path for path in outcome.requests if path.startswith("/round")]
    assert len(hops) == 1 + 10  # fetch.max_redirects


@pytest.mark.proves("limits-sitemaps")
def test_sitemaps_of_a_recursive_index_are_read_once(
    outcome: Outcome,
) -> None:
    assert outcome.requests["/maps.xml"] == 1
    assert all(outcome.requests[f"/map-{number}.xml"] == 1 for number in range(MAPS))
    assert outcome.refused["pattern"] >= MAPS * ENTRIES
