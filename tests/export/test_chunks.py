"""Test incremental exports of chunks: their result, files and state."""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa import Workspace
from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.export.chunks.files import (
    STATE_FILE,
    ChunkExport,
    ChunkOptions,
    ChunkReport,
    open_state,
)
from lycosa.export.markdown.pages import MarkdownPage
from tests.archive.foreign_files import HOST, Answer, html, warc
from tests.cli.conftest import run_here

URLS = st.sampled_from([f"https://example.org/{name}" for name in "abcd"])
TEXTS = st.lists(
    st.sampled_from(["# One", "## Two", "A paragraph.", "Another one. With two sentences.", "x"]),
    max_size=6,
).map("\n\n".join)
TITLES = st.sampled_from(["", "A title", "Ein Titel – größer"])
VERSIONS = st.dictionaries(URLS, st.tuples(TEXTS, TITLES, st.integers(0, 3)), max_size=4)
FETCHED_AT = datetime(2026, 11, 21, 10, 15, 30, 123_000, UTC)


def page(url: str, markdown: str, title: str = "", number: int = 0) -> MarkdownPage:
    return MarkdownPage(
        url=url,
        title=title,
        description="",
        language="en",
        page_type="",
        published_at=FETCHED_AT if number % 2 else None,
        fetched_at=FETCHED_AT,
        digest=f"xxh3:{hash(markdown) % 2**64:016x}",
        markdown=markdown,
        record_id=f"urn:uuid:{number}",
    )


def export(folder: Path, pages: Iterable[MarkdownPage], options: ChunkOptions) -> ChunkReport:
    folder.mkdir(exist_ok=True)
    with open_state(folder) as state:
        run = ChunkExport(folder, options, state)
        return run.write(page for page in pages if page.markdown and run.wants({**page._asdict()}))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all files of a folder, in order."""
    rows = []
    for file in sorted(folder.glob("chunks-*")):
        if file.suffix == ".parquet":
            rows += pl.read_parquet(file).to_dicts()
        else:
            rows += [json.loads(line) for line in file.read_text().splitlines()]
    return rows


def apply_exports(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the chunks after all exports into a folder, by id."""
    chunks: dict[str, dict[str, Any]] = {}
    for row in rows_of(folder):
        operation = row.pop("operation")
        if operation == "removed":
            del chunks[row["id"]]
        else:
            assert (row["id"] in chunks) == (operation == "changed")
            chunks[row["id"]] = row
    return chunks


@settings(max_examples=60, deadline=None)
@given(st.lists(VERSIONS, min_size=1, max_size=5), st.sampled_from(["jsonl", "parquet"]))
def test_incremental_exports_add_up_to_a_full_export(
    history: Sequence[dict[str, tuple[str, str, int]]], form: str
) -> None:
    options = ChunkOptions(form, max_tokens=16)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number, version in enumerate(history):
            pages = [page(url, *values) for url, values in version.items()]
            report = export(folder / "incremental", pages, options)
            export(folder / f"full{number}", pages, options)
            chunks = apply_exports(folder / "incremental")
            assert chunks == apply_exports(folder / f"full{number}")
            assert report.chunks == len(chunks)
        again = export(folder / "incremental", pages, options)
        assert (again.file, again.pages) == (None, 0)


def test_a_changed_paragraph_adds_and_removes_one_row(tmp_path: Path) -> None:
    paragraphs = [f"# {number}\n\nParagraph {number} of the page." for number in range(20)]
    options = ChunkOptions()
    first = export(tmp_path, [page("http://a/", "\n\n".join(paragraphs))], options)
    assert (first.added, first.file) == (20, tmp_path / "chunks-000001.jsonl")
    paragraphs[7] = "# 7\n\nAnother paragraph."
    second = export(tmp_path, [page("http://a/", "\n\n".join(paragraphs), number=2)], options)
    assert (second.added, second.removed) == (1, 1)
    # All chunks have a new record ID; the neighbours of the new chunk have new links.
    assert second.changed == 19
    assert second.file == tmp_path / "chunks-000002.jsonl"


def test_an_interrupted_export_is_repeated(tmp_path: Path) -> None:
    def failing() -> Iterable[MarkdownPage]:
        yield page("http://a/", "One.")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        export(tmp_path, failing(), ChunkOptions())
    assert [file.name for file in tmp_path.iterdir()] == [STATE_FILE]
    assert export(tmp_path, [page("http://a/", "One.")], ChunkOptions()).added == 1


