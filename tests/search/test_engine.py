from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.core.config import IndexSettings
from lycosa.core.errors import WorkspaceError
from lycosa.core.records import Page
from lycosa.index.indexer import Indexer
from lycosa.search.engine import Searcher, SearchRequest, SearchResults
from lycosa.store.tables import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analyzer_for
from tests.index.corpus import Corpus, page
from tests.text.data import declaration, declaration_languages

SMALL = IndexSettings.model_validate({"heap": "15MiB"})

PAGES = {
    "http://docs.alpha.test/asyncio/event-loop.html": page(
        "The event loop runs asynchronous tasks and callbacks.", title="Event Loop", headings=["Running the loop"], around="Home Imprint"
    ),
    "http://docs.alpha.test/asyncio/tasks.html": page(
        "Tasks are run by the loop. An event is set by a task. Every loop is different.", title="Tasks", around="Home Imprint"
    ),
    "http://blog.alpha.test/garden": page("A garden in spring. The event was nice.", title="Garden", published_at=1_500_000_000_000),
    "http://beta.test/haus": page("Das Haus steht an der Straße. Die Häuser sind alt.", title="Häuser", language="de"),
    "http://beta.test/maison": page("La maison est grande. L’été à la plage.", title="Maison", language="fr"),
    "http://beta.test/zh": page("人人生而自由，在尊严和权利上一律平等。", title="人权", language="zh"),
    "http://beta.test/c": page("Programs in C++ and C# use .NET.", title="Languages", language="en"),
    "http://other.test/": page("Welcome. This site has an event calendar.", title="Start", language="en", description="What goes on"),
}  # fmt: skip


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    corpus = Corpus(str(tmp_path_factory.mktemp("search") / "workspace"))
    corpus.commit(PAGES.items())
    with Indexer(corpus.root, SMALL) as indexer:
        indexer.update()
    return Searcher(corpus.root)


def urls(results: SearchResults) -> list[str]:
    return [hit.url.removeprefix("http://") for hit in results.hits]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("callbacks", {"docs.alpha.test/asyncio/event-loop.html"}),
        ("CALLBACK", {"docs.alpha.test/asyncio/event-loop.html"}),
        ('"event loop"', {"docs.alpha.test/asyncio/event-loop.html"}),
        ('"loop event"', set()),
        ("event -loop", {"blog.alpha.test/garden", "other.test/"}),
        ('event -"event loop"', {"docs.alpha.test/asyncio/tasks.html", "blog.alpha.test/garden", "other.test/"}),
        ("event site:alpha.test -loop", {"blog.alpha.test/garden"}),
        ("event site:blog.alpha.test", {"blog.alpha.test/garden"}),
        ("event -site:alpha.test", {"other.test/"}),
        ("site:lpha.test event", set()),
        ("imprint", {"docs.alpha.test/asyncio/event-loop.html", "docs.alpha.test/asyncio/tasks.html"}),
        ("asyncio", {"docs.alpha.test/asyncio/event-loop.html", "docs.alpha.test/asyncio/tasks.html"}),
        ("haus", {"beta.test/haus"}),
        ("strasse", {"beta.test/haus"}),
        ("ete", {"beta.test/maison"}),
        ("été", {"beta.test/maison"}),
        ("lang:de haus", {"beta.test/haus"}),
        ("lang:fr haus", {"beta.test/haus"} - {"beta.test/haus"}),
        ("自由", {"beta.test/zh"}),
        ("而自", {"beta.test/zh"}),
        ("权利", {"beta.test/zh"}),
        ("人权", {"beta.test/zh"}),
        ("c++", {"beta.test/c"}),
        ("C#", {"beta.test/c"}),
        (".net", {"beta.test/c"}),
        ("goes", {"other.test/"}),
        ("lang:zh", {"beta.test/zh"}),
        ("site:beta.test -lang", {"beta.test/haus", "beta.test/maison", "beta.test/zh", "beta.test/c"}),
    ],
)
def test_queries(searcher: Searcher, query: str, expected: set[str]) -> None:
    results = searcher.search(SearchRequest(query, 20))
    assert set(urls(results)) == expected
    assert results.total == len(expected)
    assert results.notes == []


