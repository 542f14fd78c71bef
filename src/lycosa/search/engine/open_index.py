"""An index that is open: what it knows of words, which pages it finds, what they count exactly, how
they are shown.

It is one generation, or the generations of several shards as one: a tantivy index is a list of
segments, and statistics are taken over all of them, so shards on one machine are searched exactly
as one index is.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
    TEXT,
    Stored,
    located,
    prior_of,
    signed_key,
    stored,
    text_of,
    url_id,
)
from lycosa.index.shards.searchers import META, open_searcher
from lycosa.index.shards.shards import by_count, combined
from lycosa.index.snippets.texts import Texts
from lycosa.index.suggest import file as suggest_file
from lycosa.index.suggest.file import SuggestFile
from lycosa.search.presentation.facets import aggregation, counted_values
from lycosa.search.presentation.results import Explanation, Hit
from lycosa.search.presentation.snippet import Highlighter
from lycosa.search.query.query import ParsedQuery
from lycosa.search.query.reading import Reading, read, read_by
from lycosa.search.ranking.exact import Weigher
from lycosa.search.ranking.expression import Expression, Leaf
from lycosa.search.ranking.feedback import Expansion, PageTerms, terms_of_page
from lycosa.search.ranking.lengths import Lengths, measure
from lycosa.search.ranking.ordering import Listing, Ranked, freshness, in_windows, listing
from lycosa.search.ranking.retrieve import RELAX_SHARE, Filters, QueryBuilder, terms_of
from lycosa.search.ranking.sentence import is_sentence
from lycosa.search.ranking.similar import Likeness, heaviest
from lycosa.search.ranking.statistics import WRITTEN, Statistics, Term, ToldStatistics
from lycosa.search.suggest.spelling import Heard, Wanted, hear
from lycosa.text.analyze import Analysis, Unit, analysis_by
from lycosa.text.korean import holds_hangul

Address = tuple[int, int]
"""Segment and document within an opened index."""

STRICT = -1.0
SENTENCE = -2.0
ANY = 0.0
"""How much of a query a page must hold: all, or this share of the words but not all."""

_MAX_TOLD = 256
_MAX_COUNTED = 50_000  # terms whose pages were counted: some 8 MB


@dataclass(slots=True, frozen=True)
class Question:
    """A query as every shard is asked it. `languages` are those by whose analyzers it is read;
    `now_ms` is when it was asked, roughly.
    """

    parsed: ParsedQuery
    filters: Filters
    languages: tuple[str, ...]
    by_date: bool = False  # the newest first
    per_host: int = 0
    folded: bool = True
    explain: bool = False
    now_ms: int = 0
    like: Likeness | None = None  # only pages like this one
    expansion: Expansion | None = None  # terms that feedback adds to a sentence


@dataclass(slots=True, frozen=True)
class Found:
    """How many pages match in all, and the first of them, the best first."""

    total: int
    best: list[Ranked[Address]]


class OpenIndex:
    """One or several generations, open; they are read in whatever is published or removed
    meanwhile. Shared by threads.

    `before`: what was open until now; suggestions that both have stay open, and what was read of
    them is not read again.

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
            self._texts = Texts(made.path for made in generations)
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
        self._lengths: Lengths | None = None
        self._told: dict[Question, ToldStatistics] = {}
        self._holding: dict[Term, int] = {}
        self._measuring = threading.Lock()
        paths = (suggest_file.find(generation.path) for generation in generations)
        open_already = (
            {file.name: file for file in before.suggest_files} if before is not None else {}
        )
        self.suggest_files: tuple[SuggestFile, ...] = tuple(
            open_already.get(path.name) or SuggestFile(path) for path in paths if path is not None
        )

    def hint(self, text: str) -> str:
        """What is to be installed for the words of a query to be read as this index has them; ""
        for nothing.
        """
        return self.missing if self.missing and holds_hangul(text) else ""

    @property
    def number(self) -> int:
        return self.info.generation

    @property
    def documents(self) -> int:
        return int(self._searcher.num_docs)

    def holding(self, name: str, term: str) -> int:
        """Remembered: a query asks for each of its words in every field of every analyzer, and
        words come again.
        """
        count = self._holding.get((name, term))
        if count is None:
            if len(self._holding) >= _MAX_COUNTED:
                self._holding.clear()
            count = self._holding[name, term] = self._pages_holding(name, term)
        return count

    def _pages_holding(self, name: str, term: str) -> int:
        if name.startswith(WRITTEN):
            language = name.removeprefix(WRITTEN)
            known = (file.known(term, language) for file in self.suggest_files)
            return sum(word.pages for word in known if word is not None)
        field, (found,) = located(name, (term,))
        return int(self._searcher.doc_freq(field, found))

    @property
    def counted(self) -> int:
        return self.documents

    def length(self, name: str) -> float:
        return 0.0

    def usual(self, name: str) -> float:
        return 0.0

    def told(self, question: Question) -> ToldStatistics:
        """What this index adds to the statistics of a query. Kept for a while: a search asks for it
        twice.
        """
        told = self._told.get(question)
        if told is None:
            told = self._tell(question)
            if len(self._told) >= _MAX_TOLD:
                self._told.clear()
            self._told[question] = told
        return told

    def _tell(self, question: Question) -> ToldStatistics:
        readings = self._readings(question)
        lengths = self._measured()
        asked = terms_of(readings)
        for added in (question.like, question.expansion):
            asked += [] if added is None else added.asked()
        frequencies = {term: self.holding(*term) for term in asked}
        having = dict.fromkeys(lengths.tokens, self.documents)
        return ToldStatistics(
            self.documents,
            max(self.documents, lengths.counted),
            frequencies,
            lengths.tokens,
            having,
        )

    def find(
        self, question: Question, stage: float, limit: int, everywhere: ToldStatistics | None = None
    ) -> Found:
        """The first pages, so many as `limit`. With `everywhere`, scores are about those of all
        indexes together.
        """
        query = self._query(question, stage, everywhere)
        asked = limit
        while True:
            found = self._found(query, asked, by_date=question.by_date, now_ms=question.now_ms)
            if question.like is None or not question.like.group:
                return found
            others = [page for page in found.best if page.group != question.like.group]
            own = len(found.best) - len(others)
            if len(others) >= limit or len(found.best) < asked:
                return Found(found.total - own, others[:limit])
            asked = limit + 2 * own  # copies of the page itself took the place of others

    def count(self, parsed: ParsedQuery, language: str) -> int:
        """How many pages hold all words of a query; in a language, or (with "") in any."""
        question = Question(
            parsed,
            Filters(language, restrictions=parsed.restrictions),
            (language,) if language else self.languages,
        )
        if not holds_words(question):
            return 0
        result: Any = self._searcher.search(self._query(question, STRICT, None), 1, count=True)
        return result.count or 0

    def hear(self, wanted: Wanted) -> Heard:
        """See `answer.Source`."""
        return hear(self.suggest_files, wanted)

    def likeness(self, url: str) -> Likeness | None:
        """See `answer.Source`."""
        page = url_id(signed_key(url) + 2**63)
        hits = self._searcher.search(
            tantivy.Query.term_query(self._schema, ID, page, "basic"), 1, count=False
        ).hits
        if not hits:
            return None
        address = hits[0][1]
        document = self._searcher.doc(address)
        about, analyzer = stored(document), self.analysis.of(stored(document).language)
        body, full = self._text(address)
        terms = heaviest(analyzer, about.title, body or full, self.documents, self.holding)
        return Likeness(
            url,
            page,
            self._integers(GROUP, [address])[0] or 0,
            about.language,
            analyzer.field_set,
            terms,
        )

    def page_terms(self, addresses: Sequence[Address]) -> list[PageTerms]:
        """The heaviest terms of pages that were found, for feedback."""
        found = []
        for address in addresses:
            place = tantivy.DocAddress(*address)
            about = stored(self._searcher.doc(place))
            body, full = self._text(place)
            found.append(
                terms_of_page(self.analysis.of(about.language), about.title, body or full, self)
            )
        return found

    def feedback_terms(self, pages: Sequence[Ranked[Address]]) -> list[PageTerms]:
        """See `answer.Source`."""
        return self.page_terms([page.place for page in pages])

    def search_expression(
        self,
        expression: Expression,
        filters: Filters,
        offset: int,
        count: int,
        *,
        unwanted: Sequence[Leaf] = (),
        per_host: int = 0,
        folded: bool = True,
        now_ms: int = 0,
    ) -> Listing[Address]:
        """The pages that match an expression and nothing unwanted, by its score, prior and
        freshness: for queries that were not typed.
        """
        query = QueryBuilder(self._schema, self, self).asked(expression, filters, unwanted)

        def fetch(limit: int) -> tuple[int, list[Ranked[Address]]]:
            found = self._found(query, limit, by_date=False, now_ms=now_ms)
            return found.total, found.best

        return listing(fetch, offset, count, per_host=per_host, folded=folded)

    def pages_of(
        self, ids: Sequence[str], filters: Filters, languages: Collection[str]
    ) -> list[Ranked[Address]]:
        """Those of the pages with these ids that are here, that the filters let through and that
        are in one of the languages.
        """
        builder = QueryBuilder(self._schema, self, self)
        found: list[Ranked[Address]] = []
        for page in ids:
            query = tantivy.Query.term_query(self._schema, ID, page, "basic")
            asked = tantivy.Query.boolean_query(
                [(Occur.Must, query), (Occur.Must, builder.filtered(None, filters))]
            )
            each = self._found(asked, 1, by_date=False, now_ms=0).best
            if (
                each
                and stored(self._searcher.doc(tantivy.DocAddress(*each[0].place))).language
                in languages
            ):
                found += each
        return found

    def hits_of(self, found: Sequence[Ranked[Address]], units: Sequence[Unit]) -> list[Hit]:
        """Pages with their snippets, in which these words are marked."""
        highlighters: dict[str, Highlighter] = {}
        shown = []
        for page, text in zip(found, self._text_keys(found), strict=True):
            document = self._searcher.doc(tantivy.DocAddress(*page.place))
            about = stored(document)
            if about.language not in highlighters:
                highlighters[about.language] = Highlighter(self.analysis.of(about.language), units)
            shown.append(
                _hit(
                    about,
                    self._texts.read(text),
                    page,
                    page.score,
                    highlighters[about.language],
                    None,
                )
            )
        return shown

    def urls(self, addresses: Sequence[Address]) -> list[str]:
        """The URLs of pages that were found."""
        return [
            stored(self._searcher.doc(tantivy.DocAddress(*address))).url for address in addresses
        ]

    def has(self, address: Address) -> bool:
        """Whether there is a page at an address that somebody else named: tantivy would panic at
        most others.
        """
        segment, document = address
        if not 0 <= segment < self._searcher.num_segments or not 0 <= document < 2**32:
            return False
        try:
            self._searcher.doc(tantivy.DocAddress(segment, document))
        except ValueError:
            return False
        return True

    def weigh(
        self,
        question: Question,
        stage: float,
        addresses: Sequence[Address],
        everywhere: ToldStatistics,
    ) -> list[float]:
        """The exact scores of pages that were found, as one index of all documents would have
        them.
        """
        return [
            explained.words * explained.prior * explained.freshness
            for explained in self._weighed(question, stage, addresses, everywhere)
        ]

    def page(self, question: Question, stage: float, offset: int, count: int) -> Listing[Address]:
        """See `answer.Source`: a search in this index alone."""

        def fetch(limit: int) -> tuple[int, list[Ranked[Address]]]:
            found = self.find(question, stage, limit)
            return found.total, found.best

        return listing(fetch, offset, count, per_host=question.per_host, folded=question.folded)

    def facets(
        self, question: Question, stage: float, names: tuple[str, ...]
    ) -> dict[str, dict[str, int]]:
        """All pages that match, counted."""
        asked = aggregation(names, question.now_ms)
        return counted_values(self._searcher.aggregate(self._query(question, stage, None), asked))

    def hits(
        self,
        question: Question,
        stage: float,
        found: Sequence[Ranked[Address]],
        everywhere: ToldStatistics | None = None,
    ) -> list[Hit]:
        """Pages with their snippets."""
        explanations: Sequence[Explanation | None] = [None] * len(found)
        if question.explain and not question.by_date:
            told = self.told(question) if everywhere is None else everywhere
            explanations = self._weighed(question, stage, [page.place for page in found], told)
        highlighters: dict[str, Highlighter] = {}
        shown = []
        for page, explanation, text in zip(
            found, explanations, self._text_keys(found), strict=True
        ):
            document = self._searcher.doc(tantivy.DocAddress(*page.place))
            about = stored(document)
            if about.language not in highlighters:
                reading = read_by(question.parsed, self.analysis.of(about.language))
                highlighters[about.language] = Highlighter(
                    reading.analyzer, reading.wanted, beginnings_of(reading)
                )
            score = 0.0 if question.by_date else page.score
            shown.append(
                _hit(
                    about,
                    self._texts.read(text),
                    page,
                    score,
                    highlighters[about.language],
                    explanation,
                )
            )
        return shown

    def _readings(self, question: Question) -> list[Reading]:
        return readings_of(question, self.analysis)

    def _query(
        self, question: Question, stage: float, everywhere: ToldStatistics | None
    ) -> tantivy.Query:
        readings = self._readings(question)
        builder = self._builder(question, everywhere)
        if question.like is not None:
            like = question.like.expression()
            return (
                tantivy.Query.empty_query()
                if like is None
                else builder.alike(readings, question.filters, like, question.like.page)
            )
        if stage == SENTENCE:
            return builder.any_word(readings, question.filters, question.expansion)
        if stage == STRICT:
            return builder.strict(readings, question.filters)
        return builder.relaxed(readings, question.filters, stage)

    def _found(self, query: tantivy.Query, limit: int, *, by_date: bool, now_ms: int) -> Found:
        result: Any = self._searcher.search(
            query,
            max(1, limit),
            count=True,
            order_by_field=DATE if by_date else None,
            weight_by_field=None if by_date else PRIOR,
        )
        addresses = [address for _, address in result.hits]
        hosts, groups = self._integers(HOST_KEY, addresses), self._integers(GROUP, addresses)
        scores = [float(score or 0) * (1.0 if by_date else MIN_PRIOR) for score, _ in result.hits]
        if not by_date:
            published = self._integers(PUBLISHED, addresses)
            scores = [
                score if at is None else score * freshness(at, now_ms)
                for score, at in zip(scores, published, strict=True)
            ]
        best = [
            Ranked(score, (address.segment_ord, address.doc), host or 0, group or 0)
            for score, address, host, group in zip(scores, addresses, hosts, groups, strict=True)
        ]
        return Found(result.count or 0, best if by_date else in_windows(best))

    def _integers(self, name: str, places: Sequence[tantivy.DocAddress]) -> list[int | None]:
        """A column's values for these pages."""
        values: list[Any] = self._searcher.fast_field_values(name, list(places))
        return values

    def _text_keys(self, found: Sequence[Ranked[Address]]) -> list[int | None]:
        return [
            text_of(value)
            for value in self._integers(TEXT, [tantivy.DocAddress(*page.place) for page in found])
        ]

    def _text(self, address: tantivy.DocAddress) -> tuple[str, str]:
        """The beginnings of a page's main text, and of the text outside it."""
        return self._texts.read(text_of(self._integers(TEXT, [address])[0]))

    def _weighed(
        self,
        question: Question,
        stage: float,
        addresses: Sequence[Address],
        everywhere: ToldStatistics,
    ) -> list[Explanation]:
        builder = QueryBuilder(self._schema, everywhere, everywhere)
        expression: Expression | None = (
            builder.sentence(self._readings(question), question.expansion)
            if stage == SENTENCE
            else builder.wanted(self._readings(question), None if stage == STRICT else stage)
        )
        if question.like is not None and (like := question.like.expression()) is not None:
            expression = builder.with_words(self._readings(question), like)
        places = [tantivy.DocAddress(*address) for address in addresses]
        priors, published = (
            self._searcher.fast_field_values(PRIOR, places),
            self._integers(PUBLISHED, places),
        )
        weigher = Weigher(self._schema, self._searcher, everywhere)
        found = []
        for place, weight, at in zip(places, priors, published, strict=True):
            words = weigher.score(expression, place) if expression is not None else 0.0
            parts = (
                weigher.parts(expression, place)
                if expression is not None and question.explain
                else ()
            )
            found.append(
                Explanation(words, prior_of(weight), freshness(at, question.now_ms), parts)
            )
        return found

    def _builder(self, question: Question, everywhere: ToldStatistics | None) -> QueryBuilder:
        here: Statistics = self if everywhere is None else self.told(question)
        return QueryBuilder(
            self._schema, here, here if everywhere is None or everywhere == here else everywhere
        )

    def _measured(self) -> Lengths:
        if self._lengths is None:
            with self._measuring:
                if self._lengths is None:
                    self._lengths = measure(self._schema, self._searcher)
        return self._lengths