def test_other_options_need_another_folder(tmp_path: Path) -> None:
    export(tmp_path, [page("http://a/", "One.")], ChunkOptions())
    with pytest.raises(UsageError, match="other options"):
        export(tmp_path, [], ChunkOptions("parquet"))
    with pytest.raises(UsageError, match="unknown format"):
        ChunkOptions("csv")
    with pytest.raises(UsageError, match="not both"):
        ChunkOptions(max_tokens=100, max_characters=100)


def test_a_damaged_or_busy_state_is_reported(tmp_path: Path) -> None:
    export(tmp_path, [page("http://a/", "One.")], ChunkOptions())
    busy = sqlite3.connect(tmp_path / STATE_FILE, isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")
    with pytest.raises(WorkspaceError, match="cannot be used"):
        export(tmp_path, [], ChunkOptions())
    busy.execute("ROLLBACK")
    busy.execute("PRAGMA user_version = 9")
    busy.close()
    with pytest.raises(WorkspaceError, match="format 9"):
        export(tmp_path, [], ChunkOptions())
    (tmp_path / STATE_FILE).write_bytes(b"x" * 5_000)
    with pytest.raises(WorkspaceError, match="cannot be used"):
        export(tmp_path, [], ChunkOptions())


def import_page(tmp_path: Path, text: str) -> Workspace:
    """Return a workspace with a page, from a folder of files."""
    files = tmp_path / "files"
    files.mkdir(exist_ok=True)
    (files / "page.html").write_text(f"<title>Page</title><main><h1>Page</h1><p>{text}</main>")
    workspace = Workspace(tmp_path / "w")
    workspace.archive.import_files(str(files), base="http://a.example/")
    return workspace


def test_a_workspace_is_exported_incrementally(tmp_path: Path) -> None:
    exports = import_page(tmp_path, "First version of the text.").export
    first = exports.chunks(str(tmp_path / "out"))
    assert (first.pages, first.chunks, first.added, first.unreadable) == (1, 1, 1, [])
    assert exports.chunks(str(tmp_path / "out")).pages == 0
    second = import_page(tmp_path, "Second version of the text.").export.chunks(
        str(tmp_path / "out")
    )
    assert (second.pages, second.added, second.removed) == (1, 1, 1)
    exports.chunks(str(tmp_path / "full"))
    assert apply_exports(tmp_path / "out") == apply_exports(tmp_path / "full")
    (row,) = rows_of(tmp_path / "full")
    assert row["text"] == "# Page\n\nSecond version of the text."
    assert (row["url"], row["title"]) == ("http://a.example/page.html", "Page")
    assert row["record_id"]


def test_pages_that_are_gone_or_moved_are_removed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    names, moved = [f"{HOST}/a", f"{HOST}/b"], (("Location", "/c"),)
    found = tuple(Answer(url, html(url)) for url in names)
    changed = (
        Answer(names[0], b"", "404 Not Found"),
        Answer(names[1], b"", "301 Moved Permanently", moved),
    )
    results = []
    for day, answers in enumerate((found, changed, found), 1):
        file = tmp_path / f"{day}.warc"
        file.write_bytes(warc(answers, date=f"2026-11-0{day}T10:00:00Z"))
        workspace.archive.import_files(str(file))
        report = workspace.export.chunks(str(tmp_path / "out"))
        output = io.BytesIO()
        results.append((report.added, report.removed, workspace.export.jsonl(output)))
        assert workspace.search("light").total == len(output.getvalue().splitlines())
    assert results == [(2, 0, 2), (0, 2, 0), (2, 0, 2)]


def test_the_command_reports_its_file(tmp_path: Path) -> None:
    root = import_page(tmp_path, "Some text that is long enough.").root
    words = ("-w", root, "export", "chunks", str(tmp_path / "out"), "--format", "parquet")
    outcome = run_here(*words)
    assert outcome.code == 0, outcome.err
    assert "chunks-000001.parquet: 1 added, 0 changed, 0 removed; 1 chunk in all" in outcome.out
    frame = pl.read_parquet(tmp_path / "out" / "chunks-000001.parquet")
    assert frame.schema["fetched_at"] == pl.Datetime("ms", "UTC")
    assert "nothing changed" in run_here(*words).out
    assert run_here(*words, "--max-characters", "100").code == 2
    (tmp_path / "out" / "notes.txt").write_text("mine")
    again = run_here(*words, "--max-characters", "100", "--again")
    assert "chunks-000001.parquet: 1 added" in again.out, again.err
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "chunks-000001.parquet",
        "notes.txt",
        STATE_FILE,
    ]
