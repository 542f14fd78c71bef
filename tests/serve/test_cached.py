"""Cached copies of untrusted content are harmless; versions in pages, API and command."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lycosa.cli.main import app as program
from lycosa.commands.inspection.status import workspace_status
from lycosa.serve.app import create_app
from lycosa.serve.captures.pages import FRAME_POLICY, RAW_POLICY, cached_address, file_name
from lycosa.serve.captures.sanitizer import MAX_BYTES, safe_page
from lycosa.serve.web.security import SECURITY_HEADERS
from lycosa.store.exclusion.purge import exclude
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise
from tests.captures.test_captures import HTML, OTHER, URL, Capture, archive
from tests.serve.client import Client
from tests.serve.pages import Document
from tests.store.builders import START_MS

BASE = "http://a.example/"
EVIL_URL = normalise(f"{BASE}%22;evil%0d%0aX:%20y/..%2f..%2frm%20-rf.exe")
HOSTILE = """<!doctype html><html lang="en" onload="alert(1)"><head><title>Venom</title>
<meta http-equiv="refresh" content="0;url=http://127.0.2.9/refresh"><base href="http://127.0.2.9/base/">
<link rel="stylesheet" href="http://127.0.2.9/style"><link rel="dns-prefetch" href="//127.0.2.9"><link rel="preconnect" href="http://127.0.2.9">
<script src="http://127.0.2.9/script"></script><script>document.title="owned"; parent.document.title="owned"</script>
<style>@import url(http://127.0.2.9/import); body { background: url(http://127.0.2.9/background) } p { color: green }</style></head>
<body onload="fetch('http://127.0.2.9/load')" background="http://127.0.2.9/body" style="background-image:url(http://127.0.2.9/inline)">
<p id="here">Deadly text. <img src="http://127.0.2.9/pixel" onerror="alert(1)" alt="a picture">
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
<img srcset="http://127.0.2.9/set 1x"><video src="http://127.0.2.9/video" autoplay poster="http://127.0.2.9/poster"></video>
<iframe src="http://127.0.2.9/frame"></iframe><object data="http://127.0.2.9/object"></object><embed src="http://127.0.2.9/embed">
<form action="http://127.0.2.9/form"><input name="a" autofocus onfocus="alert(1)"><button>Send</button></form>
<svg><script>alert(1)</script><image href="http://127.0.2.9/svg"/><a xlink:href="javascript:alert(1)">x</a></svg>
<math><mtext></p><style><img src=http://127.0.2.9/math onerror=alert(1)></style></math>
<noscript><p title="</noscript><img src=http://127.0.2.9/noscript onerror=alert(1)>"></noscript>
<a href="javascript:alert(1)">script</a> <a href="data:text/html,<script>alert(1)</script>">data</a> <a href=" JaVaScRiPt:alert(1)">case</a>
<a href="page">relative</a> <a href="http://a.example/other" ping="http://127.0.2.9/ping" target="_self">known</a> <a href="#here">here</a>
</body></html>"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    workspace = Workspace.create(str(tmp_path_factory.mktemp("cached") / "w"), partitions=8)
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = bomb.compress(b"<p>" + b"a" * (200 * 2**20)) + bomb.flush()
    html = "Content-Type: text/html; charset=utf-8"
    archive(
        workspace,
        [
            Capture(URL, 0, HTML.format("Second block.").encode()),
            Capture(URL, 1, None),
            Capture(URL, 4, HTML.format("Another block.").encode()),
            Capture(OTHER, 0, HTML.format("Elsewhere.").encode()),
            Capture(f"{BASE}venom", 0, HOSTILE.encode()),
            Capture(
                f"{BASE}koi8",
                0,
                "<title>Т</title><p>Привет, мир и другие".encode("koi8-r"),
                head="Content-Type: text/html; charset=koi8-r",
            ),
            Capture(
                f"{BASE}wrong-charset",
                0,
                "<p>Grüße".encode("utf-16"),
                head="Content-Type: text/html; charset=us-ascii",
            ),
            Capture(f"{BASE}bomb", 0, packed, head=f"{html}\r\nContent-Encoding: gzip"),
            Capture(
                f"{BASE}svg",
                0,
                b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
                head="Content-Type: image/svg+xml",
            ),
            Capture(f"{BASE}png", 0, b"\x89PNG\r\n\x1a\n<script>", head="Content-Type: text/html"),
            Capture(
                f"{BASE}fake.png",
                0,
                b"<html><script>alert(1)</script>hi",
                head="Content-Type: image/png",
            ),
            Capture(
                f"{BASE}text",
                0,
                "<script>alert('ü')</script>".encode("latin-1"),
                head="Content-Type: text/plain; charset=latin-1",
            ),
            Capture(EVIL_URL, 0, b"MZ\x00\x01", head="Content-Type: application/x-msdownload"),
            Capture(f"{BASE}moved", 0, b"", 301, head="Location: http://a.example/page"),
            Capture(f"{BASE}secret/page", 0, b"<p>secret"),
        ],
    )
    exclude(workspace, ["prefix:http://a.example/secret"])
    return workspace.root


@pytest.fixture(scope="module")
def client(root: str) -> Client:
    return Client(create_app(root, lambda: workspace_status(root)))


def test_frame_shows_a_sandboxed_copy_and_the_versions(client: Client) -> None:
    answer = client.get("/cached", {"url": URL})
    assert (
        answer.status_code,
        answer.headers["content-security-policy"],
        answer.headers["x-frame-options"],
    ) == (200, FRAME_POLICY, "DENY")
    frame = Document(answer.text).all("iframe")[0]
    assert "allow-scripts" not in frame["sandbox"]
    assert "allow-same-origin" not in frame["sandbox"]
    assert "3 versions" in answer.text
    assert "Another block." in client.get(frame["src"]).text
    earlier = client.get("/cached", {"url": URL, "at": "2023-11-16"})
    assert "unchanged since" in earlier.text
    assert "Second block." in client.get(Document(earlier.text).all("iframe")[0]["src"]).text


@pytest.mark.proves("access-cached-copies")
def test_sanitized_page_has_only_text_and_links(client: Client) -> None:
    answer = client.get("/cached/raw", {"url": f"{BASE}venom"})
    assert answer.headers["content-security-policy"] == RAW_POLICY
    assert RAW_POLICY.startswith("sandbox ")
    assert "allow-scripts" not in RAW_POLICY
    assert "allow-same-origin" not in RAW_POLICY
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = Document(answer.text)
    assert {name for name, _ in page.elements} <= {
        "html",
        "head",
        "meta",
        "style",
        "body",
        "p",
        "img",
        "a",
        "br",
    }
    for name, attributes in page.elements:
        assert not any(
            attribute.startswith("on") or attribute in ("ping", "srcset", "background")
            for attribute in attributes
        ), name
        assert "http-equiv" not in attributes
    assert {image.get("src", "")[:16] for image in page.all("img")} <= {"", "data:image/gif;b"}
    links = page.all("a")
    assert [link.get("href") for link in links if link.get("href")] == [
        "http://127.0.2.9/base/page",
        "http://a.example/other",
        "#here",
    ]
    assert [link.get("target") for link in links if link.get("href")] == ["_top", "_top", None]
    assert "Deadly text." in " ".join(page.text("p"))


def test_links_to_archived_pages_lead_to_their_cached_copies() -> None:
    def refer(target: str) -> str:
        return cached_address(target, START_MS) if target.endswith("/known?a=1&b=2") else target

    html = (
        b"<base href='/d/'><a href='known?a=1&amp;b=2#f'>k</a><a href=unknown>u</a><a "
        b"href='//[bad'>x</a><a name=n>n</a>"
    )
    page = Document(safe_page(html, "text/html", "http://h.example/x/y", refer))
    assert [link.get("href") for link in page.all("a")] == [
        "/cached?url=http%3A%2F%2Fh.example%2Fd%2Fknown%3Fa%3D1%26b%3D2&at=20231114221320000#f", "http://h.example/d/unknown", None, None,
    ]  # fmt: skip


@pytest.mark.proves("access-cached-copies")
@pytest.mark.parametrize(
    ("name", "type_", "body"),
    [
        ("koi8", "text/html; charset=utf-8", "Привет, мир"),
        ("wrong-charset", "text/html; charset=utf-8", "Grüße"),
        ("svg", "text/plain; charset=utf-8", "<svg xmlns="),
        ("text", "text/plain; charset=utf-8", "<script>alert('ü')</script>"),
        ("png", "image/png", "PNG"),
    ],
)
def test_every_type_is_served_safely(client: Client, name: str, type_: str, body: str) -> None:
    answer = client.get("/cached/raw", {"url": BASE + name})
    assert answer.headers["content-type"] == type_
    assert answer.headers["content-security-policy"] == RAW_POLICY
    assert body in (answer.text if type_.startswith("text") else answer.content.decode("latin-1"))
    assert client.get("/cached", {"url": BASE + name}).status_code == 200


def test_html_declared_as_an_image_is_not_served_as_html(client: Client) -> None:
    answer = client.get("/cached/raw", {"url": f"{BASE}fake.png"})
    assert "<script" not in answer.text or answer.headers["content-type"].startswith(
        ("text/plain", "application/octet-stream")
    )


def test_downloads_have_safe_file_names(client: Client) -> None:
    answer = client.get("/cached/raw", {"url": EVIL_URL})
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="rm_-rf.exe.bin"'
    assert "download the file" in client.get("/cached", {"url": EVIL_URL}).text
    assert file_name("http://h/%E6%96%87.pdf", b"%PDF-1.4\n1 0 obj") == "file.pdf"
    assert file_name("http://h/", b"") == "file.bin"
    assert file_name("http://h/" + "a" * 300, b"") == "a" * 60 + ".bin"


@pytest.mark.proves("limits-decompression")
def test_decompression_bomb_is_truncated(client: Client) -> None:
    answer = client.get("/cached/raw", {"url": f"{BASE}bomb"})
    assert MAX_BYTES * 0.9 < len(answer.content) < MAX_BYTES * 1.1
    assert "truncated" in client.get("/cached", {"url": f"{BASE}bomb"}).text


@pytest.mark.parametrize(
    "html",
    ["<div>" * 60_000, "<b><p>" * 20_000, "<font color=red>".join(["<p>x"] * 1_000) * 10, "<a href='" * 50_000, "<style>" * 20_000,
     "".join(f"<font color='{number}{'x' * 900}'>" for number in range(600)) + "<p>x" * 600, "<table>" * 20_000, "<!--" * 100_000],
)  # fmt: skip
def test_size_of_the_sanitized_page_is_bounded(html: str) -> None:
    assert len(safe_page(html.encode(), "text/html", BASE, lambda target: target)) < 64 * 2**20


@pytest.mark.proves("consistency-exclusion")
def test_excluded_and_unknown_pages_are_not_found(client: Client) -> None:
    for path in (
        "/cached",
        "/cached/raw",
        "/versions",
        "/api/v1/versions",
        "/api/v1/versions/text",
        "/api/v1/versions/markdown",
    ):
        for url in (f"{BASE}secret/page", f"{BASE}never"):
            answer = client.get(path, {"url": url})
            assert answer.status_code == 404, path
            assert "No copy of this page is archived" in answer.text
            assert "secret" not in answer.text.replace("secret/page", "")
        assert client.get(path, {"url": "javascript:alert(1)"}).status_code in (400, 404)
        assert client.get(path).status_code == 422
    assert client.get("/cached", {"url": URL, "at": "never"}).status_code == 400
    assert client.get("/cached", {"url": "http://" + "a" * 5_000}).status_code == 422


def test_missing_copy_is_reported_in_the_language_of_the_reader(client: Client) -> None:
    headers = {"accept": "text/html", "accept-language": "ru"}
    page = Document(client.get("/cached", {"url": f"{BASE}never"}, headers).text)
    assert page.text("h1") == ["В архиве нет копии этой страницы"]


def test_text_view_has_neither_frame_nor_scripts(client: Client) -> None:
    page = Document(client.get("/cached", {"url": f"{BASE}venom", "text": "1"}).text)
    assert "Deadly text." in " ".join(page.text("main"))
    assert (page.all("iframe"), page.all("script")) == ([], [])


def test_copy_of_a_redirect_shows_its_status(client: Client) -> None:
    answer = client.get("/cached", {"url": f"{BASE}moved"})
    assert answer.status_code == 200
    assert "HTTP status 301" in answer.text


def test_versions_api_lists_compares_and_extracts(client: Client) -> None:
    history = client.get("/api/v1/versions", {"url": "a.example/page"}).json()
    assert (
        history["url"],
        history["total"],
        [each["status"] for each in history["versions"]],
        history["versions"][1]["original"],
    ) == (URL, 3, [200, 304, 200], history["versions"][2]["fetched_at"])
    assert client.get(history["versions"][0]["cached"]).status_code == 200
    older = client.get(
        "/api/v1/versions", {"url": URL, "before": history["versions"][1]["at"]}
    ).json()
    assert [each["at"] for each in older["versions"]] == [history["versions"][2]["at"]]
    changed = client.get("/api/v1/versions", {"url": URL, "changed": "true"}).json()
    assert len(changed["versions"]) == 2
    diff = client.get(
        "/api/v1/versions/diff", {"url": URL, "a": history["versions"][2]["at"]}
    ).json()
    changes = diff["difference"]
    assert (diff["of"], changes["gone"], changes["came"]) == ("main text", 1, 1)
    assert [piece["blocks"] for piece in changes["stretches"][0] if piece["kind"] != " "] == [
        ["Second block."],
        ["Another block."],
    ]
    text = client.get("/api/v1/versions/text", {"url": URL, "at": "20231115"}).json()
    assert text["text"].split("\n")[1] == "Second block."
    for mode in ("main", "full", "citations"):
        parameters = {"url": URL, "at": "20231115", "mode": mode}
        document = client.get("/api/v1/versions/markdown", parameters).json()
        assert (document["mode"], document["title"]) == (mode, text["title"])
        assert "Second block." in document["markdown"].split("\n")
    assert client.get("/api/v1/versions/markdown", {"url": URL, "mode": "x"}).status_code == 422


def test_versions_page_lists_and_compares(client: Client) -> None:
    listed = Document(client.get("/versions", {"url": URL}).text)
    assert len(listed.all("tr")) == 4
    addresses = [
        link["href"] for link in listed.all("a") if link.get("href", "").startswith("/cached?")
    ]
    assert all(client.get(address).status_code == 200 for address in addresses)
    assert len(addresses) == 3
    times = [field["value"] for field in listed.all("input") if field.get("name") == "a"]
    comparison = Document(client.get("/versions", {"url": URL, "a": times[-1], "b": times[0]}).text)
    assert (comparison.text("del"), comparison.text("ins")) == (
        ["Second block."],
        ["Another block."],
    )
    same = client.get("/versions", {"url": URL, "a": times[-1], "b": times[1]})
    assert "Both versions have the same text" in same.text


def test_other_pages_have_the_default_security_policy(client: Client) -> None:
    for path in ("/", "/healthz", "/versions?url=a.example/page"):
        assert (
            client.get(path).headers["content-security-policy"]
            == SECURITY_HEADERS["content-security-policy"]
        )


def test_versions_command_lists_compares_and_extracts(root: str) -> None:
    def versions(*arguments: str) -> Any:
        return CliRunner().invoke(program, ["-w", root, "versions", *arguments])

    listed = versions("a.example/page")
    assert listed.exit_code == 0
    assert [line.split()[3] for line in listed.stdout.splitlines()] == ["200", "304", "200"]
    document = json.loads(versions(URL, "--json").stdout)
    assert [each["number"] for each in document["versions"]] == [1, 2, 3]
    assert "-Second block.\n+Another block.\n" in versions(URL, "--diff", "3", "1").stdout
    assert "Second block." in versions(URL, "--text", "--at", "2").stdout
    assert str(versions(URL, "--at", "2").exception) == "--at requires --text"
    assert versions(URL, "--diff", "3", "9").exception is not None
    assert versions("http://a.example/secret/page").exception is not None


def test_body_archived_with_gzip_encoding_is_decoded(tmp_path: Path) -> None:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=4)
    archive(
        workspace,
        [
            Capture(
                URL,
                0,
                gzip.compress(b"<p>Packed."),
                head="Content-Type: text/html\r\nContent-Encoding: gzip",
            )
        ],
    )
    opened = Client(create_app(workspace.root, dict))
    assert "Packed." in opened.get("/cached/raw", {"url": URL}).text
