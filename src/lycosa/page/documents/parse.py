"""Parses the bytes of a document to a `Page`.

Runs in a child process: a hostile document may need any time and memory, or crash its reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lycosa.core.records import Page
from lycosa.page.documents.compound import read_doc, read_ppt
from lycosa.page.documents.image import read_image
from lycosa.page.documents.kinds import Kind
from lycosa.page.documents.office_xml import read_docx, read_pptx
from lycosa.page.documents.open_document import read_epub, read_open_document
from lycosa.page.documents.pdf.reader import read_pdf
from lycosa.page.documents.rtf import read_rtf
from lycosa.page.documents.sink import (
    FAULT_BROKEN,
    FAULT_ENCRYPTED,
    FAULT_MEMORY,
    Encrypted,
    Sink,
    TextFull,
)
from lycosa.page.documents.workbook import read_xls, read_xlsx
from lycosa.page.html.markdown import MarkdownMode
from lycosa.page.markdown import blocks_markdown, text_markdown
from lycosa.page.parse import DEFAULT_OPTIONS, PageSource, ParseOptions, build_page
from lycosa.url.normalise import LinkResolver


def _refuse(payload: bytes, sink: Sink) -> None:
    raise Encrypted


_READERS: dict[Kind, Callable[[bytes, Sink], None]] = {
    Kind.PDF: read_pdf,
    Kind.DOCX: read_docx,
    Kind.PPTX: read_pptx,
    Kind.XLSX: read_xlsx,
    Kind.XLSB: read_xls,
    Kind.ODF: read_open_document,
    Kind.EPUB: read_epub,
    Kind.DOC: read_doc,
    Kind.PPT: read_ppt,
    Kind.XLS: read_xls,
    Kind.RTF: read_rtf,
    Kind.IMAGE: read_image,
    Kind.ENCRYPTED: _refuse,
}


def read_document(payload: bytes, kind: Kind, *, structured: bool = False) -> Sink:
    """Read a document as far as possible; `parts.faults` lists its faults. `structured`: collect
    its blocks too.
    """
    sink = Sink(structured=structured)
    faults = sink.parts.faults
    try:
        _READERS[kind](payload, sink)
    except TextFull:
        pass
    except Encrypted:
        faults.append(FAULT_ENCRYPTED)
    except MemoryError:
        faults.append(FAULT_MEMORY)
    except Exception:  # noqa: BLE001  readers raise any exception on hostile files
        if FAULT_BROKEN not in faults:
            faults.append(FAULT_BROKEN)
    return sink


def parse_document(
    payload: bytes,
    kind: Kind,
    *,
    url: str,
    link_headers: Sequence[str] = (),
    x_robots_tag: Sequence[str] = (),
    options: ParseOptions = DEFAULT_OPTIONS,
) -> Page:
    """Parse one document as `lycosa.page.parse.parse_page` does a web page. Never raises; the
    process may die of it.
    """
    markdown = options.markdown
    sink = read_document(payload, kind, structured=markdown is not None)
    parts = sink.parts
    parts.set_title(parts.headline)
    source = PageSource(url, link_headers, x_robots_tag, options=replace(options, markdown=None))
    page = build_page(parts, source, size=len(payload), whole=True)
    if markdown is None:
        return page
    blocks = sink.blocks(asides=markdown is MarkdownMode.FULL)
    citations = markdown is MarkdownMode.CITATIONS
    written = blocks_markdown(blocks, LinkResolver(url), citations=citations) or text_markdown(
        page.text, page.headings
    )
    return replace(page, markdown=written)
