"""Test Markdown of documents by python-docx, python-pptx and fpdf2."""

from __future__ import annotations

import io
import time

import docx
import pptx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from fpdf import FPDF
from pptx.util import Inches

from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document
from lycosa.page.html.markdown import MarkdownMode
from lycosa.page.parse import ParseOptions
from tests.page.document_files import MADE, W
from tests.page.document_files import docx as made_docx

URL = "https://www.example.org/files/report"
PROSE = (
    "Wolf spiders hunt at night, and they make no webs. They have eight eyes in three rows, of "
    "which four are small, and the others see well in the dark."
)


def markdown(payload: bytes, mode: MarkdownMode = MarkdownMode.MAIN) -> str:
    kind = kind_of(payload)
    assert kind is not None
    page = parse_document(payload, kind, url=URL, options=ParseOptions(markdown=mode))
    assert page.faults == []
    assert page.markdown is not None
    plain = parse_document(payload, kind, url=URL)
    assert (plain.text, plain.links, plain.headings) == (page.text, page.links, page.headings)
    assert plain.markdown is None
    return page.markdown


def _saved(document: docx.document.Document | pptx.presentation.Presentation) -> bytes:
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def _word(*items: str | tuple[str, str]) -> bytes:
    """Return a file of python-docx.

    Items are texts, or pairs of style and text.
    """
    document = docx.Document()
    document.styles.add_style("Source Code", WD_STYLE_TYPE.PARAGRAPH)
    for item in items:
        style, text = ("Normal", item) if isinstance(item, str) else item
        document.add_paragraph(text, style=style)
    return _saved(document)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (
            [("Title", "T"), ("Heading 1", "A"), ("Heading 3", "B"), PROSE],
            f"# T\n\n# A\n\n### B\n\n{PROSE}",
        ),
        (
            [("List Bullet", "a"), ("List Bullet 2", "b"), ("List Bullet", "c"), "d"],
            "- a\n  - b\n- c\n\nd",
        ),
        (
            [("List Number", "a"), ("List Number 2", "b"), ("List Number", "c")],
            "1. a\n   1. b\n2. c",
        ),
        ([("List Number", "a"), "between", ("List Number", "b")], "1. a\n\nbetween\n\n2. b"),
        ([("Quote", "a"), ("Intense Quote", "b"), "c"], "> a\n>\n> b\n\nc"),
        (
            [
                ("Source Code", "def f():"),
                ("Source Code", ""),
                ("Source Code", "    return 1"),
                "x",
            ],
            "```\ndef f():\n\n    return 1\n```\n\nx",
        ),
        (["# no heading", "2 * 3 [x]"], "\\# no heading\n\n2 \\* 3 \\[x\\]"),
    ],
)
def test_styles_of_word(items: list[str | tuple[str, str]], expected: str) -> None:
    assert markdown(_word(*items)) == f"{expected}\n"


def test_markup_of_word() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("Plain, ")
    for text, names in (
        ("bold", ["bold"]),
        (" text", ["bold"]),
        (" and ", []),
        ("both", ["bold", "italic"]),
    ):
        run = paragraph.add_run(text)
        for name in names:
            setattr(run, name, True)
    paragraph.add_run(" ")
    paragraph.add_run("f(x)").font.name = "Courier New"
    paragraph.add_run().add_break()
    target = document.part.relate_to(
        "https://example.org/x", RELATIONSHIP_TYPE.HYPERLINK, is_external=True
    )
    link = OxmlElement("w:hyperlink")
    link.set(qn("r:id"), target)
    paragraph.add_run("the site")
    link.append(paragraph.runs[-1]._r)
    paragraph._p.append(link)
    document.add_heading("A bold heading", 2).runs[0].bold = True
    payload = _saved(document)
    assert markdown(payload) == (
        "Plain, **bold text** and ***both*** `f(x)`  \n[the site](https://example.org/x)\n\n"
        "## A bold heading\n"
    )
    cited = markdown(payload, MarkdownMode.CITATIONS)
    assert "the site [1]\n" in cited
    assert cited.endswith("[1]: https://example.org/x\n")


def test_tables_of_word() -> None:
    document = docx.Document()
    table = document.add_table(rows=3, cols=3)
    for row, texts in zip(
        table.rows, (("a", "b", "c"), ("1", "x|y", ""), ("2", "", "3")), strict=True
    ):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    table.rows[2].cells[0].merge(table.rows[2].cells[1])
    table.rows[1].cells[2].add_paragraph("second paragraph")
    document.add_paragraph("after")
    assert markdown(_saved(document)) == (
        "| a | b | c |\n| --- | --- | --- |\n| 1 | x\\|y | second paragraph |\n| 2 |  | 3 |\n\nafter\n"
    )


