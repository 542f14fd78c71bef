"""Build small documents of all formats with known contents."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="r"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="p" xmlns:r="r"'
CORE = (
    '<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t"><dc:title>Of spiders</dc:title>'
    "<dcterms:created>2020-05-04T03:02:01Z</dcterms:created></cp:coreProperties>"
)


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """Return a ZIP file of these parts.

    `mimetype` is stored uncompressed, as ODF and EPUB require.
    """
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return target.getvalue()


def relations(**targets: str) -> str:
    rows = "".join(
        f'<Relationship Id="{key}" Type="t/hyperlink" Target="{url}" TargetMode="External"/>'
        for key, url in targets.items()
    )
    return f"<Relationships>{rows}</Relationships>"


def docx(body: str = "", more: Mapping[str, str | bytes] = MappingProxyType({})) -> bytes:
    body = body or (
        '<w:p><w:pPr><w:pStyle w:val="berschrift1"/></w:pPr><w:r><w:t>Wolf '
        "spiders</w:t></w:r></w:p>"
        '<w:p><w:r><w:t xml:space="preserve">They '
        "</w:t></w:r><w:r><w:t>hunt</w:t></w:r><w:r><w:tab/><w:t>at night.</w:t></w:r></w:p>"
        '<w:p><w:hyperlink r:id="rId7"><w:r><w:t>A '
        "page</w:t></w:r></w:hyperlink><w:r><w:delText>gone</w:delText></w:r></w:p>"
        "<w:p><w:r><w:instrText>HYPERLINK "
        '"http:</w:instrText></w:r><w:r><w:instrText>//field.example/"</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>field</w:t></w:r></w:p>'
    )
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "docProps/core.xml": CORE,
            "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f'<w:styles {W}><w:style w:styleId="berschrift1"><w:name '
            'w:val="heading 1"/></w:style></w:styles>',
            "word/_rels/document.xml.rels": relations(rId7="http://elsewhere.example/a"),
            **more,
        }
    )


def pptx() -> bytes:
    slide = (
        f'<p:sld {A}><p:sp><p:nvPr><p:ph type="title"/></p:nvPr><a:p><a:r><a:t>Wolf '
        "spiders</a:t></a:r></a:p></p:sp>"
        '<p:sp><a:p><a:r><a:rPr><a:hlinkClick r:id="r1"/></a:rPr><a:t>They hunt at '
        "night.</a:t></a:r></a:p></p:sp></p:sld>"
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
    sheet = (
        '<worksheet><sheetData><row><c t="s"><v>0</v></c><c><v>42</v></c></row>'
        '<row><c t="inlineStr"><is><t>at night.</t></is></c></row></sheetData></worksheet>'
    )
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "docProps/core.xml": CORE,
            "xl/workbook.xml": '<workbook xmlns:r="r"><sheets><sheet name="Wolf spiders" '
            'r:id="s1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="s1" '
            'Target="worksheets/sheet1.xml"/></Relationships>',
            "xl/sharedStrings.xml": "<sst><si><r><t>They "
            "</t></r><r><t>hunt</t></r><rPh><t>zzz</t></rPh></si></sst>",
            "xl/worksheets/sheet1.xml": sheet,
            "xl/worksheets/_rels/sheet1.xml.rels": relations(r1="http://elsewhere.example/a"),
        }
    )


def odt() -> bytes:
    content = (
        '<office:document-content xmlns:office="o" xmlns:text="t" '
        'xmlns:xlink="x"><office:body><office:text>'
        "<text:h>Wolf spiders</text:h><text:p>They hunt<text:s text:c='2'/>at night.</text:p>"
        '<text:p><text:a xlink:href="http://elsewhere.example/a">A page</text:a></text:p>'
        "</office:text></office:body></office:document-content>"
    )
    meta = (
        '<m xmlns:dc="d" xmlns:meta="m"><dc:title>Of '
        "spiders</dc:title><meta:creation-date>2020-05-04T03:02:01Z</meta:creation-date></m>"
    )
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "meta.xml": meta,
            "content.xml": content,
        }
    )


def epub() -> bytes:
    book = (
        '<package xmlns:dc="d"><metadata><dc:title>Of '
        "spiders</dc:title><dc:date>2020-05-04T03:02:01Z</dc:date><dc:language>en-GB</dc:language>"
        "<dc:creator>Jane Doe</dc:creator><dc:creator>John Roe</dc:creator><dc:subject>a</dc:subject>"
        "<dc:subject>b</dc:subject></metadata>"
        '<manifest><item id="c1" href="one.xhtml"/></manifest><spine><itemref '
        'idref="c1"/></spine></package>'
    )
    chapter = (
        "<html><body><h1>Wolf spiders</h1><p>They hunt at night.</p><a "
        'href="http://elsewhere.example/a">A page</a></body></html>'
    )
    container = '<container><rootfiles><rootfile full-path="OEBPS/b.opf"/></rootfiles></container>'
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OEBPS/b.opf": book,
            "OEBPS/one.xhtml": chapter,
        }
    )


RTF = (
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial "
    rb"Cyr;}}{\info{\title Of spiders}"
    rb"{\creatim\yr2020\mo5\dy4}{\doccomm nothing}}{\*\unknown hidden}\f0 Wolf spiders\par They "
    rb"{\b hunt} at night.\par "
    rb"{\field{\*\fldinst HYPERLINK \"http://elsewhere.example/a\"}{\fldrslt A page}}\par {\f1 "
    rb"\'ef\'e0\'f3\'ea} \u1087?\u1072?\par}"
).replace(rb"\"", b'"')


def pdf(*pages: bytes, title: str = "Of spiders") -> bytes:
    """Return a PDF with one line and one link per page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for text in pages:
        number = len(objects) + 1
        kids.append(b"%d 0 R" % number)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R /Resources << "
            b"/Font << /F1 << /Type /Font /Subtype "
            b"/Type1 /BaseFont /Helvetica >> >> >> /Annots [ << /Type /Annot /Subtype /Link /Rect "
            b"[0 0 9 9] /A << /S /URI /URI "
            b"(http://elsewhere.example/a) >> >> ] >>" % (number + 1)
        )
        stream = b"BT /F1 12 Tf 20 700 Td (%s) Tj ET" % text
        objects.append(b"<< /Length %d >> stream\n%s\nendstream" % (len(stream), stream))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    objects.append(b"<< /Title (%s) /CreationDate (D:20200504030201Z) >>" % title.encode())
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, each in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj %s endobj\n" % (number, each)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(
        b"%010d 00000 n \n" % offset for offset in offsets
    )
    out += b"trailer << /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1,
        len(objects),
        start,
    )
    return bytes(out)


