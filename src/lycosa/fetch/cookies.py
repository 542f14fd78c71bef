"""Cookies by the rules of browsers (RFC 6265).

The rules are those of its revision, draft-ietf-httpbis-rfc6265bis, "the draft" below.

Pure; never raises. A crawler has no windows and no scripts that read cookies, so SameSite and
HttpOnly restrict nothing here. Times are milliseconds since 1970. Memory is bounded by cookies per
registrable domain and by bytes; the least recently requested domain is removed first.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import count
from typing import NamedTuple
from urllib.parse import urlsplit

from lycosa.core.patterns import lazy_pattern
from lycosa.url.domain import Domains

MAX_BYTES = 4 * 2**20
MAX_A_DOMAIN = 180  # as in Chromium; the RFC requires at least 50
_MAX_COOKIE = 4_096  # name and value (section 5.6 of the draft)
_MAX_ATTRIBUTE = 1_024
# of a Cookie field; servers refuse longer heads, and libcurl sends no more either
_MAX_SENT = 8_190
_MAX_MS = 400 * 86_400_000  # section 5.5 of the draft
_OVERHEAD = 200  # estimated bytes of a cookie in addition to its text

_CONTROL = lazy_pattern(r"[\x00-\x08\x0a-\x1f\x7f]")
_IP = lazy_pattern(r"\[.*\]|\d{1,3}(?:\.\d{1,3}){3}")
_INTEGER = lazy_pattern(r"-?\d+")


class _Place(NamedTuple):
    """The identity of a cookie. A new cookie replaces one with the same."""

    name: str
    domain: str
    host_only: bool
    path: str


class _Cookie(NamedTuple):
    value: str
    secure: bool
    expires_at: int | None  # None: it does not expire before the jar is dropped
    born: int  # a number that grows


_Domain = dict[_Place, _Cookie]


class CookieJar:
    """One collection's cookies."""

    def __init__(self, domains: Domains, *, max_bytes: int = MAX_BYTES) -> None:
        self._domains = domains
        self._max_bytes = max_bytes
        # by registrable domain, least recently requested first
        self._held: OrderedDict[str, _Domain] = OrderedDict()
        self._bytes = 0
        self._serials = count(1)

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def store(self, url: str, lines: Iterable[str], now_ms: int) -> None:
        """Store the Set-Cookie fields of a response (section 5.7 of the draft)."""
        parts = urlsplit(url)
        host = _host(parts.hostname or "")
        secure = parts.scheme == "https"
        for line in lines:
            self._store(line, host, parts.path, secure, now_ms)

    def header(self, url: str, now_ms: int) -> str:
        """Return the value of the Cookie field for a request to `url`, or "".

        Section 5.8.3 of the draft.
        """
        if not self._held:
            return ""
        parts = urlsplit(url)
        host = _host(parts.hostname or "")
        key = self._domains.registrable(host)
        domain = self._held.get(key)
        if domain is None:
            return ""
        self._held.move_to_end(key)
        self._drop_expired(domain, now_ms)
        secure, path = parts.scheme == "https", parts.path or "/"
        cookies = [
            (-len(place.path), cookie.born, place.name, cookie.value)
            for place, cookie in domain.items()
            if (host == place.domain if place.host_only else domain_matches(host, place.domain))
            and path_matches(path, place.path)
            and (secure or not cookie.secure)
        ]
        text = ""
        for _, _, name, value in sorted(cookies):
            pair = f"{name}={value}" if name else value
            if len(text) + len(pair) + 2 > _MAX_SENT:
                break
            text = f"{text}; {pair}" if text else pair
        return text

    def _store(self, line: str, host: str, path: str, secure_url: bool, now_ms: int) -> None:
        if _CONTROL.search(line):
            return
        pair, _, rest = line.partition(";")
        name, equals, value = pair.partition("=")
        name, value = (name.strip(" \t"), value.strip(" \t")) if equals else ("", name.strip(" \t"))
        if not (name or value) or len(name.encode()) + len(value.encode()) > _MAX_COOKIE:
            return
        attributes = _attributes(rest)
        secure = "secure" in attributes
        domain = attributes.get("domain", "")
        host_only = True
        if domain and self._is_suffix(domain):
            if domain != host:
                return
        elif domain:
            if not domain_matches(host, domain):
                return
            host_only = False
        path_attribute = attributes.get("path", "")
        place = _Place(
            name,
            host if host_only else domain,
            host_only,
            path_attribute if path_attribute[:1] == "/" else _default_path(path),
        )
        if (secure and not secure_url) or (
            attributes.get("samesite", "").lower() == "none" and not secure
        ):
            return
        lowered = (name or value).lower()
        if lowered.startswith("__secure-") and not (secure and name):
            return
        if lowered.startswith("__host-") and not (
            secure and name and host_only and "domain" not in attributes and path_attribute == "/"
        ):
            return
        key = self._domains.registrable(host)
        held = self._held.get(key, {})
        if (
            not secure
            and not secure_url
            and any(_shadows(other, cookie, place) for other, cookie in held.items())
        ):
            return
        self._put(key, place, _Cookie(value, secure, _expiry(attributes, now_ms), 0), now_ms)

    def _put(self, key: str, place: _Place, cookie: _Cookie, now_ms: int) -> None:
        domain = self._held.setdefault(key, {})
        old = domain.pop(place, None)
        cookie = cookie._replace(born=old.born if old else next(self._serials))
        self._bytes -= _size(place, old) if old else 0
        if cookie.expires_at is None or cookie.expires_at > now_ms:
            domain[place] = cookie
            self._bytes += _size(place, cookie)
        if len(domain) > MAX_A_DOMAIN:
            self._drop_expired(domain, now_ms)
        while len(domain) > MAX_A_DOMAIN:
            victim = min(domain, key=lambda each: (domain[each].secure, domain[each].born))
            self._bytes -= _size(victim, domain.pop(victim))
        if not domain:
            del self._held[key]
        else:
            self._held.move_to_end(key)
        while self._bytes > self._max_bytes and len(self._held) > 1:
            _, gone = self._held.popitem(last=False)
            self._bytes -= sum(_size(*item) for item in gone.items())

    def _drop_expired(self, domain: _Domain, now_ms: int) -> None:
        for place in [
            place
            for place, each in domain.items()
            if each.expires_at is not None and each.expires_at <= now_ms
        ]:
            self._bytes -= _size(place, domain.pop(place))

    def _is_suffix(self, domain: str) -> bool:
        """Return whether a domain is a public suffix.

        Names below it are registrable domains.
        """
        name = f"x.{domain}"
        return not _IP.fullmatch(domain) and self._domains.registrable(name) == name


