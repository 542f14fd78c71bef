"""`lycosa export bulk` as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.store.workspace import Workspace
from tests.servers.bulk import Cluster, bulk_server
from tests.store.builders import commit_pages


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with bulk_server() as cluster:
        yield cluster


@pytest.fixture
def root(tmp_path: Path) -> str:
    workspace = Workspace.create(str(tmp_path / "crawl"), partitions=4)
    commit_pages(workspace, workspace.claim("w"), range(12))
    return workspace.root


def run(root: str, *arguments: str, secret: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lycosa.cli.main", "-w", root, "export", "bulk", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "LYCOSA_BULK_AUTH": secret},
    )


def test_a_cluster_that_wants_credentials(root: str, cluster: Cluster) -> None:
    cluster.authorization = "Bearer t0ken"
    to = ("--to", "opensearch", "--url", cluster.url)
    refused = run(root, *to, secret="Bearer wr0ng")
    assert refused.returncode == 1
    assert "LYCOSA_BULK_AUTH" in refused.stderr
    assert "wr0ng" not in refused.stderr + refused.stdout
    output = run(root, *to, "--json", secret="Bearer t0ken")
    assert output.returncode == 0, output.stderr
    assert json.loads(output.stdout)["documents"] == len(cluster.documents) == 12
    assert "0 documents" in run(root, *to, secret="Bearer t0ken").stdout
    assert not [
        path for path in Path(root).rglob("*") if path.is_file() and b"t0ken" in path.read_bytes()
    ]


def test_refused_documents_are_listed_and_make_the_call_fail(root: str, cluster: Cluster) -> None:
    assert run(root, "--to", "opensearch", "--url", cluster.url, "--index", "first").returncode == 0
    cluster.never = {next(iter(cluster.documents))}
    output = run(root, "--to", "opensearch", "--url", cluster.url, "--index", "second")
    assert output.returncode == 1
    assert "mapper_parsing_exception" in output.stderr
    assert "11 documents" in output.stdout


def test_lines_in_a_file(root: str, tmp_path: Path) -> None:
    out = tmp_path / "pages.jsonl"
    output = run(root, "--to", "jsonl", "--out", str(out))
    assert (output.returncode, output.stdout) == (0, "")
    assert out.read_text() == run(root, "--to", "jsonl", "-q").stdout
    assert len(out.read_text().splitlines()) == 12
    assert run(root, "--to", "jsonl", "--out", str(tmp_path / "none" / "x")).returncode == 1
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "solr"),
        ("--to", "opensearch"),
        ("--to", "opensearch", "--url", "http://127.0.0.1:1", "--batch", "1KB"),
    ],
)
def test_wrong_calls(root: str, arguments: tuple[str, ...]) -> None:
    assert run(root, *arguments).returncode == 2
