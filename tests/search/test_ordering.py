"""Order of results: paging, hosts, similar pages and locales."""

from __future__ import annotations

import itertools
import random
from operator import attrgetter

import pytest

from lycosa.core.records import Link, Page
from lycosa.graph.builder import make_generation
from lycosa.index.indexer import Indexer
from lycosa.page.parse import parse_page
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.ranking import ordering
from lycosa.search.ranking.ordering import (
    BLOCK,
    MAX_WINDOWS,
    WINDOW,
    PageListing,
    Ranked,
    diversify_hosts,
    freshness,
    in_windows,
    listing,
)
from lycosa.search.ranking.similar import similar_query
from lycosa.store.workspace import Workspace
from lycosa.text.digest import text_digest
from tests.index.corpus import Corpus, index_settings, page


def ranking(count: int, seed: int, *, hosts: int = 7, groups: int = 10_000) -> list[Ranked[int]]:
    generator = random.Random(seed)
    scores = sorted((generator.random() for _ in range(count)), reverse=True)
    pages = [
        Ranked(score, place, generator.randrange(hosts), generator.randrange(groups))
        for place, score in enumerate(scores)
    ]
    return in_windows(
        [
            Ranked(page.score * generator.choice((1.0, 1.5)), page.place, page.host, page.group)
            for page in pages
        ]
    )


@pytest.mark.parametrize("count", [0, 1, 39, 41, WINDOW - 1, WINDOW, 3 * WINDOW + 5])
@pytest.mark.parametrize("groups", [10_000, 100])
def test_paging_is_independent_of_the_page_size(count: int, groups: int) -> None:
    ranked = ranking(count, count, groups=groups)
    requests: list[int] = []

    def fetch(limit: int) -> PageListing[int]:
        requests.append(limit)
        return PageListing(len(ranked), ranked[:limit])

    whole = listing(fetch, 0, 1_000, per_host=2, folded=True)
    assert whole.total == len({page.group or -page.place - 1 for page in ranked})
    assert len({page.place for page in whole.pages}) == len(whole.pages) == min(1_000, whole.total)
    assert sum(page.copies for page in whole.pages) == len(ranked) - whole.total
    for size in (10, 7):
        paged = [
            page.place
            for start in range(0, len(whole.pages), size)
            for page in listing(fetch, start, size, per_host=2, folded=True).pages
        ]
        assert paged == [page.place for page in whole.pages]
    assert listing(fetch, whole.total, 10, per_host=2, folded=True).pages == []


@pytest.mark.parametrize(("count", "expected"), [(WINDOW, WINDOW - 1), (WINDOW + 1, WINDOW + 1)])
def test_total_is_independent_of_the_order(count: int, expected: int) -> None:
    """Shards may return the last pages of a window in another order than one index."""

    def total(groups: list[int]) -> int:
        ranked = [Ranked(1.0, place, 1, group) for place, group in enumerate(groups)]
        return listing(
            lambda limit: PageListing(count, ranked[:limit]), 0, 10, per_host=2, folded=True
        ).total

    others = [0] * (count - 2)
    assert {total([7, 7, *others]), total([7, *others, 7]), total([*others, 7, 7])} == {expected}


def test_pages_stay_in_their_block() -> None:
    ranked = ranking(3 * BLOCK, 5)
    shown = listing(
        lambda limit: PageListing(len(ranked), ranked[:limit]),
        0,
        len(ranked),
        per_host=1,
        folded=False,
    ).pages
    for start in range(0, len(ranked), BLOCK):
        assert {page.place for page in shown[start : start + BLOCK]} == {
            page.place for page in ranked[start : start + BLOCK]
        }


def test_first_pages_of_each_host_precede_the_others() -> None:
    block = [
        Ranked(1.0 - place / 100, place, host, 0)
        for place, host in enumerate([1, 1, 1, 2, 1, 3, 2, 2])
    ]
    assert [page.place for page in diversify_hosts(block, attrgetter("host"), 2)] == [
        0,
        1,
        3,
        5,
        6,
        2,
        4,
        7,
    ]
    assert [page.place for page in diversify_hosts(block, attrgetter("host"), 1)] == [
        0,
        3,
        5,
        1,
        2,
        4,
        6,
        7,
    ]


def test_scores_decrease_over_windows() -> None:
    assert all(one.score >= two.score for one, two in itertools.pairwise(ranking(4 * WINDOW, 9)))


def test_order_of_equal_scores_is_independent_of_the_index() -> None:
    hosts = list(range(30))
    for seed in range(3):
        random.Random(seed).shuffle(hosts)
        assert [
            page.host
            for page in in_windows(
                [Ranked(1.0, place, host, 7) for place, host in enumerate(hosts)]
            )
        ] == list(range(30))


def test_number_of_windows_is_bounded() -> None:
    limits: list[int] = []

    def fetch(limit: int) -> PageListing[int]:
        limits.append(limit)
        return PageListing(10**6, [Ranked(1.0, place, 1, 5) for place in range(limit)])

    matches = listing(fetch, 0, 10, per_host=2, folded=True)
    assert [(page.place, page.copies) for page in matches.pages] == [(0, MAX_WINDOWS * WINDOW - 1)]
    assert (limits[-1], len(limits)) == (MAX_WINDOWS * WINDOW, 5)


