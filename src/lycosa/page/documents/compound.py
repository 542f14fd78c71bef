"""DOC and PPT: Microsoft's binary formats of 1997 to 2003, streams in a compound file.

Only text, links and properties are read, by their published specifications: [MS-DOC] section 2.4.1
(retrieving text), [MS-PPT] section 2.3.1 (record headers). olefile reads the compound file.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator

import olefile

from lycosa.page.documents.sink import FAULT_BROKEN, Broken, Encrypted, Sink

_MAX_STREAM = 64 * 2**20
_HYPERLINK = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"?([^"\s]+)', re.IGNORECASE)
_DOC_MAGIC, _WORD_6 = 0xA5EC, frozenset({0xA5DC, 0xA5DB})
_ENCRYPTED_BIT, _TABLE_BIT = 0x0100, 0x0200
_COMPRESSED = 1 << 30  # of an FcCompressed: the piece is written in cp1252
_FIELD_BEGIN, _FIELD_SEPARATOR, _FIELD_END = "\x13", "\x14", "\x15"
_LINE_ENDS = re.compile("[\r\x07\x0b\x0c\x0e\n]")

_SLIDE_TEXT, _SLIDE_TEXT_BYTES, _STRING = 0x0FA0, 0x0FA8, 0x0FBA
_TITLE_TYPES = frozenset({0, 6})  # TextHeaderAtom: title, centre title
_TEXT_HEADER = 0x0F9F
_HYPERLINK_ADDRESS = 1  # instance of the CString in an ExHyperlink that is its target
_MASTER_TYPES = frozenset({0x03F8, 0x0FC9})  # MainMaster, Handout: prompts such as "Click to edit"
_CRYPT = 0x2F14
_VECTOR = 0x1000  # in a property's type: [MS-OLEPS] section 2.15
_OUTLINE_95 = "Text_Content"
_BESIDE_95 = "PP97_DUALSTORAGE/PowerPoint Document"  # a file for both: the later form, whole
_MAX_RECORDS = 2_000_000


class _File(olefile.OleFileIO):  # type: ignore[misc]
    """olefile without vector properties: it trusts their declared length, so a damaged file takes
    hours.
    """

    def _parse_property(
        self, s: bytes, offset: int, property_id: int, property_type: int, *more: object
    ) -> object:
        if property_type & _VECTOR:
            return None
        return super()._parse_property(s, offset, property_id, property_type, *more)


class _Compound:
    """Streams of a compound file. The constructor adds its summary information to the sink."""

    def __init__(self, payload: bytes, sink: Sink) -> None:
        try:
            self._file = _File(io.BytesIO(payload), raise_defects=olefile.DEFECT_FATAL)
        except (OSError, ValueError, IndexError, struct.error) as error:
            raise Broken(str(error)) from None
        try:
            self._describe(sink)
        except (ValueError, IndexError, struct.error, OSError, TypeError, KeyError):
            sink.parts.faults.append(FAULT_BROKEN)

    def read(self, name: str) -> bytes:
        """Return a stream, empty if it does not exist."""
        if not self._file.exists(name):
            return b""
        with self._file.openstream(name) as stream:
            data: bytes = stream.read(_MAX_STREAM)
        return data

    def _describe(self, sink: Sink) -> None:
        """Read the summary information ([MS-OLEPS])."""
        about = self._file.get_metadata()
        codec = (
            f"cp{about.codepage}"
            if about.codepage and about.codepage not in (65001, 1200)
            else "utf-8"
        )
        if about.codepage in (None, -535):
            codec = "utf-8" if about.codepage else "cp1252"
        for name, value in (
            ("title", about.title),
            ("description", about.subject or about.comments),
            ("author", about.author),
            ("keywords", about.keywords),
            ("date", about.create_time),
            ("modified", about.last_saved_time),
        ):
            sink.describe(name, _text(value, codec))


def _text(value: object, codec: str) -> object:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode(codec, "replace").rstrip("\0")
    except LookupError:
        return value.decode("cp1252", "replace").rstrip("\0")


def read_doc(payload: bytes, sink: Sink) -> None:
    """Read a Word document: body, notes, headers, text boxes, in the order of the file's
    characters.

    Raises:
        Encrypted: it requires a password.
        Broken: no text was found.
    """
    compound = _Compound(payload, sink)
    data = compound.read("WordDocument")
    if len(data) < 0x20:
        raise Broken("no WordDocument stream")
    magic, version, flags = struct.unpack_from("<HH6xH", data)
    if flags & _ENCRYPTED_BIT:
        raise Encrypted
    if magic in _WORD_6 or version < 0xC1:
        begin, end = struct.unpack_from("<II", data, 0x18)
        text = data[begin:end].decode("cp1252", "replace")
    elif magic == _DOC_MAGIC:
        table = compound.read("1Table" if flags & _TABLE_BIT else "0Table")
        text = "".join(_pieces(data, table))
    else:
        raise Broken("no Word document")
    _put_text(text, sink)


def _pieces(data: bytes, table: bytes) -> Iterator[str]:
    offset, length = struct.unpack_from("<II", data, 0x1A2)
    clx = table[offset : offset + length]
    position = 0
    while position + 3 <= len(clx) and clx[position] == 1:  # Prc: formatting
        position += 3 + int.from_bytes(clx[position + 1 : position + 3], "little")
    if position >= len(clx) or clx[position] != 2:
        raise Broken("no piece table")
    size = int.from_bytes(clx[position + 1 : position + 5], "little")
    plc = clx[position + 5 : position + 5 + size]
    count = (len(plc) - 4) // 12
    if count < 1:
        raise Broken("an empty piece table")
    places = struct.unpack_from(f"<{count + 1}I", plc)
    for number in range(count):
        length = places[number + 1] - places[number]
        if not 0 < length <= len(data):
            continue
        at = int.from_bytes(plc[4 * (count + 1) + 8 * number + 2 :][:4], "little")
        if at & _COMPRESSED:
            at = (at & ~_COMPRESSED) // 2
            yield data[at : at + length].decode("cp1252", "replace")
        else:
            yield data[at : at + 2 * length].decode("utf-16-le", "replace")


def _put_text(text: str, sink: Sink) -> None:
    for line in _LINE_ENDS.split(text):
        sink.line(_without_fields(line, sink) if _FIELD_BEGIN in line else line)


def _without_fields(line: str, sink: Sink) -> str:
    """Return the line with its fields' results instead of their instructions; record links."""
    shown: list[str] = []
    instruction: list[str] = []
    depth = 0
    for piece in re.split("([\x13\x14\x15])", line):
        if piece == _FIELD_BEGIN:
            depth += 1
            instruction = []
        elif piece in (_FIELD_SEPARATOR, _FIELD_END):
            match = _HYPERLINK.search("".join(instruction))
            if match:
                sink.link(match[1])
            instruction = []
            depth = max(0, depth - 1) if depth else 0
        elif depth:
            instruction.append(piece)
        else:
            shown.append(piece)
    return "".join(shown)


