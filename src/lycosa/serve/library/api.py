"""The library as JSON under /api/v1/library: the data of its pages, from the tables down to the
record of one page, and the files of a day.
"""

from __future__ import annotations

from dataclasses import field, fields, replace
from datetime import date, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse

from lycosa.captures.page_record import MAX_LINKS, page_record
from lycosa.commands.models import CollectionHoldings, GroupTable
from lycosa.commands.page_models import PageRecord
from lycosa.core.dataclass import dataclass, doc, with_list_part
from lycosa.serve.library.library import COLLECTION, LANGUAGE, Library, LibraryFile
from lycosa.serve.services import WRITER, ServicesDep
from lycosa.serve.web.problems import ERRORS, NOT_FOUND, WRITE_ERRORS, error_responses
from lycosa.serve.web.request_bodies import JsonBody
from lycosa.url.normalise import MAX_URL_LENGTH

MAX_ENTRIES = 1_000  # entries of a list in one response
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
) -> GroupTable:
    """Return pages, sites, sizes and days by language, collection or type. `offset` and `n`
    select the entries of each list.
    """
    table = services.library.groups(by, sites=sites)
    if not sites:
        table = replace(table, sites=[], totals={**table.totals, "sites": 0})
    return with_list_part(table, offset, n)


@router.get("/collections/{name}", responses=errors)
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
    return Documents(rows.height, [DocumentLine(**row) for row in shown.to_dicts()])


@router.get("/files", responses=ERRORS)
def files(services: ServicesDep, language: Language, day: Day) -> list[LibraryFile]:
    """List the files of a day, created here or by `lycosa export`."""
    return services.library.files(language, day)


@router.post(
    "/files",
    responses={**errors, **WRITE_ERRORS, **_BUSY},
    dependencies=[WRITER],
)
def make(services: ServicesDep, request: FilesRequest) -> list[LibraryFile]:
    """Create the files of a day, if they do not exist."""
    if not services.library.make(request.lang, request.day, request.kind):
        raise HTTPException(409, "Another export is running: try again later.")
    files = services.library.files(request.lang, request.day)
    return [file for file in files if file.kind == request.kind]


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
    kind: Annotated[str, Query(max_length=16, description="Format, as listed by `files`.")],
    name: Annotated[str, Query(max_length=64, description="File name, as listed by `files`.")],
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
