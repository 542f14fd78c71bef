"""Results of use cases that contain types of feature packages; see `models`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from lycosa.commands.page_models import VersionInfo
from lycosa.core.dataclass import dataclass, doc
from lycosa.index.indexer import IndexReport
from lycosa.matching.matches import StoredMatch
from lycosa.store.compaction.compact import CompactionReport
from lycosa.store.compaction.vacuum import VacuumReport
from lycosa.text.difference import Difference
from lycosa.vectors.update import VectorsReport


@dataclass(frozen=True)
class VersionComparison:
    """Changes between two versions."""

    url: str
    before: VersionInfo
    after: VersionInfo
    titles: tuple[str, str]
    of: str = field(
        metadata=doc("Compared text: `main text`, `all text`, `title`; empty: no difference.")
    )
    difference: Difference = field(
        metadata=doc(
            "`gone`, `came`: number of removed and added text blocks; `cut`: whether the list of "
            "changes is incomplete; `stretches`: changes with their surroundings, with `kind` ` ` "
            "unchanged, `-` removed, `+` added, and the positions `old` and `new` of the first "
            "block in the two texts, from 0."
        )
    )


@dataclass(frozen=True)
class IndexResult(IndexReport):
    """An update of the search index, and of the vectors of chunks."""

    vectors: VectorsReport | None = field(
        metadata=doc(
            "With an encoder: number of `pages` and `chunks` with vectors, chunks that were "
            "`encoded` and `removed`, pages `waiting` for vectors, and the `problem`."
        ),
        default=None,
    )


@dataclass(frozen=True)
class CompactionResult:
    """A compaction of the tables, and the deletion of obsolete files."""

    merged: CompactionReport
    swept: VacuumReport


@dataclass(frozen=True)
class MatchList:
    """Matches of watches or of a find, newest first."""

    total: int
    matches: Sequence[StoredMatch] = field(
        metadata=doc(
            "`positions`: character offsets in the page text, at most the first 1,000; `context`: "
            "the text around the first one, untrusted input from the page."
        )
    )


@dataclass(frozen=True)
class TextMatches:
    """Matches of texts in stored pages."""

    matches: Sequence[StoredMatch] = field(
        metadata=doc("`context`: the text around the first position, untrusted input.")
    )
    pages: int = field(metadata=doc("Number of searched pages."))
    complete: bool = field(metadata=doc("Whether all pages were searched."))
