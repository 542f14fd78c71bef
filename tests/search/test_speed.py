"""The absolute bars of search, on real pages: run by `make prove`."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.harness import quantile
from bench.search import HITS, SITES, Sample, fill, known_item, latencies, queries

from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest

P95_MS = 30.0
TITLE_RANK, TEXT_RANK = 0.96, 0.60  # mean reciprocal ranks; they only rise


@pytest.mark.prove
def test_queries_over_five_thousand_pages(tmp_path: Path) -> None:
    if not SITES.is_dir():
        pytest.skip(f"{SITES} is not laid out (make_sites.sh)")
    root = str(tmp_path / "workspace")
    samples: list[Sample] = []
    assert fill(root, SITES, 10_000, samples) > 5_000
    with Indexer(root) as indexer:
        indexer.update()
    searcher = Searcher(root)
    asked = queries(samples, 300)
    latencies(lambda query: searcher.search(SearchRequest(query, HITS)), asked[:20])
    _, cpu = latencies(lambda query: searcher.search(SearchRequest(query, HITS)), asked)
    assert quantile(cpu, 0.95) < P95_MS
    ranks = known_item(searcher, samples)
    assert ranks["title"] >= TITLE_RANK
    assert ranks["text"] >= TEXT_RANK
