"""The operators of the query language. docs/reference/query.md has the same table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UrlError
from lycosa.core.messages import Message
from lycosa.text.fold import name_words
from lycosa.url.languages import language_code
from lycosa.url.normalise import normalise

SITE, LANGUAGE, FILETYPE, COLLECTION, LINK, SIMILAR, BEFORE, AFTER, SORT = (
    "site", "lang", "filetype", "collection", "link", "similar", "before", "after", "sort",
)  # fmt: skip
TYPE, AUTHOR = "type", "author"
IN_TITLE, IN_URL, IN_ANCHOR = "intitle", "inurl", "inanchor"

BY_DATE, BY_RELEVANCE = "date", "relevance"

_NAME = re.compile(r"^[\w.-]{1,64}\Z")
_TYPE = re.compile(r"^\.?[a-z0-9]{1,8}\Z")
_KIND = re.compile(r"^[A-Za-z]{2,50}\Z")
_DATE = re.compile(r"^(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?\Z")
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
    """Convert `https://Example.org:80/docs/?q` to `example.org/docs`; "" without a host."""
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
    host_name = re.sub(r":\d+$", "", authority).strip(".")
    return f"{host_name}/{path}" if path else host_name


def filetype(value: str) -> str:
    """Convert `.PDF` to `pdf`; "" if it is invalid."""
    value = value.lower()
    return SAME_TYPES.get(value.lstrip("."), value.lstrip(".")) if _TYPE.match(value) else ""


def page_kind(value: str) -> str:
    """Convert `NewsArticle` to `newsarticle`; "" if it is invalid."""
    return value.lower() if _KIND.match(value) else ""


def author(value: str) -> str:
    """Convert `Müller, Jane` to `muller+jane`."""
    return "+".join(name_words(value))


def name(value: str) -> str:
    return value if _NAME.match(value) else ""


def link(value: str) -> str:
    """Return the normalised URL (without a scheme: as http), or a host alone."""
    try:
        url = normalise(value if "://" in value else f"http://{value}")
    except UrlError:
        return ""
    host, _, path = url.partition("://")[2].partition("/")
    if "://" in value or path:
        return url if "://" in value else url.partition("://")[2]
    return host if re.search(r"[^\W_]", host) else ""


def page(value: str) -> str:
    """Return the normalised URL of a page, without a scheme if the value has none.

    A host means its first page.
    """
    try:
        url = normalise(value if "://" in value else f"http://{value}")
    except UrlError:
        return ""
    return url if "://" in value else url.partition("://")[2]


def date(value: str) -> str:
    """Convert `2026`, `2026-3` or `2026-03-05` to their first day; "" if it is invalid."""
    match = _DATE.match(value)
    if match is None:
        return ""
    try:
        day = datetime(int(match[1]), int(match[2] or 1), int(match[3] or 1), tzinfo=UTC)
        return f"{day:%Y-%m-%d}".rjust(10, "0")
    except ValueError:
        return ""


def date_ms(value: str) -> int:
    """Return the start of a day of `date`, in ms since 1970 UTC."""
    year, month, day = map(int, value.split("-"))
    return (datetime(year, month, day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        milliseconds=1
    )


def order(value: str) -> str:
    return value.lower() if value.lower() in (BY_DATE, BY_RELEVANCE) else ""


@dataclass(slots=True, frozen=True)
class Operator:
    """An operator. `read` returns the canonical value, "" if it is invalid; without `read`, the
    value is words to search for. `negative`: it may have a minus.
    """

    names: tuple[str, ...]  # the first is the canonical one
    value: str
    meaning: str
    example: str
    read: Callable[[str], str] | None = None
    wants: str = ""  # description of valid values
    negative: bool = True


OPERATORS: tuple[Operator, ...] = (
    Operator(
        (SITE, "host"),
        "HOST[/PATH]",
        "Pages of this host and its subdomains; with a path, of that folder or page. Several: any "
        "of them.",
        "site:example.org/docs",
        site,
        Message("wants_site", "a host and optionally a path, as in site:example.org/docs"),
    ),
    Operator(
        (LANGUAGE, "language"),
        "XX",
        "Pages in this language (ISO 639 code). Several: any of them.",
        "lang:de",
        language_code,
        Message("wants_lang", "a language code, as in lang:de"),
    ),
    Operator(
        (FILETYPE, "ext"),
        "TYPE",
        "Documents of this type: html, pdf, txt, docx …",
        "filetype:pdf",
        filetype,
        Message("wants_filetype", "a file type, as in filetype:pdf"),
    ),
    Operator(
        (COLLECTION,),
        "NAME",
        "Pages of this collection.",
        "collection:news",
        name,
        Message("wants_collection", "a collection name, as in collection:news"),
    ),
    Operator(
        (TYPE,),
        "TYPE",
        "Pages of this type: article, collection, documentation, forum, listing, product, service; "
        "or a type of schema.org that the page declares, such as Recipe.",
        "type:article",
        page_kind,
        Message("wants_type", "a type of page, as in type:article"),
    ),
    Operator(
        (AUTHOR,),
        "NAME",
        "Pages whose author has all of these names, without regard to case and accents.",
        'author:"Jane Doe"',
        author,
        Message("wants_author", 'a name, as in author:"Jane Doe"'),
    ),
    Operator(
        (LINK,),
        "URL|HOST",
        "Pages that link to this URL (without a scheme: http or https). With a host: pages of "
        "other hosts that link to it.",
        "link:example.org/docs",
        link,
        Message("wants_link", "a URL or a host, as in link:example.org/docs"),
    ),
    Operator(
        (SIMILAR, "related"),
        "URL",
        "Pages in the same language that contain the most characteristic words of this page. "
        "Further words filter them.",
        "similar:example.org/docs/",
        page,
        Message("wants_similar", "the URL of a crawled page, as in similar:example.org/docs/"),
        negative=False,
    ),
    Operator(
        (BEFORE,),
        "DATE",
        "Pages with an earlier date: their publication date, or else the date of the fetch.",
        "before:2026-03",
        date,
        Message("wants_before", "a date, as in before:2026-03-31"),
        negative=False,
    ),
    Operator(
        (AFTER, "since"),
        "DATE",
        "Pages with this date or a later one.",
        "after:2026",
        date,
        Message("wants_after", "a date, as in after:2026-03-31"),
        negative=False,
    ),
    Operator(
        (SORT,),
        "date|relevance",
        "Sort by date (newest first) or by relevance.",
        "sort:date",
        order,
        Message("wants_sort", "sort:date or sort:relevance"),
        negative=False,
    ),
    Operator(
        (IN_TITLE, "title"),
        "WORD",
        "The title contains the word or phrase.",
        'intitle:"event loop"',
    ),
    Operator(
        (IN_URL, "url"), "WORD", "The host or path of the URL contains the word.", "inurl:asyncio"
    ),
    Operator(
        (IN_ANCHOR, "anchor"),
        "WORD",
        "The text of a link to the page contains the word (after `lycosa rank`).",
        "inanchor:manual",
    ),
)

BY_NAME: Mapping[str, Operator] = {
    name: operator for operator in OPERATORS for name in operator.names
}

FORMS = (
    (
        "words",
        "Pages with all of the words, in any inflected form. "
        "If there are few, also pages with some of the words.",
        "event loop",
    ),
    (
        "a sentence",
        "Pages with any of its words; rare words count most.",
        "how does the event loop run tasks?",
    ),
    (
        '"a phrase"',
        "These words in this order, next to each other. "
        "The quotes “…”, „…“, «…» and 「…」 work too. A mark that is not closed is ignored. "
        "If no page contains the phrase, its words are searched for, with a note.",
        '"event loop"',
    ),
    ('-word, -"a phrase", -(…)', "Pages without it.", 'jaguar -car -"big cat"'),
    (
        "a OR b",
        "At least one of the two. `OR` binds more tightly than the space. `|` works too. "
        "Elsewhere, for example at the end of a query, `OR` is a word, with a note.",
        "spider OR wolf silk",
    ),
    ("(…)", "Groups a part of the query.", '(spider silk) OR "wolf trap"'),
    ("begin*", "Words with this prefix of at least two letters.", "program*"),
)
"""Forms of a query besides operators: form, meaning, example. For the documentation."""
