"""From links to rows of the frontier: rules, scope, depth, and whether the URL is new.

This is a hot path (50 links per page): bench/crawl.py. Most links of a page also occur on the
previous page, so decisions are cached by the link's text and the costly steps run once per URL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from lycosa.config.settings import Collection
from lycosa.core.errors import Refusal, UrlError
from lycosa.core.records import FOLLOWED_KINDS, Link, LinkKind, UrlId, UrlRow
from lycosa.crawl.admission.remote_links import INBOX_LINK, Provenance, RemoteLinks
from lycosa.crawl.admission.url_filter import FilterResult
from lycosa.frontier.scheduler.reach import Reach
from lycosa.frontier.seen import SeenUrls
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise
from lycosa.url.rules import Rules
from lycosa.url.scope import Admission
from lycosa.url.traps import without_session

_CACHED_LINKS = 50_000  # 280 bytes each
_FOLLOWED = frozenset(kind.value for kind in FOLLOWED_KINDS)
_REQUISITES = frozenset({LinkKind.IMAGE.value, LinkKind.REQUISITE.value})
_NAMED = Provenance()


class AdmissionListener:
    """Receives the decisions of a collection's gate; this base does nothing."""

    def admitted(self, rows: Sequence[UrlRow]) -> None:
        """Handle new URLs, in the order of admission."""

    def depth_decreased(self, collection: str, identity: UrlId, depth: int) -> None:
        """Handle a shorter path to a known URL."""

    def linked(self, collection: str, identity: UrlId, source: str) -> None:
        """Handle a link from the page `source` to a known URL."""


class _KnownUrls:
    """The known URLs of one collection.

    New URLs are reported together, because most links of a page lead to one host.
    """

    def __init__(self, collection: str, seen: SeenUrls, listener: AdmissionListener) -> None:
        self._collection = collection
        self._seen = seen
        self._listener = listener
        self._new: list[UrlRow] = []  # not reported yet

    def depth(self, identity: UrlId) -> int | None:
        """Return the depth of a URL, None for a new one.

        Raises:
            KeyError: another URL has this key.
        """
        return self._seen.depth(identity)

    def add(self, identity: UrlId, depth: int, now_ms: int, provenance: Provenance) -> None:
        """Add a new URL."""
        self._seen.put(identity, depth, new=True)
        self._new.append(
            UrlRow(
                identity,
                self._collection,
                depth,
                state_at=now_ms,
                first_seen_at=provenance.first_seen_at or now_ms,
                referrer=provenance.referrer,
                redirects=provenance.redirects,
                redirect_from=provenance.redirect_from,
                priority=provenance.priority,
            )
        )

    def report(self) -> None:
        """Report the URLs that were added since the last call."""
        if self._new:
            rows, self._new = self._new, []
            self._listener.admitted(rows)

    def decrease_depth(self, identity: UrlId, depth: int) -> None:
        """Record and report a shorter path to a known URL."""
        self._seen.put(identity, depth)
        self.report()  # it may be among them
        self._listener.depth_decreased(self._collection, identity, depth)

    def link(self, identity: UrlId, source: str) -> None:
        """Report a link from the page `source` to a known URL."""
        self.report()
        self._listener.linked(self._collection, identity, source)


