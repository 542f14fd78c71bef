"""A query asked in other languages: dictionaries, learned tables, edits, compounds, encoders, the list."""

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
    understood = tuple(
        matches for alternatives in edits if (matches := edit(alternatives)) is not None
    )
    return searcher.search(SearchRequest(text, across=Across(languages, edits=understood), **more))  # type: ignore[arg-type]


def urls(results: SearchResults) -> list[str]:
    return [hit.url.removeprefix("http://") for hit in results.hits]


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
    matches = urls(ask(searcher, query))
    assert set(matches[: len(expected)]) == expected, matches


def test_pages_that_merely_hold_the_typed_words_come_last(tmp_path: Path) -> None:
    """The typed words are rare in other languages, so that each page with one looked like the best
    of its language.
    """
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
    without = urls(ask(Searcher(corpus.root), "river house", count=20, per_host=0))
    assert without[:4] == [f"en.test/{n}" for n in range(4)], without
    dictionary = tmp_path / "en-de.tsv"
    dictionary.write_text(GERMAN, encoding="utf-8")
    add_dictionary(corpus.root, dictionary)
    matches = urls(ask(Searcher(corpus.root), "river house", count=20, per_host=0))
    assert set(matches[:8]) == {
        f"{language}.test/{n}" for language in ("en", "de") for n in range(4)
    }, matches
    assert set(matches[8:]) == {"de.test/typed", "fr.test/typed"}


def test_only_the_languages_that_are_named_are_asked(searcher: Searcher) -> None:
    results = ask(searcher, "house", "de")
    assert set(urls(results)) == {"en.test/houses", "de.test/haus"}
    assert [query.language for query in results.translations] == ["en", "de"]


def test_pages_of_one_language_alone(searcher: Searcher) -> None:
    assert (
        urls(ask(searcher, "house", language="de"))
        == urls(ask(searcher, "house lang:de"))
        == ["de.test/haus"]
    )


def test_the_answer_shows_translations_and_takes_others(searcher: Searcher) -> None:
    (_, german) = ask(searcher, "house", "de").translations
    assert {each.surface for each in german.terms[0].alternatives} == {"Haus", "Gebäude", "house"}
    edited = ask(searcher, "house", "de", edits=("de:house=Fluss",))
    assert "de.test/fluss" in urls(edited)
    assert [each.surface for each in edited.translations[1].terms[0].alternatives] == ["Fluss"]
    assert "de.test/haus" in urls(ask(searcher, "old house", "de", edits=("de:old=",)))


def test_translated_words_are_marked(searcher: Searcher) -> None:
    hits = {hit.url: hit for hit in ask(searcher, "house").hits}
    marked = {url: {text for text, match in hit.snippet if match} for url, hit in hits.items()}
    assert marked["http://de.test/haus"] == {"Häuser", "Haus"}
    assert marked["http://ms.test/rumah"] == {"Rumah"}
    assert "".join(text for text, match in hits["http://lo.test/"].snippet if match) == "ເຮືອນ"


def test_through_english_where_no_table_joins_two_languages(root: str) -> None:
    (malay,) = look_up(root, "Haus", "de", ("ms",))
    assert malay.terms[0].alternatives[0].surface in ("Haus", "rumah")
    assert "rumah" in {each.surface for each in malay.terms[0].alternatives}
    assert any(" + " in each.origin for each in malay.terms[0].alternatives)


def test_pages_of_an_answer_go_together(searcher: Searcher) -> None:
    whole = urls(ask(searcher, "house"))
    assert [
        url
        for start in range(len(whole))
        for url in urls(ask(searcher, "house", count=1, offset=start))
    ] == whole


@pytest.mark.parametrize(
    "query",
    ["", "-", '""', "lang:de", "(((", "a" * 3_000, "*", "\ud800 house", "house OR", "OR " * 40],
)
def test_any_input_gives_an_answer(searcher: Searcher, query: str) -> None:
    assert ask(searcher, query).query == query


def test_another_spelling_of_what_no_table_knows(tmp_path: Path) -> None:
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
    meant = ask(searcher, "spidre", "de").did_you_mean
    assert meant is not None
    assert (meant.query, meant.total) == ("spider", 4)
    assert ask(searcher, "spider", "de").did_you_mean is None
    assert ask(searcher, "spidre", "de", spelling=False).did_you_mean is None
    assert ask(searcher, "spidre", "de", host="de1.test").did_you_mean is None, (
        "there it finds nothing either"
    )
    table = tmp_path / "en-de.tsv"
    table.write_text("spidre\tSpinne\n", encoding="utf-8")
    add_dictionary(corpus.root, table)
    assert ask(searcher, "spidre", "de").did_you_mean is None, (
        "a word that has a translation is spelled as it is"
    )


def test_a_language_without_translations_is_told(searcher: Searcher) -> None:
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
def test_the_language_of_a_few_words_is_found(root: str, text: str, language: str) -> None:
    assert (
        query_language(parse_query(text), ["zh", "de", "en", "ms", "lo"], tables_of(root).sources)
        == language
    )


def test_tables_come_and_go_while_a_searcher_is_open(root: str, tmp_path: Path) -> None:
    searcher = Searcher(root)
    assert "de.test/fluss" not in urls(ask(searcher, "stream", "de"))
    path = tmp_path / "more.tsv"
    path.write_text("stream\tFluss\n", encoding="utf-8")
    assert add_dictionary(root, path, "en", "de").name == "more"
    assert "de.test/fluss" in urls(ask(searcher, "stream", "de"))
    with pytest.raises(UsageError, match="already"):
        add_dictionary(root, path, "en", "de")
    remove_table(root, "more")
    assert "de.test/fluss" not in urls(ask(searcher, "stream", "de"))
    with pytest.raises(UsageError, match="no added or learned table"):
        remove_table(root, "more")


def test_numbers_and_names_are_kept() -> None:
    edits: Edits = {}
    query = Translator(Sources(), parse_query("Debian 12"), "en", edits).into("ru")
    assert [(term.source, [each.key for each in term.alternatives]) for term in query.terms] == [
        ("Debian", ["debian"]),
        ("12", ["12"]),
    ]


DICTIONARY = "system\tSystem\nrequirement\tAnforderung\ninstallation\tInstallation\nguide\tAnleitung\nspider\tSpinne\n"


def term(source: str, *keys: str) -> TranslatedTerm:
    return TranslatedTerm(source, tuple(Translation(key, 0.5, key, "table") for key in keys))


def test_pairs_are_joined_where_the_index_holds_them() -> None:
    query = TranslatedQuery(
        "de",
        (
            term("the", "der"),
            term("installation", "installation"),
            term("system", "system"),
            term("x", "ab"),
        ),
    )
    held = {"installationssystem"}
    joined = with_compounds(query, held.__contains__)
    assert (
        [each.source for each in joined.terms],
        [each.key for each in joined.terms[1].alternatives],
        [each.source for each in joined.terms[1].words],
    ) == (["the", "installation system", "x"], ["installationssystem"], ["installation", "system"])
    assert with_compounds(query, lambda key: False) == query
    french = TranslatedQuery("fr", query.terms)
    assert with_compounds(french, held.__contains__) is french


@pytest.mark.parametrize(
    ("query", "matches"),
    [("system requirements", "one"), ("installation guide", "two"), ("spider guide", "three")],
)
def test_compounds_are_found_and_so_are_words_apart(
    tmp_path: Path, query: str, matches: str
) -> None:
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
    assert results.hits[0].url == f"http://de.test/{matches}"
    assert any(marked for _, marked in results.hits[0].snippet)
