"""Cross-language search: tables, edits, compounds, order of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.commands.maintenance.translate import (
    add_dictionary,
    look_up,
    remove_table,
    tables_of,
)
from lycosa.core.errors import UsageError
from lycosa.search.crosslingual.translated import (
    Across,
    Edits,
    TranslatedQuery,
    TranslatedTerm,
    Translator,
    edit,
    with_compounds,
)
from lycosa.search.engine.searcher import Searcher, SearchRequest, SearchResults
from lycosa.search.query.language import query_language
from lycosa.search.query.query import parse_query
from lycosa.translation.source import Sources, Translation
from tests.index.corpus import Corpus, page
from tests.search.shards import short_urls

PAGES = {
    "http://en.test/houses": page("Old houses by the river are dear. A house needs a roof.", title="Houses", language="en"),
    "http://de.test/haus": page("Alte Häuser am Fluss sind teuer. Ein Haus braucht ein Dach.", title="Häuser", language="de"),
    "http://de.test/fluss": page("Der Fluss ist lang und breit und voller Fische.", title="Der Fluss", language="de"),
    "http://de.test/system": page("Ein Betriebssystem verwaltet den Rechner.", title="Betriebssysteme", language="de"),
    "http://de.test/python": page("Python 3 ist eine Sprache zum Programmieren.", title="Python", language="de"),
    "http://zh.test/python": page("用 Python 编程很有意思，程序员都喜欢它。", title="Python 编程入门", language="zh"),
    "http://zh.test/system": page("操作系统管理计算机的资源。", title="操作系统", language="zh"),
    "http://hant.test/system": page("作業系統管理電腦。操作系統是軟體。", title="操作系統", language="zh"),
    "http://ms.test/rumah": page("Rumah itu besar dan mahal sekali di tepi sungai.", title="Rumah", language="ms"),
    "http://lo.test/": page("ເຮືອນ ຫຼັງ ໃຫຍ່ ຢູ່ ແຄມ ນ້ຳ.", title="ເຮືອນ", language="lo"),
}  # fmt: skip
GERMAN = (
    "house\tHaus|Gebäude\nriver\tFluss\nroof\tDach\noperating "
    "system\tBetriebssystem\nsystem\tSystem|Anlage\nprogramming\tProgrammieren\n"
)
CHINESE = "house\t房子|房屋\noperating system\t操作系统\nprogramming\t编程|程序设计\ncomputer\t计算机|电脑\nfish\t鱼\n"
MALAY = "house\trumah\nriver\tsungai\nbig\tbesar\n"
LAO = "house\tເຮືອນ\nbig\tໃຫຍ່\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("across")
    corpus = Corpus(str(folder / "w"))
    corpus.commit_and_index(PAGES.items())
    for target, rows in (("de", GERMAN), ("zh", CHINESE), ("ms", MALAY), ("lo", LAO)):
        path = folder / f"en-{target}.tsv"
        path.write_text(rows, encoding="utf-8")
        add_dictionary(corpus.root, path)
    return corpus.root


@pytest.fixture(scope="module")
def searcher(root: str) -> Searcher:
    return Searcher(root)


def ask(
    searcher: Searcher, text: str, *languages: str, edits: tuple[str, ...] = (), **more: object
) -> SearchResults:
    parsed = tuple(result for each in edits if (result := edit(each)) is not None)
    return searcher.search(SearchRequest(text, across=Across(languages, edits=parsed), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("house", {"en.test/houses", "de.test/haus", "ms.test/rumah", "lo.test/"}),
        ("houses", {"en.test/houses", "de.test/haus", "ms.test/rumah", "lo.test/"}),
        ("operating system", {"de.test/system", "zh.test/system", "hant.test/system"}),
        ("Python programming", {"de.test/python", "zh.test/python"}),
        ("haus", {"de.test/haus", "en.test/houses", "ms.test/rumah", "lo.test/"}),
        ("rumah", {"ms.test/rumah", "en.test/houses", "de.test/haus", "lo.test/"}),
        ("操作系统", {"zh.test/system", "hant.test/system", "de.test/system"}),
        ("操作系統", {"zh.test/system", "hant.test/system", "de.test/system"}),
        ("Python 编程", {"zh.test/python", "de.test/python"}),
        ("Python 編程", {"zh.test/python", "de.test/python"}),
        ("ເຮືອນ", {"lo.test/", "en.test/houses", "de.test/haus", "ms.test/rumah"}),
        ("house -big", {"en.test/houses", "de.test/haus"}),
        ("house site:de.test", {"de.test/haus"}),
    ],
)
def test_pages_in_all_languages_are_found(
    searcher: Searcher, query: str, expected: set[str]
) -> None:
    matches = short_urls(ask(searcher, query))
    assert set(matches[: len(expected)]) == expected, matches


def test_untranslated_query_words_in_other_languages_rank_last(tmp_path: Path) -> None:
    """Query words are rare in pages of other languages, which must not raise their scores."""
    english = (
        "The river flows slowly past old houses. Every house by the river has a roof and a garden. "
    )
    german = (
        "Der Fluss fließt langsam an alten Häusern vorbei. Jedes Haus am Fluss hat ein Dach "
        "und einen Garten. "
    )
    french = (
        "Le fleuve coule lentement devant les vieilles maisons. Chaque maison a un toit et "
        "un jardin. "
    )
    other = {
        "en": "Bread is baked in the morning. ",
        "de": "Brot wird am Morgen gebacken. ",
        "fr": "Le pain est cuit le matin. ",
    }
    pages = {
        f"http://en.test/{n}": page(english + other["en"] * n, title=f"River {n}", language="en")
        for n in range(4)
    }
    pages |= {
        f"http://de.test/{n}": page(german + other["de"] * n, title=f"Fluss {n}", language="de")
        for n in range(4)
    }
    pages |= {
        f"http://fr.test/{n}": page(french + other["fr"] * n, title=f"Fleuve {n}", language="fr")
        for n in range(4)
    }
    pages["http://de.test/typed"] = page(
        other["de"] * 3 + "river house river house", title="Version 1.2", language="de"
    )
    pages["http://fr.test/typed"] = page(
        other["fr"] * 3 + "river house river house", title="Version 1.2", language="fr"
    )
    corpus = Corpus(str(tmp_path / "w"))
    corpus.commit_and_index(pages.items())
    without = short_urls(ask(Searcher(corpus.root), "river house", count=20, per_host=0))
    assert without[:4] == [f"en.test/{n}" for n in range(4)], without
    dictionary = tmp_path / "en-de.tsv"
    dictionary.write_text(GERMAN, encoding="utf-8")
    add_dictionary(corpus.root, dictionary)
    matches = short_urls(ask(Searcher(corpus.root), "river house", count=20, per_host=0))
    assert set(matches[:8]) == {
        f"{language}.test/{n}" for language in ("en", "de") for n in range(4)
    }, matches
    assert set(matches[8:]) == {"de.test/typed", "fr.test/typed"}


def test_only_the_requested_languages_are_searched(searcher: Searcher) -> None:
    results = ask(searcher, "house", "de")
    assert set(short_urls(results)) == {"en.test/houses", "de.test/haus"}
    assert [query.language for query in results.translations] == ["en", "de"]


def test_language_parameter_equals_the_operator(searcher: Searcher) -> None:
    assert (
        short_urls(ask(searcher, "house", language="de"))
        == short_urls(ask(searcher, "house lang:de"))
        == ["de.test/haus"]
    )


def test_translations_are_returned_and_can_be_replaced(searcher: Searcher) -> None:
    (_, german) = ask(searcher, "house", "de").translations
    assert {each.surface for each in german.terms[0].alternatives} == {"Haus", "Gebäude", "house"}
    edited = ask(searcher, "house", "de", edits=("de:house=Fluss",))
    assert "de.test/fluss" in short_urls(edited)
    assert [each.surface for each in edited.translations[1].terms[0].alternatives] == ["Fluss"]
    assert "de.test/haus" in short_urls(ask(searcher, "old house", "de", edits=("de:old=",)))


def test_translated_words_are_highlighted(searcher: Searcher) -> None:
    hits = {hit.url: hit for hit in ask(searcher, "house").hits}
    marked = {url: {text for text, match in hit.snippet if match} for url, hit in hits.items()}
    assert marked["http://de.test/haus"] == {"Häuser", "Haus"}
    assert marked["http://ms.test/rumah"] == {"Rumah"}
    assert "".join(text for text, match in hits["http://lo.test/"].snippet if match) == "ເຮືອນ"


def test_english_is_the_pivot_without_a_direct_table(root: str) -> None:
    (malay,) = look_up(root, "Haus", "de", ("ms",))
    assert malay.terms[0].alternatives[0].surface in ("Haus", "rumah")
    assert "rumah" in {each.surface for each in malay.terms[0].alternatives}
    assert any(" + " in each.origin for each in malay.terms[0].alternatives)


def test_paging_returns_the_same_order(searcher: Searcher) -> None:
    whole = short_urls(ask(searcher, "house"))
    assert [
        url
        for start in range(len(whole))
        for url in short_urls(ask(searcher, "house", count=1, offset=start))
    ] == whole


@pytest.mark.parametrize(
    "query",
    ["", "-", '""', "lang:de", "(((", "a" * 3_000, "*", "\ud800 house", "house OR", "OR " * 40],
)
def test_any_input_is_a_valid_query(searcher: Searcher, query: str) -> None:
    assert ask(searcher, query).query == query


def test_spelling_is_corrected_for_words_without_translation(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    english = page("The spider waits in a museum of webs.", title="Spider", language="en")
    german = page("Die Spinne wartet im Museum.", title="Spinne", language="de")
    searcher = corpus.indexed(
        [
            (f"http://{name}{n}.test/", each)
            for name, each in (("en", english), ("de", german))
            for n in range(4)
        ]
    )
    correction = ask(searcher, "spidre", "de").did_you_mean
    assert correction is not None
    assert (correction.query, correction.total) == ("spider", 4)
    assert ask(searcher, "spider", "de").did_you_mean is None
    assert ask(searcher, "spidre", "de", spelling=False).did_you_mean is None
    assert ask(searcher, "spidre", "de", host="de1.test").did_you_mean is None, (
        "the correction has no results on this host"
    )
    table = tmp_path / "en-de.tsv"
    table.write_text("spidre\tSpinne\n", encoding="utf-8")
    add_dictionary(corpus.root, table)
    assert ask(searcher, "spidre", "de").did_you_mean is None, (
        "a word with a translation is not corrected"
    )


def test_note_names_a_language_without_translations(searcher: Searcher) -> None:
    notes = ask(searcher, "house", "fr").notes
    assert any("no translations from en into fr" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("house", "en"),
        ("Betriebssystem", "de"),
        ("rumah besar", "ms"),
        ("编程", "zh"),
        ("Python 编程", "zh"),
    ],
)
def test_language_of_a_short_query(root: str, text: str, language: str) -> None:
    assert (
        query_language(parse_query(text), ["zh", "de", "en", "ms", "lo"], tables_of(root).sources)
        == language
    )


def test_phrases_of_tables_tell_the_language_of_a_query(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    table = tmp_path / "en-zh.tsv"
    table.write_text("rubber duck\t橡皮鸭\n", encoding="utf-8")
    add_dictionary(corpus.root, table)
    sources = tables_of(corpus.root).sources
    holding = {"en": 0.0, "de": 5.0}
    assert query_language(parse_query("rubber duck"), ["de", "zh"], sources, holding) == "en"


def test_open_searcher_uses_added_and_removed_tables(root: str, tmp_path: Path) -> None:
    searcher = Searcher(root)
    assert "de.test/fluss" not in short_urls(ask(searcher, "stream", "de"))
    path = tmp_path / "more.tsv"
    path.write_text("stream\tFluss\n", encoding="utf-8")
    assert add_dictionary(root, path, "en", "de").name == "more"
    assert "de.test/fluss" in short_urls(ask(searcher, "stream", "de"))
    with pytest.raises(UsageError, match="already"):
        add_dictionary(root, path, "en", "de")
    remove_table(root, "more")
    assert "de.test/fluss" not in short_urls(ask(searcher, "stream", "de"))
    with pytest.raises(UsageError, match="no added or learned table"):
        remove_table(root, "more")


def test_language_of_a_query_is_that_of_its_words_as_written(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    texts = {"en": ["The human eye"], "pt": ["O olho humano", "A mão humana", "O ser humano"]}
    searcher = corpus.indexed(
        [
            (f"http://{language}{number}.test/", page(text, language=language))
            for language, listed in texts.items()
            for number, text in enumerate(listed)
        ]
    )
    assert ask(searcher, "human", "pt-BR").translations[0].language == "en"
    assert ask(searcher, "humano", "en").translations[0].language == "pt"


def test_results_of_all_languages_are_sorted_by_date(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    texts = {"en": "A house, a house", "de": "Ein Haus am Fluss", "ms": "Rumah itu besar"}
    day_ms = 86_400_000
    searcher = corpus.indexed(
        [
            (
                f"http://{language}{age}.test/",
                page(
                    texts[language],
                    language=language,
                    published_at=1_600_000_000_000 - age * day_ms,
                ),
            )
            for age, language in enumerate(("ms", "en", "de", "ms", "en", "de"))
        ]
    )
    for target, rows in (("de", GERMAN), ("ms", MALAY)):
        path = tmp_path / f"en-{target}.tsv"
        path.write_text(rows, encoding="utf-8")
        add_dictionary(corpus.root, path)
    newest_first = ["ms0", "en1", "de2", "ms3", "en4", "de5"]
    for query, order in (("house", "date"), ("house sort:date", "")):
        results = ask(searcher, query, order=order)
        assert [url.partition(".")[0] for url in short_urls(results)] == newest_first
    later = ask(searcher, "house", order="date", offset=4)
    assert [url.partition(".")[0] for url in short_urls(later)] == newest_first[4:]


def test_numbers_and_names_are_not_translated() -> None:
    edits: Edits = {}
    query = Translator(Sources(), parse_query("Debian 12"), "en", edits).into("ru")
    assert [(term.source, [each.key for each in term.alternatives]) for term in query.terms] == [
        ("Debian", ["debian"]),
        ("12", ["12"]),
    ]


DICTIONARY = "system\tSystem\nrequirement\tAnforderung\ninstallation\tInstallation\nguide\tAnleitung\nspider\tSpinne\n"


def term(source: str, *keys: str) -> TranslatedTerm:
    return TranslatedTerm(source, tuple(Translation(key, 0.5, key, "table") for key in keys))


def test_compounds_in_the_index_replace_pairs_of_terms() -> None:
    query = TranslatedQuery(
        "de",
        (
            term("the", "der"),
            term("installation", "installation"),
            term("system", "system"),
            term("x", "ab"),
        ),
    )
    indexed = {"installationssystem"}
    joined = with_compounds(query, indexed.__contains__)
    assert (
        [each.source for each in joined.terms],
        [each.key for each in joined.terms[1].alternatives],
        [each.source for each in joined.terms[1].words],
    ) == (["the", "installation system", "x"], ["installationssystem"], ["installation", "system"])
    assert with_compounds(query, lambda key: False) == query
    french = TranslatedQuery("fr", query.terms)
    assert with_compounds(french, indexed.__contains__) is french


@pytest.mark.parametrize(
    ("query", "expected"),
    [("system requirements", "one"), ("installation guide", "two"), ("spider guide", "three")],
)
def test_compounds_and_separate_words_are_found(tmp_path: Path, query: str, expected: str) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    texts = {
        "one": "Die Systemanforderungen stehen hier.",
        "two": "Eine Installationsanleitung für alle.",
        "three": "Eine Anleitung, um eine Spinne zu fangen.",
        "four": "Ein System, das niemand braucht, und eine Installation.",
    }
    corpus.commit_and_index(
        [(f"http://de.test/{name}", page(text, language="de")) for name, text in texts.items()]
    )
    path = tmp_path / "en-de.tsv"
    path.write_text(DICTIONARY, encoding="utf-8")
    add_dictionary(corpus.root, path)
    results = Searcher(corpus.root).search(SearchRequest(query, across=Across(("de",), "en")))
    assert results.hits[0].url == f"http://de.test/{expected}"
    assert any(marked for _, marked in results.hits[0].snippet)
