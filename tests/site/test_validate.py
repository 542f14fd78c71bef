"""Test the HTML validator, and pictures of sites (valid, harmless SVG)."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lycosa.cli.main import app
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError, WorkError
from lycosa.site.checks import BrokenLink, Folder
from lycosa.site.picture import MAX_PAGES, site_picture
from lycosa.site.report import PageLine, SiteReport
from lycosa.site.validate import MAX_BYTES, html_faults, validate_archived
from lycosa.store.workspace import Workspace
from tests.export.library_pages import Fetched, commit

GOOD = (
    "<!doctype html>\n<html "
    "lang=en><head><title>A</title></head>\n<body><p>Text.</p></body></html>\n"
)


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        (GOOD, []),
        (GOOD.replace("<p>", "<p><b>"), [(3, "unexpected-end-tag")]),
        (GOOD.replace("<!doctype html>", ""), [(2, "expected-doctype-but-got-start-tag")]),
        (GOOD.replace("<p>", "<p a=1 a=2>"), [(3, "duplicate-attribute")]),
        (GOOD.replace("Text.", "&nosuch;"), [(3, "expected-named-entity")]),
        (GOOD.replace("Text.", "\n</i>"), [(4, "unexpected-end-tag")]),
    ],
)
def test_errors_have_a_code_and_a_line(document: str, faults: list[tuple[int, str]]) -> None:
    assert [(fault.line, fault.code) for fault in html_faults(document.encode())] == faults


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [
                "<",
                ">",
                "<!doctype html>",
                "<table>",
                "<td",
                "</p>",
                "&",
                "<svg>",
                "<select>",
                "é",
                "\x00",
                "<!--",
                " a='",
            ]
        )
    )
)
def test_validator_accepts_any_input(pieces: list[str]) -> None:
    for fault in html_faults("".join(pieces).encode()):
        assert fault.line >= 1
        assert fault.message


def test_documents_above_the_size_limit_are_refused() -> None:
    with pytest.raises(WorkError, match="more than can be validated"):
        html_faults(b" " * (MAX_BYTES + 1))


def test_the_newest_archived_response_is_validated(tmp_path: Path) -> None:
    root = str(tmp_path / "w")
    workspace = Workspace.create(root, partitions=4)
    claim = workspace.claim("test")
    url = "http://a.example/x"
    digests: dict[tuple[str, str], int] = {}
    commit(workspace, claim, [Fetched(url, 1, GOOD.replace("<p>", "<p a a>"))], digests)
    commit(
        workspace,
        claim,
        [
            Fetched(url, 2, GOOD.replace("Text.", "</i>New.")),
            Fetched("http://a.example/good", 2, GOOD),
        ],
        digests,
    )
    commit(workspace, claim, [Fetched(url, 3, None)], digests)
    claim.release()
    assert [fault.code for fault in validate_archived(root, Config(), "a.example/x").faults] == [
        "unexpected-end-tag"
    ]
    with pytest.raises(UsageError, match="not in the archive"):
        validate_archived(root, Config(), "http://a.example/other")
    run = CliRunner()
    bad = run.invoke(app, ["-w", root, "validate", url])
    assert (bad.exit_code, bad.stdout.partition("  ")[0]) == (1, "3:13")
    assert run.invoke(app, ["-w", root, "validate", "http://a.example/good"]).exit_code == 0
    (tmp_path / "bad.html").write_text(GOOD.replace("Text.", "</i>"))
    from_file = run.invoke(app, ["validate", str(tmp_path / "bad.html"), "--json"])
    assert [fault["code"] for fault in json.loads(from_file.stdout)["faults"]] == [
        "unexpected-end-tag"
    ]


_SVG = "{http://www.w3.org/2000/svg}"
_PAGE = PageLine("", "", "en", 1, 1, 0, 1, 0, 1000, 5, None)
Rectangle = tuple[int, int, int, int]


def _report(urls: list[str], title: str = "A title") -> SiteReport:
    pages = [
        replace(_PAGE, url=url, title=title, depth=number % 9 - 1)
        for number, url in enumerate(urls)
    ]
    totals: dict[str, int] = {"/": 0}
    for url in urls:
        parts = url.split("?")[0].split("/")[3:-1]
        for end in range(len(parts) + 1):
            path = "/" + "".join(f"{part}/" for part in parts[:end])
            totals[path] = totals.get(path, 0) + 1
    tree = [
        Folder(path, path.count("/") - 1, count, 0, 1, 0) for path, count in sorted(totals.items())
    ]
    broken = [BrokenLink("http://a/x", "http_404", "", urls[0], "x", "a")]
    return SiteReport(
        "a", [], len(urls), len(urls), 0, 1, None, None, {}, {}, tree, broken, [], [], [], [], [], [], [], [], [], pages
    )  # fmt: skip


def _rectangle(element: ElementTree.Element) -> Rectangle:
    x, y, width, height = (int(element.attrib[name]) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def _cells(root: ElementTree.Element) -> list[Rectangle]:
    return [_rectangle(group.findall(f"{_SVG}rect")[0]) for group in root.iter(f"{_SVG}g")]


def test_a_thousand_pages_have_disjoint_cells() -> None:
    urls = [
        f"http://a/{'x/' * (number % 6)}{number % 37}/page-{number}.html" for number in range(1_000)
    ]
    text = site_picture(_report(urls))
    root = ElementTree.fromstring(text)
    cells = _cells(root)
    assert (len(cells), len({cell[:2] for cell in cells})) == (len(urls), len(cells))
    assert all(_disjoint(one, other) for one, other in combinations(cells, 2))
    _, _, width, height = map(int, root.attrib["viewBox"].split())
    boxes = [_rectangle(each) for each in root.findall(f"{_SVG}rect") if "stroke" in each.attrib]
    assert all(box[2] <= width and box[3] <= height for box in (*boxes, *cells))
    # The boxes of folders are nested or disjoint.
    for one in boxes:
        for other in boxes:
            assert _disjoint(one, other) or _inside(one, other) or _inside(other, one)
    assert "page-7.html" in [element.text or "" for element in root.iter(f"{_SVG}text")]
    assert len(text) < 600_000


def _disjoint(one: Rectangle, other: Rectangle) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def _inside(inner: Rectangle, outer: Rectangle) -> bool:
    return (
        inner[0] >= outer[0]
        and inner[1] >= outer[1]
        and inner[2] <= outer[2]
        and inner[3] <= outer[3]
    )


def test_picture_of_a_large_site_counts_the_pages_left_out() -> None:
    urls = [f"http://a/{number % 900}/{number}" for number in range(3 * MAX_PAGES)]
    root = ElementTree.fromstring(site_picture(_report(urls)))
    names = [element.text or "" for element in root.iter(f"{_SVG}text")]
    more = sum(int(name.split()[1].replace(",", "")) for name in names if name.startswith("and "))
    assert len(_cells(root)) + more == len(urls)
    assert len(_cells(root)) < len(urls) / 1.2


def test_hostile_titles_and_urls_are_escaped() -> None:
    hostile = '</title><script>alert(1)</script>"\x00\x1b\ud800]]>'
    text = site_picture(
        _report(
            ["http://a/%3Cscript%3Ealert(1)%3C/script%3E", 'http://a/?q="onload=x', "http://a/"],
            hostile,
        )
    )
    root = ElementTree.fromstring(text)
    assert {element.tag.removeprefix(_SVG) for element in root.iter()} == {
        "svg",
        "title",
        "style",
        "rect",
        "text",
        "g",
    }
    assert not any(
        name.startswith("on") or "href" in name
        for element in root.iter()
        for name in element.attrib
    )
    text.encode()
