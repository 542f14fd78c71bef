"""Request profiles of collections (language, referrer, cookies, credentials), and the requests that
are built from them.

A URL of several collections is fetched once for all of them only where their requests are equal.
A collection with cookies or credentials always fetches for itself, so that no other collection
receives what its password opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lycosa.config.settings import Collection
from lycosa.core.clock import Clock
from lycosa.core.records import Exchange, Request, UrlRow, VisitKind
from lycosa.crawl.policy.login import LoginManager
from lycosa.crawl.policy.outcome import conditions
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.fetch.auth import BasicCredentials, secret_from
from lycosa.fetch.cookies import CookieJar
from lycosa.hooks.plugins import Plugins
from lycosa.http.decode import parse_head
from lycosa.http.fields import without_sessions
from lycosa.url.domain import Domains
from lycosa.url.indexable import READ_TYPES, REQUISITE_TYPES, TEXT_TYPES, unindexable_type
from lycosa.url.normalise import normalise
from lycosa.url.scope import url_origin

Fields = tuple[tuple[str, str], ...]


@dataclass(slots=True, frozen=True)
class Manner:
    """Of one collection. `shared`: those with the same one are fetched together. `private`: answers
    may hold a session of ours.
    """

    shared: tuple[str, ...]
    language: str
    referer: bool
    jar: CookieJar | None
    credentials: BasicCredentials
    private: bool


class RequestProfiles:
    """Of all collections of a worker. Cookies are in memory alone: a restart begins without any,
    and logs in again.
    """

    def __init__(
        self,
        collections: Mapping[str, Collection],
        domains: Domains,
        clock: Clock,
        environment: Mapping[str, str],
        *,
        plugins: Plugins | None = None,
    ) -> None:
        """
        Raises:
            ConfigError: a password is not in the environment.
            UrlError: a URL of `auth` cannot be used.
        """
        self._clock = clock
        self._plugins = plugins if plugins is not None and plugins.has("request_headers") else None
        self._profiles = {
            name: _manner(each, domains, environment) for name, each in collections.items()
        }
        self.plain = self._plugins is None and all(
            each.shared == ("", "") for each in self._profiles.values()
        )

    def together(self, rows: tuple[UrlRow, ...]) -> tuple[tuple[UrlRow, ...], tuple[UrlRow, ...]]:
        """(rows of one URL that are fetched by one request, the others)."""
        if len(rows) == 1:
            return rows, ()
        first = self._profiles[rows[0].collection].shared
        same = tuple(row for row in rows if self._profiles[row.collection].shared == first)
        return same, tuple(row for row in rows if self._profiles[row.collection].shared != first)

    def fields(self, url: str, collection: str, referrer: str) -> Fields:
        """What a collection's request for a URL says beside the usual. Hot path."""
        manner = self._profiles[collection]
        fields = []
        if manner.language:
            fields.append(("Accept-Language", manner.language))
        if manner.referer and (referer := referer_for(referrer, url)):
            fields.append(("Referer", referer))
        if authorization := manner.credentials.header(url):
            fields.append(("Authorization", authorization))
        if manner.jar is not None and (cookies := manner.jar.header(url, self._clock.now_ms())):
            fields.append(("Cookie", cookies))
        if self._plugins is not None:
            fields += self._plugins.merged(
                "request_headers", url=url, collection=collection
            ).items()
        return tuple(fields)

    def robots_fields(self, url: str) -> Fields:
        """A robots.txt is asked for once for all; where only credentials open it, with those of any
        collection that has some for it.
        """
        profile_fields = next(
            (value for each in self._profiles.values() if (value := each.credentials.header(url))),
            "",
        )
        return (("Authorization", profile_fields),) if profile_fields else ()

    def received(self, exchange: Exchange, collection: str) -> None:
        """Keep the cookies of an answer; where a session may have been opened by a secret of ours,
        the archive does not get its name.
        """
        manner = self._profiles[collection]
        if not exchange.response_head or not (manner.jar is not None or manner.private):
            return
        if manner.jar is not None:
            manner.jar.store(
                exchange.url,
                parse_head(exchange.response_head).get_all("set-cookie"),
                self._clock.now_ms(),
            )
        if manner.private:
            exchange.replace_head(without_sessions(exchange.response_head))


def require_secrets(collections: Iterable[Collection], environment: Mapping[str, str]) -> None:
    """See before anything is begun that every password is at hand.

    Raises:
        ConfigError: one is not in the environment.
        UrlError: a URL of `auth` or `login` cannot be used.
    """
    for each in collections:
        BasicCredentials(each.auth, environment)
        for login in each.login:
            normalise(login.url)
            secret_from(environment, login.password_env, "collection.login")


def _manner(collection: Collection, domains: Domains, environment: Mapping[str, str]) -> Manner:
    private = bool(collection.auth or collection.login)
    keeps = collection.cookies or bool(collection.login)
    language = collection.accept_language or collection.language
    return Manner(
        shared=(collection.name, "own")
        if private or keeps
        else (language, "referer" if collection.referer else ""),
        language=language,
        referer=collection.referer,
        jar=CookieJar(domains) if keeps else None,
        credentials=BasicCredentials(collection.auth, environment),
        private=private,
    )


_LONGEST = 4_096
"""A longer one is cut to its origin (Referrer Policy section 8.3, step 5)."""


def referer_for(referrer: str, url: str) -> str:
    """What to say to `url` of the page that led there, both normalised; "" nothing."""
    if not referrer.startswith(("http://", "https://")) or not url.startswith(
        ("http://", "https://")
    ):
        return ""
    origin = url_origin(referrer)
    if origin == url_origin(url):
        return referrer if len(referrer) <= _LONGEST else f"{origin}/"
    if origin.startswith("https:") and url.startswith("http:"):
        return ""
    return f"{origin}/"


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
            return self._logins.of(task).request(task, fields)
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
