"""What is understood of documents: small ones made here, so that what they say is known."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

import pytest

from lycosa.core.records import Page
from lycosa.page.documents.kinds import Kind, kind_of
from lycosa.page.documents.parse import parse_document
from lycosa.page.documents.sink import MAX_TEXT

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:r="r"'
CORE = (
    '<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t"><dc:title>Of spiders</dc:title>'
    "<dcterms:created>2020-05-04T03:02:01Z</dcterms:created></cp:coreProperties>"
)


def zipped(parts: dict[str, str | bytes]) -> bytes:
    """A ZIP file of these parts; a `mimetype` is stored first, as ODF and EPUB ask for."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return target.getvalue()


def relations(**targets: str) -> str:
    rows = "".join(f'<Relationship Id="{key}" Type="t/hyperlink" Target="{url}" TargetMode="External"/>' for key, url in targets.items())
    return f"<Relationships>{rows}</Relationships>"


def docx(body: str = "", **more: str | bytes) -> bytes:
    body = body or (
        '<w:p><w:pPr><w:pStyle w:val="berschrift1"/></w:pPr><w:r><w:t>Wolf spiders</w:t></w:r></w:p>'
        '<w:p><w:r><w:t xml:space="preserve">They </w:t></w:r><w:r><w:t>hunt</w:t></w:r><w:r><w:tab/><w:t>at night.</w:t></w:r></w:p>'
        '<w:p><w:hyperlink r:id="rId7"><w:r><w:t>A page</w:t></w:r></w:hyperlink><w:r><w:delText>gone</w:delText></w:r></w:p>'
        '<w:p><w:r><w:instrText>HYPERLINK "http:</w:instrText></w:r><w:r><w:instrText>//field.example/"</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>field</w:t></w:r></w:p>'
    )
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "docProps/core.xml": CORE,
            "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f'<w:styles {W}><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style></w:styles>',
            "word/_rels/document.xml.rels": relations(rId7="http://elsewhere.example/a"),
            **more,
        }
    )


def pptx() -> bytes:
    slide = (
        f'<p:sld {A}><p:sp><p:nvPr><p:ph type="title"/></p:nvPr><a:p><a:r><a:t>Wolf spiders</a:t></a:r></a:p></p:sp>'
        '<p:sp><a:p><a:r><a:rPr><a:hlinkClick r:id="r1"/></a:rPr><a:t>They hunt at night.</a:t></a:r></a:p></p:sp></p:sld>'
    )
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "docProps/core.xml": CORE,
            "ppt/slides/slide1.xml": slide,
            "ppt/slides/_rels/slide1.xml.rels": relations(r1="http://elsewhere.example/a"),
        }
    )


def xlsx() -> bytes:
    sheet = '<worksheet><sheetData><row><c t="s"><v>0</v></c><c><v>42</v></c></row><row><c t="inlineStr"><is><t>at night.</t></is></c></row></sheetData></worksheet>'
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "docProps/core.xml": CORE,
            "xl/workbook.xml": '<workbook xmlns:r="r"><sheets><sheet name="Wolf spiders" r:id="s1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="s1" Target="worksheets/sheet1.xml"/></Relationships>',
            "xl/sharedStrings.xml": "<sst><si><r><t>They </t></r><r><t>hunt</t></r><rPh><t>zzz</t></rPh></si></sst>",
            "xl/worksheets/sheet1.xml": sheet,
            "xl/worksheets/_rels/sheet1.xml.rels": relations(r1="http://elsewhere.example/a"),
        }
    )


def odt() -> bytes:
    content = (
        '<office:document-content xmlns:office="o" xmlns:text="t" xmlns:xlink="x"><office:body><office:text>'
        "<text:h>Wolf spiders</text:h><text:p>They hunt<text:s text:c='2'/>at night.</text:p>"
        '<text:p><text:a xlink:href="http://elsewhere.example/a">A page</text:a></text:p>'
        "</office:text></office:body></office:document-content>"
    )
    meta = '<m xmlns:dc="d" xmlns:meta="m"><dc:title>Of spiders</dc:title><meta:creation-date>2020-05-04T03:02:01Z</meta:creation-date></m>'
    return zipped({"mimetype": "application/vnd.oasis.opendocument.text", "meta.xml": meta, "content.xml": content})


def epub() -> bytes:
    book = (
        '<package xmlns:dc="d"><metadata><dc:title>Of spiders</dc:title><dc:date>2020-05-04T03:02:01Z</dc:date></metadata>'
        '<manifest><item id="c1" href="one.xhtml"/></manifest><spine><itemref idref="c1"/></spine></package>'
    )
    chapter = '<html><body><h1>Wolf spiders</h1><p>They hunt at night.</p><a href="http://elsewhere.example/a">A page</a></body></html>'
    container = '<container><rootfiles><rootfile full-path="OEBPS/b.opf"/></rootfiles></container>'
    return zipped(
        {"mimetype": "application/epub+zip", "META-INF/container.xml": container, "OEBPS/b.opf": book, "OEBPS/one.xhtml": chapter}
    )


RTF = (
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}}{\info{\title Of spiders}"
    rb"{\creatim\yr2020\mo5\dy4}{\doccomm nothing}}{\*\unknown hidden}\f0 Wolf spiders\par They {\b hunt} at night.\par "
    rb"{\field{\*\fldinst HYPERLINK \"http://elsewhere.example/a\"}{\fldrslt A page}}\par {\f1 \'ef\'e0\'f3\'ea} \u1087?\u1072?\par}"
).replace(rb"\"", b'"')


