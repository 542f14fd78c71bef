"""`lycosa serve --engine local`: a real server over replicas of shards in processes of their
own.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil

from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import Indexer
from tests.index.corpus import Corpus, page


def test_a_server_over_replicas(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "workspace"))
    corpus.commit(
        [
            (f"http://h{number}.test/", page("A spider in its web.", title="Spider"))
            for number in range(12)
        ]
    )
    with Indexer(
        corpus.root, IndexSettings.model_validate({"heap": "15MiB", "shards": 2})
    ) as indexer:
        indexer.update()
    other = Corpus(str(tmp_path / "other"))
    other.commit(
        [
            (f"http://other{number}.test/", page("A spider in a jar.", title="Spider"))
            for number in range(3)
        ]
    )
    with Indexer(other.root, IndexSettings.model_validate({"heap": "15MiB"})) as indexer:
        indexer.update()
    command = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "serve",
        "-w",
        corpus.root,
        "-w",
        other.root,
        "--port",
        "0",
        "--engine",
        "local",
    ]
    server = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        match = re.search(r"http://\S+?/", server.stdout.readline())
        assert match
        children = psutil.Process(server.pid).children(recursive=True)
        with urllib.request.urlopen(f"{match[0]}api/v1/search?q=spiders+-jar") as response:
            answer = json.load(response)
        assert (answer["total"], len(answer["hits"]), answer["missing_shards"]) == (12, 10, [])
        with urllib.request.urlopen(f"{match[0]}?q=spider") as response:
            assert b"15 pages" in response.read()
        with urllib.request.urlopen(f"{match[0]}api/v1/search?q=spiders") as response:
            assert {hit["source"] for hit in json.load(response)["hits"]} == {"", other.root}
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        server.stdout and server.stdout.close()
    assert len(children) >= 2
    _, alive = psutil.wait_procs(children, 30)
    assert not alive


def test_ray_is_named_when_an_address_has_no_use(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "workspace"))
    command = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "serve",
        "-w",
        corpus.root,
        "--engine",
        "local",
        "--address",
        "127.0.0.1:6379",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 2
    assert "--engine ray" in result.stderr
