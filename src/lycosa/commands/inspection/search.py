"""`search`: the results of the search engine as the model that is printed and served."""

from __future__ import annotations

from collections.abc import Callable

from lycosa.commands.models import (
    FacetCount,
    QueryTranslation,
    ResultNote,
    SearchAnswer,
    SearchHit,
    SnippetFragment,
    SpellingSuggestion,
    TranslationChoice,
    WordTranslations,
)
from lycosa.core.messages import Message
from lycosa.core.units import format_time
from lycosa.search.crosslingual.translated import TranslatedQuery
from lycosa.search.presentation.results import Hit, SearchResults

MAX_FACET_VALUES = 100


def search_answer(
    results: SearchResults, cached: Callable[[str, str], str] = lambda url, source: ""
) -> SearchAnswer:
    """Return search results as the model of the APIs and the command line.

    `cached`: the address of the stored copy of a page, by its URL and source.
    """
    other = results.did_you_mean
    return SearchAnswer(
        query=results.query,
        total=results.total,
        offset=results.offset,
        took_ms=round(results.took_ms, 3),
        generation=results.generation,
        notes=[*results.notes],
        remarks=[_remark(note) for note in results.notes],
        missing_shards=[*results.missing_shards],
        hits=[_hit(hit, cached(hit.url, hit.source)) for hit in results.hits],
        translations=[query_translation(query) for query in results.translations],
        did_you_mean=None if other is None else SpellingSuggestion(other.query, other.total),
        expansion=[*results.expansion],
        facets={
            name: [FacetCount(*pair) for pair in list(values.items())[:MAX_FACET_VALUES]]
            for name, values in results.facets.items()
        },
    )


def query_translation(query: TranslatedQuery) -> QueryTranslation:
    """Return a translated query with the weights of its words."""
    terms = []
    for term in query.terms:
        choices = [
            TranslationChoice(each.surface, round(each.weight, 3), each.origin)
            for each in term.alternatives
        ]
        terms.append(WordTranslations(term.source, choices))
    return QueryTranslation(query.language, terms)


def _remark(note: str) -> ResultNote:
    if not isinstance(note, Message):
        return ResultNote("", note, {})
    values = {
        name: value if isinstance(value, int) else str(value) for name, value in note.values.items()
    }
    return ResultNote(note.code, note, values)


def _hit(hit: Hit, cached: str) -> SearchHit:
    return SearchHit(
        url=hit.url,
        title=hit.title,
        snippet="".join(text for text, _ in hit.snippet),
        fragments=[SnippetFragment(*fragment) for fragment in hit.snippet],
        language=hit.language,
        host=hit.host,
        collection=hit.collection,
        fetched_at=format_time(hit.fetched_at),
        published_at=None if hit.published_at is None else format_time(hit.published_at),
        score=hit.score,
        type=hit.type,
        copies=hit.copies,
        from_host=hit.from_host,
        cached=cached,
        source=hit.source,
        explanation=hit.explanation,
    )
