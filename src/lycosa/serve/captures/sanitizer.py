"""Sanitizes an untrusted page for display: only elements that show text, and links, which lead to
our own copies where they exist.

nh3 (the Rust library ammonia) parses as browsers do and writes the elements of an allow-list. The
content security policy of the response (`lycosa.serve.captures.pages`) would also stop scripts,
forms and requests; DNS prefetch hints, which no policy governs, are stopped here only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape

import nh3

from lycosa.core.errors import Refusal
from lycosa.page.encoding import decode
from lycosa.page.html.links import base_url
from lycosa.page.html.nesting import bounded
from lycosa.page.html.tree import Tree, parse_html
from lycosa.url.normalise import LinkResolver

MAX_BYTES = 4 * 2**20
"""Bytes of a page that are shown."""
# characters of attributes: the parser repeats those of formatting that is not closed
_MAX_ATTRIBUTES = 8 * 2**20

_TAGS = """
    a abbr acronym address area article aside b bdi bdo big blockquote br caption center cite
    code col colgroup data dd del details dfn dir div dl dt em figcaption figure font footer h1
    h2 h3 h4 h5 h6 header hgroup hr i img ins kbd li main map mark menu nav nobr ol p picture
    pre q rp rt rtc ruby s samp section small span strike strong style sub summary sup table
    tbody td tfoot th thead time tr tt u ul var wbr
"""
_WITH_CONTENT = """
    applet audio button canvas embed frameset iframe math noembed noframes noscript object
    script select svg template textarea title video xmp
"""
_EVERYWHERE = """
    align alt bgcolor border cellpadding cellspacing class clear color colspan compact dir face
    headers height hspace id lang nowrap reversed rowspan scope size span start style summary
    title type valign value vspace width
"""
_ATTRIBUTES = {
    "*": set(_EVERYWHERE.split()),
    "a": {"href", "name"},
    "area": {"href", "shape", "coords"},
    "img": {"src"},
    "time": {"datetime"},
    "details": {"open"},
}
_PICTURE = re.compile(
    r"data:image/(?:png|jpe?g|gif|webp|avif|bmp|x-icon|vnd\.microsoft\.icon)[;,]", re.IGNORECASE
)
_OWN_ANCHOR = re.compile(r'<(?:a|area)(?: [a-z-]+="[^"]*")* href="#[^>]*>')
_ROOT_ATTRIBUTES = ("lang", "dir", "class")
_BODY_ATTRIBUTES = ("class", "id", "dir", "lang", "style", "bgcolor", "text")
_STYLE = """<style>
:root{color-scheme:light}
body:not([bgcolor]){background-color:#fff}
img:not([src]){display:inline-block;border:1px dashed #999;color:#666;padding:0 .3em}
img:not([src]){font-size:.85em}
img:not([src]):not([alt]),img[alt=""]:not([src]){display:none}
a[href^="/cached?"]{text-decoration:underline dotted;text-underline-offset:.2em}
</style>"""

Refer = Callable[[str], str]
"""Returns the new target of a link, by its absolute URL."""


def safe_page(payload: bytes, content_type: str, url: str, refer: Refer) -> str:
    """Return an HTML document of any encoding as a safe, complete document in UTF-8. Bounded in
    time and size; never raises.

    `url`: its URL. Links go through `refer`; those within the page stay.
    """
    decoded = decode(payload[:MAX_BYTES], content_type)
    data, _ = bounded(decoded.data)
    tree, _ = parse_html(data)
    named = tree.css_first("base[href]")
    base = base_url(url, None if named is None else named.attributes.get("href"))
    resolver = LinkResolver(base, decoded.charset or "utf-8")
    left = _MAX_ATTRIBUTES

    def filtered(tag: str, name: str, value: str) -> str | None:
        nonlocal left
        if name == "href":
            value = _target(value, resolver, refer) or ""
        elif name == "src":
            value = value if _PICTURE.match(value) else ""
        left -= len(value)
        if left < 0 or (not value and name in ("href", "src")):
            return None
        return value

    body = nh3.clean(
        data.decode("utf-8", "replace"),
        tags=set(_TAGS.split()),
        clean_content_tags=set(_WITH_CONTENT.split()),
        attributes=_ATTRIBUTES,
        attribute_filter=filtered,
        url_schemes={"http", "https", "ftp", "gopher", "data"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_top"}, "area": {"target": "_top"}},
    )
    body = _OWN_ANCHOR.sub(lambda match: match[0].replace(' target="_top"', "", 1), body)
    root, attributes = _outer(tree)
    return (
        f'<!doctype html>\n<html{root}><head><meta charset="utf-8">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width">'
        f"{_STYLE}</head>\n<body{attributes}>\n{body}\n</body></html>\n"
    )


def _target(href: str, resolver: LinkResolver, refer: Refer) -> str | None:
    href = href.strip()
    if href.startswith("#"):
        return href
    target = resolver.resolve(href)
    if isinstance(target, Refusal):
        return None  # javascript:, data:, mailto: etc.
    _, mark, fragment = href.partition("#")
    return refer(target) + (f"#{fragment}" if mark and fragment else "")


def _outer(tree: Tree) -> tuple[str, str]:
    """Return the attributes of the root and of the body that decide how the page looks, written."""
    root, body = tree.root, tree.body
    return (
        _written(root.attributes, _ROOT_ATTRIBUTES) if root is not None else "",
        _written(body.attributes, _BODY_ATTRIBUTES) if body is not None else "",
    )


def _written(attributes: Mapping[str, str | None], names: Sequence[str]) -> str:
    present = ((name, attributes.get(name)) for name in names)
    return "".join(f' {name}="{escape(value[:2_000])}"' for name, value in present if value)
