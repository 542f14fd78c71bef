"""Test near-duplicates: detection, groups and results of searches."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from bench.near import measure, planted

from lycosa.config.settings import IndexSettings
from lycosa.core.records import Alternate, Page
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import link_signals_of
from lycosa.graph.minhash import (
    MIN_SHINGLES,
    SKETCH,
    Sketches,
    candidates,
    shingles,
    similarity,
    stars,
)
from lycosa.index.indexer import Indexer
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.text.digest import text_digest
from tests.graph.keys import url_keys
from tests.index.corpus import Corpus
from tests.index.corpus import page as page_without_digest

SMALL = IndexSettings.model_validate({"heap": "15MiB"})
STORY = " ".join(f"the {colour} spider of {place} hunts {prey} by night" for colour in ("grey", "brown", "black") for place in
                 ("Tarent", "Apulia", "Naples", "Rome") for prey in ("moths", "crickets"))  # fmt: skip


def test_precision_and_recall_of_planted_pairs(tmp_path: Path) -> None:
    """Pairs share 0.8 of their text."""
    quality = measure(planted(600), tmp_path)
    assert quality.true > 200
    assert quality.precision >= 0.95, quality
    assert quality.recall >= 0.94, quality


@pytest.mark.parametrize("shared", [0, 100, 900, 4_000])
def test_similarity_is_exact_for_small_sets_and_close_for_large_ones(shared: int) -> None:
    generator = np.random.default_rng(shared)
    drawn = np.unique(generator.integers(0, 2**32, 6_000, np.uint32))
    generator.shuffle(drawn)
    one, other = (
        np.sort(drawn[: shared + 60]),
        np.sort(np.concatenate([drawn[:shared], drawn[-60:]])),
    )
    true = shared / (shared + 120)
    result = similarity(one[:SKETCH], other[:SKETCH])
    assert result == pytest.approx(true, abs=1e-9 if shared + 60 < SKETCH else 0.02)


def test_candidates_of_a_large_band_grow_linearly() -> None:
    """Each of 10,000 texts in a band is compared with a few others."""
    numbers = np.arange(10_000)
    pairs = candidates(np.zeros(10_000, np.uint64), numbers)
    assert pairs.size < 10_000 * 9
    assert {(0 << 32) | other for other in range(1, 10_000)} <= set(pairs.tolist())
    assert candidates(np.arange(100, dtype=np.uint64), numbers[:100]).size == 0


def test_near_texts_do_not_depend_on_the_order_in_which_they_are_read() -> None:
    """Compaction changes the order. Of a template's 200 texts not all pairs are compared."""
    generator = np.random.default_rng(5)
    shared = generator.integers(0, 2**63, 300, np.uint64)
    texts = {
        key: shingles(np.append(shared, generator.integers(0, 2**63, 20, np.uint64)), 3)
        for key in range(1, 201)
    }
    found = []
    for order in (list(texts), list(generator.permutation(list(texts)))):
        with tempfile.NamedTemporaryFile() as one, tempfile.NamedTemporaryFile() as other:
            sketches = Sketches(one.file, other.file)
            for key in order:
                sketches.add(texts[key])
            near = sketches.near(np.array(order, np.uint64))
            found.append({frozenset((order[a], order[b])) for a, b, _ in near})
    assert 200 <= len(found[0]) < 199 * 200 / 2
    assert found[0] == found[1]


def test_a_chain_of_similar_texts_is_not_one_group() -> None:
    """0 represents 1. 2 is similar to 1 only, so it represents itself and 3."""
    assert stars([(0, 1), (1, 2), (2, 3)], np.arange(4)) == {0: 0, 1: 0, 2: 2, 3: 2}


def test_texts_that_are_too_short_are_not_compared() -> None:
    assert shingles(np.arange(2, dtype=np.uint64), 3).size == 0
    with tempfile.NamedTemporaryFile() as one, tempfile.NamedTemporaryFile() as other:
        sketches = Sketches(one.file, other.file)
        assert list(sketches.near(np.zeros(0, np.uint64))) == []
        sketches.add(shingles(np.arange(MIN_SHINGLES + 3, dtype=np.uint64), 3))
        sketches.add(shingles(np.arange(MIN_SHINGLES + 3, dtype=np.uint64), 3))
        assert list(sketches.near(np.array([7, 3], np.uint64))) == [(0, 1, 1.0)]


def page(text: str, canonical: str = "") -> Page:
    return page_without_digest(text, canonical=canonical, text_digest=text_digest(text))


def hits(corpus: Corpus, query: str, *, folded: bool = True) -> dict[str, int]:
    return {
        hit.url: hit.copies
        for hit in Searcher(corpus.root)
        .search(SearchRequest(query, per_host=0, folded=folded))
        .hits
    }


