"""Sitemaps (https://www.sitemaps.org/protocol.html): lists of a site's addresses, in XML, as text,
or as a feed (RSS, Atom or JSON), compressed or not.

Dates are read and not trusted here. Nothing raises; size, number and depth are bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import replace
from io import BytesIO
from typing import Final

from lycosa.core.errors import Refusal, UrlError
from lycosa.page.encoding import decode
from lycosa.page.feeds.feed_entries import ROOTS, read_feed
from lycosa.page.feeds.sitemap_xml import (
    FAULT_BAD_URL,
    FAULT_GZIP,
    FAULT_NO_SITEMAP,
    FAULT_TOO_LARGE,
    FAULT_TOO_MANY,
    MAX_BYTES,
    MAX_URLS,
    Sitemap,
    SitemapEntry,
    SitemapKind,
    SitemapReader,
)
from lycosa.page.feeds.xml_events import FAULT_ENTITIES, read_events
from lycosa.page.media import HEADER_LENGTH, is_binary
from lycosa.url.normalise import MAX_URL_LENGTH, LinkResolver
from lycosa.url.schemes import WEB
from lycosa.url.scope import hostname

_GZIP_MAGIC: Final = b"\x1f\x8b"
_PIECE: Final = 16_384
_LAYERS: Final = 2  # sitemap.xml.gz that its server compressed once more


def read_sitemap(
    payload: bytes,
    base_url: str,
    *,
    limit: int = MAX_URLS,
    max_bytes: int = MAX_BYTES,
    content_type: str = "",
) -> Sitemap:
    """Read a sitemap of any kind. Never raises on any bytes; broken XML gives what stands before
    the break.

    Args:
        payload: the body, gzip or plain.
        base_url: where it came from, normalised.
        limit: addresses read (entries and sitemaps together).
        max_bytes: bytes read, after decompression.

    Raises:
        UrlError: the base is not an absolute http(s) URL.
    """
    resolver = LinkResolver(base_url)
    faults: list[str] = []
    data = _plain(payload, max_bytes, faults)
    if is_binary(data[:HEADER_LENGTH]):
        return Sitemap(faults=[*faults, FAULT_NO_SITEMAP])
    decoded = decode(data, content_type)
    faults += decoded.faults
    first = decoded.data.lstrip()[:1]
    if first == b"{":
        sitemap = read_feed(decoded.data, resolver, limit)
    elif first != b"<":
        sitemap = _read_text(decoded.data, resolver, limit)
    else:
        reader, xml_faults = read_events(decoded.data, lambda: SitemapReader(resolver, limit))
        sitemap = reader.sitemap()
        if reader.root in ROOTS:
            sitemap = read_feed(decoded.data, resolver, limit)
        elif sitemap.kind is SitemapKind.NONE:
            entities = [name for name in xml_faults if name == FAULT_ENTITIES]
            return Sitemap(faults=[FAULT_NO_SITEMAP, *entities])
        else:
            faults += [*sitemap.faults, *xml_faults]
    return replace(sitemap, faults=list(dict.fromkeys([*faults, *sitemap.faults])))


def speaks_for(sitemap_url: str, url: str, named_by: Collection[str] = ()) -> bool:
    """Whether a sitemap may name a URL: one of the web, of its own host, or of a host whose
    robots.txt names the sitemap.

    Args:
        named_by: hostnames (as `lycosa.url.scope.hostname` writes them) whose robots.txt has a
            Sitemap line for this sitemap, or for the index that led to it.
    """
    if not url.startswith(WEB):
        return False
    try:
        host = hostname(url)
        return host == hostname(sitemap_url) or host in named_by
    except UrlError:
        return False


def _plain(payload: bytes, limit: int, faults: list[str]) -> bytes:
    data = payload
    for _ in range(_LAYERS):
        if not data.startswith(_GZIP_MAGIC):
            break
        data = _gunzip(data, limit, faults)
    if len(data) > limit:
        faults.append(FAULT_TOO_LARGE)
        data = data[:limit]
    return data


def _gunzip(data: bytes, limit: int, faults: list[str]) -> bytes:
    """gzip (RFC 1952), members one after the other, at most `limit` + 1 bytes; what stands before a
    fault stays.
    """
    decoded = bytearray()
    rest = memoryview(data)
    member = zlib.decompressobj(31)
    while rest and len(decoded) <= limit:
        piece, rest = rest[:_PIECE], rest[_PIECE:]
        try:
            decoded += member.decompress(piece, limit + 1 - len(decoded))
            while member.eof and member.unused_data:
                left = member.unused_data
                if not left.startswith(_GZIP_MAGIC[: len(left)]):
                    return bytes(decoded)  # padding behind the last member
                member = zlib.decompressobj(31)
                if len(decoded) > limit:
                    break
                decoded += member.decompress(left, limit + 1 - len(decoded))
        except zlib.error:
            faults.append(FAULT_GZIP)
            return bytes(decoded)
    if not member.eof and len(decoded) <= limit:
        faults.append(FAULT_GZIP)
    return bytes(decoded)


def _read_text(data: bytes, resolver: LinkResolver, limit: int) -> Sitemap:
    """Read one URL per line."""
    entries: dict[str, None] = {}
    faults: list[str] = []
    for line in BytesIO(data):
        address = line.strip()
        if not address:
            continue
        is_web = address[:8].lower().startswith((b"http://", b"https://"))
        url: str | Refusal = Refusal.UNPARSABLE
        if is_web and len(address) <= MAX_URL_LENGTH:
            url = resolver.resolve(address.decode("utf-8", "replace"))
        if type(url) is Refusal:
            faults.append(FAULT_BAD_URL)
        elif url not in entries:
            if len(entries) >= limit:
                faults.append(FAULT_TOO_MANY)
                break
            entries[url] = None
    if not entries:
        return Sitemap(faults=[FAULT_NO_SITEMAP])
    return Sitemap(SitemapKind.TEXT, list(map(SitemapEntry, entries)), faults=faults)
