"""Suggestion files: lookups, and updates when pages change."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lycosa.core.errors import WorkspaceError
from lycosa.index.indexer import Indexer
from lycosa.index.suggest import file as suggest_file
from lycosa.index.suggest import refresh
from lycosa.index.suggest.collect import Collector, _with_folded
from lycosa.index.suggest.edit_distance import edit_distance, word_distance
from lycosa.index.suggest.file import (
    HEADING,
    LARGE,
    MASK_ROWS,
    PLACE_BITS,
    TITLE,
    WORD,
    KnownWord,
    Phrase,
    SuggestFile,
    SuggestInfo,
)
from lycosa.index.suggest.normalise import folded, folded_all, starts
from lycosa.index.suggest.writer import PHRASES, WORDS, _starts, write
from lycosa.store.exclusion.exclusions import parse_rule
from lycosa.store.exclusion.purge import exclude
from tests.index.corpus import FIRST_AT, Corpus, index_settings, page
from tests.waiting import ManualClock

INFO = SuggestInfo(1, 2, 3)


def suggest_file_of(folder: Path, phrases: list[Phrase], words: list[KnownWord]) -> SuggestFile:
    return SuggestFile(write_file(folder, phrases, words))


def write_file(folder: Path, phrases: list[Phrase], words: list[KnownWord]) -> Path:
    rows = [
        (each.language, each.folded, each.text, each.kind, each.pages, each.weight)
        for each in phrases
    ]
    indexed_words = [(each.language, each.text, each.folded, each.pages) for each in words]
    return write(
        folder,
        INFO,
        pl.DataFrame(rows, PHRASES, orient="row"),
        pl.DataFrame(indexed_words, WORDS, orient="row"),
    )


def phrases_of(texts: list[str], language: str = "en", kind: int = TITLE) -> list[Phrase]:
    return [
        Phrase(text, folded(text).strip(), language, float(len(texts) - place), kind, 1)
        for place, text in enumerate(texts)
    ]


def linear_search(phrases: list[Phrase], start: str) -> set[str]:
    """Return the phrases that have `start` at the beginning of a word."""
    return {
        phrase.text
        for phrase in phrases
        if any(phrase.folded[place:].startswith(start) for place in starts(phrase.folded))
    }


def newest_file(corpus: Corpus) -> SuggestFile:
    path = suggest_file.find(sorted((Path(corpus.root) / "index").glob("0*"))[-1])
    assert path is not None
    return SuggestFile(path)


def texts(file: SuggestFile, start: str, **more: object) -> list[str]:
    return [phrase.text for phrase in file.complete(folded(start), 20, **more)]  # type: ignore[arg-type]


def test_phrases_are_found_by_prefix_of_each_word(tmp_path: Path) -> None:
    generator = random.Random(5)
    vocabulary = [
        "event",
        "loop",
        "policy",
        "asyncio",
        "Ereignis",
        "Schleife",
        "événement",
        "boucle",
        "事件",
        "循环",
        "이벤트",
        "цикл",
        "घटना",
        "ໂປຣແກຣມ",
    ]
    phrases = phrases_of(
        sorted(
            {" ".join(generator.choices(vocabulary, k=generator.randint(1, 5))) for _ in range(600)}
        )
    )
    file = suggest_file_of(tmp_path, phrases, [])
    typed = ["e", "ev", "event", "event l", "loop", "evenement b", "policy event", "zz"]
    for start in [*typed, "事", "循环", "이", "ци", "घ", "ໂປ", folded("이벹")]:
        expected = linear_search(phrases, start)
        matches = file.complete(start, 24)
        assert {phrase.text for phrase in matches} <= expected
        assert len(matches) == min(24, len(expected)), start


def test_best_phrases_of_a_frequent_prefix(tmp_path: Path) -> None:
    phrases = phrases_of([f"page {number:05d}" for number in range(3 * LARGE)])
    file = suggest_file_of(tmp_path, phrases, [])
    for start in ("p", "page", "page ", "page 0", "page 00", "0", "page 06143", "061"):
        matches = linear_search(phrases, start)
        expected = [phrase.text for phrase in phrases if phrase.text in matches][:10]
        assert texts(file, start)[:10] == expected, start


def test_completion_by_language_and_kind(tmp_path: Path) -> None:
    phrases = [
        *phrases_of(["Haus am See"], "de"),
        *phrases_of(["House by the sea"], "en"),
        *phrases_of(["house", "hours"], "en", WORD),
    ]
    file = suggest_file_of(tmp_path, phrases, [])
    assert texts(file, "h", language="de") == ["Haus am See"]
    assert set(texts(file, "ho", language="en")) == {"House by the sea", "house", "hours"}
    assert texts(file, "ho", words=True) == ["house", "hours"]
    assert texts(file, "h", language="xx") == []


def distance(one: str, other: str) -> int:
    """Return the Damerau-Levenshtein distance (restricted edit distance)."""
    table = {(row, 0): row for row in range(len(one) + 1)} | {
        (0, column): column for column in range(len(other) + 1)
    }
    for row in range(1, len(one) + 1):
        for column in range(1, len(other) + 1):
            cost = one[row - 1] != other[column - 1]
            best = min(
                table[row - 1, column] + 1,
                table[row, column - 1] + 1,
                table[row - 1, column - 1] + cost,
            )
            if (
                row > 1
                and column > 1
                and one[row - 1] == other[column - 2]
                and one[row - 2] == other[column - 1]
            ):
                best = min(best, table[row - 2, column - 2] + 1)
            table[row, column] = best
    return table[len(one), len(other)]


@settings(max_examples=300, deadline=None)
@given(st.text("abcd", max_size=9), st.text("abcd", max_size=9), st.integers(1, 3))
def test_edit_distance_is_damerau_levenshtein(one: str, other: str, limit: int) -> None:
    assert edit_distance(one, other, limit) == min(distance(one, other), limit + 1)


@pytest.mark.parametrize(
    ("one", "other", "limit", "distance"),
    [
        ("하드웨에서", "하드웨어에서", 1, 1),
        ("설치프로그렘", "설치프로그램", 1, 1),
        ("물깅", "물병", 1, 1),
        ("갑", "값", 1, 1),
        ("갑", "물", 1, 2),
        ("물병", "가방", 2, 3),
    ],
)
def test_hangul_syllable_counts_as_one_edit_unless_it_is_the_whole_word(
    one: str, other: str, limit: int, distance: int
) -> None:
    assert word_distance(folded(one), folded(other), limit) == distance


def test_similar_words_share_a_letter_of_a_single_hangul_syllable(tmp_path: Path) -> None:
    syllables = [chr(code) for code in range(0xAC00, 0xAC00 + 3_000)]
    words = [KnownWord(each, folded(each), "ko", 1) for each in syllables]
    words.sort(key=lambda word: word.folded.encode())
    # all syllables of one edit would be several hundred
    near = suggest_file_of(tmp_path, [], words).similar_words(folded("갑"), 1, "ko")
    assert {word.text for word in near} >= {"값", "갈", "겁"}
    assert len(near) < 60


LETTERS = st.text("abcdefßжшंнीहि한글", min_size=1, max_size=9)


@settings(max_examples=30, deadline=None)
@given(st.sets(LETTERS, min_size=1, max_size=60), LETTERS)
def test_similar_words_equal_a_linear_search(
    tmp_path_factory: pytest.TempPathFactory, words: set[str], target: str
) -> None:
    indexed_words = {
        folded(word): KnownWord(word, folded(word), "xx", 1)
        for word in sorted(words)
        if folded(word)
    }
    file = suggest_file_of(tmp_path_factory.mktemp("near"), [], list(indexed_words.values()))
    target = folded(target)
    for limit in (1, 2):
        expected = {
            form for form in indexed_words if 0 < word_distance(target, form, limit) <= limit
        }
        assert {word.folded for word in file.similar_words(target, limit, "xx")} == expected
    for form in indexed_words:
        assert file.find_word(form, "xx") is not None
    assert (file.find_word(target, "xx") is not None) == (target in indexed_words)


@pytest.mark.parametrize("many_rows", [0, 10**6], ids=["vectorized", "loop"])
def test_words_in_many_chunks(
    tmp_path: Path, many_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.index.suggest.file.MANY_ROWS", many_rows)
    generator = random.Random(8)
    forms = sorted(
        {
            "".join(generator.choices("abcdefghi", k=generator.choice((4, 5, 5))))
            for _ in range(9_000)
        }
    )
    words = [
        KnownWord(form, form, language, place % 700)
        for place, form in enumerate(forms)
        for language in ("en", "de")
    ]
    file = suggest_file_of(tmp_path, [], words)
    assert file.words == len(words) > 2 * MASK_ROWS
    assert all(
        file.find_word(form, "de") == KnownWord(form, form, "de", place % 700)
        for place, form in enumerate(forms)
    )
    for target in forms[::700]:
        expected = {form for form in forms if word_distance(target, form, 1) == 1}
        assert {word.folded for word in file.similar_words(target, 1, "en")} == expected


def test_error_for_a_damaged_file_names_the_command(tmp_path: Path) -> None:
    path = write_file(tmp_path, phrases_of(["a word"]), [])
    whole = path.read_bytes()
    for damaged in (b"", whole[:8], whole[:40], b"XXXX" + whole[4:]):
        path.write_bytes(damaged)
        with pytest.raises(WorkspaceError, match="lycosa index --rebuild"):
            SuggestFile(path)


def test_titles_headings_and_words_are_suggested(corpus: Corpus) -> None:
    night = page(
        "The tarantula hunts at night.",
        title="Night hunters | Spiders",
        headings=["1.2. In the dark"],
    )
    corpus.commit((f"http://h{n}.test/", night) for n in range(4))
    corpus.commit([("http://x.test/", page("Ein Satz.", title="Über Spinnen", language="de"))])
    corpus.commit_and_index(
        [("http://y.test/", page("Nope.", title="Not for indexes", may_index=False))]
    )
    file = newest_file(corpus)
    assert (texts(file, "night")[0], texts(file, "hunt")[0]) == ("Night hunters", "Night hunters")
    assert "Spiders" in texts(file, "spid")
    assert (texts(file, "in the"), texts(file, "uber")) == (["In the dark"], ["Über Spinnen"])
    assert "tarantula" in texts(file, "taran", words=True)
    assert texts(file, "not for") == []
    word = file.find_word("tarantula", "en")
    assert word is not None
    assert word.pages == 4


@pytest.mark.proves("consistency-purge-derived")
def test_suggestions_have_no_text_of_excluded_pages(corpus: Corpus) -> None:
    corpus.commit(
        [
            ("http://secret.test/", page("Zanzibarium.", title="Zanzibarium")),
            ("http://open.test/", page("Open.", title="Openness")),
        ]
    )
    indexer = Indexer(corpus.root, index_settings())
    indexer.update()
    assert texts(newest_file(corpus), "zanz")
    exclude(corpus.workspace, [parse_rule("domain:secret.test")])
    indexer.update()
    indexer.close()
    assert texts(newest_file(corpus), "open") == ["Openness"]
    for path in (Path(corpus.root) / "index").rglob("suggestions-*"):
        assert b"anzibarium" not in path.read_bytes()


def test_titles_of_gone_pages_are_not_suggested(corpus: Corpus) -> None:
    corpus.commit(
        [
            ("http://a.test/", page("Alpha.", title="Alpha page")),
            ("http://b.test/", page("Beta.", title="Beta page")),
        ]
    )
    corpus.commit_and_index(states=[("http://a.test/", "gone")])
    assert texts(newest_file(corpus), "page") == ["Beta page"]


def test_file_is_rebuilt_after_the_minimum_age(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "FRESH_PAGES", 0)
    clock = ManualClock(FIRST_AT)
    corpus.commit([("http://a.test/", page("Alpha.", title="Alpha page"))])
    indexer = Indexer(corpus.root, index_settings(), clock)
    indexer.update()
    corpus.commit([("http://b.test/", page("Beta.", title="Beta page"))])
    second = indexer.update()
    assert texts(newest_file(corpus), "page") == ["Alpha page"]  # reused file
    assert indexer.update().generation == second.generation
    clock.advance(refresh.REST_MS_A_PAGE)
    assert indexer.update().generation == second.generation + 1
    assert set(texts(newest_file(corpus), "page")) == {"Alpha page", "Beta page"}
    assert indexer.update().generation == second.generation + 1
    indexer.close()


def test_shard_suggests_only_its_own_pages(corpus: Corpus) -> None:
    pages = (
        (f"http://h{n}.test/", page("Text.", title=f"Host {n}", headings=[f"Heading {n}"]))
        for n in range(12)
    )
    corpus.commit_and_index(pages, shards=3)
    files = [SuggestFile(path) for path in (Path(corpus.root) / "index").rglob("suggestions-*")]
    titles = [
        {phrase.text for phrase in file.complete("host", 20) if phrase.kind == TITLE}
        for file in files
    ]
    assert (len(titles), set().union(*titles)) == (3, {f"Host {n}" for n in range(12)})
    assert sum(map(len, titles)) == 12
    assert all(phrase.kind == HEADING for file in files for phrase in file.complete("heading", 20))


def test_file_of_another_version_is_ignored_and_rebuilt(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/", page("Alpha.", title="Alpha page"))])
    with Indexer(corpus.root, index_settings()) as indexer:
        first = indexer.update()
        path = suggest_file.find(sorted((Path(corpus.root) / "index").glob("0*"))[-1])
        assert path is not None
        path.rename(path.with_name("suggestions-2f00ba4bad5eed00"))
        assert suggest_file.find(path.parent) is None
        assert indexer.update().generation == first.generation + 1
    assert texts(newest_file(corpus), "alpha") == ["Alpha page"]


SCRIPTS = "aAßéßzжЖйшंन하글がガ한ﬁİ…- \u0301"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(SCRIPTS, min_size=1, max_size=12), min_size=1, max_size=40, unique=True),
    st.integers(1, 10**6),
)
def test_written_phrases_and_words_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, given_texts: list[str], pages: int
) -> None:
    phrases = {
        form: Phrase(text, form, "xx", 0.3 * pages, HEADING, pages)
        for text in given_texts
        if (form := folded(text).strip())
    }
    words = {
        form: KnownWord(text * 4, form * 4, "xx", pages)
        for text, form in ((text, folded(text)) for text in given_texts)
        if form
    }
    file = suggest_file_of(
        tmp_path_factory.mktemp("read"), list(phrases.values()), list(words.values())
    )
    for phrase in phrases.values():
        for place in starts(phrase.folded)[:1]:
            matches = {each.text: each for each in file.complete(phrase.folded[place:], 40)}
            match = matches[phrase.text]
            assert (match.folded, match.kind, match.pages) == (phrase.folded, HEADING, pages)
            assert match.weight == pytest.approx(
                phrase.weight * (1.5 if place == 0 else 1.0), rel=0.001
            )
    for word in words.values():
        assert file.find_word(word.folded, "xx") == word


SIGNS = "aBß1éЖー_-… \u0301ж한हिन事ガไทยກ𠀀😀"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(SIGNS, max_size=30), max_size=12))
@example(["1  1", "a\tb", "a \x1cb\n", " a b "])
def test_vectorized_folding_equals_folding_each_text(given_texts: list[str]) -> None:
    assert folded_all(given_texts) == [folded(text).strip() for text in given_texts]
    rows = _with_folded(pl.DataFrame({"text": given_texts}, schema={"text": pl.String}))
    assert sorted(rows.iter_rows()) == sorted(
        (text, form) for text in given_texts if (form := folded(text).strip())
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(SIGNS, max_size=30), max_size=12))
def test_word_starts_are_sorted_by_their_suffixes(given_texts: list[str]) -> None:
    phrases = [form for text in given_texts if (form := folded(text).strip())]
    expected = sorted(
        (phrase[place:].encode(), number << PLACE_BITS | place)
        for number, phrase in enumerate(phrases)
        for place in starts(phrase)
    )
    rows = _starts(pl.Series(phrases, dtype=pl.String), pl.Series(range(len(phrases))))
    assert [(suffix.encode(), start) for suffix, start in rows.iter_rows()] == expected


def test_word_counts_include_copies_of_a_text(corpus: Corpus) -> None:
    text = "Of 2nd “tarantulas”, foo_bar: tarantulas!"
    corpus.commit(
        (f"http://h{n}.test/", page(text, title=f"Title {n}", language="en")) for n in range(5)
    )
    corpus.commit_and_index(
        [("http://x.test/", page("Of tarantulas too.", title="Other", language="en"))]
    )
    file = newest_file(corpus)
    counts = {
        word: indexed_words.pages
        for word in ("tarantulas", "nd", "foo", "too")
        if (indexed_words := file.find_word(word, "en")) is not None
    }
    assert counts == {"tarantulas": 6, "nd": 5, "foo": 5, "too": 1}


def test_page_in_several_collections_counts_once(corpus: Corpus) -> None:
    for collection in ("one", "two"):
        corpus.commit([("http://a.test/", page("Tarantulas.", language="en"))], (), collection)
    corpus.index()
    word = newest_file(corpus).find_word("tarantulas", "en")
    assert word is not None
    assert word.pages == 1


def test_empty_sample_of_pages(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "Collector", lambda _: Collector(2**62))
    corpus.commit_and_index([("http://a.test/", page("Text.", title="Alpha page"))])
    file = newest_file(corpus)
    assert (texts(file, "alpha"), file.words) == (["Alpha page"], 0)
