"""Request profiles of collections, and requests that are built from them.

A profile has language, referrer, cookies and credentials. A URL of several collections is fetched
once for those with equal requests. A collection with cookies or credentials always fetches for
itself, so that no other collection receives content that needed its password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from lycosa.config.settings import Collection
from lycosa.core.clock import Clock
from lycosa.core.dataclass import dataclass
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
from lycosa.url.file_types import READ_TYPES, REQUISITE_TYPES, TEXT_TYPES, unindexable_type
from lycosa.url.normalise import normalise
from lycosa.url.scope import url_origin

Fields = tuple[tuple[str, str], ...]


@dataclass(slots=True, frozen=True)
class RequestProfile:
    """The request profile of one collection.

    Collections with equal `shared` are fetched together. `private`: responses may contain a session
    of this crawler.
    """

    shared: tuple[str, ...]
    language: str
    referer: bool
    jar: CookieJar | None
    credentials: BasicCredentials
    private: bool


class RequestProfiles:
    """The profiles of a worker's collections.

    Cookies are in memory only: after a restart there are none, and logins are repeated.
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
            name: _profile(each, domains, environment) for name, each in collections.items()
        }
        self.plain = self._plugins is None and all(
            each.shared == ("", "") for each in self._profiles.values()
        )

    def together(self, rows: tuple[UrlRow, ...]) -> tuple[tuple[UrlRow, ...], tuple[UrlRow, ...]]:
        """Return the rows of one URL that share a request, and the others."""
        if len(rows) == 1:
            return rows, ()
        first = self._profiles[rows[0].collection].shared
        same = tuple(row for row in rows if self._profiles[row.collection].shared == first)
        return same, tuple(row for row in rows if self._profiles[row.collection].shared != first)

    def fields(self, url: str, collection: str, referrer: str) -> Fields:
        """Return the header fields that a collection adds to a request. Hot path."""
        profile = self._profiles[collection]
        fields = []
        if profile.language:
            fields.append(("Accept-Language", profile.language))
        if profile.referer and (referer := referer_for(referrer, url)):
            fields.append(("Referer", referer))
        if authorization := profile.credentials.header(url):
            fields.append(("Authorization", authorization))
        if profile.jar is not None and (cookies := profile.jar.header(url, self._clock.now_ms())):
            fields.append(("Cookie", cookies))
        if self._plugins is not None:
            fields += self._plugins.merged(
                "request_headers", url=url, collection=collection
            ).items()
        return tuple(fields)

    def robots_fields(self, url: str) -> Fields:
        """Return the header fields of a request for robots.txt.

        It is sent once for all collections, with the credentials of one that has any for the URL.
        """
        profile_fields = next(
            (value for each in self._profiles.values() if (value := each.credentials.header(url))),
            "",
        )
        return (("Authorization", profile_fields),) if profile_fields else ()

    def received(self, exchange: Exchange, collection: str) -> None:
        """Store the cookies of a response.

        If the response may contain the ID of a session, the ID is removed before archiving.
        """
        profile = self._profiles[collection]
        if not exchange.response_head or not (profile.jar is not None or profile.private):
            return
        if profile.jar is not None:
            profile.jar.store(
                exchange.url,
                parse_head(exchange.response_head).get_all("set-cookie"),
                self._clock.now_ms(),
            )
        if profile.private:
            exchange.replace_head(without_sessions(exchange.response_head))


def require_secrets(collections: Iterable[Collection], environment: Mapping[str, str]) -> None:
    """Check that every password is in the environment. Call it at the start.

    Raises:
        ConfigError: a password is not in the environment.
        UrlError: a URL of `auth` or `login` cannot be used.
    """
    for each in collections:
        BasicCredentials(each.auth, environment)
        for login in each.login:
            normalise(login.url)
            secret_from(environment, login.password_env, "collection.login")


def _profile(
    collection: Collection, domains: Domains, environment: Mapping[str, str]
) -> RequestProfile:
    private = bool(collection.auth or collection.login)
    keeps = collection.cookies or bool(collection.login)
    language = collection.accept_language or collection.language
    return RequestProfile(
        shared=(collection.name, "own")
        if private or keeps
        else (language, "referer" if collection.referer else ""),
        language=language,
        referer=collection.referer,
        jar=CookieJar(domains) if keeps else None,
        credentials=BasicCredentials(collection.auth, environment),
        private=private,
    )


_MAX_REFERRER = 4_096
"""Longer ones are cut to the origin (Referrer Policy section 8.3, step 5)."""


def referer_for(referrer: str, url: str) -> str:
    """Return the Referer for `url` after `referrer`, both normalised; "": none."""
    if not referrer.startswith(("http://", "https://")) or not url.startswith(
        ("http://", "https://")
    ):
        return ""
    origin = url_origin(referrer)
    if origin == url_origin(url):
        return referrer if len(referrer) <= _MAX_REFERRER else f"{origin}/"
    if origin.startswith("https:") and url.startswith("http:"):
        return ""
    return f"{origin}/"


class RequestBuilder:
    """Builds the requests of one worker."""

    def __init__(
        self,
        crawl: CrawlState,
        profiles: RequestProfiles,
        logins: LoginManager,
        *,
        expects: Callable[[Task], bool] | None,
    ) -> None:
        """`expects`: whether a response will be rendered; then without conditions."""
        self._crawl, self._profiles, self._logins, self._expects = crawl, profiles, logins, expects
        self._read_types = READ_TYPES if crawl.config.crawl.documents else TEXT_TYPES
        # by the names of the requesting collections
        self._unwanted: dict[tuple[str, ...], Callable[[str], bool]] = {}
        # `id` of exchanges with stored cookies, which are processed later
        self._processed: set[int] = set()

    def of(self, task: Task) -> Request:
        """Return the request of a task. Hot path."""
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
        """Store the cookies of a response; check whether the session has ended.

        Repeated calls for a response do nothing.
        """
        if self._profiles.plain or task.kind is VisitKind.ROBOTS or id(exchange) in self._processed:
            return
        self._processed.add(id(exchange))
        self._profiles.received(exchange, task.rows[0].collection if task.rows else task.collection)
        if task.rows:
            self._logins.notice(exchange, task.rows)

    def forget(self, exchange: Exchange) -> None:
        """Forget an exchange that will not be processed again."""
        self._processed.discard(id(exchange))

    def _unwanted_by(self, rows: tuple[UrlRow, ...]) -> Callable[[str], bool]:
        """Return a test for media types that none of the collections stores.

        It is the same object for the same collections.
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
