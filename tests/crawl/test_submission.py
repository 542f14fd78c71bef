"""What `lycosa add` takes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.config.reading import parse_config
from lycosa.core.errors import UsageError
from lycosa.crawl.session.submission import Submitted, submit
from lycosa.store.workspace import Workspace

ONE = '[[collection]]\nname = "one"\nseeds = ["http://127.0.0.1/"]\n'
TWO = (
    '[[collection]]\nname = "two"\nseeds = ["http://127.0.0.2/a/x"]\nscope = '
    '"prefix"\ndrop_parameters = ["utm_*"]\ndeny = ["y"]\n'
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "w"


def add(workspace: Path, *urls: str, collection: str = "", settings: str = ONE + TWO) -> Submitted:
    return submit(str(workspace), parse_config(settings), urls, collection)


@pytest.mark.parametrize(
    ("urls", "collection", "reason"),
    [
        (
            ("http://127.0.0.2/a/y",),
            "",
            r"choose one with --collection NAME \(available: one, "
            r"two\)",
        ),
        (("http://127.0.0.2/a/y",), "tow", "unknown collection 'tow'; did you mean 'two'"),
        (
            ("http://127.0.0.2/a/", "http://127.0.0.2/b"),
            "two",
            r"http://127.0.0.2/b is not accepted by collection 'two': refused \(scope\)",
        ),
        (("mailto:a@b",), "two", "only http, https, ftp and gopher URLs are crawled"),
        (("http://[",), "two", "not a valid URL"),
        ((f"http://127.0.0.2/a/{'x' * 3000}",), "two", r"refused \(too_long\)"),
    ],
)
def test_what_is_refused(
    workspace: Path, urls: tuple[str, ...], collection: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        add(workspace, *urls, collection=collection)
    assert not list(workspace.glob("inbox/*"))


def test_what_is_taken(workspace: Path) -> None:
    # deny is for links
    submitted = add(workspace, "http://127.0.0.2/a/y?utm_x=1", collection="two")
    assert submitted.urls == ("http://127.0.0.2/a/y",)
    assert submitted.owner is None
    (file,) = (workspace / "inbox").iterdir()
    assert file.name == submitted.file
    assert json.loads(file.read_text())["urls"] == ["http://127.0.0.2/a/y"]


def test_the_only_collection_needs_no_name_and_the_log_knows_some(workspace: Path) -> None:
    assert add(workspace, "http://127.0.0.1/x", settings=ONE).collection == "one"
    with pytest.raises(UsageError, match="no collection yet"):
        add(workspace, "http://127.0.0.1/x", settings="")
    typed = parse_config(ONE.replace("one", "typed")).collection[0].model_dump(mode="json")
    Workspace.open(str(workspace)).claim("test", settings={"typed": typed})
    assert add(workspace, "http://127.0.0.1/x", settings="").collection == "typed"
    with pytest.raises(UsageError, match="scope"):
        add(workspace, "http://127.0.0.9/x", settings="")


def test_what_the_operator_excluded_is_refused(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("host 127.0.0.1\n")
    settings = f'[crawl]\nexclusions = "{tmp_path}/list"\n{ONE}'
    with pytest.raises(UsageError, match=r"http://127.0.0.1/x is excluded by the operator"):
        add(workspace, "http://127.0.0.1/x", settings=settings)
    (tmp_path / "list").unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        add(workspace, "http://127.0.0.1/x", settings=settings)
