"""The validator: what is wrong with a document, over a file and over the archive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from lycosa.cli.main import app
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError, WorkError
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
def test_faults_have_a_code_and_a_line(document: str, faults: list[tuple[int, str]]) -> None:
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
def test_it_takes_whatever_comes(pieces: list[str]) -> None:
    for fault in html_faults("".join(pieces).encode()):
        assert fault.line >= 1
        assert fault.message


def test_what_takes_too_long_is_refused() -> None:
    with pytest.raises(WorkError, match="more than can be validated"):
        html_faults(b" " * (MAX_BYTES + 1))


def test_the_newest_archived_answer_is_checked(tmp_path: Path) -> None:
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
