"""What a check finds: a closed record, so that people and programs read the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

ERROR, WARNING, NOTE = "error", "warning", "note"
"""Something is wrong; something is odd and harmless; nothing is wrong, but worth knowing."""

REMOVE, CDXJ, ENTRIES, INDEX, GRAPH, SWEEP = "remove", "cdxj", "entries", "index", "graph", "sweep"
"""What `lycosa check --repair` does about a finding (`lycosa.commands.maintenance.repair`): remove
what lies at `where`; write the CDXJ again from its WARC; remove the log entries that a snapshot
stands for; build the index, or the graph, anew; sweep.
"""


@dataclass(slots=True, frozen=True)
class Finding:
    """One thing found: how bad, where, what it is, what to do; `repair`: what can be done by
    itself, "" for nothing.
    """

    severity: str
    where: str
    what: str
    remedy: str
    repair: str = ""


@dataclass(slots=True)
class Report:
    """All that a check found, the worst first, and how much it looked at."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, severity: str, where: str, what: str, remedy: str, repair: str = "") -> None:
        self.findings.append(Finding(severity, where, what, remedy, repair))

    def sort(self) -> None:
        """The worst first."""
        self.findings.sort(key=lambda finding: (ERROR, WARNING, NOTE).index(finding.severity))

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; warnings and notes are not wrong."""
        return all(finding.severity != ERROR for finding in self.findings)

    def summary(self) -> str:
        """Return one line: `7 log entries, 12 table files, …: no errors`."""
        looked = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        errors = sum(finding.severity == ERROR for finding in self.findings)
        return (
            f"checked {looked}: "
            f"{f'{errors} errors' if errors > 1 else '1 error' if errors else 'no errors'}"
        )
