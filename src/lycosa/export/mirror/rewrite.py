"""Rewrite a page for offline use: links lead to other files of the mirror, or to the web.

Bytes are decoded as ISO 8859-1, which preserves them, so only links change, and the encoding
remains. Pages in encodings that are not a superset of ASCII (UTF-16, ISO-2022) are converted to
UTF-8.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from lycosa.core.errors import Refusal
from lycosa.page.html import style
from lycosa.url.normalise import LinkResolver

_START = re.compile(r"<!--|<(?P<tag>[a-z][^\s/>]*+)", re.IGNORECASE)
# a quote starts a value only after `=`; possessive, so the time is linear
_REST = re.compile(r"(?P<attributes>(?:=\s*+(?:\"[^\"]*+\"|'[^']*+')|[^>])*+)>")
_ATTRIBUTE = re.compile(
    r"(?P<name>[^\s\"'<>/=]+)(?:\s*=\s*(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"'=<>`]+))?"
)
_ELEMENTS = {
    "href": "a area link image use",
    "src": "img script iframe frame embed input audio video source track",
    "data": "object",
    "poster": "video",
    "background": "body table td th",
    "longdesc": "img",
    "cite": "blockquote q ins del",
    "action": "form",
    "xlink:href": "image use",
}  # attribute with a URL -> its elements
_LINKS = frozenset(
    f"{element}.{attribute}"
    for attribute, elements in _ELEMENTS.items()
    for element in elements.split()
)
_SETS = frozenset({"img.srcset", "source.srcset", "link.imagesrcset"})
_RAW = frozenset({"script", "style", "textarea", "title", "xmp", "noembed", "noframes"})
# valid only for the original bytes and origin
_DROPPED = frozenset({"integrity", "crossorigin", "nonce"})
_REFRESH = re.compile(
    r"^(\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?)(['\"]?)(.*?)\2\s*$", re.IGNORECASE | re.DOTALL
)
_ASCII_LOST = re.compile(r"utf-?(?:16|32)|iso-2022|hz-gb|utf-?7", re.IGNORECASE)
_DECLARED = re.compile(rb"<meta\b[^>]*?charset\s*=\s*[\"']?\s*([^\s\"'/>;]+)", re.IGNORECASE)
_PRESCAN_BYTES = 1024  # searched for the encoding (WHATWG HTML, section 13.2.3.2)
_HTTP_EQUIV = re.compile(r"http-equiv\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_HEAD = re.compile(r"<head\b[^<>]*>", re.IGNORECASE)
_BEFORE_HEAD = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*(?:<!doctype[^>]*>\s*)?(?:<html\b[^>]*>)?",
    re.IGNORECASE | re.DOTALL,
)
_BASE = re.compile("<base", re.IGNORECASE)

Place = Callable[[str], str | None]
"""URL -> relative reference from the page to its file, None if the mirror has none."""


def rewrite_css(body: bytes, url: str, place: Place) -> bytes:
    """Rewrite the URLs of `url()` and `@import` in a style sheet."""
    return style.rewrite(style.text_of(body), _referrer(LinkResolver(url), place)).encode(
        style.encoding_of(body)
    )


def rewrite_html(body: bytes, url: str, charset: str, place: Place) -> bytes:
    """Rewrite the links of a page.

    `charset`: its encoding; it is declared in the page unless it already is.
    """
    charset = encoding = charset or "utf-8"
    if _ASCII_LOST.search(charset):
        try:
            body, charset = body.decode(charset, "replace").removeprefix("\ufeff").encode(), "utf-8"
        except LookupError:
            return body
        declared = None
    else:
        declaration = _DECLARED.search(body[:_PRESCAN_BYTES])
        declared = declaration[1].decode("latin-1").lower() if declaration else None
    text = body.decode("latin-1")
    written = _Page(text, url, charset, encoding, place).written()
    if declared != charset.lower() and not body.startswith(b"\xef\xbb\xbf"):
        # before any other declaration, as the first one counts
        head = _HEAD.search(written) or _BEFORE_HEAD.match(written)
        at = head.end() if head else 0
        written = f'{written[:at]}<meta charset="{charset}">{written[at:]}'
    return written.encode("latin-1", "xmlcharrefreplace")


class _StartTag(NamedTuple):
    """A start tag by its position. `stop`: the end of its raw text (script, style), else `end`."""

    start: int
    end: int
    stop: int
    name: str
    attributes: str


def _start_tags(text: str) -> Iterator[_StartTag]:
    """Yield the start tags outside comments and raw text. An unclosed one extends to the end of the
    page.
    """
    position = 0
    while (start := _START.search(text, position)) is not None:
        if start["tag"] is None:
            end = text.find("-->", start.end())
            position = len(text) if end < 0 else end
            continue
        rest = _REST.match(text, start.end())
        if rest is None:
            return
        name, position = start["tag"], rest.end()
        if name.lower() in _RAW:
            close = re.compile(rf"</{re.escape(name)}", re.IGNORECASE).search(text, position)
            position = close.start() if close else len(text)
        yield _StartTag(start.start(), rest.end(), position, name, rest["attributes"])


class _Page:
    """One document, as a string with one character per byte.

    `encoding`: the original one, in which queries of links are encoded.
    """

    def __init__(self, text: str, url: str, charset: str, encoding: str, place: Place) -> None:
        self._text = text
        self._charset = charset
        base = self._base()
        target = LinkResolver(url, encoding).resolve(base) if base else Refusal.UNPARSABLE
        resolver = LinkResolver(url if isinstance(target, Refusal) else target, encoding)
        self._refer = _referrer(resolver, place)

    def _base(self) -> str:
        """Return the href of the first `base` that has one, "" without one."""
        if _BASE.search(self._text) is not None:
            for tag in _start_tags(self._text):
                if tag.name.lower() == "base":
                    for match in _ATTRIBUTE.finditer(tag.attributes):
                        if match["name"].lower() == "href" and match["value"]:
                            return self._plain(match["value"])
        return ""

    def written(self) -> str:
        parts: list[str] = []
        position = 0
        text = self._text
        for tag in _start_tags(text):
            parts.append(text[position : tag.start])
            parts.append(self._tag(text[tag.start : tag.end], tag.name, tag.attributes))
            position = tag.end
            if tag.name.lower() == "style":
                raw = text[tag.end : tag.stop]
                parts.append(style.rewrite(raw, lambda href: self._refer(self._real(href))))
                position = tag.stop
        parts.append(text[position:])
        return "".join(parts)

    def _real(self, text: str) -> str:
        try:
            return text.encode("latin-1").decode(self._charset, "replace")
        except LookupError:
            return text

    def _tag(self, whole: str, name: str, attributes: str) -> str:
        tag = name.lower()
        if tag == "base":
            return ""  # links are resolved
        if "=" not in attributes:
            return whole
        if tag == "meta":
            kind = _HTTP_EQUIV.search(attributes)
            if kind is not None and kind[1].lower().startswith("content-security-policy"):
                return ""  # it refers to the original hosts
            if kind is None or kind[1].lower() != "refresh":
                return whole
            return f"<{name}{_ATTRIBUTE.sub(self._refresh, attributes)}>"
        return f"<{name}{_ATTRIBUTE.sub(lambda each: self._attribute(each, tag), attributes)}>"

    def _attribute(self, match: re.Match[str], tag: str) -> str:
        name, value = match["name"].lower(), match["value"]
        if value is None:
            return "" if name in _DROPPED else match[0]
        if name in _DROPPED and tag in ("link", "script", "img", "video", "audio"):
            return ""
        key = f"{tag}.{name}"
        if key in _LINKS:
            instead = self._refer(self._plain(value))
        elif key in _SETS:
            instead = self._set(self._plain(value))
        elif name == "style" and "url(" in value.lower():
            instead = style.rewrite(self._plain(value), self._refer)
        else:
            return match[0]
        return match[0] if instead is None else f'{match["name"]}="{_quoted(instead)}"'

    def _refresh(self, match: re.Match[str]) -> str:
        if match["name"].lower() != "content" or match["value"] is None:
            return match[0]
        parts = _REFRESH.match(self._plain(match["value"]))
        instead = self._refer(parts[3]) if parts else None
        return (
            match[0]
            if parts is None or instead is None
            else f'{match["name"]}="{_quoted(parts[1] + instead)}"'
        )

    def _set(self, value: str) -> str:
        """Rewrite `a.png 1x, b.png 2x` (WHATWG HTML, section 4.8.4.2.1)."""
        candidates = [
            f"{self._refer(url) or url}{descriptor.rstrip()}"
            for url, descriptor in style.CANDIDATE.findall(value)
        ]
        return ", ".join(candidates) or value

    def _plain(self, value: str) -> str:
        return html.unescape(self._real(value[1:-1] if value[:1] in "\"'" else value))


def _quoted(value: str) -> str:
    """Escape an attribute value for any encoding that is a superset of ASCII."""
    return html.escape(value).encode("ascii", "xmlcharrefreplace").decode()


def _referrer(resolver: LinkResolver, place: Place) -> Callable[[str], str | None]:
    def refer(href: str) -> str | None:
        """Return the new reference, None to leave it unchanged."""
        href = href.strip()
        if (
            not href
            or href.startswith("#")
            or re.match(r"(?!https?:)[a-z][a-z0-9+.-]*:", href, re.IGNORECASE)
        ):
            return None
        target = resolver.resolve(href)
        if isinstance(target, Refusal):
            return None
        _, mark, fragment = href.partition("#")
        return (place(target) or target) + mark + fragment.replace(" ", "%20")

    return refer
