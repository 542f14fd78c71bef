"""The library as pages: languages, their days, the pages and files of a day, one page's record."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from lycosa.app.configuring import read_config
from lycosa.app.exporting import LibraryTask, export_task
from lycosa.app.libraries import library_languages
from lycosa.app.page_record import MOST_LINKS, page_record
from lycosa.app.tables_by import Groups, HostTable, groups_of, hosts_of
from lycosa.export.editions import LibrarySelection
from lycosa.export.formats import DEFAULT_FILE_BYTES, FORMATS
from lycosa.export.library import Held, ShelfKey, library_days, library_documents
from lycosa.export.shelf import INDEX
from lycosa.serve.access import Access
from lycosa.serve.forms import form_fields
from lycosa.serve.frame import Frame
from lycosa.serve.kept import Kept
from lycosa.store.storage import open_storage
from lycosa.store.workspace import Workspace

PAGES_SHOWN = 100
_KEPT_S = 60.0
_MOST_SERVERS = 20
_LANGUAGE = r"^[a-z]{2,3}$"
_FILE = re.compile(r"[a-z]{2,3}-\d{4}-\d{2}-\d{2}-\d{5}\.[a-z.]{2,12}")
_MAX_URL = 4_000

Language = Annotated[str, Query(alias="lang", pattern=_LANGUAGE)]


@dataclass(slots=True, frozen=True)
class Offered:
    """A file of a day, ready to be taken."""

    kind: str
    name: str
    bytes: int
    made_at: datetime


def create_library_pages(root: str, frame: Frame, access: Access, folder: str = "") -> APIRouter:
    """The routes under /library. `folder`: where `lycosa export` writes libraries; empty: a place in the workspace."""
    router = APIRouter(include_in_schema=False)
    library = _Library(root, folder)

    @router.get("/library", response_class=HTMLResponse)
    def languages(request: Request) -> HTMLResponse:
        groups = library.groups.get("language")
        return frame.page(
            request,
            "library.html",
            groups=groups,
            collections=library.groups.get("collection"),
            types=library.groups.get("type"),
            hosts=library.hosts.get(""),
            servers=list(library.hosts.get("").servers.items())[:_MOST_SERVERS],
        )

    @router.get("/library/days", response_class=HTMLResponse)
    def days(request: Request, language: Language) -> HTMLResponse:
        held = library.days.get(language)
        if not held:
            raise HTTPException(404, "The library has nothing in this language")
        group = next((row for row in library.groups.get("language").rows if row.name == language), None)
        return frame.page(request, "library_days.html", language=language, days=sorted(held.items(), reverse=True), group=group)

    @router.get("/library/day", response_class=HTMLResponse)
    def one_day(
        request: Request, language: Language, day: date, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1, failed: bool = False
    ) -> HTMLResponse:
        rows = library.documents.get((language, day))
        shown = rows.slice((page - 1) * PAGES_SHOWN, PAGES_SHOWN).to_dicts()
        return frame.page(
            request,
            "library_day.html",
            language=language,
            day=day.isoformat(),
            total=rows.height,
            documents=shown,
            page=page,
            a_page=PAGES_SHOWN,
            files=library.files(language, day),
            kinds=sorted(FORMATS),
            failed=failed,
        )

    @router.post("/library/day")
    async def make_files(request: Request, _: str = Depends(access.writer)) -> Response:
        fields = await form_fields(request)
        language, kind = fields.get("lang", ""), fields.get("kind", "")
        try:
            day = date.fromisoformat(fields.get("day", ""))
        except ValueError:
            raise HTTPException(400, "This is no day") from None
        if not re.match(_LANGUAGE, language) or kind not in FORMATS:
            raise HTTPException(400, "There is no such library")
        made = await run_in_threadpool(library.make, language, day, kind)
        return RedirectResponse(f"/library/day?lang={language}&day={day}{'' if made else '&failed=1'}", 303)

    @router.get("/library/file")
    def file(
        language: Language, day: date, kind: Annotated[str, Query(max_length=16)], name: Annotated[str, Query(max_length=64)]
    ) -> Response:
        found = library.path(language, day, kind, name)
        if found is None:
            raise HTTPException(404, "There is no such file")
        return FileResponse(found, media_type="application/octet-stream", filename=name)

    @router.get("/library/page", response_class=HTMLResponse)
    def record(request: Request, url: Annotated[str, Query(min_length=1, max_length=_MAX_URL)]) -> HTMLResponse:
        found = page_record(root, url)
        if found is None:
            raise HTTPException(404, "This page is not here")
        return frame.page(request, "library_page.html", record=found, row=found.row, most=MOST_LINKS)

    return router


class _Library:
    """What the pages ask of a workspace, kept for a minute."""

    def __init__(self, root: str, folder: str) -> None:
        self._root = root
        self._folder = folder
        self._making = threading.Lock()
        self.groups = Kept[str, Groups](self._groups, _KEPT_S)
        self.hosts = Kept[str, HostTable](lambda _: hosts_of(Workspace.open(root), most=1), _KEPT_S)
        self.days = Kept[str, Mapping[date, Held]](self._days, _KEPT_S)
        self.documents = Kept[tuple[str, date], pl.DataFrame](self._documents, _KEPT_S, most=8)

    def files(self, language: str, day: date) -> list[Offered]:
        """The files that an export has finished for a day."""
        found = []
        for kind in sorted(FORMATS):
            place = self._place(kind, language, day)
            if not (place / INDEX).is_file():
                continue
            for path in sorted(place.iterdir()):
                if _FILE.fullmatch(path.name) and path.is_file():
                    status = path.stat()
                    found.append(Offered(kind, path.name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)))
        return found

    def path(self, language: str, day: date, kind: str, name: str) -> Path | None:
        """The file of that name, if it is one of the day's."""
        if not any((each.kind, each.name) == (kind, name) for each in self.files(language, day)):
            return None
        return self._place(kind, language, day) / name

    def make(self, language: str, day: date, kind: str) -> bool:
        """Write a day's files. False: others are being written now, here or by somebody's export.

        Raises:
            WorkError: they could not be written.
        """
        if not self._making.acquire(blocking=False):
            return False
        try:
            config, state = read_config(self._root), Workspace.open(self._root).state()
            chosen = LibrarySelection(language, since=day, until=day)
            languages = library_languages(config, state)
            export_task(LibraryTask(self._root, str(self._home()), kind, chosen, config, languages, DEFAULT_FILE_BYTES))
            return True
        finally:
            self._making.release()

    def _home(self) -> Path:
        return Path(self._folder or f"{open_storage(self._root).scratch()}/library")

    def _place(self, kind: str, language: str, day: date) -> Path:
        return self._home() / kind / language / day.isoformat()

    def _languages(self, workspace: Workspace) -> Mapping[str, str]:
        return library_languages(read_config(self._root), workspace.state())

    def _groups(self, by: Any) -> Groups:
        return groups_of(Workspace.open(self._root), by, read_config(self._root))

    def _days(self, language: str) -> Mapping[date, Held]:
        workspace = Workspace.open(self._root)
        held: Mapping[ShelfKey, Held] = library_days(workspace, LibrarySelection(language), self._languages(workspace))
        return {key.day: each for key, each in held.items() if key.language == language}

    def _documents(self, shelf: tuple[str, date]) -> pl.DataFrame:
        workspace = Workspace.open(self._root)
        return library_documents(workspace, LibrarySelection(shelf[0], since=shelf[1], until=shelf[1]), self._languages(workspace))