def test_a_title_ranks_above_a_mention(searcher: Searcher) -> None:
    assert urls(searcher.search(SearchRequest("event loop")))[0] == "docs.alpha.test/asyncio/event-loop.html"
    assert urls(searcher.search(SearchRequest("tasks")))[0] == "docs.alpha.test/asyncio/tasks.html"


def test_a_common_word_is_common_in_every_language(tmp_path: Path) -> None:
    """`the` is rare among Vietnamese pages; still the English pages, which hold it oftener, come first."""
    corpus = Corpus(str(tmp_path / "workspace"))
    english = [(f"http://en.test/{number}", page(f"the page number {number} of the manual", language="en")) for number in range(30)]
    vietnamese = [(f"http://vi.test/{number}", page(f"trang sách số {number}", language="vi")) for number in range(30)]
    mention = ("http://vi.test/mention", page("bài viết về the trong tiếng Anh và những điều khác", language="vi"))
    corpus.commit([*english, *vietnamese, mention])
    with Indexer(corpus.root, SMALL) as indexer:
        indexer.update()
    results = Searcher(corpus.root).search(SearchRequest("the", 40))
    assert results.total == 31
    assert results.hits[-1].url == "http://vi.test/mention"


def test_few_pages_with_all_words_bring_others_behind_them(searcher: Searcher) -> None:
    results = searcher.search(SearchRequest("callbacks event garden"))
    assert results.notes == ["no page holds all the words; these hold some of them"]
    assert {"docs.alpha.test/asyncio/event-loop.html", "blog.alpha.test/garden"} <= set(urls(results))
    results = searcher.search(SearchRequest("spring event"))
    assert results.notes == ["1 page holds all the words; the others hold some of them"]
    assert urls(results)[0] == "blog.alpha.test/garden"
    assert results.total == len(results.hits) > 1
    assert len(set(urls(results))) == len(results.hits)


def test_relaxed_results_page_without_gaps(searcher: Searcher) -> None:
    whole = urls(searcher.search(SearchRequest("spring event", 10)))
    parts = [urls(searcher.search(SearchRequest("spring event", 1, offset))) for offset in range(len(whole))]
    assert [part[0] for part in parts] == whole


def test_paging(searcher: Searcher) -> None:
    whole = searcher.search(SearchRequest("event", 10))
    pages = [searcher.search(SearchRequest("event", 2, offset)) for offset in (0, 2, 4)]
    assert [url for part in pages for url in urls(part)] == urls(whole)
    assert {part.total for part in pages} == {whole.total} == {4}
    assert searcher.search(SearchRequest("event", 10, 50)).hits == []
    assert searcher.search(SearchRequest("event", 0)).total == 4
    assert searcher.search(SearchRequest("event", -3, -3)).total == 4


def test_narrowing_from_outside_the_query(searcher: Searcher) -> None:
    assert urls(searcher.search(SearchRequest("event", host="blog.alpha.test"))) == ["blog.alpha.test/garden"]
    assert urls(searcher.search(SearchRequest("event site:alpha.test", host="other.test"))) == []
    assert searcher.search(SearchRequest("event", collection="default")).total == 4
    assert searcher.search(SearchRequest("event", collection="nosuch")).total == 0
    assert urls(searcher.search(SearchRequest("Häusern", language="de"))) == ["beta.test/haus"]
    assert searcher.search(SearchRequest("event", language="ja")).total == 0


def test_a_hit_shows_the_page(searcher: Searcher) -> None:
    (hit,) = searcher.search(SearchRequest("garden")).hits
    assert (hit.title, hit.language, hit.host, hit.collection) == ("Garden", "en", "blog.alpha.test", "default")
    assert hit.published_at == 1_500_000_000_000
    assert hit.fetched_at > hit.published_at
    assert hit.score > 0
    assert ("garden", True) in hit.snippet
    assert hit.marked_title == [("Garden", True)]


