"""Author and date as an article or a forum shows them near its headline, for pages that declare
neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lycosa.core.patterns import lazy_pattern
from lycosa.page.dates import MONTH, WORD, YEAR_BEFORE
from lycosa.page.html.tree import Node
from lycosa.page.metadata.bounds import clean
from lycosa.page.metadata.names import MAX_NAME, author_names, name_after_by
from lycosa.page.page_parts import PageParts

MAX_CANDIDATES = 60  # elements that may name the author
MAX_BYLINE = 120  # characters
LINES_BEFORE, LINES_AFTER = 3, 20  # of the headline, that may show author and date
_MAX_LINE = 200

_AUTHOR_NODES = (
    '[rel~="author"],[itemprop~="author"],[class*="author" i],[class*="byline" i],'
    '[class*="username" i],[class*="poster" i]'
)
_DATE_NODES = '[class*="publish" i],[class*="date" i],[class*="posted" i]'
_AUTHOR_MARKS = (b"uthor", b"yline", b"sername", b"poster")
_PROFILE = lazy_pattern(
    r"/(?:authors?|users?|members?|profiles?|people|contributors?|writers?|columnists?"
    r"|u)/[^/?#]+/?$"
    r"|mode=viewprofile|[?&](?:u|user|author|userid)=\w",
    re.IGNORECASE,
)
_BYLINE = lazy_pattern(
    r"(?:\A|[|•·]\s*)(?:(?:written |posted |submitted |published )?by|author)"
    r"\s*:?\s+(?P<name>\S.*)",
    re.IGNORECASE,
)
_REST = lazy_pattern(r"\s*[,;]?\s*[|•·–—]\s*|[,;]\s*$|,\s+(?=[^\W\d_]+,?\s*$)")  # of a byline
_DATE = lazy_pattern(
    rf"\b(?:{WORD}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er|º)?\.?[\s-](?:de\s+)?{MONTH}\.?,?[\s-]"
    r"(?:del?\s+|соли\s+)?\d{4}"
    r"|\d{4}\s+оны\s+\d\d?(?:-р)?\s+сарын\s+\d\d?"
    rf"|\d{{4}}{YEAR_BEFORE}(?:\d\d?[\s-]{MONTH}|{WORD}\.?\s+\d\d?)"
    r"|\d\d?\s+tháng\s+\d\d?,?\s+(?:năm\s+)?\d{4}|\d\d?\.\s?\d\d?\.\s?\d{4}"
    r"|\d\d?/\d\d?/\d{4})(?!\d)"
    # after a Chinese, Japanese or Korean word without a space
    r"|(?<![A-Za-z\d_./-])\d{4}\s?[-/.年년]\s?\d\d?\s?[-/.月월]\s?\d\d?(?!\d)日?",
    re.IGNORECASE,
)
_OTHER_DATE = lazy_pattern(
    r"joined|founded|registered|member since|copyright|©|updated|modified|edited|expires"
    r"|aktualisiert|geändert|bearbeitet|mitglied seit|mis à jour|modifié|actualizad|modificad"
    r"|atualizad|aggiornat|modificat|обновлен|изменен|更新|修改|수정",
    re.IGNORECASE,
)
_PUBLISHED = lazy_pattern(r"\b(?:published|posted|submitted|written|created|date)\b", re.IGNORECASE)
_SLASHED = lazy_pattern(r"(\d\d?)/(\d\d?)/(\d{4})")
_URL_DATE = lazy_pattern(
    r"/((?:19|20)\d\d)[/-](0?[1-9]|1[0-2])[/-](0?[1-9]|[12]\d|3[01])(?:[/-]|$)"
)


def visible_authors(parts: PageParts, headline: str, limit: int, language: str = "") -> list[str]:
    """Return the names that a byline shows: the first element marked as such, or the first line
    near the headline that begins with "By", in the language of the page too.
    """
    for text in _marked_texts(parts):
        if names := author_names([text], limit, language):
            return names
    for line in near_headline(parts, headline):
        match = _BYLINE.search(line)
        if match is not None and not match["name"][0].islower():
            name = _DATE.split(match["name"])[0]
        else:
            name = name_after_by(_REST.split(_DATE.split(line)[0])[0], language)
        if names := author_names([name], limit, language):
            return names
    return []


def _marked_texts(parts: PageParts) -> Iterator[str]:
    root = parts.root
    if root is None or not any(mark in parts.data for mark in _AUTHOR_MARKS):
        return
    for node in root.css(_AUTHOR_NODES)[:MAX_CANDIDATES]:
        text = _name_in(node)
        if text:
            yield text


def _name_in(node: Node) -> str:
    """Return the text of the first link to a profile in an element, else its own short text."""
    if node.tag in ("script", "style", "template", "input", "meta", "link", "img"):
        return ""
    links = [node] if node.tag == "a" else node.css("a[href]")[:5]
    for link in links:
        text = clean(link.text(), MAX_NAME)
        rel = link.attributes.get("rel") or ""
        if text and ("author" in rel or _PROFILE.search(link.attributes.get("href") or "")):
            return text
    text = clean(node.text(), 2 * MAX_BYLINE)
    return text if len(text) <= MAX_BYLINE and not _DATE.search(text) else ""


def near_headline(parts: PageParts, headline: str) -> Sequence[str]:
    """Return the short lines after and before the headline, or at the beginning of the page."""
    lines = parts.lines
    start = 0
    for text in (headline, parts.headline):
        if text and text in lines:
            start = lines.index(text)
            break
    before = lines[max(0, start - LINES_BEFORE) : start]
    around = [*lines[start + 1 : start + 1 + LINES_AFTER], *reversed(before)]
    return [line for line in around if len(line) <= _MAX_LINE]


def visible_dates(parts: PageParts, headline: str) -> Iterator[str]:
    """Yield the dates near the headline, then those of elements marked as a date, in the forms of
    `lycosa.page.dates`.
    """
    yield from _dates_in(near_headline(parts, headline))
    if parts.root is not None:
        nodes = parts.root.css(_DATE_NODES)[:MAX_CANDIDATES]
        yield from _dates_in(clean(node.text(), _MAX_LINE) for node in nodes)
    yield from _dates_in(
        line for line in parts.lines if len(line) <= _MAX_LINE and _PUBLISHED.search(line)
    )


def _dates_in(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if not _OTHER_DATE.search(line):
            yield from written_dates(line)


def written_dates(text: str) -> Iterator[str]:
    """Yield the dates in a text in the forms of `lycosa.page.dates`."""
    return (_normalised(match[0]) for match in _DATE.finditer(text))


def date_in_url(url: str) -> str:
    """Return the date in a path such as `/2024/05/13/`, "" for none."""
    match = _URL_DATE.search(url[:2_000])
    return f"{match[1]}/{match[2]}/{match[3]}" if match else ""


def _normalised(text: str) -> str:
    """Return a visible date in a form that `parse_date` reads, "" where day and month may be
    swapped.
    """
    match = _SLASHED.match(text)
    if match is None:
        return text
    first, second, year = match.groups()
    if int(first) > 12:
        return f"{year}/{second}/{first}"
    return f"{year}/{first}/{second}" if int(second) > 12 or first == second else ""
