"""An index that is open: what it knows of words, which pages it finds, what they count exactly, how they are shown.

It is one generation, or the generations of several shards as one: a tantivy index is a list of segments, and statistics are taken
over all of them, so shards on one machine are searched exactly as one index is.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tantivy

from lycosa.core.errors import WorkspaceError
from lycosa.index.generation import Generation, GenerationInfo
from lycosa.index.schema import BODY, DATE, FULL, Stored, register, stored, stored_text
from lycosa.index.shards import by_count, combined
from lycosa.search.exact import Weigher
from lycosa.search.lengths import Lengths, measure
from lycosa.search.query import ParsedQuery
from lycosa.search.results import Hit
from lycosa.search.retrieve import RELAX_SHARE, Filters, QueryBuilder, Reading, read, terms_of
from lycosa.search.snippet import Highlighter
from lycosa.search.statistics import Statistics, ToldStatistics
from lycosa.text.analyze import analyzer_for

Address = tuple[int, int]
"""Segment and document within an opened index."""

STRICT = -1.0
STAGES = (STRICT, RELAX_SHARE, 0.0)
"""How much of a query a page must hold: all, or this share of the words but not all."""

_META = "meta.json"
_MOST_TOLD = 256


@dataclass(slots=True, frozen=True)
class Question:
    """A query as every shard is asked it. `languages` are those by whose analyzers it is read."""

    parsed: ParsedQuery
    filters: Filters
    languages: tuple[str, ...]

    @property
    def by_date(self) -> bool:
        """Filters alone: the newest first."""
        return not self.parsed.wanted


@dataclass(slots=True, frozen=True)
class Found:
    """How many pages match in all, and the first of them: (score or date, address), the best first."""

    total: int
    best: list[tuple[float, Address]]


class OpenIndex:
    """One or several generations, open; they are read in whatever is published or removed meanwhile. Shared by threads.

    Raises:
        WorkspaceError: a generation cannot be opened.
    """

    def __init__(self, generations: Sequence[Generation], shards: int = 1) -> None:
        self.generations = tuple(generations)
        info = combined([generation.info for generation in generations], shards)
        assert info is not None
        self.info: GenerationInfo = info
        try:
            opened = _open_one(generations[0].path) if len(generations) == 1 else _open_together([made.path for made in generations])
        except (ValueError, OSError) as error:
            where = generations[0].path if len(generations) == 1 else generations[0].path.parent.parent
            raise WorkspaceError(f"{where} cannot be opened: {error}; build it anew with `lycosa index --rebuild`") from None
        self._schema, self._searcher = opened
        self.languages = tuple(by_count(self.info.languages)) or ("",)
        self._lengths: dict[str, Lengths] = {}  # by field set
        self._told: dict[Question, ToldStatistics] = {}
        self._measuring = threading.Lock()

    @property
    def number(self) -> int:
        return self.info.generation

    @property
    def documents(self) -> int:
        return int(self._searcher.num_docs)

    def holding(self, name: str, term: str) -> int:
        return int(self._searcher.doc_freq(name, term))

    @property
    def counted(self) -> int:
        return self.documents

    def length(self, name: str) -> float:
        return 0.0

    def usual(self, name: str) -> float:
        return 0.0

    def told(self, question: Question) -> ToldStatistics:
        """What this index adds to the statistics of a query. Kept for a while: a search asks for it twice."""
        told = self._told.get(question)
        if told is None:
            told = self._tell(question)
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told[question] = told
        return told

    def _tell(self, question: Question) -> ToldStatistics:
        readings = readings_of(question)
        lengths: dict[str, float] = {}
        having: dict[str, int] = {}
        counted = self.documents
        for field_set in {reading.analyzer.field_set for reading in readings}:
            measured = self._measured(field_set)
            counted = max(counted, measured.counted)
            lengths |= measured.tokens
            having |= measured.having
        frequencies = {term: self.holding(*term) for term in terms_of(readings)}
        return ToldStatistics(self.documents, counted, frequencies, lengths, having)

    def find(self, question: Question, stage: float, limit: int, offset: int = 0, everywhere: ToldStatistics | None = None) -> Found:
        """The pages from `offset` on, so many as `limit`. With `everywhere`, scores are about those of all indexes together."""
        readings = readings_of(question)
        builder = self._builder(question, everywhere)
        if stage == STRICT:
            query = builder.strict(readings, question.filters)
        else:
            query = builder.relaxed(readings, question.filters, stage)
        order = DATE if question.by_date else None
        result: Any = self._searcher.search(query, max(1, limit), count=True, offset=offset, order_by_field=order)
        best = [(float(score or 0), (address.segment_ord, address.doc)) for score, address in result.hits[:limit]]
        return Found(result.count or 0, best)

    def weigh(self, question: Question, stage: float, addresses: Sequence[Address], everywhere: ToldStatistics) -> list[float]:
        """The exact scores of pages that were found, as one index of all documents would have them."""
        builder = QueryBuilder(self._schema, everywhere, everywhere)
        expression = builder.wanted(readings_of(question), None if stage == STRICT else stage)
        if expression is None:
            return [0.0] * len(addresses)
        weigher = Weigher(self._schema, self._searcher, everywhere)
        return [weigher.score(expression, tantivy.DocAddress(*address)) for address in addresses]

    def page(self, question: Question, stage: float, offset: int, count: int) -> tuple[int, list[tuple[float, Address]]]:
        """As `find`, for a search in this index alone."""
        found = self.find(question, stage, count, offset)
        return found.total, found.best

    def hits(self, question: Question, found: Sequence[tuple[float, Address]]) -> list[Hit]:
        """Pages with their snippets."""
        highlighters: dict[str, Highlighter] = {}
        return [
            _hit(self._searcher.doc(tantivy.DocAddress(*address)), 0.0 if question.by_date else score, question.parsed, highlighters)
            for score, address in found
        ]

    def _builder(self, question: Question, everywhere: ToldStatistics | None) -> QueryBuilder:
        here: Statistics = self if everywhere is None else self.told(question)
        return QueryBuilder(self._schema, here, here if everywhere is None or everywhere == here else everywhere)

    def _measured(self, field_set: str) -> Lengths:
        lengths = self._lengths.get(field_set)
        if lengths is None:
            with self._measuring:
                lengths = self._lengths.get(field_set)
                if lengths is None:
                    lengths = self._lengths[field_set] = measure(self._schema, self._searcher, field_set, self.info.languages)
        return lengths


@functools.lru_cache(maxsize=256)
def readings_of(question: Question) -> list[Reading]:
    """The readings of a query; a shard is asked the same question two or three times."""
    return read(question.parsed, question.languages)


def holds_words(question: Question) -> bool:
    """Whether there is anything to look for: a word, or filters alone."""
    parsed, readings = question.parsed, readings_of(question)
    if any(reading.wanted or (reading.unwanted and not parsed.wanted) for reading in readings):
        return True
    return not parsed.wanted and bool(parsed.sites or parsed.unwanted_sites or parsed.language)


def words_of(question: Question) -> int:
    return max((len(reading.wanted) for reading in readings_of(question)), default=0)


def schema_of(generation: Generation) -> str:
    """The fields of a generation, to tell whether two can be searched as one. Raises OSError, ValueError, KeyError."""
    return json.dumps(json.loads((generation.path / _META).read_bytes())["schema"], sort_keys=True)


def _open_one(path: Path) -> tuple[tantivy.Schema, tantivy.Searcher]:
    index = register(tantivy.Index.open(str(path)))
    index.reload()
    return index.schema, index.searcher()


def _open_together(paths: Sequence[Path]) -> tuple[tantivy.Schema, tantivy.Searcher]:
    """One index of all segments: links to their files, and one list of them. tantivy maps the files when it opens them."""
    documents: list[dict[str, Any]] = [json.loads((path / _META).read_bytes()) for path in paths]
    with tempfile.TemporaryDirectory(prefix="lycosa-shards-") as folder:
        segments = []
        for path, document in zip(paths, documents, strict=True):
            segments += document["segments"]
            for name in os.listdir(path):
                if "." in name and not name.startswith(".") and name not in (_META, "generation.json"):
                    os.symlink(path.absolute() / name, Path(folder) / name)
        together: Mapping[str, Any] = documents[0] | {"segments": segments, "opstamp": max(document["opstamp"] for document in documents)}
        (Path(folder) / _META).write_text(json.dumps(together))
        return _open_one(Path(folder))


def _hit(document: tantivy.Document, score: float, parsed: ParsedQuery, highlighters: dict[str, Highlighter]) -> Hit:
    page: Stored = stored(document)
    highlighter = highlighters.get(page.language)
    if highlighter is None:
        (reading,) = read(parsed, [page.language])
        highlighter = highlighters[page.language] = Highlighter(analyzer_for(page.language), reading.wanted)
    texts = (stored_text(document, name) for name in (BODY, FULL))
    return Hit(
        url=page.url,
        title=page.title,
        snippet=highlighter.snippet(texts, page.description),
        language=page.language,
        host=page.host,
        collection=", ".join(page.collections),
        fetched_at=page.fetched_at,
        published_at=page.published_at,
        score=score,
        marked_title=highlighter.mark(page.title),
    )
