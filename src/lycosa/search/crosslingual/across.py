"""Search in several languages with translated queries, and merge the results.

Each language is searched with its own analyzer and statistics: a word is as rare as it is among the
pages of that language. Scores of several languages are comparable after division by the highest
score that the translated query can reach.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import EncoderError
from lycosa.core.messages import Message
from lycosa.index.schema import BODY_ROLE, TITLE_ROLE, URL_WORDS, text_field
from lycosa.index.suggest.normalise import folded
from lycosa.search.crosslingual.translated import (
    TYPED,
    Across,
    TranslatedQuery,
    TranslatedTerm,
    Translator,
    with_compounds,
)
from lycosa.search.engine.open_index import OpenIndex
from lycosa.search.engine.reader import Address
from lycosa.search.presentation.answer import HOUR_MS, NOTHING_INDEXED, matching, spelling_of
from lycosa.search.presentation.results import MAX_HITS, Hit, SearchRequest, SearchResults
from lycosa.search.query.filters import Filters
from lycosa.search.query.language import query_language
from lycosa.search.query.query import ParsedQuery, Restriction, clauses, parse_query
from lycosa.search.query.syntax import BY_DATE, LANGUAGE
from lycosa.search.ranking.expression import AtLeast, DisMax, Expression, Leaf, Prefix, WithOptional
from lycosa.search.ranking.ordering import Ranked, diversify_hosts, reciprocal_ranks
from lycosa.search.ranking.retrieve import STEM_EVIDENCE, TITLE_WEIGHT, URL_WEIGHT, WEIGHTS
from lycosa.search.ranking.statistics import K1, WRITTEN, inverse_frequency
from lycosa.text.analyze import Unit
from lycosa.translation.source import Sources, Translation
from lycosa.translation.workspace_tables import OpenTables
from lycosa.url.languages import language_code

# maximum weight of a word as typed, relative to its best translation
TYPED_SHARE = 0.5
# share of the scores of a word's further translations
TIE = 0.15
MAX_STRICT = 6  # words of a query up to which pages with all of them rank first
SHARES = (1.0, 0.6, 0.0)  # of the words that a page must contain
NEAREST = 50  # pages with the nearest vectors that are added


@dataclass(slots=True, frozen=True)
class LanguageAnswer:
    """Results in one language: number of pages, the best ones, and the highest possible score."""

    query: TranslatedQuery
    total: int
    best: list[Ranked[Address]]
    highest: float


class LanguageSearch:
    """A translated query in one index."""

    def __init__(self, index: OpenIndex, query: TranslatedQuery, filters: Filters) -> None:
        self._index = index
        self._statistics = index.statistics
        self._filters = replace(filters, language=query.language)
        self._field_set = index.analysis.of(query.language).field_set
        body = text_field(BODY_ROLE, self._field_set)
        self._query = with_compounds(query, lambda term: index.statistics.holding(body, term) > 0)
        self._pages = max(1, index.info.languages.get(query.language, 0))

    def find(
        self, limit: int, *, folded: bool = True, by_date: bool = False, now_ms: int = 0
    ) -> LanguageAnswer:
        """Return the best pages with all words, or with some if fewer than `limit` have all.

        `by_date`: the newest pages instead, with their dates as scores; with some words if no page
        has all.
        """
        slots = self._slots(self._query.terms, tuple(WEIGHTS))
        count = len(self._query.terms)
        if not slots:
            return LanguageAnswer(self._query, 0, [], 0.0)
        titles = self._slots(self._query.terms, (TITLE_ROLE,))
        more = (
            (AtLeast(tuple(titles), count).times(TITLE_WEIGHT / WEIGHTS[TITLE_ROLE]),)
            if 1 < count == len(titles)
            else ()
        )
        total, pages = 0, list[Ranked[Address]]()
        for share in SHARES if count <= MAX_STRICT else SHARES[-1:]:
            least = max(1, round(share * count))
            if least > len(slots):
                continue
            expression = WithOptional(AtLeast(tuple(slots), least), more)
            total, pages = self._index.search_expression(
                expression,
                self._filters,
                limit,
                excluded=self._excluded(),
                folded=folded,
                by_date=by_date,
                now_ms=now_ms,
            )
            if total >= (1 if by_date else limit):
                break
        highest = 1.0 if by_date else sum(map(self._highest, slots)) * count / len(slots)
        return LanguageAnswer(self._query, total, pages, highest)

    def units(self) -> list[Unit]:
        """Return the words to highlight."""
        alternatives = (each for term in self._query.terms for each in term.all_alternatives())
        return [Unit(tuple(each.key.split(" ")), "", each.surface) for each in alternatives]

    def _slots(self, terms: Iterable[TranslatedTerm], roles: Sequence[str]) -> list[Expression]:
        """Return the expressions of those words that have one."""
        slots = (self._slot(term, roles) for term in terms)
        return [slot for slot in slots if slot is not None]

    def _slot(self, term: TranslatedTerm, roles: Sequence[str]) -> Expression | None:
        """Return the expression of a word: its best translation, and a part of the others."""
        alternatives = [
            (each.origin, expression)
            for each in term.alternatives
            if (expression := self._somewhere(each, roles)) is not None
        ]
        parts = self._with_typed(alternatives)
        if term.words:
            words = self._slots(term.words, roles)
            if len(words) == len(term.words):
                parts.append(AtLeast(tuple(words), len(words)).times(1 / len(words)))
        pieces = self._slots(term.parts, roles)
        whole = [DisMax(tuple(parts), TIE)] if parts else []
        return AtLeast((*whole, *pieces)) if pieces else whole[0] if whole else None

    def _with_typed(self, parts: Sequence[tuple[str, Expression]]) -> list[Expression]:
        """Return the alternatives of a word, as typed with at most half of the best weight.

        A rare foreign word would otherwise outweigh every translation.
        """
        translated = [part for origin, part in parts if origin != TYPED]
        if not translated:
            return [part for _, part in parts]
        most = TYPED_SHARE * max(map(self._highest, translated))
        typed = [part for origin, part in parts if origin == TYPED]
        return [
            *translated,
            *(
                part.times(min(1.0, most / highest))
                for part in typed
                if (highest := self._highest(part)) > 0
            ),
        ]

    def _somewhere(self, each: Translation, roles: Sequence[str]) -> Expression | None:
        """Return the expression of a translation in the fields that have it; None: in none."""
        terms = tuple(each.key.split(" "))
        names = [(text_field(role, self._field_set), WEIGHTS[role]) for role in roles]
        held = [
            (name, weight)
            for name, weight in names
            if all(self._statistics.holding(name, term) for term in terms)
        ]
        leaves = [
            Leaf(name, terms, weight * each.weight * self._commonness(name, terms))
            for name, weight in held
        ]
        if (
            TITLE_ROLE in roles
            and len(roles) > 1
            and each.origin == TYPED
            and self._statistics.holding(URL_WORDS, each.surface.lower())
        ):
            leaves.append(Leaf(URL_WORDS, (each.surface.lower(),), URL_WEIGHT * each.weight))
        return AtLeast(tuple(leaves)) if leaves else None

    def _commonness(self, name: str, terms: Sequence[str]) -> float:
        """Return the factor that corrects a score to that of an index of this language alone."""
        everywhere = here = 0.0
        for term in terms:
            holding = self._statistics.holding(name, term)
            everywhere += inverse_frequency(
                self._statistics.counted, min(holding, self._statistics.counted)
            )
            here += inverse_frequency(self._pages, min(holding, self._pages))
        return here / everywhere if everywhere > 0 else 1.0

    def _highest(self, expression: Expression) -> float:
        """Return the approximate maximum score: all words often and in all fields."""
        if isinstance(expression, Leaf):
            rarity = sum(
                inverse_frequency(
                    self._statistics.counted,
                    self._statistics.holding(expression.field, term),
                )
                for term in expression.terms
            )
            return expression.weight * (K1 + 1) * rarity
        if isinstance(expression, WithOptional):
            return self._highest(expression.required)
        if isinstance(expression, Prefix):
            return expression.weight
        each = [self._highest(part) for part in expression.parts]
        return max(each) if isinstance(expression, DisMax) else sum(each)

    def _excluded(self) -> list[Leaf]:
        body = (text_field(BODY_ROLE, self._field_set), text_field(TITLE_ROLE, self._field_set))
        return [Leaf(name, tuple(key.split(" "))) for key in self._query.excluded for name in body]


def merged(
    answers: Sequence[LanguageAnswer], shares: Sequence[float] = ()
) -> list[tuple[int, Ranked[Address]]]:
    """Merge results: (index of the answer, page with comparable score), best first.

    `shares`: factors for the scores of each answer (default: 1).
    """
    ranked = [
        (
            number,
            page._replace(
                score=(shares[number] if shares else 1.0) * page.score / answer.highest
                if answer.highest
                else 0.0
            ),
        )
        for number, answer in enumerate(answers)
        for page in answer.best
    ]
    ranked.sort(key=lambda item: (-item[1].score, item[0], item[1].place))
    # two analyses of one language may match the same page
    once = {page.place: (number, page) for number, page in reversed(ranked)}
    return ranked if len(once) == len(ranked) else list(reversed(once.values()))


class Vectors(Protocol):
    """Vectors of pages (`lycosa.vectors.nearest`)."""

    def nearest(self, text: str, count: int) -> list[str]:
        """Return the ids of the pages that are nearest to a query. Raises EncoderError."""
        ...


def encoder_note(error: EncoderError) -> Message:
    """Return the note of results that were found by words only."""
    return Message(
        "encoder_failed",
        "the encoder failed, so the results are by words only: {reason}",
        reason=str(error),
    )


def _near(
    index: OpenIndex,
    ids: Sequence[str],
    parsed: ParsedQuery,
    filters: Filters,
    languages: Container[str],
) -> list[Ranked[Address]]:
    """Return those of the pages that match the filters and languages, in order."""
    matches = index.matching(ids, parsed, filters)
    near = [matches[each] for each in ids if each in matches]
    return [page for page in near if index.pages.stored(page.place).language in languages]


def answer_across(
    index: OpenIndex | None,
    tables: OpenTables,
    request: SearchRequest,
    across: Across,
    vectors: Vectors | None = None,
) -> SearchResults:
    """Search in all requested languages, the query's own first. Every input is a valid query."""
    started = time.perf_counter()
    parsed = parse_query(request.text)
    offset = max(0, min(request.offset, MAX_HITS))
    count = max(0, min(request.count, MAX_HITS - offset))
    notes = [*parsed.notes, *tables.problems]
    answers, hits, spelling = list[LanguageAnswer](), list[Hit](), None
    if index is None or not index.documents:
        notes.append(NOTHING_INDEXED)
    elif not parsed.required:
        notes.append(Message("no_word_to_translate", "the query contains no word to translate"))
    else:
        queries, uncovered = _queries(index, tables, parsed, across, notes)
        filters = request_filters(parsed, request)
        searches = [LanguageSearch(index, query, filters) for query in queries]
        now_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS
        by_date = (request.order or parsed.order) == BY_DATE
        answers = [
            search.find(offset + count, folded=request.folded, by_date=by_date, now_ms=now_ms)
            for search in searches
        ]
        ranked = merged(answers, () if by_date else _translated_shares(queries, uncovered))
        if not (by_date or filters.one_site):
            ranked = diversify_hosts(ranked, lambda item: item[1].host, request.per_host)
        units = [search.units() for search in searches]
        if vectors is not None and not by_date:
            text = " ".join(clause.text for clause in clauses(parsed.required))
            languages = {query.language for query in queries}
            units.append([unit for listed in units for unit in listed])
            try:
                near = _near(index, vectors.nearest(text, NEAREST), parsed, filters, languages)
                ranked = fused(ranked, [(len(searches), page) for page in near])
            except EncoderError as error:
                notes.append(encoder_note(error))
        hits = [
            index.hits_of([page._replace(score=0.0) if by_date else page], units[number])[0]
            for number, page in ranked[offset : offset + count]
        ]
        if request.spelling and not offset and _has_untranslated_word(queries):
            spelling = spelling_of(index, parsed, request, matching(index, parsed, request))
    return SearchResults(
        request.text,
        sum(answer.total for answer in answers),
        hits,
        (time.perf_counter() - started) * 1000,
        offset,
        index.number if index is not None else 0,
        notes,
        translations=tuple(answer.query for answer in answers),
        did_you_mean=spelling,
    )


