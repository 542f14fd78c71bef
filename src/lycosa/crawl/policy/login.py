"""Log in by forms, before the first page and after the end of a session.

A login is a short series of exchanges with the priority of a robots.txt: they precede pages, obey
the host's clock, reserve the host meanwhile, and are archived. It requests the page with the form,
sends the form, and follows redirects on that origin. The last response shows whether it succeeded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from lycosa.config.credentials import FormLogin
from lycosa.core.errors import FetchError, Refusal
from lycosa.core.records import Exchange, Request, UrlRow, VisitKind
from lycosa.crawl.policy.outcome import REDIRECTS
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.fetch.auth import secret_from
from lycosa.fetch.login import FORM_TYPE, has_password_field, read_form
from lycosa.http.decode import decode_body, parse_head
from lycosa.url.normalise import LinkResolver, normalise
from lycosa.url.scope import url_origin

MAX_HOPS = 5
RETRY_MS = 60_000
"""Delay after a temporary failure, doubled by each further failure."""

REJECTED_MS = 30 * 60_000
"""The same after a rejection: repeated wrong passwords lock accounts."""

_MAX_MS = 86_400_000
_FORBIDDEN = "robots.txt or an exclusion forbids the form"


class LoginStep(Enum):
    """The state of a login."""

    OUT = "out"
    PAGE = "page"  # the page with the form is requested
    SENT = "sent"  # the form, or the target of its redirect, is requested
    IN = "in"


class Login:
    """One form of one collection."""

    def __init__(
        self, crawl: CrawlState, collection: str, settings: FormLogin, password: str
    ) -> None:
        self.url = normalise(settings.url)
        self.origin = url_origin(self.url)
        self.step = LoginStep.OUT
        self.next_try = 0  # monotonic
        self._crawl = crawl
        self._collection = collection
        self._settings = settings
        self._password = password
        self._body: bytes | None = None  # of the next request; None: a GET
        self._failures = 0
        self._served = False  # a page was fetched since the session began

    def begin(self) -> Task | None:
        """Return the first request, or None if none is allowed now.

        The origin's robots.txt must be in the cache.
        """
        if self.step is not LoginStep.OUT or self._crawl.clock.monotonic_ms() < self.next_try:
            return None
        if not self._allowed(self.url):
            return self._fail(REJECTED_MS, _FORBIDDEN)
        self.step, self._body = LoginStep.PAGE, None
        return self._task(self.url, 0)

    def request(self, task: Task, fields: tuple[tuple[str, str], ...]) -> Request:
        """Build the request of a task; `fields` are those of the collection's profile."""
        if self._body is None or task.hop:
            return Request(task.identity.url, task.kind, fields, task)
        fields = (*fields, ("Content-Type", FORM_TYPE), ("Origin", self.origin))
        return Request(task.identity.url, task.kind, fields, task, form=self._body)

    def process(self, exchange: Exchange, task: Task) -> Task | None:
        """Return the next request after a response; None if the login has ended.

        The cookies of the response must have been stored before.
        """
        if exchange.error or exchange.status >= 500 or exchange.status == 429:
            return self._fail(RETRY_MS, exchange.error or f"http_{exchange.status}")
        location = parse_head(exchange.response_head).get("location") or ""
        if exchange.status in REDIRECTS and location:
            return self._follow(exchange.url, location, task.hop + 1)
        payload = decode_body(exchange, self._crawl.config.fetch.max_decoded).payload
        if self.step is LoginStep.PAGE:
            return self._send(payload, exchange)
        if success := self._settings.success:
            if not _matches(success, payload):
                return self._fail(REJECTED_MS, "the page after the login does not match `success`")
        elif exchange.status >= 400:
            return self._fail(REJECTED_MS, f"http_{exchange.status}")
        elif has_password_field(payload):
            return self._fail(REJECTED_MS, "the page after the login has a password field")
        self.step, self._body = LoginStep.IN, None
        self._failures, self._served = 0, False
        self._crawl.failed_logins.discard((self._collection, self.origin))
        return None

    def notice(self, exchange: Exchange, row: UrlRow) -> None:
        """Check whether a page shows that the session has ended.

        If so, the exchange gets an error instead of a page, and a login is due.
        """
        if exchange.error or exchange.url == self.url:
            return
        # the page is the same after a login: it is the real content
        again = row.reason == FetchError.LOGGED_OUT
        if again or not self._is_logged_out(exchange):
            self._served = True
        elif self._served or self.step is not LoginStep.IN:
            exchange.fail(
                FetchError.LOGGED_OUT, "the page indicates that the session is not logged in"
            )
            if self.step is LoginStep.IN:
                self.step, self._body = LoginStep.OUT, None

    def _is_logged_out(self, exchange: Exchange) -> bool:
        if exchange.status in REDIRECTS:
            target = LinkResolver(exchange.url).resolve(
                parse_head(exchange.response_head).get("location") or ""
            )
            return (
                not isinstance(target, Refusal)
                and target.partition("?")[0] == self.url.partition("?")[0]
            )
        pattern = self._settings.logged_out
        return bool(pattern) and _matches(
            pattern, decode_body(exchange, self._crawl.config.fetch.max_decoded).payload
        )

    def _send(self, payload: bytes, exchange: Exchange) -> Task | None:
        settings = self._settings
        if exchange.status >= 400:
            return self._fail(REJECTED_MS, f"http_{exchange.status}")
        form = read_form(payload, exchange.url, settings.password_field)
        if form is None:
            return self._fail(
                REJECTED_MS, f"there is no form with the field {settings.password_field}"
            )
        if url_origin(form.action) != self.origin:
            return self._fail(REJECTED_MS, f"the form is sent to another site, {form.action}")
        if not self._allowed(form.action):
            return self._fail(REJECTED_MS, _FORBIDDEN)
        self.step = LoginStep.SENT
        self._body = form.filled({**settings.fields, settings.password_field: self._password})
        return self._task(form.action, 0)

    def _follow(self, url: str, location: str, hop: int) -> Task | None:
        target = LinkResolver(url).resolve(location)
        if self.step is LoginStep.SENT:  # after the response to the form, the next request is a GET
            self._body = None
        allowed = not isinstance(target, Refusal) and url_origin(target) == self.origin
        if not allowed or hop > MAX_HOPS or not self._allowed(str(target)):
            return self._fail(REJECTED_MS, f"the redirect to {location} is not followed")
        return self._task(str(target), hop)

    def _allowed(self, url: str) -> bool:
        """Return whether robots.txt and the operator's exclusions allow a URL."""
        return self._crawl.robots.allowed(url, self.origin) and not self._crawl.excluded(url)

    def _fail(self, wait_ms: int, why: str) -> Task | None:
        self.step, self._body = LoginStep.OUT, None
        wait_ms = min(wait_ms << min(self._failures, 12), _MAX_MS)
        self.next_try = self._crawl.clock.monotonic_ms() + wait_ms
        self._failures += 1
        self._crawl.failed_logins.add((self._collection, self.origin))
        self._crawl.progress.errors["login_failed"] += 1
        self._crawl.progress.fail(self.url, f"login_failed: {why}")
        return None

    def _task(self, url: str, hop: int) -> Task:
        identity = self._crawl.identifier.identify(url)
        return Task(
            identity, (), self.origin, VisitKind.LOGIN, hop=hop, collection=self._collection
        )


