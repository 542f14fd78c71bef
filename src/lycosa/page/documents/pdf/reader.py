"""PDF by PDFium, the reader of Chromium."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from itertools import islice

import pypdfium2 as pdfium
import pypdfium2.raw as raw

from lycosa.page.documents.pdf.lines import SOFT_HYPHEN, LineReader, LinkArea, PdfLine
from lycosa.page.documents.pdf.structure import NO_SPACES, PdfStructure
from lycosa.page.documents.sink import FAULT_BROKEN, Broken, Encrypted, Sink, is_web
from lycosa.page.documents.structure import text_block

_MAX_PAGES = 5_000
_STRUCTURED_PAGES = 500  # 10 ms of CPU each; later ones are paragraphs in Markdown
_STRUCTURED_CHARACTERS = 1_000_000
_MAX_OUTLINE = 500
_MAX_PAGE_LINKS = 2_000
_MAX_ADDRESS = 4_096
_END = tuple('.!?:;。！？：；।॥۔؟…”"»)]）」』')
_FULL_SHARE = 0.75  # share of the longest line above which a line continues in the next one
_DATE = re.compile(r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d)?'?(\d\d)?")
_REPEATED_SHARE, _REPEATED_PAGES = 0.5, 4
_NO_TITLE = re.compile(
    r"untitled|(?:microsoft (?:word|powerpoint|excel) - .*)|(?:slide|document|page) ?\d*|\W*|"
    r".*\.(?:docx?|pdf|indd|qxd|tex|dvi|odt|rtf|xlsx?|pptx?|ps|html?)",
    re.IGNORECASE | re.DOTALL,
)
_TITLE_CHARACTERS = 1_500  # of the first page in which the largest letters are looked for


def read_pdf(payload: bytes, sink: Sink) -> None:
    """Read text in the order of the file, links, outline, title and dates.

    Raises:
        Encrypted: it cannot be opened without a password.
        Broken: PDFium does not open it.
    """
    try:
        document = pdfium.PdfDocument(payload)
    except pdfium.PdfiumError as error:
        if raw.FPDF_GetLastError() in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise Encrypted from None
        raise Broken(str(error)) from None
    try:
        outline = _describe(document, sink)
        _read_pages(document, sink, outline)
    finally:
        document.close()


def _describe(document: pdfium.PdfDocument, sink: Sink) -> list[tuple[str, int]]:
    """Read the properties; return the titles of the outline and their levels from 1."""
    about = document.get_metadata_dict(skip_empty=True)
    title = about.get("Title", "").strip()
    if not _NO_TITLE.fullmatch(title):
        sink.describe("title", title)
    sink.describe("description", about.get("Subject"))
    sink.describe("author", about.get("Author"))
    sink.describe("keywords", about.get("Keywords"))
    sink.describe("date", _iso(about.get("CreationDate", "")))
    sink.describe("modified", _iso(about.get("ModDate", "")))
    outline = []
    for bookmark in islice(document.get_toc(max_depth=4), _MAX_OUTLINE):
        title = " ".join(bookmark.get_title().split())
        sink.parts.add_heading(title, is_h1=False)
        outline.append((title, bookmark.level + 1))
    return outline


def _iso(written: str) -> str:
    match = _DATE.match(written)
    if not match:
        return ""
    year, month, day, hour, minute, second, zone, zone_minutes = match.groups()
    date = f"{year}-{month or '01'}-{day or '01'}"
    if hour is None:
        return date
    offset = zone if zone in (None, "Z") else f"{zone}:{zone_minutes or '00'}"
    return f"{date}T{hour}:{minute or '00'}:{second or '00'}{offset or ''}"


def _read_pages(document: pdfium.PdfDocument, sink: Sink, outline: list[tuple[str, int]]) -> None:
    pages: list[list[str]] = []
    placed: list[list[PdfLine]] = []
    reader = LineReader()
    held = 0
    for number in range(min(len(document), _MAX_PAGES)):
        try:
            page = document[number]
        except pdfium.PdfiumError:
            if FAULT_BROKEN not in sink.parts.faults:
                sink.parts.faults.append(FAULT_BROKEN)
            continue
        text = page.get_textpage()
        if number == 0 and not sink.parts.title:
            sink.describe("title", _largest(text))
        pages.append(text.get_text_bounded().splitlines())
        links = _read_links(document, page, text, sink)
        if sink.structured and number < _STRUCTURED_PAGES and held < _STRUCTURED_CHARACTERS:
            placed.append(reader.read(text, number, links))
        text.close()
        page.close()
        held += sum(map(len, pages[-1]))
        if held > 3_000_000:  # more than the sink accepts
            break
    repeated = _running_lines(pages)
    if sink.structured:
        unique = [line for lines in placed for line in _content(lines, repeated)]
        PdfStructure(unique, outline).write(sink)
    for number, lines in enumerate(pages):
        unique_lines = [line for line in lines if _shape(line) not in repeated]
        for line in _paragraphs(unique_lines):
            if sink.structured and number >= len(placed):
                sink.block(text_block(line))
            sink.line(line)


def _content(lines: list[PdfLine], repeated: frozenset[str]) -> list[PdfLine]:
    """Return the lines of a page without running ones and page numbers."""
    ends = {0, len(lines) - 1}
    return [
        line
        for place, line in enumerate(lines)
        if _shape(line.text) not in repeated and not (place in ends and line.text.isdecimal())
    ]


def _shape(line: str) -> str:
    """Return a line without its numbers: running heads differ by page number."""
    return re.sub(r"\d+", "0", " ".join(line.split()))


def _running_lines(pages: list[list[str]]) -> frozenset[str]:
    """Return headers and footers: first or last lines that most pages have in common."""
    if len(pages) < _REPEATED_PAGES:
        return frozenset()
    ends: Counter[str] = Counter()
    for lines in pages:
        filled = [line for line in lines if line.strip()]
        ends.update({_shape(line) for line in filled[:2] + filled[-2:]})
    least = max(_REPEATED_PAGES, len(pages) * _REPEATED_SHARE)
    return frozenset(shape for shape, count in ends.items() if count >= least)


def _paragraphs(lines: list[str]) -> list[str]:
    """Join printed lines to paragraphs: a full line that does not end in a full stop continues in
    the next one.
    """
    lengths = sorted(len(line) for line in lines)
    full = lengths[len(lengths) * 9 // 10] * _FULL_SHARE if lengths else 0
    joined: list[str] = []
    goes_on = False
    for line in lines:
        line = line.strip(" \t\r\f")
        if not line:
            goes_on = False
            continue
        ends_soft = bool(SOFT_HYPHEN.search(line[-1:]))
        text = line[:-1] if ends_soft else line
        text = SOFT_HYPHEN.sub("", text)
        if goes_on and joined:
            before = joined[-1]
            glue = (
                ""
                if before.endswith("\0")
                or (NO_SPACES.match(before[-1:]) and NO_SPACES.match(text[:1]))
                else " "
            )
            joined[-1] = before.rstrip("\0") + glue + text
        else:
            joined.append(text)
        if ends_soft:
            joined[-1] += "\0"
        goes_on = ends_soft or (len(line) >= full and len(line) > 20 and not line.endswith(_END))
    return [line.replace("\0", "") for line in joined]


def _largest(text: pdfium.PdfTextPage) -> str:
    """Return the run of the largest letters on a page.

    The title of most documents that declare none.
    """
    count = min(text.count_chars(), _TITLE_CHARACTERS)
    sizes = [round(raw.FPDFText_GetFontSize(text, index), 1) for index in range(count)]
    if not sizes:
        return ""
    most = max(sizes)
    if sizes.count(most) == count or sizes.count(most) > 300:
        return ""
    first = sizes.index(most)
    last = first
    while last < count and sizes[last] >= most * 0.95:
        last += 1
    title = " ".join(text.get_text_range(first, last - first).split())
    return title if len(title) > 3 else ""


def _read_links(
    document: pdfium.PdfDocument, page: pdfium.PdfPage, text: pdfium.PdfTextPage, sink: Sink
) -> list[LinkArea]:
    """Read link annotations with an address, then addresses in the text. Return the first.

    PDF 32000-1:2008 section 12.6.4.7.
    """
    areas = []
    position, link = ctypes.c_int(0), raw.FPDF_LINK()
    for _ in range(_MAX_PAGE_LINKS):
        if not raw.FPDFLink_Enumerate(page, position, link):
            break
        action = raw.FPDFLink_GetAction(link)
        if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
            continue
        buffer = ctypes.create_string_buffer(_MAX_ADDRESS)
        size = raw.FPDFAction_GetURIPath(document, action, buffer, _MAX_ADDRESS)
        if not 1 < size <= _MAX_ADDRESS:
            continue
        target = buffer.raw[: size - 1].decode("utf-8", "replace")
        box = raw.FS_RECTF()
        anchor = ""
        if raw.FPDFLink_GetAnnotRect(link, box):
            anchor = text.get_text_bounded(box.left, box.bottom, box.right, box.top)
            if is_web(target):
                areas.append(LinkArea(box.left, box.bottom, box.right, box.top, target))
        sink.link(target, anchor)
    written = raw.FPDFLink_LoadWebLinks(text)
    for number in range(min(raw.FPDFLink_CountWebLinks(written), _MAX_PAGE_LINKS)):
        size = raw.FPDFLink_GetURL(written, number, None, 0)
        if 0 < size <= _MAX_ADDRESS:
            units = (ctypes.c_ushort * size)()
            raw.FPDFLink_GetURL(written, number, units, size)
            address = bytes(units).decode("utf-16-le", "replace").rstrip("\0")
            sink.link(address, address)
    raw.FPDFLink_CloseWebLinks(written)
    return areas
