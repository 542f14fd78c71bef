"""Markdown of a page that is not a document: HTML from its markup, other types from their text."""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.page.html.markdown import (
    MarkdownMode,
    escaped_line,
    joined_chunks,
    page_markdown,
)
from lycosa.page.media import MediaFormat, format_of


def html_markdown(payload: bytes, url: str, content_type: str, mode: MarkdownMode) -> str | None:
    """Return an HTML page as Markdown; None if it is not HTML.

    Args:
        payload: the decoded body.
        url: where it came from, normalised.
    """
    form = format_of(content_type, payload)
    if form not in (MediaFormat.HTML, MediaFormat.XHTML):
        return None
    is_xml = form is MediaFormat.XHTML
    return page_markdown(payload, url=url, content_type=content_type, mode=mode, xml=is_xml)


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
