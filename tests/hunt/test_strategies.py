"""Test focused crawls: strategies, queue, links and anchor index.

Fish search and Shark search are compared with their publications.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.records import Page
from lycosa.hunt.hunt import Hunt
from lycosa.hunt.links import HuntQueue, Lead, leads_of
from lycosa.hunt.relevance import HuntQuery
from lycosa.hunt.strategies import AnchorIndex, BestFirstSearch, FishSearch, SharkSearch
from lycosa.page.parse import parse_page
from tests.hunt.hunts import lead, page, walk

HOST = "http://a.example"
ABOUT = "The wolf spider hunts. A wolf spider runs."


def order(scored: Sequence[tuple[Lead, float]]) -> list[Lead]:
    return [each for each, _ in sorted(scored, key=lambda item: -item[1])]


# -- Fish search --


@pytest.fixture
def fish() -> FishSearch:
    return FishSearch(HuntQuery("spider"))


@pytest.fixture
def scorer() -> BestFirstSearch:
    return BestFirstSearch(HuntQuery("wolf spider"), HuntQueue())


def test_fish_follows_links_of_the_newest_relevant_page_first(
    fish: FishSearch,
) -> None:
    first = [lead(f"{HOST}/1{each}") for each in "ab"]
    plain = [lead(f"{HOST}/2{each}") for each in "ab"]
    later = [lead(f"{HOST}/3{each}") for each in "ab"]
    scored = [
        *fish.links(f"{HOST}/1", 0.9, True, first, "en"),
        *fish.links(f"{HOST}/2", 0.0, False, plain, "en"),
        *fish.links(f"{HOST}/3", 0.6, True, later, "en"),
    ]
    assert order(scored) == [*later, *first, *plain]


def test_fish_follows_links_to_other_sites_first(fish: FishSearch) -> None:
    here, there = lead(f"{HOST}/here"), lead("http://b.example/", foreign=True)
    assert order(fish.links(f"{HOST}/", 1.0, True, [here, there], "en")) == [there, here]


def test_fish_puts_links_above_the_width_last() -> None:
    fish = FishSearch(HuntQuery("spider"), width=2)
    leads = [lead(f"{HOST}/{number}") for number in range(6)]
    # a relevant page has 1.5 times the width
    scored = fish.links(f"{HOST}/", 1.0, True, leads, "en")
    other = fish.links(f"{HOST}/x", 0.0, False, [lead(f"{HOST}/plain")], "en")
    assert order([*scored, *other]) == [*leads[:3], other[0][0], *leads[3:]]
    few = fish.links(
        f"{HOST}/y", 0.0, False, [lead(f"{HOST}/y{number}") for number in range(4)], "en"
    )
    assert [score > scored[5][1] for _, score in few] == [True, True, False, False]


def test_fish_raises_the_score_of_a_queued_url_and_never_lowers_it(
    fish: FishSearch,
) -> None:
    shared = lead(f"{HOST}/shared")
    behind = fish.links(f"{HOST}/1", 0.0, False, [shared], "en")[0][1]
    front = fish.links(f"{HOST}/2", 0.8, True, [shared], "en")[0][1]
    again = fish.links(f"{HOST}/3", 0.0, False, [shared], "en")[0][1]
    assert front > behind
    assert again == front


def test_fish_stops_at_its_depth_below_irrelevant_pages() -> None:
    urls = [f"{HOST}/{number}" for number in range(10)]
    chain = {
        url: page("Nothing", "Not a word of it.", url=url, links={following: "on"})
        for url, following in itertools.pairwise(urls)
    }
    irrelevant = walk(Hunt(HuntQuery("wolf spider"), "fish", depth=3), chain, f"{HOST}/0")
    # the seed has the full depth; each link costs 1
    assert len(irrelevant.order) == 1 + 3
    with_relevant = chain | {
        f"{HOST}/3": page("Wolf spider", ABOUT, url=f"{HOST}/3", links={"/4": "on"})
    }
    assert (
        len(walk(Hunt(HuntQuery("wolf spider"), "fish", depth=3), with_relevant, f"{HOST}/0").order)
        == 4 + 4
    )


# -- Shark search --


def test_shark_scores_by_the_published_formula() -> None:
    question = HuntQuery("wolf spider")
    shark = SharkSearch(question)
    both, one, near = (
        lead(f"{HOST}/1", "the wolf spider"),
        lead(f"{HOST}/2", "a spider"),
        lead(f"{HOST}/3", "here", "wolf spider"),
    )
    relevant = dict(shark.links(f"{HOST}/", 0.8, True, [both, one, near], "en"))
    half = question.similarity("a spider", "en")
    assert relevant[both] == pytest.approx(0.5 * (0.5 * 0.8) + 0.5 * 1.0)
    assert relevant[one] == pytest.approx(0.5 * (0.5 * 0.8) + 0.5 * (0.8 * half + 0.2 * 1.0))
    assert relevant[near] == pytest.approx(0.5 * (0.5 * 0.8) + 0.5 * (0.2 * 1.0))
    bare = lead(f"{HOST}/4", "on")
    # a page without matches passes on half of its inherited score
    inherited = shark.links(f"{HOST}/3", 0.0, False, [bare], "en")[0][1]
    assert inherited == pytest.approx(0.5 * (0.5 * (0.5 * 0.8)))


# -- best --


def test_best_prefers_links_that_match_in_anchor_context_or_url(
    scorer: BestFirstSearch,
) -> None:
    anchor = lead(f"{HOST}/1", "the wolf spider")
    context = lead(f"{HOST}/2", "here", "of the wolf spider")
    url = lead(f"{HOST}/wolf-spider", "there")
    plain = lead(f"{HOST}/4", "weather")
    scores = dict(scorer.links(f"{HOST}/", 0.2, False, [plain, url, context, anchor], "en"))
    assert (
        scores[anchor]
        > max(scores[context], scores[url])
        >= min(scores[context], scores[url])
        > scores[plain]
    )


def test_best_learns_anchor_words_of_relevant_pages(scorer: BestFirstSearch) -> None:
    good = [lead(f"{HOST}/g{number}", f"arachnid number {number}") for number in range(8)]
    bad = [lead(f"{HOST}/b{number}", f"recipe number {number}") for number in range(8)]
    scorer.links(f"{HOST}/", 0.3, False, [*good, *bad], "en")
    tried = [each for pair in zip(good, bad, strict=True) for each in pair]
    rescored: dict[object, float] = {}
    for each in tried[:12]:
        rescored |= dict(scorer.fetched(each.url, 0.9 if each in good else 0.0))
    assert rescored[good[7]] > 2 * rescored[bad[7]]


def test_best_rescores_links_of_the_top_pages(scorer: BestFirstSearch) -> None:
    ((link, before),) = scorer.links(f"{HOST}/good", 0.7, True, [lead(f"{HOST}/on", "on")], "en")
    ((_, on_top),) = scorer.top([f"{HOST}/good"])
    assert on_top > before
    assert scorer.top([f"{HOST}/good"]) == []
    ((again, after),) = scorer.top([f"{HOST}/other"])
    assert again == link
    assert after == pytest.approx(before)


def test_best_removes_fetched_and_dropped_links(scorer: BestFirstSearch) -> None:
    leads = [lead(f"{HOST}/{number}", f"word{number}") for number in range(4)]
    scorer.links(f"{HOST}/", 0.5, True, leads, "en")
    assert len(scorer.anchors) == 4
    scorer.fetched(leads[0].url, 0.5)
    scorer.drop(leads[1].url)
    assert len(scorer.anchors) == 2
    assert scorer.links(f"{HOST}/x", 0.5, True, leads[:1], "en") == []  # already fetched


# -- complete crawls in memory --


def small_web() -> dict[str, Page]:
    """Return a web with a home page and ten sections of ten pages.

    One section is about spiders.
    """
    web = {}
    sections = {"/spiders/": "Spiders and related animals"} | {
        f"/s{number}/": f"Section {number}" for number in range(9)
    }
    web[f"{HOST}/"] = page("Home", "Welcome.", url=f"{HOST}/", links=sections)
    for path, text in sections.items():
        leaves = {
            f"{path}{number}.html": f"Wolf spider {number}"
            if path == "/spiders/"
            else f"Leaf {number}"
            for number in range(10)
        }
        web[HOST + path] = page(text, "An overview.", url=HOST + path, links=leaves)
        for leaf, title in leaves.items():
            paragraph = ABOUT if path == "/spiders/" else "Something else altogether."
            web[HOST + leaf] = page(title, paragraph, url=HOST + leaf)
    return web


@pytest.mark.parametrize("strategy", ["best", "shark"])
def test_a_hunt_follows_the_links_to_relevant_pages(strategy: str) -> None:
    hunt = Hunt(HuntQuery("wolf spider"), strategy)  # type: ignore[arg-type]
    walked = walk(hunt, small_web(), f"{HOST}/", fetches=14)
    assert {f"{HOST}/spiders/{number}.html" for number in range(10)} <= set(walked.relevant)
    assert hunt.relevant == len(walked.relevant)
    # the leaves, and perhaps the list of them
    assert {url.rpartition("/")[0] for url in walked.relevant} == {f"{HOST}/spiders"}
    ranked = hunt.ranked()
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
    best = ranked[0][0]
    assert (best.via, best.language) == (f"{HOST}/spiders/", "en")
    assert "The wolf spider" in "".join(text for text, _ in best.snippet)


def test_the_target_of_a_redirect_replaces_its_source() -> None:
    hunt = Hunt(HuntQuery("wolf spider"))
    hunt.start([lead(f"{HOST}/old")])
    hunt.fetching(f"{HOST}/old")
    hunt.redirected(f"{HOST}/old", f"{HOST}/new", "a.example")
    assert [url for _, url, _ in hunt.queue.best_of_hosts(5)] == [f"{HOST}/new"]
    result = hunt.page(
        f"{HOST}/new", page("Wolf spider", ABOUT, url=f"{HOST}/new", links={"/old": "again"})
    )
    assert result is not None
    assert result.number == 1
    assert not hunt.queue  # a requested URL is not queued again


def test_a_noindex_page_is_no_result_but_its_links_are_followed() -> None:
    hunt = Hunt(HuntQuery("wolf spider"))
    hidden = page("Wolf spider", ABOUT, url=f"{HOST}/", links={"/next": "wolf spider"})
    hidden.may_index = False
    assert hunt.page(f"{HOST}/", hidden) is None
    assert f"{HOST}/next" in hunt.queue
    hidden.may_follow = False
    other = Hunt(HuntQuery("wolf spider"))
    assert other.page(f"{HOST}/", hidden) is None
    assert not other.queue


def test_urls_that_are_not_admitted_are_not_queued() -> None:
    hunt = Hunt(HuntQuery("wolf spider"), admits=lambda url: "private" not in url)
    hunt.page(
        f"{HOST}/",
        page(
            "Home", ABOUT, url=f"{HOST}/", links={"/private/1": "wolf spider", "/2": "wolf spider"}
        ),
    )
    assert list(hunt.queue) == [f"{HOST}/2"]


# -- queue --


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30), st.integers(0, 3), st.floats(-5, 5, allow_nan=False) | st.none()
        ),
        max_size=200,
    )
)
def test_the_queue_equals_a_sorted_dictionary(
    steps: list[tuple[int, int, float | None]],
) -> None:
    queue = HuntQueue()
    expected: dict[str, float] = {}
    for number, host, score in steps:
        url = f"http://{host}.example/{number}"
        if score is None:
            queue.remove(url)
            expected.pop(url, None)
        else:
            queue.put(url, f"{host}.example", score)
            expected[url] = score
    assert len(queue) == len(expected)
    bests: list[float] = []
    for host in range(4):
        own = [score for url, score in expected.items() if url.startswith(f"http://{host}.")]
        best = queue.best(f"{host}.example")
        assert (best[0] if best else None) == max(own, default=None)
        if own:
            bests.append(max(own))
    assert [score for score, _, _ in queue.best_of_hosts(2)] == sorted(bests, reverse=True)[:2]


def test_the_queue_is_bounded_and_drops_the_worst() -> None:
    dropped_urls: list[str] = []
    queue = HuntQueue(100, dropped_urls.append)
    scores = list(range(1_000))
    random.Random(5).shuffle(scores)
    for score in scores:
        queue.put(f"{HOST}/{score}", "a.example", float(score))
    assert len(queue) <= 100
    assert queue.dropped == len(dropped_urls) == 1_000 - len(queue)
    assert queue.best("a.example") == (999.0, f"{HOST}/999")


# -- leads --


def test_leads_have_anchor_and_context() -> None:
    html = b"""<html lang=en><body><main><p>The <a href=/silk>silk</a> of the wolf spider is strong.</p><h2>On travel</h2>
    <p><a href=/silk2>silk</a></p><p><a href=/x rel=nofollow>no</a> <a href="http://b.example/y">out</a> <a href=/silk>again</a>
    <img src=/picture.png></p></main>"""
    leads = {
        each.url: each
        for each in leads_of(f"{HOST}/", parse_page(html, url=f"{HOST}/", content_type="text/html"))
    }
    assert set(leads) == {f"{HOST}/silk", f"{HOST}/silk2", "http://b.example/y"}
    assert leads[f"{HOST}/silk"].anchor == "silk\nagain"
    assert leads[f"{HOST}/silk"].context.split() == [
        "The",
        "of",
        "the",
        "wolf",
        "spider",
        "is",
        "strong.",
    ]
    assert leads[f"{HOST}/silk2"].context == "On travel"
    assert leads["http://b.example/y"].foreign
    assert not leads[f"{HOST}/silk"].foreign


# -- anchor index --

_WORDS = ["web", "silk", "wolf", "eye", "leg", "night"]


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.lists(st.sampled_from(_WORDS), max_size=4) | st.none()),
        max_size=60,
    )
)
def test_the_anchor_index_returns_what_a_scan_returns(
    steps: list[tuple[int, list[str] | None]],
) -> None:
    index = AnchorIndex()
    terms_by_url: dict[str, frozenset[str]] = {}
    for number, terms in steps:
        url = f"{HOST}/{number}"
        if terms is None:
            index.remove(url)
            terms_by_url.pop(url, None)
        else:
            index.put(url, terms)
            terms_by_url[url] = terms_by_url.get(url, frozenset()) | set(terms)
    weights = {"silk": 1.0, "wolf": 2.0, "none": 9.0, "leg": -1.0}

    def value(terms: frozenset[str]) -> float:
        rarity = {
            term: math.log(
                1 + len(terms_by_url) / sum(term in each for each in terms_by_url.values())
            )
            for term in terms
        }
        return sum(weights[term] * rarity[term] for term in terms if weights.get(term, 0) > 0)

    expected = sorted(
        (value(terms) for terms in terms_by_url.values() if terms & {"silk", "wolf"}), reverse=True
    )[:3]
    assert [value(terms_by_url[url]) for url in index.search(weights, 3)] == pytest.approx(expected)