def compound(streams: Mapping[str, bytes]) -> bytes:
    """Return a compound file ([MS-CFB]). Each stream has at least 4,096 bytes."""
    sectors: list[bytes] = []
    fat: list[int] = []

    def put(data: bytes) -> int:
        """Append data as a chain of sectors. Return the number of the first."""
        first, count = len(sectors), -(-len(data) // 512)
        sectors.extend(
            data[512 * number : 512 * (number + 1)].ljust(512, b"\0") for number in range(count)
        )
        fat.extend([*range(first + 1, first + count), 0xFFFFFFFE])
        return first

    def entry(name: str, kind: int, right: int, child: int, start: int, size: int) -> bytes:
        name_bytes = (name + "\0").encode("utf-16-le")
        links = struct.pack("<BBIII", kind, 1, 0xFFFFFFFF, right, child)
        return (
            name_bytes.ljust(64, b"\0")
            + struct.pack("<H", len(name_bytes))
            + links
            + bytes(36)
            + struct.pack("<IQ", start, size)
        )

    none = 0xFFFFFFFF
    entries = [entry("Root Entry", 5, none, 1, 0xFFFFFFFE, 0)]
    for number, (name, data) in enumerate(streams.items(), 1):
        assert len(data) >= 4096
        entries.append(
            entry(
                name, 2, number + 1 if number < len(streams) else none, none, put(data), len(data)
            )
        )
    directory = put(b"".join(entries).ljust(-(-len(entries) // 4) * 512, b"\0"))
    table = len(sectors)
    fat.append(0xFFFFFFFD)
    assert len(fat) <= 128
    sectors.append(struct.pack("<128I", *fat, *[none] * (128 - len(fat))))
    head = (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
        + bytes(16)
        + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
        + bytes(6)
    )
    head += struct.pack("<IIIIIIIII", 0, 1, directory, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    return head + struct.pack("<109I", table, *[none] * 108) + b"".join(sectors)


def png(**chunks: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I4s", len(data), kind) + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + b"".join(chunk(kind.encode(), data) for kind, data in chunks.items())
        + chunk(b"IEND", b"")
    )


MADE: dict[str, Callable[[], bytes]] = {
    "docx": docx,
    "pptx": pptx,
    "xlsx": xlsx,
    "odt": odt,
    "epub": epub,
    "rtf": lambda: RTF,
    "pdf": lambda: pdf(b"Wolf spiders", b"They hunt at night."),
}