def test_page_headers_are_not_main_content() -> None:
    document = docx.Document()
    document.add_paragraph(PROSE)
    document.sections[0].header.paragraphs[0].text = "Draft"
    payload = _saved(document)
    assert markdown(payload) == f"{PROSE}\n"
    assert markdown(payload, MarkdownMode.FULL) == f"{PROSE}\n\nDraft\n"


def test_notes_of_word() -> None:
    reference = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    body = f'<w:p><w:r><w:t xml:space="preserve">Spiders </w:t></w:r>{reference}</w:p>'
    notes = (
        f'<w:footnotes {W}><w:footnote w:id="-1"><w:p><w:r><w:separator/></w:r></w:p></w:footnote>'
        '<w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t>A note.</w:t></w:r></w:p>'
        "</w:footnote></w:footnotes>"
    )
    assert (
        markdown(made_docx(body, {"word/footnotes.xml": notes}))
        == "Spiders [^2]\n\n[^2]: A note.\n"
    )


def test_fields_of_word_are_links() -> None:
    assert "[field](http://field.example/)" in markdown(made_docx())


def _slides() -> bytes:
    presentation = pptx.Presentation()
    layouts = presentation.slide_layouts
    slide = presentation.slides.add_slide(layouts[0])
    slide.shapes.title.text = "The talk"
    slide.placeholders[1].text = "by me"
    slide = presentation.slides.add_slide(layouts[1])
    slide.shapes.title.text = "Points"
    frame = slide.placeholders[1].text_frame
    frame.text = "one"
    inner = frame.add_paragraph()
    inner.text, inner.level = "inner", 1
    run = frame.add_paragraph().add_run()
    run.text, run.font.bold = "two", True
    run.hyperlink.address = "https://example.org/y"
    slide.notes_slide.notes_text_frame.text = "Wait here."
    slide = presentation.slides.add_slide(layouts[5])
    slide.shapes.title.text = "Numbers"
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for number, text in enumerate(("a", "b", "1", "2")):
        table.cell(number // 2, number % 2).text = text
    box = slide.shapes.add_textbox(0, 0, 100, 100).text_frame
    box.text = "Part"
    box.paragraphs[0].runs[0].font.bold = True
    code = box.add_paragraph().add_run()
    code.text, code.font.name = "x = 1", "Consolas"
    return _saved(presentation)


def test_slides() -> None:
    assert markdown(_slides()) == (
        "# The talk\n\nby me\n\n## Points\n\n- one\n  - inner\n- [**two**](https://example.org/y)\n\n"
        "> Wait here.\n\n## Numbers\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n### Part\n\n"
        "```\nx = 1\n```\n"
    )


def _new_pdf() -> FPDF:
    document = FPDF()
    document.set_font("Helvetica", size=11)
    document.add_page()
    return document


def _heading(document: FPDF, text: str, size: int) -> None:
    document.set_font("Helvetica", "B", size)
    document.multi_cell(0, size * 0.6, text, new_x="LMARGIN", new_y="NEXT")
    document.set_font("Helvetica", size=11)
    document.ln(3)


def _paragraph(document: FPDF, text: str) -> None:
    document.multi_cell(0, 5, text, new_x="LMARGIN", new_y="NEXT", align="L")
    document.ln(4)


def test_headings_and_paragraphs_of_pdf() -> None:
    document = _new_pdf()
    _heading(document, "Of spiders", 22)
    _paragraph(document, PROSE)
    _heading(
        document, "Wolf spiders, which are found on meadows and in woods, and what they eat", 16
    )
    _paragraph(document, PROSE)
    _paragraph(document, f"{PROSE} {PROSE}")
    expected = (
        f"# Of spiders\n\n{PROSE}\n\n## Wolf spiders, which are found on meadows and in woods, and "
        f"what they eat\n\n{PROSE}\n\n{PROSE} {PROSE}\n"
    )
    assert markdown(bytes(document.output())) == expected


def test_the_outline_of_a_pdf_sets_heading_levels() -> None:
    document = _new_pdf()
    for title, level, size in (("Part", 0, 14), ("Chapter", 1, 14), ("Section", 2, 11)):
        document.start_section(title, level)
        _heading(document, title, size)
        _paragraph(document, PROSE)
    assert markdown(bytes(document.output())) == (
        f"# Part\n\n{PROSE}\n\n## Chapter\n\n{PROSE}\n\n### Section\n\n{PROSE}\n"
    )


def test_lists_of_pdf() -> None:
    document = _new_pdf()
    _paragraph(document, PROSE)
    for indent, text in ((5, "1. first"), (12, "- inner"), (12, f"- {PROSE}"), (5, "2. second")):
        marker, _, content = text.partition(" ")
        document.set_x(document.l_margin + indent)
        document.cell(5, 5, marker)
        document.multi_cell(0, 5, content, new_x="LMARGIN", new_y="NEXT", align="L")
    assert markdown(bytes(document.output())) == (
        f"{PROSE}\n\n1. first\n   - inner\n   - {PROSE}\n2. second\n"
    )


def test_tables_of_pdf() -> None:
    document = _new_pdf()
    _paragraph(document, PROSE)
    rows = (
        ("Name", "Legs", "Note"),
        ("Wolf spider", "8", "hunts at night on meadows and in light woods, and makes no webs"),
        ("Ant", "6", "builds"),
    )
    with document.table(col_widths=(2, 1, 2)) as table:
        for texts in rows:
            table.row(texts)
    document.ln(4)
    _paragraph(document, PROSE)
    lines = ["| " + " | ".join(texts) + " |" for texts in rows]
    lines.insert(1, "| --- | --- | --- |")
    output = markdown(bytes(document.output())).replace("**", "")
    assert output == f"{PROSE}\n\n" + "\n".join(lines) + f"\n\n{PROSE}\n"


def test_code_and_links_of_pdf() -> None:
    document = _new_pdf()
    document.write(5, "See ")
    document.write(5, "the site", "https://example.org/z")
    document.write(5, " for more.")
    document.ln(12)
    document.set_font("Courier", size=9)
    for line in ("def f():", "    if x:", "", "        return  1"):
        document.cell(0, 4, line, new_x="LMARGIN", new_y="NEXT")
    document.set_font("Helvetica", size=11)
    document.ln(5)
    _paragraph(document, PROSE)
    assert markdown(bytes(document.output())) == (
        "See [the site](https://example.org/z) for more.\n\n"
        f"```\ndef f():\n    if x:\n\n        return  1\n```\n\n{PROSE}\n"
    )


def test_page_headers_of_a_pdf_are_left_out() -> None:
    class Report(FPDF):
        def header(self) -> None:
            self.set_font("Helvetica", size=8)
            self.cell(0, 5, f"Annual report, page {self.page_no()}", new_x="LMARGIN", new_y="NEXT")
            self.ln(5)

    document = Report()
    words = PROSE.split()
    for number in range(6):
        document.add_page()
        document.set_font("Helvetica", size=11)
        _paragraph(document, " ".join(words[number:] + words[:number]))
    output = markdown(bytes(document.output()))
    assert "Annual" not in output
    assert output.count("webs.") == 6


def test_documents_without_styles() -> None:
    assert markdown(MADE["pdf"]()).startswith("Wolf spiders")
    assert markdown(MADE["odt"]()).startswith("## Wolf spiders")


def test_sheets_are_tables() -> None:
    expected = "## Wolf spiders\n\n| They hunt | 42 |\n| --- | --- |\n| at night. |  |\n"
    assert markdown(MADE["xlsx"]()) == expected


def _cell(text: str, span: int = 1) -> str:
    width = f'<w:tcPr><w:gridSpan w:val="{span}"/></w:tcPr>' if span > 1 else ""
    return f"<w:tc>{width}<w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:tc>"


def test_nested_tables_are_bounded() -> None:
    depth = 3_000
    start = f"<w:tbl><w:tr><w:tc>{'<w:tbl><w:tr><w:tc>' * depth}"
    end = "</w:tc></w:tr></w:tbl>" * (depth + 1)
    assert markdown(made_docx(f"{start}<w:p><w:r><w:t>deep</w:t></w:r></w:p>{end}")) == "deep\n"


def test_wide_and_long_tables_are_bounded() -> None:
    wide = f"<w:tr>{_cell('wide', 99) * 500}</w:tr>"
    long = f"<w:tr>{_cell('long')}</w:tr>" * 4_000
    started = time.process_time()
    output = markdown(made_docx(f"<w:tbl>{wide}{long}</w:tbl>"))
    assert (output.count("wide"), output.count("long")) == (500, 4_000)
    assert time.process_time() - started < 20


def test_long_code_blocks_are_bounded() -> None:
    styles = (
        f'<w:styles {W}><w:style w:styleId="c"><w:name w:val="Source Code"/></w:style></w:styles>'
    )
    line = '<w:p><w:pPr><w:pStyle w:val="c"/></w:pPr><w:r><w:t>line</w:t></w:r></w:p>'
    started = time.process_time()
    assert markdown(made_docx(line * 15_000, {"word/styles.xml": styles})).count("line\n") == 15_000
    assert time.process_time() - started < 20


def test_a_pdf_with_lines_similar_to_a_table_is_bounded() -> None:
    """One page of short lines in two columns that do not form a table."""
    document = FPDF(format=(400, 12_000))
    document.add_page()
    document.set_font("Helvetica", size=4)
    for _ in range(2_000):
        document.cell(200, 2, "x" * 60)
        document.cell(150, 2, "y" * 60, new_x="LMARGIN", new_y="NEXT")
    started = time.process_time()
    output = markdown(bytes(document.output()))
    assert output.count("y" * 60) == 2_000
    assert "|" not in output
    assert time.process_time() - started < 20