@functools.lru_cache(maxsize=256)
def readings_of(question: Question, analysis: Analysis = Analysis()) -> list[Reading]:
    """The readings of a query; a shard is asked the same question two or three times."""
    return read(question.parsed, question.languages, analysis)


def holds_words(question: Question) -> bool:
    """Whether there is anything to look for: a word, or filters alone."""
    parsed, readings = question.parsed, readings_of(question)
    if question.like is not None or any(
        reading.parts or (reading.unwanted and not parsed.wanted) for reading in readings
    ):
        return True
    return not parsed.wanted and bool(parsed.restrictions)


def parts_of(question: Question) -> int:
    """How many words and groups of words the query wants."""
    return max((len(reading.parts) for reading in readings_of(question)), default=0)


def stages_of(question: Question) -> tuple[float, ...]:
    """What is tried one after the other. Of a long question few pages hold most words: those that
    hold the rare ones are best.
    """
    parts = parts_of(question)
    if question.like is None and is_sentence(question.parsed, parts, readings_of(question)):
        return (SENTENCE,)
    if parts < 2 or question.like is not None:
        return (STRICT,)
    return (STRICT, RELAX_SHARE, ANY)


def schema_of(generation: Generation) -> str:
    """The fields of a generation, to tell whether two can be searched as one. Raises OSError,
    ValueError, KeyError.
    """
    return json.dumps(json.loads((generation.path / META).read_bytes())["schema"], sort_keys=True)


def _hit(
    page: Stored,
    texts: tuple[str, str],
    found: Ranked[Address],
    score: float,
    highlighter: Highlighter,
    explanation: Explanation | None,
) -> Hit:
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
        type=page.type,
        copies=found.copies,
        from_host=found.from_host,
        explanation=explanation,
    )


def beginnings_of(reading: Reading) -> tuple[str, ...]:
    """The beginnings of words that a reading looks for."""
    return tuple(word.beginning for word in reading.words() if word.beginning)
