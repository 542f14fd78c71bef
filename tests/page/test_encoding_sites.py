"""Every page of two real sites in several languages and encodings: decoded as what its version
says, with a label and without.

What a page is in is told without our detector: by the folder of its language and by what its file
declares, if it decodes strictly as that. Each text has then to hold the letters of its language,
and nothing that looks like a wrong decoding.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lycosa.page.encoding import decode
from lycosa.page.parse import parse_page
from tests.servers.sites import require_sites
from tests.text.mojibake import damaged_places

_DECLARED = re.compile(rb"(charset|encoding)\s*=\s*[\"']?([A-Za-z0-9_-]+)", re.IGNORECASE)
_CODECS = {"us-ascii": "cp1252", "iso-8859-1": "cp1252", "euc-kr": "cp949"}
# Two files say nothing or the wrong thing: who reads them sees Korean, and the names of Polish and
# Spanish people.
_BY_HAND = {"outdated/ko/README.txt": "cp949", "outdated/it/html/README.html": "cp1252"}
_LETTERS = {
    "ja": "[\u3041-\u30ff]",
    "ko": "[\uac00-\ud7a3]",
    "ru": "[а-я]",
    "zh": "[\u4e00-\u9fff]",
}
MAX_DAMAGED = 0.002  # share of pages with a damaged place in their text; only falls


def _files(site: str) -> list[tuple[str, Path]]:
    folder = next(laid.root for laid in require_sites() if laid.root.name == site)
    return [
        (str(path.relative_to(folder)), path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".html", ".txt")
    ]


@pytest.mark.parametrize("site", ["apache-manual", "tuxpaint-doc"])
def test_every_page_is_decoded_as_its_version_says(site: str) -> None:
    wrong = []
    for name, path in _files(site):
        payload = path.read_bytes()
        declared = _DECLARED.search(payload[:2000])
        label = declared[2].decode().lower() if declared else "utf-8"
        codec = _BY_HAND.get(name) or _CODECS.get(label, label)
        expected = payload.decode(codec).removeprefix("\ufeff")
        if decode(payload, "text/html").data.decode() != expected:
            wrong.append(name)
        # "Polish names among Italian words" is beyond us without a label
        unlabelled = _DECLARED.sub(rb"x=\2", payload)
        if name not in _BY_HAND and decode(unlabelled).data.decode() != unlabelled.decode(
            codec
        ).removeprefix("\ufeff"):
            wrong.append(f"{name} without its label")
        language = re.split("[-_/]", name)[0]
        if (
            language in _LETTERS
            and path.suffix == ".html"
            and not re.search(_LETTERS[language], expected)
        ):
            assert re.search("[A-Za-z]{4}", expected), name  # not translated
    assert wrong == []


def test_hardly_a_page_is_damaged() -> None:
    pages = [path for site in ("apache-manual", "tuxpaint-doc") for _, path in _files(site)[::6]]
    damaged = [
        str(path)
        for path in pages
        if damaged_places(
            parse_page(path.read_bytes(), url="http://site.test/", content_type="text/html").text
        )
    ]
    assert len(damaged) <= MAX_DAMAGED * len(pages), damaged