def request_filters(parsed: ParsedQuery, request: SearchRequest) -> Filters:
    """Return the filters of a query and of the options of its request."""
    narrowed = (Restriction(LANGUAGE, request.only_language),) if request.language else ()
    return Filters(
        "", request.collection or "", request.only_site, (*parsed.restrictions, *narrowed)
    )


def fused(*lists: Sequence[tuple[int, Ranked[Address]]]) -> list[tuple[int, Ranked[Address]]]:
    """Merge lists of pages by reciprocal rank fusion."""
    scores = reciprocal_ranks(*([page.place for _, page in listed] for listed in lists))
    first = {page.place: (number, page) for listed in reversed(lists) for number, page in listed}
    ranked = [
        (number, page._replace(score=scores[place])) for place, (number, page) in first.items()
    ]
    return sorted(ranked, key=lambda item: (-item[1].score, item[1].place))


def _queries(
    index: OpenIndex, tables: OpenTables, parsed: ParsedQuery, across: Across, notes: list[str]
) -> tuple[list[TranslatedQuery], set[str]]:
    """Return the query in its own and other languages, and languages without translations."""
    first, *others = index.analysis.each()
    sources = tables.sources_for(first)
    index_languages = [language for language in index.languages if language]
    source = language_code(across.source) or query_language(
        parsed, index_languages, sources, _holding(index, parsed, index_languages), first
    )
    codes = [language_code(code) or code for code in across.languages]
    targets = [code for code in codes or index_languages if code != source]
    edits = {(language, word): alternatives for language, word, alternatives in across.edits}
    translator = Translator(sources, parsed, source, edits, first)
    without = [language for language in targets if not sources.covers(source, language)]
    if without:
        notes.append(
            Message(
                "no_translations",
                "no translations from {source} into {languages}: only the words as typed were "
                "searched for; see `lycosa translate`",
                source=source,
                languages=", ".join(sorted(without)),
            )
        )
    queries = [
        Translator(Sources(), parsed, source, edits, first).into(source),
        *map(translator.into, targets),
    ]
    for analysis in others:  # some shards were built by another one
        again = Translator(tables.sources_for(analysis), parsed, source, edits, analysis)
        plain = Translator(Sources(), parsed, source, edits, analysis)
        differing = [
            language
            for language in (source, *targets)
            if analysis.of(language) is not first.of(language)
        ]
        queries += [
            (plain if language == source else again).into(language) for language in differing
        ]
    return [query for query in queries if query.terms], set(without)


