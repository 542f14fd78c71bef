"""Encoding during a crawl, and vector ranking in the commands and APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa import Workspace
from lycosa.config.settings import Config
from lycosa.serve.app import ENCODER_FAILURES, create_app
from lycosa.vectors.service import EncodingService
from tests.cli.conftest import run_here
from tests.index.corpus import page
from tests.serve.client import Client
from tests.servers.embeddings import EmbeddingServer
from tests.servers.nginx import Server, nginx
from tests.vectors.conftest import Encoded, config_of

TEXT = "It is long enough to be taken for prose, and it has no links at all, only words."


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "site"
    folder.mkdir()
    for name, text in {"index": f"A car. {TEXT}", "moth": f"A moth. {TEXT}"}.items():
        (folder / f"{name}.html").write_text(
            f"<html lang=en><title>{name}</title><main><h1>{name}</h1><p>{text}"
            "<p><a href=/moth.html>next</a></main>"
        )
    with nginx([Server("127.0.8.17", folder, index="index.html")]) as server:
        yield f"http://127.0.8.17:{server.port}/"


def test_crawled_pages_are_found_by_vectors_in_all_interfaces(
    site: str, api: EmbeddingServer, tmp_path: Path
) -> None:
    root = str(tmp_path / "w")
    settings = {"encoder.source": api.url, "encoder.model": "m", "crawl.patience": 0}
    workspace = Workspace(root, settings=settings)
    workspace.crawl(site, delay=0)
    assert api.texts == 2
    workspace.crawl(site, delay=0)
    assert api.texts == 2
    result = workspace.texts.passages("automobile", count=1)
    assert (result.ranking, result.passages[0].url) == ("hybrid", site)
    assert workspace.archive.text(site).version.record_id == result.passages[0].record_id
    (Path(root) / "lycosa.toml").write_text(f'[encoder]\nsource = "{api.url}"\nmodel = "m"\n')
    words = ("-w", root, "search", "--passages", "--json", "automobile")
    assert json.loads(run_here(*words).out)["passages"][0]["id"] == result.passages[0].id
    assert run_here(*words, "--ranking", "keyword").code == 1
    assert run_here(*words, "--ranking", "x").code == 2
    assert "vectors: 2 chunks of 2 pages, 0 encoded, 0 removed" in run_here("-w", root, "index").out

    client = Client(create_app(root, dict))
    for ranking, passages in (("vector", 1), ("keyword", 0)):
        parameters = {"q": "automobile", "ranking": ranking}
        answer = client.get("/api/v1/passages", params=parameters).json()
        assert (answer["ranking"], len(answer["passages"])) == (ranking, passages)
    assert client.get("/api/v1/passages", params={"q": "x", "ranking": "y"}).status_code == 422
    api.replies, api.sticky = [(500, b"broken", ())], True
    answer = client.get("/api/v1/passages", params={"q": "vehicle moth"}).json()
    assert (answer["ranking"], len(answer["passages"])) == ("keyword", 1)
    assert f"\n{ENCODER_FAILURES} 1\n" in client.get("/metrics").text
    failed = run_here("-w", root, "search", "--passages", "vehicle moth")
    assert failed.code == 0
    assert "results are by words only" in failed.err


def test_index_command_reports_encoder_errors(corpus: Encoded, api: EmbeddingServer) -> None:
    api.replies, api.sticky = [(401, b"who are you?", ())], True
    Path(corpus.root, "lycosa.toml").write_text(
        f'[encoder]\nsource = "{api.url}"\nmodel = "m"\n[index]\nheap = "15MiB"\n'
    )
    outcome = run_here("-w", corpus.root, "index")
    assert outcome.code == 1
    assert "3 documents" in outcome.out
    assert "3 pages without vectors" in outcome.err
    assert "who are you?" in outcome.err


def run_service(corpus: Encoded, config: Config) -> list[str]:
    lines: list[str] = []
    service = EncodingService(corpus.root, config, lines.append)
    service.start()
    service.finish()
    service.close()
    return lines


def test_service_reports_encoder_errors_and_continues(
    corpus: Encoded, api: EmbeddingServer
) -> None:
    api.replies, api.sticky = [(400, b"no such model", ())], True
    failed = run_service(corpus, config_of(api.url, model="m"))
    assert "no such model" in failed[0]
    assert failed[1].startswith("3 pages without vectors")
    assert "tests.absent" in run_service(corpus, config_of("tests.absent:x"))[0]
    api.replies = []
    assert run_service(corpus, config_of(api.url, model="m")) == []
    assert corpus.store.info.chunks == 3


def test_service_reports_pages_not_encoded_within_the_time_limit(
    corpus: Encoded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.vectors.service.FINISH_S", 0.0)
    corpus.commit([("http://c.test/", page("One more.", language="en"))])
    lines = run_service(corpus, config_of(batch=1))
    assert lines == ["3 pages without vectors: the next crawl or `lycosa index` encodes them"]
