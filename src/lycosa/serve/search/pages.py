"""The search page, rendered as a whole, so that it works without script.

The fields of the advanced form become a query in the query language, which the form shows.

The translations of a search in several languages can be edited. For each language and word the form
has a field `w.LANGUAGE.WORD` with the alternatives, separated by `|`, and a hidden field
`o.LANGUAGE.WORD` with their previous value. Edits become parameters `translate=LANGUAGE:WORD=…` of
the address, so that the edited search is a permalink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lycosa.commands.inspection.search import across_languages, language_filter, site_filter
from lycosa.core.errors import UsageError
from lycosa.search.crosslingual.translated import TranslatedQuery, edit
from lycosa.search.engine.searcher import MAX_HITS, SearchRequest
from lycosa.search.query.query import MAX_QUERY_CHARACTERS
from lycosa.serve.search.api import ResultFilters, named_languages
from lycosa.serve.search.views import (
    FACET_LABELS,
    PAGE_SIZE,
    PageQuery,
    facet_views,
    page_links,
    result_view,
)
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.i18n import language_name

MAX_EDITS = 300
LAST_PAGE = MAX_HITS // PAGE_SIZE

ADVANCED = (
    *(
        "all",
        "phrase",
        "any",
        "none",
        "title",
        "address",
        "anchor",
        "site",
        "lang",
        "type",
        "after",
        "before",
    ),
    *("sort", "in", "across"),
)
"""The form's fields. The last three are no part of the query: order, collection, further languages
to search.
"""
_OPERATORS = {
    "title": "intitle:",
    "address": "inurl:",
    "anchor": "inanchor:",
    "type": "filetype:",
    "after": "after:",
    "before": "before:",
}
FIELD, BEFORE = "w.", "o."
MAX_SHOWN = 6
"""Alternatives of a word that are shown, highest weight first. All are searched until edited."""
_MAX_EDIT_LENGTH = 256


class PageParameters(ResultFilters):
    """The address of the search page. What is invalid is shown in it with the reason."""

    lang: str = Field("", max_length=16)
    site: str = Field("", max_length=255)
    q: str = ""
    page: int = Field(1, ge=1, le=LAST_PAGE)
    across: str = Field("", max_length=255)
    source_language: str = Field("", alias="from", max_length=3)
    translate: list[str] = Field([], max_length=MAX_EDITS)

    def filters(self) -> PageQuery:
        """Return the query and its filters without surrounding spaces."""
        return PageQuery(
            self.q.strip(),
            self.lang.strip(),
            self.site.strip(),
            self.collection.strip(),
            self.sort,
            self.across.strip(),
            self.source_language.strip(),
            tuple(self.translate),
        )


router = APIRouter(include_in_schema=False)


@router.get("/", response_class=HTMLResponse)
def search_page(
    services: ServicesDep, request: Request, parameters: Annotated[PageParameters, Query()]
) -> Response:
    filters = parameters.filters()
    page = parameters.page
    changed = edited_translations(request.query_params, filters.translate)
    if changed is not None:
        return RedirectResponse(replace(filters, translate=changed).address(), 303)
    number = services.pages.words(request).number
    languages = languages_offered(services.source.languages(), filters.language, number)
    try:
        language, host = language_filter(filters.language), site_filter(filters.site)
        across = across_languages(
            named_languages(filters.across), filters.source, filters.translate
        )
    except UsageError as error:
        return services.pages.page(
            request, "start.html", 422, filters=filters, languages=languages, problem=str(error)
        )
    if not filters.query:
        return services.pages.page(request, "start.html", filters=filters, languages=languages)
    search = SearchRequest(
        filters.query,
        count=PAGE_SIZE,
        offset=(page - 1) * PAGE_SIZE,
        language=language or None,
        collection=filters.collection or None,
        host=host,
        order=filters.sort,
        facets=tuple(FACET_LABELS),
        across=across if filters.across else None,
    )
    results = services.search(search)
    return services.pages.page(
        request,
        "results.html",
        filters=filters,
        languages=languages,
        results=results,
        facets=facet_views(results.facets, filters),
        views=[result_view(hit, filters) for hit in results.hits],
        page=page,
        pages=page_links(results.total, page, filters, LAST_PAGE),
        last_page=min(-(-results.total // PAGE_SIZE), LAST_PAGE),
        own=results.translations[0].language if results.translations else "",
        translations=translation_forms(
            results.translations,
            results.translations[0].language if results.translations else "",
        ),
    )


@router.get("/favicon.ico")
def icon() -> Response:
    """Return the icon that browsers request for documents without a link to one: feeds, pictures,
    copies.
    """
    return RedirectResponse("/static/icon.svg", 308)


@router.get("/advanced", response_class=HTMLResponse)
def advanced(services: ServicesDep, request: Request) -> Response:
    fields = {
        name: request.query_params.get(name, "").strip()[:MAX_QUERY_CHARACTERS] for name in ADVANCED
    }
    if request.query_params.get("go"):
        filters = PageQuery(
            built_query(fields)[:MAX_QUERY_CHARACTERS],
            sort=fields["sort"],
            collection=fields["in"],
            across=fields["across"],
        )
        return RedirectResponse(filters.address(), 303)
    return services.pages.page(
        request,
        "advanced.html",
        fields=fields,
        built=built_query(fields),
        languages=languages_offered(
            services.source.languages(), "", services.pages.words(request).number
        ),
    )


def languages_offered(
    counts: Mapping[str, int], chosen: str, number: Callable[[int], str] = "{:,}".format
) -> list[tuple[str, str]]:
    """Return the choices of the language filter as (code, label): those of the index, largest
    first, and the chosen one. `number` writes the counts.
    """
    ordered = sorted((code for code in counts if code), key=lambda code: (-counts[code], code))
    if chosen and chosen not in counts:
        ordered.append(chosen)
    return [
        (
            code,
            f"{language_name(code)} ({number(counts[code])})"
            if code in counts
            else language_name(code),
        )
        for code in ordered
    ]


def built_query(fields: Mapping[str, str]) -> str:
    """Return the query of the advanced form's fields. `any` and `none` are words separated by
    spaces, `site` may be several.
    """
    values = {name: " ".join(text.split()) for name, text in fields.items()}
    phrase = values.get("phrase", "").replace('"', " ")
    parts = [
        values.get("all", ""),
        f'"{phrase}"' if phrase else "",
        " OR ".join(values.get("any", "").split()),
        *(f"-{word.lstrip('-')}" for word in values.get("none", "").split() if word.lstrip("-")),
        *(
            f"{operator}{_value(values[name])}"
            for name, operator in _OPERATORS.items()
            if values.get(name)
        ),
        *(f"site:{site}" for site in values.get("site", "").split()),
        f"lang:{values['lang']}" if values.get("lang") else "",
    ]
    return " ".join(filter(None, parts))


def _value(text: str) -> str:
    return '"' + text.replace('"', " ") + '"' if " " in text else text


@dataclass(slots=True, frozen=True)
class Word:
    """A word of the query: the names of its two fields and its alternatives."""

    source: str
    field: str
    before: str
    alternatives: str


@dataclass(slots=True, frozen=True)
class TranslatedForm:
    """The translations of a query into one language."""

    language: str
    words: list[Word]


def translation_forms(queries: Iterable[TranslatedQuery], own: str) -> list[TranslatedForm]:
    """Return the translations that may be edited: not those into the `own` language."""
    forms = []
    for query in queries:
        if query.language == own:
            continue
        words = [
            Word(
                term.source,
                f"{FIELD}{query.language}.{term.source}",
                f"{BEFORE}{query.language}.{term.source}",
                "|".join(each.surface for each in term.alternatives[:MAX_SHOWN]),
            )
            for term in query.terms
        ]
        forms.append(TranslatedForm(query.language, words))
    return forms


def edited_translations(fields: Mapping[str, str], before: Iterable[str]) -> tuple[str, ...] | None:
    """Return the edits `before` updated by the fields of the form; None without form fields."""
    changed: dict[str, str] = {}
    for text in before:
        parsed = edit(text)
        if parsed is not None:
            changed[f"{parsed[0]}.{parsed[1]}"] = text
    sent = False
    for name, value in fields.items():
        key = name.removeprefix(FIELD)
        language, dot, word = key.partition(".")
        if key == name or not dot:
            continue
        sent = True
        text = f"{language}:{word}={value}"[:_MAX_EDIT_LENGTH]
        if (
            value != fields.get(f"{BEFORE}{key}", "")
            and edit(text) is not None
            and len(changed) < MAX_EDITS
        ):
            changed[f"{language.lower()}.{word.strip().lower()}"] = text
    return tuple(changed.values()) if sent else None
