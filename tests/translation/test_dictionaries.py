"""Dictionaries and parallel texts as other people write them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.errors import UsageError
from lycosa.translation.dictd import dictd
from lycosa.translation.dictionaries import (
    DictionaryEntry,
    as_table,
    columns,
    translations,
    weight_of,
    wiktionary,
)
from lycosa.translation.parallel_texts import tmx, two_columns, two_files
from tests.servers.system import require_file
from tests.text.data import DATA

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
def test_lines_of_wiktionary(line: str, expected: list[tuple[str, str]]) -> None:
    assert [(entry.word, entry.translation) for entry in wiktionary([line])] == expected


def test_senses_and_places_weigh_less_and_less() -> None:
    weights = [entry.weight for entry in wiktionary(["run {v} :: a, b", "run {n} :: c"])]
    assert weights == [weight_of(0, 0), weight_of(0, 1), weight_of(1, 0)]
    assert 1.0 == weights[0] > weights[1] > weights[2] > 0


def test_columns() -> None:
    rows = ["house\tHaus|Gebäude", "river\tFluss\t0.4", "# remark\tno", "alone", "bad\tx\t7"]
    assert list(columns(rows)) == [
        DictionaryEntry("house", "Haus", 1.0), DictionaryEntry("house", "Gebäude", weight_of(0, 1)), DictionaryEntry("river", "Fluss", 0.4), DictionaryEntry("bad", "x", 1.0)
    ]  # fmt: skip


def test_a_dictionary_is_kept_by_the_terms_of_the_index() -> None:
    made = as_table(
        [
            DictionaryEntry("to run", "laufen", 1.0),
            DictionaryEntry("Houses", "Häuser", 0.5),
            DictionaryEntry("house", "Haus", 1.0),
            DictionaryEntry("?", "x", 1),
        ],
        "en",
        "de",
    )
    assert sorted(made.pairs) == [("hous", "haus", 1.0), ("run", "lauf", 1.0)]
    assert made.target_surfaces["haus"] == "Haus"


def _number(value: int) -> str:
    digits = BASE64[value % 64]
    while value := value // 64:
        digits = BASE64[value % 64] + digits
    return digits


def test_files_of_dictd(tmp_path: Path) -> None:
    entries = {
        "00databaseinfo": "about\n",
        "house": "house /haus/\n1. maison <fem>, bâtiment\n2. chambre\n",
        "river": "river\nfleuve\n   note\n",
    }
    text, rows = b"", []
    for word, entry in entries.items():
        rows.append(f"{word}\t{_number(len(text))}\t{_number(len(entry.encode()))}")
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


def test_a_dictionary_of_freedict() -> None:
    entries = list(
        dictd(require_file("/usr/share/dictd/freedict-eng-spa.index", "dict-freedict-eng-spa"))
    )
    assert len(entries) > 5_000
    assert DictionaryEntry("house", "casa", 1.0) in entries


def test_a_list_of_wiktionary() -> None:
    path = DATA / "wiktionary" / "en-ms.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there")
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


def test_texts_side_by_side(tmp_path: Path) -> None:
    assert list(two_columns(["a\tb\n", "alone\n", "\tx", "c\td\te"])) == [("a", "b"), ("c", "d")]
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a\nb\n")
    other.write_text("c\nd\n")
    assert list(two_files(one, other)) == [("a", "c"), ("b", "d")]
    other.write_text("c\n")
    with pytest.raises(UsageError, match="different numbers of lines"):
        list(two_files(one, other))


@given(st.text(max_size=80))
def test_any_line_is_taken_apart(line: str) -> None:
    assert all(result.strip() == result and result for result in translations(line))
    assert all(0 < entry.weight <= 1 for entry in [*wiktionary([line]), *columns([line])])
