"""What an HTML document breaks of the standard: each parse error with its code, line and column.

By html5lib, which follows the parsing algorithm of the HTML standard step by step (section 13.2)
and names the errors that it meets.
"""

from __future__ import annotations

from dataclasses import dataclass

from lycosa.core.errors import UsageError, WorkError

try:
    import html5lib
    from html5lib.constants import E as MESSAGES
except ImportError:  # of the extra `validate`
    html5lib = None

MOST_BYTES = 8 * 2**20
"""Of a document: some 6 s of work."""


@dataclass(slots=True, frozen=True)
class HtmlFault:
    """One parse error. `line` counts from 1, `column` characters of it were read when the parser
    saw it.
    """

    line: int
    column: int
    code: str
    message: str


def html_faults(document: bytes, charset: str | None = None) -> list[HtmlFault]:
    """The faults of a document in the order of the parser. `charset`: as the HTTP header names it;
    None: as the document itself says.

    Raises:
        UsageError: html5lib is not installed.
        WorkError: the document is larger than `MOST_BYTES`.
    """
    if html5lib is None:
        raise UsageError(
            "validation needs html5lib, which is not installed: pip install 'lycosa[validate]'"
        )
    if len(document) > MOST_BYTES:
        raise WorkError(
            f"the document has {len(document):,} bytes, more than can be validated "
            f"({MOST_BYTES:,} bytes)"
        )
    parser = html5lib.HTMLParser(strict=False)
    parser.parse(document, transport_encoding=charset)
    return [
        HtmlFault(
            line,
            column,
            code,
            MESSAGES.get(code, code) % values if values else MESSAGES.get(code, code),
        )
        for (line, column), code, values in parser.errors
    ]
