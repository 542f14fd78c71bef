"""Dictionaries, parallel texts, sentence alignment, learned tables."""

from __future__ import annotations

import gzip
import random
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.errors import UsageError, WorkspaceError
from lycosa.text.analyze import analyzer_for
from lycosa.translation.align import aligned
from lycosa.translation.dictionaries import (
    DictionaryEntry,
    as_table,
    columns,
    dictd,
    translations,
    weight_of,
    wiktionary,
)
from lycosa.translation.parallel_texts import tmx, two_columns, two_files
from lycosa.translation.source import Sources
from lycosa.translation.table import TableInfo, TranslationTable, analyzers, sound, write_table
from lycosa.translation.terms import Vocabulary, written_key
from lycosa.translation.word_alignment import LearnedTranslations, learn
from tests.servers.system import require_file
from tests.text.data import DATA, sib200_numbered

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en-GB"><seg>The <bpt i="1">&lt;b&gt;</bpt>house</seg></tuv><tuv xml:lang="DE"><seg>Das Haus</seg></tuv></tu>
<tu><tuv lang="en"><seg>river</seg></tuv><tuv lang="fr"><seg>fleuve</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg> </seg></tuv><tuv xml:lang="de"><seg>leer</seg></tuv></tu>
</body></tmx>"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fever {n} (higher than normal) :: Fieber {n}", [("fever", "Fieber")]),
        (
            "feverish {adj} (filled with energy) :: fieberhaft, febril",
            [("feverish", "fieberhaft"), ("feverish", "febril")],
        ),
        (
            "peak {n} (mountain top) :: 尖峰 /jiānfēng/, 頂峰, 顶峰 /dǐngfēng/",
            [("peak", "尖峰"), ("peak", "頂峰"), ("peak", "顶峰")],
        ),
        (
            "aardvark {n} (mammal) :: 土豚 /ツチブタ, tsuchibuta/, 蟻食 /アリクイ, arikui/",
            [("aardvark", "土豚"), ("aardvark", "蟻食")],
        ),
        ("fever bush {n} (American winterberry) SEE: American winterberry ::", []),
        ("# License :: Creative Commons", []),
        ("Führer {n} (Adolf) :: [has other meanings as well] Führer {m}", [("Führer", "Führer")]),
        ("a :: one two three four five six", []),
    ],
)
def test_wiktionary_lines(line: str, expected: list[tuple[str, str]]) -> None:
    assert [(entry.word, entry.translation) for entry in wiktionary([line])] == expected


def test_later_senses_and_translations_have_lower_weights() -> None:
    weights = [entry.weight for entry in wiktionary(["run {v} :: a, b", "run {n} :: c"])]
    assert weights == [weight_of(0, 0), weight_of(0, 1), weight_of(1, 0)]
    assert 1.0 == weights[0] > weights[1] > weights[2] > 0


def test_dictionary_in_columns() -> None:
    rows = ["house\tHaus|Gebäude", "river\tFluss\t0.4", "# remark\tno", "alone", "bad\tx\t7"]
    assert list(columns(rows)) == [
        DictionaryEntry("house", "Haus", 1.0), DictionaryEntry("house", "Gebäude", weight_of(0, 1)), DictionaryEntry("river", "Fluss", 0.4), DictionaryEntry("bad", "x", 1.0)
    ]  # fmt: skip


def test_keys_of_a_dictionary_table_are_index_terms() -> None:
    result = as_table(
        [
            DictionaryEntry("to run", "laufen", 1.0),
            DictionaryEntry("Houses", "Häuser", 0.5),
            DictionaryEntry("house", "Haus", 1.0),
            DictionaryEntry("?", "x", 1),
        ],
        "en",
        "de",
    )
    assert sorted(result.pairs) == [("hous", "haus", 1.0), ("run", "lauf", 1.0)]
    assert result.target_surfaces["haus"] == "Haus"


def _dictd_number(value: int) -> str:
    digits = BASE64[value % 64]
    while value := value // 64:
        digits = BASE64[value % 64] + digits
    return digits


def test_dictd_files(tmp_path: Path) -> None:
    entries = {
        "00databaseinfo": "about\n",
        "house": "house /haus/\n1. maison <fem>, bâtiment\n2. chambre\n",
        "river": "river\nfleuve\n   note\n",
    }
    text, rows = b"", []
    for word, entry in entries.items():
        rows.append(f"{word}\t{_dictd_number(len(text))}\t{_dictd_number(len(entry.encode()))}")
        text += entry.encode()
    (tmp_path / "x.index").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "x.dict.dz").write_bytes(gzip.compress(text))
    expected = [
        ("house", "maison"),
        ("house", "bâtiment"),
        ("house", "chambre"),
        ("river", "fleuve"),
    ]
    for name in ("x.index", "x.dict.dz", "x"):
        assert [(entry.word, entry.translation) for entry in dictd(tmp_path / name)] == expected
    (tmp_path / "x.index").write_text("house\tzzzz\tzz\n", encoding="utf-8")
    with pytest.raises(UsageError, match="damaged"):
        list(dictd(tmp_path / "x.index"))
    (tmp_path / "x.dict.dz").write_bytes(b"no gzip")
    with pytest.raises(UsageError, match="cannot be read"):
        list(dictd(tmp_path / "x.index"))
    with pytest.raises(UsageError, match="not a dictd dictionary"):
        list(dictd(tmp_path / "absent.index"))


