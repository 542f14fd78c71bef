"""Workbooks: XLSX (ECMA-376) as a stream of elements; XLS (BIFF 5 and 8) and XLSB by calamine.

XLSX cells are read one by one: a library fills a table from A1 to the last cell, which in a hostile
file has 17 billion cells.
"""

from __future__ import annotations

import io
import re
from datetime import datetime, timedelta
from typing import ClassVar

import python_calamine

from lycosa.page.documents.office_xml import describe, main_part, read_charts, targets_of
from lycosa.page.documents.sink import Broken, Encrypted, Sink
from lycosa.page.documents.slide_paragraphs import SlideParagraphs
from lycosa.page.documents.structure import new_table, row_blocks, text_block
from lycosa.page.documents.zipped import Attributes, Package
from lycosa.page.feeds.xml_events import local_name
from lycosa.page.html.markup import Container

_COLUMN_LETTERS = 3
_MAX_COLUMNS = 200  # with their places; cells further right are written without gaps
_MAX_STRINGS = 64 * 2**20  # characters of shared strings in memory
_DATE_FORMATS = frozenset(
    str(number) for number in (*range(14, 18), 22, *range(27, 37), *range(50, 59))
)
_QUOTED = re.compile(r'"[^"]*"|\\.|\[(?!h|m|s)[^\]]*\]')
_DATE_CODE = re.compile(r"[yd]", re.IGNORECASE)
_FIRST_DAY = datetime(1899, 12, 30)  # noqa: DTZ001  sheets have no time zones


