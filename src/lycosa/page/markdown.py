"""Markdown of a document of any readable type."""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.page.html.markdown import MarkdownMode, page_markdown, text_markdown
from lycosa.page.media import MediaFormat, format_of


def document_markdown(
    payload: bytes,
    *,
    url: str,
    content_type: str,
    texts: tuple[str, str],
    headings: Sequence[str],
    mode: MarkdownMode = MarkdownMode.MAIN,
) -> str:
    """Return a document as Markdown: HTML from its markup, other types from their text.

    Args:
        payload: the decoded body.
        url: where it came from, normalised.
        texts: the main text and the complete text of the parsed document.
        headings: those of the parsed document, in order.
    """
    form = format_of(content_type, payload)
    if form in (MediaFormat.HTML, MediaFormat.XHTML):
        is_xml = form is MediaFormat.XHTML
        return page_markdown(payload, url=url, content_type=content_type, mode=mode, xml=is_xml)
    main, complete = texts
    return text_markdown(complete if mode is MarkdownMode.FULL or not main else main, headings)