def test_freshness_is_halved_every_week() -> None:
    week = 7 * 86_400_000
    assert [freshness(at, 3 * week) for at in (None, 4 * week, 3 * week, 2 * week, week)] == [
        1.0,
        1.5,
        1.5,
        1.25,
        1.125,
    ]


TOPICS = {
    "spiders": "web silk fang burrow venom spinneret molt prey thread cocoon",
    "bread": "flour yeast oven crust dough knead bake loaf rye salt",
    "ships": "mast sail keel anchor harbour rudder deck hull tide crew",
}
COMMON = "the of and with for this that from one many"


@pytest.fixture(scope="module", params=[1, 3])
def searcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    corpus = Corpus(str(tmp_path_factory.mktemp("similar") / "w"))
    chance = random.Random(4)
    pages = []
    for topic, words in TOPICS.items():
        for number in range(12):
            text = " ".join(
                chance.choices(words.split(), k=12) + chance.choices(COMMON.split(), k=30)
            )
            pages.append(
                (
                    f"http://{topic}{number}.test/",
                    page(text, language="en", text_digest=text_digest(text)),
                )
            )
            if number == 0:
                pages.append(
                    (
                        f"http://copy.test/{topic}",
                        page(text, language="en", text_digest=text_digest(text)),
                    )
                )
    pages.append(("http://deutsch.test/", page("web silk fang burrow venom", language="de")))
    corpus.commit_and_index(pages, shards=request.param)
    return Searcher(corpus.root)


@pytest.mark.parametrize("topic", list(TOPICS))
def test_similar_pages_have_the_same_topic(searcher: Searcher, topic: str) -> None:
    matches = searcher.search(SearchRequest(f"similar:http://{topic}0.test/", count=8))
    assert matches.notes == []
    assert all(hit.url.startswith(f"http://{topic}") for hit in matches.hits)
    assert len(matches.hits) == 8
    assert f"http://{topic}0.test/" not in {hit.url for hit in matches.hits}


def test_similar_pages_exclude_copies_and_other_languages(searcher: Searcher) -> None:
    everything = searcher.search(SearchRequest("similar:spiders0.test", count=50))
    urls = {hit.url for hit in everything.hits}
    assert "http://copy.test/spiders" not in urls
    assert "http://deutsch.test/" not in urls
    assert everything.total == len(urls)


def test_excluded_similar_pages_are_replaced_from_later_windows(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "WINDOW", 2)
    assert len(searcher.search(SearchRequest("similar:http://spiders0.test/", count=8)).hits) == 8


def test_similar_pages_can_be_filtered(searcher: Searcher) -> None:
    matches = searcher.search(SearchRequest("similar:http://spiders0.test/ venom", count=50))
    assert 0 < matches.total < 13
    assert all(any("venom" in text for text, match in hit.snippet if match) for hit in matches.hits)
    assert (
        searcher.search(SearchRequest("similar:http://spiders0.test/ site:bread3.test")).total == 0
    )


@pytest.mark.parametrize(
    "address", ["http://nowhere.test/", "http://spiders0.test/%22", "spiders0.test/none", 'a"b']
)
def test_note_for_similar_pages_of_an_unknown_page(searcher: Searcher, address: str) -> None:
    matches = searcher.search(SearchRequest(similar_query(address)))
    assert matches.total == 0 or "was searched for as words" in matches.notes[0]
    assert matches.notes


def test_explanation_of_similar_pages(searcher: Searcher) -> None:
    (hit, *_) = searcher.search(SearchRequest("similar:http://ships1.test/", explain=True)).hits
    assert hit.explanation is not None
    assert (
        abs(hit.explanation.words * hit.explanation.prior * hit.explanation.freshness - hit.score)
        < 0.01 * hit.score
    )
    assert hit.explanation.parts


TITLES = {
    "cs-CZ": "6.1. Vyplnění souboru sources.list",
    "ja-JP": "6.1. sources.list ファイルの内容",
    "sv-SE": "6.1. Hur man fyller i filen sources.list",
    "zh-TW": "6.1. 填寫 sources.list",
    "en-US": "6.1. Filling in the sources.list File",
}
NAVIGATION = {
    "cs-CZ": "Předcházející",
    "ja-JP": "戻る",
    "sv-SE": "Föregående",
    "zh-TW": "上一頁",
    "en-US": "Previous",
}
PARAGRAPHS = (
    "Each active line of the sources.list file represents a package source that apt reads. It is "
    "made of at least three parts.",
    "The first field indicates the source type: deb for binary packages, and deb-src for the "
    "sources that they are built from.",
    "The second field gives the base URL of the source, which can refer to a mirror or to any "
    "other archive that a third party set up.",
    "The list of the archives is read whenever the administrator updates the index of the "
    "packages that are available to the system.",
)
OTHERS = (
    "The kernel and its modules are configured at boot.",
    "A firewall filters the packets that pass through a gateway.",
)


