"""Search the newest index of a workspace in this process.

Imports nothing that reads tables. Threads may share a `Searcher`: each search uses one generation
of each shard.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import WorkspaceError
from lycosa.core.messages import Message
from lycosa.index.generation import Generation, storage_of
from lycosa.index.schema import ID, page_id
from lycosa.index.shards import shards
from lycosa.index.suggest.file import Phrase
from lycosa.processes.platform import trim_malloc
from lycosa.search.crosslingual.across import Vectors, answer_across
from lycosa.search.engine.open_index import OpenIndex, schema_of
from lycosa.search.presentation.answer import answer
from lycosa.search.presentation.results import MAX_HITS, Hit, SearchRequest, SearchResults
from lycosa.search.query.query import parse_query
from lycosa.search.suggest.completion import Suggestion, SuggestRequest, completions, suggestions
from lycosa.translation import workspace_tables as across_tables
from lycosa.translation.workspace_tables import OpenTables

__all__ = ["MAX_HITS", "Hit", "NewestIndex", "SearchRequest", "SearchResults", "Searcher"]

WORKSPACE_FILE = "workspace.json"


@dataclass(slots=True, frozen=True)
class _Opened:
    """The index of the shards that could be opened, and the others."""

    index: OpenIndex
    seen: tuple[tuple[int, int], ...]  # (shard, generation), opened or not
    missing: dict[int, str]  # shard -> problem


class Searcher:
    """Answers queries from the newest generations at the last `reload`.

    `vectors` are used in searches across languages.

    Raises:
        UsageError: `root` is no valid location. WorkspaceError: it is not a workspace, or its
        index is damaged (of several shards: all of them).
    """

    def __init__(self, root: str, vectors: Vectors | None = None) -> None:
        self._storage = storage_of(root)
        self._opened: _Opened | None = None
        self._vectors = vectors
        self._tables: tuple[across_tables.Seen, OpenTables] | None = None
        if self.reload():
            return
        if self._storage.size(WORKSPACE_FILE) is not None:
            from lycosa.store.workspace import Workspace

            # raises if it is damaged
            Workspace.open(root)
        else:
            raise WorkspaceError(
                f"{self._storage.root} is not a workspace: it has no {WORKSPACE_FILE}; specify "
                "the right folder with -w DIR, "
                f"or create one with `lycosa crawl URL`"
            )

    @property
    def languages(self) -> dict[str, int]:
        """The approximate number of pages by language."""
        return dict(self._opened.index.info.languages) if self._opened else {}

    @property
    def index(self) -> OpenIndex | None:
        """The open index."""
        return self._opened.index if self._opened else None

    def holds(self, url: str) -> bool:
        """Return whether the page of a normalised URL is indexed, or was until recently."""
        opened = self._opened
        return opened is not None and opened.index.statistics.holding(ID, page_id(url)) > 0

    def reload(self) -> bool:
        """Open the newest generations; True if there are newer ones.

        Otherwise this takes one listing of a folder per shard.

        Raises:
            WorkspaceError: the newest generation is damaged.
        """
        seen = shards.newest_numbers(self._storage)
        if not seen or (self._opened is not None and seen == self._opened.seen):
            return False
        parts = shards.newest_of_all(self._storage)
        if all(part is None for part in parts):
            return shards.newest_numbers(self._storage) != seen and self.reload()
        whole = [part for part in parts if isinstance(part, Generation)]
        missing = {
            number: _shard_problem(part)
            for number, part in enumerate(parts)
            if not isinstance(part, Generation)
        }
        if not whole:
            raise next(part for part in parts if isinstance(part, WorkspaceError))
        try:
            opened, refused = _open(whole, len(parts), self.index)
        except (WorkspaceError, OSError):
            if shards.newest_numbers(self._storage) == seen:
                raise
            return self.reload()  # they were removed meanwhile
        self._opened = _Opened(opened, seen, missing | refused)
        return True

    def search(self, request: SearchRequest) -> SearchResults:
        """Answer a query. Every input is valid."""
        opened = self._opened
        index = opened.index if opened else None
        results = (
            answer(index, request)
            if request.across is None
            else answer_across(index, self._tables_now(), request, request.across, self._vectors)
        )
        if index is not None and (hint := index.hint(request.text)):
            results = replace(results, notes=[*results.notes, hint])
        if opened is None or not opened.missing:
            return results
        notes = [
            *results.notes,
            *(_missing(number, reason) for number, reason in sorted(opened.missing.items())),
        ]
        return replace(results, notes=notes, missing_shards=tuple(sorted(opened.missing)))

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """Return suggestions for typed text, best first."""
        index = self.index
        if index is None:
            return []

        def complete(prefix: str, count: int, language: str, words: bool) -> list[Sequence[Phrase]]:
            return completions(index.suggest_files, prefix, count, language, words)

        def matches(text: str, language: str) -> int:
            return index.count(parse_query(text), language)

        return suggestions(request, complete, matches)

    def _tables_now(self) -> OpenTables:
        """Return the newest tables of translations. Searches in progress keep theirs."""
        there = across_tables.seen(self._storage)
        if self._tables is None or self._tables[0] != there:
            self._tables = there, across_tables.open_tables(self._storage)
        return self._tables[1]


class NewestIndex:
    """The newest index of a workspace, opened at the first query and reloaded as it grows.

    Shared by threads.

    Raises (all methods):
        WorkspaceError: there is no workspace, or its index is damaged.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._opening = threading.Lock()
        self._reloading = threading.Lock()
        self._searcher: Searcher | None = None

    @property
    def index(self) -> OpenIndex | None:
        """The index of the last query."""
        return None if self._searcher is None else self._searcher.index

    def search(self, request: SearchRequest) -> SearchResults:
        return self.newest().search(request)

    def languages(self) -> dict[str, int]:
        """Return the approximate number of pages by language; empty without an index."""
        return self.newest().languages

    def holds(self, url: str) -> bool:
        """Return whether a page is in the index; approximate."""
        return self.newest().holds(url)

    def suggest(self, request: SuggestRequest) -> list[Suggestion]:
        """Return suggestions for typed text, best first."""
        return self.newest().suggest(request)

    def newest(self) -> Searcher:
        """Return the searcher of the newest generation."""
        if self._searcher is None:
            with self._opening:
                if self._searcher is None:
                    self._searcher = Searcher(self._root)
        # the first request opens the new generation; the others use the open one
        if self._reloading.acquire(blocking=False):
            try:
                if self._searcher.reload():
                    trim_malloc()  # the former generation is free now
            finally:
                self._reloading.release()
        return self._searcher


