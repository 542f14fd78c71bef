"""Test offline mirrors: portable file names and rewritten links."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote, urljoin, urlsplit

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.config.reading import parse_config
from lycosa.core.errors import UsageError
from lycosa.export.mirror.file_names import file_names
from lycosa.export.mirror.mirror import MirrorReport, export_mirror
from lycosa.export.mirror.rewrite import rewrite_css, rewrite_html
from lycosa.export.written_files import STATE, WrittenFiles
from lycosa.page.html import style
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.cli.conftest import printed_here
from tests.export.folders import content
from tests.servers.ftp import ftp
from tests.servers.nginx import Server, nginx
from tests.servers.system import require_program
from tests.site.editable_site import crawled

CACHE = Path.home() / ".cache/lycosa-sites"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class _Links(HTMLParser):
    """Links and anchors of a page, by the parser of the standard library."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        if tag != "base":
            self.links += [values[name] for name in ("href", "src") if name in values]


def read_links(path: Path) -> _Links:
    parser = _Links()
    parser.feed(path.read_text("utf-8", "replace"))
    return parser


def broken_links(start: Path) -> tuple[int, list[tuple[str, str]]]:
    """Follow all links to files.

    Return the number of files and the broken links as (page, link).
    """
    waiting, seen, wrong = [start], {start}, []
    while waiting:
        page = waiting.pop()
        if page.suffix not in (".html", ".htm", ".xhtml"):
            continue
        for link in read_links(page).links:
            parts = urlsplit(urljoin(page.as_uri(), link))
            if parts.scheme != "file":
                continue
            target = Path(unquote(parts.path))
            if not target.is_file():
                wrong.append((str(page), link))
            elif target not in seen:
                seen.add(target)
                waiting.append(target)
    return len(seen), wrong


def crawl_from(seed: str, root: Path) -> Workspace:
    """Crawl a site with its page requisites, without an index."""
    config = parse_config("", overrides=("crawl.patience=0",))
    crawled(str(root), seed, config=config, requisites=True)
    return Workspace.open(str(root))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Workspace]]:
    """Start URL and workspace of a crawled site with all kinds of links."""
    root = tmp_path_factory.mktemp("mirror")
    files: dict[str, bytes] = {
        "index.html": (
            b"<html><head><title>Start</title><link rel=stylesheet href=/css/a.css "
            b"integrity=sha256-x><base href=/deep/>"
            b"<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"></head><body "
            b"style=\"background:url('/img/body.png')\">"
            b'<p>Words of the page.</p><img src="/img/a.png" srcset="/img/b.png 2x, '
            b'/img/a.png 1x">'
            b'<a href="page?id=1&amp;n=2#part">query</a>'
            b'<a href="/moved">moved</a><a href="/a%20b/">space</a><a href="/nowhere">404</a><a '
            b'href="http://other.invalid/x">away</a>'
            b'<script>var x = "<a href=/not/a/link>";</script><!-- <a href="/nor/this"> --><a '
            b'href="#here">here</a></body></html>'
        ),
        "deep/page": "<html lang=fr><title>Été</title><p id=part>Des mots français, à côté de la "
        "forêt.</p><a href=/>home</a>".encode("latin-1"),
        "a b/index.html": b"<title>Space</title><p>In a folder with a space in its name.</p><a "
        b"href=..>up</a>",
        "css/a.css": b"@import 'b.css';\nbody{background:url(../img/body.png)}",
        "css/b.css": b'@font-face{font-family:x;src:url("/font/x.woff2") format("woff2")}',
        "font/x.woff2": b"wOF2....",
    }
    files |= {f"img/{name}.png": PNG for name in ("a", "b", "body")}
    for name, data in files.items():
        (root / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "site" / name).write_bytes(data)
    extra = (
        "location = /moved { return 301 /a%20b/; } location = /deep/page { default_type "
        "'text/html; charset=iso-8859-1'; }"
    )
    with nginx(
        [Server("127.0.8.1", root / "site", index="index.html", autoindex=False, extra=extra)]
    ) as server:
        start = f"http://127.0.8.1:{server.port}/"
        yield start, crawl_from(start, root / "w")


