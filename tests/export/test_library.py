"""Test exports of pages by day: contents, formats and resumption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from lxml import etree
from warcio.archiveiterator import ArchiveIterator

from lycosa.commands.maintenance.exclude import exclude_and_purge
from lycosa.config.reading import parse_config
from lycosa.core.errors import WorkError
from lycosa.export.library.editions import LibrarySelection
from lycosa.export.library.formats import FORMATS
from lycosa.export.library.library import LibraryReport, export_library
from lycosa.export.library.xml import NAMESPACE, SCHEMA
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import current_duplicates
from lycosa.store.compaction.compact import compact
from lycosa.store.exclusion.purge import exclude
from lycosa.store.workspace import Workspace
from tests.export.folders import content
from tests.export.library_pages import READER, Fetched, commit, day_name
from tests.waiting import until

SCHEMA_OF = etree.XMLSchema(etree.parse(str(SCHEMA)))
EVERYTHING = LibrarySelection()
Q = f"{{{NAMESPACE}}}"
HOME = "http://www.example.org/"


def html(text: str, *, title: str = "A title", robots: str = "", links: str = "") -> str:
    meta = f'<meta name="robots" content="{robots}">' if robots else ""
    return f"<html><head><title>{title}</title>{meta}</head><body><h1>{title}</h1><p>{text}</p>{links}</body></html>"


ENGLISH = (
    "The dormouse sleeps all winter long under the leaves of the old oak, and wakes when "
    "the first warm days of spring have come."
)
GERMAN = (
    "Die Haselmaus schläft den ganzen Winter unter dem Laub der alten Eiche und wacht auf, "
    "wenn die ersten warmen Tage kommen."
)


def create_workspace(path: Path, *commits: list[Fetched]) -> Workspace:
    workspace = Workspace.create(str(path), partitions=4)
    claim = workspace.claim("test")
    digests: dict[tuple[str, str], int] = {}
    for fetched in commits:
        commit(workspace, claim, fetched, digests)
    claim.release()
    return workspace


def export(
    workspace: Workspace,
    target: Path,
    kind: str = "xml",
    selection: LibrarySelection = EVERYTHING,
    languages: Mapping[str, str] | None = None,
    **more: Any,
) -> LibraryReport:
    selection = replace(selection, languages=languages or {})
    return export_library(workspace, target, FORMATS[kind], selection, READER, **more)


def documents(target: Path) -> dict[tuple[str, str], list[Any]]:
    """Return (language, day) -> documents, validated by the schema."""
    results: dict[tuple[str, str], list[Any]] = {}
    for path in sorted((target / "xml").glob("*/*/*.xml")):
        tree = etree.parse(str(path))
        SCHEMA_OF.assertValid(tree)
        root = tree.getroot()
        assert (root.get("language"), root.get("date")) == path.parts[-3:-1]
        results.setdefault((path.parts[-3], path.parts[-2]), []).extend(root)
    return results


def urls(target: Path) -> dict[tuple[str, str], list[str]]:
    return {
        key: sorted(str(each.findtext(f"{Q}url")) for each in results)
        for key, results in documents(target).items()
    }


def text_of(document: Any) -> str:
    paragraphs = document.findall(f"{Q}main-text/{Q}p")
    return "".join(
        ("" if p.get("more") or not number else "\n") + (p.text or "")
        for number, p in enumerate(paragraphs)
    )


def texts_by_day(results: dict[tuple[str, str], list[Any]], url: str) -> dict[str, str]:
    return {
        key[1]: text_of(next(each for each in of_day if each.findtext(f"{Q}url") == url))
        for key, of_day in results.items()
    }


def test_a_page_is_in_the_days_of_its_changes_with_its_last_text(tmp_path: Path) -> None:
    page, still = f"{HOME}changing", f"{HOME}still"
    workspace = create_workspace(
        tmp_path / "w",
        [Fetched(page, 0, html(f"{ENGLISH} First.")), Fetched(still, 0, html(f"{ENGLISH} Still."))],
        [Fetched(page, 1, None), Fetched(still, 1, html(f"{ENGLISH} Still.", title="A title"))],
        [
            Fetched(page, 2, html(f"{ENGLISH} Second."), second=1),
            Fetched(page, 2, html(f"{ENGLISH} Third."), second=9),
        ],
        [Fetched(page, 3, html(f"{ENGLISH} Third.")), Fetched(still, 3, "")],
    )
    report = export(workspace, tmp_path / "out")
    assert urls(tmp_path / "out") == {
        ("en", day_name(0)): [page, still],
        ("en", day_name(2)): [page],
    }
    assert (report.documents, report.days, report.languages, report.unreadable) == (3, 2, 1, 0)
    results = documents(tmp_path / "out")
    texts = texts_by_day(results, page)
    assert "First." in texts[day_name(0)]
    assert "Third." in texts[day_name(2)]
    (latest,) = results["en", day_name(2)]
    assert latest.findtext(f"{Q}fetched-at") == f"{day_name(2)}T06:00:09.000Z"

    export(workspace, tmp_path / "full", selection=LibrarySelection(full=True))
    full = documents(tmp_path / "full")
    texts = texts_by_day(full, page)
    assert [
        next(word for word in ("First.", "Second.", "Third.") if word in texts[day_name(day)])
        for day in range(4)
    ] == [
        "First.",
        "First.",
        "Third.",
        "Third.",
    ]
    assert [len(full["en", day_name(day)]) for day in range(4)] == [2, 2, 1, 1]


def test_fields_of_a_document(tmp_path: Path) -> None:
    links = (
        '<a href="/a?x=1&amp;y=&quot;2">one &lt;b&gt;</a><img src="/i.png"><a '
        'href="http://other.example/ü">zwei</a>'
    )
    canonical = '<link rel="canonical" href="/b">'
    page = html(f"{GERMAN} 5 &lt; 6 & “7”", title="Über &lt;Mäuse> & Co", links=links + canonical)
    workspace = create_workspace(tmp_path / "w", [Fetched(f"{HOME}a", 0, page, "zh", f"{HOME}old")])
    export(workspace, tmp_path / "out", languages={"zh": "zh"})
    ((document,),) = documents(tmp_path / "out").values()
    output = {
        name: document.findtext(f"{Q}{name}")
        for name in (
            *("url", "redirected-from", "canonical", "charset", "language", "collection"),
            *("page-type", "headline"),
        )
    }
    assert output == {
        "url": f"{HOME}a",
        "redirected-from": f"{HOME}old",
        "canonical": f"{HOME}b",
        "charset": "utf-8",
        "language": "de",
        "collection": "zh",
        "page-type": "listing",
        "headline": "Über <Mäuse> & Co",
    }
    assert GERMAN in text_of(document)
    assert "5 < 6 & “7”" in text_of(document)
    assert [
        (link.get("kind"), link.get("href"), link.text) for link in document.find(f"{Q}links")
    ] == [
        ("a", f"{HOME}a?x=1&y=%222", "one <b>"),
        ("a", "http://other.example/%C3%BC", "zwei"),
        ("canonical", f"{HOME}b", None),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x0bb\x01c\x1fd\ufffee", None),
        ("שלום עולם \u202bمرحبا\u202c 123", "שלום עולם \u202bمرحبا\u202c 123"),
        ("𝔘𝔫𝔦𝔠𝔬𝔡𝔢 😀 𠀀𠀁", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 😀 𠀀𠀁"),
        ("]]> <!-- --> &amp;amp;", "]]> <!-- --> &amp;"),
    ],
)
def test_all_characters_are_exported_as_valid_xml(
    tmp_path: Path, text: str, expected: str | None
) -> None:
    body = text.replace("<!--", "&lt;!--").replace("]]>", "]]&gt;")
    workspace = create_workspace(
        tmp_path / "w", [Fetched(HOME, 0, html(f"{ENGLISH} {body}", title=body))]
    )
    export(workspace, tmp_path / "out")
    ((document,),) = documents(tmp_path / "out").values()
    assert expected is None or expected in text_of(document)
    assert ENGLISH in text_of(document)


@pytest.mark.slow
def test_a_huge_page_is_within_the_default_limits_of_parsers(tmp_path: Path) -> None:
    workspace = create_workspace(
        tmp_path / "w",
        [Fetched(HOME, 0, html("word & 𠀀 " * 1_300_000)), Fetched(f"{HOME}b", 0, html(ENGLISH))],
    )
    export(workspace, tmp_path / "out", file_bytes=2**20)
    results = [each for of_day in documents(tmp_path / "out").values() for each in of_day]
    assert len(results) == 2
    assert max(len(text_of(each)) for each in results) > 10_000_000
    assert len(list((tmp_path / "out").rglob("*.xml"))) == 2


def test_copies_noindex_and_excluded_pages_are_left_out(tmp_path: Path) -> None:
    original, copy, hidden, excluded = (
        f"{HOME}kept",
        f"{HOME}kept?from=mail",
        f"{HOME}hidden",
        "http://bad.example/",
    )
    workspace = create_workspace(
        tmp_path / "w",
        [
            Fetched(original, 0, html(ENGLISH)),
            Fetched(copy, 0, html(ENGLISH), redirect_from=f"{HOME}go"),
            Fetched(copy, 0, html(ENGLISH), "other", f"{HOME}go"),
            Fetched(hidden, 0, html(f"{ENGLISH} hidden", robots="noindex")),
            Fetched(excluded, 0, html(f"{ENGLISH} bad")),
        ],
    )
    export(workspace, tmp_path / "before")
    assert urls(tmp_path / "before") == {
        ("en", day_name(0)): sorted([original, copy, copy, excluded])
    }
    exclude(workspace, ["host:bad.example"])
    assert make_generation(workspace).duplicates == 1
    assert current_duplicates(workspace).select("collection", "url", "canonical_of").rows() == [
        ("default", copy, original)
    ]
    export(workspace, tmp_path / "after")
    # in the other collection it is the only page with this text
    assert urls(tmp_path / "after") == {("en", day_name(0)): [original, copy]}


def test_a_purge_removes_urls_from_the_graph(tmp_path: Path) -> None:
    original, copy = "http://secret.example/kept", "http://secret.example/kept?from=mail"
    workspace = create_workspace(
        tmp_path / "w",
        [
            Fetched(original, 0, html(ENGLISH)),
            Fetched(copy, 0, html(ENGLISH), redirect_from=f"{HOME}go"),
        ],
    )
    make_generation(workspace)
    make_generation(workspace)
    assert current_duplicates(workspace)["url"].to_list() == [copy]
    exclude_and_purge(workspace.root, parse_config(""), ["host:secret.example"], remove=True)
    assert current_duplicates(workspace).height == 0
    assert len(list((tmp_path / "w/graph").iterdir())) == 1


def test_selection_by_language_day_and_collection(tmp_path: Path) -> None:
    one, two, three = f"{HOME}1", f"{HOME}2", f"{HOME}3"
    workspace = create_workspace(
        tmp_path / "w",
        [
            Fetched(one, 0, html(ENGLISH), "de"),
            Fetched(two, 1, html(GERMAN), "misc"),
            Fetched(three, 2, html(ENGLISH), "misc"),
        ],
    )
    languages = {"de": "de"}
    for number, (selection, expected) in enumerate(
        [
            (LibrarySelection(), {("de", 0): [one], ("de", 1): [two], ("en", 2): [three]}),
            (LibrarySelection(language="de"), {("de", 0): [one], ("de", 1): [two]}),
            (LibrarySelection(collection="misc"), {("de", 1): [two], ("en", 2): [three]}),
            (LibrarySelection(since=date(2026, 11, 2)), {("de", 1): [two], ("en", 2): [three]}),
            (LibrarySelection(until=date(2026, 11, 2)), {("de", 0): [one], ("de", 1): [two]}),
            (LibrarySelection(collection="none"), {}),
        ]
    ):
        export(workspace, tmp_path / str(number), selection=selection, languages=languages)
        assert urls(tmp_path / str(number)) == {
            (language, day_name(day)): results for (language, day), results in expected.items()
        }


def numbered_pages(count: int) -> list[Fetched]:
    return [
        Fetched(
            f"http://h{n % 7}.example/{n}", n % 3, html(f"{ENGLISH} {n} " + "word " * (n % 200))
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_repeated_export_gives_the_same_bytes_and_writes_no_file(
    tmp_path: Path, kind: str
) -> None:
    workspace = create_workspace(tmp_path / "w", numbered_pages(60), numbered_pages(120)[60:])
    first = export(workspace, tmp_path / "a", kind, file_bytes=20_000)
    assert first.files == len(first.written) > 5
    before = {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in (tmp_path / "a" / kind).glob("*/*/*")
    }
    second = export(workspace, tmp_path / "a", kind, file_bytes=20_000)
    assert (second.unchanged, second.written, second.documents, second.bytes) == (
        3,
        [],
        first.documents,
        first.bytes,
    )
    assert {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in (tmp_path / "a" / kind).glob("*/*/*")
    } == before
    compact(workspace, whole=True)
    export(workspace, tmp_path / "b", kind, file_bytes=20_000)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    export(workspace, tmp_path / "a", kind, file_bytes=20_000, again=True)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_only_changed_days_are_written_again(tmp_path: Path) -> None:
    workspace = create_workspace(tmp_path / "w", numbered_pages(30))
    export(workspace, tmp_path / "out", file_bytes=4_000)
    claim = workspace.claim("more")
    commit(workspace, claim, [Fetched(f"{HOME}new", 1, html(ENGLISH))], {})
    claim.release()
    report = export(workspace, tmp_path / "out", file_bytes=4_000)
    assert report.unchanged == 2
    assert {Path(path).parent.name for path in report.written} == {day_name(1)}
    export(workspace, tmp_path / "fresh", file_bytes=4_000)
    assert content(tmp_path / "out") == content(tmp_path / "fresh")


_CHILD = """
import sys
from tests.export.library_pages import READER
from lycosa.export.library import day_writer
from lycosa.export.library.editions import LibrarySelection
from lycosa.export.library.formats import FORMATS
from lycosa.export.library.library import export_library
from lycosa.store.workspace import Workspace
import os
left = [int(sys.argv[3])]
replace = os.replace
def dying(source, target):
    replace(source, target)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
