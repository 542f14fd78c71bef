"""What cannot be indexed, by its URL and by its media type."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given

from lycosa.core.errors import UrlError
from lycosa.url.file_types import READ_TYPES, TEXT_TYPES, unindexable, unindexable_type
from lycosa.url.normalise import normalise
from tests.servers.sites import require_sites
from tests.url.strategies import absolute

REFUSED = [
    ("http://h/a.zip", "archive"),
    ("http://h/a.tar.gz", "archive"),
    ("http://h/a/b.JPG", "image"),
    ("http://h/a.jpeg?w=200&h=100", "image"),
    ("http://h/a.png;v=1", "image"),
    ("http://h/a.mp3", "audio"),
    ("http://h/a.webm", "video"),
    ("http://h/a.woff2?v=4", "font"),
    ("http://h/setup.exe", "executable"),
    ("http://h/debian.iso", "disk_image"),
    ("http://h/main.css?12", "style"),
    ("http://h/app.js", "script"),
    ("http://h/a.sqlite", "data"),
]
ADMITTED = [
    "http://h",
    "http://h/",
    "http://h.zip/",
    "http://h.zip",
    "http://h/a",
    "http://h/a.html",
    "http://h/a.png/",
    "http://h/a.zip/download",
    "http://h/v1.2",
    "http://h/show.php?file=a.zip",
    "http://h/?a.jpg",
    "http://h/wiki/File:A.jpg",
    "http://h/wiki/Node.js",
    "http://h/tagged/three.js",
    "http://h/o/r/blob/main/logo.svg",
    "http://h/index.php/a.jpg",
    "http://h/cgi-bin/show.exe",
    "http://h/page.dll?a=1",
    "http://h/whois/example.com",
    "http://h/site/notion.so",
    "http://h/a.txt",
    "http://h/feed.xml",
    "http://h/a.pdf",
    "http://h/.zip.html",
    "http://h/" + "a." + "z" * 50,
]


@pytest.mark.parametrize(("url", "reason"), REFUSED)
def test_refused(url: str, reason: str) -> None:
    assert unindexable(url) == reason


@pytest.mark.parametrize("url", ADMITTED)
def test_admitted(url: str) -> None:
    assert unindexable(url) == ""


def test_documents_are_a_choice() -> None:
    for name in ("a.pdf", "a.DOCX", "a.epub"):
        assert unindexable(f"http://h/{name}") == ""
        assert unindexable(f"http://h/{name}", documents=False) == "document"
    assert unindexable("http://h/a.zip", documents=False) == "archive"


@pytest.mark.parametrize(
    ("content_type", "patterns", "reason"),
    [
        ("text/html; charset=utf-8", READ_TYPES, ""),
        ("TEXT/HTML", READ_TYPES, ""),
        ("application/rss+xml", READ_TYPES, ""),
        ("application/xhtml+xml", (), ""),
        ("", READ_TYPES, ""),
        ("application/octet-stream", READ_TYPES, ""),
        ("nonsense", READ_TYPES, ""),
        ("image/png", READ_TYPES, "image"),
        ("image/svg+xml", READ_TYPES, "image"),
        ("video/mp4", READ_TYPES, "video"),
        ("application/zip", READ_TYPES, "archive"),
        ("application/pdf", READ_TYPES, ""),
        ("application/pdf", TEXT_TYPES, "document"),
        ("application/vnd.oasis.opendocument.text", READ_TYPES, ""),
        ("application/pdf", ("text/*", "application/pdf"), ""),
        ("text/css", READ_TYPES, "style"),
        ("application/vnd.api+json", READ_TYPES, "media_type"),
        ("text/html", ("application/pdf",), "media_type"),
        ("image/svg+xml", ("image/*",), ""),
    ],
)
def test_media_types(content_type: str, patterns: tuple[str, ...], reason: str) -> None:
    assert unindexable_type(content_type, patterns) == reason


@given(absolute)
def test_never_raises(url: str) -> None:
    try:
        unindexable(normalise(url), documents=False)
    except UrlError:
        return


def test_no_page_of_six_real_sites_is_refused() -> None:
    pages = [
        normalise(f"http://{site.name}/{(Path(folder) / name).relative_to(site.root)}")
        for site in require_sites()
        for folder, _, files in os.walk(site.root, followlinks=True)
        for name in ("", *files)
        if name.endswith((".html", ".txt", ".xml")) or not name
    ]
    assert len(pages) > 5_000
    assert [url for url in pages if unindexable(url)] == []
