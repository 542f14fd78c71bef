"""Word alignment that agrees both ways: what it learns from SIB-200, in which tables it is kept,
what resembles what.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from lycosa.core.errors import WorkspaceError
from lycosa.text.analyze import analyzer_for
from lycosa.translation.similarity import sound
from lycosa.translation.source import Sources
from lycosa.translation.table import TableInfo, TranslationTable, analyzers, write_table
from lycosa.translation.terms import TranslationTerm, terms, written_key
from lycosa.translation.word_alignment import Learned, learn
from tests.text.data import sib200_numbered


def taught(source: str, target: str) -> Learned:
    """What SIB-200's learning part teaches."""
    one, other = analyzer_for(source), analyzer_for(target)
    pairs = zip(sib200_numbered(source), sib200_numbered(target), strict=True)
    return learn(
        (terms(one, here), terms(other, there))
        for (number, here), (_, there) in pairs
        if number % 5
    )


def table(
    folder: Path, source: str, target: str, made: Learned, name: str = "made"
) -> TranslationTable:
    path = folder / f"{name}-{source}-{target}.sqlite"
    info = TableInfo(name, "learned", source, target, 0, analyzers(source, target))
    write_table(path, info, made.pairs, made.source_surfaces, made.target_surfaces)
    return TranslationTable(path)


@pytest.fixture(scope="module")
def russian(tmp_path_factory: pytest.TempPathFactory) -> TranslationTable:
    return table(tmp_path_factory.mktemp("tables"), "en", "ru", taught("en", "ru"))


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> TranslationTable:
    return table(tmp_path_factory.mktemp("tables"), "en", "zh", taught("en", "zh"))


@pytest.mark.parametrize(
    ("word", "translation"),
    [("water", "вода"), ("city", "город"), ("people", "люди"), ("country", "страна")],
)
def test_usual_words_are_learned(russian: TranslationTable, word: str, translation: str) -> None:
    key, expected = (
        written_key(analyzer_for("en"), word),
        written_key(analyzer_for("ru"), translation),
    )
    assert expected in [each.key for each in russian.lookup(key, "en", "ru")[:3]]
    assert key in [each.key for each in russian.lookup(expected, "ru", "en")[:3]]


def test_chinese_words_are_keys_of_their_characters(chinese: TranslationTable) -> None:
    assert "国 家" in [each.key for each in chinese.lookup("countri", "en", "zh")[:4]]
    assert chinese.lookup("国 家", "zh", "en")[0].key == "countri"
    assert written_key(analyzer_for("zh"), "國家") == "国 家"


def test_words_that_nobody_knows_resemble_some_that_are_known(russian: TranslationTable) -> None:
    assert not russian.lookup("countrymen", "en", "ru")
    guessed = russian.resembling("countrymen", "en", "ru")
    assert "стран" in [each.key for each in guessed]
    assert max(each.weight for each in guessed) < russian.lookup("countri", "en", "ru")[0].weight
    assert russian.resembling("12345", "en", "ru") == []


def test_names_are_found_by_their_sound(tmp_path: Path) -> None:
    made = Learned([("president", "путин", 0.5)], {"president": "president"}, {"путин": "Путин"}, 1)
    assert sound("Путин") == "putin"
    (result,) = table(tmp_path, "en", "ru", made).resembling("putin", "en", "ru")
    assert (result.key, result.surface, result.weight < 0.6) == ("путин", "Путин", True)


def test_english_joins_languages_that_no_table_joins(
    russian: TranslationTable, chinese: TranslationTable
) -> None:
    sources = Sources([russian, chinese])
    assert sources.covers("ru", "zh")
    assert not sources.covers("ru", "de")
    assert "国 家" in [
        each.key
        for each in sources.lookup(written_key(analyzer_for("ru"), "страна"), "ru", "zh")[:6]
    ]


def test_learning_is_the_same_each_time() -> None:
    pairs = [([TranslationTerm(word, word) for word in one.split()], [TranslationTerm(word, word) for word in other.split()]) for one, other in (
        ("the house", "das haus"), ("the book", "das buch"), ("a book", "ein buch"), ("", "nichts"), ("nothing", "")
    )]  # fmt: skip
    made = learn(pairs)
    assert made == learn(pairs)
    assert made.sentences == 3
    best = {
        one: max((weight, other) for each, other, weight in made.pairs if each == one)[1]
        for one, _, _ in made.pairs
    }
    assert (best["house"], best["book"]) == ("haus", "buch")
    assert learn([]) == Learned([], {}, {}, 0)


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.sqlite", tmp_path / "empty.sqlite"
    broken.write_bytes(b"nothing" * 500)
    sqlite3.connect(empty).close()
    empty.touch()
    for path in (broken, empty, tmp_path / "absent.sqlite"):
        with pytest.raises(WorkspaceError, match="not a translation table"):
            TranslationTable(path)
    table(tmp_path, "en", "de", Learned([("a", "b", 1.0)], {}, {}, 1), "later").close()
    with sqlite3.connect(tmp_path / "later-en-de.sqlite") as database:
        database.execute("UPDATE about SET value = '9' WHERE key = 'format'")
    database.close()
    with pytest.raises(WorkspaceError, match="format 9"):
        TranslationTable(tmp_path / "later-en-de.sqlite")