@pytest.fixture(scope="module")
def mirror(site: tuple[str, Workspace], tmp_path_factory: pytest.TempPathFactory) -> MirrorReport:
    return export_mirror(site[1], "127.0.8.1", tmp_path_factory.mktemp("copy"))


def test_all_requisites_are_written(mirror: MirrorReport) -> None:
    home = mirror.start.parent
    results = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    page = next(name for name in results if name.startswith("deep/"))
    assert results == sorted(
        [
            "a b/index.html",
            "css/a.css",
            "css/b.css",
            page,
            "font/x.woff2",
            "img/a.png",
            "img/b.png",
            "img/body.png",
            "index.html",
        ]
    )
    assert page.endswith(".html")
    assert mirror.files == len(results)
    assert "img/body.png" in (home / "css/a.css").read_text()
    assert 'url("../font/x.woff2")' in (home / "css/b.css").read_text()
    assert (home / "img/a.png").read_bytes() == PNG


def test_directories_of_an_ftp_server_are_pages(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("one.txt", "sub folder/two & more.txt", "sub folder/deeper/three.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"The words of {name}.\n", encoding="utf-8")
    with ftp(root, tmp_path / "ftp.log") as port:
        workspace = crawl_from(f"ftp://127.0.0.1:{port}/", tmp_path / "w")
    report = export_mirror(workspace, "127.0.0.1", tmp_path / "copy")
    assert report.start.name == "index.html"
    reached, wrong = broken_links(report.start)
    assert (reached, wrong) == (report.files, [])
    assert sorted(path.name for path in report.folder.rglob("*") if path.is_file()) == sorted(
        [STATE, "index.html", "index.html", "index.html", "one.txt", "two & more.txt", "three.txt"]
    )


def test_links_are_rewritten_to_files(site: tuple[str, Workspace], mirror: MirrorReport) -> None:
    reached, wrong = broken_links(mirror.start)
    assert (reached, wrong) == (5, [])  # 3 pages, 1 style sheet, 1 image
    text = mirror.start.read_text()
    assert 'href="a%20b/index.html"' in text  # target of a redirect
    assert f'href="{site[0]}nowhere"' in text
    assert "http://other.invalid/x" in text
    assert "integrity" not in text
    assert "<base" not in text
    assert "Content-Security-Policy" not in text
    assert 'var x = "<a href=/not/a/link>";' in text
    assert '<!-- <a href="/nor/this"> -->' in text
    assert 'href="#here"' in text
    query = next(link for link in read_links(mirror.start).links if link.endswith("#part"))
    assert (mirror.start.parent / unquote(query.partition("#")[0])).is_file()


def test_the_encoding_is_declared_and_kept(mirror: MirrorReport) -> None:
    (page,) = (mirror.start.parent / "deep").iterdir()
    content = page.read_bytes()
    assert "Été".encode("latin-1") in content
    assert b'<meta charset="windows-1252">' in content or b'<meta charset="iso-8859-1">' in content


def test_a_second_export_writes_the_same_bytes(
    site: tuple[str, Workspace], mirror: MirrorReport, tmp_path: Path
) -> None:
    again = export_mirror(site[1], "127.0.8.1", tmp_path)
    assert content(again.folder) == content(mirror.folder)
    with pytest.raises(UsageError, match=r"no capture of unknown\.example"):
        export_mirror(site[1], "unknown.example", tmp_path)


def test_unreadable_records_are_reported_and_omitted(
    site: tuple[str, Workspace], mirror: MirrorReport, tmp_path: Path
) -> None:
    start, workspace = site
    shutil.copytree(workspace.path(""), tmp_path / "w")
    copy = Workspace.open(str(tmp_path / "w"))
    page = pl.col("url").str.starts_with(f"{start}deep/page")
    row = LiveTables(copy).scan("visits").filter(page).collect().row(0, named=True)
    with open(copy.path(row["warc_file"]), "r+b") as archive:
        archive.seek(row["warc_offset"])
        archive.write(bytes(row["warc_length"]))
    report = export_mirror(copy, "127.0.8.1", tmp_path / "out")
    assert (report.files, report.unreadable) == (mirror.files - 1, [row["url"]])


def test_only_unchanged_files_of_the_same_export_are_removed(tmp_path: Path) -> None:
    first = WrittenFiles(tmp_path, "w", "markdown")
    for name in ("a/gone.md", "a/b/kept.md", "b/changed.md", "shared.md", "unreadable.md"):
        first.write(name, b"text")
    assert first.finish() == 0
    other = WrittenFiles(tmp_path, "w", "mirror")
    other.write("shared.md", b"text")
    assert other.finish() == 0
    (tmp_path / "b/changed.md").write_text("changed")
    (tmp_path / "a/own.md").write_text("text")
    for removed in (1, 0):
        again = WrittenFiles(tmp_path, "w", "markdown")
        again.write("a/b/kept.md", b"text")
        again.keep("unreadable.md")
        assert again.finish() == removed
    names = {"a/b/kept.md", "a/own.md", "b/changed.md", "shared.md", "unreadable.md"}
    assert set(content(tmp_path)) == {*names, STATE}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("h/a.html.md", "h/a.html.md/b/c.md"),
        ("h/a.html.md/b/c.md", "h/a.html.md"),
        ("h/a.html.md/b.md", "h/a.html.md/b.md/c.md"),
    ],
)
@pytest.mark.parametrize("kind", ["markdown", "mirror"])
def test_a_file_and_a_folder_of_an_earlier_export_change_places(
    tmp_path: Path, before: str, after: str, kind: str
) -> None:
    earlier = WrittenFiles(tmp_path, "w", "markdown")
    earlier.write(before, b"text")
    earlier.finish()
    later = WrittenFiles(tmp_path, "w", kind)
    later.write(after, b"text")
    assert later.finish() == 1
    assert set(content(tmp_path)) == {after, STATE}


