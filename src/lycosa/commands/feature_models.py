"""Results of use cases that contain types of feature packages; see `models`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lycosa.commands.models import VersionInfo, doc
from lycosa.config.monitor import Monitor
from lycosa.matching.matches import StoredMatch
from lycosa.notify.outbox import DeliveryState
from lycosa.store.compaction.compact import CompactionReport
from lycosa.store.compaction.vacuum import VacuumReport
from lycosa.text.difference import Difference


@dataclass(frozen=True)
class VersionComparison:
    """Changes between two versions. `of`: main text, all text or title; empty: no difference."""

    url: str
    before: VersionInfo
    after: VersionInfo
    titles: tuple[str, str]
    of: str
    difference: Difference


@dataclass(frozen=True)
class CompactionResult:
    """A compaction of the tables, and the deletion of obsolete files."""

    merged: CompactionReport
    swept: VacuumReport


@dataclass(frozen=True)
class WatchInfo:
    """A watch and the state of its notifications."""

    id: str
    name: str
    texts: Sequence[str]
    ignore: Sequence[str]
    collections: Sequence[str]
    created_at: str = field(metadata=doc("UTC, ISO 8601."))
    notify: Sequence[DeliveryState]
    running: bool = field(metadata=doc("Whether a running crawl applies it."))


@dataclass(frozen=True)
class MatchList:
    """Matches of watches or of a find, newest first."""

    total: int
    matches: Sequence[StoredMatch]


@dataclass(frozen=True)
class MonitorInfo:
    """A monitor. `configured`: it is a [[monitor]] in lycosa.toml."""

    monitor: Monitor
    configured: bool
    running: bool = field(metadata=doc("Whether a process runs its checks."))
