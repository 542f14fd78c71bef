"""Logging in by forms: before the first page of an origin, and again when a page says that we are
logged out.

A log-in is a short row of exchanges that take the way of a robots.txt: urgent, by the host's clock,
the host held meanwhile, each one archived. It asks for the page with the form, sends it, and
follows redirects on that origin. What comes last says whether it worked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from lycosa.config.credentials import FormLogin
from lycosa.core.errors import FetchError, Refusal
from lycosa.core.records import Exchange, Request, UrlRow, VisitKind
from lycosa.crawl.policy.outcome import REDIRECTS
from lycosa.crawl.state.crawl_state import CrawlState
from lycosa.crawl.state.task import Task
from lycosa.fetch.auth import secret_from
from lycosa.fetch.login import FORM_TYPE, asks_for_password, read_form
from lycosa.http.decode import decode_body, parse_head
from lycosa.url.normalise import LinkResolver, normalise
from lycosa.url.scope import url_origin

MOST_HOPS = 5
RETRY_MS = 60_000
"""After a failure that may pass; doubled with each further one, like the next."""

REJECTED_MS = 30 * 60_000
"""After an answer that says no: a wrong password that is tried again and again locks accounts."""

_MAX_MS = 86_400_000


class LoginStep(Enum):
    """Where a log-in stands."""

    OUT = "out"
    PAGE = "page"  # the page with the form is asked for
    SENT = "sent"  # the form is sent, or what it redirected to is asked for
    IN = "in"


@dataclass(slots=True)
class Login:
    """One form of one collection, and how things stand."""

    collection: str
    settings: FormLogin
    url: str
    password: str = field(repr=False)
    step: LoginStep = LoginStep.OUT
    body: bytes | None = field(default=None, repr=False)  # of the next request; None: a GET
    next_try: int = 0  # monotonic
    failures: int = 0
    served: bool = False  # a page was fetched since we logged in

    def reset(self) -> None:
        """The session is logged out; the next page needs a login."""
        self.step, self.body = LoginStep.OUT, None

    def begin(self) -> None:
        """The page with the form is requested."""
        self.step, self.body = LoginStep.PAGE, None

    def send(self, body: bytes) -> None:
        """The form is sent."""
        self.step, self.body = LoginStep.SENT, body

    def clear_form(self) -> None:
        """The form was answered: the next request is a GET."""
        if self.step is LoginStep.SENT:
            self.body = None

    def succeed(self) -> None:
        """The session is logged in."""
        self.step, self.body, self.failures, self.served = LoginStep.IN, None, 0, False

    def fail(self, next_try: int) -> None:
        """The login failed; try again at that time at the earliest."""
        self.reset()
        self.next_try = next_try
        self.failures += 1

    def serve(self) -> None:
        """A page of the session was fetched."""
        self.served = True

    @property
    def origin(self) -> str:
        return url_origin(self.url)


class LoginManager:
    """The log-ins of a worker's collections."""

    def __init__(self, crawl: CrawlState, environment: Mapping[str, str]) -> None:
        """
        Raises:
            ConfigError: a password is not in the environment.
            UrlError: a form's URL cannot be used.
        """
        self._crawl = crawl
        self._logins: dict[tuple[str, str], Login] = {}
        for name, assignment in crawl.assignments.items():
            for each in assignment.collection.login:
                login = Login(
                    name,
                    each,
                    normalise(each.url),
                    secret_from(environment, each.password_env, "collection.login"),
                )
                self._logins.setdefault((name, login.origin), login)

    def due(self, rows: tuple[UrlRow, ...], origin: str) -> Login | None:
        """The log-in that must come before a page, or None. Such a collection is always fetched for
        itself: `rows` is one.
        """
        login = self._logins.get((rows[0].collection, origin)) if self._logins else None
        return login if login is not None and login.step is not LoginStep.IN else None

    def begin(self, login: Login) -> Task | None:
        """The first exchange of a log-in; None: not now. The origin's robots.txt must be known."""
        crawl = self._crawl
        if login.step is not LoginStep.OUT or crawl.clock.monotonic_ms() < login.next_try:
            return None
        if not self._allowed(login.url, login):
            self._failed(login, REJECTED_MS)
            return None
        login.begin()
        return self._task(login, login.url, 0)

    def request(self, task: Task, fields: tuple[tuple[str, str], ...]) -> Request:
        """What a task of ours asks for; `fields` as the collection's manners have it."""
        login = self._of(task)
        if login.body is None or task.hop:
            return Request(task.identity.url, task.kind, fields, task)
        origin = ("Origin", login.origin)
        return Request(
            task.identity.url,
            task.kind,
            (*fields, ("Content-Type", FORM_TYPE), origin),
            task,
            form=login.body,
        )

    def answered(self, exchange: Exchange, task: Task) -> Task | None:
        """Go on after an exchange; None: it is over, whether it worked or not. Cookies must have
        been taken in.
        """
        login = self._of(task)
        if exchange.error or exchange.status >= 500 or exchange.status == 429:
            return self._failed(login, RETRY_MS)
        location = parse_head(exchange.response_head).get("location") or ""
        if exchange.status in REDIRECTS and location:
            return self._follow(login, exchange.url, location, task.hop + 1)
        payload = decode_body(exchange, self._crawl.config.fetch.max_decoded).payload
        if login.step is LoginStep.PAGE:
            return self._send(login, payload, exchange)
        success = login.settings.success
        worked = (
            _says(success, payload)
            if success
            else exchange.status < 400 and not asks_for_password(payload)
        )
        if not worked:
            return self._failed(login, REJECTED_MS)
        login.succeed()
        return None

    def notice(self, exchange: Exchange, rows: tuple[UrlRow, ...]) -> None:
        """A page came: if it says that we are logged out, it is no page (`exchange.error`), and a
        log-in is due.
        """
        login = (
            self._logins.get((rows[0].collection, url_origin(exchange.url)))
            if self._logins
            else None
        )
        if login is None or exchange.error or exchange.url == login.url:
            return
        # we logged in for it, and it still says so: then that is what it says
        again = rows[0].reason == FetchError.LOGGED_OUT
        if again or not self._is_logged_out(login, exchange):
            login.serve()
        elif login.served or login.step is not LoginStep.IN:
            exchange.fail(
                FetchError.LOGGED_OUT, "the page indicates that the session is not logged in"
            )
            if login.step is LoginStep.IN:
                login.reset()

    def _is_logged_out(self, login: Login, exchange: Exchange) -> bool:
        if exchange.status in REDIRECTS:
            target = LinkResolver(exchange.url).resolve(
                parse_head(exchange.response_head).get("location") or ""
            )
            return (
                not isinstance(target, Refusal)
                and target.partition("?")[0] == login.url.partition("?")[0]
            )
        return bool(login.settings.logged_out) and _says(
            login.settings.logged_out,
            decode_body(exchange, self._crawl.config.fetch.max_decoded).payload,
        )

    def _send(self, login: Login, payload: bytes, exchange: Exchange) -> Task | None:
        settings = login.settings
        form = (
            read_form(payload, exchange.url, settings.password_field)
            if exchange.status < 400
            else None
        )
        if (
            form is None
            or url_origin(form.action) != login.origin
            or not self._allowed(form.action, login)
        ):
            return self._failed(login, REJECTED_MS)
        login.send(form.filled({**settings.fields, settings.password_field: login.password}))
        return self._task(login, form.action, 0)

    def _follow(self, login: Login, url: str, location: str, hop: int) -> Task | None:
        target = LinkResolver(url).resolve(location)
        login.clear_form()
        allowed = not isinstance(target, Refusal) and url_origin(target) == login.origin
        if not allowed or hop > MOST_HOPS or not self._allowed(str(target), login):
            return self._failed(login, REJECTED_MS)
        return self._task(login, str(target), hop)

    def _allowed(self, url: str, login: Login) -> bool:
        """Whether neither robots.txt nor the operator's exclusions forbid a URL of its origin."""
        return self._crawl.robots.allowed(url, login.origin) and not self._crawl.excluded(url)

    def _failed(self, login: Login, wait_ms: int) -> Task | None:
        wait_ms = min(wait_ms << min(login.failures, 12), _MAX_MS)
        login.fail(self._crawl.clock.monotonic_ms() + wait_ms)
        self._crawl.progress.errors["login_failed"] += 1
        return None

    def _task(self, login: Login, url: str, hop: int) -> Task:
        identity = self._crawl.identifier.identify(url)
        return Task(
            identity, (), login.origin, VisitKind.LOGIN, hop=hop, collection=login.collection
        )

    def _of(self, task: Task) -> Login:
        return self._logins[(task.collection, task.origin)]


def _says(pattern: str, payload: bytes) -> bool:
    return re.search(pattern, payload.decode("utf-8", "replace")) is not None
