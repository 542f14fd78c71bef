"""RTF (Rich Text Format specification 1.9.1), read by striprtf.

Its input is prepared: fields are read for their links, destinations that contain text lose the mark
by which readers skip them, and bytes become escapes, which striprtf decodes by code page and font.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from striprtf.striprtf import rtf_to_text

from lycosa.page.documents.sink import Sink

_text_of: Callable[..., str] = rtf_to_text
_HYPERLINK = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"?([^"\s]+)')
_CREATED = re.compile(r"\\creatim\\yr(\d{4})\\mo(\d{1,2})\\dy(\d{1,2})")
_CODE_PAGE = re.compile(r"\\ansicpg\d+")
_SHOWN = re.compile(r"\\(?:\*\\)?(?:shptxt|footnote|annotation)(?![a-z])")
_HIDDEN = re.compile(r"\\v(?![a-z0-9])(?:[^{}\\]|\\'[0-9a-f]{2})*")
_BYTE = re.compile(r"[\x80-\xff]")
_INFO = {
    "title": "title",
    "subject": "description",
    "doccomm": "description",
    "author": "author",
    "keywords": "keywords",
}


def read_rtf(payload: bytes, sink: Sink) -> None:
    """Read the text of an RTF file, its properties, and the targets of its fields."""
    source = _BYTE.sub(lambda match: f"\\'{ord(match[0]):02x}", payload.decode("latin-1"))
    page = _CODE_PAGE.search(source)
    start = "{\\rtf1\\ansi" + (page[0] if page else "")
    for word, name in _INFO.items():
        if text := _group(source, word):
            sink.describe(name, _text_of(f"{start} {text}}}", errors="replace"))
    if created := _CREATED.search(source):
        sink.describe("date", "{}-{:0>2}-{:0>2}".format(*created.groups()))
    for link in _HYPERLINK.finditer(source):
        sink.link(link[1])
    source = _HIDDEN.sub("", _SHOWN.sub("", source.replace("HYPERLINK", "")))
    for line in _text_of(source, errors="replace").splitlines():
        sink.line(line)


def _group(source: str, word: str) -> str:
    """Return the content of the first group of a control word."""
    begin = re.search(rf"\{{\\{word}(?![a-z])", source)
    if begin is None:
        return ""
    depth = 1
    for brace in re.compile(r"(?<!\\)[{}]").finditer(source, begin.end()):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return source[begin.end() : brace.start()]
    return ""
