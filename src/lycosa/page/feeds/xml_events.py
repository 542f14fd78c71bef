"""XML as events for readers of a few elements (sitemaps, feeds).

expat parses it: no tree, no external entities, and a declared entity ends the parsing, so nothing
is expanded. Common mistakes of hand-made XML (a bare `&` in an address, `<` before a number,
entities of HTML, control characters, a warning of a script before the XML declaration) are repaired
once; of XML that is still broken the part before the fault is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.entities import name2codepoint
from typing import Protocol, TypeVar
from xml.parsers import expat

from lycosa.core.patterns import lazy_pattern

FAULT_XML = "xml_invalid"  # not well-formed: repaired, or read up to the fault
FAULT_ENTITIES = "xml_entities"  # declares entities; read up to there
FAULT_ELEMENTS = "xml_too_many_elements"  # read up to there
MAX_TEXT = 65_536
"""Maximum characters of one element's text."""

MAX_ELEMENTS = 2_000_000
"""Elements read of one document: 50,000 addresses with 30 translations each; a second or two of
work.
"""

_MAX_MENDED = 16 * 2**20  # bytes: mending is for hand-made files
_MAX_MISTAKES = 1_000_000  # of `&` and of `<` that begin no tag
_MAX_PREAMBLE = 4_096  # bytes

_MENDABLE = lazy_pattern(
    rb"<!\[CDATA\[(?:.*?\]\]>|.*)|<(?=[ =0-9])|&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}"
    rb"|#x[0-9A-Fa-f]{1,6});)(?:([A-Za-z][A-Za-z0-9]{1,31});)?",
    re.DOTALL,
)
_MISTAKES = (b"&", *(b"<%c" % byte for byte in b" =0123456789"))
_CONTROLS = bytes([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20)])


class EventReader(Protocol):
    """Receiver of the events.

    `start` and `end` get tags as written, prefix included.
    """

    def start(self, tag: str, attributes: dict[str, str]) -> None: ...

    def end(self, tag: str) -> None: ...

    def text(self, text: str) -> None: ...


R = TypeVar("R", bound=EventReader)


class StopReading(Exception):
    """Raised by a reader to end the reading."""


def read_events(data: bytes, new_reader: Callable[[], R]) -> tuple[R, list[str]]:
    """Send the events of a document in UTF-8 to a reader; never raises.

    Return the reader and the faults.

    `new_reader` is called again when the document has to be repaired and read from the start.
    """
    data = data.lstrip()
    reader, fault = _read(data, new_reader())
    if fault != FAULT_XML:
        return reader, [fault] if fault else []
    if len(data) > _MAX_MENDED or sum(map(data.count, _MISTAKES)) > _MAX_MISTAKES:
        return reader, [FAULT_XML]
    mended = _MENDABLE.sub(_escape_reference, without_preamble(data).translate(None, _CONTROLS))
    if mended != data:
        reader, fault = _read(mended, new_reader())
    return reader, [FAULT_XML] if fault in ("", FAULT_XML) else [FAULT_XML, fault]


def without_preamble(data: bytes) -> bytes:
    """Return a document without the text before its XML declaration."""
    start = data.find(b"<?xml ", 0, _MAX_PREAMBLE)
    return data[start:] if start > 0 and b"<![CDATA[" not in data[:start] else data


def _read(data: bytes, reader: R) -> tuple[R, str]:
    left = MAX_ELEMENTS
    start_element = reader.start

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooManyElements
        start_element(tag, attributes)

    parser = new_parser(start, reader, "utf-8")
    try:
        parser.Parse(data, True)
    except expat.ExpatError:
        return reader, FAULT_XML
    except EntityDeclared:
        return reader, FAULT_ENTITIES
    except _TooManyElements:
        return reader, FAULT_ELEMENTS
    except StopReading:
        return reader, ""
    return reader, ""


class EntityDeclared(Exception):
    """Raised through expat: the document declares an entity."""


class _TooManyElements(Exception):
    """Raised through expat: the document has more than `MAX_ELEMENTS` elements."""


def new_parser(
    start: Callable[[str, dict[str, str]], None], reader: EventReader, encoding: str | None = None
) -> expat.XMLParserType:
    """Return a parser that sends events to a reader and raises EntityDeclared."""
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.EntityDeclHandler = _refuse_entity
    return parser


def _refuse_entity(*_: object) -> None:
    raise EntityDeclared


def _escape_reference(match: re.Match[bytes]) -> bytes:
    reference = match[0]
    if reference.startswith(b"<"):
        return b"&lt;" if reference == b"<" else reference
    name = match[1]
    if name is None:
        return b"&amp;" + reference[1:]
    code = name2codepoint.get(name.decode("ascii"))
    return b"&amp;" + reference[1:] if code is None else b"&#%d;" % code


def local_name(tag: str) -> str:
    """Return the tag without its prefix."""
    return tag[tag.rfind(":") + 1 :]


def prefix_of(tag: str) -> str:
    """Return the prefix of a tag with its colon, "" if it has none."""
    return tag[: tag.rfind(":") + 1]