def test_freedict_dictionary() -> None:
    entries = list(
        dictd(require_file("/usr/share/dictd/freedict-eng-spa.index", "dict-freedict-eng-spa"))
    )
    assert len(entries) > 5_000
    assert DictionaryEntry("house", "casa", 1.0) in entries


def test_wiktionary_list() -> None:
    path = DATA / "wiktionary" / "en-ms.txt"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    entries = list(wiktionary(path.read_text(encoding="utf-8").splitlines()))
    assert len(entries) > 9_000
    assert "rumah" in {entry.translation for entry in entries if entry.word == "house"}


def test_translation_memories(tmp_path: Path) -> None:
    path = tmp_path / "x.tmx"
    path.write_text(TMX, encoding="utf-8")
    assert list(tmx(path, "en", "de")) == [("The <b>house", "Das Haus")]
    assert list(tmx(path, "fr", "en")) == [("fleuve", "river")]
    path.write_text(
        TMX.replace('"tmx14.dtd"', '"tmx14.dtd" [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]'),
        encoding="utf-8",
    )
    with pytest.raises(UsageError, match="entity"):
        list(tmx(path, "en", "de"))
    path.write_text(TMX[:300], encoding="utf-8")
    with pytest.raises(UsageError, match="not a TMX file"):
        list(tmx(path, "en", "de"))


def test_parallel_texts_in_columns_and_in_two_files(tmp_path: Path) -> None:
    assert list(two_columns(["a\tb\n", "alone\n", "\tx", "c\td\te"])) == [("a", "b"), ("c", "d")]
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a\nb\n")
    other.write_text("c\nd\n")
    assert list(two_files(one, other)) == [("a", "c"), ("b", "d")]
    other.write_text("c\n")
    with pytest.raises(UsageError, match="different numbers of lines"):
        list(two_files(one, other))


@given(st.text(max_size=80))
def test_any_line_can_be_parsed(line: str) -> None:
    assert all(result.strip() == result and result for result in translations(line))
    assert all(0 < entry.weight <= 1 for entry in [*wiktionary([line]), *columns([line])])


def test_lines_without_translation_are_not_aligned() -> None:
    english = [text for _, text in sib200_numbered("en")[:120]]
    german = [text for _, text in sib200_numbered("de")[:120]]
    generator = random.Random(7)
    removed, other_removed = (set(generator.sample(range(120), 6)) for _ in range(2))
    one = "\n".join(text for place, text in enumerate(english) if place not in removed)
    other = "\n".join(text for place, text in enumerate(german) if place not in other_removed)
    truth = set(zip(english, german, strict=True))
    result = list(aligned(one, other, "en", "de"))
    correct = sum(pair in truth for pair in result)
    assert correct >= 0.9 * len(result)
    assert correct >= 0.85 * (120 - len(removed | other_removed))


def test_sentences_within_a_paragraph_are_aligned() -> None:
    english = [text for _, text in sib200_numbered("en")[:8]]
    chinese = [text for _, text in sib200_numbered("zh")[:8]]
    result = list(aligned(" ".join(english), "".join(chinese), "en", "zh"))
    assert len(set(result) & set(zip(english, chinese, strict=True))) >= 5


def test_lines_with_equal_code_and_numbers_are_aligned() -> None:
    one = "\n".join(
        f"Run the command lycosa{number} now" if number % 3 else "Then wait" for number in range(60)
    )
    other = "\n".join(f"Führen Sie jetzt lycosa{number} aus" for number in range(60) if number % 3)
    assert all(
        here.split()[3] == there.split()[3]
        for here, there in aligned(one, other, "en", "de")
        if here.startswith("Run")
    )


def test_untranslated_text_is_not_aligned() -> None:
    text = "This line stays in English\nls -l /usr/share\nAnd so does this one"
    assert (list(aligned(text, text, "en", "de")), list(aligned(text, "", "en", "de"))) == ([], [])


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_texts_can_be_aligned(one: str, other: str) -> None:
    for here, there in aligned(one, other, "en", "zh"):
        assert here.strip()
        assert there.strip()


def learned_from_sib200(source: str, target: str) -> LearnedTranslations:
    """Return the translations learned from the training part of SIB-200."""
    pairs = zip(sib200_numbered(source), sib200_numbered(target), strict=True)
    return learn(
        [(here, there) for (number, here), (_, there) in pairs if number % 5],
        Vocabulary(analyzer_for(source)),
        Vocabulary(analyzer_for(target)),
    )


