"""From search results to the data of the page: pure functions. All texts are unescaped (the
templates escape them).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from urllib.parse import unquote_to_bytes, urlencode

from lycosa.commands.inspection.search import cached_copy
from lycosa.search.engine.searcher import Hit
from lycosa.search.query.query import MAX_QUERY_CHARACTERS
from lycosa.search.ranking.similar import similar_query
from lycosa.serve.web.i18n import direction, language_name, message, utc_time

PAGE_SIZE = 10
FACET_LABELS = {
    "language": message("Language"),
    "host": message("Site"),
    "collection": message("Collection"),
    "type": message("Type"),
    "date": message("Year"),
}
FACET_VALUES = 8
"""Values of a facet that are shown."""
PAGES_SHOWN = 9
"""Maximum page numbers under the results: as many as fit on one line of a phone."""

_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True)
class PageQuery:
    """Filters and options of a search, as in the query string of the page."""

    query: str
    language: str = ""
    site: str = ""
    collection: str = ""
    sort: str = ""  # date: the newest first
    across: str = ""  # further languages to search, separated by commas, or `all`
    source: str = ""  # the query's language, if given
    translate: tuple[
        str, ...
    ] = ()  # translations instead of the usual ones: `de:house=Haus|Gebäude`

    def address(self, *, page: int = 1, path: str = "/", **changes: str) -> str:
        """Return the search page's address with this search (or that of a feed of it), `changes`
        applied; empty values are left out.
        """
        values = {
            "q": self.query,
            "lang": self.language,
            "site": self.site,
            "collection": self.collection,
            "sort": self.sort,
            "across": self.across,
            "from": self.source,
        } | changes
        pairs = [(name, value) for name, value in values.items() if value]
        if values["across"]:
            pairs.extend(("translate", each) for each in self.translate)
        if page > 1:
            pairs.append(("page", str(page)))
        return f"{path}?{urlencode(pairs)}" if pairs else path


@dataclass(frozen=True)
class ResultView:
    """One result, ready for the template."""

    title: list[tuple[str, bool]]  # (text, is it a match)
    href: str | None  # None: not a web address, shown as text
    address: str
    host: str
    host_href: str
    snippet: list[tuple[str, bool]]
    language: str
    language_name: str
    direction: str
    date: str  # ISO 8601, for <time datetime>; empty: impossible date
    at_ms: int
    published: bool  # `at_ms` is the declared date of publication; else that of the fetch
    from_host: int  # pages of the host that were found
    copies: int  # omitted pages with the same text
    type: str  # "" for the usual one
    cached: str  # where a copy is shown; "": nowhere
    source: str  # "" for this workspace
    similar: str  # where pages like it are; "": the URL is too long for a query


@dataclass(frozen=True)
class PageLink:
    """A page number under the results."""

    number: int
    href: str
    current: bool


def web_href(url: str) -> str | None:
    """Return the URL if a link to it is safe.

    Http or https, never javascript:, data: etc.
    """
    return url if url.lower().startswith(("http://", "https://")) else None


def readable_url(url: str) -> str:
    """Return a URL for people: percent-encoded UTF-8 decoded where the characters are visible ones.

    Spaces, controls, bidirectional marks and other invisible characters stay encoded, so that it
    cannot be displayed as another address.
    """

    def decode(match: re.Match[str]) -> str:
        try:
            text = unquote_to_bytes(match[0]).decode("utf-8")
        except UnicodeDecodeError:
            return match[0]
        if not text.isprintable() or any(
            character.isspace() or character.isascii() for character in text
        ):
            return match[0]
        return text

    return _ESCAPES.sub(decode, url)


def iso_day(at_ms: int) -> str:
    """Return a day in UTC, `2026-03-03`; empty for a time outside of the calendar."""
    at = utc_time(at_ms)
    return "" if at is None else f"{at:%Y-%m-%d}"


def joined(pieces: Iterable[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Join neighbouring pieces that are both matches, or both not: 龙井 + 茶 becomes 龙井茶."""
    return [
        ("".join(text for text, _ in group), match)
        for match, group in itertools.groupby(pieces, key=itemgetter(1))
    ]


def result_view(hit: Hit, filters: PageQuery) -> ResultView:
    """Return a hit as displayed. A page without title has its address as title."""
    at_ms = hit.published_at if hit.published_at is not None else hit.fetched_at
    address, similar = readable_url(hit.url), similar_query(hit.url)
    return ResultView(
        title=joined(hit.marked_title or [(hit.title, False)])
        if hit.title.strip()
        else [(address, False)],
        href=web_href(hit.url),
        address=address,
        host=hit.host,
        host_href=filters.address(site=hit.host),
        snippet=joined(hit.snippet),
        language=hit.language,
        language_name=language_name(hit.language) if hit.language else "",
        direction=direction(hit.language),
        date=iso_day(at_ms),
        at_ms=at_ms,
        published=hit.published_at is not None,
        from_host=hit.from_host,
        copies=hit.copies,
        type="" if hit.type == "html" else hit.type,
        cached=cached_copy(hit),
        source=hit.source,
        similar=PageQuery(similar).address() if len(similar) <= MAX_QUERY_CHARACTERS else "",
    )


@dataclass(frozen=True)
class FacetView:
    """The values of a facet in the results, each with a link that restricts the search to it."""

    label: str
    values: list[tuple[str, int, str]]  # (text, pages, address)


def facet_views(facets: Mapping[str, Mapping[str, int]], filters: PageQuery) -> list[FacetView]:
    """Return the facets with more than one value."""
    views = []
    for name, label in FACET_LABELS.items():
        values = list(facets.get(name, {}).items())
        if name == "date":
            values = sorted(
                ((year, count) for year, count in values if year.isdigit()), reverse=True
            )
        if len(values) > 1:
            shown = [
                (_facet_text(name, value), count, _narrowed(name, value, filters))
                for value, count in values[:FACET_VALUES]
            ]
            views.append(FacetView(label, shown))
    return views


def _facet_text(name: str, value: str) -> str:
    return language_name(value) if name == "language" else value


def _narrowed(name: str, value: str, filters: PageQuery) -> str:
    if name == "language":
        return filters.address(lang=value)
    if name == "host":
        return filters.address(site=value)
    if name == "collection":
        return filters.address(collection=value)
    if name == "type":
        return filters.address(q=f"{filters.query} filetype:{value}")
    return filters.address(q=f"{filters.query} after:{value} before:{int(value) + 1}")


def page_links(total: int, page: int, filters: PageQuery, last_page: int) -> list[PageLink]:
    """Return the page numbers to link: a window around the current one; none for a single page."""
    pages = min(-(-total // PAGE_SIZE), last_page)
    if pages < 2:
        return []
    first = max(1, min(page - PAGES_SHOWN // 2, pages - PAGES_SHOWN + 1))
    numbers = range(first, min(first + PAGES_SHOWN, pages + 1))
    return [PageLink(number, filters.address(page=number), number == page) for number in numbers]
