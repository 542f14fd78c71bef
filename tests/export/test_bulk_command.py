"""Test `lycosa export bulk`, also of a workspace on S3."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lycosa.daemon.metrics import Meter
from lycosa.export.bulk.bulk import EXPORTS
from lycosa.store.storage.files import whole_file
from lycosa.store.workspace import Workspace
from tests.cli.conftest import Outcome, run_here
from tests.export.test_bulk import cluster as cluster
from tests.export.test_bulk import put, send, sync
from tests.servers.bulk import Cluster, bulk_server
from tests.servers.s3 import BUCKET, s3_server
from tests.store.builders import commit_pages


@pytest.fixture
def root(tmp_path: Path) -> str:
    workspace = Workspace.create(str(tmp_path / "crawl"), partitions=4)
    commit_pages(workspace, workspace.claim("w"), range(12))
    return workspace.root


def run(root: str, *arguments: str, secret: str = "") -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LYCOSA_BULK_AUTH", secret)
        return run_here("-w", root, "export", "bulk", *arguments)


def test_credentials_are_sent_and_not_stored(root: str, cluster: Cluster) -> None:
    cluster.authorization = "Bearer t0ken"
    to = ("--to", "opensearch", "--url", cluster.url)
    refused = run(root, *to, secret="Bearer wr0ng")
    assert refused.code == 1
    assert "LYCOSA_BULK_AUTH" in refused.err
    assert "wr0ng" not in refused.err + refused.out
    output = run(root, *to, "--json", secret="Bearer t0ken")
    assert output.code == 0, output.err
    assert json.loads(output.out)["documents"] == len(cluster.documents) == 12
    assert "0 documents" in run(root, *to, secret="Bearer t0ken").out
    assert not [
        path for path in Path(root).rglob("*") if path.is_file() and b"t0ken" in path.read_bytes()
    ]


def test_rejected_documents_are_listed_and_fail_the_command(root: str, cluster: Cluster) -> None:
    assert run(root, "--to", "opensearch", "--url", cluster.url, "--index", "first").code == 0
    cluster.never = {next(iter(cluster.documents))}
    output = run(root, "--to", "opensearch", "--url", cluster.url, "--index", "second")
    assert output.code == 1
    assert "mapper_parsing_exception" in output.err
    assert "11 documents" in output.out


def test_jsonl_is_written_to_a_file_or_standard_output(root: str, tmp_path: Path) -> None:
    out = tmp_path / "pages.jsonl"
    output = run(root, "--to", "jsonl", "--out", str(out))
    assert (output.code, output.out) == (0, "")
    assert out.read_text() == run(root, "--to", "jsonl", "-q").out
    assert len(out.read_text().splitlines()) == 12
    assert run(root, "--to", "jsonl", "--out", str(tmp_path / "none" / "x")).code == 1
    assert not list(tmp_path.glob("*.part"))


def test_pipes_and_links_are_written_and_not_replaced(root: str, tmp_path: Path) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    target.write_text("old")
    link.symlink_to(target)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(pipe.read_text)
        assert run(root, "--to", "jsonl", "--out", str(pipe)).code == 0
        assert pipe.is_fifo()
        assert run(root, "--to", "jsonl", "--out", str(link)).code == 0
        assert link.is_symlink()
        assert target.read_text() == reading.result()
    with pytest.raises(OSError, match="not a regular file"), whole_file(pipe):
        pass


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "solr"),
        ("--to", "opensearch"),
        ("--to", "opensearch", "--url", "http://127.0.0.1:1", "--batch", "1KB"),
    ],
)
def test_invalid_arguments_exit_with_2(root: str, arguments: tuple[str, ...]) -> None:
    assert run(root, *arguments).code == 2


def test_export_of_a_workspace_on_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as s3, bulk_server() as cluster:
        for name, value in {**s3.environment, "LYCOSA_CACHE": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        workspace = Workspace.create(f"s3://{BUCKET}/crawl", partitions=4)
        claim = workspace.claim("w")
        put(workspace, claim, range(20))
        assert send(workspace, cluster).documents == 20
        put(workspace, claim, range(3), round=1)
        assert sync(workspace, cluster).documents == 3
        (name,) = workspace.storage.names(EXPORTS)
        document = json.loads(workspace.storage.read(f"{EXPORTS}/{name}") or b"")
        assert document["confirmed"]["log_entry"] == workspace.state().head
        text = Meter(workspace.root).text()
        assert "lycosa_export_lag_entries{" in text
        assert "lycosa_disk_free_bytes" not in text
