"""An encoder that somebody brings: loaded by name, its vectors published, joined with what words
find.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.commands.maintenance.translate import encode_pages
from lycosa.core.errors import ConfigError, WorkspaceError
from lycosa.search.crosslingual.translated import Across
from lycosa.search.crosslingual.vectors import FlatIndex, load_encoder
from lycosa.search.engine.searcher import Searcher, SearchRequest
from tests.index.corpus import Corpus, page

LETTERS = "tests.search.encoders:Letters"
PAGES = {
    "http://a.test/car": page("A car drives along the road.", title="Cars", language="en"),
    "http://a.test/wagen": page("Wagen Wagen Wagen.", title="Wagen", language="de"),
    "http://b.test/kereta": page("Kereta kereta.", title="Kereta", language="ms"),
    "http://b.test/tree": page("Ein Baum steht im Wald.", title="Baum", language="de"),
}


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = Corpus(str(tmp_path / "w"))
    made.commit(PAGES.items())
    made.index()
    return made


def test_what_means_the_same_is_found_though_no_word_is(corpus: Corpus) -> None:
    encoder = load_encoder(LETTERS)
    info = encode_pages(corpus.root, encoder)
    assert (info.encoder, info.pages, info.dimensions) == ("letters-1", 4, 256)
    request = SearchRequest("automobile", across=Across(source="en"))
    assert Searcher(corpus.root).search(request).hits == []
    vectors = FlatIndex(corpus.workspace.storage, encoder)
    assert vectors.nearest("automobile", 1) != vectors.nearest("baum", 1)
    searcher = Searcher(corpus.root, vectors)
    hits = [hit.url for hit in searcher.search(request).hits]
    assert set(hits[:2]) == {"http://a.test/wagen", "http://b.test/kereta"}
    only = searcher.search(SearchRequest("automobile site:b.test", across=Across(source="en")))
    assert only.hits[0].url == "http://b.test/kereta"
    assert all(hit.host == "b.test" for hit in only.hits)
    both = searcher.search(SearchRequest("car", across=Across(("de",), "en"))).hits
    assert (both[0].url, {hit.language for hit in both}) == ("http://a.test/car", {"en", "de"})


def test_encoders_that_are_none_are_told(corpus: Corpus) -> None:
    for where in (
        "nonsense",
        "tests.search.encoders:absent",
        "tests.absent:x",
        "tests.search.encoders:nothing",
    ):
        with pytest.raises(ConfigError):
            load_encoder(where)
    with pytest.raises(ConfigError, match="careless"):
        encode_pages(corpus.root, load_encoder("tests.search.encoders:Careless"))


def test_vectors_of_another_encoder_are_refused(corpus: Corpus) -> None:
    storage = corpus.workspace.storage
    with pytest.raises(WorkspaceError, match="no page has been encoded"):
        FlatIndex(storage, load_encoder(LETTERS))
    encode_pages(corpus.root, load_encoder(LETTERS))
    encode_pages(corpus.root, load_encoder(LETTERS))
    assert storage.names("vectors") == ["00000002"]
    with pytest.raises(WorkspaceError, match="not with careless"):
        FlatIndex(storage, load_encoder("tests.search.encoders:Careless"))
