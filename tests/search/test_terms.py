"""Term statistics: counts, stop words, rising terms, bounded memory."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest

from lycosa.core.errors import WorkspaceError
from lycosa.search.query.term_statistics import (
    MIN_SURPRISE,
    Term,
    TermsRequest,
    count_terms,
    surprise,
    workspace_terms,
)
from lycosa.store.tables.live import LiveTables
from tests.cli.conftest import run_here
from tests.index.corpus import FIRST_AT, Corpus, page

DAY_MS = 86_400_000
FILLER = ["the", "of", "and", "a"]
WORDS = [f"word{letter}{other}" for letter in "abcdefghij" for other in "klmnop"]


def terms(corpus: Corpus, **request: object) -> dict[str, Term]:
    report = workspace_terms(corpus.root, TermsRequest(**request))  # type: ignore[arg-type]
    return {term.text: term for term in report.terms}


def test_counts_equal_a_simple_count(corpus: Corpus) -> None:
    chance = random.Random(3)
    texts = [" ".join([*FILLER, *chance.choices(WORDS, k=12), "12345 x"]) for _ in range(40)]
    corpus.commit(
        (f"http://h{number % 3}.test/{number}", page(text, language="en"))
        for number, text in enumerate(texts)
    )
    documents = Counter(word for text in texts for word in set(text.split()))
    total = Counter(word for text in texts for word in text.split())
    matches = terms(corpus, count=1_000)
    assert {text: (term.documents, term.total) for text, term in matches.items()} == {
        word: (documents[word], total[word])
        for word in total
        if word.startswith("word") and documents[word] <= 10
    }
    with_stop_words = terms(corpus, count=1_000, stop_words=True)
    assert set(with_stop_words) == {word for word in total if len(word) > 1 and word.isalpha()}
    counted = count_terms(LiveTables(corpus.workspace), TermsRequest(count=5))
    assert (counted.languages, [term.documents for term in counted.terms]) == (
        {"en": 40},
        sorted((term.documents for term in counted.terms), reverse=True),
    )


def test_bounded_counter_keeps_frequent_terms_and_reports_its_error(corpus: Corpus) -> None:
    pages = [
        (
            f"http://h.test/{n}",
            page(f"frequent {' '.join(f'only{n}q{m}' for m in range(50))}", language="en"),
        )
        for n in range(19)
    ]
    pages += [(f"http://x.test/{n}", page("frequent steady", language="en")) for n in range(300)]
    corpus.commit(pages)
    report = count_terms(
        LiveTables(corpus.workspace), TermsRequest(count=2, stop_words=True), most_words=100
    )
    assert report.missed
    (first, second) = report.terms
    assert (first.text, second.text) == ("frequent", "steady")
    assert 319 - report.missed <= first.documents <= 319


def test_filters_by_language_host_and_time(corpus: Corpus) -> None:
    week = 7 * DAY_MS
    corpus.commit(
        [
            (
                "http://a.test/1",
                page("Spinnen jagen nachts", language="de", published_at=FIRST_AT - 3 * week),
            ),
            ("http://www.a.test:8080/2", page("Spinnen weben NASA", language="de")),
            ("http://ba.test/3", page("spiders hunt", language="en", published_at=FIRST_AT - week)),
            ("http://ba.test/4", page("hidden", language="en", may_index=False)),
        ]
    )
    assert set(terms(corpus, language="de")) == {"Spinnen", "jagen", "nachts", "weben", "NASA"}
    assert set(terms(corpus, host="a.test")) == {"Spinnen", "jagen", "nachts", "weben", "NASA"}
    assert set(terms(corpus, host="ba.test")) == {"spiders", "hunt"}
    assert set(terms(corpus, since=FIRST_AT - 2 * week)) == {
        "Spinnen",
        "weben",
        "NASA",
        "spiders",
        "hunt",
    }
    assert set(terms(corpus, until=FIRST_AT - 2 * week)) == {"Spinnen", "jagen", "nachts"}
    assert terms(corpus)["Spinnen"] == Term(
        "Spinnen", "de", 2, 2, 1, terms(corpus)["Spinnen"].surprise
    )


@pytest.mark.parametrize(
    ("language", "text", "word"),
    [
        ("zh", "中国经济发展很快", "经济"),
        ("ja", "東京の経済", "経済"),
        ("th", "ประเทศไทยมีอากาศดี", "อากาศ"),
    ],
)
def test_words_of_scripts_without_spaces(
    corpus: Corpus, language: str, text: str, word: str
) -> None:
    corpus.commit([("http://h.test/", page(text, language=language))])
    assert terms(corpus)[word].documents == 1


def test_rising_terms_are_those_more_frequent_than_before(corpus: Corpus) -> None:
    """`election` is new. `spider` is on all pages, `moth` and `beetle` are as frequent as before."""
    pages = []
    for number in range(120):
        newest = number >= 100
        words = [
            "spider",
            "moth" if number % 2 else "beetle",
            "election" if newest and number % 4 else "burrow",
        ]
        pages.append(
            (
                f"http://h.test/{number}",
                page(
                    " ".join(words),
                    language="en",
                    published_at=FIRST_AT - (0 if newest else 30) * DAY_MS,
                ),
            )
        )
    corpus.commit(pages)
    report = workspace_terms(corpus.root, TermsRequest(rising=True))
    assert [term.text for term in report.terms] == ["election"]
    assert (report.pages, report.recent_pages) == (120, 20)
    assert report.terms[0].recent == report.terms[0].documents == 15
    messages = run_here("-w", corpus.root, "terms", "--rising", "--json")
    assert [term["text"] for term in messages.json["terms"]] == ["election"]  # type: ignore[attr-defined]
    assert "election" in run_here("-w", corpus.root, "terms", "--rising").out
    assert run_here("-w", corpus.root, "terms", "--period", "soon").code == 2


def test_an_empty_list_of_terms_has_a_reason(corpus: Corpus) -> None:
    command = ("-w", corpus.root, "terms", "--rising")
    run_here(*command).expect(
        0, "no page matches: crawl with", absent=("surprise",), absent_err=("1970",)
    )
    corpus.commit([("http://h.test/", page("the of", language="en"))])
    run_here(*command).expect(0, "no rising words: all pages are recent (--period 7d)")
    before = page("the of", language="en", published_at=FIRST_AT - 30 * DAY_MS)
    corpus.commit([("http://h.test/before", before)])
    run_here(*command).expect(0, "no rising words: no word is on a significantly larger share")
    assert run_here(*command, "--json").json["terms"] == []
    run_here("-w", corpus.root, "terms").expect(0, "no words besides stop words", absent=("count",))


def test_surprise_is_dunnings_log_likelihood_ratio() -> None:
    """Compared with -2 log λ of two binomial distributions."""

    def log_likelihood(successes: int, trials: int, share: float) -> float:
        return successes * math.log(share) + (trials - successes) * math.log(1 - share)

    a, b, n, m = 15, 7, 40, 900
    share = (a + b) / (n + m)
    separate = log_likelihood(a, n, a / n) + log_likelihood(b, m, b / m)
    assert surprise(a, b, n, m) == pytest.approx(
        2 * (separate - log_likelihood(a, n, share) - log_likelihood(b, m, share))
    )
    assert surprise(b, a, m, n) < -MIN_SURPRISE
    assert surprise(0, 0, 3, 4) == surprise(3, 3, 3, 0) == 0.0
    assert surprise(10, 20, 10, 20) == pytest.approx(0)


def test_empty_and_missing_workspace(tmp_path: Path, corpus: Corpus) -> None:
    assert workspace_terms(corpus.root, TermsRequest(rising=True)).terms == []
    with pytest.raises(WorkspaceError):
        workspace_terms(str(tmp_path / "nowhere"), TermsRequest())


def test_stop_words_are_function_words_or_evenly_spread(corpus: Corpus) -> None:
    """A word on a third of the pages is kept if it is repeated there, as topic words are."""
    pages = []
    for number in range(60):
        text = ["which", "werden", f"own{number}q"]  # function words of two languages
        if number % 3 == 0:
            text += ["harpsichord"] * 9
        if number % 3 == 1:
            text.append("nevertheless")
        pages.append(
            (f"http://h.test/{number}", page(" ".join(text), language="en" if number % 2 else "de"))
        )
    pages += [
        (f"http://t.test/{number}", page("the quiet tuba", language="en")) for number in range(30)
    ]
    corpus.commit(pages)
    matches = {
        (term.text, term.language)
        for term in workspace_terms(corpus.root, TermsRequest(count=1_000, language="en")).terms
    }
    assert ("which", "en") not in matches
    assert ("the", "en") not in matches
    german = {
        term.text
        for term in workspace_terms(corpus.root, TermsRequest(count=1_000, language="de")).terms
    }
    assert "harpsichord" in german
    assert "nevertheless" not in german
    assert "werden" not in german


def test_few_pages_have_the_function_words_of_their_languages_omitted(corpus: Corpus) -> None:
    texts = {"de": "im Garten unter", "ar": "في الحديقة", "ru": "на сад", "ja": "庭にあります"}
    corpus.commit(
        (f"http://{language}.test/", page(text, language=language))
        for language, text in texts.items()
    )
    assert set(terms(corpus)) == {"Garten", "الحديقة", "сад"}