day_writer.os.replace = dying
export_library(Workspace.open(sys.argv[1]), sys.argv[2], FORMATS["xml"], LibrarySelection(), READER, file_bytes=20_000)
"""


@pytest.mark.proves("durability-export-kill")
def test_killed_export_is_resumed(tmp_path: Path) -> None:
    workspace = create_workspace(tmp_path / "w", numbered_pages(120))
    export(workspace, tmp_path / "whole", file_bytes=20_000)
    expected = content(tmp_path / "whole")
    out, kills = tmp_path / "out", 0
    for steps in (1, 3, 5, 8, 13, 1, 2, 6, 4, 11, 100):
        child = subprocess.run(
            [sys.executable, "-c", _CHILD, workspace.root, str(out), str(steps)],
            check=False,
            timeout=120,
        )
        kills += child.returncode == -signal.SIGKILL
        complete = {
            name: data
            for name, data in content(out).items()
            if name.endswith(".xml") and "/." not in name
        }
        assert all(expected[name] == data for name, data in complete.items())
        if child.returncode == 0:
            break
    assert export(workspace, out, file_bytes=20_000).unchanged == 3
    assert kills >= 3
    assert content(out) == expected


def test_complete_files_of_a_killed_export_are_not_written_again(tmp_path: Path) -> None:
    workspace = create_workspace(tmp_path / "w", numbered_pages(120))
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, workspace.root, str(tmp_path / "out"), "9"],
        check=False,
        timeout=120,
    )
    assert child.returncode == -signal.SIGKILL
    inodes = {path: path.stat().st_ino for path in (tmp_path / "out/xml").glob("*/*/*.xml")}
    assert inodes
    report = export(workspace, tmp_path / "out", file_bytes=20_000)
    assert json.loads((tmp_path / "out/xml/en" / day_name(0) / "index.json").read_text())["files"]
    assert report.resumed_files >= len(inodes) - 1
    assert sum(path.stat().st_ino == inode for path, inode in inodes.items()) >= len(inodes) - 1


def test_all_formats_have_the_same_contents(tmp_path: Path) -> None:
    declared = json.dumps(
        {
            "@type": "Recipe",
            "author": "Jane & John Doe",
            "datePublished": "2026-10-01",
            "offers": {"price": 2.5, "priceCurrency": "EUR"},
            "aggregateRating": {"ratingValue": 4, "ratingCount": 7},
            "keywords": ["<a>", "b"],
        }
    )
    script = f'<script type="application/ld+json">{declared}</script>'
    links = f'<a href="/x">to x</a>{script}'
    pages = [
        Fetched(f"{HOME}{n}", n % 2, html(f"{ENGLISH} 𠀀 {n}", links=links)) for n in range(20)
    ]
    pages.append(Fetched(f"{HOME}1", 2, html(f"{GERMAN} later", links=links)))
    workspace = create_workspace(tmp_path / "w", pages[:20], pages[20:])
    for kind in FORMATS:
        export(workspace, tmp_path, kind)
    lines = [
        json.loads(line)
        for path in sorted((tmp_path / "jsonl").glob("*/*/*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    tables = pl.read_parquet(sorted((tmp_path / "parquet").glob("*/*/*.parquet"))).to_dicts()
    from_xml = {
        (
            language,
            day,
            document.findtext(f"{Q}url"),
            text_of(document),
            document.findtext(f"{Q}fetched-at"),
        )
        for (language, day), results in documents(tmp_path).items()
        for document in results
    }
    assert len(from_xml) == 21
    assert {
        (line["library"], line["day"], line["url"], line["main_text"], line["fetched_at"])
        for line in lines
    } == from_xml
    assert all([link["target"] for link in line["links"]] == [f"{HOME}x"] for line in lines)
    assert [row["main_text"] for row in tables] == [line["main_text"] for line in lines]
    assert [row["links"] for row in tables] == [line["links"] for line in lines]
    assert [row["metadata"] for row in tables] == [line["metadata"] for line in lines]
    for line in lines:
        metadata = line["metadata"]
        assert (metadata["type"], metadata["authors"]) == (
            "Recipe",
            ["Jane & John Doe"],
        )
        assert metadata["published_at"] == "2026-10-01T00:00:00Z"
        assert (metadata["price"], metadata["rating_count"]) == (2.5, 7)
    for of_day in documents(tmp_path).values():
        for document in of_day:
            element = document.find(f"{Q}metadata")
            assert element.findtext(f"{Q}author") == "Jane & John Doe"
            assert [each.text for each in element.findall(f"{Q}keyword")] == ["<a>", "b"]
            assert element.find(f"{Q}price").get("currency") == "EUR"
            assert element.find(f"{Q}rating").get("best") == "5.0"
    assert {row["day"].isoformat() for row in tables} == {day_name(day) for day in range(3)}
    texts = []
    for path in sorted((tmp_path / "text").glob("*/*/*.warc.wet")):
        with open(path, "rb") as file:
            for record in ArchiveIterator(file):
                body = record.content_stream().read().decode()
                if record.rec_type == "conversion":
                    assert record.rec_headers.get_header("WARC-Refers-To")
                    texts.append((record.rec_headers.get_header("WARC-Target-URI"), body))
    assert sorted(url for url, _ in texts) == sorted(line["url"] for line in lines)
    assert all("to x" in body for _, body in texts)


def test_a_second_export_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    workspace = create_workspace(tmp_path / "w", numbered_pages(10))
    target = tmp_path / "out"
    (target / "xml").mkdir(parents=True)
    code = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(1, "
        "flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(target / "xml/.lock")], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    try:
        holder.stdout.readline()
        with pytest.raises(WorkError, match="another export is writing"):
            export(workspace, target)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()

    def exported() -> bool:
        with suppress(WorkError):
            return export(workspace, target).documents == 10
        return False

    until(exported, 30)  # the lock ends with its process