def read_ppt(payload: bytes, sink: Sink) -> None:
    """Read the text of slides and notes, and the links, of a PPT file.

    Records of PowerPoint 95 are undocumented: the copy of the text that it stores is read.

    Raises:
        Encrypted: it requires a password.
        Broken: there is no presentation in it.
    """
    compound = _Compound(payload, sink)
    data = compound.read(_BESIDE_95) or compound.read("PowerPoint Document")
    if not data:
        raise Broken("no PowerPoint Document stream")
    outline = compound.read(_OUTLINE_95)
    if outline and not compound.read(_BESIDE_95):
        _put_text(outline.decode("cp1252", "replace"), sink)
        return
    heading = False
    seen: set[bytes] = set()
    for kind, instance, body in _records(data):
        if kind == _TEXT_HEADER:
            heading = int.from_bytes(body[:4], "little") in _TITLE_TYPES
        elif kind in (_SLIDE_TEXT, _SLIDE_TEXT_BYTES):
            if body in seen and len(body) > 2:  # slides repeat the outline
                continue
            seen.add(body)
            text = body.decode("utf-16-le" if kind == _SLIDE_TEXT else "latin-1", "replace")
            for line in re.split("[\r\n\x0b]", text):
                sink.line(line, heading=heading)
        elif kind == _STRING and instance == _HYPERLINK_ADDRESS:
            sink.link(body.decode("utf-16-le", "replace").rstrip("\0"))
        elif kind == _CRYPT:
            raise Encrypted


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (type, instance, body) of all atoms, without masters. Containers are flattened: their
    bodies are records again.
    """
    position = 0
    for _ in range(_MAX_RECORDS):
        if position + 8 > len(data):
            return
        first, kind, length = struct.unpack_from("<HHI", data, position)
        position += 8
        if first & 0xF == 0xF:
            if kind in _MASTER_TYPES:
                position += length
            continue
        yield kind, first >> 4, data[position : position + length]
        position += length
