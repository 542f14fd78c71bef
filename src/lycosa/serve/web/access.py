"""Access control: changes need a token in the Authorization header, or a session that was opened
with one.

Programs send `Authorization: Bearer TOKEN` (RFC 6750). A person types the token once on the page
`/login` and gets a session: a signed cookie that scripts cannot read and that browsers send only to
pages of this site (`HttpOnly`, `SameSite=Strict`). A request with the cookie must have the
session's CSRF token as well, in the form field `csrf` or the header `X-CSRF-Token`, and must not
come from another site by `Sec-Fetch-Site`. A route that changes something has the dependency
`Depends(access.writer)`; a protected one `Depends(access.reader)`, for pages and API: programs get
401, browsers the page `/login`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import Request
from starlette.exceptions import HTTPException

from lycosa.commands.maintenance.tokens import OWNER, Tokens
from lycosa.serve.web.rate_limits import RateLimiter, network_of
from lycosa.serve.web.request_bodies import form_fields

COOKIE = "lycosa_session"
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
SESSION_S = 12 * 3600.0
GUESSES_A_MINUTE = 10
"""Wrong tokens that one address may try; then all of its attempts are refused for a while."""

_TOKEN_NEEDED = (
    "A token is required: create one with `lycosa token add NAME` and send it as "
    "`Authorization: Bearer …`"
)


@dataclass(slots=True, frozen=True)
class Session:
    """A signed-in user: the token's name, and the text forms send back."""

    name: str
    csrf: str


def new_key() -> bytes:
    """Return a key that signs sessions."""
    return secrets.token_bytes(32)


class Access:
    """Checks tokens and sessions. Threads may share it; several processes that serve one workspace
    share the `key` that signs sessions.
    """

    def __init__(self, tokens: Tokens, writes_a_minute: int = 600, key: bytes = b"") -> None:
        self._tokens = tokens
        self._key = key or new_key()
        self._guesses = RateLimiter(GUESSES_A_MINUTE / 60, GUESSES_A_MINUTE)
        self._writes = RateLimiter(writes_a_minute / 60, writes_a_minute)

    async def writer(self, request: Request) -> str:
        """Return the name of the account that requests a change. A dependency.

        Raises:
            HTTPException: 401, 403 or 429.
        """
        bearer = self._bearer(request)
        if bearer is not None:
            name = bearer
        else:
            session = self.session(request)
            if session is None:
                if request.url.path.startswith("/api/"):
                    raise _unauthorised(_TOKEN_NEEDED)
                raise _unauthorised("Your session has ended: sign in and repeat the action")
            await _require_own_form(request, session)
            name = session.name
        if name != OWNER and (wait_s := self._writes.take(name)):
            raise HTTPException(
                429, "Too many changes in a short time", {"Retry-After": str(wait_s)}
            )
        return name

    async def reader(self, request: Request) -> str:
        """Return the name of the account that reads protected pages. A dependency.

        Raises:
            HTTPException: 401 or 429; 303 for pages, to the page of signing in.
        """
        name = self._bearer(request)
        if name is None:
            session = self.session(request)
            name = session.name if session is not None else None
        if name is not None:
            return name
        if request.url.path.startswith("/api/"):
            raise _unauthorised("This page requires a token")
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        raise HTTPException(303, headers={"Location": f"/login?{urlencode({'next': path})}"})

    def require_bearer(self, request: Request) -> str:
        """Return the name of the token in the Authorization header.

        Raises:
            HTTPException: 401 or 429.
        """
        name = self._bearer(request)
        if name is None:
            raise _unauthorised(_TOKEN_NEEDED)
        return name

    def is_signed_in(self, request: Request) -> bool:
        """Return whether a request has a valid token or session. Counts no failed attempts and
        raises nothing.
        """
        token = _bearer_token(request)
        if token is not None:
            return self._tokens.holder(token) is not None
        return self.session(request) is not None

    def open_session(self, token: str, address: str) -> str | None:
        """Open a session for a token; return the cookie's value.

        None: the token is invalid.

        Raises:
            HTTPException: 429, too many wrong ones from that address.
        """
        name = self._holder(token, address)
        if name is None:
            return None
        payload = f"{int(time.time() + SESSION_S)}.{name}"
        return f"{payload}.{self._sign(payload, name)}"

    def session(self, request: Request) -> Session | None:
        """Return the session of a request's cookie; None if it is missing, expired or of a revoked
        token.
        """
        payload, _, signature = request.cookies.get(COOKIE, "").rpartition(".")
        until, _, name = payload.partition(".")
        if not signature.isascii() or not until.isdecimal() or int(until[:12]) < time.time():
            return None
        if not hmac.compare_digest(self._sign(payload, name), signature):
            return None
        return Session(name, self._csrf(payload))

    def _bearer(self, request: Request) -> str | None:
        token = _bearer_token(request)
        if token is None:
            return None
        name = self._holder(token, address_of_client(request))
        if name is None:
            raise _unauthorised("This token is unknown or was revoked")
        return name

    def _holder(self, token: str, address: str) -> str | None:
        if wait_s := self._guesses.wait(address):
            raise HTTPException(429, "Too many wrong tokens", {"Retry-After": str(wait_s)})
        name = self._tokens.holder(token)
        if name is None:
            self._guesses.take(address)
        return name

    def _sign(self, payload: str, name: str) -> str:
        """Sign with the token's digest, so that a session ends with its token."""
        token = self._tokens.all().get(name)
        return hmac.new(
            self._key,
            f"session {payload} {token.sha256 if token else secrets.token_hex()}".encode(),
            hashlib.sha256,
        ).hexdigest()

    def _csrf(self, payload: str) -> str:
        return hmac.new(self._key, f"csrf {payload}".encode(), hashlib.sha256).hexdigest()


def _bearer_token(request: Request) -> str | None:
    """Return the token in the Authorization header; None without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def address_of_client(request: Request) -> str:
    """Return the network of a client (see `network_of`)."""
    return network_of(request.client.host if request.client else "")


def require_same_site(request: Request) -> None:
    """Refuse requests that browsers send for another site (Fetch Metadata).

    Raises:
        HTTPException: 403, it is from another site.
    """
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "This request came from another web site")


async def _require_own_form(request: Request, session: Session) -> None:
    require_same_site(request)
    csrf = request.headers.get(CSRF_HEADER)
    if csrf is None:
        csrf = (await form_fields(request)).get(CSRF_FIELD)
    if csrf is None or not hmac.compare_digest(csrf.encode(), session.csrf.encode()):
        raise HTTPException(403, "The form has expired or is invalid: reload the page")


def _unauthorised(detail: str) -> HTTPException:
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}
    return HTTPException(401, detail, dict(headers))
