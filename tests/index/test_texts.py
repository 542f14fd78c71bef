"""Files of snippet texts: deduplication, merging and damage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lycosa.config.settings import IndexSettings
from lycosa.core.errors import WorkspaceError
from lycosa.index.generation import Generation, newest
from lycosa.index.indexer import Indexer
from lycosa.index.snippets.texts import SnippetTexts, TextFile, files, joined, parted, text_key
from lycosa.index.snippets.writer import BLOCK, TextWriter
from lycosa.search.engine.searcher import Searcher, SearchRequest
from tests.index.corpus import Corpus, page

WORDS = [
    "quiet",
    "spider",
    "waits",
    "beside",
    "its",
    "silver",
    "thread",
    "until",
    "evening",
    "wind",
    "moves",
    "the",
    "grass",
]


def some_text(generator: random.Random, words: int = 400) -> bytes:
    return joined(
        " ".join(generator.choice(WORDS) + str(generator.randrange(99)) for _ in range(words)),
        "menu\nfoot",
    )


def add(writer: TextWriter, texts: list[bytes]) -> list[int]:
    return [writer.add(text, ("host", "en", str(number))) for number, text in enumerate(texts)]


def count_texts(folder: Path) -> int:
    return sum(len(TextFile(path).keys) for path in files(folder))


def blocks(folder: Path) -> set[bytes]:
    return {
        bytes(file.block(number))
        for file in map(TextFile, files(folder))
        for number in range(len(file.starts) - 1)
    }


def generation(root: str) -> Generation:
    generation = newest(root)
    assert generation is not None
    return generation


@pytest.fixture
def writer(tmp_path: Path) -> TextWriter:
    return TextWriter(tmp_path)


@pytest.mark.parametrize(
    ("body", "full"),
    [
        ("main", "menu"),
        ("", "menu"),
        ("main", ""),
        ("", ""),
        ("lone \ud800", "a\x00b"),
        ("主要", "x"),
    ],
)
def test_body_and_full_text_are_joined_and_split(body: str, full: str) -> None:
    expected = tuple(part.replace("\x00", " ").replace("\ud800", "?") for part in (body, full))
    assert (parted(joined(body, full)), bool(joined(body, full))) == (expected, bool(body or full))


def test_texts_of_many_blocks_and_updates_are_read_back(tmp_path: Path) -> None:
    generator = random.Random(4)
    written: dict[int, bytes] = {}
    for _ in range(12):
        writer = TextWriter(tmp_path)
        texts = [some_text(generator) for _ in range(generator.choice((1, 3, 60)))]
        written |= dict(zip(add(writer, texts), texts, strict=True))
        names = writer.finish(len(written), list)
        assert sorted(names) == [path.name for path in files(tmp_path)]
        assert len(names) <= 8
    assert count_texts(tmp_path) == len(written)
    assert max(len(TextFile(path).starts) for path in files(tmp_path)) > 3
    read = SnippetTexts([tmp_path])
    assert all(read.read(key) == parted(text) for key, text in written.items())
    assert read.read(None) == read.read(text_key(b"another")) == ("", "")


def test_text_is_stored_once_over_all_updates(tmp_path: Path) -> None:
    texts = [some_text(random.Random(number)) for number in range(20)]
    for _ in range(3):
        writer = TextWriter(tmp_path)
        assert add(writer, texts + texts) == 2 * [text_key(text) for text in texts]
        writer.finish(60, list)
    assert count_texts(tmp_path) == 20


def test_small_blocks_are_merged(tmp_path: Path) -> None:
    generator = random.Random(5)
    for _ in range(64):
        writer = TextWriter(tmp_path)
        add(writer, [some_text(generator, 100)])
        writer.finish(64, list)
    largest = max((TextFile(path) for path in files(tmp_path)), key=lambda file: len(file.keys))
    assert len(largest.keys) > 20
    assert len(largest.starts) - 1 <= len(largest.keys) / 4


def test_unreferenced_texts_are_removed_when_there_are_many(
    tmp_path: Path, writer: TextWriter
) -> None:
    generator = random.Random(6)
    texts = [some_text(generator) for _ in range(1_300)]
    keys = add(writer, texts)
    calls: list[str] = []

    def referenced() -> list[int]:
        calls.append("referenced")
        return keys[::7]

    writer.finish(1_000, referenced)
    assert count_texts(tmp_path) == len(texts)
    assert not calls
    writer.finish(200, referenced)
    assert count_texts(tmp_path) == len(keys[::7])
    read = SnippetTexts([tmp_path])
    assert all(bool(read.read(key)[0]) == (place % 7 == 0) for place, key in enumerate(keys))


def test_complete_blocks_are_copied(tmp_path: Path, writer: TextWriter) -> None:
    generator = random.Random(7)
    texts = [generator.randbytes(BLOCK // 8).hex().encode() for _ in range(40)]
    keys = add(writer, texts)
    writer.finish(len(keys), list)
    before = blocks(tmp_path)
    assert len(before) == 10
    add(writer, [generator.randbytes(BLOCK // 8).hex().encode() for _ in range(39)])
    assert len(writer.finish(len(keys) + 39, list)) == 1
    assert before < blocks(tmp_path)
    read = SnippetTexts([tmp_path])
    assert all(read.read(key) == parted(text) for key, text in zip(keys, texts, strict=True))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: b"XXXX" + data[4:],
        lambda data: data + bytes(8),
    ],
)
def test_error_for_a_damaged_file_names_the_command(
    tmp_path: Path, writer: TextWriter, damage: object
) -> None:
    add(writer, [some_text(random.Random(1))])
    (name,) = writer.finish(1, list)
    assert callable(damage)
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))
    with pytest.raises(WorkspaceError, match="index --rebuild"):
        SnippetTexts([tmp_path])


def test_unfinished_writer_leaves_no_file(tmp_path: Path, writer: TextWriter) -> None:
    add(writer, [some_text(random.Random(1))])
    writer.close()
    assert not list(tmp_path.iterdir())


def test_pages_with_equal_texts_share_them_over_updates(tmp_path: Path) -> None:
    corpus = Corpus(str(tmp_path / "w"))
    shared = page("The lighthouse keeper counts passing ships. " * 40)
    corpus.commit([(f"http://{host}.test/a", shared) for host in ("one", "two", "three")])
    with Indexer(corpus.root, IndexSettings()) as indexer:
        indexer.update()
        assert count_texts(generation(corpus.root).path) == 1
        corpus.commit([("http://one.test/a", page("A baker kneads dough before dawn. " * 40))])
        indexer.update()
    with Indexer(corpus.root, IndexSettings()) as indexer:  # another indexer
        corpus.commit(
            [("http://four.test/a", page("Rivers carry silt towards the delta. " * 40))],
            [("http://two.test/a", "gone")],
        )
        indexer.update()
    assert count_texts(generation(corpus.root).path) == 3
    searcher = Searcher(corpus.root)
    for query, count in (("lighthouse", 1), ("baker", 1), ("silt", 1)):
        hits = searcher.search(SearchRequest(query)).hits
        assert len(hits) == count
        assert any(marked and piece.lower() == query for piece, marked in hits[0].snippet)


def test_texts_of_replaced_pages_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.index.snippets.writer._SPARE", 4)
    corpus = Corpus(str(tmp_path / "w"))
    with Indexer(corpus.root, IndexSettings()) as indexer:
        for version in range(6):
            corpus.commit(
                [
                    (f"http://h{n}.test/", page(f"Version {version} of page {n} says harbour."))
                    for n in range(8)
                ]
            )
            indexer.update()
            assert count_texts(generation(corpus.root).path) <= 8 * 1.25 + 4
    hits = Searcher(corpus.root).search(SearchRequest("harbour")).hits
    assert len(hits) == 8
    assert all("Version 5" in "".join(piece for piece, _ in hit.snippet) for hit in hits)
