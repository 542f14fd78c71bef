"""Data of a later version is refused with a message that names the remedy."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import zstandard
from xxhash import xxh3_128_hexdigest

from lycosa.commands.maintenance.check import check_workspace
from lycosa.commands.maintenance.translate import add_dictionary, remove_table
from lycosa.core.errors import NewerError, WorkspaceError
from lycosa.graph import generation as graph
from lycosa.graph.builder import make_generation
from lycosa.index.indexer import Indexer
from lycosa.search.crosslingual.translated import Across
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.log.entry import sealed
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages


def search(root: Path, words: str) -> list[str]:
    return [
        hit.url.rpartition("/")[2] for hit in Searcher(str(root)).search(SearchRequest(words)).hits
    ]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace.create(str(tmp_path / "w"), partitions=4)
    claim = workspace.claim("w1")
    commit_pages(workspace, claim, range(3))
    claim.release()
    make_generation(workspace)
    Indexer(workspace.root).update()
    return workspace


def rewrite_last(pattern: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return a function that changes the last file matching a pattern."""

    def upgrade(root: Path) -> None:
        path = max(root.glob(pattern))
        path.write_bytes(change(path.read_bytes()))

    return upgrade


def with_fields(**fields: object) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | fields).encode()


def with_sealed_fields(**fields: object) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        document = {name: value for name, value in json.loads(content).items() if name != "digest"}
        return sealed(json.dumps(document | fields).encode())

    return change


def write_snapshot_with_unknown_fields(root: Path) -> None:
    body = zstandard.ZstdCompressor().compress(b'{"holders":{},"kinds":{}}')
    header = {"number": 100, "digest": xxh3_128_hexdigest(body), "attempts": ["x"] * 100}
    (root / "log/00000100.snapshot").write_bytes(json.dumps(header).encode() + b"\n" + body)


@pytest.mark.proves("consistency-versions")
@pytest.mark.parametrize(
    "upgrade",
    [
        rewrite_last("workspace.json", with_fields(format=2)),
        rewrite_last("log/*.json", with_sealed_fields(kind="forget")),
        rewrite_last("log/*.json", with_sealed_fields(epoch=3)),
        write_snapshot_with_unknown_fields,
    ],
    ids=["workspace.json", "kind of entry", "field of an entry", "snapshot"],
)
def test_later_format_is_refused_for_reads_and_writes(
    workspace: Workspace, upgrade: Callable[[Path], None]
) -> None:
    """Neither reads nor writes are possible; the message names the command that upgrades Lycosa."""
    upgrade(Path(workspace.root))
    with pytest.raises(NewerError, match="pip install -U lycosa"):
        Workspace.open(workspace.root).state()
    with pytest.raises(NewerError):
        Workspace.open(workspace.root).claim("w2")


def test_check_recommends_an_upgrade_for_a_later_log_entry(workspace: Workspace) -> None:
    rewrite_last("log/*.json", with_sealed_fields(kind="forget"))(Path(workspace.root))
    [finding] = [each for each in verify(workspace).findings if each.severity == "error"]
    assert finding.where == "log/00000003.json"
    assert finding.remedy.startswith("upgrade Lycosa")
    assert finding.repair == ""


@pytest.mark.parametrize(
    ("upgrade", "expected_text"),
    [
        (
            rewrite_last("index/*/generation.json", with_fields(format=9)),
            "has format 9.*lycosa index --rebuild",
        ),
        (
            rewrite_last(
                "index/*/*.texts", lambda content: content[:4] + struct.pack("<I", 9) + content[8:]
            ),
            "lycosa index --rebuild",
        ),
    ],
    ids=["generation", "texts"],
)
def test_later_index_is_refused_and_can_be_rebuilt(
    workspace: Workspace, upgrade: Callable[[Path], None], expected_text: str
) -> None:
    root = Path(workspace.root)
    upgrade(root)
    with pytest.raises(WorkspaceError, match=expected_text):
        search(root, "page")
    assert not check_workspace(str(root)).ok
    Indexer(str(root)).rebuild()
    assert len(search(root, "page")) == 3


def test_suggestions_of_another_format_are_ignored(workspace: Workspace) -> None:
    [file] = Path(workspace.root).glob("index/*/suggestions-*")
    file.rename(file.with_name("suggestions-999-0123456789abcdef"))
    assert len(search(Path(workspace.root), "page")) == 3


def test_later_graph_is_refused(workspace: Workspace) -> None:
    rewrite_last("graph/*/info.json", with_fields(format=9))(Path(workspace.root))
    with pytest.raises(WorkspaceError, match=r"format 9.*lycosa rank"):
        graph.newest(workspace)
    assert not check_workspace(workspace.root).ok


def test_later_dictionary_is_ignored_and_reported(workspace: Workspace, tmp_path: Path) -> None:
    root = workspace.root
    words = tmp_path / "en-de.tsv"
    words.write_text("page\tSeite\n", encoding="utf-8")
    add_dictionary(root, words, name="words")
    request = SearchRequest("seite", across=Across(source="de"))
    assert len(Searcher(root).search(request).hits) == 3
    with (
        closing(sqlite3.connect(Path(root, "translations/words/table.sqlite"))) as database,
        database,
    ):
        database.execute("UPDATE about SET value = '9' WHERE key = 'format'")
    answer = Searcher(root).search(request)
    assert answer.hits == []
    assert [note for note in answer.notes if "words/table.sqlite is a table of format 9" in note]
    [finding] = check_workspace(root).findings
    assert (finding.severity, finding.where) == ("error", "translations/words/table.sqlite")
    assert "format 9" in finding.what
    assert "lycosa translate remove words" in finding.remedy
    remove_table(root, "words")
    add_dictionary(root, words, name="words")
    assert len(Searcher(root).search(request).hits) == 3
    assert check_workspace(root).ok
