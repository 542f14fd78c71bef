"""The words of the query language that are not searched for: what each narrows, and what may stand behind its colon.

One table, from which the parser works and docs/query.md is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lycosa.core.errors import UrlError
from lycosa.core.said import Said
from lycosa.url.normalise import normalise

SITE, LANGUAGE, FILETYPE, COLLECTION, LINK, SIMILAR, BEFORE, AFTER, SORT = (
    "site", "lang", "filetype", "collection", "link", "similar", "before", "after", "sort",
)  # fmt: skip
IN_TITLE, IN_URL, IN_ANCHOR = "intitle", "inurl", "inanchor"

BY_DATE, BY_RELEVANCE = "date", "relevance"

_LANGUAGE = re.compile(r"^[a-z]{2,3}(?:[-_][a-z0-9]+)*$")
_NAME = re.compile(r"^[\w.-]{1,64}$")
_TYPE = re.compile(r"^\.?[a-z0-9]{1,8}$")
_DATE = re.compile(r"^(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?$")
SAME_TYPES = {
    "htm": "html",
    "xhtml": "html",
    "jpeg": "jpg",
    "tiff": "tif",
    "text": "txt",
    "word": "doc",
    "excel": "xls",
    "powerpoint": "ppt",
}


def site(value: str) -> str:
    """`https://Example.org:80/docs/?q` -> `example.org/docs`: people paste what they see. "" if it names no host."""
    rest = value.partition("://")[2] or value
    rest = rest.removeprefix("*.").strip()
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if not re.search(r"[^\W_]", host):
        return ""
    try:
        url = normalise(f"http://{rest.strip('.')}" if "/" not in rest else f"http://{rest}")
    except UrlError:
        return ""
    authority, _, path = url.partition("://")[2].partition("?")[0].partition("/")
    path = path.strip("/")
    found = re.sub(r":\d+$", "", authority).strip(".")
    return f"{found}/{path}" if path else found


def language(value: str) -> str:
    """`pt-BR` -> `pt`."""
    value = value.lower()
    return re.split(r"[-_]", value)[0] if _LANGUAGE.match(value) else ""


def filetype(value: str) -> str:
    """`.PDF` -> `pdf`."""
    value = value.lower()
    return SAME_TYPES.get(value.lstrip("."), value.lstrip(".")) if _TYPE.match(value) else ""


def name(value: str) -> str:
    return value if _NAME.match(value) else ""


def link(value: str) -> str:
    """The URL as it would be normalised (without a scheme: as http), or a host alone."""
    try:
        url = normalise(value if "://" in value else f"http://{value}")
    except UrlError:
        return ""
    host, _, path = url.partition("://")[2].partition("/")
    if "://" in value or path:
        return url if "://" in value else url.partition("://")[2]
    return host if re.search(r"[^\W_]", host) else ""


def page(value: str) -> str:
    """The URL of a page as it would be normalised; of a host its first page. Without a scheme it stays without one."""
    try:
        url = normalise(value if "://" in value else f"http://{value}")
    except UrlError:
        return ""
    return url if "://" in value else url.partition("://")[2]


def date(value: str) -> str:
    """`2026`, `2026-3`, `2026-03-05` -> the first day, `2026-03-05`."""
    found = _DATE.match(value)
    if found is None:
        return ""
    try:
        return f"{datetime(int(found[1]), int(found[2] or 1), int(found[3] or 1), tzinfo=UTC):%Y-%m-%d}".rjust(10, "0")
    except ValueError:
        return ""


def date_ms(value: str) -> int:
    """The beginning of a day as `date` gives it, in ms since 1970 UTC."""
    year, month, day = map(int, value.split("-"))
    return (datetime(year, month, day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def order(value: str) -> str:
    return value.lower() if value.lower() in (BY_DATE, BY_RELEVANCE) else ""


@dataclass(slots=True, frozen=True)
class Operator:
    """One operator. `read` makes of what stands behind the colon its one form, "" if that makes no sense; without it, words are searched
    for there. `negative`: it may have a minus."""

    names: tuple[str, ...]  # the first is the one that we use
    value: str
    meaning: str
    example: str
    read: Callable[[str], str] | None = None
    wants: str = ""  # what to write, for who wrote something else
    negative: bool = True


OPERATORS: tuple[Operator, ...] = (
    Operator(
        (SITE, "host"),
        "HOST[/PATH]",
        "Pages of this host and the hosts below it; with a path, of that folder or page. Several: of any of them.",
        "site:example.org/docs",
        site,
        Said("wants_site", "a host and optionally a path, as in site:example.org/docs"),
    ),
    Operator(
        (LANGUAGE, "language"),
        "XX",
        "Pages in this language (ISO 639 code). Several: in any of them.",
        "lang:de",
        language,
        Said("wants_lang", "a language code, as in lang:de"),
    ),
    Operator(
        (FILETYPE, "ext"),
        "TYPE",
        "Documents of this type: html, pdf, txt, docx …",
        "filetype:pdf",
        filetype,
        Said("wants_filetype", "a file type, as in filetype:pdf"),
    ),
    Operator(
        (COLLECTION,),
        "NAME",
        "Pages of this collection.",
        "collection:news",
        name,
        Said("wants_collection", "a collection name, as in collection:news"),
    ),
    Operator(
        (LINK,),
        "URL|HOST",
        "Pages that link to this URL (without a scheme: by http or https), or from other hosts to any page of this host.",
        "link:example.org/docs",
        link,
        Said("wants_link", "a URL or a host, as in link:example.org/docs"),
    ),
    Operator(
        (SIMILAR, "related"),
        "URL",
        "Pages like this one, in its language: those that hold the words by which it differs from others. More words narrow them.",
        "similar:example.org/docs/",
        page,
        Said("wants_similar", "the URL of a crawled page, as in similar:example.org/docs/"),
        negative=False,
    ),
    Operator(
        (BEFORE,),
        "DATE",
        "Pages of an earlier date: the one that they give themselves, else that of their fetch.",
        "before:2026-03",
        date,
        Said("wants_before", "a date, as in before:2026-03-31"),
        negative=False,
    ),
    Operator(
        (AFTER, "since"),
        "DATE",
        "Pages of this date or a later one.",
        "after:2026",
        date,
        Said("wants_after", "a date, as in after:2026-03-31"),
        negative=False,
    ),
    Operator(
        (SORT,),
        "date|relevance",
        "The newest first, or the best.",
        "sort:date",
        order,
        Said("wants_sort", "sort:date or sort:relevance"),
        negative=False,
    ),
    Operator((IN_TITLE, "title"), "WORD", "The word or phrase stands in the title.", 'intitle:"event loop"'),
    Operator((IN_URL, "url"), "WORD", "The word stands in the host or path of the address.", "inurl:asyncio"),
    Operator((IN_ANCHOR, "anchor"), "WORD", "The word stands in the text of a link to the page (after `lycosa rank`).", "inanchor:manual"),
)

BY_NAME: Mapping[str, Operator] = {name: operator for operator in OPERATORS for name in operator.names}

_PLAIN = (
    ("words", "Pages with all of the words, in any form of them. If few pages have all, then also those with most of them.", "event loop"),
    ('"a phrase"', "These words in this order, next to each other. Also “…”, „…“, «…», 「…」.", '"event loop"'),
    ("-word, -\"a phrase\", -(…)", "Pages without it.", 'jaguar -car -"big cat"'),
    ("a OR b", "One of the two is enough; `OR` holds closer than the space. Also `|`.", "spider OR wolf silk"),
    ("(…)", "What stands in parentheses counts as one.", '(spider silk) OR "wolf trap"'),
    ("begin*", "Words that begin so, two letters at least.", "program*"),
)  # fmt: skip

_HEAD = """# The query language

