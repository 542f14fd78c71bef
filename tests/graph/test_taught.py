"""Pages in several languages teach translations: found by path and by hreflang, aligned, learned, published by rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.core.records import Alternate, Link
from lycosa.graph.generation import make_generation, newest
from lycosa.graph.parallel import find_parallel, place_of
from lycosa.graph.taught import table_name
from lycosa.store.live import LiveTables
from lycosa.text.translation.table import TranslationTable
from tests.index.corpus import Corpus, page
from tests.text.data import sib200_numbered

SENTENCES_A_PAGE = 25


@pytest.mark.parametrize(
    ("url", "language", "place"),
    [
        ("http://a.test/de/x.html", "de", "http://a.test/x.html"),
        ("http://a.test/x.de.html", "de", "http://a.test/x.html"),
        ("http://a.test/x.html.de", "de", "http://a.test/x.html"),
        ("http://a.test/zh_CN/x", "zh", "http://a.test/x"),
        ("http://a.test/x.pt-br.html", "pt", "http://a.test/x.html"),
        ("http://de.a.test/x", "de", "http://a.test/x"),
        ("http://a.test/x?lang=de&y=1", "de", "http://a.test/x?lang&y=1"),
        ("http://a.test/jp/x", "ja", "http://a.test/x"),
    ],
)
def test_the_language_in_a_path_is_taken_out(url: str, language: str, place: str) -> None:
    assert place_of(url, language) == (place, True)


@pytest.mark.parametrize(
    ("url", "language"), [("http://a.test/de/x.html", "fr"), ("http://de/x", "de"), ("http://a.test/index.html", "de")]
)
def test_a_path_that_names_another_language_says_nothing(url: str, language: str) -> None:
    assert place_of(url, language) == (url, False)


@pytest.fixture
def taught(tmp_path: Path) -> Corpus:
    """The first part of SIB-200 as pages of English, German and Chinese; German by path, Chinese by what pages say."""
    corpus = Corpus(str(tmp_path / "w"))
    texts = {language: [text for number, text in sib200_numbered(language) if number % 5] for language in ("en", "de", "zh")}
    pages = []
    for start in range(0, len(texts["en"]), SENTENCES_A_PAGE):
        chunk = {language: "\n".join(listed[start : start + SENTENCES_A_PAGE]) for language, listed in texts.items()}
        chinese = f"http://other.test/page-{start}"
        pages.append((f"http://a.test/en/{start}.html", page(chunk["en"], language="en", alternates=[Alternate("zh", chinese)])))
        pages.append((f"http://a.test/de/{start}.html", page(chunk["de"], language="de")))
        pages.append((chinese, page(chunk["zh"], language="zh")))
    pages.append(("http://a.test/en/alone.html", page("This page stands alone.", language="en")))
    corpus.commit(pages)
    return corpus


def test_rank_learns_from_translated_pages(taught: Corpus) -> None:
    parallel = find_parallel(LiveTables(taught.workspace))
    expected = len(range(0, 556, SENTENCES_A_PAGE))
    assert parallel.hub == "en"
    assert dict(parallel.pairs.group_by("language").len().iter_rows()) == {"de": expected, "zh": expected}
    info = make_generation(taught.workspace)
    assert info.translations == 2
    found = newest(taught.workspace)
    assert found is not None
    german = TranslationTable(found[1] / table_name("en", "de"))
    assert german.info.kind == "crawl"
    assert german.lookup("water", "en", "de")[0].key == "wass"
    assert german.lookup("wass", "de", "en")[0].surface.lower() == "water"
    chinese = TranslationTable(found[1] / table_name("en", "zh"))
    assert "水" in {each.key for each in chinese.lookup("water", "en", "zh")[:3]}


def test_language_bars_pair_pages_but_not_with_home_pages(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    pages = [("http://a.test/start", page("Die erste Seite.", language="de"))]
    for number in range(3):
        bar = [
            Link(f"http://a.test/seite-{number}", " Deutsch ", "", "a", 0),
            Link("http://a.test/start", "Deutsch", "", "a", 1),
            Link(f"http://a.test/seite-{number}", "Français", "", "a", 2),
            Link("http://a.test/absent", "中文", "", "a", 3),
        ]
        pages.append((f"http://a.test/page-{number}", page("An English page.", language="en", links=bar)))
        pages.append((f"http://a.test/seite-{number}", page("Eine deutsche Seite.", language="de")))
    corpus.commit(pages)
    found = find_parallel(LiveTables(corpus.workspace)).pairs
    assert dict(found.group_by("language").len().iter_rows()) == {"de": 3}
    assert found["hub_url_key"].n_unique() == 3


def test_without_translated_pages_nothing_is_learned(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    corpus.commit([("http://a.test/", page("One page in one language.", language="en"))])
    assert make_generation(corpus.workspace).translations == 0
