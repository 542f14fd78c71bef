"""The library as pages: languages and collections, their stored data and days, the pages and files
of a day, the record of one page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from lycosa.captures.page_record import MAX_LINKS, page_record
from lycosa.export.library.formats import FORMATS
from lycosa.serve.library.api import file
from lycosa.serve.library.library import COLLECTION, LANGUAGE
from lycosa.serve.services import ServicesDep, WriterForm
from lycosa.serve.web.i18n import Interface
from lycosa.serve.web.rendering import with_query
from lycosa.url.normalise import MAX_URL_LENGTH

PAGES_SHOWN = 100
SITES_SHOWN = 100
_DAYS_DRAWN = 60
_MAX_SERVERS = 20
_MAX_TYPES = 100  # servers may claim any number

Language = Annotated[str, Query(alias="lang", pattern=LANGUAGE)]
Collection = Annotated[str, Query(pattern=COLLECTION)]


router = APIRouter(include_in_schema=False)


@router.get("/library", response_class=HTMLResponse)
def languages(services: ServicesDep, request: Request) -> HTMLResponse:
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


@router.get("/library/days", response_class=HTMLResponse)
def days(services: ServicesDep, request: Request, language: Language) -> HTMLResponse:
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


@router.get("/library/collection", response_class=HTMLResponse)
def collection(
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


@router.get("/library/day", response_class=HTMLResponse)
def one_day(
    services: ServicesDep,
    request: Request,
    language: Language,
    day: date,
    collection: Collection = "",
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


@router.post("/library/day")
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


router.add_api_route("/library/file", file, response_class=FileResponse)


@router.get("/library/page", response_class=HTMLResponse)
def record(
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
