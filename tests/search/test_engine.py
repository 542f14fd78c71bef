"""Search in one workspace: operators, ranking, paging, facets, groups."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lycosa.core.errors import WorkspaceError
from lycosa.core.records import Link, Metadata, Page
from lycosa.index.schema import SCHEMA_VERSION
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.query.syntax import BY_NAME
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analyzer_for
from tests.index.corpus import Corpus, page
from tests.search.shards import short_urls
from tests.text.data import declaration, declaration_languages


def link(target: str, anchor: str = "") -> Link:
    return Link(target, anchor, "", "a", 0)


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
    return Corpus(str(tmp_path_factory.mktemp("search") / "workspace")).indexed(PAGES.items())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("callbacks", {"docs.alpha.test/asyncio/event-loop.html"}),
        ("CALLBACK", {"docs.alpha.test/asyncio/event-loop.html"}),
        ('"event loop"', {"docs.alpha.test/asyncio/event-loop.html"}),
        (
            'loop -"loop event"',
            {"docs.alpha.test/asyncio/event-loop.html", "docs.alpha.test/asyncio/tasks.html"},
        ),
        ("event -loop", {"blog.alpha.test/garden", "other.test/"}),
        (
            'event -"event loop"',
            {"docs.alpha.test/asyncio/tasks.html", "blog.alpha.test/garden", "other.test/"},
        ),
        ("event site:alpha.test -loop", {"blog.alpha.test/garden"}),
        ("event site:blog.alpha.test", {"blog.alpha.test/garden"}),
        ("event -site:alpha.test", {"other.test/"}),
        ("site:lpha.test event", set()),
        (
            "imprint",
            {"docs.alpha.test/asyncio/event-loop.html", "docs.alpha.test/asyncio/tasks.html"},
        ),
        (
            "asyncio",
            {"docs.alpha.test/asyncio/event-loop.html", "docs.alpha.test/asyncio/tasks.html"},
        ),
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
        (
            "site:beta.test -lang",
            {"beta.test/haus", "beta.test/maison", "beta.test/zh", "beta.test/c"},
        ),
    ],
)
def test_queries_find_words_phrases_and_sites(
    searcher: Searcher, query: str, expected: set[str]
) -> None:
    results = searcher.search(SearchRequest(query, 20))
    assert (set(short_urls(results)), results.total, results.notes) == (expected, len(expected), [])


def test_title_match_ranks_above_text_match(searcher: Searcher) -> None:
    assert (
        short_urls(searcher.search(SearchRequest("event loop")))[0]
        == "docs.alpha.test/asyncio/event-loop.html"
    )
    assert (
        short_urls(searcher.search(SearchRequest("tasks")))[0]
        == "docs.alpha.test/asyncio/tasks.html"
    )


def test_document_frequency_is_counted_over_all_languages(corpus: Corpus) -> None:
    """`the` is rare in Vietnamese pages; still the English pages with it rank first."""
    english = [
        (f"http://en.test/{number}", page(f"the page number {number} of the manual", language="en"))
        for number in range(30)
    ]
    vietnamese = [
        (f"http://vi.test/{number}", page(f"trang sách số {number}", language="vi"))
        for number in range(30)
    ]
    mention = (
        "http://vi.test/mention",
        page("bài viết về the trong tiếng Anh và những điều khác", language="vi"),
    )
    corpus.commit_and_index([*english, *vietnamese, mention])
    results = Searcher(corpus.root).search(SearchRequest("the", 40, per_host=0))
    assert (results.total, results.hits[-1].url) == (31, "http://vi.test/mention")


def test_pages_with_some_words_follow_pages_with_all_words(searcher: Searcher) -> None:
    results = searcher.search(SearchRequest("callbacks event garden"))
    assert results.notes == ["no page contains all the words; these contain some of them"]
    assert {"docs.alpha.test/asyncio/event-loop.html", "blog.alpha.test/garden"} <= set(
        short_urls(results)
    )
    results = searcher.search(SearchRequest("spring event"))
    assert results.notes == ["1 page contains all the words; the others contain some of them"]
    assert short_urls(results)[0] == "blog.alpha.test/garden"
    assert results.total == len(results.hits) > 1
    assert len(set(short_urls(results))) == len(results.hits)


def test_words_replace_phrases_that_no_page_contains(searcher: Searcher) -> None:
    def note(phrase: str) -> str:
        return f"no page contains the phrase {phrase}; its words were searched for instead"

    loops = {"docs.alpha.test/asyncio/event-loop.html", "docs.alpha.test/asyncio/tasks.html"}
    results = searcher.search(SearchRequest('"loop event"'))
    assert (set(short_urls(results)[:2]), results.notes[0]) == (loops, note('"loop event"'))
    assert [text for text, match in results.hits[0].snippet if match]
    # phrases that a page contains stay, as does what is excluded
    results = searcher.search(SearchRequest('"event loop" intitle:"loop event" -"tasks and loops"'))
    assert short_urls(results)[0] == "docs.alpha.test/asyncio/event-loop.html"
    assert results.notes[0] == note('intitle:"loop event"')
    assert results.notes.count(note('"event loop"')) == 0
    results = searcher.search(SearchRequest('"event loop" OR "loop event"'))
    assert (results.total, results.notes) == (1, [])
    assert searcher.search(SearchRequest('"zebra"')).notes == []
    assert searcher.search(SearchRequest('"event loop" -loop')).notes == []


def test_paging_through_pages_with_some_words(searcher: Searcher) -> None:
    whole = short_urls(searcher.search(SearchRequest("spring event", 10)))
    parts = [
        short_urls(searcher.search(SearchRequest("spring event", 1, offset)))
        for offset in range(len(whole))
    ]
    assert [part[0] for part in parts] == whole


def test_paging(searcher: Searcher) -> None:
    whole = searcher.search(SearchRequest("event", 10))
    pages = [searcher.search(SearchRequest("event", 2, offset)) for offset in (0, 2, 4)]
    assert [url for part in pages for url in short_urls(part)] == short_urls(whole)
    assert {part.total for part in pages} == {whole.total} == {4}
    assert searcher.search(SearchRequest("event", 10, 50)).hits == []
    assert searcher.search(SearchRequest("event", 0)).total == 4
    assert searcher.search(SearchRequest("event", -3, -3)).total == 4


def test_request_parameters_filter_results(searcher: Searcher) -> None:
    assert short_urls(searcher.search(SearchRequest("event", host="blog.alpha.test"))) == [
        "blog.alpha.test/garden"
    ]
    assert (
        short_urls(searcher.search(SearchRequest("event site:alpha.test", host="other.test"))) == []
    )
    assert searcher.search(SearchRequest("event", collection="default")).total == 4
    assert searcher.search(SearchRequest("event", collection="nosuch")).total == 0
    assert short_urls(searcher.search(SearchRequest("Häusern", language="de"))) == [
        "beta.test/haus"
    ]
    assert searcher.search(SearchRequest("event", language="ja")).total == 0


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (SearchRequest("Häusern", language="de-CH"), ["beta.test/haus"]),
        (SearchRequest("event", host="https://Blog.Alpha.test:80/"), ["blog.alpha.test/garden"]),
        (SearchRequest("event", host="blog.alpha.test/nothing"), []),
    ],
)
def test_filters_of_a_request_are_read_like_those_of_a_query(
    searcher: Searcher, request_: SearchRequest, expected: list[str]
) -> None:
    assert short_urls(searcher.search(request_)) == expected


def test_hit_has_the_fields_of_the_page(searcher: Searcher) -> None:
    (hit,) = searcher.search(SearchRequest("garden")).hits
    assert (hit.title, hit.language, hit.host, hit.collection) == (
        "Garden",
        "en",
        "blog.alpha.test",
        "default",
    )
    assert hit.published_at == 1_500_000_000_000
    assert hit.fetched_at > hit.published_at
    assert hit.score > 0
    assert ("garden", True) in hit.snippet
    assert hit.marked_title == [("Garden", True)]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "!!!",
        '"',
        "-",
        "--",
        '""""',
        "(",
        "+",
        "*",
        "?",
        "\x00",
        "\ud800",
        "a" * 100_000,
        "😀",
    ],
)
def test_queries_without_words_return_nothing(searcher: Searcher, query: str) -> None:
    results = searcher.search(SearchRequest(query))
    assert (results.hits, results.total) == ([], 0)


