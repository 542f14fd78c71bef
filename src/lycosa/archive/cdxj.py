"""CDXJ: a sorted index of the captures in a WARC file.

One line per capture: `surt timestamp {json}`, see https://specs.webrecorder.net/cdxj/0.1.0/. Keys
are those that pywb computes for a look-up (the Internet Archive's canonical form: lower case, no
`www.`, no session ids, parameters in order), so two URLs may share a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path
from typing import Protocol
from urllib.parse import quote_from_bytes, unquote_to_bytes

from lycosa.core.errors import WorkError
from lycosa.core.patterns import lazy_pattern
from lycosa.core.records import Visit

REVISIT_MIME = "warc/revisit"

_URL = lazy_pattern(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?//"
    r"(?:[^/?#]*@)?(\[[^\]/?#]*\]|[^/?#:]*)(?::(\d*))?([^?#]*)(?:\?([^#]*))?",
    re.DOTALL,
)
_WWW = lazy_pattern(r"www\d*\.")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_UNESCAPED = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # printable ASCII without space, # and %
_PATH_SESSIONS = (
    lazy_pattern(r"/(?:\([a-z]\([0-9a-z]{24}\))+\)/(?=[^?]+\.aspx)"),
    lazy_pattern(r"/\([0-9a-z]{24}\)/(?=[^?]+\.aspx)"),
)
# characters that only become lower case: nearly all
_PLAIN_PATH = lazy_pattern(r"(?:/(?!\.)[!$&'*-.0-9:;=@A-Z_a-z~]+)+/?|/?")
# Removed in this order, the last occurrence of each.
_QUERY_SESSIONS = tuple(
    lazy_pattern(pattern + r"(?:&|$)", re.IGNORECASE)
    for pattern in (
        r"jsessionid=[0-9a-z]{32}",
        r"phpsessid=[0-9a-z]{32}",
        r"sid=[0-9a-z]{32}",
        r"aspsessionid[a-z]{8}=[a-z]{24}",
        r"cfid=[^&]+&cftoken=[^&]+",
    )
)


def surt(url: str) -> str:
    """Return the key of a CDXJ line for an absolute URL with a host, of any scheme:
    `http://www.example.org:8080/A?b&a` -> `org,example:8080)/a?a&b`.

    Anything else (`dns:…`) is its own key, in lower case and escaped.
    """
    match = _URL.match(url)
    if match is None or not match[2]:
        return _escape(url).lower()
    scheme, host, port, path, query = match.groups()
    key = _host_key(scheme, host, port)
    key += path.lower().rstrip("/") or "/" if _PLAIN_PATH.fullmatch(path) else _path_key(path)
    if query:
        query = _query_key(_escape(query))
    return f"{key}?{query}" if query else key


@lru_cache(1_024)
def _host_key(scheme: str | None, host: str, port: str | None) -> str:
    host = _escape(host).lower().strip(".[]")
    www = _WWW.match(host)
    if www:
        host = host[www.end() :]
    key = ",".join(reversed(host.split(".")))
    if port and port != _DEFAULT_PORTS.get((scheme or "").lower()):
        key += f":{int(port)}"
    return key + ")"


def _path_key(path: str) -> str:
    segments: list[bytes] = []
    for segment in _unescape(path).split(b"/")[1:]:
        if segment == b".." and segments:
            segments.pop()
        elif segment != b".":  # above the root, `..` remains, as in tools that look up keys
            segments.append(segment)
    key = "/" + quote_from_bytes(b"/".join(filter(None, segments)), safe=_UNESCAPED).lower()
    for session in _PATH_SESSIONS:
        key = _without_last(session, key, "/")
    return key


def _query_key(query: str) -> str:
    for session in _QUERY_SESSIONS:
        query = _without_last(session, query, "")
    if len(query) < 2:
        return query.lower()
    parts = sorted(tuple(part.split("=", 1)) for part in query.lower().split("&"))
    return "&".join("=".join(part) for part in parts)


def _without_last(pattern: re.Pattern[str], text: str, replacement: str) -> str:
    matches = list(pattern.finditer(text))
    return (
        text[: matches[-1].start()] + replacement + text[matches[-1].end() :] if matches else text
    )


def _unescape(text: str) -> bytes:
    """Percent-decode repeatedly: archives have URLs with repeated escaping."""
    data = text.encode("utf-8", "surrogatepass")
    while (plain := unquote_to_bytes(data)) != data:
        data = plain
    return data


def _escape(text: str) -> str:
    return quote_from_bytes(_unescape(text), safe=_UNESCAPED)


class IndexedCapture(Protocol):
    """The columns of a capture that its line contains. `fetched_at` in ms since 1970 UTC,
    `content_type` as the server sent it.
    """

    @property
    def url(self) -> str: ...
    @property
    def fetched_at(self) -> int: ...
    @property
    def content_type(self) -> str: ...
    @property
    def http_status(self) -> int: ...
    @property
    def digest(self) -> str: ...


def cdxj_line(
    capture: IndexedCapture, filename: str, offset: int, length: int, *, revisit: bool = False
) -> str:
    """Return the line of a capture without its newline."""
    media_type = capture.content_type.partition(";")[0].strip().lower()
    mime = REVISIT_MIME if revisit else media_type or "unk"
    return (
        f"{surt(capture.url)} {_timestamp(capture.fetched_at // 1000)} "
        f'{{"url": {_quoted(capture.url)}, "mime": {_quoted(mime)}, '
        f'"status": "{capture.http_status}", "digest": {_quoted(capture.digest)}, '
        f'"length": "{length}", "offset": "{offset}", "filename": {_quoted(filename)}}}'
    )


@lru_cache(64)
def _timestamp(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y%m%d%H%M%S")


def write_cdxj(
    path: str | Path, visits: Iterable[Visit], *, record_types: Mapping[str, str] | None = None
) -> int:
    """Write the index of one WARC file, and return the number of its lines.

    The index has one line per archived response or revisit, sorted by bytes. `record_types`
    (`WarcWriter.record_types`): the types of the records that are not responses. The file is on
    disk when this returns.

    Raises:
        WorkError: the file exists or cannot be written.
    """
    types = record_types or {}
    lines: dict[str, str] = {}  # one record serves the visits of several collections
    for visit in visits:
        record_type = types.get(visit.record_id, "response")
        if visit.http_status == 0 or record_type == "metadata" or visit.record_id in lines:
            continue
        lines[visit.record_id] = cdxj_line(
            visit,
            visit.warc_file.rpartition("/")[2],
            visit.warc_offset,
            visit.warc_length,
            revisit=record_type == "revisit",
        )
    write_lines(path, sorted(lines.values()))
    return len(lines)


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines (ASCII) as a new, durable file. After a failure there is none.

    Raises:
        WorkError: the file exists or cannot be written.
    """
    try:
        with open(path, "x", encoding="ascii", newline="\n") as file:
            try:
                for line in lines:
                    file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.unlink(path)
                raise
    except OSError as error:
        raise WorkError(f"{path} cannot be written: {error.strerror}") from error
