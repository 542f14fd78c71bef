"""A manual in five locales that were not all translated: the consistent page comes first and
represents the others.
"""

from __future__ import annotations

import pytest

from lycosa.core.records import Link, Page
from lycosa.graph.generation import make_generation
from lycosa.index.indexer import Indexer
from lycosa.page.parse import parse_page
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.workspace import Workspace
from tests.index.corpus import Corpus, index_settings, page

TITLES = {
    "cs-CZ": "6.1. Vyplnění souboru sources.list",
    "ja-JP": "6.1. sources.list ファイルの内容",
    "sv-SE": "6.1. Hur man fyller i filen sources.list",
    "zh-TW": "6.1. 填寫 sources.list",
    "en-US": "6.1. Filling in the sources.list File",
}
NAVIGATION = {
    "cs-CZ": "Předcházející",
    "ja-JP": "戻る",
    "sv-SE": "Föregående",
    "zh-TW": "上一頁",
    "en-US": "Previous",
}
PARAGRAPHS = (
    "Each active line of the sources.list file represents a package source that apt reads. It is "
    "made of at least three parts.",
    "The first field indicates the source type: deb for binary packages, and deb-src for the "
    "sources that they are built from.",
    "The second field gives the base URL of the source, which can refer to a mirror or to any "
    "other archive that a third party set up.",
    "The list of the archives is read whenever the administrator updates the index of the "
    "packages that are available to the system.",
)
OTHERS = (
    "The kernel and its modules are configured at boot.",
    "A firewall filters the packets that pass through a gateway.",
)


def html(locale: str, title: str, paragraphs: tuple[str, ...]) -> bytes:
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    body = f"<nav><a href='/{locale}/'>{NAVIGATION[locale]}</a></nav><main><h1>{title}</h1>{text}</main>"
    return f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{body}</body></html>".encode()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    corpus = Corpus(str(tmp_path_factory.mktemp("locales") / "workspace"))
    pages = []
    for locale, title in TITLES.items():
        for number, (name, paragraphs) in enumerate(
            [(title, PARAGRAPHS), *((f"{title} {n}", (text,) * 4) for n, text in enumerate(OTHERS))]
        ):
            url = f"http://handbook.test/{locale}/{number}.html"
            pages.append(
                (
                    url,
                    parse_page(
                        html(locale, name, paragraphs),
                        url=url,
                        content_type="text/html; charset=utf-8",
                    ),
                )
            )
    corpus.commit(pages)
    corpus.index()
    return corpus.root


def test_the_page_in_one_language_comes_first(root: str) -> None:
    for query in (
        "apt sources list",
        "sources.list",
        "which field gives the base URL of a source?",
    ):
        matches = Searcher(root).search(SearchRequest(query, 20, per_host=0, folded=False)).hits
        assert [hit.url for hit in matches[:1]] == ["http://handbook.test/en-US/0.html"], query


def test_a_translated_title_still_finds_its_page(root: str) -> None:
    assert (
        Searcher(root).search(SearchRequest("Vyplnění souboru")).hits[0].url
        == "http://handbook.test/cs-CZ/0.html"
    )


def test_near_duplicates_are_shown_once(root: str) -> None:
    make_generation(Workspace.open(root))
    with Indexer(root, index_settings()) as indexer:
        indexer.update()
    matches = (
        Searcher(root).search(SearchRequest("apt sources list deb-src mirror", per_host=0)).hits
    )
    assert [(hit.url, hit.copies) for hit in matches if hit.url.endswith("/0.html")] == [
        ("http://handbook.test/en-US/0.html", 4)
    ]
    assert matches[0].url == "http://handbook.test/en-US/0.html"


REWRITE = (
    "The rewrite module uses a rule-based engine, based on a regular expression parser, to change "
    "requested addresses on the fly.",
    "By default it maps an address to a path of the file system, and an unlimited number of rules "
    "with conditions can be attached to each of them.",
    "The conditions depend on server variables, environment variables, headers and time stamps.",
)


def manual_page(locale: str, declared: str, links: str = "") -> tuple[str, Page]:
    url = f"http://manual.test/{locale}/mod_rewrite.html"
    body = "".join(f"<p>{paragraph}</p>" for paragraph in REWRITE)
    text = (
        f"<html lang='{declared}'><head><title>Introduction</title></head>"
        f"<body><main><h1>Introduction</h1>{body}{links}</main></body></html>"
    )
    return url, parse_page(text.encode(), url=url, content_type="text/html; charset=utf-8")


def test_a_copy_below_the_code_of_another_language_does_not_represent_the_page(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    corpus = Corpus(str(tmp_path_factory.mktemp("manual") / "workspace"))
    copies = [manual_page(locale, "en") for locale in ("da", "de", "en", "ru")]
    linking = [
        (
            f"http://manual.test/{number}.html",
            page(
                f"Page {number} of the manual.",
                language="en",
                links=[Link("http://manual.test/de/mod_rewrite.html", "", "", "a", 0)],
            ),
        )
        for number in range(20)
    ]
    corpus.commit([*copies, *linking])
    corpus.index()
    for ranked in (False, True):
        if ranked:
            make_generation(Workspace.open(corpus.root))
            corpus.index()
        for query in ("mod_rewrite", "rule-based rewrite engine", "how do conditions depend?"):
            hits = Searcher(corpus.root).search(SearchRequest(query, per_host=0)).hits
            assert (hits[0].url, hits[0].copies) == ("http://manual.test/en/mod_rewrite.html", 3)


def test_a_stem_that_is_a_word_of_another_language_does_not_decide(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The Catalan stem of the French `comment` is the Catalan word `com`."""
    catalan = "Com que el programa com a tal funciona, l'installer de Debian explica com es fa."
    french = "Voici comment installer Debian, et comment configurer la machine ensuite."
    pages = [
        (
            f"http://guide.test/ca/{number}.html",
            page(
                f"{catalan} Nota {number}." if number < 12 else f"Una altra pàgina, {number}.",
                language="ca",
            ),
        )
        for number in range(24)
    ] + [
        (
            f"http://guide.test/fr/{number}.html",
            page(
                f"{french} Note {number}." if number < 12 else f"Une autre page, numéro {number}.",
                language="fr",
            ),
        )
        for number in range(30)
    ]
    corpus = Corpus(str(tmp_path_factory.mktemp("guide") / "workspace"))
    corpus.commit(pages)
    corpus.index()
    hits = Searcher(corpus.root).search(SearchRequest("comment installer Debian", per_host=0)).hits
    assert [hit.language for hit in hits[:3]] == ["fr", "fr", "fr"]