def pdf(*pages: bytes, title: str = "Of spiders") -> bytes:
    """A PDF of one line a page, with a link on each."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for text in pages:
        number = len(objects) + 1
        kids.append(b"%d 0 R" % number)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R /Resources << /Font << /F1 << /Type /Font /Subtype "
            b"/Type1 /BaseFont /Helvetica >> >> >> /Annots [ << /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI "
            b"(http://elsewhere.example/a) >> >> ] >>" % (number + 1)
        )
        stream = b"BT /F1 12 Tf 20 700 Td (%s) Tj ET" % text
        objects.append(b"<< /Length %d >> stream\n%s\nendstream" % (len(stream), stream))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    objects.append(b"<< /Title (%s) /CreationDate (D:20200504030201Z) >>" % title.encode())
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj %s endobj\n" % (number, each)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(objects), start)
    return bytes(out)


def png(**chunks: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I4s", len(data), kind) + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunk(kind.encode(), data) for kind, data in chunks.items()) + chunk(b"IEND", b"")


def read(payload: bytes) -> Page:
    kind = kind_of(payload)
    assert kind is not None
    return parse_document(payload, kind, url="http://h/d")


MADE: dict[str, Callable[[], bytes]] = {
    "docx": docx,
    "pptx": pptx,
    "xlsx": xlsx,
    "odt": odt,
    "epub": epub,
    "rtf": lambda: RTF,
    "pdf": lambda: pdf(b"Wolf spiders", b"They hunt at night."),
}


@pytest.mark.parametrize("form", MADE)
def test_what_a_document_says(form: str) -> None:
    page = read(MADE[form]())
    assert page.faults == []
    assert page.title == "Of spiders"
    lines = page.main_text.split("\n")
    assert lines[0] == "Wolf spiders"
    assert page.text == page.main_text
    words = page.text.split()
    assert all(word in words for word in ("They", "hunt", "night."))
    assert "gone" not in words
    assert "zzz" not in page.text
    assert [link.target for link in page.links][0] == "http://elsewhere.example/a"
    assert page.text_digest
    assert page.simhash
    if form not in ("xlsx",):
        assert page.published_at is not None
        assert page.published_at // 86_400_000 == 18_386  # 4 May 2020
    if form in ("docx", "pptx", "odt", "epub", "xlsx"):
        assert page.headings == ["Wolf spiders"]
        assert page.headline == "Wolf spiders"


def test_fields_of_a_docx_in_several_pieces() -> None:
    page = read(docx())
    assert [link.target for link in page.links] == ["http://elsewhere.example/a", "http://field.example/"]
    assert page.links[0].anchor == "A page"


def test_code_pages_of_an_rtf_file() -> None:
    assert read(RTF).text.split("\n")[-1] == "паук па"
    assert "hidden" not in read(RTF).text


def test_an_image_says_what_its_metadata_says_and_its_size_costs_nothing() -> None:
    page = read(png(tEXt=b"Title\0Wolf spider", iTXt="Description\0\0\0\0\0Паук на листе".encode()))
    assert (page.title, page.description) == ("Wolf spider", "Паук на листе")
    assert page.text == "Wolf spider\nПаук на листе"


def test_running_heads_of_a_pdf_are_no_text() -> None:
    pages = [b"Spiders of Europe %d) Tj 0 -20 Td (Something about species %s of the book" % (n, bytes([65 + n]) * 5) for n in range(8)]
    page = read(pdf(*pages))
    assert "Spiders of Europe" not in page.text
    assert page.text.count("Something about species") == 8


def test_kinds_are_told_by_bytes() -> None:
    assert {form: kind_of(make()) for form, make in MADE.items()} == {
        "docx": Kind.DOCX, "pptx": Kind.PPTX, "xlsx": Kind.XLSX, "odt": Kind.ODF, "epub": Kind.EPUB, "rtf": Kind.RTF, "pdf": Kind.PDF,
    }  # fmt: skip
    assert kind_of(b"<html>%PDF-1.4</html>") is None
    assert kind_of(b"The header is %PDF-1.4, they say.") is None
    assert kind_of(b"\r\nnoise\n" + pdf(b"x")) is Kind.PDF
    assert kind_of(zipped({"a.txt": "text"})) is None
    assert kind_of(b"") is None


def test_passwords_are_a_fault() -> None:
    manifest = '<manifest><file-entry full-path="content.xml"><encryption-data/></file-entry></manifest>'
    locked = zipped({"mimetype": "application/vnd.oasis.opendocument.text", "META-INF/manifest.xml": manifest, "content.xml": b"\x01\x02"})
    assert read(locked).faults == ["document_encrypted"]


def test_zip_bombs_are_read_to_a_limit() -> None:
    big = b"<w:p><w:r><w:t>" + b"word " * 40_000_000 + b"</w:t></w:r></w:p>"
    page = read(docx(**{"word/footnotes.xml": big}))
    assert len(page.text) <= MAX_TEXT
    assert "document_cut" in page.faults or "document_broken" in page.faults
    assert "They hunt at night." in page.text  # what came before stands


def test_entities_do_not_grow() -> None:
    laughs = '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    page = read(docx(**{"word/document.xml": laughs + f"<w:document {W}><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:document>"}))
    assert (page.text, page.faults) == ("", ["document_broken"])


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting(depth: int) -> None:
    page = read(docx("<w:p><w:r><w:t>top</w:t></w:r></w:p>" + "<w:x>" * depth + "</w:x>" * depth))
    assert page.text == "top"
    assert read(b"{\\rtf1 top" + b"{" * depth + b"low" + b"}" * depth + b"}").text == "toplow"


def test_pdf_whose_pages_are_their_own_parents() -> None:
    looped = pdf(b"Some words").replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]")
    assert read(looped).faults in ([], ["document_broken"])


def test_an_office_file_that_broke_off_is_broken() -> None:
    whole = docx()
    assert read(whole[: len(whole) - 200]).faults == ["document_broken"]
