"""The library as pages and as JSON (`/api/v1/library`): languages and collections, their stored
data and days, the pages and files of a day, the record of one page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field, fields, replace
from datetime import date, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from lycosa.commands.models import CollectionHoldings, GroupTable
from lycosa.commands.page_models import PageRecord
from lycosa.core.dataclass import dataclass, doc, with_list_part
from lycosa.export.library.formats import FORMATS
from lycosa.serve.library.library import (
    COLLECTION,
    LANGUAGE,
    MAX_LINKS,
    Library,
    LibraryFile,
    page_record,
)
from lycosa.serve.services import WRITER, ServicesDep, WriterForm
from lycosa.serve.web.i18n import Interface
from lycosa.serve.web.problems import ERRORS, NOT_FOUND, WRITE_ERRORS, error_responses
from lycosa.serve.web.rendering import with_query
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.url.normalise import MAX_URL_LENGTH

MAX_ENTRIES = 1_000  # entries of a list in one response
PAGES_SHOWN = 100
SITES_SHOWN = 100
_DAYS_DRAWN = 60
_MAX_SERVERS = 20
_MAX_TYPES = 100  # servers may claim any number
_BUSY = error_responses({409: "Another export is running"})

Language = Annotated[
    str, Query(alias="lang", pattern=LANGUAGE, description="ISO 639 code; `und`: unknown.")
]
AnyLanguage = Annotated[
    str, Query(alias="lang", pattern=f"^$|{LANGUAGE}", description="Only this language.")
]
OfCollection = Annotated[str, Query(pattern=COLLECTION, description="Only this collection.")]
Offset = Annotated[int, Query(ge=0, le=100_000_000, description="Number of entries to skip.")]
Count = Annotated[int, Query(ge=1, le=MAX_ENTRIES, description="Maximum number of entries.")]
Day = Annotated[date, Query(description="UTC, ISO 8601.")]


@dataclass(frozen=True)
class DayLine:
    """One day of one language: new or changed pages, and their hosts."""

    language: str
    day: date
    documents: int
    hosts: int


@dataclass(frozen=True)
class LibraryCollection(CollectionHoldings):
    """Stored data of a collection, and the days of its library."""

    documents: int = field(metadata=doc("Number of documents in the XML library, over all days."))
    days: list[DayLine] = field(
        metadata=doc(f"The {MAX_ENTRIES:,} newest; `/api/v1/library/days` lists all.")
    )


@dataclass(frozen=True)
class DocumentLine:
    """One page on a day."""

    url: str
    collection: str
    title: str
    headline: str
    charset: str
    fetched_at: datetime
    live: bool = field(metadata=doc("Whether the page still has this text."))


@dataclass(frozen=True)
class Documents:
    """Pages of a day, in the order of its files."""

    total: int
    documents: list[DocumentLine]


class FilesRequest(JsonBody):
    """Files of a day to create."""

    lang: str = Field(pattern=LANGUAGE, description="ISO 639 code; `und`: unknown.")
    day: date = Field(description="UTC, ISO 8601.")
    kind: Literal["jsonl", "parquet", "text", "xml"] = Field("xml", description="Format.")


@dataclass(frozen=True)
class LinkLine:
    """A link of a page, or to it."""

    url: str
    anchor: str
    kind: str


@dataclass(frozen=True)
class LibraryPage(PageRecord):
    """The record of a page with its links."""

    language_score: float
    other_languages: list[str]
    declared_language: str
    language_share: float
    redirect_from: str | None
    may_index: bool
    may_follow: bool
    size: int = field(metadata=doc("Decoded size in bytes."))
    faults: list[str]
    record_id: str = field(metadata=doc("ID of the WARC record of the page."))
    link_count: int
    links: list[LinkLine] = field(metadata=doc(f"The first {MAX_LINKS}."))
    linked_from_count: int
    linked_from: list[LinkLine] = field(metadata=doc(f"The first {MAX_LINKS}."))


_COLUMNS = {each.name for each in fields(LibraryPage)}
router = APIRouter()
errors = {**ERRORS, **NOT_FOUND}


@router.get("/api/v1/library", responses=ERRORS, tags=["library"])
def table(
    services: ServicesDep,
    by: Annotated[
        Literal["language", "collection", "type"], Query(description="What to group by.")
    ] = "language",
    sites: Annotated[bool, Query(description="Also list the hosts of each group.")] = False,
    offset: Offset = 0,
    n: Count = MAX_ENTRIES,
) -> GroupTable:
    """Return pages, sites, sizes and days by language, collection or type. `offset` and `n`
    select the entries of each list.
    """
    table = services.library.groups(by, sites=sites)
    if not sites:
        table = replace(table, sites=[], totals={**table.totals, "sites": 0})
    return with_list_part(table, offset, n)


@router.get("/api/v1/library/collections/{name}", responses=errors, tags=["library"])
def holdings(
    services: ServicesDep,
    name: Annotated[str, Path(pattern=COLLECTION, description="Name of the collection.")],
) -> LibraryCollection:
    """Return the stored data of a collection: captures, queued URLs, links, and the days of its
    library.
    """
    if not any(row.name == name for row in services.library.groups("collection").rows):
        raise HTTPException(404, "The library has no documents of this collection")
    days = _library_days(services.library, "", name)
    documents = sum(each.documents for each in days)
    holdings = vars(services.library.holdings(name))
    return LibraryCollection(**holdings, documents=documents, days=days[:MAX_ENTRIES])


@router.get("/api/v1/library/days", responses=ERRORS, tags=["library"])
def days(
    services: ServicesDep,
    language: AnyLanguage = "",
    collection: OfCollection = "",
    offset: Offset = 0,
    n: Count = MAX_ENTRIES,
) -> list[DayLine]:
    """List the days of the library, newest first."""
    return _library_days(services.library, language, collection)[offset : offset + n]


@router.get("/api/v1/library/documents", responses=ERRORS, tags=["library"])
def documents(
    services: ServicesDep,
    language: Language,
    day: Day,
    collection: OfCollection = "",
    offset: Offset = 0,
    n: Count = 100,
) -> Documents:
    """List the pages of a day."""
    rows = services.library.documents(language, day, collection)
    shown = rows.slice(offset, n).select(
        "url", "collection", "title", "headline", "charset", "live", fetched_at="at"
    )
    return Documents(rows.height, [DocumentLine(**row) for row in shown.to_dicts()])


@router.get("/api/v1/library/files", responses=ERRORS, tags=["library"])
def files(services: ServicesDep, language: Language, day: Day) -> list[LibraryFile]:
    """List the files of a day, created here or by `lycosa export`."""
    return services.library.files(language, day)


@router.post(
    "/api/v1/library/files",
    responses={**errors, **WRITE_ERRORS, **_BUSY},
    dependencies=[WRITER],
    tags=["library"],
)
def make(services: ServicesDep, request: FilesRequest) -> list[LibraryFile]:
    """Create the files of a day, if they do not exist."""
    if not services.library.make(request.lang, request.day, request.kind):
        raise HTTPException(409, "Another export is running: try again later.")
    files = services.library.files(request.lang, request.day)
    return [file for file in files if file.kind == request.kind]


@router.get(
    "/api/v1/library/file",
    responses={
        **errors,
        200: {"content": {"application/octet-stream": {}}, "description": "It"},
    },
    response_class=FileResponse,
    tags=["library"],
)
def file(
    services: ServicesDep,
    language: Language,
    day: Day,
    kind: Annotated[str, Query(max_length=16, description="Format, as listed by `files`.")],
    name: Annotated[str, Query(max_length=64, description="File name, as listed by `files`.")],
) -> FileResponse:
    """Download a file of a day."""
    path = services.library.path(language, day, kind, name)
    if path is None:
        raise HTTPException(404, "Unknown file")
    return FileResponse(path, media_type="application/octet-stream", filename=name)


@router.get("/api/v1/library/page", responses=errors, tags=["library"])
def page(
    services: ServicesDep,
    url: Annotated[
        str, Query(min_length=1, max_length=MAX_URL_LENGTH, description="URL of the page.")
    ],
) -> LibraryPage:
    """Return the record of a page: metadata, main text, links, and links to it."""
    record = page_record(services.root, url)
    if record is None:
        raise HTTPException(404, "Unknown page")
    return LibraryPage(
        **{name: value for name, value in record.row.items() if name in _COLUMNS},
        link_count=record.out,
        links=[LinkLine(each["target"], each["anchor"], each["kind"]) for each in record.out_links],
        linked_from_count=record.into,
        linked_from=[
            LinkLine(each["source"], each["anchor"], each["kind"]) for each in record.in_links
        ],
    )


def _library_days(library: Library, language: str, collection: str) -> list[DayLine]:
    counts = library.days(language, collection).items()
    return [DayLine(key.language, key.day, each.documents, each.hosts) for key, each in counts]


@router.get("/library", response_class=HTMLResponse, include_in_schema=False)
def library_page(services: ServicesDep, request: Request) -> HTMLResponse:
    hosts, types = services.library.hosts(), services.library.groups("type")
    return services.pages.page(
        request,
        "library.html",
        groups=services.library.groups("language"),
        collections=services.library.groups("collection"),
        types=replace(types, rows=types.rows[:_MAX_TYPES]),
        hosts=hosts,
        new_hosts=_by_day(hosts.new_by_day.items(), services.pages.words(request)),
        servers=list(hosts.servers.items())[:_MAX_SERVERS],
    )


@router.get("/library/days", response_class=HTMLResponse, include_in_schema=False)
def days_page(services: ServicesDep, request: Request, language: Language) -> HTMLResponse:
    counts = services.library.days(language)
    if not counts:
        raise HTTPException(404, "The library has no documents in this language")
    sites = [site for site in services.library.groups("language").sites if site.name == language]
    return services.pages.page(
        request,
        "library_days.html",
        language=language,
        days=[(key.day, each) for key, each in counts.items()],
        columns=_by_day(
            ((key.day.isoformat(), each.documents) for key, each in counts.items()),
            services.pages.words(request),
        ),
        group=next(
            (row for row in services.library.groups("language").rows if row.name == language), None
        ),
        sites=sites[:SITES_SHOWN],
        site_count=len(sites),
    )


@router.get("/library/collection", response_class=HTMLResponse, include_in_schema=False)
def collection_page(
    services: ServicesDep,
    request: Request,
    name: Annotated[str, Query(pattern=COLLECTION, min_length=1)],
) -> HTMLResponse:
    group = next(
        (row for row in services.library.groups("collection").rows if row.name == name), None
    )
    counts = services.library.days(collection=name)
    if group is None:
        raise HTTPException(404, "The library has no documents of this collection")
    return services.pages.page(
        request,
        "library_collection.html",
        name=name,
        group=group,
        holdings=services.library.holdings(name),
        days=list(counts.items()),
        documents=sum(each.documents for each in counts.values()),
        columns=_by_day(
            ((key.day.isoformat(), each.documents) for key, each in counts.items()),
            services.pages.words(request),
        ),
    )


@router.get("/library/day", response_class=HTMLResponse, include_in_schema=False)
def day_page(
    services: ServicesDep,
    request: Request,
    language: Language,
    day: date,
    collection: OfCollection = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    failed: bool = False,
) -> HTMLResponse:
    rows = services.library.documents(language, day, collection)
    return services.pages.page(
        request,
        "library_day.html",
        language=language,
        day=day.isoformat(),
        collection=collection,
        total=rows.height,
        documents=rows.slice((page - 1) * PAGES_SHOWN, PAGES_SHOWN).to_dicts(),
        page=page,
        a_page=PAGES_SHOWN,
        files=services.library.files(language, day),
        kinds=sorted(FORMATS),
        failed=failed,
    )


@router.post("/library/day", include_in_schema=False)
def make_files(services: ServicesDep, fields: WriterForm) -> Response:
    language, kind = fields.get("lang", ""), fields.get("kind", "")
    try:
        day = date.fromisoformat(fields.get("day", ""))
    except ValueError:
        raise HTTPException(400, "Invalid date") from None
    if not re.fullmatch(LANGUAGE, language) or kind not in FORMATS:
        raise HTTPException(400, "Unknown language or format")
    made = services.library.make(language, day, kind)
    return RedirectResponse(
        with_query("/library/day", lang=language, day=day, failed="" if made else 1), 303
    )


router.add_api_route("/library/file", file, response_class=FileResponse, include_in_schema=False)


@router.get("/library/page", response_class=HTMLResponse, include_in_schema=False)
def record_page(
    services: ServicesDep,
    request: Request,
    url: Annotated[str, Query(min_length=1, max_length=MAX_URL_LENGTH)],
) -> HTMLResponse:
    record = page_record(services.root, url)
    if record is None:
        raise HTTPException(404, "Unknown page")
    return services.pages.page(
        request, "library_page.html", record=record, row=record.row, most=MAX_LINKS
    )


def _by_day(counted: Iterable[tuple[str, int]], words: Interface) -> list[tuple[str, int, int]]:
    """Return the columns of the chart: the last days with pages, oldest first."""
    days: dict[str, int] = {}
    for day, number in counted:
        days[day] = days.get(day, 0) + number
    return [
        (f"{day}: {words.number(number)}", number, 0)
        for day, number in sorted(days.items())[-_DAYS_DRAWN:]
    ]
