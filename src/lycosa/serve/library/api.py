"""The library as JSON under /api/v1/library: what the pages show, from the tables down to one
page's record, and the files of a day.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import date, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

from lycosa.captures.page_record import MAX_LINKS, page_record
from lycosa.serve.library.library import COLLECTION, LANGUAGE, Library
from lycosa.serve.services import WRITER, ServicesDep
from lycosa.serve.web.problems import ERRORS, NOT_FOUND, WRITE_ERRORS, error_responses
from lycosa.serve.web.rendering import with_query
from lycosa.url.normalise import MAX_URL_LENGTH

MAX_ENTRIES = 1_000  # of a list in one answer
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


class GroupLine(BaseModel):
    """One language, collection or type. Averages are over the days from the first to the last
    fetch.
    """

    name: str
    pages: int
    sites: int
    bytes: int = Field(description="Decoded size of the live pages.")
    first: datetime | None
    newest: datetime | None
    days: int
    fetched: int
    fetched_bytes: int
    pages_a_day: float
    bytes_a_day: float


class SiteLine(BaseModel):
    """One host of a group."""

    name: str = Field(description="Name of the group.")
    host: str
    pages: int
    bytes: int
    newest: datetime


class LibraryTable(BaseModel):
    """A table of the library, as `lycosa status --by` prints it; most pages first."""

    by: str
    rows: list[GroupLine]
    total: GroupLine
    sites: list[SiteLine] = Field(description="Hosts of the group (with parameter `sites`).")
    totals: dict[str, int] = Field(description="Length of each list.")


class HostStatistics(BaseModel):
    """Numbers of hosts."""

    total: int
    found: dict[date, int] = Field(description="Number of new hosts by day.")
    servers: dict[str, int] = Field(description="Number of hosts by server software.")


class DayLine(BaseModel):
    """One day of one language: new or changed pages, and their hosts."""

    language: str
    day: date
    documents: int
    hosts: int


class HoldingsAnswer(BaseModel):
    """Stored data of a collection."""

    name: str
    captures: int = Field(description="Number of captures in the archive.")
    archived_bytes: int = Field(description="Compressed size of these captures.")
    waiting: int = Field(description="Number of queued URLs.")
    pages: int
    links: int = Field(description="Number of links in its live pages.")
    documents: int = Field(description="Number of documents in the XML library, over all days.")
    days: list[DayLine] = Field(
        description=f"The {MAX_ENTRIES:,} newest; `/api/v1/library/days` lists all."
    )


class DocumentLine(BaseModel):
    """One page on a day."""

    url: str
    collection: str
    title: str
    headline: str
    charset: str
    fetched_at: datetime
    live: bool = Field(description="Whether the page still has this text.")


class Documents(BaseModel):
    """Pages of a day, in the order of its files."""

    total: int
    documents: list[DocumentLine]


class FileLine(BaseModel):
    """A file to download."""

    kind: str
    name: str
    bytes: int
    made_at: datetime
    href: str = Field(description="Path on this server.")


class FilesRequest(BaseModel):
    """Files of a day to create."""

    lang: str = Field(pattern=LANGUAGE)
    day: date
    kind: Literal["jsonl", "parquet", "text", "xml"] = "xml"


class LinkLine(BaseModel):
    """A link of a page, or to it."""

    url: str
    anchor: str
    kind: str


class PageAnswer(BaseModel):
    """The record of a page."""

    url: str
    collection: str
    title: str
    headline: str
    description: str
    headings: list[str]
    main_text: str
    language: str
    language_score: float
    other_languages: list[str]
    declared_language: str
    language_share: float
    charset: str
    published_at: datetime | None
    fetched_at: datetime
    canonical: str | None
    redirect_from: str | None
    may_index: bool
    may_follow: bool
    size: int = Field(description="Decoded size in bytes.")
    faults: list[str]
    record_id: str = Field(description="ID of the WARC record of the page.")
    link_count: int
    links: list[LinkLine] = Field(description=f"The first {MAX_LINKS}.")
    linked_from_count: int
    linked_from: list[LinkLine] = Field(description=f"The first {MAX_LINKS}.")


router = APIRouter(prefix="/api/v1/library", tags=["library"])
errors = {**ERRORS, **NOT_FOUND}


@router.get("", responses=ERRORS)
def table(
    services: ServicesDep,
    by: Annotated[
        Literal["language", "collection", "type"], Query(description="What to group by.")
    ] = "language",
    sites: Annotated[bool, Query(description="Also list the hosts of each group.")] = False,
    offset: Offset = 0,
    n: Count = MAX_ENTRIES,
) -> LibraryTable:
    """Return pages, sites, sizes and days by language, collection or type. `offset` and `n`
    select the entries of each list.
    """
    table = services.library.groups(by, sites=sites)
    rows, hosts = table.rows, table.sites if sites else []
    part = replace(table, rows=rows[offset : offset + n], sites=hosts[offset : offset + n])
    totals = {"rows": len(rows), "sites": len(hosts)}
    return LibraryTable.model_validate(asdict(part) | {"totals": totals})


@router.get("/hosts", responses=ERRORS)
def hosts(services: ServicesDep) -> HostStatistics:
    """Return numbers of hosts by first day and by server software. `/api/v1/hosts` lists the
    hosts.
    """
    table = services.library.hosts()
    return HostStatistics(
        total=table.total, found=dict(table.new_by_day), servers=dict(table.servers)
    )


@router.get("/collections/{name}", responses=errors)
def holdings(
    services: ServicesDep, name: Annotated[str, Path(pattern=COLLECTION)]
) -> HoldingsAnswer:
    """Return the stored data of a collection: captures, queued URLs, links, and the days of its
    library.
    """
    if not any(row.name == name for row in services.library.groups("collection").rows):
        raise HTTPException(404, "The library has no documents of this collection")
    days = _library_days(services.library, "", name)
    documents = sum(each.documents for each in days)
    return HoldingsAnswer(
        name=name,
        **asdict(services.library.holdings(name)),
        documents=documents,
        days=days[:MAX_ENTRIES],
    )


@router.get("/days", responses=ERRORS)
def days(
    services: ServicesDep,
    language: AnyLanguage = "",
    collection: OfCollection = "",
    offset: Offset = 0,
    n: Count = MAX_ENTRIES,
) -> list[DayLine]:
    """List the days of the library, newest first."""
    return _library_days(services.library, language, collection)[offset : offset + n]


@router.get("/documents", responses=ERRORS)
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
    return Documents(
        total=rows.height,
        documents=[DocumentLine.model_validate(row) for row in shown.to_dicts()],
    )


@router.get("/files", responses=ERRORS)
def files(services: ServicesDep, language: Language, day: Day) -> list[FileLine]:
    """List the files of a day, created here or by `lycosa export`."""
    return _files(services.library, language, day)


@router.post(
    "/files",
    responses={**errors, **WRITE_ERRORS, **_BUSY},
    dependencies=[WRITER],
)
def make(services: ServicesDep, request: FilesRequest) -> list[FileLine]:
    """Create the files of a day, if they do not exist."""
    if not services.library.make(request.lang, request.day, request.kind):
        raise HTTPException(409, "Another export is running: try again later.")
    return [
        file
        for file in _files(services.library, request.lang, request.day)
        if file.kind == request.kind
    ]


@router.get(
    "/file",
    responses={
        **errors,
        200: {"content": {"application/octet-stream": {}}, "description": "It"},
    },
    response_class=FileResponse,
)
def file(
    services: ServicesDep,
    language: Language,
    day: Day,
    kind: Annotated[str, Query(max_length=16)],
    name: Annotated[str, Query(max_length=64)],
) -> FileResponse:
    """Download a file of a day."""
    path = services.library.path(language, day, kind, name)
    if path is None:
        raise HTTPException(404, "Unknown file")
    return FileResponse(path, media_type="application/octet-stream", filename=name)


@router.get("/page", responses=errors)
def page(
    services: ServicesDep,
    url: Annotated[
        str, Query(min_length=1, max_length=MAX_URL_LENGTH, description="URL of the page.")
    ],
) -> PageAnswer:
    """Return the record of a page: metadata, main text, links, and links to it."""
    record = page_record(services.root, url)
    if record is None:
        raise HTTPException(404, "Unknown page")
    links = [
        LinkLine(url=link["target"], anchor=link["anchor"], kind=link["kind"])
        for link in record.out_links
    ]
    back = [
        LinkLine(url=link["source"], anchor=link["anchor"], kind=link["kind"])
        for link in record.in_links
    ]
    return PageAnswer.model_validate(
        {
            **record.row,
            "link_count": record.out,
            "links": links,
            "linked_from_count": record.into,
            "linked_from": back,
        }
    )


def _library_days(library: Library, language: str, collection: str) -> list[DayLine]:
    counts = library.days(language, collection).items()
    return [
        DayLine(language=key.language, day=key.day, documents=each.documents, hosts=each.hosts)
        for key, each in counts
    ]


def _files(library: Library, language: str, day: date) -> list[FileLine]:
    return [
        FileLine(
            **asdict(each),
            href=with_query(
                "/api/v1/library/file",
                lang=language,
                day=day.isoformat(),
                kind=each.kind,
                name=each.name,
            ),
        )
        for each in library.files(language, day)
    ]
