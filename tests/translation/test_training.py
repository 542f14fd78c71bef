"""Translation tables learned from pages in several languages."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lycosa.commands.maintenance.check import check_workspace
from lycosa.commands.maintenance.exclude import exclude_and_purge
from lycosa.config.settings import Config
from lycosa.core.errors import WorkspaceError
from lycosa.core.records import Alternate, Link
from lycosa.graph.builder import make_generation
from lycosa.graph.generation import newest
from lycosa.store.tables.live import LiveTables
from lycosa.translation import training
from lycosa.translation.parallel_pages import find_parallel, place_of
from lycosa.translation.table import TableInfo, TranslationTable
from lycosa.translation.training import table_name
from lycosa.translation.workspace_tables import open_tables
from tests.index.conftest import corpus as corpus
from tests.index.corpus import Corpus, page
from tests.text.data import sib200_numbered

SENTENCES, SENTENCES_PER_PAGE = 300, 25


@pytest.mark.parametrize(
    ("url", "language", "place"),
    [
        ("http://a.test/de/x.html", "de", "http://a.test/x.html"),
        ("http://a.test/x.de.html", "de", "http://a.test/x.html"),
        ("http://a.test/x.html.de", "de", "http://a.test/x.html"),
        ("http://a.test/zh_CN/x", "zh", "http://a.test/x"),
        ("http://a.test/x.pt-br.html", "pt", "http://a.test/x.html"),
        ("http://de.a.test/x", "de", "http://a.test/x"),
        ("http://a.test/x?lang=de&y=1", "de", "http://a.test/x?lang&y=1"),
        ("http://a.test/jp/x", "ja", "http://a.test/x"),
    ],
)
def test_language_is_removed_from_the_url(url: str, language: str, place: str) -> None:
    assert place_of(url, language) == (place, True)


@pytest.mark.parametrize(
    ("url", "language"),
    [("http://a.test/de/x.html", "fr"), ("http://de/x", "de"), ("http://a.test/index.html", "de")],
)
def test_url_with_another_language_is_unchanged(url: str, language: str) -> None:
    assert place_of(url, language) == (url, False)


@dataclass
class Ranked:
    """A workspace that was ranked once, and the languages learned then."""

    corpus: Corpus
    learned: list[str]


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Ranked:
    """Rank pages in English, German and Chinese with sentences of SIB-200.

    German pages are related by their paths, Chinese ones by alternates.
    """
    corpus = Corpus(str(tmp_path_factory.mktemp("ranked") / "w"))
    texts = {
        language: [text for number, text in sib200_numbered(language) if number % 5][:SENTENCES]
        for language in ("en", "de", "zh")
    }
    pages = []
    for start in range(0, SENTENCES, SENTENCES_PER_PAGE):
        chunk = {
            language: "\n".join(sentences[start : start + SENTENCES_PER_PAGE])
            for language, sentences in texts.items()
        }
        chinese = f"http://other.test/page-{start}"
        pages.append(
            (
                f"http://a.test/en/{start}.html",
                page(chunk["en"], language="en", alternates=[Alternate("zh", chinese)]),
            )
        )
        pages.append((f"http://a.test/de/{start}.html", page(chunk["de"], language="de")))
        pages.append((chinese, page(chunk["zh"], language="zh")))
    pages.append(("http://a.test/en/alone.html", page("This page stands alone.", language="en")))
    corpus.commit(pages)
    with pytest.MonkeyPatch.context() as patch:
        return Ranked(corpus, _learned(corpus, patch))


@pytest.fixture
def ranked_copy(ranked: Ranked, tmp_path: Path) -> Corpus:
    """Return a copy of the ranked workspace, which the test may change."""
    shutil.copytree(ranked.corpus.root, tmp_path / "w")
    corpus = Corpus(str(tmp_path / "w"))
    corpus.clock = ranked.corpus.clock
    return corpus


def test_rank_learns_tables_from_translated_pages(ranked: Ranked) -> None:
    parallel = find_parallel(LiveTables(ranked.corpus.workspace))
    expected = SENTENCES // SENTENCES_PER_PAGE
    assert parallel.hub == "en"
    assert dict(parallel.pairs.group_by("language").len().iter_rows()) == {
        "de": expected,
        "zh": expected,
    }
    result = newest(ranked.corpus.workspace)
    assert result is not None
    assert result[0].translations == 2
    german = TranslationTable(result[1] / table_name("en", "de"))
    assert (
        german.info.kind,
        german.lookup("water", "en", "de")[0].key,
        german.lookup("wass", "de", "en")[0].surface.lower(),
    ) == ("crawl", "wass", "water")
    chinese = TranslationTable(result[1] / table_name("en", "zh"))
    assert "水" in {each.key for each in chinese.lookup("water", "en", "zh")[:3]}


def test_language_links_pair_pages_but_not_with_home_pages(corpus: Corpus) -> None:
    pages = [("http://a.test/start", page("Die erste Seite.", language="de"))]
    for number in range(3):
        bar = [
            Link(f"http://a.test/seite-{number}", " Deutsch ", "", "a", 0),
            Link("http://a.test/start", "Deutsch", "", "a", 1),
            Link(f"http://a.test/seite-{number}", "Français", "", "a", 2),
            Link("http://a.test/absent", "中文", "", "a", 3),
        ]
        pages.append(
            (f"http://a.test/page-{number}", page("An English page.", language="en", links=bar))
        )
        pages.append((f"http://a.test/seite-{number}", page("Eine deutsche Seite.", language="de")))
    corpus.commit(pages)
    result = find_parallel(LiveTables(corpus.workspace)).pairs
    assert dict(result.group_by("language").len().iter_rows()) == {"de": 3}
    assert result["hub_url_key"].n_unique() == 3


def test_no_table_without_translated_pages(corpus: Corpus) -> None:
    corpus.commit([("http://a.test/", page("One page in one language.", language="en"))])
    assert make_generation(corpus.workspace).translations == 0


def _tables(corpus: Corpus) -> dict[str, bytes]:
    result = newest(corpus.workspace)
    assert result is not None
    return {path.name: path.read_bytes() for path in result[1].glob("translations-*.sqlite")}


def _learned(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rank again and return the languages whose table was not reused."""
    languages: list[str] = []
    train_table = training._train_table

    def record_language(*arguments: Any) -> Any:
        languages.append(arguments[2])
        return train_table(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(training, "_train_table", record_language)
        make_generation(corpus.workspace)
    return languages


def test_tables_of_unchanged_pages_are_reused(
    ranked: Ranked, ranked_copy: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ranked.learned == ["de", "zh"]
    first = _tables(ranked_copy)
    assert (_learned(ranked_copy, monkeypatch), _tables(ranked_copy)) == ([], first)
    ranked_copy.commit([("http://a.test/de/0.html", page("Ein ganz anderer Text.", language="de"))])
    assert _learned(ranked_copy, monkeypatch) == ["de"]
    second = _tables(ranked_copy)
    assert second["translations-en-zh.sqlite"] == first["translations-en-zh.sqlite"]
    assert second["translations-en-de.sqlite"] != first["translations-en-de.sqlite"]
    ranked_copy.commit(
        [("http://a.test/en/0.html", page("Another text in the hub's language.", language="en"))]
    )
    # the page has no alternate any more, so one Chinese pair is missing
    assert _learned(ranked_copy, monkeypatch) == ["de", "zh"]


def test_language_with_too_few_pages_is_not_learned_again(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.commit(
        [
            ("http://a.test/en/1", page("A page.", language="en")),
            ("http://a.test/de/1", page("Eine Seite.", language="de")),
        ]
    )
    assert (_learned(corpus, monkeypatch), _learned(corpus, monkeypatch)) == (["de"], [])
    assert _tables(corpus) == {}


@pytest.mark.parametrize("damage", ["table", "training record", "missing"])
def test_damaged_tables_are_learned_again(
    ranked_copy: Corpus, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    result = newest(ranked_copy.workspace)
    assert result is not None
    path = result[1] / (
        "training.json" if damage == "training record" else "translations-en-de.sqlite"
    )
    if damage == "missing":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content[: len(content) // 2] if damage == "training record" else content)
    expected = ["de", "zh"] if damage == "training record" else ["de"]
    assert _learned(ranked_copy, monkeypatch) == expected
    german = TranslationTable(_newest_table(ranked_copy, "de"))
    assert german.lookup("water", "en", "de")[0].key == "wass"


def test_table_of_another_format_is_not_reused(
    ranked_copy: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise this version could not read a table learned by a later version."""
    with monkeypatch.context() as later:
        later.setattr(training, "FORMAT", 9)
        later.setattr(training, "TableInfo", partial(TableInfo, format=9))
        make_generation(ranked_copy.workspace)
    with pytest.raises(WorkspaceError, match="format 9, but this version needs format 1"):
        TranslationTable(_newest_table(ranked_copy, "de"))
    opened = open_tables(ranked_copy.workspace.storage)
    assert (opened.tables, len(opened.problems)) == ([], 2)
    result = [
        each
        for each in check_workspace(ranked_copy.root).findings
        if each.where.endswith(".sqlite")
    ]
    assert [(each.severity, each.repair, "format 9" in each.what) for each in result] == [
        ("error", "graph", True)
    ] * 2
    assert _learned(ranked_copy, monkeypatch) == ["de", "zh"]
    assert len(open_tables(ranked_copy.workspace.storage).tables) == 2


def _newest_table(corpus: Corpus, language: str) -> Path:
    result = newest(corpus.workspace)
    assert result is not None
    return result[1] / table_name("en", language)


@pytest.mark.proves("consistency-purge-derived")
def test_translation_tables_have_no_words_of_purged_pages(
    ranked_copy: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word from a single page is in no table after that page was excluded and purged."""
    lines = "\n".join(f"The zyxomorph number {number} sleeps." for number in range(40))
    german = "\n".join(f"Der Quarzelbart Nummer {number} schläft." for number in range(40))
    ranked_copy.commit(
        [
            ("http://a.test/en/odd.html", page(lines, language="en")),
            ("http://a.test/de/odd.html", page(german, language="de")),
        ]
    )
    make_generation(ranked_copy.workspace)
    assert any(b"zyxomorph" in content for content in _tables(ranked_copy).values())
    exclude_and_purge(ranked_copy.root, Config(), ["prefix:http://a.test/en/odd.html"], remove=True)
    folders = [path for path in (Path(ranked_copy.root) / "graph").iterdir() if path.is_dir()]
    assert len(folders) == 1
    assert not [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and b"zyxomorph" in path.read_bytes()
    ]
    assert set(_tables(ranked_copy)) == {"translations-en-de.sqlite", "translations-en-zh.sqlite"}
