"""Access control: tokens, sessions, CSRF protection and rate limits.

Most tests use a route that exists only here and requires write access.
"""

from __future__ import annotations

import functools
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import Depends, FastAPI

from lycosa.commands.maintenance.tokens import OWNER, PREFIX, Tokens
from lycosa.config.serving import ServeSettings
from lycosa.core.errors import UsageError
from lycosa.serve.app import create_app
from lycosa.serve.web.access import COOKIE, GUESSES_A_MINUTE, Access
from lycosa.serve.web.concurrency import RequestKind, request_kind
from lycosa.serve.web.login import safe_path
from lycosa.serve.web.rate_limits import RateLimiter, is_loopback, network_of
from lycosa.store.coordination.owner import own
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import Workspace
from tests.cli.conftest import run
from tests.serve.client import FORM, Client

LIMITS = ServeSettings(rate=2, writes=3)


@pytest.fixture
def root(tmp_path: Path) -> str:
    Workspace.create(str(tmp_path / "w"))
    return str(tmp_path / "w")


@pytest.fixture
def tokens(root: str) -> Tokens:
    return Tokens(open_storage(root))


@pytest.fixture
def client(root: str) -> Client:
    """Application with routes for a change and for a new session."""
    app = create_app(root, dict, limits=LIMITS)
    access = Access(Tokens(open_storage(root)), LIMITS.writes)

    @app.post("/api/v1/change")
    def change(name: str = Depends(access.writer)) -> dict[str, str]:
        return {"by": name}

    @app.post("/session")
    def session(token: str) -> dict[str, str | None]:
        return {"cookie": access.open_session(token, "127.0.0.1")}

    return Client(app)