@pytest.mark.parametrize("query", ["", "   ", "!!!", '"', "-", "--", '""""', "(", "+", "*", "?", "\x00", "\ud800", "a" * 100_000, "😀"])
def test_odd_queries_get_an_answer(searcher: Searcher, query: str) -> None:
    results = searcher.search(SearchRequest(query))
    assert results.hits == []
    assert results.total == 0


@given(
    st.text(
        alphabet=st.one_of(st.sampled_from(' "-:+*?()[]{}^~\\/event loop site:lang:de人'), st.characters(exclude_categories=())),
        max_size=60,
    )
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_is_an_error(searcher: Searcher, query: str) -> None:
    results = searcher.search(SearchRequest(query))
    assert results.total >= len(results.hits)


def test_a_folder_that_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"not a workspace.*lycosa crawl"):
        Searcher(str(tmp_path))


def test_a_workspace_without_an_index(tmp_path: Path) -> None:
    Workspace.create(str(tmp_path / "w"))
    searcher = Searcher(str(tmp_path / "w"))
    results = searcher.search(SearchRequest("anything"))
    assert (results.total, results.hits, results.generation, results.notes) == (0, [], 0, ["nothing is indexed yet"])
    assert not searcher.reload()


def test_threads_share_a_searcher(searcher: Searcher) -> None:
    expected = urls(searcher.search(SearchRequest("event")))
    answers: list[list[str]] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            answers.extend(urls(searcher.search(SearchRequest("event"))) for _ in range(30))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert answers == [expected] * 120


def test_a_search_imports_no_table_library(searcher: Searcher) -> None:
    code = "import sys; import lycosa.search.engine; print([m for m in ('polars', 'pyarrow', 'pydantic', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.fixture(scope="module")
def declarations(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    """The Universal Declaration in 27 languages, an article a page."""
    if not declaration_languages():
        pytest.skip("the declarations are not there (set LYCOSA_TEST_DATA)")
    corpus = Corpus(str(tmp_path_factory.mktemp("declarations") / "workspace"))
    buffers = Buffers()
    for stem in declaration_languages():
        for number, text in declaration(stem).items():
            article: Page = page(text, language=stem.split("-")[0])
            corpus.add(buffers, f"http://{stem}.test/{number}", article)
    corpus.commit_buffers(buffers)
    with Indexer(corpus.root, SMALL) as indexer:
        assert indexer.update().documents == 28 * 30
    return Searcher(corpus.root)


@pytest.mark.parametrize("stem", declaration_languages())
def test_every_article_is_found_by_its_own_rare_words(declarations: Searcher, stem: str) -> None:
    """Without saying the language, the three words that fewest articles share find the article, first of all."""
    articles = declaration(stem)
    analyzer = analyzer_for(stem.split("-")[0])
    units = {number: [unit for unit in analyzer.units(text) if len("".join(unit.phrase)) > 1] for number, text in articles.items()}
    spread = Counter(phrase for words in units.values() for phrase in {unit.phrase for unit in words})
    first = 0
    for number, words in units.items():
        distinct = {unit.phrase: unit for unit in words}.values()
        rare = sorted(distinct, key=lambda unit: (spread[unit.phrase], -len("".join(unit.phrase))))[:3]
        query = " ".join(unit.surface for unit in rare)
        found = urls(declarations.search(SearchRequest(query)))
        assert f"{stem}.test/{number}" in found, query
        first += found[0] == f"{stem}.test/{number}"
    # A word may stand in another language's article too; Chinese in two scripts shares many.
    assert first >= (24 if stem == "zh" else 28)


@pytest.mark.parametrize("stem", declaration_languages())
def test_a_phrase_finds_its_article(declarations: Searcher, stem: str) -> None:
    for number in (4, 17, 26):
        line = declaration(stem)[number].split("\n")[0]
        phrase = line[:12] if stem in ("zh", "zh-hant", "ja") else " ".join(line.split()[:4])
        results = declarations.search(SearchRequest(f'"{phrase}"', 50))
        assert f"{stem}.test/{number}" in urls(results), phrase
        assert any(match for hit in results.hits for _, match in hit.snippet)
