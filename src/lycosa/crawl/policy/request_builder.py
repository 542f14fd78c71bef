"""What a collection says to a server and hears from it: the request that goes out for a task,
cookies and log-ins in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lycosa.core.records import Exchange, Request, UrlRow, VisitKind
from lycosa.crawl.policy.login import LoginManager
from lycosa.crawl.policy.request_profiles import Fields, RequestProfiles
from lycosa.crawl.processing.revisits import conditions
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.url.indexable import READ_TYPES, REQUISITE_TYPES, TEXT_TYPES, unindexable_type
from lycosa.url.scope import url_origin


class RequestBuilder:
    """Makes the requests of one worker."""

    def __init__(
        self,
        crawl: CrawlState,
        profiles: RequestProfiles,
        logins: LoginManager,
        *,
        expects: Callable[[Task], bool] | None,
    ) -> None:
        """`expects`: whether the answer is to be rendered, so that a "not modified" would be of no
        use.
        """
        self._crawl, self._profiles, self._logins, self._expects = crawl, profiles, logins, expects
        self._read_types = READ_TYPES if crawl.config.crawl.documents else TEXT_TYPES
        # by the names of the collections that asked
        self._unwanted: dict[tuple[str, ...], Callable[[str], bool]] = {}
        # exchanges that are set aside, by their ids: what they say to us was taken in
        self._processed: set[int] = set()

    def of(self, task: Task) -> Request:
        """Hot path."""
        unwanted = self._unwanted_by(task.rows) if task.kind is VisitKind.PAGE else None
        fields: Fields = (
            () if self._expects is not None and self._expects(task) else conditions(task.rows)
        )
        if task.kind is VisitKind.REQUISITE:
            fields = (("Accept", "*/*"),)
            if url_origin(task.referrer) != task.origin:
                fields += (("Origin", url_origin(task.referrer)),)
        if not self._profiles.plain:
            if task.kind is VisitKind.ROBOTS:
                fields = self._profiles.robots_fields(task.identity.url)
            elif task.rows:
                fields += self._profiles.fields(
                    task.identity.url, task.rows[0].collection, task.rows[0].referrer
                )
            else:
                fields += self._profiles.fields(task.identity.url, task.collection, task.referrer)
        if task.kind is VisitKind.LOGIN:
            return self._logins.request(task, fields)
        return Request(task.identity.url, task.kind, fields, task, unwanted)

    def process_response(self, exchange: Exchange, task: Task) -> None:
        """Take what an answer says to the collection that asked: cookies, and whether it is logged
        in. Once for each answer.
        """
        if self._profiles.plain or task.kind is VisitKind.ROBOTS or id(exchange) in self._processed:
            return
        self._processed.add(id(exchange))
        self._profiles.received(exchange, task.rows[0].collection if task.rows else task.collection)
        if task.rows:
            self._logins.notice(exchange, task.rows)

    def forget(self, exchange: Exchange) -> None:
        """It is not going to be heard again."""
        self._processed.discard(id(exchange))

    def _unwanted_by(self, rows: tuple[UrlRow, ...]) -> Callable[[str], bool]:
        """Whether none of the collections wants an answer of a media type; the same object for the
        same collections.
        """
        names = tuple([row.collection for row in rows])
        unwanted = self._unwanted.get(names)
        if unwanted is None:
            collections = [self._crawl.assignments[name].collection for name in names]
            patterns = [
                each
                for collection in collections
                for each in collection.media_types or self._read_types
            ]
            if any(collection.requisites for collection in collections):
                patterns += REQUISITE_TYPES
            unwanted = self._unwanted[names] = partial(_no_type_of, patterns)
        return unwanted


def _no_type_of(patterns: Sequence[str], content_type: str) -> bool:
    return bool(unindexable_type(content_type, patterns))