_PIECES = st.sampled_from(
    [
        *' "-:+*?()[]{}^~\\/|',
        " OR ",
        "event",
        "loop",
        "ev*",
        "人",
        "人*",
        "क*",
        "de",
        "2020",
        "a.test/x",
        *(f"{name}:" for name in BY_NAME),
    ]
)


@given(
    st.lists(
        st.one_of(_PIECES, st.text(alphabet=st.characters(exclude_categories=()), max_size=5)),
        max_size=25,
    ).map("".join)
)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_query_is_valid(searcher: Searcher, query: str) -> None:
    results = searcher.search(SearchRequest(query))
    assert results.total >= len(results.hits)


def test_folder_without_workspace_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"not a workspace.*lycosa crawl"):
        Searcher(str(tmp_path))


def test_error_for_an_index_of_another_version_names_the_command(corpus: Corpus) -> None:
    corpus.commit_and_index([("http://a.test/", page("words"))])
    info = next(Path(corpus.root).glob("index/*/generation.json"))
    info.write_text(info.read_text().replace(f'"schema": "{SCHEMA_VERSION}"', '"schema": "1"'))
    with pytest.raises(WorkspaceError, match=r"another version.*`lycosa index`"):
        Searcher(corpus.root)
    assert corpus.index().rebuilt
    assert Searcher(corpus.root).search(SearchRequest("words")).total == 1


