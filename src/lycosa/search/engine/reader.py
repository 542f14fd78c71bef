"""Read single pages and term statistics of an open index."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import tantivy

from lycosa.index.schema import (
    BODY_ROLE,
    FULL_ROLE,
    GROUP,
    HEADINGS_ROLE,
    ID,
    TEXT,
    TITLE_ROLE,
    Stored,
    located,
    page_id,
    stored,
    text_field,
    text_of,
)
from lycosa.index.snippets.texts import SnippetTexts
from lycosa.index.suggest.file import SuggestFile
from lycosa.search.engine.search_query import SearchQuery, readings_of
from lycosa.search.ranking.feedback import PageTerms, terms_of_page
from lycosa.search.ranking.retrieve import terms_of
from lycosa.search.ranking.similar import Likeness, heaviest
from lycosa.search.ranking.statistics import (
    WRITTEN,
    Lengths,
    Term,
    TermStatistics,
    measure,
)
from lycosa.text.analyze import Analysis

_WITHIN = {TITLE_ROLE: (BODY_ROLE,), HEADINGS_ROLE: (BODY_ROLE, FULL_ROLE)}
"""The fields that together have all terms of a field."""
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
        self.documents = self.counted = int(searcher.num_docs)

    def holding(self, name: str, term: str) -> int:
        """Return how many documents have a term in a field."""
        count = self._frequencies.get((name, term))
        if count is None:
            if len(self._frequencies) >= _MAX_TERMS:
                self._frequencies.clear()
            count = self._frequencies[name, term] = self._document_frequency(name, term)
        return count

    def _document_frequency(self, name: str, term: str) -> int:
        role, _, language = name.partition("_")
        if role == WRITTEN:
            words = [file.find_word(term, language) for file in self._suggest_files]
            return sum(word.pages for word in words if word is not None)
        within = _WITHIN.get(role)
        if within and not any(self.holding(text_field(each, language), term) for each in within):
            return 0
        field, (indexed,) = located(name, (term,))
        return int(self._searcher.doc_freq(field, indexed))

    def length(self, name: str) -> float:
        return 0.0

    def usual(self, name: str) -> float:
        return 0.0

    def of_query(self, query: SearchQuery) -> TermStatistics:
        """Return the statistics of this index for a query."""
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


Address = tuple[int, int]
"""Segment and document within an open index."""


class IndexedPages:
    """The pages of one index. Shared by threads."""

    def __init__(
        self,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        texts: SnippetTexts,
        analysis: Analysis,
        statistics: IndexStatistics,
    ) -> None:
        self._schema = schema
        self._searcher = searcher
        self._texts = texts
        self._analysis = analysis
        self._statistics = statistics

    def stored(self, address: Address) -> Stored:
        return stored(self._searcher.doc(tantivy.DocAddress(*address)))

    def column(self, name: str, addresses: Sequence[Address]) -> list[int | None]:
        """Return a column's values for these pages."""
        places = [tantivy.DocAddress(*address) for address in addresses]
        values: list[Any] = self._searcher.fast_field_values(name, places)
        return values

    def texts(self, addresses: Sequence[Address]) -> list[tuple[str, str]]:
        """Return the beginnings of each page's main text, and of the text outside it."""
        return [self._texts.read(text_of(key)) for key in self.column(TEXT, addresses)]

    def has(self, address: Address) -> bool:
        """Return whether an untrusted address is that of a page; tantivy panics at most others."""
        segment, document = address
        if not 0 <= segment < self._searcher.num_segments or not 0 <= document < 2**32:
            return False
        try:
            self._searcher.doc(tantivy.DocAddress(segment, document))
        except ValueError:
            return False
        return True

    def heaviest_terms(self, addresses: Sequence[Address]) -> list[PageTerms]:
        """Return the heaviest terms of each page, for feedback."""
        terms = []
        for address, (body, full) in zip(addresses, self.texts(addresses), strict=True):
            page = self.stored(address)
            analyzer = self._analysis.of(page.language)
            terms.append(terms_of_page(analyzer, page.title, body or full, self._statistics))
        return terms

    def likeness(self, url: str) -> Likeness | None:
        """Return the query for pages similar to one; None if the URL is not indexed."""
        id = page_id(url)
        query = tantivy.Query.term_query(self._schema, ID, id, "basic")
        hits = self._searcher.search(query, 1, count=False).hits
        if not hits:
            return None
        address = hits[0][1].segment_ord, hits[0][1].doc
        page, ((body, full),) = self.stored(address), self.texts([address])
        analyzer = self._analysis.of(page.language)
        terms = heaviest(
            analyzer,
            page.title,
            body or full,
            self._statistics.documents,
            self._statistics.holding,
        )
        group = self.column(GROUP, [address])[0] or 0
        return Likeness(url, id, group, page.language, analyzer.field_set, terms)
