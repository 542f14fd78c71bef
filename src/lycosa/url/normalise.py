"""URLs parsed as browsers parse them (WHATWG URL Standard, by ada) and written in one form with the
same meaning.

Beyond the standard's own serialisation, `normalise` only drops the fragment, which never reaches a
server, and the userinfo, which is never sent, and writes percent-encoding in one way (RFC 3986
sections 2.1, 2.3 and 6.2.2: upper-case digits, no encoded ALPHA DIGIT - . _ ~). Rules that might
change the meaning are opt-in (`lycosa.url.rules`). URLs of ftp and gopher are finished in
`lycosa.url.files`.
"""

from __future__ import annotations

import re

import ada_url

from lycosa.core.errors import Refusal, UrlError
from lycosa.url.files import finish_ftp, finish_gopher
from lycosa.url.query_encoding import codec_for, encode_query
from lycosa.url.schemes import path_start

NORMALISER_VERSION = 1
"""Stored in a workspace: keys made by another version may differ."""

MAX_URL_LENGTH = 4_096
"""Characters of a normalised URL. Longer ones are refused everywhere: as links, seeds, options and
parameters of the API.
"""

_SCHEMES = ("http", "https", "ftp", "gopher")
_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.\-\t\n\r]*):")
_HOST = re.compile(r"([\w.-]+|\[[\da-fA-F:.]+\])(:\d+)?([/?#]|$)")
_SURROGATE = re.compile("[\ud800-\udfff]")

