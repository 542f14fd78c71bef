"""Draw the structure of a site as SVG: nested folders, and a cell for each page.

Cells are coloured by depth and have the same size, so that names are readable: 1,000 pages take
about three screens. Folders of large sites show their first pages and the number of others. There
are no scripts, links or external resources; tooltips contain the details of pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from unicodedata import east_asian_width
from urllib.parse import unquote

from lycosa.core.messages import Message
from lycosa.core.units import format_size
from lycosa.site.checks import parent_folder
from lycosa.site.report import PageLine, SiteReport
from lycosa.store.storage.files import write_errors

MAX_PAGES = 2_000  # if there are more, each folder shows a part
_FEW = 12  # pages of a folder then
_MAX_FOLDERS = 400  # the largest ones; pages of others count for their parent
_COLUMNS, _CELL_W, _CELL_H, _HEAD, _PAD = 12, 122, 18, 20, 5
_LEGEND_W = 900
_MAX_ROWS = 14  # of a folder before it gets wider
_LETTERS = 16  # characters of a cell
_COLOURS = ("#0b3c5d", "#1d6996", "#2b789c", "#7fb8d4", "#b5d8e8", "#dcecf3")
_DARK = 3  # colours with light text
_UNREACHED = "#f2b134"
_BROKEN = "#c1121f"
_Say = Callable[[Message], str]
# not allowed in XML 1.0
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@dataclass(slots=True)
class _Box:
    """A folder to be drawn: pages, then subfolders. `hidden`: number of pages not drawn."""

    path: str
    total: int
    pages: list[PageLine] = field(default_factory=list)
    inner: list[_Box] = field(default_factory=list)
    hidden: int = 0
    columns: int = 1
    width: int = 0
    height: int = 0
    rows: list[list[_Box]] = field(default_factory=list)


def write_picture(report: SiteReport, path: str) -> None:
    """Write the picture to a file.

    Raises:
        WorkError: it cannot be written.
    """
    with write_errors(path):
        Path(path).write_text(site_picture(report), encoding="utf-8")


def site_picture(report: SiteReport, say: _Say = str) -> str:
    """Return the SVG document. `say` translates messages; the default is English."""
    root, width, height = _measured(report)
    broken: dict[str, int] = {}
    for link in report.broken:
        broken[link.source] = broken.get(link.source, 0) + 1
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img">',
        f"<title>{_text(f'{report.site}: {say(_pages(report.pages))}')}</title>",
        '<style>text{font:11px "DejaVu '
        'Sans",Verdana,sans-serif}.h{font-weight:bold}.l{fill:#fff}.d{fill:#1a1a1a}</style>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_legend(report, say),
        *_draw(root, _PAD, 2 * _PAD + 2 * _HEAD, 0, broken, say),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def picture_size(report: SiteReport) -> tuple[int, int]:
    """Return width and height of the picture in pixels."""
    _, width, height = _measured(report)
    return width, height


def _measured(report: SiteReport) -> tuple[_Box, int, int]:
    root = _boxes(report)
    _measure(root, _COLUMNS)
    return root, max(root.width + 2 * _PAD, _LEGEND_W), root.height + 3 * _PAD + 2 * _HEAD


def _boxes(report: SiteReport) -> _Box:
    """Return the largest folders as nested boxes."""
    totals = {folder.path: folder.pages for folder in report.tree if folder.pages}
    drawn = {"/", *sorted(totals, key=lambda path: (-totals[path], path))[:_MAX_FOLDERS]}
    own: dict[str, list[PageLine]] = {}
    hidden: dict[str, int] = {}
    few = _FEW if report.pages > MAX_PAGES else report.pages
    for page in sorted(report.page_list, key=lambda page: (page.depth < 0, page.depth, page.url)):
        folder = _folder(page.url)
        while folder not in drawn:
            folder = parent_folder(folder)
        listed = own.setdefault(folder, [])
        if len(listed) < few:
            listed.append(page)
        else:
            hidden[folder] = hidden.get(folder, 0) + 1
    boxes = {
        path: _Box(path, totals.get(path, 0), own.get(path, []), hidden=hidden.get(path, 0))
        for path in sorted(drawn)
    }
    for path, box in boxes.items():
        if path != "/":
            boxes[_drawn_parent(path, boxes)].inner.append(box)
    return boxes["/"]


def _drawn_parent(path: str, boxes: Mapping[str, _Box]) -> str:
    above = parent_folder(path)
    while above not in boxes:
        above = parent_folder(above)
    return above


def _folder(url: str) -> str:
    path = "/" + url.partition("://")[2].partition("?")[0].partition("/")[2]
    return path[: path.rfind("/") + 1]


def _measure(box: _Box, most: int) -> None:
    """Set the sizes of a box and its inner boxes, which are placed in rows."""
    cells = len(box.pages) + (1 if box.hidden else 0)
    square = max(round((cells * _CELL_H / _CELL_W) ** 0.5 + 0.5), -(-cells // _MAX_ROWS))
    named = -(-(len(box.path) * 7 + 50) // _CELL_W)  # wide enough for the name
    box.columns = max(1, min(most, max(square, min(named, 3))))
    for inner in box.inner:
        _measure(inner, max(1, most - 1))
    box.inner.sort(key=lambda inner: (-inner.height, inner.path))
    limit = most * _CELL_W - 2 * _PAD
    row: list[_Box] = []
    used = 0
    for inner in box.inner:
        if row and used + _PAD + inner.width > limit:
            box.rows.append(row)
            row, used = [], 0
        used += inner.width + (_PAD if row else 0)
        row.append(inner)
    if row:
        box.rows.append(row)
    widest = max(
        (sum(inner.width for inner in row) + _PAD * (len(row) - 1) for row in box.rows), default=0
    )
    box.columns = max(box.columns, min(most, widest // _CELL_W)) if cells else box.columns
    box.width = max(box.columns * _CELL_W, widest) + 2 * _PAD
    box.height = (
        _HEAD
        + -(-cells // box.columns) * _CELL_H
        + sum(row[0].height + _PAD for row in box.rows)
        + _PAD
    )


def _draw(
    box: _Box, x: int, y: int, level: int, broken: Mapping[str, int], say: _Say
) -> Iterator[str]:
    shade = ("#f7f7f5", "#ececea")[level % 2]
    yield (
        f'<rect x="{x}" y="{y}" width="{box.width}" height="{box.height}" fill="{shade}" '
        'stroke="#8a8a86" rx="3"/>'
    )
    head = _cut(f"{unquote(box.path)}  {box.total:,}", box.width // 8)
    yield f'<text class="h d" x="{x + _PAD}" y="{y + 14}">{_text(head)}</text>'
    top = y + _HEAD
    cells = len(box.pages) + (1 if box.hidden else 0)
    for place, page in enumerate(box.pages):
        left, below = x + _PAD + place % box.columns * _CELL_W, top + place // box.columns * _CELL_H
        yield from _cell(page, left, below, broken.get(page.url, 0), say)
    if box.hidden:
        place = len(box.pages)
        left, below = x + _PAD + place % box.columns * _CELL_W, top + place // box.columns * _CELL_H
        more = say(
            Message("site-more", "and {n, plural, one {# more} other {# more}}", n=box.hidden)
        )
        yield f'<text class="d" x="{left + 5}" y="{below + 13}">{_text(more)}</text>'
    top += -(-cells // box.columns) * _CELL_H + (_PAD if cells and box.rows else 0)
    for row in box.rows:
        left = x + _PAD
        for inner in row:
            yield from _draw(inner, left, top, level + 1, broken, say)
            left += inner.width + _PAD
        top += row[0].height + _PAD


def _cell(page: PageLine, x: int, y: int, broken: int, say: _Say) -> Iterator[str]:
    colour = _UNREACHED if page.depth < 0 else _COLOURS[min(page.depth, len(_COLOURS) - 1)]
    letters = "l" if 0 <= page.depth < _DARK else "d"
    way = (
        Message("site-unreached", "not reachable by links from the home page")
        if page.depth < 0
        else Message("site-depth", "depth {n}", n=page.depth)
    )
    to_it = Message(
        "site-links-in",
        "{n, plural, one {# incoming link} other {# incoming links}}",
        n=page.in_links,
    )
    of_it = Message(
        "site-links-out",
        "{n, plural, one {# outgoing link} other {# outgoing links}}",
        n=page.out_links,
    )
    lines = [
        unquote(page.url),
        page.title,
        say(way),
        say(to_it),
        say(of_it),
        format_size(page.size),
    ]
    if broken:
        lines.append(
            say(
                Message(
                    "site-broken",
                    "{n, plural, one {# broken link} other {# broken links}}",
                    n=broken,
                )
            )
        )
    yield (
        f"<g><title>{_text(chr(10).join(filter(None, lines)))}</title>"
        f'<rect x="{x}" y="{y}" width="{_CELL_W - 2}" height="{_CELL_H - 2}" fill="{colour}"/>'
    )
    if broken:
        yield f'<rect x="{x}" y="{y}" width="4" height="{_CELL_H - 2}" fill="{_BROKEN}"/>'
    path, mark, query = page.url.partition("?")
    name = path.partition("://")[2].partition("/")[2].rpartition("/")[2] + mark + query
    yield (
        f'<text class="{letters}" x="{x + 6}" '
        f'y="{y + 12}">{_text(_cut(unquote(name) or "/", _LETTERS))}</text></g>'
    )


def _legend(report: SiteReport, say: _Say) -> Iterator[str]:
    head = f"{report.site}: {say(_pages(report.pages))}, {format_size(report.bytes)}"
    yield f'<text class="h d" x="{_PAD}" y="17">{_text(head)}</text>'
    names = [(colour, str(depth)) for depth, colour in enumerate(_COLOURS[:-1])]
    names.append((_COLOURS[-1], say(Message("site-or-more", "{n} or more", n=len(_COLOURS) - 1))))
    names.append((_UNREACHED, say(Message("site-not-reached", "not reachable"))))
    names.append((_BROKEN, say(Message("site-holds-broken", "with broken links"))))
    title = say(Message("site-by-depth", "depth (links from the home page)"))
    x = _PAD
    yield f'<text class="d" x="{x}" y="37">{_text(title)}</text>'
    x += 20 + _wide(title)
    for colour, name in names:
        yield (
            f'<rect x="{x}" y="27" width="14" height="12" fill="{colour}"/><text class="d" '
            f'x="{x + 18}" y="37">{_text(name)}</text>'
        )
        x += 34 + _wide(name)


def _pages(count: int) -> Message:
    return Message("site-pages", "{n, plural, one {# page} other {# pages}}", n=count)


def _wide(text: str) -> int:
    """Estimate the width of a text in pixels; CJK characters are twice as wide."""
    return sum(12 if east_asian_width(letter) in "WF" else 7 for letter in text)


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _text(text: str) -> str:
    return escape(_CONTROL.sub("\ufffd", text))
