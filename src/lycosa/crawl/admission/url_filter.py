"""Pre-fetch filter: refuses or defers URLs in scope.

Reasons are exclusions by the operator, types that cannot be indexed, and traps. Each rule has a
name, is counted, and is shown by `lycosa explain`. Rules that need only the URL refuse it at
admission. Rules about the content of a host's pages defer its URLs, because they may be wrong.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import NamedTuple

from lycosa.config.settings import Collection
from lycosa.core.clock import Clock
from lycosa.core.host_row import HostRow
from lycosa.core.records import Page, UrlId
from lycosa.frontier.traps.detector import HostTrapDetector, ObservedPage
from lycosa.hooks.plugins import Plugins
from lycosa.store.log.state import LogState
from lycosa.url.domain import Domains
from lycosa.url.exclusions import ExclusionFile, ExclusionRule
from lycosa.url.file_types import REQUISITE_GROUPS, unindexable
from lycosa.url.schemes import path_start
from lycosa.url.scope import hostname
from lycosa.url.traps import TrapRule, query_signature, trap, without_session

FREE_SUSPECTS = 200
"""Number of suspected traps of a collection that are fetched nevertheless.

Only on hosts of seeds: a small site may repeat the same text on every page, and an endless one
costs no more than this. On other hosts, suspected traps are always deferred.
"""

# above this number of named hosts, most are not small sites with repetitive pages
_MAX_NAMED_HOSTS = 8
_SUSPECT_SHARE = 0.015  # of a collection's pages, if more hosts are named

PUT_OFF_MS = 7 * 86_400_000
"""A URL that a rule about content defers is checked again after this time."""

# hosts with comparisons of pages; the rows of other hosts have only their stopped parts
_MAX_DETECTORS = 2_000
_SIGNATURES = 100_000  # queries remembered to detect permutations; then the set is cleared
_DAY_MS = 86_400_000
# paths with many variants: the lines of their texts are compared
_VARIES = re.compile("[?0-9]")


class ExclusionCheck:
    """Exclusions by the operator, in a file and in the log.

    The file is read again when it changes.
    """

    def __init__(
        self, file: ExclusionFile | None, domains: Domains, log: LogState | None = None
    ) -> None:
        self._file = file
        self._domains = domains
        self._log = log

    def rule(self, url: str) -> ExclusionRule | None:
        """Return the rule of the file that excludes a normalised URL, or None."""
        if self._file is None:
            return None
        host = hostname(url)
        return self._file.current().excluded(url, host, self._domains.registrable(host))

    def __call__(self, url: str) -> bool:
        if (
            self._log is not None
            and self._log.exclusions.rules
            and self._log.excluded(url, hostname(url))
        ):
            return True
        return self._file is not None and self.rule(url) is not None


class FilterResult(NamedTuple):
    """The result of the filter for a new URL.

    `reason`: why it is refused; "": it is not. `instead`: another URL of the same page, which is
    admitted.
    """

    reason: str = ""
    instead: str = ""


_ADMITTED = FilterResult()


class UrlFilter:
    """Filter of one collection. Hot path: called for each new URL."""

    def __init__(
        self,
        collection: Collection,
        excluded: ExclusionCheck,
        clock: Clock,
        *,
        documents: bool = True,
        plugins: Plugins | None = None,
    ) -> None:
        """`documents`: PDF, office files etc. are parsed, so not refused by name."""
        self._documents = documents
        self._name = collection.name
        self._plugins = plugins if plugins is not None and plugins.has("admit_url") else None
        self._traps = collection.traps
        self._skip = not collection.media_types
        self._needed = REQUISITE_GROUPS if collection.requisites else frozenset()
        self._excluded = excluded
        self._clock = clock
        self._today = date.min
        self._until_ms = 0
        self._signatures: set[int] = set()

    def __call__(self, url: str) -> FilterResult:
        screened = self.text(url)
        if screened is _ADMITTED and self._traps and "&" in url and self._permuted(url):
            return FilterResult(f"trap_{TrapRule.QUERY_PERMUTATION}")
        return screened

    def text(self, url: str) -> FilterResult:
        """Apply the rules that need only the URL's text."""
        if self._excluded(url):
            return FilterResult("excluded")
        if self._plugins is not None and False in self._plugins.call(
            "admit_url", url=url, collection=self._name
        ):
            return FilterResult("plugin")
        if self._skip:
            reason = unindexable(url, documents=self._documents)
            if reason and reason not in self._needed:
                return FilterResult(f"unindexable_{reason}")
        if not self._traps:
            return _ADMITTED
        rule = trap(url, self._date())
        if rule == TrapRule.SESSION_ID:
            return FilterResult(f"trap_{rule}", without_session(url))
        return FilterResult(f"trap_{rule}") if rule else _ADMITTED

    def _permuted(self, url: str) -> bool:
        """Return whether the same query parameters occurred in another order.

        Call it once per admitted URL.
        """
        signature = query_signature(url)
        if not signature:
            return False
        if signature in self._signatures:
            return True
        if len(self._signatures) >= _SIGNATURES:
            self._signatures.clear()
        self._signatures.add(signature)
        return False

    def _date(self) -> date:
        now_ms = self._clock.now_ms()
        if now_ms >= self._until_ms:
            self._today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
            self._until_ms = now_ms - now_ms % _DAY_MS + _DAY_MS
        return self._today


def free_suspects(named_hosts: int, pages: int, most: int = FREE_SUSPECTS) -> int:
    """Return how many suspected traps a collection may fetch.

    With many named hosts it is at most a small share of the collection's pages: otherwise a small
    collection could consist mostly of traps.
    """
    return most if named_hosts <= _MAX_NAMED_HOSTS else min(most, int(pages * _SUSPECT_SHARE))


class HostTraps:
    """Content of each host's pages, and the parts of the host that it defers."""

    def __init__(self) -> None:
        self._detectors: dict[int, HostTrapDetector] = {}  # the last used one last

    def holds(self, host: HostRow, url: str) -> str:
        """Return the rule by which a URL is deferred, or ""."""
        detector = self._detectors.get(host.host_key)
        if detector is None and not host.traps:
            return ""
        detector = self._detector(host)
        return detector.refuses(_path(url)) if detector.has_stopped else ""

    def count(self, host: HostRow, rule: str) -> None:
        """Count a deferred URL in the host's row."""
        detector = self._detector(host)
        detector.count(rule)
        host.record_traps(detector.counters())

    def observe(self, host: HostRow, identity: UrlId, page: Page, status: int) -> None:
        """Record the content of a visited page."""
        detector = self._detector(host)
        path = _path(identity.url)
        detector.observe(
            path,
            ObservedPage(
                simhash=page.simhash,
                text_digest=page.text_digest,
                text_length=len(page.text),
                status=status,
                title=page.title,
                summary="\n".join((page.description, *page.headings)),
                text=page.text if _VARIES.search(path) else "",
            ),
        )
        if detector.has_stopped or host.traps:
            host.record_traps(detector.counters())

    def _detector(self, host: HostRow) -> HostTrapDetector:
        detector = self._detectors.pop(host.host_key, None)
        if detector is None:
            detector = HostTrapDetector.from_counters(host.traps)
            if len(self._detectors) >= _MAX_DETECTORS:
                del self._detectors[next(iter(self._detectors))]
        self._detectors[host.host_key] = detector
        return detector


def _path(url: str) -> str:
    return url[path_start(url) :]
