"""The partitions that a worker holds, with their rows and files."""

from __future__ import annotations

import polars as pl

from lycosa.core.dataclass import dataclass
from lycosa.store.log.archive_files import folder_numbers
from lycosa.store.log.claim import DATA
from lycosa.store.log.state import LogState
from lycosa.store.storage.files import DataFile
from lycosa.store.tables.live import LiveTables
from lycosa.store.tables.schema import Table
from lycosa.store.workspace import Workspace


@dataclass(slots=True, frozen=True)
class HeldPartitions:
    """The partitions of one claim.

    `total`: number of partitions of the workspace; `held`: None if the claim has all of them.
    """

    total: int
    held: frozenset[int] | None = None

    def holds(self, partition: int) -> bool:
        return self.held is None or partition in self.held

    @property
    def share(self) -> float:
        """The fraction of the workspace's partitions that are held."""
        return 1.0 if self.held is None else len(self.held) / self.total

    def condition(self) -> pl.Expr | None:
        """Return the condition for rows of held partitions; None if all are held.

        It is a range if possible: files are sorted by partition, so a range skips row groups.
        """
        if self.held is None:
            return None
        lowest, highest = min(self.held), max(self.held)
        between = pl.col("partition").is_between(lowest, highest)
        return (
            between
            if highest - lowest + 1 == len(self.held)
            else between & pl.col("partition").is_in(sorted(self.held))
        )

    def files(self, state: LogState, table: str) -> list[DataFile]:
        """Return the live files of a table that may have rows of held partitions.

        `table`: one of hosts or URLs. A commit only has rows of the partitions of its claim.
        """
        files = state.files.get(table, [])
        return (
            files
            if self.held is None
            else [file for file in files if self._concerns(state, file.path)]
        )

    def _concerns(self, state: LogState, path: str) -> bool:
        numbers = folder_numbers(path.split("/")[1]) if path.startswith(f"{DATA}/") else None
        info = state.claims.get(numbers[0]) if numbers else None
        return info is None or self.held is None or not info.partitions.isdisjoint(self.held)


class HeldTables(LiveTables):
    """The live rows of held partitions."""

    def __init__(
        self, workspace: Workspace, state: LogState, held_partitions: HeldPartitions
    ) -> None:
        super().__init__(workspace, state)
        self._held = held_partitions.condition()

    def _condition(self, table: Table) -> pl.Expr | None:
        visible = super()._condition(table)
        if visible is None or self._held is None:
            return self._held if visible is None else visible
        return visible & self._held