def post_change(client: Client, **headers: str) -> httpx.Response:
    return client.request(
        "POST",
        "/api/v1/change",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


@pytest.mark.proves("access-token-storage")
def test_a_token_is_shown_once_and_stored_as_a_digest(root: str, tokens: Tokens) -> None:
    token = tokens.add("ada")
    assert token.startswith(PREFIX)
    assert len(token) >= len(PREFIX) + 43
    file = Path(root) / "run" / "tokens" / "ada.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text()
    assert token.removeprefix(PREFIX) not in file.read_text()
    assert tokens.holder(token) == "ada"
    assert tokens.holder(token[:-1] + "!") is None
    assert tokens.holder("") is None
    assert tokens.holder("\ud800") is None


def test_invalid_and_duplicate_token_names_are_refused(tokens: Tokens) -> None:
    tokens.add("ada")
    for name in ("ada", "", "Ada", "../x", "a/b", "a" * 65, ".hidden"):
        with pytest.raises(UsageError):
            tokens.add(name)
    with pytest.raises(UsageError, match="no token 'bob'"):
        tokens.remove("bob")


def test_invalid_token_files_are_ignored(root: str, tokens: Tokens) -> None:
    token = tokens.add("ada")
    folder = Path(root) / "run" / "tokens"
    for name, content in (
        ("a.json", "{"),
        ("b.json", "[]"),
        ("c.json", json.dumps({"sha256": "é", "created_at": ""})),
        ("d", ""),
    ):
        (folder / name).write_text(content)
    assert tokens.holder(token) == "ada"
    assert tokens.holder("é") is None


def test_owner_secret_is_valid_while_the_owner_runs(root: str, tokens: Tokens) -> None:
    storage = open_storage(root)
    with own(storage, "test") as owner:
        assert tokens.holder("") is None  # the secret of an owner without an API is empty
        owner.publish("http://127.0.0.1:1", "secret")
        assert tokens.holder("secret") == OWNER
    assert tokens.holder("secret") is None


@pytest.mark.proves("access-token")
def test_writing_requires_a_token(client: Client, tokens: Tokens) -> None:
    token = tokens.add("ada")
    refused = post_change(client)
    assert (
        refused.status_code,
        refused.headers["www-authenticate"],
        refused.headers["content-type"],
    ) == (401, "Bearer", "application/problem+json")
    assert "lycosa token add" in refused.json()["title"]
    assert post_change(client, authorization=f"Bearer {token}").json() == {"by": "ada"}
    assert post_change(client, authorization=f"bearer {token}").json() == {"by": "ada"}
    assert post_change(client, authorization=f"Bearer {token}x").status_code == 401
    assert post_change(client, authorization=f"Basic {token}").status_code == 401


@pytest.mark.proves("access-token", "access-session")
def test_revoked_token_and_its_sessions_are_invalid(
    client: Client, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lycosa.commands.maintenance.tokens._KEPT_MS", 0)
    token = tokens.add("ada")
    cookie = client.request("POST", "/session", {"token": token}).json()["cookie"]
    other = Access(tokens)  # a process with another signing key
    assert other.open_session(token, "a") != cookie
    assert post_change(client, authorization=f"Bearer {token}").status_code == 200
    tokens.remove("ada")
    assert post_change(client, authorization=f"Bearer {token}").status_code == 401
    assert post_change(client, cookie=f"{COOKIE}={cookie}").status_code == 401
    tokens.add("ada")
    assert post_change(client, cookie=f"{COOKIE}={cookie}").status_code == 401, (
        "the session of a deleted token is not valid for a new token of that name"
    )


@pytest.mark.proves("access-csrf")
def test_sign_in_and_out_on_the_page(root: str, tokens: Tokens) -> None:
    token = tokens.add("ada")
    client = Client(create_app(root, dict))
    login = client.send("POST", "/login", f"token={token}&next=%2F%3Fq%3Dspider", FORM)
    assert (login.status_code, login.headers["location"]) == (303, "/?q=spider")
    set_cookie = login.headers["set-cookie"]
    assert "HttpOnly" in set_cookie
    assert "SameSite=strict" in set_cookie
    assert token not in set_cookie
    cookie = set_cookie.partition(";")[0]
    page = client.get("/login", headers={"cookie": cookie})
    assert "Signed in as ada" in page.text
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', page.text)
    assert csrf
    headers = {**FORM, "cookie": cookie}
    assert client.send("POST", "/logout", "", headers).status_code == 403
    body = f"csrf={csrf[1]}"
    cross_site = client.send("POST", "/logout", body, {**headers, "sec-fetch-site": "cross-site"})
    assert cross_site.status_code == 403
    logout = client.send("POST", "/logout", body, {**headers, "sec-fetch-site": "same-origin"})
    assert logout.status_code == 303
    assert f'{COOKIE}=""' in logout.headers["set-cookie"]


@pytest.mark.proves("access-session")
def test_forged_session_is_refused(client: Client, tokens: Tokens) -> None:
    cookie = client.request("POST", "/session", {"token": tokens.add("ada")}).json()["cookie"]
    until, name, signature = cookie.split(".")
    signed = f"{name}.{signature}"
    for forged in (
        f"{int(until) + 1}.{signed}",
        f"{until}.bob.{signature}",
        f"1.{signed}",
        "..",
        "",
        "%C3%A9.a.b",
        f"{'9' * 40}.a.b",
    ):
        assert post_change(client, cookie=f"{COOKIE}={forged}").status_code == 401


@pytest.mark.proves("access-rates")
def test_number_of_wrong_tokens_is_limited(client: Client, tokens: Tokens) -> None:
    token = tokens.add("ada")
    codes = [
        post_change(client, authorization="Bearer guess").status_code
        for _ in range(GUESSES_A_MINUTE + 3)
    ]
    assert codes == [401] * GUESSES_A_MINUTE + [429] * 3
    blocked = post_change(client, authorization=f"Bearer {token}")
    assert blocked.status_code == 429
    assert int(blocked.headers["retry-after"]) >= 1


@pytest.mark.proves("access-rates")
def test_write_rate_of_a_token_is_limited(client: Client, tokens: Tokens) -> None:
    token = tokens.add("ada")
    codes = [post_change(client, authorization=f"Bearer {token}").status_code for _ in range(5)]
    assert codes == [200, 200, 200, 429, 429]


@pytest.mark.proves("access-rates")
def test_request_rate_of_remote_readers_is_limited(client: Client) -> None:
    ipv4 = [client.request("GET", "/healthz", address="203.0.113.9").status_code for _ in range(60)]
    assert ipv4[:8] == [200] * 8
    assert 429 in ipv4
    ipv6_network = [
        client.request("GET", "/healthz", address=f"2001:db8::{n}").status_code
        for n in range(1, 61)
    ]
    assert ipv6_network[:8] == [200] * 8
    assert 429 in ipv6_network
    assert all(client.request("GET", "/healthz").status_code == 200 for _ in range(20))


def test_rate_limiter_returns_the_time_to_wait() -> None:
    now = [0.0]
    limiter = RateLimiter(0.5, 2, lambda: now[0])
    assert [limiter.take("a") for _ in range(3)] == [0, 0, 2]
    assert limiter.take("b") == 0
    now[0] = 1.0
    assert limiter.take("a") == 1
    now[0] = 2.0
    assert (limiter.wait("a"), limiter.take("a"), limiter.take("a")) == (0, 0, 2)
    unlimited = RateLimiter(0, 0)
    assert all(unlimited.take("a") == 0 for _ in range(9))


def test_number_of_limited_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lycosa.serve.web.rate_limits.MAX_ADDRESSES", 3)
    limiter = RateLimiter(1, 1, lambda: 0.0)
    for address in "abcd":
        assert limiter.take(address) == 0
    assert limiter.take("d") == 1
    assert limiter.take("a") == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::"),
        ("::1", "::1"),
        ("odd", "odd"),
    ],
)
def test_network_of_an_address(address: str, network: str) -> None:
    assert (network_of(address), is_loopback(address)) == (network, address == "::1")


