"""From links to rows of the frontier: rules, scope, depth, and whether the URL is new.

This is a hot path (50 links a page); `bench/crawl.py` guards it. Most links of a page were seen on
the page before, so the verdict on a link's text is kept in a bounded cache and the costly steps run
once a URL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from lycosa.config.settings import Collection
from lycosa.core.errors import Refusal, UrlError
from lycosa.core.records import FOLLOWED_KINDS, Link, LinkKind, UrlId, UrlRow
from lycosa.crawl.admission.remote_links import INBOX_LINK, RemoteLinks, Way
from lycosa.crawl.admission.url_filter import FilterResult
from lycosa.frontier.scheduler.reach import Reach
from lycosa.frontier.seen.seen_urls import SeenUrls
from lycosa.url.domain import Domains
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission
from lycosa.url.traps import without_session

_CACHED_LINKS = 50_000  # 280 bytes each
_FOLLOWED = frozenset(kind.value for kind in FOLLOWED_KINDS)
_REQUISITES = frozenset({LinkKind.IMAGE.value, LinkKind.REQUISITE.value})
_NAMED = Way()


class LinkGate:
    """Decides which URLs one collection takes, and at what depth each is known.

    `admitted` is called with every new row, `on_depth_decreased` with a known URL that turns out to
    lie at less depth than was thought, `linked` (if given) with a known URL that another link leads
    to, and the page that holds the link. `screen` (if given) is asked about each new link: whether
    it is refused (a trap, something that cannot be indexed), and what to take instead.
    `remote_links` (if given) hands on what lies in partitions that other workers hold; nothing else
    is done with it here.
    """

    def __init__(
        self,
        collection: Collection,
        seeds: Iterable[str],
        *,
        domains: Domains,
        identifier: Identifier,
        seen: SeenUrls,
        admitted: Callable[[UrlRow], None],
        on_depth_decreased: Callable[[UrlId, int], None],
        linked: Callable[[UrlId, str], None] | None = None,
        screen: Callable[[str], FilterResult] | None = None,
        remote_links: RemoteLinks | None = None,
        other_schemes: bool = False,
    ) -> None:
        self._collection = collection
        self._rules = Rules(collection)
        self._admission = Admission(collection, seeds, domains, other_schemes=other_schemes)
        self._identifier = identifier
        self._seen = seen
        self._admitted = admitted
        self._on_depth_decreased = on_depth_decreased
        self._linked = linked
        self._screen = screen
        self.remote_links = remote_links
        self._verdicts: dict[str, int | str] = {}
        self.depth_limit = collection.depth
        self.reach: Reach | None = None  # what a visited page within it leads to is within it too
        self.admitted_count = 0
        self.refused: Counter[str] = Counter()

    def seed(self, url: str, now_ms: int) -> UrlId:
        """Admit a URL that the operator named, at depth 0, if its partition is held here (it is
        nobody's to hand on: every worker has the seeds). `allow` and `deny` are for links: a seed
        may be a hub outside them.

        Raises:
            UrlError: it cannot be used.
        """
        identity = self._identifier.identify(self._rules.apply(normalise(url)))
        reason = self._admission.refuse(identity.url)
        if reason is not None and reason is not Refusal.PATTERN:
            raise UrlError(reason, url)
        refusal = self._enter(identity, 0, now_ms, _NAMED) if self.holds(identity) else None
        if refusal is not None:
            raise UrlError(Refusal(refusal), url)
        return identity

    def holds(self, identity: UrlId) -> bool:
        """Whether a URL's partition is held here."""
        return self.remote_links is None or self.remote_links.holds(identity.partition)

    def here(self, target: str) -> bool:
        """Whether a link leads, as the collection's rules write it, to a partition that is held
        here.
        """
        return self.remote_links is None or self.remote_links.holds(
            self._identifier.identify(self._rules.apply(target)).partition
        )

    def follow(self, source: UrlRow, links: Iterable[Link], now_ms: int) -> None:
        """Admit what the links of a visited page lead to, one deeper than the page."""
        if self.reach is not None:
            links = list(links)
            self.extend(
                source.id.url_key, (link.target for link in links if self._is_followed(link)), 1
            )
        verdicts = self._verdicts
        depth = source.depth + 1
        respect_nofollow = self._collection.respect_nofollow
        for target, anchor, rel, kind, _ in links:
            if kind not in _FOLLOWED:
                if kind in _REQUISITES and self._collection.requisites:
                    # a part of the page: as deep as it
                    self.admit(target, source.depth, now_ms, referrer=source.id.url, kind=kind)
                continue
            if rel and respect_nofollow and "nofollow" in rel:
                self.refused[Refusal.NOFOLLOW] += 1
                continue
            verdict = verdicts.get(target)
            if verdict is None:
                self.admit(target, depth, now_ms, referrer=source.id.url, anchor=anchor, kind=kind)
            elif isinstance(verdict, str):
                self.refused[verdict] += 1
            elif depth < verdict or self._linked is not None:
                self.admit(target, depth, now_ms, referrer=source.id.url, anchor=anchor, kind=kind)

    def redirect(self, source: UrlRow, target: str, now_ms: int) -> str:
        """Admit the target of a redirect, at the source's own depth."""
        if self.reach is not None:
            self.extend(source.id.url_key, (target,), 0)
        return self.admit(
            target,
            source.depth,
            now_ms,
            referrer=source.id.url,
            redirects=source.redirects + 1,
            redirect_from=source.redirect_from or source.id.url,
            kind=LinkKind.REDIRECT,
        )

    def admit(
        self,
        target: str,
        depth: int,
        now_ms: int,
        *,
        referrer: str,
        redirects: int = 0,
        redirect_from: str = "",
        anchor: str = "",
        kind: str = "",
        modified_at: int = 0,
    ) -> str:
        """Admit one normalised URL ("" if it is, or was, known, or is handed on), or count why not:
        the reason.

        `anchor`, `kind` and `modified_at` (ms since 1970, as a list says; 0: nothing) are told to
        the owner of another partition.
        """
        if len(self._verdicts) >= _CACHED_LINKS:
            self._verdicts.clear()
        url = self._rules.apply(target)
        refusal: str | None = self._admission.refuse(url)
        if refusal is None:
            if self.depth_limit is not None and depth > self.depth_limit:
                # not cached: another page may lead there at less depth
                self.refused[Refusal.DEPTH] += 1
                return Refusal.DEPTH
            way = Way(referrer, redirects, redirect_from, anchor, kind, modified_at)
            refusal = self._enter(self._identifier.identify(url), depth, now_ms, way)
        if refusal is not None:
            self.refused[refusal] += 1
            self._verdicts[target] = refusal
            return refusal
        self._verdicts[target] = depth
        return ""

    def receive(self, identity: UrlId, depth: int, now_ms: int, way: Way) -> str:
        """Admit a URL that another worker found, under today's settings of this one; the reason why
        not, or "".
        """
        refusal: str | None = self._admission.refuse(identity.url)
        if refusal is Refusal.PATTERN and way.kind == INBOX_LINK:
            refusal = None
        if refusal is None and self.depth_limit is not None and depth > self.depth_limit:
            refusal = Refusal.DEPTH
        if refusal is None:
            refusal = self._enter(identity, depth, now_ms, way)
        if refusal is not None:
            self.refused[refusal] += 1
        return refusal or ""

    def extend(self, source_key: int, targets: Iterable[str], step: int) -> list[UrlId]:
        """With a `reach`: note what a URL within it leads to, `step` links on. Returns what is
        reached now, or by a shorter way.
        """
        distance = self.reach.distance(source_key) if self.reach is not None else None
        if self.reach is None or distance is None:
            return []
        admitted = []
        for target in targets:
            url = self._rules.apply(target)
            # A session id is left out of a new link, and stands in what an older call admitted.
            for form in {url, without_session(url)} if self._collection.traps else (url,):
                if self._admission.refuse(form) is None:
                    identity = self._identifier.identify(form)
                    if self.reach.put(identity.url_key, distance + step):
                        admitted.append(identity)
                        if self._is_recorded(identity):
                            self.reach.wake(identity.host_key)
        return admitted

    def _is_recorded(self, identity: UrlId) -> bool:
        try:
            return self._seen.depth(identity) is not None
        except KeyError:
            return False

    def _is_followed(self, link: Link) -> bool:
        return link.kind in _FOLLOWED and not (
            self._collection.respect_nofollow and "nofollow" in link.rel
        )

    def takes(self, url: str) -> bool:
        """Whether a normalised URL lies in the collection's scope (nothing is counted)."""
        return self._admission.refuse(url) in (None, Refusal.PATTERN)

    def explain(self, url: str) -> str:
        """Return one line for people: what admits or refuses a normalised URL."""
        return self._admission.explain(url)

    def written(self, target: str) -> str:
        """A normalised link as the collection's rules write it; "" if it was refused, and that is
        remembered.
        """
        return "" if isinstance(self._verdicts.get(target), str) else self._rules.apply(target)

    @property
    def named_hosts(self) -> int:
        """How many hosts the seeds have."""
        return self._admission.named_hosts

    def is_named(self, url: str) -> bool:
        """Whether a URL that was taken lies on a host that the operator named."""
        return self._admission.is_named(url)

    def identify(self, url: str) -> UrlId:
        """The identity of a URL as this collection writes it.

        Raises:
            UrlError: it cannot be used.
        """
        return self._identifier.identify(self._rules.apply(normalise(url)))

    def bring(self, identity: UrlId, depth: int, now_ms: int, way: Way) -> bool:
        """Enter a URL whose page the operator brings along, whatever scope and depth say. False: it
        was known already.

        Raises:
            KeyError: another URL has this key.
        """
        before = self._seen.depth(identity)
        if before is not None:
            if depth < before and way.referrer:
                self._seen.put(identity, depth)
                self._on_depth_decreased(identity, depth)
            return False
        self._seen.put(identity, depth)
        self.admitted_count += 1
        self._admitted(
            UrlRow(
                identity,
                self._collection.name,
                depth,
                state_at=now_ms,
                first_seen_at=now_ms,
                referrer=way.referrer,
                redirects=way.redirects,
                redirect_from=way.redirect_from,
            )
        )
        return True

    def take_refused(self) -> Counter[str]:
        """The links refused since the last call, by reason."""
        counts, self.refused = self.refused, Counter()
        return counts

    def refuses(self, row: UrlRow) -> Refusal | None:
        """Whether today's configuration would still admit a row (a narrower second call stops what
        an older one let in).
        """
        refusal = self._admission.refuse(row.id.url)
        if refusal is Refusal.PATTERN and row.depth == 0:
            refusal = None  # a seed
        if refusal is None and self.depth_limit is not None and row.depth > self.depth_limit:
            return Refusal.DEPTH
        return refusal

    def _enter(self, identity: UrlId, depth: int, now_ms: int, way: Way) -> str | None:
        if self.remote_links is not None and not self.remote_links.holds(identity.partition):
            return self._hand_on(self.remote_links, identity, depth, now_ms, way)
        try:
            before = self._seen.depth(identity)
        except KeyError:
            return Refusal.KEY_COLLISION
        if before is None:
            reason, instead = (
                self._screen(identity.url) if self._screen is not None and depth else ("", "")
            )
            if instead and not _leads_back(instead, way):
                return self._enter_instead(reason, instead, depth, now_ms, way)
            if reason and not instead:
                return reason
            self._seen.put(identity, depth)
            row = UrlRow(
                identity,
                self._collection.name,
                depth,
                state_at=now_ms,
                first_seen_at=way.first_seen_at or now_ms,
                referrer=way.referrer,
                redirects=way.redirects,
                redirect_from=way.redirect_from,
                priority=way.priority,
            )
            self.admitted_count += 1
            self._admitted(row)
            return None
        if depth < before:
            self._seen.put(identity, depth)
            self._on_depth_decreased(identity, depth)
        if self._linked is not None:
            self._linked(identity, way.referrer)
        return None

    def _enter_instead(
        self, reason: str, instead: str, depth: int, now_ms: int, way: Way
    ) -> str | None:
        """The page is to be had under another URL: count why, and take that one."""
        self.refused[reason] += 1
        return self._admission.refuse(instead) or self._enter(
            self._identifier.identify(instead), depth, now_ms, way
        )

    def _hand_on(
        self, remote_links: RemoteLinks, identity: UrlId, depth: int, now_ms: int, way: Way
    ) -> str | None:
        """A URL of another worker's partition: screened by its text, then a found row. Its owner
        knows whether it is new.
        """
        if depth and not remote_links.was_sent(identity):
            reason, instead = remote_links.screen(identity.url)
            if instead and not _leads_back(instead, way):
                return self._enter_instead(reason, instead, depth, now_ms, way)
            if reason and not instead:
                return reason
        self.admitted_count += remote_links.send(identity, depth, now_ms, way)
        return None


def _leads_back(instead: str, way: Way) -> bool:
    """A page that redirects to itself with a session has no other URL."""
    return way.redirects > 0 and instead == way.referrer


def redirect_link(location: str) -> Link:
    """The link that a redirect is, as it stands in `links`."""
    return Link(location, "", "", LinkKind.REDIRECT, 0)
