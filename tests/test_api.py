"""The Python API: every example of docs/python.md runs, in its order, over a real site; who only
searches loads no tables.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lycosa import open_workspace
from lycosa.core.errors import UsageError, WorkspaceError
from tests.cli.conftest import SITE
from tests.servers.nginx import Server, nginx

EXAMPLES = re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).parent.parent / "docs/python.md").read_text(encoding="utf-8"),
    re.DOTALL,
)
QUICK = ("crawl.patience=0", "index.heap=15MiB")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("site")
    for name, content in SITE.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    with nginx([Server("127.0.4.3", root, index="index.html", autoindex=False)]) as server:
        yield f"http://127.0.4.3:{server.port}/"


@pytest.fixture(scope="module")
def root(site: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace that holds the site, made by the API."""
    path = tmp_path_factory.mktemp("api") / "lycosa-data"
    progress = open_workspace(path, QUICK).crawl([site], delay=0)
    assert (progress.pages, progress.ended) == (2, "finished")
    return path


def test_every_example_of_the_page_runs(
    site: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root.parent)
    assert len(EXAMPLES) >= 9
    names: dict[str, Any] = {}
    said = []
    for example in EXAMPLES:
        here = example.replace("https://example.org/", site).replace('delay="1s"', 'delay="0"')
        exec(compile(here, "docs/python.md", "exec"), names)
        said.append(capsys.readouterr().out)
    assert f"{site} The home of <script> & moths\n" in said[0]
    assert "eyes.html" in said[3]
    assert "'en'" in said[4]
    assert "is not a workspace" in said[-1]
    assert names["frame"]["title"].to_list() == ["The home of <script> & moths", "Compound eyes"]
    assert names["status"].pages == 2


def test_searching_loads_nothing_that_reads_tables(root: Path) -> None:
    """Nor does importing the package load anything of it."""
    program = (
        "import sys, lycosa; assert 'lycosa.api' not in sys.modules\n"
        f"hits = [hit.url for hit in lycosa.open_workspace({str(root)!r}).search('shape')]\n"
        "assert len(hits) == 1 and hits[0].endswith('/eyes.html'), hits\n"
        "assert not {'polars', 'pyarrow', 'numpy', 'pycurl'} & sys.modules.keys(), "
        "sorted(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_a_later_search_sees_what_was_indexed_meanwhile(site: str, tmp_path: Path) -> None:
    ws = open_workspace(tmp_path / "data", QUICK)
    ws.crawl(f"{site}eyes.html", delay="0", depth=0, index=False)
    assert not list(ws.search("movement"))
    assert ws.index().documents == 1
    assert [hit.title for hit in ws.search("movement")] == ["Compound eyes"]


def test_wrong_calls_are_errors_for_people(tmp_path: Path) -> None:
    ws = open_workspace(tmp_path)
    with pytest.raises(WorkspaceError, match="is not a workspace"):
        ws.search("x")
    with pytest.raises(UsageError, match="choose host"):
        ws.crawl("http://127.0.0.1/", scope="planet")
    with pytest.raises(UsageError, match="not a duration"):
        ws.crawl("http://127.0.0.1/", delay="5 parsecs")
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = __import__("lycosa").no_such_thing
    assert not list(tmp_path.iterdir())
