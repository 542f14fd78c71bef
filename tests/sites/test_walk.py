"""Test the walk over the files against nginx and a second walk.

Also test that a crawl with a very small frontier in memory fetches the same URLs.
"""

from __future__ import annotations

import http.client
import os
from collections import Counter
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.crawl.kills import ask, run_json
from tests.servers.nginx import Server, nginx
from tests.servers.sites import ServedSites
from tests.sites.http_walk import fetched_urls
from tests.sites.serving import INDEX, answer, listing
from tests.sites.urls import join, split
from tests.sites.walk import expected_urls, links

BASE = "http://h.example/a/b?q#f"


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("c", "http://h.example/a/c"),
        ("", "http://h.example/a/b?q"),
        ("#x", "http://h.example/a/b?q"),
        ("?x", "http://h.example/a/b?x"),
        ("?", "http://h.example/a/b?"),
        ("./../../c", "http://h.example/c"),
        ("%2E%2e/c", "http://h.example/c"),
        (".", "http://h.example/a/"),
        ("..", "http://h.example/"),
        ("x//y", "http://h.example/a/x//y"),
        ("https//it.example/w", "http://h.example/a/https//it.example/w"),
        ("//G.example:80/", "http://g.example/"),
        ("//u:p@g.example:81", "http://g.example:81/"),
        ("http:c", "http://h.example/a/c"),
        ("https:c/d", "https://c/d"),
        ("\\c\\d?\\", "http://h.example/c/d?\\"),
        (" c\n d\t ", "http://h.example/a/c%20d"),
        ("%7ec%2f%e4", "http://h.example/a/~c%2F%E4"),
        ("é?é='", "http://h.example/a/%C3%A9?%C3%A9=%27"),
        ("50%.html", "http://h.example/a/50%.html"),
        ("a|b^c", "http://h.example/a/a|b%5Ec"),
        ("mailto:x@y", None),
        ("lhttps://en.example/", None),
        ("javascript:void(0)", None),
    ],
)
def test_join(reference: str, url: str | None) -> None:
    joined = join(split(BASE), reference)
    assert (joined.url if joined else None) == url


def test_links_are_those_of_a_crawl() -> None:
    page = b"""<!doctype html><base href="/base/"><base href="/other/"><meta http-equiv=Refresh content="5;URL='refresh'">
    <link rel=canonical href=canonical><link rel="alternate" hreflang=de href=german><link rel="alternate stylesheet" href=style>
    <link rel=alternate type="application/rss+xml" href=feed><link rel=next href=next><link rel=stylesheet href=style>
    <img src=image usemap=#m><map name=m><area href=area></map><script src=script></script>
    <a href=plain>x</a><a href="plain#again">x</a><a rel="external nofollow" href=refused>x</a><a name=anchor>x</a>
    <iframe src=iframe></iframe><a href=mailto:a@b>x</a>"""
    urls = {target.url for target in links(page, split("http://h.example/page"))}
    assert urls == {
        f"http://h.example/base/{name}" for name in ("refresh", "canonical", "german", "area", "plain", "iframe")
    }  # fmt: skip


@pytest.mark.parametrize("content", ["nofollow", "noindex, NoFollow", "none"])
def test_a_page_with_nofollow_has_no_links(content: str) -> None:
    page = f'<a href=a>x</a><meta name=ROBOTS content="{content}">'.encode()
    assert links(page, split("http://h.example/")) == set()


def test_computed_responses_equal_those_of_nginx(tmp_path: Path) -> None:
    """The folder has names that need escaping."""
    (tmp_path / "folder with space").mkdir()
    (tmp_path / "folder with space" / "ä&<b>#?%+'().txt").write_text("x")
    (tmp_path / "indexed").mkdir()
    (tmp_path / "indexed" / "index.en.html").write_text("<a href=x>x</a>")
    for name in (
        "README",
        "B.GZ",
        "a.HTML",
        ".hidden",
        "z.tar.gz",
        "café:=,;@!$*~.html",
        "n" * 60 + ".png",
    ):
        (tmp_path / name).write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    paths = [
        "/",
        "/folder%20with%20space",
        "/folder%20with%20space/",
        "/folder%20with%20space?a=b",
        "/indexed",
        "/indexed/",
        "//indexed//",
    ]
    paths += [
        "/README",
        "/README/",
        "/B.GZ",
        "/a.HTML",
        "/.hidden",
        "/z.tar.gz",
        "/missing",
        "/missing/",
        "/dangling",
        "/50%",
        "/a%00b",
    ]
    paths += [
        "/caf%C3%A9:=,;@!$*~.html",
        "/indexed/../README",
        "/indexed/%2e%2e/README",
        "/indexed%2Findex.en.html",
        "/../README",
        "/x//y",
    ]
    with nginx([Server("127.0.0.1", tmp_path)]) as server:
        for path in paths:
            status, content_type, location, body = _get(f"127.0.0.1:{server.port}", path)
            computed = answer(tmp_path, *path.split("?"))
            expected_location = (
                f"http://127.0.0.1:{server.port}{computed.location}" if computed.location else ""
            )
            assert (status, location) == (computed.status, expected_location), path
            if status == 200:
                assert content_type == computed.content_type, path
            if computed.listing:
                assert _hrefs(body) == _hrefs(computed.listing), path
            elif status == 200:
                assert body == computed.body(), path


