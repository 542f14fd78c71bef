"""Damage of every kind, done to a whole workspace as a stranger might: found, named with what to
do, and mended where it can be.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lycosa.commands.maintenance.check import check_workspace
from lycosa.commands.maintenance.repair import repair_workspace
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.settings import Config
from lycosa.core.errors import WorkspaceError
from lycosa.graph.builder import make_generation
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.log.snapshot import INTERVAL
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.store.builders import commit_pages

LONG_AGO = 1_700_000_000
PAGES = 6


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with more than a hundred log entries, an index, a graph, a token and a
    configuration.
    """
    root = tmp_path_factory.mktemp("whole") / "w"
    workspace = Workspace.create(str(root), partitions=4)
    claim = workspace.claim("w1", settings={"default": {"depth": 2}})
    commit_pages(workspace, claim, range(3), cdxj=True)
    commit_pages(workspace, claim, range(3, PAGES), cdxj=True)
    claim.release()
    while workspace.state().head < INTERVAL + 4:
        claim = workspace.claim("w1")
    claim.release()
    make_generation(workspace)
    Indexer(str(root)).update()
    Tokens(open_storage(str(root))).add("reader")
    (root / "lycosa.toml").write_text("[crawl]\n", encoding="utf-8")
    (root / "inbox").mkdir()
    assert check_workspace(str(root), deep=True).findings == []
    return root


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "w"))


def one(root: Path, pattern: str) -> Path:
    return sorted(root.glob(pattern))[0]


Harm = Callable[[Path], None]


def on_file(harm: Harm) -> Callable[[str], Harm]:
    """Turn harm to a file into harm to a workspace, by the pattern of the file."""
    return lambda pattern: lambda root: harm(one(root, pattern))


@on_file
def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@on_file
def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@on_file
def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@on_file
def unreadable(path: Path) -> None:
    """As a file without rights is, but for root too: a link that leads to itself."""
    path.unlink()
    path.symlink_to(path.name)


def write(path: str, content: bytes = b"x", *, at: int | None = None) -> Harm:
    def harm(root: Path) -> None:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if at is not None:
            os.utime(target, (at, at))
            if target.parent.name.startswith("."):
                os.utime(target.parent, (at, at))

    return harm


def copy(source: str, target: str) -> Harm:
    def harm(root: Path) -> None:
        shutil.copyfile(one(root, source), root / target)

    return harm


def chmod(path: str, mode: int) -> Harm:
    return lambda root: os.chmod(one(root, path), mode)


