"""Microdata (WHATWG HTML section 5) and RDFa Lite 1.1 of a parsed document.

One selector query a format finds the nodes; an earlier query detects the many documents that have
none. Items become objects in the form of JSON-LD.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from lycosa.core.dataclass import dataclass
from lycosa.page.html.tree import Node
from lycosa.page.metadata.bounds import clean
from lycosa.page.metadata.linked_data import Entity

MAX_NODES = 5_000  # with one of the attributes
MAX_CLIMBS = 200_000  # steps from nodes to the elements around them, in a page
MAX_TEXT_READ = 2_000_000  # characters of texts of elements, in a page
_MAX_SCRIPTS = 20  # that are left out of a text
_MAX_TOKENS = 10  # names in one attribute

Attributes = dict[str, str | None]

_SOURCES = frozenset({"audio", "embed", "iframe", "img", "source", "track", "video"})
_REFERENCES = frozenset({"a", "area", "link"})
_RDFA_PREFIXES = {
    "schema": "http://schema.org/",
    "og": "http://ogp.me/ns#",
    "dc": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
}


@dataclass(slots=True)
class EmbeddedItems:
    """Items that are no property of another, in document order."""

    microdata: list[Entity] = field(default_factory=list)
    rdfa: list[Entity] = field(default_factory=list)


def read_items(root: Node) -> EmbeddedItems:
    """Return the items of a document. Costs two selector queries: most documents have none."""
    return EmbeddedItems(_Microdata(root).read(), _Rdfa(root).read())


class _Items:
    """Items by their elements, with bounds on the work for a page."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._items: dict[int, Entity] = {}  # by the `mem_id` of the element
        self._climbs = MAX_CLIMBS
        self._text = MAX_TEXT_READ
        self.top: list[Entity] = []

    def _nodes(self, query: str) -> list[Node]:
        """Return the first nodes of a query in document order, each once."""
        return list({node.mem_id: node for node in self._root.css(query)[:MAX_NODES]}.values())

    def _around(self, node: Node) -> Entity | None:
        """Return the item that a node belongs to."""
        while (parent := node.parent) is not None and self._climbs > 0:
            self._climbs -= 1
            item = self._items.get(parent.mem_id)
            if item is not None:
                return item
            node = parent
        return None

    def _text_of(self, node: Node) -> str:
        if self._text <= 0:
            return ""
        text = node.text()
        self._text -= len(text)
        for unseen in node.css("script,style")[:_MAX_SCRIPTS] if "{" in text else ():
            text = text.replace(unseen.text(), "", 1)
        return clean(text)


def _add(item: Entity, names: str, value: Any) -> None:
    """Add a value to the properties of an item; several values are a list."""
    for name in names.split()[:_MAX_TOKENS]:
        before = item.get(name)
        if before is None:
            item[name] = value
        elif isinstance(before, list):
            before.append(value)
        else:
            item[name] = [before, value]


def _types(names: str) -> str | list[str]:
    tokens = [clean(name) for name in names.split()[:_MAX_TOKENS]]
    return tokens[0] if len(tokens) == 1 else tokens


class _Microdata(_Items):
    def read(self) -> list[Entity]:
        nodes = self._nodes("[itemscope],[itemprop],[itemref]")
        referring = [node for node in nodes if node.attributes.get("itemref")]
        owners = self._references(referring) if referring else {}
        for node in nodes:
            attributes = node.attributes
            item: Entity | None = None
            if "itemscope" in attributes:
                item = self._items.setdefault(node.mem_id, {})
                if kind := attributes.get("itemtype"):
                    item["@type"] = _types(kind)
                if identifier := attributes.get("itemid"):
                    item["@id"] = clean(identifier)
            names = attributes.get("itemprop")
            owner = (owners.get(node.mem_id) or self._around(node)) if names else None
            if names and owner is not None and owner is not item:
                _add(owner, names, self._value(node, attributes) if item is None else item)
            elif item is not None:
                self.top.append(item)
        return self.top

    def _references(self, referring: list[Node]) -> dict[int, Entity]:
        """Return the items that refer to elements (`itemref`), by the elements; their contents
        belong to these items too.
        """
        owner_of: dict[str, Entity] = {}
        for node in referring:
            item = self._items.setdefault(node.mem_id, {})
            for name in (node.attributes.get("itemref") or "").split()[:_MAX_TOKENS]:
                owner_of.setdefault(name, item)
        owners: dict[int, Entity] = {}
        for node in self._root.css("[id]"):
            owner = owner_of.get(node.attributes.get("id") or "")
            if owner is not None:
                owners[node.mem_id] = owner
                if "itemscope" not in node.attributes:
                    self._items.setdefault(node.mem_id, owner)
        return owners

    def _value(self, node: Node, attributes: Attributes) -> str:
        """Return the value of a property (WHATWG HTML section 5.2.4). `content` counts on every
        element, as examples of schema.org use it.
        """
        tag = node.tag or ""
        if tag in _SOURCES:
            value = attributes.get("src")
        elif tag in _REFERENCES:
            value = attributes.get("href")
        elif tag == "object":
            value = attributes.get("data")
        elif tag in ("data", "meter"):
            value = attributes.get("value")
        elif tag == "time" and attributes.get("datetime"):
            value = attributes.get("datetime")
        else:
            value = attributes.get("content")
            if value is None and tag != "meta":
                return self._text_of(node)
        return clean(value or "")


class _Rdfa(_Items):
    def read(self) -> list[Entity]:
        nodes = self._nodes("[typeof],[property],[vocab],[prefix]")
        self._vocabularies: dict[int, str] = {}
        for node in nodes:
            attributes = node.attributes
            if "vocab" in attributes:
                self._vocabularies[node.mem_id] = (attributes["vocab"] or "").strip()
            kind, names = attributes.get("typeof"), attributes.get("property")
            item: Entity | None = None
            if kind:
                item = self._items[node.mem_id] = {"@type": self._types(node, kind)}
                for name in ("about", "resource", "href", "src"):
                    if identifier := attributes.get(name):
                        item["@id"] = clean(identifier)
                        break
            owner = self._around(node) if names else None
            if names and owner is not None:
                value = self._value(node, attributes) if item is None else item
                _add(owner, _without_prefix(names), value)
            elif item is not None:
                self.top.append(item)
        return self.top

    def _types(self, node: Node, names: str) -> str | list[str]:
        vocabulary = self._vocabulary(node)
        full = []
        for name in names.split():
            prefix, colon, rest = name.partition(":")
            if not colon:
                full.append(vocabulary + name)
            else:
                full.append(_RDFA_PREFIXES.get(prefix, f"{prefix}:") + rest)
        return _types(" ".join(full))

    def _vocabulary(self, node: Node) -> str:
        around: Node | None = node
        while around is not None and self._vocabularies and self._climbs > 0:
            self._climbs -= 1
            if (vocabulary := self._vocabularies.get(around.mem_id)) is not None:
                return vocabulary
            around = around.parent
        return ""

    def _value(self, node: Node, attributes: Attributes) -> str:
        """Return the value of a property (RDFa Lite 1.1, RDFa Core 1.1 section 7.5)."""
        for name in ("content", "href", "src", "resource", "datetime"):
            value = attributes.get(name)
            if value is not None:
                return clean(value)
        return self._text_of(node)


def _without_prefix(names: str) -> str:
    """Remove the prefix of schema.org: `schema:name og:title` -> `name og:title`."""
    return " ".join(name.removeprefix("schema:") for name in names.split()[:_MAX_TOKENS])
