"""Endpoints with bad redirects and endless pages, and hosts with a bad robots.txt."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from tests.servers.wire import (
    Behaviour,
    Endpoint,
    Expected,
    Wire,
    answer,
    page,
    raw,
    redirect,
    then_hang,
    then_reset,
)

CHAIN_HOPS = 12
_MOVED = Expected(status=302)


def _chain(wire: Wire) -> None:
    """Redirect `/redirect-chain?hop=N` to N + 1, up to `CHAIN_HOPS`."""
    hop = _number(wire, "hop")
    if hop >= CHAIN_HOPS:
        wire.send(answer(page("The end of the chain")))
    else:
        wire.send(answer(b"", b"Location: /redirect-chain?hop=%d" % (hop + 1), status=b"302 Found"))


def _number(wire: Wire, parameter: str) -> int:
    """Return the value of a parameter of the query; 0 without it."""
    return int(parse_qs(urlsplit(wire.path).query).get(parameter, ["0"])[0])


def _endless_chain(wire: Wire) -> None:
    location = b"Location: /redirect-endless?n=%d" % (_number(wire, "n") + 1)
    wire.send(answer(b"", location, status=b"307 Temporary Redirect"))


def _calendar(wire: Wire) -> None:
    """Link every month to the next and the previous one."""
    month = _number(wire, "month")
    links = "".join(
        f'<a href="/calendar?month={other}">month {other}</a> ' for other in (month - 1, month + 1)
    )
    wire.send(answer(page(f"Month {month}", links)))


def _deeper(wire: Wire) -> None:
    """Send a relative link that makes the path longer on every page."""
    last = wire.path.rstrip("/").rsplit("/", 1)[-1]
    wire.send(answer(page("Deeper", f'<a href="{last}/deeper">deeper</a>')))


def _elsewhere(wire: Wire) -> None:
    location = b"Location: " + wire.origins["good"].encode() + b"/page/1"
    wire.send(answer(b"", location, status=b"301 Moved Permanently"))


_REFRESH = b'<meta http-equiv=refresh content="0; url=/refresh-loop"><p>again'

REDIRECT_ENDPOINTS = (
    Endpoint("redirect-self", "a redirect to itself", redirect(b"/redirect-self"), _MOVED),
    Endpoint(
        "redirect-loop",
        "a redirect to a page that redirects back",
        redirect(b"/redirect-back"),
        _MOVED,
    ),
    Endpoint("redirect-back", "the other half of the loop", redirect(b"/redirect-loop"), _MOVED),
    Endpoint("redirect-chain", "twelve redirects, then a page", _chain, _MOVED),
    Endpoint("redirect-endless", "redirects without end", _endless_chain, Expected(status=307)),
    Endpoint(
        "redirect-private",
        "a redirect into a private network",
        redirect(b"http://10.0.0.1/"),
        _MOVED,
    ),
    Endpoint(
        "redirect-loopback",
        "a redirect to another port of this machine",
        redirect(b"http://127.0.0.1:1/"),
        _MOVED,
    ),
    Endpoint(
        "redirect-localhost",
        "a redirect to the name localhost",
        redirect(b"http://localhost:1/"),
        _MOVED,
    ),
    Endpoint(
        "redirect-metadata",
        "a redirect to a cloud's metadata service",
        redirect(b"http://169.254.169.254/latest/meta-data/"),
        _MOVED,
    ),
    Endpoint(
        "redirect-decimal",
        "loopback written as one number",
        redirect(b"http://2130706433:1/"),
        _MOVED,
    ),
    Endpoint(
        "redirect-mapped",
        "loopback as an IPv4-mapped IPv6 address",
        redirect(b"http://[::ffff:127.0.0.1]:1/"),
        _MOVED,
    ),
    Endpoint("redirect-file", "a redirect to a file", redirect(b"file:///etc/passwd"), _MOVED),
    Endpoint(
        "redirect-javascript", "a redirect to a script", redirect(b"javascript:alert(1)"), _MOVED
    ),
    Endpoint(
        "redirect-gopher",
        "a redirect to another protocol",
        redirect(b"gopher://127.0.0.1:6379/_FLUSHALL"),
        _MOVED,
    ),
    Endpoint(
        "redirect-nowhere",
        "a redirect without Location",
        raw(answer(b"moved", status=b"301 Moved Permanently")),
        Expected(status=301),
    ),
    Endpoint("redirect-empty", "a redirect with an empty Location", redirect(b""), _MOVED),
    Endpoint(
        "redirect-garbage", "an invalid URL as Location", redirect(b"http://[::bad/%zz"), _MOVED
    ),
    Endpoint(
        "redirect-twice",
        "two Locations",
        raw(answer(b"", b"Location: /page", b"Location: /other", status=b"302 Found")),
        Expected(status=0, error="bad_http"),
    ),
    Endpoint(
        "redirect-non-ascii", "raw UTF-8 in Location", redirect("/страница?q=é".encode()), _MOVED
    ),
    Endpoint("redirect-latin-1", "raw Latin-1 in Location", redirect(b"/caf\xe9"), _MOVED),
    Endpoint(
        "redirect-spaces", "white space in Location", redirect(b"  /a page with spaces  "), _MOVED
    ),
    Endpoint(
        "redirect-userinfo",
        "a password in Location",
        redirect(b"http://user:secret@127.0.0.1:1/"),
        _MOVED,
    ),
    Endpoint("redirect-long", "a Location of 50 KB", redirect(b"/" + b"long" * 12_500), _MOVED),
    Endpoint("redirect-fragment", "a fragment in Location", redirect(b"/calendar#part"), _MOVED),
    Endpoint(
        "redirect-elsewhere",
        "a redirect to the well-behaved host",
        _elsewhere,
        Expected(status=301),
    ),
    Endpoint(
        "refresh-loop",
        "a meta refresh to itself",
        raw(answer(_REFRESH)),
        Expected(payload=_REFRESH),
    ),
    Endpoint("calendar", "pages without end", _calendar, Expected()),
    Endpoint("deeper", "paths that grow without end", _deeper, Expected()),
)


@dataclass(frozen=True)
class RobotsHost:
    """A host whose robots.txt is bad; its pages `/` and `/page` are good.

    `status` and `error`: the outcome of the first request for /robots.txt. `allows`: whether
    `/page` may be fetched in the end.
    """

    name: str
    description: str
    behave: Behaviour
    status: int
    error: str
    allows: bool


def _text(body: bytes, content_type: bytes = b"text/plain") -> Behaviour:
    return raw(answer(body, content_type=content_type))


def _six_hops(wire: Wire) -> None:
    """Redirect six times, one hop more than is followed, to a file that forbids everything."""
    hop = _number(wire, "hop")
    if hop < 6:
        location = b"Location: /robots.txt?hop=%d" % (hop + 1)
        wire.send(answer(b"", location, status=b"301 Moved Permanently"))
    else:
        wire.send(answer(b"User-agent: *\nDisallow: /\n", content_type=b"text/plain"))


_LINE = b"Disallow: /no/%06d\n"
_LARGE = (
    b"User-agent: *\n"
    + b"".join(_LINE % number for number in range(600 * 1024 // len(_LINE % 0) + 1))
    + b"Disallow: /page\n"
)

ROBOTS_HOSTS = (
    RobotsHost(
        "robots-good",
        "a robots.txt that allows /page",
        _text(b"User-agent: *\nDisallow: /private\n"),
        200,
        "",
        True,
    ),
    RobotsHost(
        "robots-deny",
        "a robots.txt that forbids all",
        _text(b"User-agent: *\nDisallow: /\n"),
        200,
        "",
        False,
    ),
    RobotsHost(
        "robots-404", "no robots.txt", raw(answer(b"none", status=b"404 Not Found")), 404, "", True
    ),
    RobotsHost(
        "robots-403",
        "403 for robots.txt",
        raw(answer(b"no", status=b"403 Forbidden")),
        403,
        "",
        True,
    ),
    RobotsHost(
        "robots-429",
        "429 for the first request",
        raw(answer(b"", status=b"429 Too Many Requests")),
        429,
        "",
        False,
    ),
    RobotsHost(
        "robots-500",
        "500 for robots.txt",
        raw(answer(b"", status=b"500 Internal Server Error")),
        500,
        "",
        False,
    ),
    RobotsHost("robots-drop", "the connection closes", raw(b""), 0, "empty_reply", False),
    RobotsHost("robots-reset", "the connection is reset", then_reset(b""), 0, "reset", False),
    RobotsHost("robots-hang", "never answers", then_hang(b""), 0, "first_byte_timeout", False),
    RobotsHost("robots-hops", "six redirects", _six_hops, 301, "", True),
    RobotsHost("robots-loop", "a redirect to itself", redirect(b"/robots.txt"), 302, "", True),
    RobotsHost(
        "robots-large",
        "600 KiB, with the relevant rule at the end",
        _text(_LARGE),
        200,
        "",
        True,
    ),
    RobotsHost("robots-binary", "noise", _text(bytes(range(256)) * 100), 200, "", True),
    RobotsHost(
        "robots-html",
        "the front page instead of robots.txt",
        _text(page("Welcome"), b"text/html"),
        200,
        "",
        True,
    ),
    RobotsHost(
        "robots-bom",
        "a byte order mark first",
        _text(b"\xef\xbb\xbfUser-agent: *\nDisallow: /page\n"),
        200,
        "",
        False,
    ),
    RobotsHost(
        "robots-utf-16",
        "UTF-16 with a byte order mark",
        _text("User-agent: *\nDisallow: /page\n".encode("utf-16")),
        200,
        "",
        False,
    ),
    RobotsHost(
        "robots-cr",
        "lines that end in CR",
        _text(b"User-agent: *\rDisallow: /page\r"),
        200,
        "",
        False,
    ),
)
