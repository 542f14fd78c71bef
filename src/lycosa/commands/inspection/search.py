"""`search` in workspaces and peers, and the model of its results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lycosa.commands.search_models import (
    FacetCount,
    QueryTranslation,
    ResultNote,
    SearchAnswer,
    SearchHit,
    SnippetFragment,
    SpellingSuggestion,
    TranslationChoice,
    WordTranslations,
    cached_path,
)
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError
from lycosa.core.messages import Message
from lycosa.core.parameters import texts
from lycosa.core.units import format_time
from lycosa.index.generation import storage_of
from lycosa.search.crosslingual.translated import Across, TranslatedQuery, edit
from lycosa.search.engine.searcher import (
    WORKSPACE_FILE,
    NewestIndex,
    Searcher,
    SearchRequest,
)
from lycosa.search.presentation.results import FACETS, MAX_HITS, Hit, SearchResults
from lycosa.search.query import syntax
from lycosa.search.ranking.feedback import MODES

if TYPE_CHECKING:  # reading the configuration takes longer than most searches
    from lycosa.config.settings import Config
    from lycosa.store.storage.storage import Storage
    from lycosa.vectors.nearest import NearestChunks

MAX_FACET_VALUES = 100
DEFAULT_WORKSPACE = "lycosa-data"
_OTHERS = re.compile(rb"^[^#\n]*\b(?:peers|workspaces)\b", re.MULTILINE)


@dataclass(frozen=True)
class SearchSources:
    """Workspaces and peers to search. `local`: not those of the configuration."""

    roots: Sequence[str]
    peers: Sequence[str] = ()
    local: bool = False
    settings: Sequence[str] = ()

    def config(self, root: str | None) -> Config:
        """Return the settings of a workspace, or without one the defaults."""
        from lycosa.crawl.session.workspace_config import read_config

        return read_config(root, self.settings)

    @property
    def is_federated(self) -> bool:
        """Whether further workspaces or peers are searched."""
        if len(self.roots) > 1 or self.peers:
            return True
        if self.local:
            return False
        content = storage_of(self.roots[0]).read("lycosa.toml") or b""
        if not self.settings and _OTHERS.search(content) is None:
            return False
        search = self.config(self.roots[0]).search
        return bool(search.workspaces or search.peers)


def search_sources(
    request: SearchRequest, sources: SearchSources, own: NewestIndex
) -> SearchResults:
    """Search workspaces and peers. `own`: the first workspace.

    Raises:
        UsageError: the only workspace has no collection of the requested name.
        WorkspaceError: there is no workspace, or its index is damaged.
    """
    root, vectors = sources.roots[0], None
    if request.across is not None:
        vectors = open_vectors(storage_of(root), sources.config(root))
    if sources.is_federated:
        return _search_federated(request, sources, vectors)
    searcher = own if vectors is None else Searcher(root, vectors)
    results = searcher.search(request)
    if request.collection and not results.total:
        from lycosa.crawl.session.planning import require_collection
        from lycosa.store.workspace import Workspace

        require_collection(Workspace.open(root), sources.config(root), request.collection)
    return results


def _search_federated(
    request: SearchRequest, sources: SearchSources, vectors: NearestChunks | None
) -> SearchResults:
    from lycosa.search.federation.federated_search import open_federated_search

    root = sources.roots[0]
    only_peers = (
        sources.peers
        and list(sources.roots) == [DEFAULT_WORKSPACE]
        and storage_of(root).size(WORKSPACE_FILE) is None
    )
    roots = [] if only_peers else sources.roots
    config = sources.config(None if only_peers else root)
    if sources.local:
        alone = config.search.model_copy(update={"workspaces": (), "peers": ()})
        config = config.model_copy(update={"search": alone})
    with closing(
        open_federated_search(roots, sources.peers, config, vectors=vectors)
    ) as federation:
        return federation.search(request)


def open_vectors(storage: Storage, config: Config) -> NearestChunks | None:
    """Return the vectors of the configured encoder; None if there is none.

    The encoder is loaded on first use.
    """
    if not config.encoder.source:
        return None
    from lycosa.vectors.encoders import load_encoder
    from lycosa.vectors.nearest import NearestChunks

    return NearestChunks(storage, lambda: load_encoder(config))


def search_request(
    query: str,
    *,
    language: str = "",
    site: str = "",
    copies: bool = False,
    across: Sequence[str] | None = None,
    source_language: str = "",
    translate: Sequence[str] = (),
    **options: Any,
) -> SearchRequest:
    """Return a request. `options`: the other fields of `SearchRequest`.

    Raises:
        UsageError: an option is wrong.
    """
    if (options.get("count") or 0) > MAX_HITS:
        raise UsageError(f"count: {options['count']} is more than {MAX_HITS:,} results")
    if across is None and (source_language or translate):
        raise UsageError("--from and --translate need --across or --into")
    request = SearchRequest(
        query,
        language=language_filter(language) or None,
        host=site_filter(site),
        folded=not copies,
        across=None
        if across is None
        else across_languages(
            texts("across", across), source_language, texts("translate", translate)
        ),
        **{**options, "facets": known_facets(texts("facets", options.get("facets", ())))},
    )
    if request.order not in ("", "date", "relevance"):
        raise UsageError(f"--sort {request.order}: choose date or relevance")
    if request.feedback not in MODES:
        raise UsageError(f"--feedback {request.feedback}: choose {', '.join(MODES)}")
    return request


def known_facets(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of facets. Raises UsageError."""
    for name in names:
        if name not in FACETS:
            raise UsageError(f"unknown facet {name!r}; choose from {', '.join(FACETS)}")
    return tuple(names)


def language_filter(language: str) -> str:
    """Return the code of a language that a user names; "" without one. Raises UsageError."""
    if not language:
        return ""
    from lycosa.text.identify import require_language

    return require_language(language)


def site_filter(site: str) -> str | None:
    """Return the host of a typed site, with the path if it has one; None for "".

    Raises UsageError.
    """
    if not site:
        return None
    from lycosa.url.site_name import site_name  # loads Polars

    host, path = site_name(site).host, syntax.site(site).partition("/")[2]
    return f"{host}/{path}" if path else host


def across_languages(
    languages: Sequence[str], source: str = "", translations: Sequence[str] = ()
) -> Across:
    """Return the parameters of a search across languages; `()`: all of the index.

    Raises:
        UsageError: a language is unknown, or a translation does not have the form
            `de:house=Haus|Gebäude`.
    """
    edits = tuple(map(translation, translations))
    codes = (language_filter(code.strip()) for code in languages)
    return Across(tuple(code for code in codes if code), source.lower(), edits)


def translation(text: str) -> tuple[str, str, tuple[str, ...]]:
    """Return language, word and translations of `de:house=Haus|Gebäude`. Raises UsageError."""
    parsed = edit(text)
    if parsed is None:
        raise UsageError(
            f"the translation {text!r} does not have the form XX:WORD=A|B, for example "
            "de:house=Haus|Gebäude"
        )
    return parsed


def search_answer(results: SearchResults) -> SearchAnswer:
    """Return search results as the model of the APIs and the command line."""
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
        hits=[_hit(hit) for hit in results.hits],
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


def cached_copy(hit: Hit) -> str:
    """Return the path of the newest copy of a page, or its URL on a peer.

    Empty for the pages of other local workspaces.
    """
    if hit.source and not hit.source.startswith(("http://", "https://")):
        return ""
    return hit.source + cached_path(hit.url)


def _hit(hit: Hit) -> SearchHit:
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
        cached=cached_copy(hit),
        source=hit.source,
        explanation=hit.explanation,
    )