# An escape, and before it the rest of a broken one: in `%%34` or `%2%45` decoding would
# complete a new escape.
_ESCAPE = re.compile(r"(%[0-9A-Fa-f]?)?%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_DIGITS = "0123456789ABCDEFabcdef"
_WRITTEN = {
    high + low: chr(int(high + low, 16))
    if int(high + low, 16) in _UNRESERVED
    else f"%{high}{low}".upper()
    for high in _DIGITS
    for low in _DIGITS
}


def typed_url(text: str) -> str:
    """Return a URL as people type it with a scheme: `example.org/x` and `localhost:8000` are http
    URLs. Other texts, such as `mailto:x@y`, are returned unchanged.
    """
    return f"http://{text.strip()}" if _HOST.match(text.strip()) else text


def normalise(url: str) -> str:
    """Return the normalised form of an absolute URL of a crawled scheme. Idempotent; the result is
    ASCII, has a path and no fragment.

    Raises:
        UrlError: `scheme` (not a crawled one), `too_long` (over MAX_URL_LENGTH),
        else `unparsable`.
    """
    result = _resolve(None, url)
    if isinstance(result, Refusal):
        raise UrlError(result, url)
    return result


def _resolve(base: str | None, text: str) -> str | Refusal:
    """Parse any text (WHATWG "basic URL parser", with or without a base) and normalise it."""
    stated = _SCHEME.match(text)
    scheme = _scheme(stated[1]) if stated else ""
    if stated and scheme not in _SCHEMES:
        return Refusal.SCHEME  # before the length: inlined data: images are long
    if len(text) > MAX_URL_LENGTH:
        return Refusal.TOO_LONG
    if scheme == "gopher":
        # its path is no path: the standard's parser would take dots out of a selector
        return _bounded(finish_gopher(text))
    try:
        href: str = ada_url.normalize_url(text) if base is None else ada_url.join_url(base, text)
    except ValueError:
        if _SURROGATE.search(text) is None:
            return Refusal.UNPARSABLE
        return _resolve(base, _scalar_values(text))
    if href[0] != "h":
        return _bounded(finish_ftp(href) if href[0] == "f" else finish_gopher(href))
    href = _finish(href)
    return href if len(href) <= MAX_URL_LENGTH else Refusal.TOO_LONG


def _bounded(href: str) -> str | Refusal:
    if not href:
        return Refusal.UNPARSABLE
    return href if len(href) <= MAX_URL_LENGTH else Refusal.TOO_LONG


def _scheme(stated: str) -> str:
    return stated.translate({9: None, 10: None, 13: None}).lower()


def _scalar_values(text: str) -> str:
    """Replace lone surrogates by U+FFFD, as in every string that reaches a browser's URL parser
    (WebIDL USVString).
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _finish(href: str) -> str:
    """Return the normalised form of an http(s) URL that the URL standard has serialised."""
    cut = href.find("#")
    if cut >= 0:
        href = href[:cut]
    start = 8 if href.startswith("https") else 7
    at = href.rfind("@", start, href.index("/", start))
    if at >= 0:
        href = href[:start] + href[at + 1 :]
    if "%" in href:
        href = _ESCAPE.sub(_write_escape, href)
    return href


def _write_escape(match: re.Match[str]) -> str:
    broken: str | None = match[1]
    if broken:
        return f"{broken}%{match[2].upper()}"
    return _WRITTEN[match[2]]


# Matches texts in their final form, which may be appended to a folder or an origin without parsing:
# no character of the standard's path and query percent-encode sets, and no escape that `_finish`
# would rewrite. Guarded by a property test.
_KEPT_ESCAPE = r"%(?:[01][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF]|[89A-F][0-9A-F])"
_TAIL = rf"(?:\?(?:[A-Za-z0-9\-._~!$&()*+,;=:@/?]|{_KEPT_ESCAPE})*)?"
_PLAIN_PATH = re.compile(rf"/(?!/)(?:[A-Za-z0-9\-._~!$&()*+,;=:@/]|{_KEPT_ESCAPE})*{_TAIL}")
_PLAIN_RELATIVE = re.compile(
    rf"[A-Za-z0-9\-_~](?:[A-Za-z0-9\-._~!$&()*+,;=@/]|{_KEPT_ESCAPE})*{_TAIL}"
)

# characters; longer ones are rare and would let a hostile page fill the caches with text
_MAX_HREF = 256
_MAX_RESULT = 512
# 10 MB with usual URLs, at most 60 MB; with half as many, six concurrent sites evicted each other's
# entries
_MAX_ENTRIES = 32_768
_MAX_ORIGINS = 4_096


class _ResolvedLinks:
    """A cache of resolved links by folder: pages of a folder have mostly the same links.

    When it is full it is cleared, which costs less than recording the order of use.
    """

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, str | Refusal]] = {}
        self._origins: set[str] = set()  # seen in final form
        self._left = _MAX_ENTRIES

    def folder(self, folder: str) -> dict[str, str | Refusal]:
        cached = self._folders.get(folder)
        if cached is None:
            cached = {}
            if len(folder) <= _MAX_RESULT:
                self._spend()
                self._folders[folder] = cached
        return cached

    def remember(self, cache: dict[str, str | Refusal], href: str, result: str | Refusal) -> None:
        if len(href) <= _MAX_HREF and len(result) <= _MAX_RESULT:
            self._spend()
            cache[href] = result

    def is_origin(self, text: str) -> bool:
        return text in self._origins

    def add_origin(self, origin: str) -> None:
        if len(origin) <= _MAX_HREF:
            if len(self._origins) >= _MAX_ORIGINS:
                self._origins.clear()
            self._origins.add(origin)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            self._folders.clear()
            self._left = _MAX_ENTRIES

    def __len__(self) -> int:
        return sum(map(len, self._folders.values()))


_resolved = _ResolvedLinks()


class LinkResolver:
    """Resolves a page's hrefs against its base URL. Hot path, guarded by `bench/network.py`.

    `resolve(href)` is exactly `normalise` of the WHATWG join. `encoding` is the page's character
    encoding: as in browsers, non-ASCII characters in a query are encoded with it. `known` has
    earlier results of `resolve`, and may be checked first.

    Raises:
        UrlError: the base is not an absolute URL of a crawled scheme.
    """

    __slots__ = ("_codec", "_folder", "_is_web", "_origin", "base", "resolved")

    def __init__(self, base_url: str, encoding: str = "utf-8") -> None:
        self.base = base = base_url if _is_final(base_url) else normalise(base_url)
        path = base.partition("?")[0]
        self._folder = path[: path.rindex("/") + 1]
        self._origin = base[: path_start(base)]
        self._is_web = base[0] == "h"
        if self._is_web:
            _resolved.add_origin(self._origin)
        self._codec = codec_for(encoding)
        self.resolved = _resolved.folder(
            self._folder if self._codec is None else f"{self._codec} {self._folder}"
        )

    def resolve(self, href: str) -> str | Refusal:
        """Return the absolute, normalised URL, or the reason of a refusal. Accepts any text, never
        raises.
        """
        if "#" in href:
            whole, href = href, href[: href.index("#")]
            # not at the end of the whole text, where the parser would strip it
            if href and href[-1] <= " ":
                return self._parse(whole)
        if not href:
            return self.base
        result = self.resolved.get(href)
        return result if result is not None else self._first_time(href)

    def _first_time(self, href: str) -> str | Refusal:
        absolute = href.startswith(("http://", "https://"))
        cache = self.resolved
        if absolute:  # has the same result in every folder: cached once
            cache = _resolved.folder("" if self._codec is None else f"{self._codec} ")
            if (before := cache.get(href)) is not None:
                return before
        result = self._plain(href, absolute) or self._parse(href)
        # `?q` and texts the parser may strip to that, or to nothing, depend on the whole base; so
        # does `http:x`.
        if absolute or (href[0] > " " and href[0] != "?" and ":" not in href):
            _resolved.remember(cache, href, result)
            if absolute and not isinstance(result, Refusal):
                slash = href.find("/", 8)
                if slash > 0 and result.startswith(href[: slash + 1]):
                    _resolved.add_origin(href[:slash])
        return result

    def _plain(self, href: str, absolute: bool) -> str:
        """Return the result for an href that needs no parsing, else an empty text."""
        if len(href) > _MAX_HREF:
            return ""
        if absolute:
            return href if _is_final(href) else ""
        if not self._is_web:
            return ""
        if href[0] == "/":
            before, rest, pattern = self._origin, href, _PLAIN_PATH
        else:
            before, rest, pattern = self._folder, href.removeprefix("./"), _PLAIN_RELATIVE
            while rest.startswith("../"):
                before, rest = _parent(before), rest[3:]
        if (
            "/." in rest
            or (rest and not pattern.fullmatch(rest))
            or len(before) + len(rest) > MAX_URL_LENGTH
        ):
            return ""
        return before + rest

    def _parse(self, href: str) -> str | Refusal:
        if self._codec is not None and not href.isascii() and len(href) <= MAX_URL_LENGTH:
            href = encode_query(_scalar_values(href), self._codec)
        return _resolve(self.base, href)


def _is_final(url: str) -> bool:
    """Return whether a text is certainly normalised: its origin is a known normalised one, and its
    path is plain.
    """
    slash = url.find("/", 8)
    is_plain = slash > 0 and len(url) <= MAX_URL_LENGTH and _resolved.is_origin(url[:slash])
    return is_plain and "/." not in url and _PLAIN_PATH.fullmatch(url, slash) is not None


def _parent(folder: str) -> str:
    """Return the parent folder; that of the root is the root."""
    slash = folder.rindex("/", 0, -1)
    return folder[: slash + 1] if slash >= 8 else folder