def index_of_another(root: Path) -> None:
    """The index of a workspace whose log has the same length."""
    for path in root.glob("index/*/generation.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"attempt": "0" * 32}))
        (path.parent / "files").unlink()


def index_that_lacks_a_page(root: Path) -> None:
    """As one that was made before the last commit, and says that it was made after it."""
    workspace = Workspace.open(str(root))
    claim = workspace.claim("w2")
    commit_pages(workspace, claim, range(40, 42))
    claim.release()
    entry = workspace.log.read(workspace.state().head)
    assert entry is not None
    for path in root.glob("index/*/generation.json"):
        document = json.loads(path.read_text()) | {
            "log_entry": entry.number,
            "attempt": entry.attempt,
        }
        path.write_text(json.dumps(document))
        (path.parent / "files").unlink()


@dataclass(frozen=True)
class Case:
    """`where`: what the finding names begins so; `what`: and says so; `mended` by `--repair`;
    `deep`: only a deep check sees it.
    """

    name: str
    harm: Harm
    where: str
    what: str
    mended: bool = False
    deep: bool = False
    severity: str = "error"


CASES = (
    Case("a flipped byte of a log entry", flip("log/00000103.json"), "log/00000103.json", "bytes have changed"),
    Case("one that a snapshot stands for", flip("log/00000050.json"), "log/00000050.json", "has the same content", mended=True),
    Case("one that cannot be read", unreadable("log/00000050.json"), "log/00000050.json", "symbolic links", mended=True),
    Case("a missing entry behind a snapshot", delete("log/00000050.json"), "log", "are missing", mended=True, severity="warning"),
    Case("a missing entry", delete("log/00000102.json"), "log/00000102.json", "it is missing"),
    Case("the last entry lost", delete("log/00000105.json"), "index/00000001/generation.json", "the log ends with 104"),
    Case("an entry copied to the next number", copy("log/00000105.json", "log/00000106.json"), "log/00000106.json", "contains entry 105"),
    Case("a snapshot's byte", flip("log/*.snapshot"), "log/00000100.snapshot", "", mended=True),
    Case("half a snapshot", cut("log/*.snapshot"), "log/00000100.snapshot", "damaged", mended=True),
    *(
        Case(f"{table}: a flipped byte", flip(f"data/*/{table}.parquet"), "data/00000001-1/", "bytes have changed")
        for table in ("visits", "pages", "urls")
    ),
    Case("hosts: half", cut("data/*/hosts.parquet"), "data/00000001-1/hosts", "according to the log"),
    Case("links: deleted", delete("data/*/links.parquet"), "data/00000001-1/links", "missing"),
    Case("links: unreadable", unreadable("data/*/links.parquet"), "data/00000001-1/links", "cannot be read"),
    Case("the archive's byte", flip("data/*/archive.warc.gz"), "data/00000001-1/archive.warc.gz", "bytes have changed", deep=True),
    Case("half the archive", cut("data/*/archive.warc.gz"), "data/00000001-1/archive.warc.gz", "according to the log"),
    Case("a half copied workspace", delete("data/00000001-2"), "data/00000001-2/", "missing"),
    Case("the index's file list", flip("index/*/files"), "index/00000001/", "", mended=True),
    *(
        Case(f"the index: {kind}", flip(f"index/*/*.{kind}"), "index/00000001/", "it was changed", mended=True)
        for kind in ("idx", "store")
    ),
    Case("the index: texts", flip("index/*/*.texts"), "index/00000001/", "", mended=True, deep=True),
    Case("the index: suggestions", flip("index/*/suggestions*"), "index/00000001/suggestions", "bytes have changed", mended=True),
    Case("the index: a segment's file deleted", delete("index/*/*.pos"), "index/00000001/", "missing", mended=True),
    Case("the index: no description", cut("index/*/generation.json"), "index", "damaged", mended=True),
    Case("no index", delete("index"), "index", "no index", mended=True, severity="warning"),
    Case("a broken layout", write("index/layout.json", b"{"), "index/layout.json", "damaged", mended=True),
    Case("an index of another workspace", index_of_another, "index/00000001/generation.json", "another log", mended=True),
    Case("an index that lacks pages", index_that_lacks_a_page, "index/00000001", "missing pages: 2", mended=True),
    Case("the graph's rows", flip("graph/*/pages.parquet"), "graph/00000001/pages", "bytes have changed", mended=True),
    Case("the graph's description", cut("graph/*/info.json"), "graph", "damaged", mended=True),
    Case("a wrong setting", write("lycosa.toml", b"[crawl]\nworkerz = 3\n"), "lycosa.toml", "unknown setting 'workerz'"),
    Case("a token's file", cut("run/tokens/*.json"), "run/tokens/reader.json", "damaged"),
    Case("half a submission", write("inbox/a.json", b"{"), "inbox/a.json", "damaged"),
    Case("a watch", write("watches/watch-1.json", b"{}"), "watches/watch-1.json", "damaged"),
    Case("a table of translations", write("translations/mine/table.sqlite"), "translations/mine", "cannot be read"),
    Case("a foreign file", write("notes.txt"), "notes.txt", "not part of a workspace", severity="warning"),
    Case("one among the data", write("data/00000001-1/pages.csv"), "data/00000001-1/pages.csv", "not part", severity="warning"),
    Case("a folder that no claim made", write("data/00009999-1/urls.parquet"), "data/00009999-1", "belong to a claim", severity="warning"),
    Case("a file begun and left", write("run/tokens/.ab.aside", at=LONG_AGO), "run/tokens/.ab", "killed", mended=True, severity="note"),
    Case("one beside the log", write(".cd.aside", at=LONG_AGO), ".cd.aside", "killed", mended=True, severity="note"),
    Case("a folder begun and left", write("graph/.build-1/x", at=LONG_AGO), "graph/.build-1", "killed", mended=True, severity="note"),
    Case("writable by everybody", chmod("lycosa.toml", 0o666), "lycosa.toml", "every account", severity="warning"),
    Case("a token for everybody", chmod("run/tokens/reader.json", 0o644), "run/tokens/reader.json", "can read it", severity="warning"),
)  # fmt: skip


@pytest.mark.proves("consistency-check")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_damage_is_found_and_named_and_mended_where_it_can_be(damaged: Path, case: Case) -> None:
    case.harm(damaged)
    report = check_workspace(str(damaged), deep=case.deep)
    found = [
        each
        for each in report.findings
        if each.where.startswith(case.where) and case.what in each.what
    ]
    assert found, report.findings
    assert found[0].severity == case.severity
    assert len(found[0].remedy) > 10
    assert (report.ok, bool(found[0].repair)) == (case.severity != "error", case.mended)
    if case.mended and not case.name.startswith("the index:"):  # all of these are mended alike
        repaired = repair_workspace(str(damaged), deep=case.deep)
        assert repaired.not_repaired == []
        assert repaired.repaired
        assert repaired.findings == []
        assert (
            Searcher(str(damaged)).search(SearchRequest("page", count=20, per_host=0)).total
            >= PAGES
        )


def test_cdxj_files_are_written_again_as_they_were(damaged: Path) -> None:
    """Deleted, changed, or in their place an empty folder."""
    first, second = sorted(damaged.glob("data/*/archive.cdxj"))
    before = first.read_bytes(), second.read_bytes()
    assert all(before)
    flip("data/*/archive.cdxj")(damaged)
    second.unlink()
    second.mkdir()
    assert {finding.where for finding in check_workspace(str(damaged)).findings} == {
        str(path.relative_to(damaged)) for path in (first, second)
    }
    assert repair_workspace(str(damaged)).findings == []
    assert (first.read_bytes(), second.read_bytes()) == before


def test_a_cdxj_whose_archive_is_damaged_is_not_made_up(damaged: Path) -> None:
    for harm in (flip("data/*/archive.warc.gz"), delete("data/*/archive.cdxj")):
        harm(damaged)
    repaired = repair_workspace(str(damaged))
    assert [where for where, _ in repaired.not_repaired] == ["data/00000001-1/archive.cdxj"]
    assert not repaired.ok
    assert not one(damaged, "data/00000001-1").joinpath("archive.cdxj").exists()


def test_what_is_being_written_is_left_alone(damaged: Path) -> None:
    write("run/tokens/.ab.aside")(damaged)
    assert check_workspace(str(damaged)).findings == []


def test_nothing_is_repaired_under_somebody_who_crawls(damaged: Path) -> None:
    from lycosa.core.errors import OwnedError

    write("run/.ab.aside", at=LONG_AGO)(damaged)
    with Workspace.open(str(damaged)).own("crawl"), pytest.raises(OwnedError):
        repair_workspace(str(damaged))
    assert (damaged / "run/.ab.aside").exists()


@pytest.mark.parametrize(
    "harm", [flip("workspace.json"), cut("workspace.json"), delete("workspace.json")]
)
def test_without_its_first_file_nothing_can_be_said(damaged: Path, harm: Harm) -> None:
    harm(damaged)
    with pytest.raises(WorkspaceError, match=r"workspace\.json"):
        check_workspace(str(damaged))


@pytest.mark.proves("consistency-archive")
def test_tables_that_are_lost_come_back_by_import(damaged: Path, tmp_path: Path) -> None:
    """What the remedy of a damaged table says: the archive alone makes a new workspace, with the
    same pages.
    """
    from lycosa.commands.crawling.import_archives import import_files

    for path in damaged.glob("data/*/*.parquet"):
        path.unlink()
    report = import_files(str(tmp_path / "new"), Config(), "default", [str(damaged / "data")])
    assert report.imported == PAGES
    assert check_workspace(str(tmp_path / "new"), deep=True).findings == []