class LinkGate:
    """Decides which URLs one collection admits, and at which depth.

    `screen` (optional) returns for a new link the reason to refuse it (a trap, a type that cannot
    be indexed) and the URL to admit instead. `remote_links` (optional) sends URLs of remote
    partitions to their workers.
    """

    def __init__(
        self,
        collection: Collection,
        admission: Admission,
        identifier: Identifier,
        seen: SeenUrls,
        listener: AdmissionListener,
        *,
        screen: Callable[[str], FilterResult] | None = None,
        remote_links: RemoteLinks | None = None,
    ) -> None:
        self._collection = collection
        self._rules = Rules(collection)
        self.admission = admission
        self._identifier = identifier
        self._urls = _KnownUrls(collection.name, seen, listener)
        self._reports_links = collection.recrawled_on_link
        self._screen = screen
        self.remote_links = remote_links
        self._verdicts: dict[str, int | str] = {}
        self.depth_limit = collection.depth
        self._reach: Reach | None = None
        self.admitted_count = 0
        self.refused: Counter[str] = Counter()

    def restrict_to(self, reach: Reach) -> None:
        """Extend a walk by the links of its pages, without a depth limit."""
        self.depth_limit, self._reach = None, reach

    def refuse(self, reason: str, number: int = 1) -> None:
        """Count refused links."""
        self.refused[reason] += number

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Do not count links that are refused in this context."""
        before = self.refused.copy()
        yield
        self.refused = before

    def seed(self, url: str, now_ms: int) -> UrlId:
        """Admit a seed, at depth 0, if its partition is held here.

        It is not sent to other workers, because every worker has the seeds. `allow` and `deny`
        apply to links only: a seed may be a hub that they exclude.

        Raises:
            UrlError: the URL cannot be used.
        """
        identity = self._identifier.identify(self._rules.apply(normalise(url)))
        reason = self.admission.refuse(identity.url)
        if reason is not None and reason is not Refusal.PATTERN:
            raise UrlError(reason, url)
        refusal = self._enter(identity, 0, now_ms, _NAMED) if self.holds(identity) else None
        self._urls.report()
        if refusal is not None:
            raise UrlError(Refusal(refusal), url)
        return identity

    def holds(self, identity: UrlId) -> bool:
        """Return whether a URL's partition is held here."""
        return self.remote_links is None or self.remote_links.holds(identity.partition)

    def holds_target(self, target: str) -> bool:
        """Return whether the rewritten target of a link is in a held partition."""
        return self.remote_links is None or self.remote_links.holds(
            self._identifier.identify(self._rules.apply(target)).partition
        )

    def follow(self, source: UrlRow, links: Iterable[Link], now_ms: int) -> None:
        """Admit the link targets of a visited page, one level deeper."""
        if self._reach is not None:
            links = list(links)
            self.extend(source.id.url_key, self.followed(links), 1)
        verdicts = self._verdicts
        depth = source.depth + 1
        provenance = _NAMED
        respect_nofollow = self._collection.respect_nofollow
        for target, anchor, rel, kind, _ in links:
            if kind not in _FOLLOWED:
                if kind in _REQUISITES and self._collection.requisites:
                    # a part of the page: it has the page's depth
                    self._admit(target, source.depth, now_ms, Provenance(source.id.url, kind=kind))
                continue
            if rel and respect_nofollow and "nofollow" in rel:
                self.refused[Refusal.NOFOLLOW] += 1
                continue
            verdict = verdicts.get(target)
            if isinstance(verdict, str):
                self.refused[verdict] += 1
            elif verdict is None or depth < verdict or self._reports_links:
                if (
                    kind != provenance.kind or self.remote_links is not None
                ):  # only these need anchors
                    provenance = Provenance(source.id.url, anchor=anchor, kind=kind)
                self._admit(target, depth, now_ms, provenance)
        self._urls.report()

    def redirect(self, source: UrlRow, target: str, now_ms: int) -> str:
        """Admit the target of a redirect, at the source's own depth."""
        if self._reach is not None:
            self.extend(source.id.url_key, (target,), 0)
        provenance = Provenance(
            source.id.url,
            source.redirects + 1,
            source.redirect_from or source.id.url,
            kind=LinkKind.REDIRECT,
        )
        return self.admit(target, source.depth, now_ms, provenance)

    def admit(self, target: str, depth: int, now_ms: int, provenance: Provenance) -> str:
        """Admit one normalised URL. Return "", or the reason why it is refused.

        Refusals are counted. A known URL, or one in a remote partition, is not refused.
        """
        return self.admit_all(((target, provenance),), depth, now_ms)[0]

    def admit_all(
        self, targets: Iterable[tuple[str, Provenance]], depth: int, now_ms: int
    ) -> list[str]:
        """Apply `admit` to several URLs, and report the new ones together."""
        refusals = [
            self._admit(target, depth, now_ms, provenance) for target, provenance in targets
        ]
        self._urls.report()
        return refusals

    def _admit(self, target: str, depth: int, now_ms: int, provenance: Provenance) -> str:
        if len(self._verdicts) >= _CACHED_LINKS:
            self._verdicts.clear()
        url = self._rules.apply(target) if self._rules.active else target
        refusal: str | None = self.admission.refuse(url)
        if refusal is None:
            if self.depth_limit is not None and depth > self.depth_limit:
                # not cached: another page may link to it at less depth
                self.refused[Refusal.DEPTH] += 1
                return Refusal.DEPTH
            refusal = self._enter(self._identifier.identify(url), depth, now_ms, provenance)
        if refusal is not None:
            self.refused[refusal] += 1
            self._verdicts[target] = refusal
            return refusal
        self._verdicts[target] = depth
        return ""

    def receive(self, identity: UrlId, depth: int, now_ms: int, provenance: Provenance) -> str:
        """Admit a URL that another worker discovered, by this worker's settings.

        Returns the reason why it is refused, or "".
        """
        refusal: str | None = self.admission.refuse(identity.url)
        if refusal is Refusal.PATTERN and provenance.kind == INBOX_LINK:
            refusal = None
        if refusal is None and self.depth_limit is not None and depth > self.depth_limit:
            refusal = Refusal.DEPTH
        if refusal is None:
            refusal = self._enter(identity, depth, now_ms, provenance)
            self._urls.report()
        if refusal is not None:
            self.refused[refusal] += 1
        return refusal or ""

    def extend(self, source_key: int, targets: Iterable[str], step: int) -> list[UrlId]:
        """Record the link targets of a URL in a restricted walk.

        They are `step` links further from the start than the URL. Returns the URLs that are reached
        for the first time or by a shorter path.
        """
        distance = self._reach.distance(source_key) if self._reach is not None else None
        if self._reach is None or distance is None:
            return []
        admitted = []
        for target in targets:
            url = self._rules.apply(target)
            # A session ID is removed from a new link, but an older call may have admitted it.
            for form in {url, without_session(url)} if self._collection.traps else (url,):
                if self.admission.refuse(form) is None:
                    identity = self._identifier.identify(form)
                    if self._reach.put(identity.url_key, distance + step):
                        admitted.append(identity)
                        with suppress(KeyError):
                            if self._urls.depth(identity) is not None:
                                self._reach.wake(identity.host_key)
        return admitted

    def followed(self, links: Iterable[Link]) -> Iterator[str]:
        """Yield the targets of the links that a crawl follows from a page."""
        heeds = self._collection.respect_nofollow
        for target, _, rel, kind, _ in links:
            if kind in _FOLLOWED and not (heeds and rel and "nofollow" in rel):
                yield target

    def takes(self, url: str) -> bool:
        """Return whether a normalised URL is in the collection's scope."""
        return self.admission.refuse(url) in (None, Refusal.PATTERN)

    def rewrite(self, target: str) -> str:
        """Return a normalised link, rewritten by the collection's rules.

        Returns "" if the cache has a refusal of the link.
        """
        return "" if isinstance(self._verdicts.get(target), str) else self._rules.apply(target)

    def identify(self, url: str) -> UrlId:
        """Return the identity of a URL, rewritten by the collection's rules.

        Raises:
            UrlError: it cannot be used.
        """
        return self._identifier.identify(self._rules.apply(normalise(url)))

    def enter_imported(
        self, identity: UrlId, depth: int, now_ms: int, provenance: Provenance
    ) -> None:
        """Add the URL of an imported page, regardless of scope and depth.

        Raises:
            KeyError: another URL has this key.
        """
        before = self._urls.depth(identity)
        if before is None:
            self.admitted_count += 1
            self._urls.add(identity, depth, now_ms, provenance)
            self._urls.report()
        elif depth < before and provenance.referrer:
            self._urls.decrease_depth(identity, depth)

    def take_refused(self) -> Counter[str]:
        """Return the links refused since the last call, by reason."""
        counts, self.refused = self.refused, Counter()
        return counts

    def refuses(self, row: UrlRow) -> Refusal | None:
        """Return why the current configuration would not admit a row, or None.

        A call with narrower limits stops URLs that an earlier call admitted. A sitemap or feed is
        admitted if the page or robots.txt that named it is, or if the settings name it.
        """
        if row.operation:
            is_taken = not row.referrer or self.takes(row.referrer) or self.takes(row.id.url)
            return None if is_taken else Refusal.SCOPE
        refusal = self.admission.refuse(row.id.url)
        if refusal is Refusal.PATTERN and row.depth == 0:
            refusal = None  # a seed
        if refusal is None and self.depth_limit is not None and row.depth > self.depth_limit:
            return Refusal.DEPTH
        return refusal

    def _enter(
        self, identity: UrlId, depth: int, now_ms: int, provenance: Provenance
    ) -> str | None:
        if self.remote_links is not None and not self.remote_links.holds(identity.partition):
            return self._hand_on(self.remote_links, identity, depth, now_ms, provenance)
        try:
            before = self._urls.depth(identity)
        except KeyError:
            return Refusal.KEY_COLLISION
        if before is None:
            reason, instead = (
                self._screen(identity.url) if self._screen is not None and depth else ("", "")
            )
            if instead and not _redirects_to_itself(instead, provenance):
                return self._enter_instead(reason, instead, depth, now_ms, provenance)
            if reason and not instead:
                return reason
            self.admitted_count += 1
            self._urls.add(identity, depth, now_ms, provenance)
            return None
        if depth < before:
            self._urls.decrease_depth(identity, depth)
        if self._reports_links:
            self._urls.link(identity, provenance.referrer)
        return None

    def _enter_instead(
        self, reason: str, instead: str, depth: int, now_ms: int, provenance: Provenance
    ) -> str | None:
        """Count the refusal, and admit the other URL of the page."""
        self.refused[reason] += 1
        return self.admission.refuse(instead) or self._enter(
            self._identifier.identify(instead), depth, now_ms, provenance
        )

    def _hand_on(
        self,
        remote_links: RemoteLinks,
        identity: UrlId,
        depth: int,
        now_ms: int,
        provenance: Provenance,
    ) -> str | None:
        """Send a URL of a remote partition, if the pre-fetch filter allows.

        The owner of the partition decides whether the URL is new.
        """
        if depth and not remote_links.was_sent(identity):
            reason, instead = remote_links.screen(identity.url)
            if instead and not _redirects_to_itself(instead, provenance):
                return self._enter_instead(reason, instead, depth, now_ms, provenance)
            if reason and not instead:
                return reason
        self.admitted_count += remote_links.send(identity, depth, now_ms, provenance)
        return None


def _redirects_to_itself(instead: str, provenance: Provenance) -> bool:
    """Return whether the page redirects to itself with a session ID.

    Such a page has no other URL.
    """
    return provenance.redirects > 0 and instead == provenance.referrer