def test_search_groups_near_duplicates(corpus: Corpus) -> None:
    corpus.commit(
        [
            ("http://a.test/story", page(f"{STORY} written today")),
            (
                "http://a.test/story-for-print",
                page(f"{STORY} written yesterday", canonical="http://a.test/story"),
            ),
            ("http://b.test/s", page(f"{STORY} seen elsewhere")),
            (
                "http://c.test/other",
                page(
                    "a tarantula is a spider that waits in a burrow for whatever may come by " * 3
                ),
            ),
        ]
    )
    with Indexer(corpus.root, SMALL) as indexer:
        indexer.update()
        assert set(hits(corpus, "spider").values()) == {0}
        make_generation(corpus.workspace)
        assert indexer.update().put == 4
        result = hits(corpus, "spider")
        assert (len(result), sorted(result.values())) == (2, [0, 2])
        assert len(hits(corpus, "spider", folded=False)) == 4
        # A copy whose text changed is separate at once, before the next ranking.
        corpus.commit([("http://b.test/s", page("quite another text about a spider that jumps"))])
        indexer.update()
        assert hits(corpus, "spider jumps")["http://b.test/s"] == 0
        make_generation(corpus.workspace)
        assert indexer.update().put == 1
        assert sorted(hits(corpus, "spider").values()) == [0, 0, 1]


def test_a_shared_notice_or_menu_does_not_make_pages_near_duplicates(corpus: Corpus) -> None:
    """Some main texts are only the notice; others are short next to a menu."""
    notice = (
        "this site is kept by volunteers who ask for gifts so that it may stay as it is for "
        "everybody who reads it " * 2
    )
    menu = " ".join(f"menu entry {number} leads somewhere" for number in range(60))
    one, other = (
        " ".join(f"{word} chapter {number} tells more" for number in range(40))
        for word in ("spiders", "moths")
    )
    pages = [
        ("contents", notice, f"{one} {notice}"),
        ("index", notice, f"{other} {notice}"),
        ("a", one[:300], f"{menu} {one[:300]}"),
        ("b", other[:300], f"{menu} {other[:300]}"),
        ("a-again", one[:300], f"{menu} {one[:300]} printed"),
    ]
    corpus.commit(
        (
            f"http://h.test/{name}",
            Page(main_text=main, text=text, language="en", text_digest=text_digest(text)),
        )
        for name, main, text in pages
    )
    assert groups(corpus) == [{"a", "a-again"}]


def groups(corpus: Corpus) -> list[set[str]]:
    names: dict[int, set[str]] = {}
    for url, group, _ in grouped_pages(corpus):
        names.setdefault(group, set()).add(url.rpartition("/")[2])
    return list(names.values())


def grouped_pages(corpus: Corpus) -> list[tuple[str, int, str]]:
    """Rank, and return URL, group and canonical URL of all pages in groups."""
    make_generation(corpus.workspace)
    signals = link_signals_of(corpus.workspace, range(corpus.workspace.partitions))
    assert signals is not None
    urls = {key: url for url, key in url_keys(corpus).items()}
    rows = signals.pages().filter(pl.col("group") != 0).select("url_key", "group", "canonical")
    return [(urls[key], group, urls[canonical]) for key, group, canonical in rows.iter_rows()]


def test_the_declared_canonical_page_represents_its_group(corpus: Corpus) -> None:
    corpus.commit(
        [
            ("http://a.test/s", page(f"{STORY} one")),
            ("http://a.test/the-story-itself", page(f"{STORY} two")),
            ("http://a.test/p", page(f"{STORY} three", canonical="http://a.test/the-story-itself")),
            ("http://a.test/p2", page(f"{STORY} three")),
        ]
    )
    rows = grouped_pages(corpus)
    assert [url for _, _, url in rows] == ["http://a.test/the-story-itself"] * 4
    assert len({group for _, group, _ in rows}) == 1


def canonical_pages(corpus: Corpus) -> set[str]:
    rows = grouped_pages(corpus)
    assert len({group for _, group, _ in rows}) == 1
    return {url for _, _, url in rows}


@pytest.mark.parametrize(
    ("english", "untranslated", "german"),
    [
        (
            "http://a.test/english/manual/story.html",
            "http://a.test/de/story.html",
            "http://a.test/de/x",
        ),
        (
            "http://a.test/manual/story.en.html",
            "http://a.test/story.de.html",
            "http://a.test/x.de.html",
        ),
        ("http://a.test/en/the/story/itself", "http://a.test/story", "http://a.test/x"),
    ],
)
def test_a_page_in_its_declared_language_represents_its_group(
    corpus: Corpus, english: str, untranslated: str, german: str
) -> None:
    """An untranslated English text below `/de/` is not chosen.

    Its URL is the shortest.
    """
    text = "Die Wolfspinne jagt in der Nacht und wartet nicht in einem Netz wie andere Spinnen."
    corpus.commit(
        [
            (untranslated, page(f"{STORY} one")),
            (english, page(f"{STORY} two")),
            (german, page(text)),
        ]
    )
    assert canonical_pages(corpus) == {english}


def test_two_letter_path_segments_are_not_always_languages(corpus: Corpus) -> None:
    """`/is/` is Icelandic only on sites with Icelandic pages or hreflang."""
    corpus.commit(
        [
            ("http://a.test/is/s", page(f"{STORY} one")),
            ("http://a.test/a/longer/one", page(f"{STORY} two")),
        ]
    )
    assert canonical_pages(corpus) == {"http://a.test/is/s"}
    output = page(f"{STORY} three")
    output.alternates = [
        Alternate("en-GB", "http://a.test/the/longest/of/all"),
        Alternate("de", "http://a.test/de/x"),
    ]
    corpus.commit([("http://a.test/the/longest/of/all", output)])
    assert canonical_pages(corpus) == {"http://a.test/the/longest/of/all"}
