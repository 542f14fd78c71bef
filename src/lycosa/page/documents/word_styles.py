"""Styles and numbering of DOCX files: which paragraphs are headings, list items, code, quotes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lycosa.page.documents.structure import ListLevel, ListPlace
from lycosa.page.documents.zipped import Attributes, Package

_HEADING = re.compile(r"heading ([1-9])$", re.IGNORECASE)
_TITLE = re.compile(r"title$", re.IGNORECASE)
_LIST = re.compile(r"list (bullet|number)(?: ([2-9]))?$", re.IGNORECASE)
_CODE = re.compile(
    r"(?:inline |source |html |program )?(?:code|listing|verbatim|preformatted|typewriter)"
    r"(?: char| text| block)?$|source text$|macro text$|html sample$|html keyboard$",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"(?:intense )?quote$|quotations$|block text$|block quotation$", re.IGNORECASE)
_MONOSPACED = re.compile(
    r"courier|consolas|(?:\b|[a-z])mono\b|monospace|menlo|monaco|source code|fira code|typewriter",
    re.IGNORECASE,
)
_MAX_ANCESTORS = 12
_NO_BULLETS = frozenset({"bullet", "none"})
_TEXTS = {"name": "name", "basedOn": "based_on", "numId": "number"}
"""Element -> field of `Style`."""


@dataclass(slots=True, frozen=True)
class Style:
    """A style of paragraphs or characters. `number`: the list of its paragraphs, "" none."""

    name: str = ""
    based_on: str = ""
    outline: int = 0  # level of a heading, 0 none
    number: str = ""
    level: int = 0
    font: str = ""


@lru_cache(1_000)
def is_monospaced(font: str) -> bool:
    """Return whether the name of a font is that of one for code."""
    return bool(_MONOSPACED.search(font))


class WordStyles:
    """The styles of one file, and its lists if they are needed."""

    def __init__(self, package: Package, folder: str, *, lists: bool) -> None:
        styles = Attributes("style", "name", "basedOn", "outlineLvl", "numId", "ilvl", "rFonts")
        package.events(f"{folder}/styles.xml", styles)
        self._styles = _styles(styles)
        numbering = Attributes(
            "abstractNum", "lvl", "start", "numFmt", "num", "abstractNumId", "lvlOverride",
            "startOverride",
        )  # fmt: skip
        if lists:
            package.events(f"{folder}/numbering.xml", numbering)
        self._levels = _levels(numbering)
        self._heading_levels = {style: self._heading_level(style) for style in self._styles}
        self._code = {style for style in self._styles if self._is_code(style)}

    def heading_level(self, style: str) -> int:
        """Return the level of a heading, from 1; 0: it is none."""
        return self._heading_levels.get(style, 0)

    def _heading_level(self, style: str) -> int:
        for each in self._with_ancestors(style):
            if match := _HEADING.match(each.name):
                return int(match[1])
            if _TITLE.match(each.name):
                return 1
            if each.outline:
                return each.outline
        return 0

    def is_code(self, style: str) -> bool:
        """Return whether paragraphs or characters of a style are code."""
        return style in self._code

    def _is_code(self, style: str) -> bool:
        return any(
            _CODE.match(each.name) or is_monospaced(each.font)
            for each in self._with_ancestors(style)
        )

    def is_quote(self, style: str) -> bool:
        """Return whether paragraphs of a style are quotations."""
        return any(_QUOTE.match(each.name) for each in self._with_ancestors(style))

    def name(self, style: str) -> str:
        """Return the name of a style in lower case, which is English for those of the program."""
        return self._styles.get(style, Style()).name.lower()

    def list_place(self, style: str, number: str, level: int | None) -> ListPlace | None:
        """Return the place of a paragraph in a list; None: it is no item.

        Args:
            number: of the list by the paragraph itself: "" not stated, "0" none.
            level: stated by the paragraph itself, from 0.
        """
        named = None
        for each in self._with_ancestors(style):
            named = named or _LIST.match(each.name)
            number = number or each.number
            if level is None and each.number and each.level:
                level = each.level
        if number == "0" or not (number or named):
            return None
        if level is None:
            level = int(named[2]) - 1 if named and named[2] else 0
        default = ListLevel(named is not None and named[1].lower() == "number")
        levels = self._levels.get(number, {})
        # "List Bullet 2" is the first level of a list of its own.
        return ListPlace(number or style, level, levels.get(level, levels.get(0, default)))

    def _with_ancestors(self, style: str) -> list[Style]:
        line: list[Style] = []
        while style in self._styles and len(line) < _MAX_ANCESTORS:
            line.append(self._styles[style])
            style = line[-1].based_on
        return line


def _styles(collected: Attributes) -> dict[str, Style]:
    declared: dict[str, dict[str, Any]] = {}
    style: dict[str, Any] = {}
    for name, attributes in collected.elements:
        value = attributes.get("val", "")
        if name == "style":
            style = declared[attributes.get("styleId", "")] = {}
        elif name in _TEXTS:
            style[_TEXTS[name]] = value
        elif name == "outlineLvl":
            level = whole_number(value, 9)
            style["outline"] = level + 1 if level < 9 else 0
        elif name == "ilvl":
            style["level"] = whole_number(value)
        else:
            style["font"] = attributes.get("ascii") or attributes.get("hAnsi", "")
    return {key: Style(**style) for key, style in declared.items()}


def _levels(collected: Attributes) -> dict[str, dict[int, ListLevel]]:
    """Return the levels of each list. Abstract lists precede those that refer to them."""
    abstract: dict[str, dict[int, ListLevel]] = {}
    lists: dict[str, dict[int, ListLevel]] = {}
    levels: dict[int, ListLevel] = {}
    number, level = "", 0
    for name, attributes in collected.elements:
        value = attributes.get("val", "")
        if name == "abstractNum":
            levels = abstract[attributes.get("abstractNumId", "")] = {}
        elif name in ("lvl", "lvlOverride"):
            level = whole_number(attributes.get("ilvl", ""))
        elif name in ("start", "startOverride"):
            levels[level] = levels.get(level, ListLevel())._replace(start=whole_number(value, 1))
        elif name == "numFmt":
            ordered = value not in _NO_BULLETS
            levels[level] = levels.get(level, ListLevel())._replace(ordered=ordered)
        elif name == "num":
            number = attributes.get("numId", "")
        elif name == "abstractNumId":
            levels = lists[number] = dict(abstract.get(value, {}))
    return lists


def whole_number(value: str, default: int = 0) -> int:
    """Return a number that an attribute states."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 6 else default
