"""Parses the HTML of Lycosa's own pages."""

from __future__ import annotations

from html.parser import HTMLParser

SEARCH_SCRIPTS = [
    # It sorts the results before they are rendered.
    {"type": "module", "src": "/static/search.js", "blocking": "render"},
    {"type": "module", "src": "/static/suggest.js"},
]
"""The only scripts of the search page."""

_VOID = {"meta", "link", "input", "br", "img", "path", "circle", "ellipse"}


class Document(HTMLParser):
    """Elements with their attributes and texts; fails if a tag is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}))
        if tag not in _VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attributes}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open, f"</{tag}> closes nothing"
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self._open:
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of every element with this tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, tag: str) -> list[str]:
        """Return the text of every element with this tag."""
        return [" ".join(text.split()) for text in self.texts.get(tag, [])]