def html(locale: str, title: str, paragraphs: tuple[str, ...]) -> bytes:
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    body = f"<nav><a href='/{locale}/'>{NAVIGATION[locale]}</a></nav><main><h1>{title}</h1>{text}</main>"
    return f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{body}</body></html>".encode()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    corpus = Corpus(str(tmp_path_factory.mktemp("locales") / "workspace"))
    pages = []
    for locale, title in TITLES.items():
        for number, (name, paragraphs) in enumerate(
            [(title, PARAGRAPHS), *((f"{title} {n}", (text,) * 4) for n, text in enumerate(OTHERS))]
        ):
            url = f"http://handbook.test/{locale}/{number}.html"
            pages.append(
                (
                    url,
                    parse_page(
                        html(locale, name, paragraphs),
                        url=url,
                        content_type="text/html; charset=utf-8",
                    ),
                )
            )
    corpus.commit_and_index(pages)
    return corpus.root


def test_page_in_a_single_language_ranks_first(root: str) -> None:
    for query in (
        "apt sources list",
        "sources.list",
        "which field gives the base URL of a source?",
    ):
        matches = Searcher(root).search(SearchRequest(query, 20, per_host=0, folded=False)).hits
        assert [hit.url for hit in matches[:1]] == ["http://handbook.test/en-US/0.html"], query


def test_page_is_found_by_its_translated_title(root: str) -> None:
    assert (
        Searcher(root).search(SearchRequest("Vyplnění souboru")).hits[0].url
        == "http://handbook.test/cs-CZ/0.html"
    )


def test_near_duplicates_are_grouped(root: str) -> None:
    make_generation(Workspace.open(root))
    with Indexer(root, index_settings()) as indexer:
        indexer.update()
    matches = (
        Searcher(root).search(SearchRequest("apt sources list deb-src mirror", per_host=0)).hits
    )
    assert (
        [(hit.url, hit.copies) for hit in matches if hit.url.endswith("/0.html")],
        matches[0].url,
    ) == ([("http://handbook.test/en-US/0.html", 4)], "http://handbook.test/en-US/0.html")


REWRITE = (
    "The rewrite module uses a rule-based engine, based on a regular expression parser, to change "
    "requested addresses on the fly.",
    "By default it maps an address to a path of the file system, and an unlimited number of rules "
    "with conditions can be attached to each of them.",
    "The conditions depend on server variables, environment variables, headers and time stamps.",
)


def manual_page(locale: str, declared: str, links: str = "") -> tuple[str, Page]:
    url = f"http://manual.test/{locale}/mod_rewrite.html"
    body = "".join(f"<p>{paragraph}</p>" for paragraph in REWRITE)
    text = (
        f"<html lang='{declared}'><head><title>Introduction</title></head>"
        f"<body><main><h1>Introduction</h1>{body}{links}</main></body></html>"
    )
    return url, parse_page(text.encode(), url=url, content_type="text/html; charset=utf-8")


def test_representative_of_copies_has_the_language_code_of_the_text(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    corpus = Corpus(str(tmp_path_factory.mktemp("manual") / "workspace"))
    copies = [manual_page(locale, "en") for locale in ("da", "de", "en", "ru")]
    linking = [
        (
            f"http://manual.test/{number}.html",
            page(
                f"Page {number} of the manual.",
                language="en",
                links=[Link("http://manual.test/de/mod_rewrite.html", "", "", "a", 0)],
            ),
        )
        for number in range(20)
    ]
    corpus.commit_and_index([*copies, *linking])
    for ranked in (False, True):
        if ranked:
            make_generation(Workspace.open(corpus.root))
            corpus.index()
        for query in ("mod_rewrite", "rule-based rewrite engine", "how do conditions depend?"):
            hits = Searcher(corpus.root).search(SearchRequest(query, per_host=0)).hits
            assert (hits[0].url, hits[0].copies) == ("http://manual.test/en/mod_rewrite.html", 3)


def test_stem_equal_to_a_word_of_another_language_does_not_affect_ranking(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The Catalan stem of the French `comment` is the Catalan word `com`."""
    catalan = "Com que el programa com a tal funciona, l'installer de Debian explica com es fa."
    french = "Voici comment installer Debian, et comment configurer la machine ensuite."
    pages = [
        (
            f"http://guide.test/ca/{number}.html",
            page(
                f"{catalan} Nota {number}." if number < 12 else f"Una altra pàgina, {number}.",
                language="ca",
            ),
        )
        for number in range(24)
    ] + [
        (
            f"http://guide.test/fr/{number}.html",
            page(
                f"{french} Note {number}." if number < 12 else f"Une autre page, numéro {number}.",
                language="fr",
            ),
        )
        for number in range(30)
    ]
    corpus = Corpus(str(tmp_path_factory.mktemp("guide") / "workspace"))
    corpus.commit_and_index(pages)
    hits = Searcher(corpus.root).search(SearchRequest("comment installer Debian", per_host=0)).hits
    assert [hit.language for hit in hits[:3]] == ["fr", "fr", "fr"]