def test_workspace_without_index_has_no_results(tmp_path: Path) -> None:
    Workspace.create(str(tmp_path / "w"))
    searcher = Searcher(str(tmp_path / "w"))
    results = searcher.search(SearchRequest("anything"))
    assert (results.total, results.hits, results.generation, results.notes) == (
        0,
        [],
        0,
        ["no page is indexed yet"],
    )
    assert not searcher.reload()


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("query", "expected"),
    [("भाषा*", "hi.test/"), ("भि*", "hi.test/"), ("ภาษาไทย*", "th.test/"), ("c+*", "en.test/")],
)
def test_prefixes_may_have_vowel_signs_and_other_signs(
    tmp_path: Path, query: str, expected: str
) -> None:
    searcher = Corpus(str(tmp_path / "w")).indexed(
        [
            ("http://hi.test/", page("भाषाओं की भिन्नता", language="hi")),
            ("http://th.test/", page("ภาษาไทย สวัสดี", language="th")),
            ("http://en.test/", page("The c-store of words", language="en")),
        ]
    )
    assert short_urls(searcher.search(SearchRequest(query))) == [expected]


LINKED = {
    "http://one.test/docs/guide.html": page(
        "All about spiders and their silk.",
        title="Guide to spiders",
        links=[link("http://two.test/a"), link("http://one.test/docs/")],
    ),
    "http://one.test/docs/": page(
        "Spiders live here. Nothing else to see.",
        title="Index",
        links=[link("http://one.test/docs/guide.html")],
    ),
    "http://one.test/blog/news": page(
        "Spiders in the news.",
        title="News",
        published_at=1_750_000_000_000,
        page_type="service",
        metadata=Metadata(type="NewsArticle", authors=["Jané Doe", "John Roe"]),
    ),
    "http://www.one.test/docs/paper.pdf": page("Spiders in a document of its own.", title="Paper"),
    "http://two.test/a": page(
        "A programmer's programme about programming.",
        title="Programs",
        published_at=1_600_000_000_000,
    ),
    "http://two.test/b": page("Die Programme der Spinnen.", title="Programm", language="de"),
    "http://three.test/": page(
        "Wolf spiders hunt; wolves do too.", title="Wolf", links=[link("http://two.test/a?x=1")]
    ),
}


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    corpus = Corpus(str(tmp_path_factory.mktemp("linked") / "workspace"))
    news = "http://one.test/blog/news"
    corpus.commit([(url, each) for url, each in LINKED.items() if url != news])
    corpus.commit(
        [("http://four.test/", page("Spiders elsewhere.", title="Four"))], collection="other"
    )
    corpus.clock = 1_750_000_600_000
    return corpus.indexed([(news, LINKED[news])])