The same in `lycosa search`, on the search page and in the API. Nothing that you type is an error: what makes no sense as one of the
following is searched for as words, and a note says so. Case does not matter but in `OR`. A word is found in all its forms, with or without
accents, in every language that the index has pages in. This page is made from the parser's own table (`scripts/make_docs.py`).
"""

_TABLE = "| you type | you get | for instance |\n|---|---|---|"

_FOOT = """
Any of the second table's but `similar:`, `before:`, `after:` and `sort:` takes a minus in front: `-site:example.org` leaves that host
out. Those that take no words narrow the whole query, also from within parentheses; a query of them alone lists what they leave, the
newest first.

`begin*` looks at words as the index holds them, without their endings: `connect*` finds *connecting*, `connecti*` may not. In Chinese,
Japanese, Korean and other scripts whose words are looked up by their characters or syllables, every word is a beginning.
"""


def syntax_page() -> str:
    """docs/query.md."""
    plain = [_row(f"`{_cell(form)}`", meaning, example) for form, meaning, example in _PLAIN]
    rows = []
    for operator in OPERATORS:
        names = ", ".join(f"`{name}:{_cell(operator.value)}`" for name in operator.names)
        rows.append(_row(names, operator.meaning, operator.example))
    return "\n".join([_HEAD, _TABLE, *plain, "", _TABLE, *rows, _FOOT])


def _row(form: str, meaning: str, example: str) -> str:
    return f"| {form} | {_cell(meaning)} | `{_cell(example)}` |"


def examples() -> list[str]:
    """Every example of the page: each must be understood without a note."""
    return [*(example for _, _, example in _PLAIN), *(operator.example for operator in OPERATORS)]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
