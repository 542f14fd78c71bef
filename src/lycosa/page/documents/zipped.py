"""Reads parts of a ZIP file, and XML in them, within limits; declared sizes are not trusted."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from xml.parsers import expat

from lycosa.page.documents.sink import FAULT_BROKEN, FAULT_CUT, Broken, Encrypted, Sink
from lycosa.page.feeds.xml_events import (
    EntityDeclared,
    EventReader,
    StopReading,
    local_name,
    new_parser,
)

MAX_PART = 64 * 2**20  # bytes of one part, unpacked
MAX_ALL = 192 * 2**20  # bytes of all parts together
_CHUNK = 65_536
_ENCRYPTED_FLAG = 1
_NUMBER = re.compile(r"(\d+)")


class Attributes:
    """Collects the attributes of elements with given names (relationships, styles)."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)
        self.elements: list[tuple[str, dict[str, str]]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if local_name(tag) in self._names:
            self.elements.append(
                (local_name(tag), {local_name(name): value for name, value in attributes.items()})
            )

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


def value_of(attributes: dict[str, str], attribute: str) -> str:
    """Return an attribute by its local name; "" if there is none."""
    return next((value for name, value in attributes.items() if local_name(name) == attribute), "")


class Package:
    """The parts of one document. `sink` gets the faults."""

    def __init__(self, payload: bytes, sink: Sink) -> None:
        """
        Raises:
            Broken: the ZIP file has no central directory.
        """
        self._sink = sink
        self._left = MAX_ALL
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(payload))
            self.names = self._zip.namelist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise Broken(str(error)) from None
        self._names = set(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def matching(self, pattern: str) -> list[str]:
        """Return the parts whose whole names match, in natural order."""
        names = [name for name in self._names if re.fullmatch(pattern, name)]
        return sorted(
            names,
            key=lambda name: [
                int(part) if part.isdigit() else part for part in _NUMBER.split(name)
            ],
        )

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a part, up to the limit; nothing for a missing part."""
        if name not in self._names:
            return
        left = min(MAX_PART, self._left)
        try:
            info = self._zip.getinfo(name)
            if info.flag_bits & _ENCRYPTED_FLAG:
                raise Encrypted
            with self._zip.open(info) as part:
                while chunk := part.read(_CHUNK):
                    left -= len(chunk)
                    self._left -= len(chunk)
                    if left < 0:
                        self._fault(FAULT_CUT)
                        return
                    yield chunk
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            NotImplementedError,
            RuntimeError,
        ):
            self._fault(FAULT_BROKEN)

    def read(self, name: str) -> bytes:
        """Return a whole part, as far as it is readable."""
        return b"".join(self.chunks(name))

    def events(self, name: str, reader: EventReader) -> None:
        """Send the XML of a part to a reader, one chunk in memory at a time.

        Raises:
            TextFull: the sink is full.
        """
        parser = new_parser(reader.start, reader)
        try:
            for chunk in self.chunks(name):
                parser.Parse(chunk, False)
            if name in self._names:
                parser.Parse(b"", True)
        except (expat.ExpatError, EntityDeclared, UnicodeError, LookupError):
            self._fault(FAULT_BROKEN)
        except StopReading:
            return

    def _fault(self, fault: str) -> None:
        if fault not in self._sink.parts.faults:
            self._sink.parts.faults.append(fault)