ONE_DOCS = {"one.test/docs/guide.html", "one.test/docs/", "www.one.test/docs/paper.pdf"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("site:one.test/docs", ONE_DOCS),
        ("site:one.test/docs/guide.html", {"one.test/docs/guide.html"}),
        ("site:one.test/doc", set()),
        ("spiders -site:one.test/docs", {"one.test/blog/news", "three.test/", "four.test/"}),
        ("spiders site:three.test OR site:four.test", {"three.test/", "four.test/"}),
        ("intitle:spiders", {"one.test/docs/guide.html"}),
        ("intitle:spiders OR intitle:wolf", {"one.test/docs/guide.html", "three.test/"}),
        (
            "spiders -intitle:guide -inurl:blog site:one.test",
            {"one.test/docs/", "www.one.test/docs/paper.pdf"},
        ),
        ("inurl:guide", {"one.test/docs/guide.html"}),
        ("inurl:guide.html", {"one.test/docs/guide.html"}),
        ("inurl:https://one.test/docs/guide.html", {"one.test/docs/guide.html"}),
        ("http://one.test/docs/guide.html", {"one.test/docs/guide.html"}),
        ("inurl:docs spiders", ONE_DOCS),
        ("inanchor:guide", set()),
        ("filetype:pdf", {"www.one.test/docs/paper.pdf"}),
        ("spiders -filetype:html", {"www.one.test/docs/paper.pdf"}),
        ("type:article", {"one.test/blog/news"}),
        ("type:NewsArticle spiders", {"one.test/blog/news"}),
        ("type:service", set()),
        ("spiders -type:article site:one.test", ONE_DOCS),
        ("author:jane", {"one.test/blog/news"}),
        ('author:"Doe Jane"', {"one.test/blog/news"}),
        ('author:"Jane Poe"', set()),
        ("spiders -author:roe site:one.test", ONE_DOCS),
        ("collection:other", {"four.test/"}),
        ("spiders -collection:default", {"four.test/"}),
        ("link:two.test", {"one.test/docs/guide.html", "three.test/"}),
        ("link:two.test/a", {"one.test/docs/guide.html"}),
        ("link:https://two.test/a", set()),
        ("link:http://two.test/a?x=1", {"three.test/"}),
        ("link:one.test", set()),
        ("link:one.test/docs/", {"one.test/docs/guide.html"}),
        (
            "spiders -link:two.test site:one.test/docs",
            {"one.test/docs/", "www.one.test/docs/paper.pdf"},
        ),
        ("before:2021", {"two.test/a"}),
        ("before:2020-09-13", set()),
        ("after:2025-06-15 site:one.test", {"one.test/blog/news"}),
        ("after:2025-06-16 site:one.test", set()),
        ("programm*", {"two.test/a", "two.test/b"}),
        ("program* lang:en", {"two.test/a"}),
        ("PROGRAM* -programme*", set()),
        ("silk OR hunt", {"one.test/docs/guide.html", "three.test/"}),
        (
            "spiders -(silk OR hunt OR news) site:one.test",
            {"one.test/docs/", "www.one.test/docs/paper.pdf"},
        ),
        ("(spiders silk) OR (wolf hunt)", {"one.test/docs/guide.html", "three.test/"}),
        ('"wolf spiders" OR "their silk"', {"one.test/docs/guide.html", "three.test/"}),
        ("lang:de,en programme", {"two.test/a", "two.test/b"}),
        ("-lang:en", {"two.test/b"}),
    ],
)
def test_operators(linked: Searcher, query: str, expected: set[str]) -> None:
    results = linked.search(SearchRequest(query, 20))
    assert (set(short_urls(results)), results.total) == (expected, len(expected))


def test_nested_groups(linked: Searcher) -> None:
    results = linked.search(SearchRequest("spiders (silk OR (wolf hunt))", 20))
    assert set(short_urls(results)[:2]) == {"one.test/docs/guide.html", "three.test/"}
    assert results.notes == ["2 pages contain all the words; the others contain some of them"]


def test_prefix_matches_are_highlighted(linked: Searcher) -> None:
    (hit, *_) = linked.search(SearchRequest("progra* lang:en")).hits
    assert [text for text, match in hit.snippet if match] == [
        "programmer",
        "programme",
        "programming",
    ]


def test_function_words_are_not_highlighted_beside_other_words(corpus: Corpus) -> None:
    """The snippet is the part with the words that say something, not the one with most "the"."""
    often = "The end of the day is the start of the night. " * 8
    text = f"{often}Here a wolf spider waits. {often}"
    corpus.commit_and_index([("http://one.test/", page(text, title="The wolf"))])
    searcher = Searcher(corpus.root)
    for query, marked in (
        ("the wolf of the", {"wolf"}),
        ("the of", {"the", "of"}),
        ('"the start" wolf', {"the start", "wolf"}),
    ):
        (hit,) = searcher.search(SearchRequest(query)).hits
        assert {piece.lower() for piece, match in hit.snippet if match} == marked, query


def test_results_sorted_by_date(linked: Searcher) -> None:
    for request in (
        SearchRequest("programme OR news sort:date"),
        SearchRequest("programme OR news", order="date"),
    ):
        dates = [hit.published_at or hit.fetched_at for hit in linked.search(request).hits]
        assert (dates, len(dates)) == (sorted(dates, reverse=True), 3)


