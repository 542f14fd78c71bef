"""Two words of a query that another language writes as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.commands.maintenance.translate import add_dictionary
from lycosa.search.crosslingual.translated import (
    Across,
    TranslatedQuery,
    TranslatedTerm,
    with_compounds,
)
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.translation.source import Translation
from tests.index.corpus import Corpus, page

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
    assert [each.source for each in joined.terms] == ["the", "installation system", "x"]
    assert [each.key for each in joined.terms[1].alternatives] == ["installationssystem"]
    assert [each.source for each in joined.terms[1].words] == ["installation", "system"]
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
    corpus.commit(
        [(f"http://de.test/{name}", page(text, language="de")) for name, text in texts.items()]
    )
    corpus.index()
    path = tmp_path / "en-de.tsv"
    path.write_text(DICTIONARY, encoding="utf-8")
    add_dictionary(corpus.root, path)
    results = Searcher(corpus.root).search(SearchRequest(query, across=Across(("de",), "en")))
    assert results.hits[0].url == f"http://de.test/{matches}"
    assert any(marked for _, marked in results.hits[0].snippet)
