"""Read single pages of an open index: stored fields, columns and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tantivy

from lycosa.index.schema import GROUP, ID, TEXT, Stored, signed_key, stored, text_of, url_id
from lycosa.index.snippets.texts import SnippetTexts
from lycosa.search.engine.index_statistics import IndexStatistics
from lycosa.search.ranking.feedback import PageTerms, terms_of_page
from lycosa.search.ranking.similar import Likeness, heaviest
from lycosa.text.analyze import Analysis

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
        """Whether there is a page at an address from outside; tantivy panics at most others."""
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
        """Return what finds pages similar to the one at a URL; None if it is not indexed."""
        page_id = url_id(signed_key(url) + 2**63)
        query = tantivy.Query.term_query(self._schema, ID, page_id, "basic")
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
        return Likeness(url, page_id, group, page.language, analyzer.field_set, terms)
