"""New, gone and changed pages, with the difference between what the archive holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lycosa.cli.main import app
from lycosa.config.settings import Config
from lycosa.site.changes import PageChange, changes_of
from lycosa.store.compaction.compact import compact
from lycosa.store.workspace import Workspace
from tests.export.library_pages import Fetched, at, commit, day_name

OLD, NEW = (
    "<title>A</title><p>First block.<p>Second block.<p>Third block.",
    "<title>A</title><p>First block.<p>Another block.<p>Third block.",
)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Six pages over ten days; from day 5 on some are new, gone or changed."""
    workspace = Workspace.create(str(tmp_path / "w"), partitions=4)
    claim = workspace.claim("test")
    digests: dict[tuple[str, str], int] = {}
    names = ("same", "changed", "there-and-back", "gone", "gone-before")
    commit(
        workspace, claim, [Fetched(f"http://a.example/{name}", 1, OLD) for name in names], digests
    )
    commit(
        workspace,
        claim,
        [
            Fetched("http://b.example/changed", 1, OLD),
            Fetched("http://a.example/gone-before", 3, ""),
        ],
        digests,
    )
    later = [
        Fetched("http://a.example/same", 6, OLD),
        Fetched("http://a.example/changed", 6, OLD.replace("Third", "Last")),
        Fetched("http://a.example/there-and-back", 6, NEW),
        Fetched("http://a.example/gone", 6, ""),
        Fetched("http://a.example/gone-before", 6, ""),
        Fetched("http://a.example/new", 6, "<title>New</title><p>All new."),
        Fetched("http://b.example/changed", 6, NEW),
    ]
    commit(workspace, claim, later, digests)
    again = [
        Fetched("http://a.example/changed", 8, NEW),
        Fetched("http://a.example/there-and-back", 8, OLD),
    ]
    commit(workspace, claim, [*again, Fetched("http://b.example/changed", 8, None)], digests)
    claim.release()
    return str(tmp_path / "w")


def _since(
    root: str, day: int, site: str = "", **options: bool
) -> dict[tuple[str, str], PageChange]:
    result = changes_of(
        root, Config(), datetime.fromtimestamp(at(day) / 1000, UTC), site, **options
    )
    return {(change.kind, change.url): change for change in result}


def test_what_changed_since_is_told_with_the_difference(root: str) -> None:
    for _ in range(2):
        result = _since(root, 5)
        assert set(result) == {
            ("new", "http://a.example/new"),
            ("gone", "http://a.example/gone"),
            ("changed", "http://a.example/changed"),
            ("changed", "http://b.example/changed"),
        }
        changed = result["changed", "http://a.example/changed"]
        assert changed.difference == (
            "@@ -1,3 +1,3 @@",
            " First block.",
            "-Second block.",
            "+Another block.",
            " Third block.",
        )
        assert (changed.before, changed.at) == tuple(
            datetime.fromtimestamp(at(day) / 1000, UTC) for day in (1, 8)
        )
        # A visit that answered 304 begins no version: the text that is live is that of the day
        # before.
        assert result["changed", "http://b.example/changed"].at == datetime.fromtimestamp(
            at(6) / 1000, UTC
        )
        assert result["gone", "http://a.example/gone"].reason == "http_404"
        compact(Workspace.open(root))


def test_a_later_time_a_site_and_no_archive(root: str) -> None:
    assert set(_since(root, 7)) == {
        ("changed", "http://a.example/changed"),
        ("changed", "http://a.example/there-and-back"),
    }
    assert set(_since(root, 5, "b.example")) == {("changed", "http://b.example/changed")}
    assert _since(root, 9) == {}
    assert set(_since(root, 0)) == {("new", f"http://a.example/{name}") for name in ("same", "changed", "there-and-back", "new")} | {
        ("new", "http://b.example/changed"), ("gone", "http://a.example/gone"), ("gone", "http://a.example/gone-before"),
    }  # fmt: skip
    without = _since(root, 5, differences=False)
    assert ("changed", "http://a.example/there-and-back") in without
    assert all(not change.difference for change in without.values())


def test_versions_that_left_the_archive_are_told_without_a_difference(root: str) -> None:
    min(Path(root).rglob("archive.warc.gz")).unlink()
    changed = _since(root, 5)["changed", "http://a.example/changed"]
    assert changed.reason == "the previous version is no longer in the archive"


def test_the_command_prints_text_and_json(root: str) -> None:
    run = CliRunner()
    text = run.invoke(app, ["-w", root, "changes", "--since", day_name(5)]).stdout
    assert "new: 1\n" in text
    assert "    +Another block.\n" in text
    document = json.loads(
        run.invoke(
            app, ["-w", root, "changes", "--since", day_name(5), "--site", "b.example", "--json"]
        ).stdout
    )
    assert [(change["kind"], change["url"]) for change in document] == [
        ("changed", "http://b.example/changed")
    ]
