"""`check` and `repair` on damaged workspaces: findings with remedies, and repairs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lycosa.commands.crawling.import_archives import import_files
from lycosa.commands.maintenance.check import check_workspace
from lycosa.commands.maintenance.repair import repair_workspace
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.settings import Config
from lycosa.core.errors import OwnedError, WorkspaceError
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
def undamaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workspace with 105 log entries, an index, a graph and a token."""
    root = tmp_path_factory.mktemp("undamaged") / "w"
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
def damaged(undamaged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(undamaged, tmp_path / "w"))


def first_file(root: Path, pattern: str) -> Path:
    return min(root.glob(pattern))


Damage = Callable[[Path], None]


def on_file(damage: Damage) -> Callable[[str], Damage]:
    """Apply damage to the first file of a workspace that matches a pattern."""
    return lambda pattern: lambda root: damage(first_file(root, pattern))


@on_file
def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@on_file
def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@on_file
def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@on_file
def make_unreadable(path: Path) -> None:
    """Replace the file by a link to itself, which root cannot read either."""
    path.unlink()
    path.symlink_to(path.name)


def write(path: str, content: bytes = b"x", *, modified_at: int | None = None) -> Damage:
    def damage(root: Path) -> None:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if modified_at is not None:
            os.utime(target, (modified_at, modified_at))
            if target.parent.name.startswith("."):
                os.utime(target.parent, (modified_at, modified_at))

    return damage


def copy(source: str, target: str) -> Damage:
    def damage(root: Path) -> None:
        shutil.copyfile(first_file(root, source), root / target)

    return damage


def chmod(path: str, mode: int) -> Damage:
    return lambda root: os.chmod(first_file(root, path), mode)


