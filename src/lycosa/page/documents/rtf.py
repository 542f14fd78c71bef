"""RTF (Rich Text Format specification 1.9.1): a stream of control words, groups and text in code
pages that change with the font.
"""

from __future__ import annotations

import re

from lycosa.page.documents.sink import Sink

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? "
    rb"?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z0-9'])|([{}])|[\r\n]+|([^\\{}\r\n]+)|\\"
)
_HYPERLINK = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"?([^"\s]+)', re.IGNORECASE)
_MAX_DEPTH = 2_000  # of groups; Word writes some tens

_SKIPPED = frozenset(
    b"fonttbl colortbl stylesheet listtable listoverridetable pict object objdata themedata "
    b"colorschememapping datastore latentstyles "
    b"rsidtbl generator xmlnstbl filetbl revtbl fldinst bkmkstart bkmkend template mmathPr info "
    b"datafield pnseclvl nonshppict".split()
)
"""Destinations that are no text. Unknown ones that are marked with an asterisk are left out too
(page 9 of the specification).
"""

# destinations with an asterisk that are text
_SHOWN = frozenset(b"shptxt shprslt fldrslt shpinst footnote annotation".split())
_INFO = {
    b"title": "title",
    b"subject": "description",
    b"doccomm": "description",
    b"author": "author",
    b"keywords": "keywords",
}
_BREAKS = frozenset(b"par sect page row line".split())
_SPACES = frozenset(b"tab cell emspace enspace qmspace nestcell".split())
_CHARACTERS = {
    b"emdash": "—",
    b"endash": "–",
    b"lquote": "‘",
    b"rquote": "’",
    b"ldblquote": "“",
    b"rdblquote": "”",
    b"bullet": "•",
}
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030",
    136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256",
    186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 255: "cp437",
}  # fmt: skip
"""\\fcharset: Windows character sets (page 16 of the specification)."""


class _Group:
    """What holds until the closing brace."""

    __slots__ = ("codec", "destination", "fallback", "first", "hidden", "skipped", "starred")

    def __init__(self, codec: str) -> None:
        self.codec = codec
        self.skipped = False
        self.hidden = False
        self.fallback = 1  # how many characters follow a Unicode one
        self.destination = b""
        self.first = True
        self.starred = False

    def inner(self) -> _Group:
        """A group that begins in this one, with what holds here."""
        group = _Group(self.codec)
        group.skipped, group.hidden, group.fallback, group.destination = (
            self.skipped,
            self.hidden,
            self.fallback,
            self.destination,
        )
        return group


class _Reader:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._codec = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._group = _Group(self._codec)
        self._stack: list[_Group] = []
        self._line: list[str] = []
        self._bytes = bytearray()
        self._ignored = 0  # characters that follow a Unicode character for readers that know none
        self._aside: list[str] = []  # text of a field's instruction or of a property
        self._date: dict[bytes, int] = {}

    def read(self, data: bytes) -> None:
        for match in _TOKEN.finditer(data):
            word, number, code, symbol, brace, plain = match.groups()
            if plain:
                self._take(plain)
            elif code:
                self._take(bytes([int(code, 16)]))
            elif word:
                self._word(word, int(number) if number else None, match.end(), data)
            elif brace:
                self._brace(brace)
            elif symbol:
                self._symbol(symbol)
        self._end_line()

    def _take(self, data: bytes) -> None:
        self._group.first = False
        if self._ignored:
            dropped = min(self._ignored, len(data))
            self._ignored -= dropped
            data = data[dropped:]
        if (
            not data
            or self._group.hidden
            or (
                self._group.skipped
                and self._group.destination not in (b"fldinst", b"fonttbl", *_INFO)
            )
        ):
            return
        self._bytes += data

    def _decode(self) -> None:
        if self._bytes:
            text = self._bytes.decode(self._group.codec, "replace")
            self._bytes.clear()
            self._put(text)

    def _put(self, text: str) -> None:
        destination = self._group.destination
        if destination == b"fldinst" or destination in _INFO:
            self._aside.append(text)
        elif not self._group.skipped and not self._group.hidden:
            self._line.append(text)

    def _brace(self, brace: bytes) -> None:
        self._decode()
        if brace == b"{":
            if len(self._stack) < _MAX_DEPTH:
                self._stack.append(self._group)
                self._group = self._group.inner()
            return
        if not self._stack:
            return
        ended, self._group = self._group, self._stack.pop()
        if ended.destination != self._group.destination and ended.destination == b"creatim":
            self._end_date()
        if ended.destination != self._group.destination and self._aside:
            text, self._aside = "".join(self._aside), []
            if ended.destination in _INFO:
                self._sink.describe(_INFO[ended.destination], text)
            elif link := _HYPERLINK.search(text):
                self._sink.link(link[1])

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._group.starred = True
            return
        self._decode()
        if symbol in b"{}\\":
            self._take(symbol)
        elif symbol == b"~":
            self._put("\u00a0")
        elif symbol == b"_":
            self._put("-")
        elif symbol in b"\r\n":
            self._end_line()

    def _word(self, word: bytes, number: int | None, at: int, data: bytes) -> None:
        group = self._group
        if group.first or group.starred:
            group.first = False
            if word in _SKIPPED or word in _INFO or (group.starred and word not in _SHOWN):
                self._decode()
                group.skipped, group.destination, group.starred = True, word, False
                return
            if word == b"creatim":
                group.destination = word
            group.starred = False
        if group.destination == b"creatim" and number is not None:
            self._date[word] = number
        elif word == b"u" and number is not None:
            self._decode()
            self._put(chr(number & 0xFFFF))
            self._ignored = group.fallback
        elif word == b"uc":
            group.fallback = min(max(number or 0, 0), 10)
        elif word in _BREAKS:
            self._decode()
            if not group.skipped:
                self._end_line()
        elif word in _SPACES:
            self._decode()
            self._put(" ")
        elif word in _CHARACTERS:
            self._decode()
            self._put(_CHARACTERS[word])
        elif word == b"f":
            self._decode()
            self._font = number or 0
            group.codec = self._fonts.get(self._font, self._codec)
        elif word == b"fcharset":
            charset = _CHARSETS.get(number or 0)
            if charset and len(self._fonts) < 5_000:
                self._fonts[self._font] = charset if number else self._codec
        elif word == b"ansicpg" and number:
            self._codec = self._group.codec = _codec_of_charset(number) or self._codec
        elif word == b"mac":
            self._codec = self._group.codec = "mac_roman"
        elif word == b"plain":
            self._decode()
            group.codec, group.hidden = self._codec, False
        elif word == b"v":
            self._decode()
            group.hidden = number != 0

    def _end_line(self) -> None:
        self._decode()
        line, self._line = "".join(self._line), []
        self._sink.line(line.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))

    def _end_date(self) -> None:
        date = self._date
        if b"yr" in date:
            self._sink.describe(
                "date", f"{date[b'yr']:04}-{date.get(b'mo', 1):02}-{date.get(b'dy', 1):02}"
            )


def _codec_of_charset(number: int) -> str:
    name = {932: "cp932", 936: "gb18030", 65001: "utf-8", 10000: "mac_roman", 1361: "johab"}.get(
        number, f"cp{number}"
    )
    try:
        "".encode(name)
    except LookupError:
        return ""
    return name


def read_rtf(payload: bytes, sink: Sink) -> None:
    """The text of an RTF file, with the targets of its fields."""
    _Reader(sink).read(payload)
