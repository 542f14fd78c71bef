"""What a reader gives up it gives up at once: a server that publishes every ten seconds would else
hold many indexes.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.index.indexer import Indexer
from lycosa.index.suggest import refresh
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.suggest.completion import SuggestRequest
from tests.index.corpus import Corpus, index_settings, page

_MAPPED = re.compile(r"/index/(\d{8})/(\S+)")


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Without the collector of cycles: it comes by when a server has made very many objects, and
    that may be an hour.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def mapped(root: str) -> dict[int, set[str]]:
    """The files of each generation that this process has mapped, by the kernel's word."""
    matches: dict[int, set[str]] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        if root in line and (match := _MAPPED.search(line)):
            matches.setdefault(int(match[1]), set()).add(match[2])
    return matches


def test_a_generation_that_was_replaced_is_not_held(tmp_path: Path, uncollected: None) -> None:
    corpus = Corpus(str(tmp_path / "workspace"))
    with Indexer(corpus.root, index_settings()) as indexer:
        searcher = None
        for number in range(3):
            corpus.commit(
                [
                    (
                        f"http://alpha.test/{number}",
                        page(f"A garden in spring, the {number}th.", title="Garden", language="en"),
                    )
                ]
            )
            indexer.update()
            searcher = searcher or Searcher(corpus.root)
            searcher.reload()
            assert searcher.search(SearchRequest("garden")).total == number + 1
            searcher.search(SearchRequest("gardem spring"))
            assert searcher.suggest(SuggestRequest("gar"))
        assert searcher is not None
        assert any(
            name.startswith("suggestions") for name in mapped(corpus.root)[searcher.generation]
        )
        deadline = time.monotonic() + 60
        while set(mapped(corpus.root)) != {searcher.generation} and time.monotonic() < deadline:
            # a thread of tantivy looks once more, within a second, at what it has opened
            time.sleep(0.05)
        assert set(mapped(corpus.root)) == {searcher.generation}


def test_suggestions_that_rest_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "FRESH_PAGES", 0)
    monkeypatch.setattr(refresh, "REST_MS_A_PAGE", 3_600_000)
    corpus = Corpus(str(tmp_path / "workspace"))
    corpus.commit(
        [("http://alpha.test/", page("A garden in spring.", title="Garden", language="en"))]
    )
    with Indexer(corpus.root, index_settings()) as indexer:
        indexer.update()
        searcher = Searcher(corpus.root)
        before = searcher.index
        corpus.commit(
            [
                (
                    "http://alpha.test/house",
                    page("A house by the river.", title="House", language="en"),
                )
            ]
        )
        indexer.update()
        assert searcher.reload()
        after = searcher.index
        assert before is not None
        assert after is not None
        assert after is not before
        assert after.suggest_files[0] is before.suggest_files[0]
        monkeypatch.setattr(refresh, "REST_MS_A_PAGE", 0)
        corpus.commit(
            [("http://alpha.test/sea", page("A ship at sea.", title="Ship", language="en"))]
        )
        indexer.update()
        assert searcher.reload()
        assert [matches.text for matches in searcher.suggest(SuggestRequest("shi"))] == ["Ship"]
