"""Search an open index: find and score pages, and return hits and facets.

It has one generation, or one per shard. A tantivy index is a list of segments with common
statistics, so shards on one machine are searched exactly as one index.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import tantivy
from tantivy import Occur

from lycosa.core.errors import WorkspaceError
from lycosa.index.generation import Generation, GenerationInfo
from lycosa.index.schema import (
    DATE,
    GROUP,
    HOST_KEY,
    ID,
    MIN_PRIOR,
    PRIOR,
    PUBLISHED,
    SCHEMA,
    SCHEMA_VERSION,
    Stored,
    page_id,
    prior_of,
)
from lycosa.index.shards.shards import META, by_count, combined, open_searcher
from lycosa.index.snippets.texts import SnippetTexts
from lycosa.index.suggest import file as suggest_file
from lycosa.index.suggest.file import SuggestFile
from lycosa.search.engine.reader import Address, IndexedPages, IndexStatistics
from lycosa.search.engine.search_query import (
    REQUIRE_ALL,
    SearchQuery,
    holds_words,
    readings_of,
)
from lycosa.search.presentation.facets import aggregation, counted_values
from lycosa.search.presentation.results import Explanation, Hit
from lycosa.search.presentation.snippet import Highlighter
from lycosa.search.query.filters import Filters
from lycosa.search.query.query import ParsedQuery
from lycosa.search.query.reading import Reading, read_by
from lycosa.search.ranking.expression import Expression, Leaf, to_query, without
from lycosa.search.ranking.feedback import PageTerms
from lycosa.search.ranking.ordering import (
    PageListing,
    Ranked,
    freshness,
    in_windows,
    listing,
)
from lycosa.search.ranking.rescoring import Rescorer
from lycosa.search.ranking.retrieve import QueryBuilder
from lycosa.search.ranking.similar import Likeness
from lycosa.search.ranking.statistics import (
    TermStatistics,
)
from lycosa.search.suggest.spelling import (
    SpellingCandidates,
    SpellingRequest,
    lookup_spellings,
)
from lycosa.text.analyze import Unit, analysis_by
from lycosa.text.korean import holds_hangul


class OpenIndex:
    """One or several open generations. Shared by threads.

    `before`: the previous index, whose suggestion files are reused if they are the same.

    Raises:
        WorkspaceError: a generation cannot be opened.
    """

    def __init__(
        self, generations: Sequence[Generation], shards: int = 1, before: OpenIndex | None = None
    ) -> None:
        for generation in generations:
            if generation.info.analyzers.get(SCHEMA) != str(SCHEMA_VERSION):
                raise WorkspaceError(
                    f"{generation.path} was built by another version: rebuild it "
                    "with `lycosa index`"
                )
        self.generations = tuple(generations)
        info = combined([generation.info for generation in generations], shards)
        assert info is not None
        self.info: GenerationInfo = info
        try:
            opened = open_searcher([made.path for made in generations])
            texts = SnippetTexts(made.path for made in generations)
        except PermissionError:
            raise
        except (ValueError, OSError) as error:
            where = (
                generations[0].path if len(generations) == 1 else generations[0].path.parent.parent
            )
            raise WorkspaceError(
                f"{where} cannot be opened: {error}; rebuild it with `lycosa index --rebuild`"
            ) from None
        self._schema, self._searcher = opened
        self.languages = tuple(by_count(self.info.languages)) or ("",)
        self.analysis, self.missing = analysis_by(self.info.analyzers).here()
        paths = (suggest_file.find(generation.path) for generation in generations)
        open_already = (
            {file.name: file for file in before.suggest_files} if before is not None else {}
        )
        self.suggest_files: tuple[SuggestFile, ...] = tuple(
            open_already.get(path.name) or SuggestFile(path) for path in paths if path is not None
        )
        self.statistics = IndexStatistics(
            self._schema, self._searcher, self.analysis, self.suggest_files
        )
        self.pages = IndexedPages(
            self._schema, self._searcher, texts, self.analysis, self.statistics
        )

    def hint(self, text: str) -> str:
        """Return the missing package for analysing a query as the index was; "": none."""
        return self.missing if self.missing and holds_hangul(text) else ""

    @property
    def number(self) -> int:
        return self.info.generation

    @property
    def documents(self) -> int:
        return self.statistics.documents

    def find(
        self,
        query: SearchQuery,
        stage: float,
        limit: int,
        everywhere: TermStatistics | None = None,
    ) -> PageListing[Address]:
        """Return the best pages. With `everywhere`, scores are comparable to other indexes'."""
        compiled = self._query(query, stage, everywhere)
        limit_with_copies = limit
        while True:
            matches = self._search(
                compiled, limit_with_copies, by_date=query.by_date, now_ms=query.now_ms
            )
            if query.like is None or not query.like.group:
                return matches
            others = [page for page in matches.pages if page.group != query.like.group]
            own = len(matches.pages) - len(others)
            if len(others) >= limit or len(matches.pages) < limit_with_copies:
                return PageListing(matches.total - own, others[:limit])
            limit_with_copies = limit + 2 * own  # replace the copies of the page

    def count(self, parsed: ParsedQuery, language: str) -> int:
        """Return the number of pages with all words of a query; `language` "": any."""
        query = SearchQuery(
            parsed,
            Filters(language, restrictions=parsed.restrictions),
            (language,) if language else self.languages,
        )
        if not holds_words(query):
            return 0
        result: Any = self._searcher.search(self._query(query, REQUIRE_ALL, None), 1, count=True)
        return result.count or 0

    def spelling_candidates(self, request: SpellingRequest) -> SpellingCandidates:
        """See `answer.AnswerSource`."""
        return lookup_spellings(self.suggest_files, request)

    def likeness(self, url: str) -> Likeness | None:
        """See `answer.AnswerSource`."""
        return self.pages.likeness(url)

    def feedback_terms(self, pages: Sequence[Ranked[Address]]) -> list[PageTerms]:
        """See `answer.AnswerSource`."""
        return self.pages.heaviest_terms([page.place for page in pages])

    def search_expression(
        self,
        expression: Expression,
        filters: Filters,
        count: int,
        *,
        excluded: Sequence[Leaf] = (),
        folded: bool = True,
        by_date: bool = False,
        now_ms: int = 0,
    ) -> PageListing[Address]:
        """Search for an expression; no result matches `excluded`. `by_date`: the scores are dates,
        newest first.
        """
        query = without(
            self._builder().filtered(expression, filters),
            [to_query(leaf, self._schema) for leaf in excluded],
        )

        fetch = functools.partial(self._search, query, by_date=by_date, now_ms=now_ms)
        return listing(fetch, 0, count, per_host=0, folded=folded)

    def matching(
        self, ids: Sequence[str], parsed: ParsedQuery, filters: Filters
    ) -> dict[str, Ranked[Address]]:
        """Return those of the pages with these ids that match the filters, and contain no excluded
        word of a query.
        """
        query = SearchQuery(parsed, filters, self.languages)
        builder, readings = self._builder(), readings_of(query, self.analysis)
        those = tantivy.Query.term_set_query(self._schema, ID, list(ids))
        narrowed = builder.narrowed(readings, filters, None)
        both = tantivy.Query.boolean_query([(Occur.Must, those), (Occur.Must, narrowed)])
        pages = self._search(both, len(ids), by_date=False, now_ms=0).pages
        return {page_id(self.pages.stored(page.place).url): page for page in pages}

    def hits_of(self, pages: Sequence[Ranked[Address]], units: Sequence[Unit]) -> list[Hit]:
        """Return the hits of pages, with these words marked."""

        def highlighter(language: str) -> Highlighter:
            return Highlighter(self.analysis.of(language), units)

        return self._hits(pages, highlighter, [None] * len(pages))

    def rescore(
        self,
        query: SearchQuery,
        stage: float,
        addresses: Sequence[Address],
        everywhere: TermStatistics,
    ) -> list[float]:
        """Return the exact scores of matches under the statistics of all indexes."""
        return [
            explained.words * explained.prior * explained.freshness
            for explained in self._explain(query, stage, addresses, everywhere)
        ]

    def page(
        self, query: SearchQuery, stage: float, offset: int, count: int
    ) -> PageListing[Address]:
        """See `answer.AnswerSource`: a search in this index alone."""

        fetch = functools.partial(self.find, query, stage)
        return listing(fetch, offset, count, per_host=query.per_host, folded=query.folded)

    def facets(
        self, query: SearchQuery, stage: float, names: tuple[str, ...]
    ) -> dict[str, dict[str, int]]:
        """Return the number of matches per facet value."""
        request = aggregation(names, query.now_ms)
        return counted_values(self._searcher.aggregate(self._query(query, stage, None), request))

    def hits(
        self,
        query: SearchQuery,
        stage: float,
        ranked: Sequence[Ranked[Address]],
        everywhere: TermStatistics | None = None,
    ) -> list[Hit]:
        """Return the hits of pages, with snippets."""
        explanations: Sequence[Explanation | None] = [None] * len(ranked)
        if query.explain and not query.by_date:
            term_statistics = self.statistics.of_query(query) if everywhere is None else everywhere
            explanations = self._explain(
                query, stage, [page.place for page in ranked], term_statistics
            )

        readings = {reading.analyzer: reading for reading in readings_of(query, self.analysis)}

        def highlighter(language: str) -> Highlighter | None:
            if not query.snippets:
                return None
            analyzer = self.analysis.of(language)
            reading = readings.get(analyzer) or read_by(query.parsed, analyzer)
            return Highlighter(reading.analyzer, reading.content_units(), prefixes_of(reading))

        pages = [page._replace(score=0.0) for page in ranked] if query.by_date else ranked
        return self._hits(pages, highlighter, explanations)

    def _hits(
        self,
        pages: Sequence[Ranked[Address]],
        make_highlighter: Callable[[str], Highlighter | None],
        explanations: Sequence[Explanation | None],
    ) -> list[Hit]:
        """Return hits; all pages of a language share a highlighter."""
        highlighter_of = functools.cache(make_highlighter)
        hits = []
        for page, explanation in zip(pages, explanations, strict=True):
            stored_page = self.pages.stored(page.place)
            hit = _hit(stored_page, page, explanation)
            highlighter = highlighter_of(stored_page.language)
            if highlighter is not None:
                (texts,) = self.pages.texts([page.place])
                snippet = highlighter.snippet(texts, stored_page.description)
                hit = replace(hit, snippet=snippet, marked_title=highlighter.mark(hit.title))
            hits.append(hit)
        return hits

    def _query(
        self, query: SearchQuery, stage: float, everywhere: TermStatistics | None
    ) -> tantivy.Query:
        readings = readings_of(query, self.analysis)
        return self._builder(query, everywhere).build(query, readings, stage)

    def _search(
        self, query: tantivy.Query, limit: int, *, by_date: bool, now_ms: int
    ) -> PageListing[Address]:
        result: Any = self._searcher.search(
            query,
            max(1, limit),
            count=True,
            order_by_field=DATE if by_date else None,
            weight_by_field=None if by_date else PRIOR,
        )
        places = [place for _, place in result.hits]
        columns: list[list[Any]] = [
            self._searcher.fast_field_values(name, places) for name in (HOST_KEY, GROUP, PUBLISHED)
        ]
        best = [
            Ranked(
                float(score or 0) if by_date else score * MIN_PRIOR * freshness(at, now_ms),
                (place.segment_ord, place.doc),
                host or 0,
                group or 0,
            )
            for (score, place), host, group, at in zip(result.hits, *columns, strict=True)
        ]
        return PageListing(result.count or 0, best if by_date else in_windows(best))

    def _explain(
        self,
        query: SearchQuery,
        stage: float,
        addresses: Sequence[Address],
        everywhere: TermStatistics,
    ) -> list[Explanation]:
        builder = QueryBuilder(self._schema, everywhere, everywhere)
        expression = builder.expression(query, readings_of(query, self.analysis), stage)
        places = [tantivy.DocAddress(*address) for address in addresses]
        priors, published = (self.pages.column(name, addresses) for name in (PRIOR, PUBLISHED))
        rescorer = Rescorer(self._schema, self._searcher, everywhere)
        explanations = []
        for place, weight, at in zip(places, priors, published, strict=True):
            words = rescorer.score(expression, place) if expression is not None else 0.0
            parts = (
                rescorer.parts(expression, place)
                if expression is not None and query.explain
                else ()
            )
            explanations.append(
                Explanation(words, prior_of(weight), freshness(at, query.now_ms), parts)
            )
        return explanations

    def _builder(
        self, query: SearchQuery | None = None, everywhere: TermStatistics | None = None
    ) -> QueryBuilder:
        if query is None or everywhere is None:
            return QueryBuilder(self._schema, self.statistics, self.statistics)
        here = self.statistics.of_query(query)
        return QueryBuilder(self._schema, here, here if everywhere == here else everywhere)


def schema_of(generation: Generation) -> str:
    """Return the fields of a generation. Only generations with equal ones can be searched as one.

    Raises OSError, ValueError, KeyError.
    """
    return json.dumps(json.loads((generation.path / META).read_bytes())["schema"], sort_keys=True)


def _hit(page: Stored, ranked: Ranked[Address], explanation: Explanation | None) -> Hit:
    """Return a hit without a snippet."""
    return Hit(
        url=page.url,
        title=page.title,
        snippet=[],
        language=page.language,
        host=page.host,
        collection=", ".join(page.collections),
        fetched_at=page.fetched_at,
        published_at=page.published_at,
        score=ranked.score,
        type=page.type,
        copies=ranked.copies,
        from_host=ranked.from_host,
        explanation=explanation,
    )


def prefixes_of(reading: Reading) -> tuple[str, ...]:
    """Return the prefixes of a reading."""
    return tuple(word.prefix for word in reading.words() if word.prefix)
