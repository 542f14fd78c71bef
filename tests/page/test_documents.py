"""Test text and properties of generated and LibreOffice documents."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lycosa.core.records import Page
from lycosa.page.documents.kinds import Kind, kind_of
from lycosa.page.documents.parse import parse_document
from lycosa.page.documents.sink import MAX_TEXT
from tests.page.dates import ms
from tests.page.document_files import MADE, RTF, W, compound, docx, epub, pdf, png, zipped
from tests.servers.system import require_program


def read(payload: bytes) -> Page:
    kind = kind_of(payload)
    assert kind is not None
    return parse_document(payload, kind, url="http://h/d")


@pytest.mark.parametrize("form", MADE)
def test_text_links_and_properties(form: str) -> None:
    page = read(MADE[form]())
    assert (page.faults, page.title) == ([], "Of spiders")
    assert (page.main_text.split("\n")[0], page.text) == ("Wolf spiders", page.main_text)
    words = page.text.split()
    assert all(word in words for word in ("They", "hunt", "night."))
    assert "gone" not in words
    assert "zzz" not in page.text
    assert page.links[0].target == "http://elsewhere.example/a"
    assert page.text_digest
    assert page.simhash
    if form not in ("xlsx",):
        assert page.published_at is not None
        assert page.published_at // 86_400_000 == 18_386  # 4 May 2020
    if form in ("docx", "pptx", "odt", "epub", "xlsx"):
        assert (page.headings, page.headline) == (["Wolf spiders"], "Wolf spiders")


def test_properties_of_a_book_and_of_a_text() -> None:
    book = read(epub())
    assert (book.declared_language, book.metadata.language) == ("en", "en")
    assert book.metadata.authors == ["Jane Doe", "John Roe"]
    assert book.metadata.keywords == ["a", "b"]
    core = (
        "<cp:coreProperties xmlns:cp='c' xmlns:dcterms='t'><dcterms:modified>2020-05-05T00:00:00Z"
        "</dcterms:modified></cp:coreProperties>"
    )
    text = read(
        zipped({"[Content_Types].xml": "", "word/document.xml": "", "docProps/core.xml": core})
    )
    assert text.metadata.modified_at == ms(2020, 5, 5)


def test_notes_of_an_open_document_follow_their_paragraph() -> None:
    content = (
        "<o:document-content xmlns:o='o' xmlns:t='t'><t:p>Wolf<t:note><t:note-citation>1"
        "</t:note-citation><t:note-body><t:p>A spider.</t:p></t:note-body></t:note> hunts.</t:p>"
        "</o:document-content>"
    )
    page = read(zipped({"META-INF/manifest.xml": "", "content.xml": content}))
    assert page.text == "Wolf hunts.\nA spider."


def test_fields_of_a_docx_in_several_pieces() -> None:
    page = read(docx())
    assert [link.target for link in page.links] == [
        "http://elsewhere.example/a",
        "http://field.example/",
    ]
    assert page.links[0].anchor == "A page"


def test_code_pages_of_an_rtf_file() -> None:
    assert read(RTF).text.split("\n")[-1] == "паук па"
    assert "hidden" not in read(RTF).text


def test_image_text_is_that_of_its_metadata_without_decoding() -> None:
    page = read(png(tEXt=b"Title\0Wolf spider", iTXt="Description\0\0\0\0\0Паук на листе".encode()))
    assert (page.title, page.description) == ("Wolf spider", "Паук на листе")
    assert page.text == "Wolf spider\nПаук на листе"


def test_page_headers_of_a_pdf_are_not_text() -> None:
    pages = [
        b"Spiders of Europe %d) Tj 0 -20 Td (Something about species %s of the book"
        % (n, bytes([65 + n]) * 5)
        for n in range(8)
    ]
    page = read(pdf(*pages))
    assert "Spiders of Europe" not in page.text
    assert page.text.count("Something about species") == 8


def test_kinds_are_detected_from_bytes() -> None:
    assert {form: kind_of(make()) for form, make in MADE.items()} == {
        "docx": Kind.DOCX, "pptx": Kind.PPTX, "xlsx": Kind.XLSX, "odt": Kind.ODF, "epub": Kind.EPUB, "rtf": Kind.RTF, "pdf": Kind.PDF,
    }  # fmt: skip
    assert kind_of(b"<html>%PDF-1.4</html>") is None
    assert kind_of(b"The header is %PDF-1.4, it says.") is None
    assert kind_of(b"\r\nnoise\n" + pdf(b"x")) is Kind.PDF
    assert kind_of(zipped({"a.txt": "text"})) is None
    assert kind_of(b"") is None


def test_encrypted_documents_are_reported() -> None:
    manifest = (
        '<manifest><file-entry full-path="content.xml"><encryption-data/></file-entry></manifest>'
    )
    locked = zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "META-INF/manifest.xml": manifest,
            "content.xml": b"\x01\x02",
        }
    )
    assert read(locked).faults == ["document_encrypted"]


@pytest.mark.proves("limits-decompression")
def test_zip_bombs_are_read_to_a_limit() -> None:
    big = b"<w:p><w:r><w:t>" + b"word " * 40_000_000 + b"</w:t></w:r></w:p>"
    page = read(docx(more={"word/footnotes.xml": big}))
    assert len(page.text) <= MAX_TEXT
    assert "document_cut" in page.faults or "document_broken" in page.faults
    assert "They hunt at night." in page.text  # text before the bomb is kept


@pytest.mark.proves("limits-entities")
def test_entities_are_not_expanded() -> None:
    laughs = '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    page = read(
        docx(
            more={
                "word/document.xml": laughs
                + f"<w:document {W}><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:document>"
            }
        )
    )
    assert (page.text, page.faults) == ("", ["document_broken"])


@pytest.mark.parametrize("depth", [100, 100_000])
def test_deep_nesting(depth: int) -> None:
    page = read(docx("<w:p><w:r><w:t>top</w:t></w:r></w:p>" + "<w:x>" * depth + "</w:x>" * depth))
    assert page.text == "top"
    assert read(b"{\\rtf1 top" + b"{" * depth + b"low" + b"}" * depth + b"}").text == "toplow"


def test_pdf_with_a_cyclic_page_tree() -> None:
    looped = pdf(b"Some words").replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]")
    assert read(looped).faults in ([], ["document_broken"])


def test_a_truncated_office_file_is_broken() -> None:
    document = docx()
    assert read(document[: len(document) - 200]).faults == ["document_broken"]


def test_a_presentation_of_powerpoint_95_has_the_text_of_its_outline() -> None:
    """Its records are not documented, but it has a stream of plain text."""
    outline = "Wolf spiders\r\rThey hunt at night, d’accord.\r".encode("cp1252").ljust(4_096, b"\r")
    old = compound({"PowerPoint Document": bytes(4_096), "Text_Content": outline})
    assert kind_of(old) is Kind.PPT
    page = parse_document(old, Kind.PPT, url="http://h/a.ppt")
    assert (page.text, page.faults) == ("Wolf spiders\nThey hunt at night, d’accord.", [])


_TEXTS = {
    "de": "Die Wölfe jagen nachts über große Wiesen, sagte Jürgen.",
    "ru": "Волки охотятся ночью на больших лугах.",
    "zh": "狼蛛在夜间捕猎，不结网。",
    "ar": "تصطاد العناكب الذئبية ليلا ولا تنسج شباكا.",
    "hi": "भेड़िया मकड़ी रात में शिकार करती है।",
}
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_WRITER = ("doc", "docx", "odt", "rtf", "pdf", "epub")


def _convert(program: str, folder: Path, source: str, target: str, *more: str) -> bytes:
    command = [
        program,
        f"-env:UserInstallation=file://{folder}/profile",
        "--headless",
        "--convert-to",
        target,
        "--outdir",
        str(folder),
        *more,
    ]
    subprocess.run([*command, str(folder / source)], check=True, capture_output=True, timeout=240)
    return (folder / source).with_suffix(f".{target}").read_bytes()


def _text(payload: bytes) -> str:
    kind = kind_of(payload)
    assert kind is not None
    page = parse_document(payload, kind, url="http://h/")
    assert page.faults == []
    return page.text


@pytest.mark.prove
@pytest.mark.parametrize("form", _WRITER)
def test_text_in_five_scripts(form: str, tmp_path: Path) -> None:
    program = require_program("soffice")
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in _TEXTS.values())
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
        'PartName="/word/document.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
        "_rels/.rels": "<Relationships "
        'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
        'Id="r" Type='
        '"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>',
        "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
    }
    (tmp_path / "source.docx").write_bytes(zipped(parts))
    if form == "docx":
        text = _text((tmp_path / "source.docx").read_bytes())
    else:
        text = _text(_convert(program, tmp_path, "source.docx", form))
    # A PDF contains glyphs, from which Arabic and Devanagari cannot be restored.
    written = ["de", "ru", "zh"] if form == "pdf" else list(_TEXTS)
    for language in written:
        assert _TEXTS[language].replace(" ", "") in text.replace(" ", "").replace("\n", ""), (
            language
        )


@pytest.mark.prove
@pytest.mark.parametrize("form", ["xls", "ods", "xlsx"])
def test_text_of_workbooks(form: str, tmp_path: Path) -> None:
    program = require_program("soffice")
    (tmp_path / "source.csv").write_text("Wölfe,ночью\n2020-05-04,42\n")
    # comma, quotes, UTF-8
    text = _text(_convert(program, tmp_path, "source.csv", form, "--infilter=CSV:44,34,76"))
    assert all(word in text for word in ("Wölfe", "ночью", "2020", "42"))


@pytest.mark.prove
@pytest.mark.parametrize("form", ["ppt", "odp", "pptx"])
def test_text_of_presentations(form: str, tmp_path: Path) -> None:
    program = require_program("soffice")
    box = "<draw:text-box><text:p>Wölfe jagen ночью</text:p></draw:text-box>"
    page = (
        f"<draw:page><draw:frame svg:width='10cm' svg:height='3cm'>{box}</draw:frame></draw:page>"
    )
    (tmp_path / "source.fodp").write_text(
        '<?xml version="1.0"?><office:document '
        'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
        'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" office:version="1.2" '
        'office:mimetype="application/vnd.oasis.opendocument.presentation"><office:body><office:presentation>'
        f"{page}</office:presentation></office:body></office:document>"
    )
    assert "Wölfe jagen ночью" in _text(_convert(program, tmp_path, "source.fodp", form))
