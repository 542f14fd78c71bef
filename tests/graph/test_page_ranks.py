"""Test page ranks, anchor texts, duplicates, and updates of the index."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from lycosa.config.settings import IndexSettings
from lycosa.core.records import Link, Page
from lycosa.graph import ranking
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import link_signals_of, newest
from lycosa.graph.ranking import DAMPING, HOST_SHARE, PAGE_SHARE, page_rank
from lycosa.index.generation import newest as newest_index
from lycosa.index.indexer import Indexer
from lycosa.maintenance.upkeep_job import rank_when_due
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.exclusion.purge import exclude
from lycosa.store.tables.buffers import Buffers
from tests.graph.keys import url_keys
from tests.index.corpus import Corpus, page

SMALL = IndexSettings.model_validate({"heap": "15MiB"})
HUB = "http://hub.test/"


def links(*targets: tuple[str, str], rel: str = "", kind: str = "a") -> list[Link]:
    return [
        Link(target, anchor, rel, kind, place) for place, (target, anchor) in enumerate(targets)
    ]


def link_signals(corpus: Corpus) -> dict[str, tuple[float, str, int]]:
    """Return URL -> prior, anchors, since."""
    signals = link_signals_of(corpus.workspace, range(corpus.workspace.partitions))
    assert signals is not None
    by_key = {
        row["url_key"]: (round(row["prior"], 4), row["anchors"], row["since"])
        for row in signals.pages().iter_rows(named=True)
    }
    return {url: by_key[key] for url, key in url_keys(corpus).items() if key in by_key}


@pytest.mark.parametrize("seed", range(3))
def test_page_rank_equals_its_definition(tmp_path: Path, seed: int) -> None:
    """The reference is the fixed point of the transition matrix."""
    generator = np.random.default_rng(seed)
    nodes = 30
    pairs = generator.integers(0, nodes, (200, 2)).astype(np.int32)
    pairs = pairs[pairs[:, 0] % 7 != seed]  # some nodes link nowhere
    path = tmp_path / "edges"
    pairs.tofile(path)
    rank = page_rank(path, nodes)
    step = np.zeros((nodes, nodes))
    for source, target in pairs:
        step[target, source] += 1
    out = step.sum(axis=0)
    step = np.where(out > 0, step / np.maximum(out, 1), 1 / nodes)
    exact = np.linalg.solve(np.eye(nodes) - DAMPING * step, np.full(nodes, (1 - DAMPING) / nodes))
    assert rank.sum() == pytest.approx(1)
    assert np.abs(rank - exact).sum() < 1e-3


def test_page_rank_of_an_empty_graph(tmp_path: Path) -> None:
    (tmp_path / "edges").touch()
    assert page_rank(tmp_path / "edges", 0).size == 0
    assert page_rank(tmp_path / "edges", 2).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("batch", [1, 20, 1_000_000])
def test_anchors_of_many_hosts_are_first_and_repeated(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(ranking, "_ANCHORS_AT_ONCE", batch)
    pages = [
        (f"http://h{number}.test/", page("text", links=links((HUB, "The Hub"))))
        for number in range(6)
    ]
    others = {
        "http://h9.test/": links((HUB, "a site"), (HUB, " "), ("http://nowhere.test/", "x")),
        HUB: links((HUB, "myself"), (f"{HUB}b", "b")),
        f"{HUB}b": links((HUB, "home")),
        "http://foe.test/": links((HUB, "disowned"), rel="nofollow"),
        "http://pictures.test/": links((HUB, "a picture"), kind="image"),
    }
    corpus.commit([*pages, *((url, page("text", links=each)) for url, each in others.items())])
    make_generation(corpus.workspace)
    _, anchors, _ = link_signals(corpus)[HUB]
    assert anchors.splitlines() == ["The Hub"] * 6 + ["a site"] * 2 + ["home"]
    assert link_signals(corpus)[f"{HUB}b"][1] == "b\n"
    assert link_signals(corpus)["http://h1.test/"][1] == ""


def test_a_link_to_a_redirect_counts_for_its_target(corpus: Corpus) -> None:
    old = page("text", links=links(("http://old.test/", "the new one")))
    corpus.commit([("http://a.test/", old), (HUB, page("text"))])
    corpus.redirect("http://old.test/", "http://older.test/")
    corpus.redirect("http://older.test/", HUB)
    make_generation(corpus.workspace)
    assert link_signals(corpus)[HUB][1] == "the new one\n" * 2  # as for an anchor of any other host


def test_priors_are_limited(corpus: Corpus) -> None:
    many = [
        (f"http://h{number}.test/{page_number}", page("text", links=links((HUB, "x"))))
        for number in range(40)
        for page_number in range(5)
    ]
    corpus.commit([*many, (HUB, page("text"))])
    make_generation(corpus.workspace)
    priors = {url: prior for url, (prior, _, _) in link_signals(corpus).items()}
    assert max(priors, key=lambda url: priors[url]) == HUB
    assert 1.1 < priors.pop(HUB) <= 1 + PAGE_SHARE + HOST_SHARE
    assert set(priors.values()) == {1.0}


def urls(corpus: Corpus, query: str) -> list[str]:
    return [
        hit.url for hit in Searcher(corpus.root).search(SearchRequest(query, 50, per_host=0)).hits
    ]


def pages_linking_to_hub(anchor: str) -> Iterable[tuple[str, Page]]:
    yield HUB, page("Nothing but a text about a hub.", language="en")
    yield "http://rival.test/", page("Nothing but a text about a hub.", language="en")
    for number in range(8):
        yield (
            f"http://h{number}.test/",
            page(f"page number {number} links", language="en", links=links((HUB, anchor))),
        )


def rank(corpus: Corpus, indexer: Indexer) -> None:
    make_generation(corpus.workspace)
    indexer.update()


def test_the_index_is_updated_by_a_ranking(corpus: Corpus) -> None:
    corpus.commit(pages_linking_to_hub("spaceport"))
    with Indexer(corpus.root, SMALL) as indexer:
        assert indexer.update().put == 10
        assert urls(corpus, "inanchor:spaceport") == []
        first = make_generation(corpus.workspace)
        assert indexer.update().put == 10  # no page had link signals before
        assert urls(corpus, "inanchor:spaceport") == urls(corpus, "spaceport") == [HUB]
        assert urls(corpus, "hub")[0] == HUB  # the same text: the prior decides
        assert (indexer.update().changed, newest_index(corpus.root).info.graph) == (  # type: ignore[union-attr]
            False,
            first.generation,
        )
        make_generation(corpus.workspace)
        assert indexer.update().put == 0
        corpus.commit(
            [
                (
                    "http://h1.test/",
                    page("page number 1 links", language="en", links=links((HUB, "starbase"))),
                )
            ]
        )
        assert indexer.update().put == 1
        assert urls(corpus, "starbase") == []
        assert make_generation(corpus.workspace).changed == 1
        assert indexer.update().put == 1
        assert urls(corpus, "inanchor:starbase") == urls(corpus, "inanchor:spaceport") == [HUB]
        corpus.commit(states=[(HUB, "gone")])
        rank(corpus, indexer)
        assert urls(corpus, "inanchor:spaceport") == []
    with Indexer(corpus.root, SMALL) as indexer:
        assert indexer.rebuild().documents == 9


def test_a_ranking_does_not_restore_gone_pages(corpus: Corpus) -> None:
    corpus.commit(pages_linking_to_hub("spaceport"))
    corpus.commit(
        [("http://late.test/", page("late", language="en", links=links((HUB, "latecomer"))))]
    )
    with Indexer(corpus.root, SMALL) as indexer:
        rank(corpus, indexer)
        corpus.commit(
            [("http://late.test/", page("later", language="en", links=links((HUB, "lateness"))))],
            states=[(HUB, "gone")],
        )
        make_generation(corpus.workspace)
        assert newest(corpus.workspace)[0].changed == 1  # type: ignore[index]
        indexer.update()
        assert urls(corpus, "inanchor:lateness") == urls(corpus, "site:hub.test") == []
        assert Searcher(corpus.root).search(SearchRequest("-site:none.test", 20)).total == 10


@pytest.mark.proves("consistency-purge-derived")
def test_anchor_texts_of_excluded_pages_are_removed_from_the_index(corpus: Corpus) -> None:
    """At once. The next ranking restores the anchors of other pages."""
    corpus.commit(pages_linking_to_hub("spaceport"))
    corpus.commit(
        [("http://foe.test/", page("foe", language="en", links=links((HUB, "blackmail"))))]
    )
    with Indexer(corpus.root, SMALL) as indexer:
        rank(corpus, indexer)
        assert urls(corpus, "inanchor:blackmail") == urls(corpus, "inanchor:spaceport") == [HUB]
        exclude(corpus.workspace, ["host:foe.test"])
        assert indexer.update().rebuilt == "exclusions were added"
        assert urls(corpus, "inanchor:blackmail") == urls(corpus, "inanchor:spaceport") == []
        assert not indexer.update().changed
        rank(corpus, indexer)
        assert urls(corpus, "inanchor:blackmail") == []
        assert urls(corpus, "inanchor:spaceport") == [HUB]


def test_upkeep_ranks_once_a_day(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def number() -> int:
        rank_when_due(corpus.root)
        ranked = newest(corpus.workspace)
        return 0 if ranked is None else ranked[0].generation

    corpus.commit(pages_linking_to_hub("spaceport"))
    assert number() == 0  # the workspace is not a day old
    make_generation(corpus.workspace)
    corpus.commit([("http://late.test/", page("late", language="en"))])
    assert number() == 1
    monkeypatch.setattr("lycosa.maintenance.upkeep_job.RANK_EVERY_MS", 0)
    assert number() == number() == 2  # no new ranking without changes


def test_upkeep_ranks_a_workspace_that_is_a_day_old(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.commit(pages_linking_to_hub("spaceport"))
    monkeypatch.setattr("lycosa.maintenance.upkeep_job.RANK_EVERY_MS", 0)
    rank_when_due(corpus.root)
    assert newest(corpus.workspace) is not None


def test_copies_reached_by_redirects_are_removed_from_the_index(corpus: Corpus) -> None:
    """Only in the collection with the original, while the texts are equal."""
    text = page("A page that two addresses lead to.", language="en", text_digest=99)
    buffers = Buffers()
    corpus.add(buffers, "http://a.test/page", text)
    corpus.add(buffers, "http://a.test/page?session=1", text, redirect_from="http://a.test/old")
    corpus.add(buffers, "http://a.test/page?session=1", text, "other")
    corpus.commit_buffers(buffers)

    def result() -> dict[str, str]:
        hits = Searcher(corpus.root).search(SearchRequest("addresses", folded=False)).hits
        return {hit.url.removeprefix("http://a.test/"): hit.collection for hit in hits}

    with Indexer(corpus.root, SMALL) as indexer:
        indexer.update()
        assert result() == {"page": "default", "page?session=1": "default, other"}
        assert make_generation(corpus.workspace).duplicates == 1
        indexer.update()
        assert result() == {"page": "default", "page?session=1": "other"}
        corpus.commit(
            [
                (
                    "http://a.test/page",
                    page(
                        "It says something else about addresses now.", language="en", text_digest=98
                    ),
                )
            ]
        )
        rank(corpus, indexer)
        assert result() == {"page": "default", "page?session=1": "default, other"}


def test_a_generation_without_page_signals_is_applied_once(corpus: Corpus) -> None:
    """The generation has no `pages.parquet`."""
    corpus.commit(pages_linking_to_hub("spaceport"))
    make_generation(corpus.workspace)
    path = newest(corpus.workspace)[1] / "pages.parquet"  # type: ignore[index]
    path.unlink()
    with Indexer(corpus.root, SMALL) as indexer:
        assert indexer.update().changed
        assert not indexer.update().changed
    make_generation(corpus.workspace)
    with Indexer(corpus.root, SMALL) as indexer:
        assert indexer.update().put == 10
