"""Workspaces with committed pages, for tests of the index and search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lycosa.config.settings import IndexSettings
from lycosa.core.records import Link, Page, UrlRow, Visit
from lycosa.index.indexer import Indexer, IndexReport
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.identify import identify
from lycosa.url.keys import Identifier

FIRST_AT = 1_700_000_000_000


def index_settings(shards: int = 1) -> IndexSettings:
    return IndexSettings.model_validate({"heap": "15MiB", "shards": shards})


@dataclass
class Corpus:
    """A workspace under test. Every `commit` is one log entry."""

    root: str
    partitions: int = 4
    clock: int = FIRST_AT  # time of the last fetch, ms
    workspace: Workspace = field(init=False)

    def __post_init__(self) -> None:
        self.workspace = Workspace.open_or_create(self.root, self.partitions)
        self._identifier = Identifier(self.workspace.domains, self.workspace.partitions)
        self._claim = self.workspace.claim("test")

    def commit(
        self,
        pages: Iterable[tuple[str, Page]] = (),
        states: Iterable[tuple[str, str]] = (),
        collection: str = "default",
    ) -> int:
        """Commit pages (URL, page) and states (URL, `STATE REASON`) of one collection.

        Returns the log entry.
        """
        buffers = Buffers()
        for url, page in pages:
            self.add(buffers, url, page, collection)
        for url, state_and_reason in states:
            self.clock += 1000
            state, _, reason = state_and_reason.partition(" ")
            row = UrlRow(
                self._identifier.identify(url),
                collection,
                0,
                state=state,
                reason=reason,
                state_at=self.clock,
                first_seen_at=self.clock,
            )
            buffers.add_url(row)
        return self._claim.commit(self._claim.next_folder(), buffers.mapping())

    def add(
        self,
        buffers: Buffers,
        url: str,
        page: Page,
        collection: str = "default",
        redirect_from: str = "",
    ) -> None:
        self.clock += 1000
        _, host, host_key, url_key, partition = self._identifier.identify(url)
        visit = Visit(url, host, partition, host_key, url_key, "page", collection, 0, self.clock, 1)
        buffers.add_page(visit, page, redirect_from)
        buffers.links.add_links(visit, page.links)

    def redirect(self, source: str, target: str) -> int:
        """Commit a redirect, which is stored as a link of its own kind."""
        buffers = Buffers()
        self.clock += 1000
        _, host, host_key, url_key, partition = self._identifier.identify(source)
        visit = Visit(
            source, host, partition, host_key, url_key, "page", "default", 0, self.clock, 1
        )
        buffers.links.add_links(visit, [Link(target, "", "", "redirect", 0)])
        return self.commit_buffers(buffers)

    def commit_buffers(self, buffers: Buffers) -> int:
        return self._claim.commit(self._claim.next_folder(), buffers.mapping())

    def index(self, shards: int = 1) -> IndexReport:
        """Update the index."""
        with Indexer(self.root, index_settings(shards)) as indexer:
            return indexer.update()

    def rebuild(self, shards: int = 1) -> IndexReport:
        with Indexer(self.root, index_settings(shards)) as indexer:
            return indexer.rebuild()

    def commit_and_index(
        self,
        pages: Iterable[tuple[str, Page]] = (),
        states: Iterable[tuple[str, str]] = (),
        collection: str = "default",
        shards: int = 1,
    ) -> IndexReport:
        """Commit, then update the index."""
        self.commit(pages, states, collection)
        return self.index(shards)

    def indexed(self, pages: Iterable[tuple[str, Page]] = ()) -> Searcher:
        """Commit the pages, update the index and open it."""
        self.commit_and_index(pages)
        return Searcher(self.root)

    def urls(self, query: str, **options: Any) -> list[str]:
        """Return the sorted URLs of all results; assert that the total is correct."""
        results = Searcher(self.root).search(SearchRequest(query, 1000, **options))
        assert results.total == len(results.hits)
        assert not results.missing_shards
        return sorted(hit.url for hit in results.hits)


def page(
    text: str, *, title: str = "", language: str | None = None, around: str = "", **more: object
) -> Page:
    """Return a page; `around` is visible text outside of the main text."""
    return Page(
        title=title,
        main_text=text,
        main_lines=[first := 1 + around.count("\n") if around else 0, first + 1 + text.count("\n")],
        text=f"{around}\n{text}" if around else text,
        language=identify(text).language if language is None else language,
        **more,  # type: ignore[arg-type]
    )
