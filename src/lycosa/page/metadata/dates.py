"""Publication and modification dates of a page, checked against the time of the fetch."""

from __future__ import annotations

from collections.abc import Iterator

from lycosa.page.dates import parse_date
from lycosa.page.metadata.entities import Subject
from lycosa.page.metadata.linked_data import texts_of, value_of
from lycosa.page.metadata.visible import date_in_url, visible_dates
from lycosa.page.page_parts import PageParts

CLOCK_TOLERANCE_MS = 86_400_000
"""A date may be this much later than the fetch, since its zone may be missing."""

_PUBLISHED_METAS = (
    "article:published_time",
    "og:published_time",
    "datepublished",
    "citation_publication_date",
    "dc.date.issued",
    "dcterms.issued",
    "dc.date",
    "dcterms.date",
    "dc.date.created",
    "dcterms.created",
    "parsely-pub-date",
    "sailthru.date",
    "pubdate",
    "publishdate",
    "publish-date",
    "publication_date",
    "date",
    "http-equiv:date",
)
_MODIFIED_METAS = (
    "article:modified_time",
    "og:updated_time",
    "datemodified",
    "dcterms.modified",
    "dc.date.modified",
    "last-modified",
    "lastmod",
    "modified",
    "http-equiv:last-modified",
)


def published_at(
    parts: PageParts, subject: Subject, url: str, fetched_at: int | None, headline: str | None
) -> int | None:
    """Return the publication date in ms since 1970 UTC, the most explicit source first.

    Args:
        fetched_at: no date is later; None: unknown.
        headline: a date is also looked for in the URL and near it; None: it is not.
    """
    declared = _first_date(_published(parts, subject), parts, fetched_at)
    if declared is not None or headline is None:
        return declared
    return _first_date(_shown(parts, url, headline), parts, fetched_at)


def modified_at(parts: PageParts, subject: Subject, fetched_at: int | None) -> int | None:
    """Return the date of the last modification in ms since 1970 UTC."""
    return _first_date(_modified(parts, subject), parts, fetched_at)


def _first_date(candidates: Iterator[str], parts: PageParts, fetched_at: int | None) -> int | None:
    for candidate in candidates:
        moment = parse_date(candidate, parts.language)
        if moment is None:
            continue
        if fetched_at is None or moment <= fetched_at:
            return moment
        if moment <= fetched_at + CLOCK_TOLERANCE_MS:
            return fetched_at
    return None


def _published(parts: PageParts, subject: Subject) -> Iterator[str]:
    meta = parts.meta
    yield from texts_of(value_of(subject.main, "datePublished", "dateCreated", "uploadDate"))
    if "article:published_time" in meta:
        yield meta["article:published_time"]
    yield from texts_of(value_of(subject.page, "datePublished", "dateCreated"))
    for name in _PUBLISHED_METAS[1:]:
        if name in meta:
            yield meta[name]
    yield from (time.written for time in parts.times if time.of_publication)


def _shown(parts: PageParts, url: str, headline: str) -> Iterator[str]:
    yield date_in_url(url)
    yield from [time.written for time in parts.times if time.of_page][:1]
    yield from visible_dates(parts, headline)


def _modified(parts: PageParts, subject: Subject) -> Iterator[str]:
    yield from texts_of(value_of(subject.main, "dateModified"))
    yield from texts_of(value_of(subject.page, "dateModified"))
    for name in _MODIFIED_METAS:
        if name in parts.meta:
            yield parts.meta[name]
