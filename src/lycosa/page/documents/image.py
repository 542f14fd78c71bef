"""Reads the metadata of images: EXIF, XMP, IPTC and text chunks of PNG. Pixels are not decoded."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from xml.parsers import expat

from lycosa.page.documents.sink import Sink
from lycosa.page.feeds.xml_events import EntityDeclared, StopReading, local_name, new_parser

_MAX_SEGMENTS = 10_000
_MAX_TEXT = 2**20  # bytes of one unpacked text chunk
_XMP = re.compile(rb"<x:xmpmeta\b.{0,1000000}?</x:xmpmeta>", re.DOTALL)
# EXIF 2.32 table 4 and 7
_ASCII_TAGS = {
    0x010E: "title",
    0x013B: "author",
    0x8298: "rights",
    0x9003: "date",
    0x0132: "modified",
}
_WINDOWS_TAGS = {
    0x9C9B: "title",
    0x9C9C: "comment",
    0x9C9D: "author",
    0x9C9E: "keywords",
    0x9C9F: "description",
}
_USER_COMMENT, _EXIF_POINTER = 0x9286, 0x8769
_EXIF_DATE = re.compile(r"(\d{4}):(\d\d):(\d\d)")
_PNG_WORDS = {
    "title": "title",
    "author": "author",
    "description": "description",
    "copyright": "rights",
    "creation time": "date",
    "comment": "comment",
    "keywords": "keywords",
}
_XMP_FIELDS = {
    "title": "title",
    "description": "description",
    "creator": "author",
    "rights": "rights",
    "subject": "keywords",
    "Headline": "title",
    "AltTextAccessibility": "comment",
    "ExtDescrAccessibility": "comment",
    "CreateDate": "date",
    "DateCreated": "date",
    "City": "place",
    "Country": "place",
}
# IIM 4.2, record 2
_IPTC = {
    5: "title",
    120: "description",
    25: "keywords",
    80: "author",
    105: "title",
    116: "rights",
    55: "date",
}


def read_image(payload: bytes, sink: Sink) -> None:
    """Read title, caption, author, keywords, rights and comments as metadata and as text."""
    captions: list[tuple[str, str]] = []
    for name, text in _fields(payload):
        text = " ".join(text.replace("\0", " ").split())
        if text and (name, text) not in captions and len(captions) < _MAX_SEGMENTS:
            captions.append((name, text))
    for name, text in captions:
        if name == "date":
            sink.describe(name, _EXIF_DATE.sub(r"\1-\2-\3", text))
        elif name != "modified":
            sink.describe(name, text)
    for text in dict.fromkeys(text for name, text in captions if name not in ("date", "modified")):
        sink.line(text)


def _fields(payload: bytes) -> Iterator[tuple[str, str]]:
    if payload.startswith(b"\x89PNG"):
        yield from _png(payload)
    elif payload.startswith(b"\xff\xd8"):
        yield from _jpeg(payload)
    elif payload.startswith(b"RIFF"):
        yield from _webp(payload)
    elif payload.startswith((b"II*\0", b"MM\0*")):
        yield from _exif(payload)
    elif payload.startswith(b"GIF8"):
        for match in re.finditer(rb"\x21\xfe([^\0].{1,255}?)\0", payload[:_MAX_TEXT], re.DOTALL):
            yield "comment", match[1][1:].decode("latin-1")
    packet = _XMP.search(payload)
    if packet:
        yield from _xmp(packet[0])


def _png(payload: bytes) -> Iterator[tuple[str, str]]:
    position = 8
    for _ in range(_MAX_SEGMENTS):
        if position + 12 > len(payload):
            return
        length, kind = struct.unpack_from(">I4s", payload, position)
        data = payload[position + 8 : position + 8 + length]
        position += 12 + length
        word, _, rest = data.partition(b"\0")
        name = _PNG_WORDS.get(word.decode("latin-1").lower(), "")
        if kind == b"tEXt" and name:
            yield name, rest.decode("latin-1")
        elif kind == b"zTXt" and name:
            yield name, _inflate(rest[1:]).decode("latin-1")
        elif kind == b"iTXt" and len(rest) > 2:
            text = rest[2:].split(b"\0", 2)[-1]
            text = _inflate(text) if rest[0] else text
            if word == b"XML:com.adobe.xmp":
                yield from _xmp(text)
            elif name:
                yield name, text.decode("utf-8", "replace")
        elif kind == b"eXIf":
            yield from _exif(data)
        elif kind == b"IEND":
            return


def _inflate(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _MAX_TEXT)
    except zlib.error:
        return b""


def _jpeg(payload: bytes) -> Iterator[tuple[str, str]]:
    position = 2
    for _ in range(_MAX_SEGMENTS):
        if position + 4 > len(payload) or payload[position] != 0xFF:
            return
        marker = payload[position + 1]
        if marker == 0xFF:
            position += 1
            continue
        if marker in (0xD9, 0xDA):  # end of image, start of the pixels
            return
        length = int.from_bytes(payload[position + 2 : position + 4], "big")
        data = payload[position + 4 : position + 2 + length]
        position += 2 + max(length, 2)
        if marker == 0xE1 and data.startswith(b"Exif\0\0"):
            yield from _exif(data[6:])
        elif marker == 0xED and data.startswith(b"Photoshop 3.0\0"):
            yield from _iptc(data)
        elif marker == 0xFE:
            yield "comment", data.decode("utf-8", "replace")


def _webp(payload: bytes) -> Iterator[tuple[str, str]]:
    position = 12
    for _ in range(_MAX_SEGMENTS):
        if position + 8 > len(payload):
            return
        kind, length = struct.unpack_from("<4sI", payload, position)
        if kind == b"EXIF":
            yield from _exif(
                payload[position + 8 : position + 8 + length].removeprefix(b"Exif\0\0")
            )
        position += 8 + length + length % 2


def _exif(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the first directory and the EXIF directory of a TIFF structure (TIFF 6.0 section 2)."""
    if data[:2] not in (b"II", b"MM") or len(data) < 8:
        return
    order = "<" if data[:2] == b"II" else ">"
    waiting = [struct.unpack_from(order + "I", data, 4)[0]]
    for _ in range(2):
        if not waiting:
            return
        offset = waiting.pop()
        if offset + 2 > len(data):
            return
        (count,) = struct.unpack_from(order + "H", data, offset)
        for number in range(count):
            at = offset + 2 + 12 * number
            if at + 12 > len(data):
                break
            tag, kind, size = struct.unpack_from(order + "HHI", data, at)
            place = at + 8
            if size > 4 and kind in (1, 2, 7):
                (place,) = struct.unpack_from(order + "I", data, at + 8)
            value = data[place : place + min(size, _MAX_TEXT)]
            if tag == _EXIF_POINTER:
                waiting.append(struct.unpack_from(order + "I", data, at + 8)[0])
            elif kind == 2 and tag in _ASCII_TAGS:
                yield _ASCII_TAGS[tag], _decode(value.rstrip(b"\0"))
            elif kind == 1 and tag in _WINDOWS_TAGS:
                yield _WINDOWS_TAGS[tag], value.decode("utf-16-le", "replace")
            elif tag == _USER_COMMENT and value[:8] == b"ASCII\0\0\0":
                yield "comment", value[8:].decode("ascii", "replace")


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _iptc(data: bytes) -> Iterator[tuple[str, str]]:
    position = data.find(b"\x1c\x02")
    for _ in range(_MAX_SEGMENTS):
        if position < 0 or position + 5 > len(data) or data[position] != 0x1C:
            return
        kind, length = data[position + 2], int.from_bytes(data[position + 3 : position + 5], "big")
        if kind in _IPTC:
            yield _IPTC[kind], _decode(data[position + 5 : position + 5 + length])
        position += 5 + length


class _Xmp:
    def __init__(self) -> None:
        self.captions: list[tuple[str, str]] = []
        self._name = ""
        self._text: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        for key, value in attributes.items():
            if local_name(key) in _XMP_FIELDS and len(self.captions) < 1_000:
                self.captions.append((_XMP_FIELDS[local_name(key)], value))
        if name in _XMP_FIELDS:
            self._name = _XMP_FIELDS[name]
        self._text = []

    def end(self, tag: str) -> None:
        text = "".join(self._text).strip()
        if self._name and text and len(self.captions) < 1_000:
            self.captions.append((self._name, text))
        self._text = []
        if local_name(tag) in _XMP_FIELDS:
            self._name = ""

    def text(self, text: str) -> None:
        if self._name:
            self._text.append(text)


def _xmp(data: bytes) -> list[tuple[str, str]]:
    """Return an XMP packet (ISO 16684-1): RDF, in elements or in attributes."""
    reader = _Xmp()
    with suppress(expat.ExpatError, EntityDeclared, StopReading):
        new_parser(reader.start, reader).Parse(data, True)
    return reader.captions
