"""From links to rows of the frontier: rules, scope, depth, and whether the URL is new.

This is a hot path (50 links a page); `bench/crawl.py` guards it. Most links of a page were seen on the page before, so the
verdict on a link's text is kept in a bounded cache and the costly steps run once a URL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from lycosa.core.config import Collection
from lycosa.core.errors import Refusal, UrlError
from lycosa.core.records import FOLLOWED_KINDS, HostRow, Link, LinkKind, UrlId, UrlRow
from lycosa.frontier.frontier import Frontier
from lycosa.frontier.known import KnownUrls
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission

_CACHED_LINKS = 100_000
_FOLLOWED = frozenset(kind.value for kind in FOLLOWED_KINDS)


class LinkGate:
    """Admits URLs into the frontier of one collection.

    `admitted` is called with every new row, `changed` with one whose depth fell while it waits, `fallen` with a URL that is
    already visited and turns out to lie at less depth (its stored links must be found again at the new depth).
    """

    def __init__(
        self,
        collection: Collection,
        seeds: Iterable[str],
        *,
        domains: Domains,
        identifier: Identifier,
        frontier: Frontier,
        known: KnownUrls,
        admitted: Callable[[UrlRow], None],
        changed: Callable[[UrlRow], None],
        fallen: Callable[[UrlId, int], None],
    ) -> None:
        self._collection = collection
        self._rules = Rules(collection)
        self._admission = Admission(collection, seeds, domains)
        self._domains = domains
        self._identifier = identifier
        self._frontier = frontier
        self._known = known
        self._admitted = admitted
        self._changed = changed
        self._fallen = fallen
        self._verdicts: dict[str, int | Refusal] = {}
        self.in_flight: dict[int, UrlRow] = {}
        self.refused: Counter[str] = Counter()

    def seed(self, url: str, now_ms: int) -> UrlId:
        """Admit a URL that the operator named, at depth 0. `allow` and `deny` are for links: a seed may be a hub outside them.

        Raises:
            UrlError: it cannot be used.
        """
        identity = self._identifier.identify(self._rules.apply(normalise(url)))
        reason = self._admission.refuse(identity.url)
        if reason is not None and reason is not Refusal.PATTERN:
            raise UrlError(reason, url)
        refusal = self._enter(identity, 0, now_ms, referrer="", redirects=0, redirect_from="")
        if refusal is not None:
            raise UrlError(refusal, url)
        return identity

    def follow(self, source: UrlRow, links: Iterable[Link], now_ms: int) -> None:
        """Admit what the links of a visited page lead to, one deeper than the page."""
        verdicts = self._verdicts
        depth = source.depth + 1
        heed_nofollow = self._collection.respect_nofollow
        for target, _, rel, kind, _ in links:
            if kind not in _FOLLOWED:
                continue
            if rel and heed_nofollow and "nofollow" in rel:
                self.refused[Refusal.NOFOLLOW] += 1
                continue
            verdict = verdicts.get(target)
            if verdict is None:
                self.admit(target, depth, now_ms, referrer=source.id.url)
            elif isinstance(verdict, str):
                self.refused[verdict] += 1
            elif depth < verdict:
                self.admit(target, depth, now_ms, referrer=source.id.url)

    def redirect(self, source: UrlRow, target: str, now_ms: int) -> Refusal | None:
        """Admit the target of a redirect, at the source's own depth."""
        return self.admit(
            target,
            source.depth,
            now_ms,
            referrer=source.id.url,
            redirects=source.redirects + 1,
            redirect_from=source.redirect_from or source.id.url,
        )

    def admit(self, target: str, depth: int, now_ms: int, *, referrer: str, redirects: int = 0, redirect_from: str = "") -> Refusal | None:
        """Admit one normalised URL, or count why not."""
        if len(self._verdicts) >= _CACHED_LINKS:
            self._verdicts.clear()
        url = self._rules.apply(target)
        refusal = self._admission.refuse(url)
        if refusal is None:
            if self._collection.depth is not None and depth > self._collection.depth:
                self.refused[Refusal.DEPTH] += 1  # not cached: another page may lead there at less depth
                return Refusal.DEPTH
            refusal = self._enter(
                self._identifier.identify(url), depth, now_ms, referrer=referrer, redirects=redirects, redirect_from=redirect_from
            )
        if refusal is not None:
            self.refused[refusal] += 1
            self._verdicts[target] = refusal
            return refusal
        self._verdicts[target] = depth
        return None

    def take_refused(self) -> Counter[str]:
        """The links refused since the last call, by reason."""
        taken, self.refused = self.refused, Counter()
        return taken

    def refuses(self, row: UrlRow) -> Refusal | None:
        """Whether today's configuration would still admit a row (a narrower second call stops what an older one let in)."""
        refusal = self._admission.refuse(row.id.url)
        if refusal is Refusal.PATTERN and row.depth == 0:
            refusal = None  # a seed
        if refusal is None and self._collection.depth is not None and row.depth > self._collection.depth:
            return Refusal.DEPTH
        return refusal

    def _enter(self, identity: UrlId, depth: int, now_ms: int, *, referrer: str, redirects: int, redirect_from: str) -> Refusal | None:
        try:
            before = self._known.depth(identity)
        except KeyError:
            return Refusal.KEY_COLLISION
        if before is None:
            self._known.put(identity, depth)
            if self._frontier.host(identity.host_key) is None:
                self._frontier.open_host(self.new_host(identity, now_ms))
            row = UrlRow(
                identity,
                self._collection.name,
                depth,
                state_at=now_ms,
                first_seen_at=now_ms,
                referrer=referrer,
                redirects=redirects,
                redirect_from=redirect_from,
            )
            self._frontier.hosts[identity.host_key].row.known += 1
            self._frontier.add(row)
            self._admitted(row)
        elif depth < before:
            self._known.put(identity, depth)
            self._rise(identity, depth)
        return None

    def _rise(self, identity: UrlId, depth: int) -> None:
        """A known URL lies at less depth than was thought."""
        waiting = self._frontier.waiting(identity.url_key)
        row = waiting or self.in_flight.get(identity.url_key)
        if row is None:
            self._fallen(identity, depth)
            return
        row.depth = depth
        if waiting is not None and row.fails == 0:
            self._frontier.add(row)
        self._changed(row)

    def new_host(self, identity: UrlId, now_ms: int) -> HostRow:
        return HostRow(identity.host, identity.partition, identity.host_key, self._domains.registrable(identity.host), now_ms)


def redirect_link(location: str) -> Link:
    """The link that a redirect is, as it stands in `links`."""
    return Link(location, "", "", LinkKind.REDIRECT, 0)
