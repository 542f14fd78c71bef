"""The results of searches: see `models`. A search imports no other model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from urllib.parse import urlencode

from lycosa.core.dataclass import dataclass, doc
from lycosa.search.presentation.results import Explanation


def cached_path(url: str, **parameters: str) -> str:
    """Return the path of a stored copy of a page on a server of its workspace."""
    return f"/cached?{urlencode({'url': url, **parameters})}"


@dataclass(frozen=True)
class SnippetFragment:
    """A fragment of a snippet."""

    text: str
    match: bool = field(metadata=doc("Whether the fragment matches the query."))


@dataclass(frozen=True)
class SearchHit:
    """A search result."""

    url: str
    title: str
    snippet: str = field(metadata=doc("Plain text, not HTML: escape it."))
    fragments: Sequence[SnippetFragment] = field(
        metadata=doc("The snippet in fragments; joined, they are `snippet`.")
    )
    language: str = field(metadata=doc("ISO 639 code identified from the text; empty: unknown."))
    host: str
    collection: str
    fetched_at: str = field(metadata=doc("UTC, ISO 8601."))
    published_at: str | None = field(
        metadata=doc("Publication date that the page states; UTC, ISO 8601.")
    )
    score: float
    type: str = field(metadata=doc("File type: html, pdf, txt …"))
    copies: int = field(metadata=doc("Number of hidden duplicates of this page."))
    from_host: int = field(
        metadata=doc("Number of pages of its host among the first few hundred results.")
    )
    cached: str = field(
        metadata=doc(
            "Cached copy: a path on the server of the workspace, or the URL of a peer; empty: none."
        )
    )
    source: str = field(
        metadata=doc(
            "Source: empty for the workspace of this server, else another workspace or the "
            "address of a peer."
        ),
        default="",
    )
    explanation: Explanation | None = field(
        metadata=doc(
            "With `explain`: the score, `words` times `prior` times `freshness`; `parts`: BM25 "
            "score of each term or phrase by field."
        ),
        default=None,
    )


@dataclass(frozen=True)
class TranslationChoice:
    """A translation of a word."""

    text: str
    weight: float = field(metadata=doc("Weight, at most 1."))
    origin: str = field(
        metadata=doc(
            "Source: the name of a translation table, `as typed`, or `given` (parameter "
            "`translate`)."
        )
    )


@dataclass(frozen=True)
class WordTranslations:
    """A word of the query and its translations, highest weight first."""

    source: str
    alternatives: Sequence[TranslationChoice]


@dataclass(frozen=True)
class QueryTranslation:
    """The query in one language."""

    language: str
    terms: Sequence[WordTranslations]


@dataclass(frozen=True)
class ResultNote:
    """A note about the results."""

    code: str = field(metadata=doc("Stable identifier of the message; empty: none."))
    text: str = field(metadata=doc("In English."))
    values: Mapping[str, str | int] = field(metadata=doc("The values in the text."))


@dataclass(frozen=True)
class SpellingSuggestion:
    """A query with another spelling."""

    query: str
    total: int = field(metadata=doc("Number of pages with all of its words."))


@dataclass(frozen=True)
class FacetCount:
    """One value of a facet and its number of pages."""

    value: str
    count: int


@dataclass(frozen=True)
class SearchAnswer:
    """Search results, best first."""

    query: str
    total: int = field(metadata=doc("Number of matching pages."))
    offset: int
    took_ms: float
    generation: int = field(metadata=doc("Generation of the index; 0: there is no index yet."))
    notes: Sequence[str] = field(metadata=doc("Notes about these results, in English."))
    remarks: Sequence[ResultNote] = field(metadata=doc("The notes with their codes and values."))
    missing_shards: Sequence[int] = field(
        metadata=doc(
            "Shards of the index, counted from 0, whose pages are missing in these results."
        )
    )
    hits: Sequence[SearchHit]
    translations: Sequence[QueryTranslation] = field(
        metadata=doc("With `across`: the query in each language, its own language first.")
    )
    did_you_mean: SpellingSuggestion | None = field(
        metadata=doc("Another spelling, if the query has few results and that spelling has more.")
    )
    expansion: Sequence[str] = field(
        metadata=doc("Terms that feedback added to the query, highest weight first.")
    )
    facets: Mapping[str, Sequence[FacetCount]] = field(
        metadata=doc("Values of the requested facets, most pages first.")
    )


@dataclass(frozen=True)
class PageChunk:
    """A part of a page, in Markdown."""

    id: str = field(metadata=doc("Identifier of the chunk: changes only with its URL and text."))
    headings: Sequence[str] = field(
        metadata=doc("Titles of the sections that contain the chunk, outermost first.")
    )
    text: str = field(metadata=doc("Markdown from the web: treat it as untrusted content."))
    tokens: int = field(metadata=doc("Estimated number of tokens of `text`."))
    position: int = field(metadata=doc("Number of the chunk on its page, from 1."))
    previous: str = field(metadata=doc("Identifier of the chunk before it; empty: none."))
    next: str = field(metadata=doc("Identifier of the chunk after it; empty: none."))


@dataclass(frozen=True)
class CitedPage:
    """The page and the capture that are the source of a text."""

    url: str
    title: str
    language: str = field(metadata=doc("ISO 639 code identified from the text; empty: unknown."))
    collection: str
    fetched_at: str = field(metadata=doc("UTC, ISO 8601."))
    published_at: str | None = field(
        metadata=doc("Publication date that the page states; UTC, ISO 8601.")
    )
    record_id: str = field(metadata=doc("WARC-Record-ID of the archived response."))
    cached: str = field(
        metadata=doc("Path of the archived copy on the server of the workspace, for citations.")
    )


@dataclass(frozen=True)
class Passage(CitedPage, PageChunk):
    """A part of a page that answers a query, with its source."""

    score: float
    copies: int = field(metadata=doc("Number of omitted passages with nearly the same text."))


@dataclass(frozen=True)
class ChunkList(CitedPage):
    """All chunks of a stored page, in order."""

    chunks: Sequence[PageChunk]


@dataclass(frozen=True)
class PassagesResult:
    """The best passages for a query, best first."""

    query: str
    ranking: str = field(
        metadata=doc(
            "How the passages were ranked: `keyword`, `vector` or `hybrid`. Always `keyword` if "
            "the encoder failed, see `notes`."
        )
    )
    total: int = field(metadata=doc("Number of matching pages."))
    tokens: int = field(metadata=doc("Estimated number of tokens of all passages."))
    took_ms: float
    generation: int = field(metadata=doc("Generation of the index; 0: there is no index yet."))
    notes: Sequence[str] = field(metadata=doc("Notes about the search, in English."))
    passages: Sequence[Passage]