def _missing(number: int, reason: str) -> Message:
    return Message(
        "shard_missing", "shard {number} is missing: {reason}", number=number + 1, reason=reason
    )


def _shard_problem(part: Generation | WorkspaceError | None) -> str:
    return (
        str(part)
        if isinstance(part, WorkspaceError)
        else Message("shard_not_built", "it has not been built yet")
    )


def _open(
    generations: Sequence[Generation], count: int, before: OpenIndex | None
) -> tuple[OpenIndex, dict[int, str]]:
    """Open shards as one index. Also return the problems of those that cannot be opened, or have
    other fields than most.
    """
    if count == 1:
        return OpenIndex(generations, before=before), {}
    refused: dict[int, str] = {}
    by_schema: dict[str, list[Generation]] = {}
    for generation in generations:
        try:
            by_schema.setdefault(schema_of(generation), []).append(generation)
        except (OSError, ValueError, KeyError, TypeError) as error:
            refused[generation.info.shard] = f"{generation.path} cannot be read: {error}"
    if not by_schema:
        raise WorkspaceError(
            f"{next(iter(refused.values()))}; rebuild it with `lycosa index --rebuild`"
        )
    most = max(
        by_schema.values(), key=lambda group: sum(generation.info.documents for generation in group)
    )
    for group in by_schema.values():
        if group is not most:
            refused |= {
                generation.info.shard: Message(
                    "shard_of_another_version",
                    "it was built by another version; rebuild it with `lycosa index`",
                )
                for generation in group
            }
    try:
        return OpenIndex(most, count, before), refused
    except WorkspaceError as error:
        sound, damaged = _try_each(most)
        if not sound or not damaged:
            raise error
        return OpenIndex(sound, count, before), refused | damaged


def _try_each(generations: Sequence[Generation]) -> tuple[list[Generation], dict[int, str]]:
    sound, damaged = [], {}
    for generation in generations:
        try:
            OpenIndex([generation])
        except WorkspaceError as error:
            damaged[generation.info.shard] = str(error)
        else:
            sound.append(generation)
    return sound, damaged
