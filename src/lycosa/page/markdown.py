"""Markdown, GitHub style, of the blocks of a page or document, or of plain text.

Paragraphs are not wrapped; listings are byte by byte; a cell that spans others leaves them empty;
tables with cells that contain several blocks become paragraphs.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from lycosa.core.errors import Refusal
from lycosa.page.html.lines import BREAK, CELL
from lycosa.page.html.markup import (
    CELL_OF_ROW,
    CHECKBOX,
    CODE,
    DELETED,
    EMPHASIS,
    FOOTNOTE,
    IMAGE,
    LINK,
    LIST,
    MATH,
    ORDERED,
    QUOTE,
    ROW,
    STRONG,
    TABLE,
    Container,
    Markup,
    RichBlock,
)
from lycosa.page.html.walk import PERMALINKS
from lycosa.page.page_parts import fold
from lycosa.url.normalise import LinkResolver

_SIGNS = {STRONG: "**", EMPHASIS: "*", DELETED: "~~"}
_TAGS = {STRONG: "strong", EMPHASIS: "em", DELETED: "del"}
_SPECIAL = re.compile(r"[\\`*_\[\]<~&]")
_ESCAPED = re.compile(r"([\\`*_\[\]<]|~(?=~)|(?<=~)~|&(?=#?\w+;))")
_LINE_START = re.compile(r"(\d*)(#{1,6}\s|[-+]\s|(?<=\d)[.)]\s|>|~~~|={3,}\s*$|-{3,}\s*$|\|)")
_MAIL = re.compile(r"mailto:[^\s()<>]+", re.IGNORECASE)
_LINE_BREAK = re.compile(r"(?<!\n)\n(?!\n)")
_EMPTY_LINES = re.compile(r"\n{2,}")
MAX_CELLS = 100_000  # of a table, the empty ones included; a larger one is written cell by cell


def blocks_markdown(blocks: Sequence[RichBlock], resolver: LinkResolver, *, citations: bool) -> str:
    """Return blocks as Markdown. `citations`: links are numbered references at the end."""
    writer = _Writer(resolver, citations)
    chunks = _write(blocks, None, writer)
    if writer.references:
        chunks.append(
            "\n".join(f"[{number}]: {target}" for target, number in writer.references.items())
        )
    return joined_chunks(chunks)


def text_markdown(text: str, headings: Sequence[str]) -> str:
    """Return a text as Markdown: its lines are paragraphs, and those that are the next heading are
    headings.
    """
    chunks = []
    expected = list(reversed(headings))
    for line in text.split("\n"):
        if expected and line == expected[-1]:
            chunks.append(f"## {expected.pop()}")
        elif line.strip():
            chunks.append(escaped_line(line.strip()))
    return joined_chunks(chunks)


@dataclass(slots=True)
class _Writer:
    """Resolves links, and numbers them in the mode `citations`."""

    resolver: LinkResolver
    numbered: bool
    references: dict[str, int] = field(default_factory=dict)

    def link(self, text: str, url: str) -> str:
        target = self._target(url)
        if not target or not text:
            return text
        if not self.numbered:
            return f"[{text}]({target})"
        number = self.references.setdefault(target, len(self.references) + 1)
        return f"{text} [{number}]"

    def image(self, text: str, url: str) -> str:
        target = self._target(url)
        return f"![{_escape(text)}]({target})" if target and not self.numbered else ""

    def _target(self, url: str) -> str:
        resolved = self.resolver.resolve(url.strip())
        if type(resolved) is Refusal:
            return url.strip() if _MAIL.fullmatch(url.strip()) else ""
        if "(" in resolved or ")" in resolved:
            resolved = resolved.replace("(", "%28").replace(")", "%29")
        fragment = url.partition("#")[2]
        return f"{resolved}#{fragment}" if fragment else resolved


def joined_chunks(chunks: Sequence[str]) -> str:
    """Return blocks of Markdown as a document; "" if there are none."""
    return "\n\n".join(chunks) + "\n" if chunks else ""


def _write(parts: Sequence[RichBlock], around: Container | None, writer: _Writer) -> list[str]:
    """Write the blocks in a container, which is that of none of them or around all of them."""
    chunks: list[str] = []
    for container, group in groupby(parts, lambda part: _within(part.container, around)):
        inside = list(group)
        if container is None:
            chunks += filter(None, (_paragraph(part, writer) for part in inside))
        elif container.kind in (LIST, ORDERED):
            chunks += _write_list(inside, container, writer)
        elif container.kind == QUOTE:
            quoted = "\n\n".join(_write(inside, container, writer))
            chunks.append("\n".join(f"> {line}".rstrip() for line in quoted.split("\n")))
        elif container.kind == TABLE:
            chunks += _write_table(inside, container, writer)
        else:
            chunks += _write(inside, container, writer)
    return chunks


def _within(container: Container | None, around: Container | None) -> Container | None:
    """Return the outermost container inside of another one; None if there is none."""
    inner = None
    while container is not around and container is not None:
        inner, container = container, container.around
    return inner


def _write_list(parts: Sequence[RichBlock], container: Container, writer: _Writer) -> list[str]:
    """Write a list: its items, indented by the width of their markers."""
    items = []
    for item, group in groupby(parts, lambda part: _within(part.container, container)):
        chunks = _write(list(group), item or container, writer)
        if not chunks:
            continue
        if item is None:
            items += chunks
            continue
        marker = f"{item.number}. " if container.kind == ORDERED else "- "
        indent = " " * len(marker)
        text = chunks[0]
        for chunk in chunks[1:]:
            text += ("\n" if _LIST_START.match(chunk) else "\n\n") + chunk
        lines = text.split("\n")
        items.append(
            "\n".join(
                [marker + lines[0], *(f"{indent}{line}" if line else "" for line in lines[1:])]
            )
        )
    return ["\n".join(items)] if items else []


_LIST_START = re.compile(r"- |\d+\. ")


def _write_table(parts: Sequence[RichBlock], table: Container, writer: _Writer) -> list[str]:
    """Write a table; its cells as blocks if they contain blocks, or if it has one column."""
    cells: dict[tuple[int, int], list[str]] = {}
    headers: set[tuple[int, int]] = set()
    outside: list[RichBlock] = []
    for part in parts:
        cell = _cell_of(part.container, table)
        if cell is None or cell.around is None:
            outside.append(part)
            continue
        if part.listing or part.level or part.container is not cell:
            return _write_cells(parts, table, writer)
        segments = _split(part.pieces)
        row, columns = cell.around.number, cell.around.columns or [cell.number]
        end = bisect_left(columns, cell.number) + 1  # the last segment is of this cell
        columns = columns[max(0, end - len(segments)) : end]
        for column, segment in zip(columns, segments[-len(columns) :], strict=True):
            if text := _inline(segment, writer, in_table=True):
                cells.setdefault((row, column), []).append(text)
        if cell.is_header:
            headers.add((row, cell.number))
    width = max((column for _, column in cells), default=0)
    rows = sorted({row for row, _ in cells})
    if width < 2 or width * len(rows) > MAX_CELLS:
        return _write_cells(parts, table, writer)
    lines = [
        "| "
        + " | ".join("<br>".join(cells.get((row, column), [])) for column in range(1, width + 1))
        + " |"
        for row in rows
    ]
    if not any(row == rows[0] for row, _ in headers):
        lines.insert(0, "|" + "  |" * width)
    lines.insert(1, "|" + " --- |" * width)
    before = [text for part in outside if (text := _paragraph(part, writer))]
    return [*before, "\n".join(lines)]


def _write_cells(parts: Sequence[RichBlock], table: Container, writer: _Writer) -> list[str]:
    """Write the cells of a table that serves the layout as blocks one after the other."""
    chunks: list[str] = []
    for (around, inner), group in groupby(parts, lambda part: _place_in(part.container, table)):
        if inner is not None and inner.kind != ROW:
            chunks += _write(list(group), around, writer)
            continue
        for part in group:
            if part.level or part.listing:
                chunks.append(_paragraph(part, writer))
            else:
                chunks += (_inline(segment, writer) for segment in _split(part.pieces))
    return list(filter(None, chunks))


def _place_in(container: Container | None, table: Container) -> tuple[Container, Container | None]:
    """Return the cell of a container in a table, else the table, and the outer container in it."""
    around = _cell_of(container, table) or table
    return around, _within(container, around)


def _cell_of(container: Container | None, table: Container) -> Container | None:
    """Return the cell of a table that a container is in."""
    while container is not None and (
        container.around is None or container.around.around is not table
    ):
        container = container.around
    return container if container is not None and container.kind == CELL_OF_ROW else None


def _split(pieces: Iterable[str]) -> list[list[str]]:
    """Split the pieces of a row at the beginnings of cells."""
    segments: list[list[str]] = [[]]
    for piece in pieces:
        if piece == CELL and type(piece) is not Markup:
            segments.append([])
        else:
            segments[-1].append(piece)
    return segments


def _paragraph(part: RichBlock, writer: _Writer) -> str:
    """Write one block that is in no list, quote or table, or is alone in it."""
    if part.listing is not None:
        return _fenced(*part.listing)
    pieces = [" " if piece == CELL else piece for piece in part.pieces]
    text = _inline(pieces, writer)
    if part.level and text:
        return f"{'#' * part.level} {' '.join(text.split())}"
    return "\n".join(map(_line_as_text, text.split("\n")))


def escaped_line(line: str) -> str:
    """Return a line of plain text as Markdown that shows the same characters."""
    return _line_as_text(_escape(line))


def _line_as_text(line: str) -> str:
    """Return a line so that its first characters begin no heading, list, quote or table."""
    match = _LINE_START.match(line)
    return line if match is None else f"{match[1]}\\{line[match.end(1) :]}"


def _fenced(text: str, language: str) -> str:
    text = text.strip("\n") if text.strip() else ""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}" if text else ""


def _escape(text: str) -> str:
    # Most texts have nothing to escape, and a template costs more than the search.
    return _ESCAPED.sub(r"\\\1", text) if _SPECIAL.search(text) else text


def _inline(pieces: Sequence[str], writer: _Writer, in_table: bool = False) -> str:
    """Return the text of a line with its markup. Most lines have none."""
    if len(pieces) == 1 and type(pieces[0]) is str:
        text = _escape(fold(pieces[0]))
    else:
        text = _Inline(writer, in_table).write(pieces)
    if in_table:
        return text.replace("|", "\\|") if "|" in text else text
    return _LINE_BREAK.sub("  \n", text) if "\n" in text else text


class _Inline:
    """Writes the parts of one block, without markup that has no text."""

    def __init__(self, writer: _Writer, in_table: bool) -> None:
        self._writer = writer
        self._break = "<br>" if in_table else "\n"
        self._open: list[tuple[Markup, list[str]]] = []
        self._kinds: list[str] = []  # of the open markup
        self._out: list[str] = []
        self._next: Sequence[str] = ()  # the pieces, of which those from `_place` on are unread
        self._place = 0

    def write(self, pieces: Sequence[str]) -> str:
        self._next = pieces
        for self._place, piece in enumerate(pieces, 1):
            if type(piece) is Markup:
                self._mark(piece)
            elif piece == BREAK:
                self._out.append(self._break)
            else:
                text = piece.replace("\n", " ") if "\n" in piece else piece
                self._out.append(text if CODE in self._kinds else _escape(text))
        while self._open:
            self._close()
        text = "".join(self._out)
        if "\n" not in text:
            return fold(text)
        return _EMPTY_LINES.sub("\n\n", "\n".join(map(fold, text.split("\n"))).strip("\n"))

    def _mark(self, markup: Markup) -> None:
        kind = markup.kind
        if kind == IMAGE:
            self._out.append(self._writer.image(markup.text, markup.url))
        elif kind == CHECKBOX:
            self._out.append(f"[{markup.text}] ")
        elif kind == FOOTNOTE:
            self._out.append(f"[^{markup.text}]")
        elif markup.begins:
            self._open.append((markup, self._out))
            self._kinds.append(kind)
            self._out = []
        elif kind in self._kinds:
            while self._close() != kind:
                pass

    def _close(self) -> str:
        """End the innermost markup, and return its kind. White space stays outside of it."""
        markup, outer = self._open.pop()
        self._kinds.pop()
        pieces, self._out = self._out, outer
        text = "".join(pieces)
        inner = text.strip()
        if CODE in self._kinds:
            outer += [self._code_link(markup, inner)] if markup.kind == LINK and inner else pieces
            return markup.kind
        if markup.kind == MATH:
            outer.append(f"${markup.text}$")
            return markup.kind
        if markup.kind == LINK and outer and outer[-1].endswith("!"):
            outer[-1] = f"{outer[-1][:-1]}\\!"  # else the link would be an image
        if markup.kind == CODE and any(type(piece) is _CodeLink for piece in pieces):
            outer += _code_around_links(pieces)
        elif not inner:
            outer.append(text if "\n" in text else text and " ")
        elif len(inner) == len(text):
            outer.append(self._marked(markup, inner))
        else:
            after = text[len(text.rstrip()) :]
            outer.append(" " if text[0] != inner[0] else "")
            outer.append(self._marked(markup, inner, after))
            outer.append(after if "\n" in after else after and " ")
        return markup.kind

    def _code_link(self, markup: Markup, text: str) -> str:
        code = _code(fold(text))
        linked = self._writer.link(code, markup.url)
        return text if linked == code else _CodeLink(linked)

    def _marked(self, markup: Markup, text: str, after: str = "") -> str:
        kind = markup.kind
        if kind == LINK:
            if len(text) <= 2 or "\u200b" in text or "\ufeff" in text:
                visible = text.replace("\\", "").strip("\u200b\ufeff")
                if not visible or (visible in PERMALINKS and markup.url[:1] == "#"):
                    return ""
            return self._writer.link(" ".join(text.split()), markup.url)
        if kind == CODE:
            return _code(fold(text))
        if kind in self._kinds:
            return text
        begin = end = _SIGNS[kind]
        if not self._delimits(begin, text, after):
            begin, end = f"<{_TAGS[kind]}>", f"</{_TAGS[kind]}>"
        if "\n" in text:  # markup ends with its paragraph
            lines = "\n".join(line.strip() for line in text.split("\n"))
            text = _EMPTY_LINES.sub(f"{end}\n\n{begin}", lines)
        return f"{begin}{text}{end}"

    def _delimits(self, sign: str, text: str, after: str) -> bool:
        """Return whether signs around a text here are emphasis (CommonMark 0.31.2, section 6.2).

        A sign between a letter and punctuation, as in 例**「語」**, is not.
        """
        inside = text.strip("*") if sign[0] == "*" else text  # signs of nested emphasis join it
        before = next(
            (
                piece[-1]
                for out in (self._out, *(out for _, out in reversed(self._open)))
                for piece in reversed(out)
                if piece
            ),
            " ",
        )
        if before == sign[0]:
            return False
        if inside[:1].isalnum() and inside[-1:].isalnum():
            return True
        rest = (self._next[place] for place in range(self._place, len(self._next)))
        follows = after or next(filter(None, rest), " ")
        return not (
            (_is_sign(inside[:1]) and not _ends_word(before))
            or (_is_sign(inside[-1:]) and not _ends_word(follows[0]))
        )


def _is_sign(character: str) -> bool:
    return unicodedata.category(character or " ")[0] in "PS"


def _ends_word(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] == "P"


class _CodeLink(str):
    """A link inside of code. Code has no markup, so it ends before the link and begins after it."""

    __slots__ = ()


def _code_around_links(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the links in a piece of code, and what is between them as code."""
    for is_link, group in groupby(pieces, lambda piece: type(piece) is _CodeLink):
        text = "".join(group)
        if is_link or not text.strip():
            yield text
        else:
            yield " " if text[0].isspace() else ""
            yield _code(fold(text))
            yield " " if text[-1].isspace() else ""


def _code(text: str) -> str:
    """Return a text between backquotes, as many as it takes."""
    if "`" not in text:
        return f"`{text}`"
    fence = "`" * (max(map(len, re.findall("`+", text))) + 1)
    space = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}"