def _translated_shares(
    queries: Sequence[TranslatedQuery], uncovered: Container[str]
) -> list[float]:
    """Return the factor for the scores of each language.

    A word that is only searched as typed counts less, unless no language has a translation: then it
    is a name or a number.
    """
    if not queries:
        return []
    translated = _translated_words(queries)
    return [
        sum(
            TYPED_SHARE
            if query.language != queries[0].language
            and (query.language in uncovered or term.source in translated)
            and all(each.origin == TYPED for each in term.all_alternatives())
            else 1.0
            for term in query.terms
        )
        / len(query.terms)
        for query in queries
    ]


def _has_untranslated_word(queries: Sequence[TranslatedQuery]) -> bool:
    """Return whether a word of the query has no translation, so it may be misspelled."""
    translated = _translated_words(queries[1:])
    return any(term.source not in translated for term in queries[0].terms) if queries else False


def _translated_words(queries: Sequence[TranslatedQuery]) -> set[str]:
    """Return the words of the original query that a table or an edit translates."""
    return {
        term.source
        for query in queries
        for term in query.terms
        if any(each.origin != TYPED for each in term.all_alternatives())
    }


def _holding(index: OpenIndex, parsed: ParsedQuery, languages: Sequence[str]) -> dict[str, float]:
    """Return the pages of each language with the query's words as written; stems count a tenth."""
    holding, counts = index.statistics.holding, dict[str, float]()
    for language in languages:
        pages = index.info.languages.get(language, 0)
        written = text_field(WRITTEN, language)
        counts[language] = 0.0
        for analyzer in index.analysis.all_of(language):
            name = text_field(BODY_ROLE, analyzer.field_set)
            held = [
                min(pages, holding(written, folded(unit.surface or " ".join(unit.phrase))))
                + STEM_EVIDENCE * min(pages, *(holding(name, term) for term in unit.phrase))
                for clause in clauses(parsed.required)
                for unit in analyzer.units(clause.text)
            ]
            counts[language] = max(counts[language], min(held, default=0.0))
    return counts