def domain_matches(host: str, domain: str) -> bool:
    """Return whether a host is a domain, or below it and not an address.

    Section 5.1.3 of the draft.
    """
    return host == domain or (host.endswith("." + domain) and not _IP.fullmatch(host))


def path_matches(path: str, cookie_path: str) -> bool:
    """Return whether a path is a cookie's path or below it (section 5.1.4)."""
    return path == cookie_path or (
        path.startswith(cookie_path)
        and (cookie_path.endswith("/") or path[len(cookie_path)] == "/")
    )


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name.lower()


def _default_path(path: str) -> str:
    """Return the default path of a cookie: the URL's folder (section 5.1.4)."""
    end = path.rfind("/")
    return path[:end] if path[:1] == "/" and end > 0 else "/"


def _attributes(text: str) -> dict[str, str]:
    """Return the attributes of a Set-Cookie field (section 5.6).

    The last of several attributes with one name applies. Invalid dates and ages are ignored.
    """
    attributes: dict[str, str] = {}
    for part in text.split(";"):
        name, _, value = part.partition("=")
        name, value = name.strip(" \t").lower(), value.strip(" \t")
        if len(value) > _MAX_ATTRIBUTE:
            continue
        if name == "domain":
            value = value.removeprefix(".").lower()
        elif (name == "max-age" and not _INTEGER.fullmatch(value)) or (
            name == "expires" and parse_cookie_date(value) is None
        ):
            continue
        attributes[name] = value
    return attributes


def _expiry(attributes: dict[str, str], now_ms: int) -> int | None:
    if "max-age" in attributes:
        digits = attributes["max-age"]
        return (
            0
            if digits[0] == "-" or not digits.strip("0")
            else now_ms + min(int(digits[:12]) * 1000, _MAX_MS)
        )
    at = parse_cookie_date(attributes["expires"]) if "expires" in attributes else None
    return None if at is None else min(at, now_ms + _MAX_MS)


def _shadows(place: _Place, cookie: _Cookie, new: _Place) -> bool:
    """Return whether a new cookie over plain http would hide a secure cookie.

    Section 5.7, step 16.
    """
    return (
        cookie.secure
        and place.name == new.name
        and (domain_matches(place.domain, new.domain) or domain_matches(new.domain, place.domain))
        and path_matches(new.path, place.path)
    )


def _size(place: _Place, cookie: _Cookie) -> int:
    return len(place.name) + len(place.domain) + len(place.path) + len(cookie.value) + _OVERHEAD


_DELIMITERS = lazy_pattern(r"[\x09\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = lazy_pattern(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\D.*)?", re.DOTALL)
_DAY = lazy_pattern(r"(\d{1,2})(?:\D.*)?", re.DOTALL)
_YEAR = lazy_pattern(r"(\d{2,4})(?:\D.*)?", re.DOTALL)
_MONTHS = {
    name: number
    for number, name in enumerate(re.findall("...", "janfebmaraprmayjunjulaugsepoctnovdec"), 1)
}


def parse_cookie_date(text: str) -> int | None:
    """Return a date in ms since 1970; None if the text is not a date."""
    clock: tuple[int, int, int] | None = None
    day = month = year = None
    for token in _DELIMITERS.split(text):
        if clock is None and (match := _TIME.fullmatch(token)):
            clock = (int(match[1]), int(match[2]), int(match[3]))
        elif day is None and (match := _DAY.fullmatch(token)):
            day = int(match[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS[token[:3].lower()]
        elif year is None and (match := _YEAR.fullmatch(token)):
            year = int(match[1])
    if clock is None or day is None or month is None or year is None:
        return None
    if 70 <= year <= 99:
        year += 1900
    elif year <= 69:
        year += 2000
    if year < 1601:
        return None
    try:
        at = datetime(year, month, day, *clock, tzinfo=UTC)
    except ValueError:
        return None
    return int(at.timestamp()) * 1000
