"""Tools that read the workspace."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from lycosa.api import Workspace
from lycosa.commands.feature_models import TextMatches
from lycosa.commands.models import CollectionSummary, QueryResult
from lycosa.commands.page_models import MarkdownPart, VersionList
from lycosa.commands.search_models import PassagesResult, SearchAnswer
from lycosa.commands.untrusted.sql import SqlRunner
from lycosa.core.errors import WorkError
from lycosa.matching.matches import StoredMatch
from lycosa.mcp.output import Untrusted, reports_errors
from lycosa.store.tables.schema import TABLES

MAX_PART = 100_000
"""Characters of Markdown in one result."""
FIND_TIME_S = 20.0
"""Time after which `find_text` returns the matches so far."""
MAX_FINDS = 2
"""Calls of `find_text` at once: each reads all pages."""

_MAX_POSITIONS = 20

Query = Annotated[str, Field(max_length=10_000)]
Url = Annotated[str, Field(max_length=8_000, description="URL of the page.")]
Collection = Annotated[
    str, Field(max_length=200, description="Only pages of this collection; empty: of all.")
]
Site = Annotated[
    str, Field(max_length=2_000, description="Only this site: a host, host:port or URL.")
]
Language = Annotated[
    str, Field(max_length=20, description="Only pages in this language (ISO 639 code).")
]
Start = Annotated[
    int, Field(ge=0, description="Position in the Markdown to start at, in characters.")
]
PartLength = Annotated[
    int, Field(ge=1, le=MAX_PART, description="Maximum number of characters to return.")
]
MarkdownModeName = Annotated[
    Literal["main", "full", "citations"],
    Field(
        description="`main`: main text; `full`: complete page; `citations`: main text, links as "
        "numbered references."
    ),
]


class ReadTools:
    """The tools that read a workspace. Their methods run in threads."""

    def __init__(self, workspace: Workspace, sql: SqlRunner) -> None:
        self._workspace = workspace
        self._sql = sql
        self._finds = threading.BoundedSemaphore(MAX_FINDS)

    @reports_errors
    def search(
        self,
        query: Annotated[Query, Field(description="Words, phrases and operators of a search.")],
        count: Annotated[int, Field(ge=1, le=50, description="Number of results.")] = 10,
        offset: Annotated[int, Field(ge=0, le=10_000, description="Results to skip.")] = 0,
        language: Language = "",
        collection: Collection = "",
        site: Site = "",
        order: Annotated[
            Literal["relevance", "date"], Field(description="Order of the results.")
        ] = "relevance",
    ) -> Untrusted[SearchAnswer]:
        """Search the crawled pages. Returns titles, URLs and snippets, best first."""
        result = self._workspace.search(
            query,
            count=count,
            offset=offset,
            language=language,
            collection=collection,
            site=site,
            order=order,
        )
        return Untrusted(result=result)

    @reports_errors
    def passages(
        self,
        query: Annotated[Query, Field(description="A question or words.")],
        count: Annotated[int, Field(ge=1, le=50, description="Number of passages.")] = 10,
        max_tokens: Annotated[
            int, Field(ge=20, le=2_000, description="Maximum number of tokens of a passage.")
        ] = 200,
        budget: Annotated[
            int, Field(ge=20, le=50_000, description="Maximum number of tokens of all passages.")
        ] = 2_000,
        language: Language = "",
        collection: Collection = "",
        site: Site = "",
        ranking: Annotated[
            Literal["", "keyword", "vector", "hybrid"],
            Field(description="Ranking by words, by vectors or by both; empty: the best one."),
        ] = "",
    ) -> Untrusted[PassagesResult]:
        """Return the best passages of the crawled pages with their sources, to answer and cite."""
        result = self._workspace.texts.passages(
            query,
            count=count,
            max_tokens=max_tokens,
            budget=budget,
            language=language,
            collection=collection,
            site=site,
            ranking=ranking,
        )
        return Untrusted(result=result)

    @reports_errors
    def read_page(
        self,
        url: Url,
        at: Annotated[
            str,
            Field(
                max_length=40,
                description="Time of the version, for example 2026-11-21T10:15 (UTC), or its "
                "number in `page_history`; empty: the newest.",
            ),
        ] = "",
        mode: MarkdownModeName = "main",
        start: Start = 0,
        length: PartLength = 20_000,
    ) -> Untrusted[MarkdownPart]:
        """Read a stored page as Markdown. Nothing is fetched."""
        page = self._workspace.archive.markdown(url, at, mode=mode)
        return Untrusted(
            result=markdown_part(
                page.url, page.title, page.version.fetched_at, page.markdown, start, length
            )
        )

    @reports_errors
    def page_history(
        self,
        url: Url,
        count: Annotated[int, Field(ge=1, le=200, description="Number of versions.")] = 20,
        changed: Annotated[bool, Field(description="Only versions with a changed text.")] = False,
    ) -> Untrusted[VersionList]:
        """List the archived versions of a page, newest first. `read_page` reads one."""
        versions = self._workspace.archive.versions(url, count=count, changed=changed)
        return Untrusted(result=versions)

    @reports_errors
    def find_text(
        self,
        texts: Annotated[
            list[Annotated[str, Field(max_length=1_000)]],
            Field(min_length=1, max_length=20, description="Texts as they appear in the pages."),
        ],
        ignore: Annotated[
            list[Literal["case", "accents", "width"]],
            Field(max_length=3, description="Differences to ignore."),
        ] = [],  # noqa: B006 - never changed
        site: Site = "",
        collection: Collection = "",
        count: Annotated[int, Field(ge=1, le=200, description="Number of matches.")] = 50,
    ) -> Untrusted[TextMatches]:
        """Find exact texts in all stored pages. Slower than `search`, but leaves nothing out."""
        if not self._finds.acquire(blocking=False):
            raise WorkError(f"{MAX_FINDS} finds are running: try again later")
        try:
            scan = self._workspace.texts.find(
                *texts, ignore=ignore, site=site, collection=collection
            )
            matches: list[StoredMatch] = []
            for match in scan.run(time.monotonic() + FIND_TIME_S):
                if len(matches) == count:
                    break
                matches.append(replace(match, positions=match.positions[:_MAX_POSITIONS]))
        finally:
            self._finds.release()
        return Untrusted(result=TextMatches(matches, scan.pages, scan.complete))

    @reports_errors
    def list_collections(self) -> Untrusted[list[CollectionSummary]]:
        """List the collections of the workspace with their pages, sites and sizes."""
        return Untrusted(result=self._workspace.collections.list())

    @reports_errors
    def sql(
        self,
        query: Annotated[Query, Field(description="A query that begins with SELECT or WITH.")],
        max_rows: Annotated[int, Field(ge=1, le=1_000, description="Number of rows.")] = 100,
    ) -> Untrusted[QueryResult]:
        return Untrusted(result=self._sql.run(query, max_rows))

    def close(self) -> None:
        """End the processes that run queries."""
        self._sql.close()


COLUMNS = "Tables and columns: "
SQL_DESCRIPTION = (
    "Query the tables of the workspace in SQL (Polars' dialect), read-only. A query may take 10 s. "
    f"{COLUMNS}"
    + "; ".join(f"{table.name} ({', '.join(table.names)})" for table in TABLES.values())
)


def markdown_part(
    url: str, title: str, fetched_at: str, markdown: str, start: int, length: int
) -> MarkdownPart:
    """Return a part of a page as Markdown."""
    end = start + length
    following = end if end < len(markdown) else None
    part = markdown[start:end]
    return MarkdownPart(url, title, fetched_at, part, start, len(markdown), following)
