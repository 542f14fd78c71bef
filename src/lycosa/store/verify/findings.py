"""The findings of a check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

ERROR, WARNING, NOTE = "error", "warning", "note"
"""Severities: a problem; unusual but harmless; information."""

REMOVE, CDXJ, ENTRIES, INDEX, GRAPH, VACUUM = (
    "remove",
    "cdxj",
    "entries",
    "index",
    "graph",
    "vacuum",
)
"""Actions of `lycosa check --repair` (`lycosa.commands.maintenance.repair`): remove the file at
`where`; rewrite the CDXJ file from its WARC file; remove log entries that a snapshot covers;
rebuild the index, or the graph; vacuum.
"""


@dataclass(slots=True, frozen=True)
class Finding:
    """One problem: severity, place, description, remedy, and the automatic `repair` ("": none)."""

    severity: str
    where: str
    what: str
    remedy: str
    repair: str = ""


@dataclass(frozen=True)
class CheckReport:
    """The findings of a check, most severe first, and the number of objects checked."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, severity: str, where: str, what: str, remedy: str, repair: str = "") -> None:
        self.findings.append(Finding(severity, where, what, remedy, repair))

    def with_findings(self, *findings: Finding) -> CheckReport:
        """Return a report with further findings, most severe first."""
        order = [ERROR, WARNING, NOTE]
        ordered = sorted((*self.findings, *findings), key=lambda each: order.index(each.severity))
        return CheckReport(ordered, self.counts)

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return all(finding.severity != ERROR for finding in self.findings)

    def summary(self) -> str:
        """Return one line: `7 log entries, 12 table files, …: no errors`."""
        looked = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        errors = sum(finding.severity == ERROR for finding in self.findings)
        return (
            f"checked {looked}: "
            f"{f'{errors} errors' if errors > 1 else '1 error' if errors else 'no errors'}"
        )
