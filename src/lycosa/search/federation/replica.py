"""A copy of one shard that answers: kept by an engine on some machine, asked by whoever serves
searches.

A search asks it up to four times: what it knows of the words, which pages it finds, what they count
exactly, and for the snippets of those that are shown. All four are answered from the generation
that the first was answered from, whatever is published meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from xxhash import xxh3_64_hexdigest

from lycosa.core.errors import WorkError, WorkspaceError
from lycosa.index import generation as generations
from lycosa.index.shards.copies import local_copy, remove_copies
from lycosa.index.shards.shards import Shard
from lycosa.index.suggest.file import Phrase
from lycosa.processes.threads import OnError, start_thread
from lycosa.search.engine.indexed_pages import Address
from lycosa.search.engine.open_index import IndexMatches, OpenIndex
from lycosa.search.engine.search_query import SearchQuery
from lycosa.search.presentation.results import Hit
from lycosa.search.query.query import parse_query
from lycosa.search.ranking.feedback import PageTerms
from lycosa.search.ranking.ordering import Ranked
from lycosa.search.ranking.similar import Likeness
from lycosa.search.ranking.statistics import TermStatistics
from lycosa.search.suggest.completion import completions
from lycosa.search.suggest.spelling import SpellingCandidates, SpellingRequest
from lycosa.store.storage.cache import cache_root
from lycosa.text import korean
from lycosa.text.analyze import KIWI

FOLLOW_S = 1.0
MAX_OPEN_GENERATIONS = 3  # generations that stay open, for searches that began with them


class GenerationGone(WorkError):
    """A search took so long that the generation that it began with is closed: ask anew."""


@dataclass(slots=True, frozen=True)
class ReplicaDescription:
    """What a replica has open. `generation` 0: nothing yet, for the reason in `problem` if there is
    one.
    """

    shard: Shard
    generation: int = 0
    log_entry: int = 0
    documents: int = 0
    languages: dict[str, int] = field(default_factory=dict)
    problem: str = ""
    hint: str = ""  # see `OpenIndex.missing`


class Replica:
    """One shard of the workspace at `location`. Its methods may be called side by side; all
    arguments and answers are picklable.

    With `copy` it reads a copy on this machine's disk: for a folder that machines share. Of what
    lies on S3 or HDFS it does so anyway.
    """

    def __init__(
        self, location: str, shard: Shard, copy: bool = False, follow_s: float = FOLLOW_S
    ) -> None:
        self._storage = generations.storage_of(location)
        self._shard = shard
        copies = (
            cache_root()
            / "replicas"
            / xxh3_64_hexdigest(self._storage.root.encode())
            / f"of-{shard.count}-{shard.number:04d}"
        )
        self._copies = copies if copy and self._storage.on_disk else None
        self._open: dict[int, OpenIndex] = {}  # replaced, never changed: searches read it meanwhile
        self._problem = ""
        self._changing = threading.Lock()
        self._ending = threading.Event()
        self.follow()
        start_thread(self._follow_on, follow_s, name="follow", on_error=OnError.RESTART)

    def describe(self) -> ReplicaDescription:
        newest = self._newest()
        if newest is None:
            return ReplicaDescription(self._shard, problem=self._problem)
        info = newest.info
        return ReplicaDescription(
            self._shard,
            info.generation,
            info.log_entry,
            newest.documents,
            dict(info.languages),
            self._problem,
            newest.missing,
        )

    def statistics(self, question: SearchQuery) -> tuple[ReplicaDescription, TermStatistics]:
        """What this shard adds to the statistics of a query, and the generation to name in what is
        asked next.
        """
        newest = self._newest()
        if newest is None:
            return self.describe(), TermStatistics()
        return self.describe_of(newest), newest.statistics.of_query(question)

    def find(
        self,
        generation: int,
        question: SearchQuery,
        stage: float,
        limit: int,
        everywhere: TermStatistics,
    ) -> IndexMatches:
        """The first pages by scores that are about those of all shards together. Raises
        GenerationGone.
        """
        if not generation:
            return IndexMatches(0, [])
        return self._of(generation).find(question, stage, limit, everywhere)

    def weigh(
        self,
        generation: int,
        question: SearchQuery,
        stage: float,
        addresses: Sequence[Address],
        everywhere: TermStatistics,
    ) -> list[float]:
        """The exact scores of pages that were found. Raises GenerationGone."""
        return self._of(generation).weigh(question, stage, addresses, everywhere)

    def facets(
        self, generation: int, question: SearchQuery, stage: float, names: tuple[str, ...]
    ) -> dict[str, dict[str, int]]:
        """All pages that match, counted. Raises GenerationGone."""
        return self._of(generation).facets(question, stage, names)

    def hits(
        self,
        generation: int,
        question: SearchQuery,
        stage: float,
        found: Sequence[Ranked[Address]],
        everywhere: TermStatistics,
    ) -> list[Hit]:
        """Pages with their snippets. Raises GenerationGone."""
        return self._of(generation).hits(question, stage, found, everywhere)

    def spelling_candidates(self, generation: int, wanted: SpellingRequest) -> SpellingCandidates:
        """Return the words of its pages that are like the requested ones. Raises GenerationGone."""
        return (
            self._of(generation).spelling_candidates(wanted) if generation else SpellingCandidates()
        )

    def page_terms(self, generation: int, addresses: Sequence[Address]) -> list[PageTerms]:
        """The heaviest terms of pages that were found. Raises GenerationGone."""
        return self._of(generation).pages.heaviest_terms(addresses)

    def likeness(self, generation: int, url: str) -> Likeness | None:
        """What pages like one of its pages are found by. Raises GenerationGone."""
        return self._of(generation).likeness(url) if generation else None

    def phrases(self, start: str, count: int, language: str, words: bool) -> list[Phrase]:
        """Phrases of its pages that go on like that (`search.suggest.completion`)."""
        newest = self._newest()
        found = (
            []
            if newest is None
            else completions(newest.suggest_files, start, count, language, words)
        )
        return [phrase for each in found for phrase in each]

    def matching(self, text: str, language: str) -> int:
        """How many of its pages hold all words of a query; in a language, or (with "") in any."""
        newest = self._newest()
        return 0 if newest is None else newest.count(parse_query(text), language)

    def process(self) -> int:
        """Where it runs: the number of its process."""
        return os.getpid()

    def follow(self) -> bool:
        """Open the newest generation if there is a newer one; True if so. A damaged one leaves the
        one before in service.
        """
        with self._changing:
            try:
                numbers = generations.numbers(self._storage, self._shard.line)
                if not numbers or numbers[-1] in self._open:
                    return False
                generation = generations.newest(self._storage, self._shard.line)
                if generation is None:
                    return False
                if self._copies is not None:
                    generation = local_copy(generation, self._copies)
                opened = OpenIndex([generation], before=self._newest())
                if KIWI in opened.analysis.korean:
                    korean.load()  # a question is given less time than that takes
            except (WorkspaceError, OSError) as error:
                self._problem = str(error)
                return False
            self._problem = ""
            kept = list(self._open.items())[-(MAX_OPEN_GENERATIONS - 1) :]
            self._open = dict([*kept, (opened.number, opened)])
            if self._copies is not None:
                remove_copies(self._copies, opened.number)
            return True

    def close(self) -> None:
        """Follow no longer."""
        self._ending.set()

    def describe_of(self, opened: OpenIndex) -> ReplicaDescription:
        info = opened.info
        return ReplicaDescription(
            self._shard,
            info.generation,
            info.log_entry,
            opened.documents,
            dict(info.languages),
            self._problem,
            opened.missing,
        )

    def _newest(self) -> OpenIndex | None:
        return next(reversed(self._open.values()), None)

    def _of(self, generation: int) -> OpenIndex:
        opened = self._open.get(generation)
        if opened is None:
            raise GenerationGone(f"{self._shard}: generation {generation} is closed")
        return opened

    def _follow_on(self, every_s: float) -> None:
        while not self._ending.wait(every_s):
            self.follow()