@pytest.mark.parametrize("path", ["/watch", "/crawl/add", "/hunt/x/stop"])
def test_form_of_an_ended_session_offers_to_sign_in(client: Client, path: str) -> None:
    answer = client.send("POST", path, "texts=x", {**FORM, "accept": "text/html"})
    assert answer.status_code == 401
    assert "Your session has ended: sign in and repeat the action" in answer.text
    assert f'href="/login?next=%2F{path.split("/")[1]}"' in answer.text


def test_pages_with_forms_can_be_read_with_a_token(root: str, tokens: Tokens) -> None:
    headers = {"authorization": f"Bearer {tokens.add('ada')}"}
    client = Client(create_app(root, dict))
    for path in ("/watch", "/uptime", "/proposals", "/crawl/exclude?rule=host:a.test"):
        assert client.get(path, headers=headers).status_code == 200, path


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "",
        "evil",
        "/a\nb",
        "/" + "a" * 3000,
    ],
)
def test_redirect_after_sign_in_stays_on_this_server(target: str) -> None:
    assert safe_path(target) == "/"


def test_token_command(root: str, tokens: Tokens) -> None:
    token = functools.partial(run, "-w", root, "token")
    added = token("add", "ada")
    assert (added.code, tokens.holder(added.out.strip())) == (0, "ada")
    assert "cannot be shown again" in added.err
    assert token("add", "ada").code == 2
    listed = json.loads(token("list", "--json").out)
    assert [each["name"] for each in listed] == ["ada"]
    assert "sha256" not in listed[0]
    assert (token("remove", "ada").code, token("remove", "ada").code) == (0, 2)


PRIVATE = {
    "/api/v1/uptime": ("/uptime", "/uptime/of?name=x"),
    "/api/v1/uptime/outages": ("/uptime",),
    "/api/v1/watches": ("/watch",),
    "/api/v1/matches": ("/watch/matches?site=a.test",),
}
"""API route -> pages with the same content; both require a token."""

PRIVATE_PAGES = ("/crawl/exclude", "/proposals")
"""Pages that require a token and have no API route with the same content."""

OPEN_WRITES = {"/login", "/propose"}
"""Routes that change something and require no token."""


def _routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Yield method and path of every route, with `x` for parameters."""
    routers = [getattr(route, "original_router", None) for route in app.routes]
    for router in [app, *filter(None, routers)]:
        for route in router.routes:
            for method in (getattr(route, "methods", None) or set()) - {"HEAD"}:
                yield method, re.sub(r"{\w+}", "x", route.path)


@pytest.mark.proves("access-token")
def test_pages_and_api_require_a_token_for_the_same_routes(root: str, tokens: Tokens) -> None:
    key = {"Authorization": f"Bearer {tokens.add('reader')}"}
    app = create_app(root, dict, limits=ServeSettings(public_form=True))
    client = Client(app)
    routes = set(_routes(app))
    assert len(routes) > 80
    private = {page.partition("?")[0] for pages in PRIVATE.values() for page in pages}
    private |= {*PRIVATE, *PRIVATE_PAGES}
    for method, path in sorted(routes):
        status = client.request(method, path).status_code
        if method == "GET":
            expected = (401 if path.startswith("/api/") else 303) if path in private else None
        else:
            is_open = path in OPEN_WRITES or path.startswith("/api/v1/peer/")
            expected = None if is_open else 401
        if expected is not None:
            assert status == expected, (method, path)
        elif path not in {*OPEN_WRITES, "/language"}:
            assert status not in (303, 401), (method, path)
    slow = {
        path
        for kind, path in routes
        if kind != "GET" and request_kind(kind, path) is RequestKind.OTHER
    }
    assert slow == {
        "/api/v1/exclusions",
        "/crawl/exclude",
        "/api/v1/library/files",
        "/library/day",
    }
    for pages in PRIVATE.values():
        for page in pages:
            answer = client.get(page)
            assert answer.status_code == 303
            assert answer.headers["location"] == f"/login?{urlencode({'next': page})}"
    assert [client.get(path, headers=key).status_code for path in PRIVATE] == [200] * len(PRIVATE)