class LoginManager:
    """The logins of a worker's collections."""

    def __init__(self, crawl: CrawlState, environment: Mapping[str, str]) -> None:
        """
        Raises:
            ConfigError: a password is not in the environment.
            UrlError: the URL of a form cannot be used.
        """
        self._logins: dict[tuple[str, str], Login] = {}
        for name, assignment in crawl.assignments.items():
            for each in assignment.collection.login:
                password = secret_from(environment, each.password_env, "collection.login")
                login = Login(crawl, name, each, password)
                self._logins.setdefault((name, login.origin), login)

    def of(self, task: Task) -> Login:
        """Return the login that a task belongs to."""
        return self._logins[task.collection, task.origin]

    def due(self, rows: tuple[UrlRow, ...], origin: str) -> Login | None:
        """Return the login that must precede a page, or None.

        Collections with logins never share requests: `rows` has one element.
        """
        login = self._logins.get((rows[0].collection, origin))
        return login if login is not None and login.step is not LoginStep.IN else None

    def notice(self, exchange: Exchange, rows: tuple[UrlRow, ...]) -> None:
        """Check whether a page shows that the session has ended."""
        login = self._logins.get((rows[0].collection, url_origin(exchange.url)))
        if login is not None:
            login.notice(exchange, rows[0])


def _matches(pattern: str, payload: bytes) -> bool:
    return re.search(pattern, payload.decode("utf-8", "replace")) is not None
