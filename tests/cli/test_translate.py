"""Dictionaries, learned tables, and search across languages by command and API."""

from __future__ import annotations

from pathlib import Path

from lycosa.commands.maintenance.translate import learn_table, tables_of
from lycosa.config.settings import IndexSettings
from lycosa.index.indexer import Indexer
from lycosa.serve.app import create_app
from tests.cli.conftest import Lycosa
from tests.index.corpus import Corpus, page
from tests.serve.client import Client

PAGES = {
    "http://a.test/haus": page(
        "Alte Häuser am Fluss sind teuer. Ein Haus braucht ein Dach.", title="Häuser", language="de"
    ),
    "http://a.test/rumah": page("Rumah itu besar dan mahal.", title="Rumah", language="ms"),
    "http://a.test/house": page("An old house is dear.", title="House", language="en"),
}


def test_dictionaries_are_added_searched_with_and_removed(here: Lycosa, tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    corpus.commit(PAGES.items())
    with Indexer(corpus.root, IndexSettings.model_validate({"heap": "15MiB"})) as indexer:
        indexer.update()
    options = ("-w", corpus.root)
    for target, rows in (("de", "house\tHaus|Gebäude\n"), ("ms", "house\trumah\n")):
        (tmp_path / f"en-{target}.tsv").write_text(rows)
        outcome = here(*options, "translate", "add", str(tmp_path / f"en-{target}.tsv"), "--json")
        assert (outcome.code, outcome.json["source"], outcome.json["target"]) == (
            0,
            "en",
            target,
        ), outcome.err
    assert "en-de (en, de)  dictionary, 2 pairs" in here(*options, "translate", "list").out
    assert "Haus 1.00" in here(*options, "translate", "lookup", "houses", "--to", "de").out
    results = here(*options, "search", "houses", "--across", "--json")
    assert results.code == 0, results.err
    hits = results.json["hits"]
    assert isinstance(hits, list)
    assert {hit["url"] for hit in hits} == set(PAGES)
    edited = here(
        *options, "search", "houses", "--into", "de", "--translate", "de:houses=Dach", "--json"
    )
    translations = edited.json["translations"]
    assert isinstance(translations, list)
    assert [query["language"] for query in translations] == ["en", "de"]
    assert translations[1]["terms"] == [
        {"source": "houses", "alternatives": [{"text": "Dach", "weight": 1.0, "origin": "given"}]}
    ]
    assert here(*options, "search", "x", "--into", "de", "--translate", "nonsense").code == 2
    for option in (("--translate", "de:x=y"), ("--from", "de")):
        needs = ("--from and --translate need --across or --into",)
        here(*options, "search", "x", *option).expect(2, err=needs)
    assert here(*options, "translate", "remove", "en-de").code == 0
    assert here(*options, "translate", "remove", "en-de").code == 2
    client = Client(create_app(corpus.root, dict))
    response = client.get(
        "/api/v1/search", {"q": "houses", "across": "all", "translate": "ms:houses=mahal"}
    )
    document = response.json()
    for parameter, value in (("translate", "ms:houses=mahal"), ("from", "de")):
        wrong = client.get("/api/v1/search", {"q": "houses", parameter: value})
        assert (wrong.status_code, "need across" in wrong.text) == (400, True)
    assert {hit["url"] for hit in document["hits"]} == {
        "http://a.test/house",
        "http://a.test/rumah",
    }
    by_language = {query["language"]: query["terms"] for query in document["translations"]}
    assert by_language["ms"][0]["alternatives"][0] == {
        "text": "mahal",
        "weight": 1.0,
        "origin": "given",
    }


def test_table_is_learned_from_parallel_sentences(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    rows = [
        ("the red house", "das rote Haus"),
        ("the red book", "das rote Buch"),
        ("a book", "ein Buch"),
        ("a house", "ein Haus"),
    ] * 3
    english, german, columns = tmp_path / "text.en", tmp_path / "text.de", tmp_path / "text.tsv"
    english.write_text("".join(f"{row[0]}\n" for row in rows))
    german.write_text("".join(f"{row[1]}\n" for row in rows))
    columns.write_text("".join(f"{row[0]}\t{row[1]}\n" for row in rows))
    assert learn_table(corpus.root, [english, german], "en", "de").kind == "learned"
    assert learn_table(corpus.root, [columns], "en", "de", "columns").pairs > 0
    for table in tables_of(corpus.root).tables:
        assert table.lookup("hous", "en", "de")[0].surface == "Haus"
        assert table.lookup("buch", "de", "en")[0].surface == "book"