def table(
    folder: Path, source: str, target: str, learned: LearnedTranslations, name: str = "test"
) -> TranslationTable:
    path = folder / f"{name}-{source}-{target}.sqlite"
    info = TableInfo(name, "learned", source, target, 0, analyzers(source, target))
    write_table(path, info, learned.pairs, learned.source_surfaces, learned.target_surfaces)
    return TranslationTable(path)


@pytest.fixture(scope="module")
def russian(tmp_path_factory: pytest.TempPathFactory) -> TranslationTable:
    return table(tmp_path_factory.mktemp("tables"), "en", "ru", learned_from_sib200("en", "ru"))


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> TranslationTable:
    return table(tmp_path_factory.mktemp("tables"), "en", "zh", learned_from_sib200("en", "zh"))


@pytest.mark.parametrize(
    ("word", "translation"),
    [("water", "вода"), ("city", "город"), ("people", "люди"), ("country", "страна")],
)
def test_frequent_words_are_learned(russian: TranslationTable, word: str, translation: str) -> None:
    key, expected = (
        written_key(analyzer_for("en"), word),
        written_key(analyzer_for("ru"), translation),
    )
    assert expected in [each.key for each in russian.lookup(key, "en", "ru")[:3]]
    assert key in [each.key for each in russian.lookup(expected, "ru", "en")[:3]]


def test_keys_of_chinese_words_are_their_characters(chinese: TranslationTable) -> None:
    assert "国 家" in [each.key for each in chinese.lookup("countri", "en", "zh")[:4]]
    assert chinese.lookup("国 家", "zh", "en")[0].key == "countri"
    assert written_key(analyzer_for("zh"), "國家") == "国 家"


def test_unknown_words_are_translated_like_similar_words(russian: TranslationTable) -> None:
    assert not russian.lookup("countrymen", "en", "ru")
    results = russian.resembling("countrymen", "en", "ru")
    assert "стран" in [each.key for each in results]
    assert max(each.weight for each in results) < russian.lookup("countri", "en", "ru")[0].weight
    assert russian.resembling("12345", "en", "ru") == []


def test_names_are_translated_by_their_sound(tmp_path: Path) -> None:
    learned = LearnedTranslations(
        [("president", "путин", 0.5)], {"president": "president"}, {"путин": "Путин"}, 1
    )
    assert sound("Путин") == "putin"
    (result,) = table(tmp_path, "en", "ru", learned).resembling("putin", "en", "ru")
    assert (result.key, result.surface, result.weight < 0.6) == ("путин", "Путин", True)


def test_english_is_the_pivot_between_languages_without_a_table(
    russian: TranslationTable, chinese: TranslationTable
) -> None:
    sources = Sources([russian, chinese])
    assert sources.covers("ru", "zh")
    assert not sources.covers("ru", "de")
    assert "国 家" in [
        each.key
        for each in sources.lookup(written_key(analyzer_for("ru"), "страна"), "ru", "zh")[:6]
    ]


def test_learning_is_deterministic_and_independent_of_the_order() -> None:
    pairs = [
        ("the house", "das haus"),
        ("the book", "das buch"),
        ("a book", "ein buch"),
        ("", "nichts"),
        ("nothing", ""),
    ]
    one, other = Vocabulary(analyzer_for("und")), Vocabulary(analyzer_for("und"))
    learned = learn(pairs, one, other)
    used, other_used = Vocabulary(analyzer_for("und")), Vocabulary(analyzer_for("und"))
    learn([("another sentence", "ein buch"), *pairs[::-1]], used, other_used)
    assert learned == learn(pairs, one, other) == learn(pairs, used, other_used)
    assert learned.sentences == 3
    best = {
        one: max((weight, other) for each, other, weight in learned.pairs if each == one)[1]
        for one, _, _ in learned.pairs
    }
    assert (best["house"], best["book"]) == ("haus", "buch")
    assert learn([], one, other) == LearnedTranslations([], {}, {}, 0)


def test_invalid_table_files_are_errors(tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.sqlite", tmp_path / "empty.sqlite"
    broken.write_bytes(b"nothing" * 500)
    sqlite3.connect(empty).close()
    empty.touch()
    for path in (broken, empty, tmp_path / "absent.sqlite"):
        with pytest.raises(WorkspaceError, match="not a translation table"):
            TranslationTable(path)
    table(tmp_path, "en", "de", LearnedTranslations([("a", "b", 1.0)], {}, {}, 1), "later").close()
    with sqlite3.connect(tmp_path / "later-en-de.sqlite") as database:
        database.execute("UPDATE about SET value = '9' WHERE key = 'format'")
    database.close()
    with pytest.raises(WorkspaceError, match="format 9"):
        TranslationTable(tmp_path / "later-en-de.sqlite")
