"""The absolute bars of search, on real pages: run by `make prove`."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from bench.corpora import HITS, SITES, Sample, fill, queries
from bench.harness import quantile
from bench.search import latencies

from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest

P95_MS = 30.0
TITLE_RANK, TEXT_RANK = 0.96, 0.60  # mean reciprocal ranks; they only rise
_WORD = re.compile(r"[^\W\d_]{3,}")


def known_item(searcher: Searcher, samples: list[Sample]) -> tuple[float, float]:
    """Return the mean reciprocal rank of pages by their title, and by six words of a sentence."""
    generator = random.Random(3)
    by_title, by_text = [], []
    for sample in samples[:300]:
        by_title.append(_reciprocal_rank(searcher, sample.title, sample))
        lines = [line for line in sample.text.split("\n") if len(line) > 60]
        terms = _WORD.findall(generator.choice(lines)) if lines else []
        if len(terms) >= 8:
            by_text.append(_reciprocal_rank(searcher, " ".join(generator.sample(terms, 6)), sample))
    return sum(by_title) / len(by_title), sum(by_text) / len(by_text)


def _reciprocal_rank(searcher: Searcher, query: str, sample: Sample) -> float:
    for place, hit in enumerate(searcher.search(SearchRequest(query, HITS)).hits, 1):
        if hit.url == sample.url or hit.title == sample.title:  # the manuals have copies of pages
            return 1 / place
    return 0.0


@pytest.mark.prove
def test_queries_over_five_thousand_pages(tmp_path: Path) -> None:
    if not SITES.is_dir():
        pytest.skip(f"{SITES} is missing: run scripts/make_sites.sh")
    root = str(tmp_path / "workspace")
    samples: list[Sample] = []
    assert fill(root, SITES, 10_000, samples) > 5_000
    with Indexer(root) as indexer:
        indexer.update()
    searcher = Searcher(root)
    requests = queries(samples, 300)
    latencies(lambda query: searcher.search(SearchRequest(query, HITS)), requests[:20])
    _, cpu = latencies(lambda query: searcher.search(SearchRequest(query, HITS)), requests)
    assert quantile(cpu, 0.95) < P95_MS
    title_rank, text_rank = known_item(searcher, samples)
    assert title_rank >= TITLE_RANK
    assert text_rank >= TEXT_RANK