def test_files_of_the_user_in_the_way_of_an_export_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("own")
    (tmp_path / "a.md").mkdir()
    for name, obstacle in (("h/a/b.md", "h"), ("a.md", "a.md")):
        with pytest.raises(OSError, match=f"{tmp_path / obstacle} is in the way"):
            WrittenFiles(tmp_path, "w", "markdown").write(name, b"text")


@pytest.mark.slow
def test_a_browser_shows_the_mirror(mirror: MirrorReport) -> None:
    """Chromium loads the style sheets and images from disk, without network."""
    chromium = require_program("chromium")
    probe = mirror.start.with_name("probe.html")
    script = (
        "<script>onload=()=>{document.title=[...document.images].map(i=>i.naturalWidth).join()+' "
        "'+document.styleSheets.length"
        "+' '+getComputedStyle(document.body).backgroundImage.includes('body.png')}</script>"
    )
    probe.write_text(mirror.start.read_text() + script)
    try:
        call = [
            chromium,
            "--headless",
            "--disable-gpu",
            "--no-sandbox",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--virtual-time-budget=3000",
        ]
        output = subprocess.run(
            [*call, "--dump-dom", probe.as_uri()],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    finally:
        probe.unlink()
    assert "<title>1 1 true</title>" in output.stdout


@pytest.mark.slow
def test_the_mirror_of_a_real_site_has_no_broken_links(tmp_path: Path) -> None:
    """The site is the Debian New Maintainers' Guide."""
    source = CACHE / "maint-guide"
    if not source.is_dir():
        pytest.skip("the sites are not downloaded")
    with nginx([Server("127.0.8.2", source, index="index.html", autoindex=True)]) as server:
        workspace = crawl_from(f"http://127.0.8.2:{server.port}/", tmp_path / "w")
    report = export_mirror(workspace, "127.0.8.2", tmp_path / "m")
    reached, wrong = broken_links(report.start)
    assert wrong == []
    served = sum(path.suffix == ".html" for path in source.rglob("*"))
    assert report.pages >= served
    assert reached >= served


@pytest.mark.parametrize(
    ("url", "media_type", "path"),
    [
        ("http://h/", "text/html", "h/index.html"),
        ("http://h:81/a/", "text/html", "h_81/a/index.html"),
        ("http://h/a", "text/html", "h/a.html"),
        ("http://h/a.cgi", "text/html", "h/a.cgi.html"),
        ("http://h/a.html", "image/png", "h/a.html.png"),
        ("http://h/a.PNG", "image/png", "h/a.PNG"),
        ("http://h/%D1%8F.html", "text/html", "h/я.html"),
        ("http://h/x.tar.gz", "application/gzip", "h/x.tar.gz"),
    ],
)
def test_file_names(url: str, media_type: str, path: str) -> None:
    assert file_names([(url, media_type)]) == {url: path}


def test_files_of_markdown_are_no_folders_of_others() -> None:
    pages = [("http://h/a.html", "text/markdown"), ("http://h/a.html.md/b", "text/markdown")]
    names = file_names(pages)
    assert names["http://h/a.html.md/b"] == "h/a.html.md/b.md"
    assert names["http://h/a.html"].startswith("h/a.html~")


def test_file_names_are_unique_and_portable() -> None:
    pages = [
        (f"http://h/{name}", "text/html")
        for name in (
            "A",
            "a",
            "a.html",
            "a.html/b",
            "a?x",
            "a?X",
            "con",
            "x%2Fy",
            "x/y",
            "a%00",
            "%C3%A9",
            "e%CC%81",
            "a.html.md/b",
        )
    ]
    pages += [
        ("https://h/a", "text/html"),
        ("http://h/" + "l" * 400, "text/html"),
        ("http://h/" + "l" * 401, "text/html"),
    ]
    names = file_names(pages)
    assert names == file_names(reversed(pages))
    paths = [normalize("NFC", path.lower()) for path in names.values()]
    assert len(set(paths)) == len(pages)
    folders = {
        path.rsplit("/", depth)[0] for path in paths for depth in range(1, path.count("/") + 1)
    }
    assert not folders.intersection(paths)
    assert all(len(part.encode()) <= 120 for path in paths for part in path.split("/"))
    assert not any(set('<>:"\\|?*%#').intersection(path) for path in paths)


@settings(max_examples=150)
@given(
    st.binary(max_size=300),
    st.sampled_from(["utf-8", "shift_jis", "utf-16", "nonsense", "gb18030"]),
)
def test_rewriting_accepts_any_bytes(body: bytes, charset: str) -> None:
    for markup in (body, b"<a href='" + body, b"<style>" + body):
        rewrite_html(markup, "http://h/", charset, lambda url: "x.html")
        rewrite_css(markup, "http://h/", lambda url: "x.css")


@pytest.mark.parametrize(
    ("charset", "query"), [("windows-1252", "%A7"), ("iso-2022-jp", "%1B$B!x%1B(B")]
)
def test_queries_of_links_are_in_the_encoding_of_the_page(charset: str, query: str) -> None:
    body = '<base href="/"><a href="?q=§">'.encode(charset)
    names = {f"http://a.test/?q={query}": "file.html"}
    assert b'href="file.html"' in rewrite_html(body, "http://a.test/x", charset, names.get)


def test_base_in_a_comment_or_script_is_ignored() -> None:
    body = (
        b'<!-- <base href="/no/"> --><script>"<base href=/nor/>"</script><base target="_top">'
        b'<BASE href="/yes/"><A href="x"><base href="/late/"><svg:clipPath id="p">'
    )
    written = rewrite_html(body, "http://a.test/", "utf-8", {"http://a.test/yes/x": "file"}.get)
    assert b'</script><A href="file"><svg:clipPath id="p">' in written


def test_hostile_markup_takes_linear_time() -> None:
    """Ten times the input takes about ten times as long.

    A backtracking pattern would take a hundred times as long.
    """

    def seconds(times: int) -> float:
        started = time.process_time()
        for part, end in (
            (b"<a ", b""),
            (b"<a b='", b""),
            (b"<head ", b""),
            (b"<!--", b""),
            (b"<style>", b""),
            (b"<style>url(", b""),
            (b'<a b="', b">"),
        ):
            body = part * times + end
            rewrite_html(body, "http://h/", "utf-8", lambda url: None)
            assert len(list(style.html_urls(body))) + len(list(style.image_sets(body))) <= times
        assert not list(style.image_sets(b"<img srcset='" + b" " * times + b"'>"))
        return time.process_time() - started

    assert seconds(20_000) < 40 * max(seconds(2_000), 0.02)


def test_the_command_reports_files_and_pages(site: tuple[str, Workspace], tmp_path: Path) -> None:
    call = ("-w", site[1].root, "export", "mirror", "127.0.8.1", str(tmp_path))
    assert printed_here(*call).startswith("9 files, 3 of them pages")