def test_facets_count_all_matching_pages(linked: Searcher) -> None:
    results = linked.search(
        SearchRequest("spiders", 1, facets=("language", "host", "collection", "type", "date"))
    )
    assert (results.total, results.facets["language"]) == (6, {"en": 6})
    assert (results.facets["host"], results.facets["collection"], results.facets["type"]) == (
        {
            "one.test": 3,
            "four.test": 1,
            "three.test": 1,
            "www.one.test": 1,
        },
        {"default": 5, "other": 1},
        {"html": 5, "pdf": 1},
    )
    assert results.facets["date"] == {"2023": 5, "2025": 1}
    relaxed = linked.search(SearchRequest("silk wolf", facets=("host",)))
    assert relaxed.total == sum(relaxed.facets["host"].values()) == 2


def test_results_are_limited_per_host(corpus: Corpus) -> None:
    many = [
        (f"http://many.test/{number}", page(f"wolf wolf wolf number{number}", language="en"))
        for number in range(5)
    ]
    few = [
        (
            f"http://few{number}.test/",
            page(f"a wolf among many other words {number}", language="en"),
        )
        for number in range(2)
    ]
    searcher = corpus.indexed([*many, *few])

    def hosts(**more: Any) -> str:
        return " ".join(
            hit.host.rstrip("01.tes")
            for hit in searcher.search(SearchRequest("wolf", 10, **more)).hits
        )

    assert hosts() == "many many few few many many many"
    assert hosts(per_host=1) == "many few few many many many many"
    assert hosts(per_host=0) == "many many many many many few few"
    assert hosts(host="many.test") == "many many many many many"
    assert {hit.host: hit.from_host for hit in searcher.search(SearchRequest("wolf")).hits} == {
        "many.test": 5,
        "few0.test": 1,
        "few1.test": 1,
    }
    by_one = [searcher.search(SearchRequest("wolf", 1, offset)).hits[0].url for offset in range(7)]
    assert by_one == [hit.url for hit in searcher.search(SearchRequest("wolf", 7)).hits]


def test_copies_are_grouped_into_one_result(corpus: Corpus) -> None:
    same = [
        (
            f"http://copy{number}.test/",
            page("The very same text about wolves.", language="en", text_digest=7),
        )
        for number in range(400)
    ]
    searcher = corpus.indexed(
        [
            *same,
            (
                "http://other.test/",
                page("Another text about wolves, which is longer than the others.", language="en"),
            ),
        ]
    )
    results = searcher.search(SearchRequest("wolves"))
    assert results.total == 2
    assert [(hit.host[:4], hit.copies) for hit in results.hits] == [("copy", 399), ("othe", 0)]
    assert len(searcher.search(SearchRequest("wolves", 1000, folded=False)).hits) == 401
    assert searcher.search(SearchRequest("wolves site:copy7.test")).total == 1


def test_recent_pages_rank_first(corpus: Corpus) -> None:
    corpus.clock = now = int(time.time() * 1000)
    ages = {
        "old": 400 * DAY_MS,
        "week": 7 * DAY_MS,
        "tomorrow": -DAY_MS // 2,
        "future": -9 * DAY_MS,
    }
    dated = [
        (f"http://{name}.test/", page(f"wolf {name}", language="en", published_at=now - age))
        for name, age in ages.items()
    ]
    corpus.commit_and_index([*dated, ("http://undated.test/", page("wolf undated", language="en"))])
    hits = Searcher(corpus.root).search(SearchRequest("wolf", explain=True)).hits
    factors = {
        hit.host.removesuffix(".test"): hit.explanation.freshness for hit in hits if hit.explanation
    }
    assert list(factors)[:2] == ["tomorrow", "week"]
    assert [factors["tomorrow"], factors["week"]] == pytest.approx([1.5, 1.25], abs=0.01)
    assert factors["future"] == factors["undated"] == 1.0
    newest = Searcher(corpus.root).search(SearchRequest("wolf sort:date")).hits
    assert {hit.host for hit in newest[-2:]} == {"week.test", "old.test"}


def test_explanation_adds_up_to_the_score(searcher: Searcher) -> None:
    for query in (
        "event loop",
        '"event loop" OR garden',
        "loop*",
        "event site:alpha.test",
        "自由",
        "spring event",
    ):
        for hit in searcher.search(SearchRequest(query, explain=True)).hits:
            assert hit.explanation is not None
            details = hit.explanation
            assert details.words * details.prior * details.freshness == pytest.approx(
                hit.score, rel=1e-3
            ), query
            assert details.parts
            assert all(part.score > 0 for part in details.parts)
            assert (
                0.8 * details.words
                < sum(part.score for part in details.parts)
                < 1.001 * details.words
            ), query
    assert searcher.search(SearchRequest("event")).hits[0].explanation is None