def _get(host: str, path: str, method: str = "GET") -> tuple[int, str, str, bytes]:
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return (
        response.status,
        response.headers.get_content_type(),
        response.headers.get("Location", ""),
        body,
    )


def _hrefs(body: bytes) -> list[tuple[str, str]]:
    """Return links and texts of a directory listing.

    Texts are cut to the length that nginx uses.
    """
    anchors: list[tuple[str, str]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            if tag == "a":
                anchors.append((dict(attributes)["href"] or "", ""))

        def handle_data(self, data: str) -> None:
            if anchors and not anchors[-1][1]:
                anchors[-1] = (anchors[-1][0], data[:47])

    Reader().feed(body.decode("utf-8", "replace"))
    return anchors


def test_computed_listings_of_the_sites_equal_those_of_nginx(served: ServedSites) -> None:
    checked = 0
    for site in served.sites:
        for folder, _, files in os.walk(site.root):
            if any(os.fsdecode(index) in files for index in INDEX):
                continue
            path = (
                "/"
                if folder == str(site.root)
                else f"/{quote(os.path.relpath(folder, site.root))}/"
            )
            status, _, _, body = _get(f"{site.address}:{served.server.port}", path)
            assert status == 200
            assert _hrefs(body) == _hrefs(listing(os.fsencode(folder) + b"/")), path
            checked += 1
    assert checked > 20


def test_nginx_responds_to_every_expected_url_as_computed(
    served: ServedSites, expected: dict[str, int]
) -> None:
    differences = []
    for site in served.sites:
        origin = served.origin(site.name)
        connection = http.client.HTTPConnection(site.address, served.server.port, timeout=10)
        for url, status in expected.items():
            if url.startswith(f"{origin}/"):
                connection.request("HEAD", url.removeprefix(origin))
                response = connection.getresponse()
                response.read()
                computed = answer(site.root, *url.removeprefix(origin).split("?", 1))
                if response.status != status or (
                    status == 200 and response.headers.get_content_type() != computed.content_type
                ):
                    differences.append(
                        (url, status, response.status, response.headers.get_content_type())
                    )
        connection.close()
    assert differences == []


def test_the_walk_reaches_most_files_of_each_site(
    served: ServedSites, expected: dict[str, int]
) -> None:
    """Detects a walk that stops too early."""
    for site in served.sites:
        origin = served.origin(site.name)
        files = sum(1 for path in site.root.rglob("*.html") if path.is_file())
        reached = sum(
            1
            for url, status in expected.items()
            if status == 200 and url.startswith(f"{origin}/") and url.endswith(".html")
        )
        assert reached >= 0.95 * files, f"{site.name}: {reached} of {files}"


@pytest.mark.parametrize("name", ["maint-guide", "tuxpaint-doc"])
def test_a_walk_over_http_fetches_the_same_urls(served: ServedSites, name: str) -> None:
    origin = served.origin(name)
    walked = expected_urls({origin: served.roots()[origin]}, [f"{origin}/"])
    assert walked == fetched_urls(origin, [f"{origin}/"])
    assert Counter(walked.values())[200] > 80


THREE_SITES = ("debian-reference", "maint-guide", "python-doc")
SIX_SITES = (*THREE_SITES, "apache-manual", "installation-guide", "tuxpaint-doc")


@pytest.mark.parametrize(
    ("names", "hosts", "urls", "commits"),
    [
        (THREE_SITES, 2, 100, 200),
        pytest.param(SIX_SITES, 2, 100, 200, marks=pytest.mark.prove),
        pytest.param(SIX_SITES, 20_000, 100, 50, marks=pytest.mark.prove),
        pytest.param(SIX_SITES, 1, 100, 1_000, marks=pytest.mark.prove),
    ],
    ids=["few", "all", "many hosts", "one host"],
)
def test_a_small_frontier_in_memory_fetches_the_same_urls(
    served: ServedSites,
    expected: dict[str, int],
    tmp_path: Path,
    names: Sequence[str],
    hosts: int,
    urls: int,
    commits: int,
) -> None:
    limits = (
        f"crawl.active_hosts={hosts}",
        f"crawl.waiting_urls={urls}",
        f"crawl.commit_pages={commits}",
        "collection.media_types=*",
    )
    settings = [part for limit in limits for part in ("--set", limit)]
    workspace = tmp_path / "workspace"
    origins = tuple(f"{served.origin(name)}/" for name in names)  # no site links to another
    seeds = [seed for seed in served.seeds() if seed.startswith(origins)]
    expected_here = {url: status for url, status in expected.items() if url.startswith(origins)}
    assert len(expected_here) > 5 * urls
    quick = ("--delay", "0", *settings, "--no-index", "--json", "--quiet")
    assert run_json(workspace, "crawl", *seeds, *quick)["left_for_later"] == {}
    rows = ask(workspace, "SELECT url, http_status FROM visits WHERE kind = 'page'")
    assert Counter((row["url"], row["http_status"]) for row in rows) == Counter(
        expected_here.items()
    )
