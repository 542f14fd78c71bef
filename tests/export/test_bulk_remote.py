"""Bulk export of a workspace that lies on S3: read through copies, remembered there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lycosa.daemon.metrics import Meter
from lycosa.export.bulk.bulk import EXPORTS
from lycosa.store.workspace import Workspace
from tests.export.test_bulk import held, live, put, send
from tests.servers.bulk import bulk_server
from tests.servers.s3 import BUCKET, s3_server


def test_a_workspace_on_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as s3, bulk_server() as cluster:
        for name, value in {**s3.environment, "LYCOSA_CACHE": str(tmp_path / "cache")}.items():
            monkeypatch.setenv(name, value)
        workspace = Workspace.create(f"s3://{BUCKET}/crawl", partitions=4)
        claim = workspace.claim("w")
        put(workspace, claim, range(20))
        assert send(workspace, cluster).documents == 20
        put(workspace, claim, range(3), round=1)
        assert send(workspace, cluster).documents == 3
        assert held(cluster) == live(workspace)
        (name,) = workspace.storage.names(EXPORTS)
        document = json.loads(workspace.storage.read(f"{EXPORTS}/{name}") or b"")
        assert document["confirmed"]["log_entry"] == workspace.state().head
        text = Meter(workspace.root).text()
        assert "lycosa_export_lag_entries{" in text
        assert "lycosa_disk_free_bytes" not in text