class _Strings:
    """xl/sharedStrings.xml: the texts that cells refer to by number."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._parts: list[str] = []
        self._skipped = self._taking = False
        self._left = _MAX_STRINGS

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if name == "si":
            self._parts = []
        elif name == "rPh":  # how Japanese text is pronounced
            self._skipped = True
        self._taking = name == "t" and not self._skipped

    def end(self, tag: str) -> None:
        name = local_name(tag)
        self._taking = False
        if name == "si":
            self.strings.append("".join(self._parts))
        elif name == "rPh":
            self._skipped = False

    def text(self, text: str) -> None:
        if self._taking and self._left > 0:
            self._left -= len(text)
            self._parts.append(text)


class _Sheet:
    """One sheet: a line for each row, of its cells that are not empty."""

    def __init__(self, sink: Sink, strings: list[str], dates: frozenset[str]) -> None:
        self._sink = sink
        self._strings = strings
        self._dates = dates
        self._style = ""
        self._cells: list[tuple[int, str]] = []  # column, text
        self._column = 0
        self._table = new_table()
        self._type = ""
        self._value: list[str] = []
        self._taking = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if name == "c":
            self._type, self._style, self._value = (
                attributes.get("t", "n"),
                attributes.get("s", ""),
                [],
            )
            self._column = _column(attributes.get("r", "")) or self._column + 1
        elif name == "row":
            self._cells, self._column = [], 0
        self._taking = name in ("v", "t")

    def end(self, tag: str) -> None:
        name = local_name(tag)
        self._taking = False
        if name == "c":
            value = "".join(self._value)
            if self._type == "s" and value.isdigit():
                number = int(value) if len(value) < 10 else -1
                value = self._strings[number] if 0 <= number < len(self._strings) else ""
            elif self._type in ("b", "e"):
                value = ""
            elif self._type == "n" and self._style in self._dates:
                value = _date(value)
            if value:
                self._cells.append((self._column, value))
        elif name == "row":
            _add_row(self._sink, self._cells, self._table)

    def text(self, text: str) -> None:
        if self._taking:
            self._value.append(text)


def _column(cell: str) -> int:
    """Return the number of the column of a cell such as `B3`; 0: it is not stated."""
    number = 0
    for letter in cell.rstrip("0123456789")[:_COLUMN_LETTERS]:
        number = number * 26 + ord(letter) - 64 if "A" <= letter <= "Z" else 0
    return number if number <= _MAX_COLUMNS else 0


def _add_sheet(sink: Sink, name: str) -> None:
    sink.line(name, heading=True)
    sink.block(text_block(name, level=2))


def _add_row(sink: Sink, cells: list[tuple[int, str]], table: Container) -> None:
    sink.line(" ".join([text for _, text in cells]))
    if sink.structured:
        for block in row_blocks(cells, table):
            sink.block(block)


def _date_styles(package: Package) -> frozenset[str]:
    """Return the numbers of the cell styles that show a number as a date (ECMA-376 part 1, sections
    18.8.10 and 18.8.30).
    """
    reader = Attributes("numFmt", "cellXfs", "cellStyleXfs", "xf")
    package.events("xl/styles.xml", reader)
    formats = set(_DATE_FORMATS)
    styles, number, cells = set(), 0, False
    for name, each in reader.elements:
        if name == "numFmt" and _DATE_CODE.search(_QUOTED.sub("", each.get("formatCode", ""))):
            formats.add(each.get("numFmtId", ""))
        elif name != "xf":
            number, cells = 0, name == "cellXfs"
        elif cells:
            if each.get("numFmtId", "") in formats:
                styles.add(str(number))
            number += 1
    return frozenset(styles)


def _date(written: str) -> str:
    """Format days since 1900 as a date, with a time if there is one; else return them unchanged."""
    try:
        moment = _FIRST_DAY + timedelta(days=float(written))
    except (ValueError, OverflowError):
        return written
    return moment.strftime("%Y-%m-%d" if float(written).is_integer() else "%Y-%m-%d %H:%M")


def read_xlsx(payload: bytes, sink: Sink) -> None:
    """Read names of sheets, rows as lines, links, comments and drawings.

    Numbers are written as stored, dates as in ISO 8601.
    """
    package = Package(payload, sink)
    describe(package, sink)
    main = main_part(package, "xl/workbook.xml")
    strings = _Strings()
    for name in package.matching(r"xl/sharedStrings\.xml"):
        package.events(name, strings)
    dates = _date_styles(package)
    book = Attributes("sheet")
    package.events(main, book)
    targets = targets_of(package, main)
    sheets = {
        targets.get(each.get("id", ""), ""): each.get("name", "") for _, each in book.elements
    }
    for part in [
        *sheets,
        *(
            name
            for name in package.matching(r"xl/(?:work|chart)sheets/sheet\d+\.xml")
            if name not in sheets
        ),
    ]:
        if part in package:
            _add_sheet(sink, sheets.get(part, ""))
            package.events(part, _Sheet(sink, strings.strings, dates))
            for target in targets_of(package, part).values():
                sink.link(target)
    for part in package.matching(r"xl/(?:drawings/drawing|comments/?comment|comments)\d*\.xml"):
        package.events(part, _Lines(sink))
    read_charts(package, sink)


class _Lines(SlideParagraphs):
    """Drawings and comments of a workbook: comments have texts without paragraphs."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink, {}, None)

    STARTS: ClassVar = {**SlideParagraphs.STARTS, "comment": SlideParagraphs.start_paragraph}
    ENDS: ClassVar = {**SlideParagraphs.ENDS, "comment": SlideParagraphs.end_paragraph}


def read_xls(payload: bytes, sink: Sink) -> None:
    """Read names of sheets, and rows as lines, with calamine.

    Raises:
        Encrypted: it requires a password.
        Broken: calamine does not open it.
    """
    try:
        book = python_calamine.load_workbook(io.BytesIO(payload))
    except python_calamine.PasswordError:
        raise Encrypted from None
    except (python_calamine.CalamineError, OSError) as error:
        raise Broken(str(error)) from None
    with book:
        for number, name in enumerate(book.sheet_names):
            _add_sheet(sink, name)
            table = new_table()
            for row in book.get_sheet_by_index(number).iter_rows():
                values = enumerate(map(_written, row), 1)
                _add_row(sink, [(column, text) for column, text in values if text], table)


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, timedelta):
        return ""
    return str(value)
