"""The term statistics of an open index."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import tantivy

from lycosa.index.schema import located
from lycosa.index.suggest.file import SuggestFile
from lycosa.search.engine.search_query import SearchQuery, readings_of
from lycosa.search.ranking.lengths import Lengths, measure
from lycosa.search.ranking.retrieve import terms_of
from lycosa.search.ranking.statistics import WRITTEN, Term, TermStatistics
from lycosa.text.analyze import Analysis

_MAX_QUERIES = 256
_MAX_TERMS = 50_000  # terms whose document frequency is cached: some 8 MB


class IndexStatistics:
    """Document frequencies and lengths of one index, cached. See `Statistics`. Shared by threads.

    Alone, an index needs no lengths, since tantivy uses its own: `length` and `usual` return 0.
    """

    def __init__(
        self,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        analysis: Analysis,
        suggest_files: Sequence[SuggestFile],
    ) -> None:
        self._suggest_files = suggest_files
        self._schema = schema
        self._searcher = searcher
        self._analysis = analysis
        self._lengths: Lengths | None = None
        self._by_query: dict[SearchQuery, TermStatistics] = {}
        self._frequencies: dict[Term, int] = {}
        self._lock = threading.Lock()

    @property
    def documents(self) -> int:
        return int(self._searcher.num_docs)

    @property
    def counted(self) -> int:
        return self.documents

    def holding(self, name: str, term: str) -> int:
        """Return how many documents have a term in a field."""
        count = self._frequencies.get((name, term))
        if count is None:
            if len(self._frequencies) >= _MAX_TERMS:
                self._frequencies.clear()
            count = self._frequencies[name, term] = self._document_frequency(name, term)
        return count

    def _document_frequency(self, name: str, term: str) -> int:
        if name.startswith(WRITTEN):
            language = name.removeprefix(WRITTEN)
            words = (file.find_word(term, language) for file in self._suggest_files)
            return sum(word.pages for word in words if word is not None)
        field, (indexed,) = located(name, (term,))
        return int(self._searcher.doc_freq(field, indexed))

    def length(self, name: str) -> float:
        return 0.0

    def usual(self, name: str) -> float:
        return 0.0

    def of_query(self, query: SearchQuery) -> TermStatistics:
        """Return what this index adds to the statistics of a query."""
        statistics = self._by_query.get(query)
        if statistics is None:
            lengths = self._measured()
            terms = terms_of(readings_of(query, self._analysis))
            for added in (query.like, query.expansion):
                terms += [] if added is None else added.terms_used()
            statistics = TermStatistics(
                self.documents,
                max(self.documents, lengths.counted),
                {term: self.holding(*term) for term in terms},
                lengths.tokens,
                dict.fromkeys(lengths.tokens, self.documents),
            )
            if len(self._by_query) >= _MAX_QUERIES:
                self._by_query.clear()
            self._by_query[query] = statistics
        return statistics

    def _measured(self) -> Lengths:
        if self._lengths is None:
            with self._lock:
                if self._lengths is None:
                    self._lengths = measure(self._schema, self._searcher)
        return self._lengths
