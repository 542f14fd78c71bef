"""Files that LibreOffice writes, in the formats that are not made by hand here: DOC, PPT, XLS and
all the others.

It is not among the programs that `make system` installs (400 MB): these proofs say so and are
skipped without it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document
from tests.page.made import zipped
from tests.servers.system import require_program

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
    # PDF holds glyphs: Arabic and Devanagari need more than their order
    written = ["de", "ru", "zh"] if form == "pdf" else list(_TEXTS)
    for language in written:
        assert _TEXTS[language].replace(" ", "") in text.replace(" ", "").replace("\n", ""), (
            language
        )


@pytest.mark.prove
@pytest.mark.parametrize("form", ["xls", "ods", "xlsx"])
def test_workbooks(form: str, tmp_path: Path) -> None:
    program = require_program("soffice")
    (tmp_path / "source.csv").write_text("Wölfe,ночью\n2020-05-04,42\n")
    # comma, quotes, UTF-8
    text = _text(_convert(program, tmp_path, "source.csv", form, "--infilter=CSV:44,34,76"))
    assert all(word in text for word in ("Wölfe", "ночью", "2020", "42"))


@pytest.mark.prove
@pytest.mark.parametrize("form", ["ppt", "odp", "pptx"])
def test_presentations(form: str, tmp_path: Path) -> None:
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