def test_persian_words_are_found_with_and_without_the_non_joiner(corpus: Corpus) -> None:
    spellings = {"non-joiner": "می‌خواهم", "space": "می خواهم", "joined": "میخواهم"}
    corpus.commit_and_index(
        (f"http://{name}.test/", page(f"امروز {word} بروم.", language="fa"))
        for name, word in spellings.items()
    )
    searcher = Searcher(corpus.root)
    found = {}
    for name, word in spellings.items():
        for query in (word, f'"امروز {word}"'):
            hits = searcher.search(SearchRequest(query)).hits
            found[query == word, name] = {hit.host.removesuffix(".test") for hit in hits}
            for hit in hits:
                marked = "".join(text for text, match in hit.snippet if match)
                letters = marked.replace(" ", "").replace("\u200c", "")
                assert letters.endswith(spellings["joined"]), query
    assert found == {
        (True, "non-joiner"): {"non-joiner", "space", "joined"},
        (True, "space"): {"non-joiner", "space"},
        (True, "joined"): {"non-joiner", "joined"},
        (False, "non-joiner"): {"non-joiner", "space"},
        (False, "space"): {"non-joiner", "space"},
        (False, "joined"): {"joined"},
    }


def test_threads_can_share_a_searcher(searcher: Searcher) -> None:
    expected = short_urls(searcher.search(SearchRequest("event")))
    answers: list[list[str]] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            answers.extend(short_urls(searcher.search(SearchRequest("event"))) for _ in range(30))
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


def test_searcher_does_not_import_table_libraries(searcher: Searcher) -> None:
    code = (
        "import sys; import lycosa.search.engine.searcher; print([m for m in ('polars', 'pyarrow', "
        "'pydantic', 'numpy') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.fixture(scope="module")
def declarations(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    """Index the Universal Declaration in 27 languages, one article per page."""
    if not declaration_languages():
        pytest.skip("the declarations are missing (set LYCOSA_TEST_DATA)")
    corpus = Corpus(str(tmp_path_factory.mktemp("declarations") / "workspace"))
    buffers = Buffers()
    for stem in declaration_languages():
        for number, text in declaration(stem).items():
            article: Page = page(text, language=stem.split("-")[0])
            corpus.add(buffers, f"http://{stem}.test/{number}", article)
    corpus.commit_buffers(buffers)
    assert corpus.index().documents == 28 * 30
    return Searcher(corpus.root)


@pytest.mark.slow
@pytest.mark.parametrize("stem", declaration_languages())
def test_article_is_found_by_its_three_rarest_words(declarations: Searcher, stem: str) -> None:
    """The query has no language; the article should be the first result."""
    articles = declaration(stem)
    analyzer = analyzer_for(stem.split("-")[0])
    units = {
        number: [unit for unit in analyzer.units(text) if len("".join(unit.phrase)) > 1]
        for number, text in articles.items()
    }
    spread = Counter(
        phrase for words in units.values() for phrase in {unit.phrase for unit in words}
    )
    first = 0
    for number, words in units.items():
        distinct = {unit.phrase: unit for unit in words}.values()
        rare = sorted(distinct, key=lambda unit: (spread[unit.phrase], -len("".join(unit.phrase))))[
            :3
        ]
        query = " ".join(unit.surface for unit in rare)
        matches = short_urls(declarations.search(SearchRequest(query)))
        assert f"{stem}.test/{number}" in matches, query
        first += matches[0] == f"{stem}.test/{number}"
    # Articles of other languages may contain the same word, above all in the two Chinese scripts.
    assert first >= (24 if stem.startswith("zh") else 28)


@pytest.mark.parametrize("stem", declaration_languages())
def test_phrase_finds_its_article(declarations: Searcher, stem: str) -> None:
    for number in (4, 17, 26):
        line = declaration(stem)[number].split("\n")[0]
        phrase = line[:12] if stem in ("zh", "zh-hant", "ja") else " ".join(line.split()[:4])
        results = declarations.search(SearchRequest(f'"{phrase}"', 50))
        assert f"{stem}.test/{number}" in short_urls(results), phrase
        assert any(match for hit in results.hits for _, match in hit.snippet)