def index_of_another_workspace(root: Path) -> None:
    """Make the index refer to another log of the same length."""
    for path in root.glob("index/*/generation.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"attempt": "0" * 32}))
        (path.parent / "files").unlink()


def index_without_new_pages(root: Path) -> None:
    """Commit pages, and make the index claim to include them."""
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
    """Damage and the expected finding.

    where, what: beginning of its location, and a part of its description.
    repairable: `--repair` repairs it.
    deep: only a deep check detects it.
    """

    name: str
    damage: Damage
    where: str
    what: str
    repairable: bool = False
    deep: bool = False
    severity: str = "error"


CASES = (
    Case("a changed byte of a log entry", flip_bit("log/00000103.json"), "log/00000103.json", "bytes have changed"),
    Case("a changed entry that a snapshot includes", flip_bit("log/00000050.json"), "log/00000050.json", "has the same content", repairable=True),
    Case("an unreadable entry that a snapshot includes", make_unreadable("log/00000050.json"), "log/00000050.json", "symbolic links", repairable=True),
    Case("a missing entry that a snapshot includes", delete("log/00000050.json"), "log", "are missing", repairable=True, severity="warning"),
    Case("a missing entry", delete("log/00000102.json"), "log/00000102.json", "it is missing"),
    Case("the last entry is missing", delete("log/00000105.json"), "index/00000001/generation.json", "the log ends with 104"),
    Case("an entry copied to the next number", copy("log/00000105.json", "log/00000106.json"), "log/00000106.json", "contains entry 105"),
    Case("a changed byte of a snapshot", flip_bit("log/*.snapshot"), "log/00000100.snapshot", "", repairable=True),
    Case("a truncated snapshot", truncate("log/*.snapshot"), "log/00000100.snapshot", "damaged", repairable=True),
    *(
        Case(f"{table}: a changed byte", flip_bit(f"data/*/{table}.parquet"), "data/00000001-1/", "bytes have changed")
        for table in ("visits", "pages", "urls")
    ),
    Case("hosts: truncated", truncate("data/*/hosts.parquet"), "data/00000001-1/hosts", "according to the log"),
    Case("links: deleted", delete("data/*/links.parquet"), "data/00000001-1/links", "missing"),
    Case("links: unreadable", make_unreadable("data/*/links.parquet"), "data/00000001-1/links", "cannot be read"),
    Case("a changed byte of the archive", flip_bit("data/*/archive.warc.gz"), "data/00000001-1/archive.warc.gz", "bytes have changed", deep=True),
    Case("a truncated archive", truncate("data/*/archive.warc.gz"), "data/00000001-1/archive.warc.gz", "according to the log"),
    Case("a missing data folder", delete("data/00000001-2"), "data/00000001-2/", "missing"),
    Case("the index's file list", flip_bit("index/*/files"), "index/00000001/", "", repairable=True),
    *(
        Case(f"the index: {kind}", flip_bit(f"index/*/*.{kind}"), "index/00000001/", "it was changed", repairable=True)
        for kind in ("idx", "store")
    ),
    Case("the index: texts", flip_bit("index/*/*.texts"), "index/00000001/", "", repairable=True, deep=True),
    Case("the index: suggestions", flip_bit("index/*/suggestions*"), "index/00000001/suggestions", "bytes have changed", repairable=True),
    Case("the index: a segment's file deleted", delete("index/*/*.pos"), "index/00000001/", "missing", repairable=True),
    Case("the index: a truncated description", truncate("index/*/generation.json"), "index", "damaged", repairable=True),
    Case("no index", delete("index"), "index", "no index", repairable=True, severity="warning"),
    Case("a broken layout", write("index/layout.json", b"{"), "index/layout.json", "damaged", repairable=True),
    Case("an index of another workspace", index_of_another_workspace, "index/00000001/generation.json", "another log", repairable=True),
    Case("an index that lacks pages", index_without_new_pages, "index/00000001", "missing pages: 2", repairable=True),
    Case("the graph: changed rows", flip_bit("graph/*/pages.parquet"), "graph/00000001/pages", "bytes have changed", repairable=True),
    Case("the graph: a truncated description", truncate("graph/*/info.json"), "graph", "damaged", repairable=True),
    Case("an unknown setting", write("lycosa.toml", b"[crawl]\nworkerz = 3\n"), "lycosa.toml", "unknown setting 'workerz'"),
    Case("a truncated token file", truncate("run/tokens/*.json"), "run/tokens/reader.json", "damaged"),
    Case("an invalid submission", write("inbox/a.json", b"{"), "inbox/a.json", "damaged"),
    Case("an invalid watch", write("watches/watch-1.json", b"{}"), "watches/watch-1.json", "damaged"),
    Case("an invalid translation table", write("translations/mine/table.sqlite"), "translations/mine", "cannot be read"),
    Case("an unexpected file", write("notes.txt"), "notes.txt", "not part of a workspace", severity="warning"),
    Case("an unexpected file in a data folder", write("data/00000001-1/pages.csv"), "data/00000001-1/pages.csv", "not part", severity="warning"),
    Case("a data folder without a claim", write("data/00009999-1/urls.parquet"), "data/00009999-1", "belong to a claim", severity="warning"),
    Case("an abandoned temporary file", write("run/tokens/.ab.temporary", modified_at=LONG_AGO), "run/tokens/.ab", "killed", repairable=True, severity="note"),
    Case("an abandoned temporary file of the log", write(".cd.temporary", modified_at=LONG_AGO), ".cd.temporary", "killed", repairable=True, severity="note"),
    Case("an abandoned temporary folder", write("graph/.build-1/x", modified_at=LONG_AGO), "graph/.build-1", "killed", repairable=True, severity="note"),
    Case("a configuration writable by all accounts", chmod("lycosa.toml", 0o666), "lycosa.toml", "every account", severity="warning"),
    Case("a token file readable by all accounts", chmod("run/tokens/reader.json", 0o644), "run/tokens/reader.json", "can read it", severity="warning"),
)  # fmt: skip


@pytest.mark.proves("consistency-check")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_damage_is_reported_and_repaired_if_possible(damaged: Path, case: Case) -> None:
    case.damage(damaged)
    report = check_workspace(str(damaged), deep=case.deep)
    findings = [
        each
        for each in report.findings
        if each.where.startswith(case.where) and case.what in each.what
    ]
    assert findings, report.findings
    assert findings[0].severity == case.severity
    assert len(findings[0].remedy) > 10
    assert (report.ok, bool(findings[0].repair)) == (case.severity != "error", case.repairable)
    # All cases of the index are repaired in the same way.
    if case.repairable and not case.name.startswith("the index:"):
        repaired = repair_workspace(str(damaged), deep=case.deep)
        assert repaired.not_repaired == []
        assert repaired.repaired
        assert repaired.findings == []
        assert (
            Searcher(str(damaged)).search(SearchRequest("page", count=20, per_host=0)).total
            >= PAGES
        )


def test_changed_and_missing_cdxj_files_are_restored(damaged: Path) -> None:
    first, second = sorted(damaged.glob("data/*/archive.cdxj"))
    before = first.read_bytes(), second.read_bytes()
    assert all(before)
    flip_bit("data/*/archive.cdxj")(damaged)
    second.unlink()
    second.mkdir()
    assert {finding.where for finding in check_workspace(str(damaged)).findings} == {
        str(path.relative_to(damaged)) for path in (first, second)
    }
    assert repair_workspace(str(damaged)).findings == []
    assert (first.read_bytes(), second.read_bytes()) == before


def test_cdxj_file_of_a_damaged_archive_is_not_restored(damaged: Path) -> None:
    for damage in (flip_bit("data/*/archive.warc.gz"), delete("data/*/archive.cdxj")):
        damage(damaged)
    repaired = repair_workspace(str(damaged))
    assert [where for where, _ in repaired.not_repaired] == ["data/00000001-1/archive.cdxj"]
    assert not repaired.ok
    assert not first_file(damaged, "data/00000001-1").joinpath("archive.cdxj").exists()


def test_files_that_the_settings_name_are_part_of_the_workspace(damaged: Path) -> None:
    (damaged / "seeds").mkdir()
    (damaged / "seeds/en.txt").touch()
    (damaged / "never.txt").touch()
    assert {each.where for each in check_workspace(str(damaged)).findings} == {
        "seeds",
        "never.txt",
    }
    (damaged / "lycosa.toml").write_text(
        '[crawl]\nexclusions = "never.txt"\n[[collection]]\nseed_file = "seeds/en.txt"\n'
    )
    assert check_workspace(str(damaged)).findings == []


def test_recent_temporary_file_is_not_reported(damaged: Path) -> None:
    write("run/tokens/.ab.temporary")(damaged)
    assert check_workspace(str(damaged)).findings == []


def test_repair_is_refused_during_a_crawl(damaged: Path) -> None:
    write("run/.ab.temporary", modified_at=LONG_AGO)(damaged)
    with Workspace.open(str(damaged)).own("crawl"), pytest.raises(OwnedError):
        repair_workspace(str(damaged))
    assert (damaged / "run/.ab.temporary").exists()


@pytest.mark.parametrize(
    "damage", [flip_bit("workspace.json"), truncate("workspace.json"), delete("workspace.json")]
)
def test_check_without_a_valid_workspace_json_fails(damaged: Path, damage: Damage) -> None:
    damage(damaged)
    with pytest.raises(WorkspaceError, match=r"workspace\.json"):
        check_workspace(str(damaged))


@pytest.mark.proves("consistency-archive")
def test_lost_tables_are_restored_by_import(damaged: Path, tmp_path: Path) -> None:
    """The remedy for damaged tables: import the archive into a new workspace."""
    for path in damaged.glob("data/*/*.parquet"):
        path.unlink()
    report = import_files(str(tmp_path / "new"), Config(), "default", [str(damaged / "data")])
    assert report.imported == PAGES
    assert check_workspace(str(tmp_path / "new"), deep=True).findings == []
