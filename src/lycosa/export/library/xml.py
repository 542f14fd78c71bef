"""The XML library: documents as XML 1.0, valid against `library.xsd`.

Characters that XML forbids (most controls, U+FFFE and U+FFFF) become U+FFFD. A paragraph of more
than a million characters is divided into several elements, as parsers limit the size of a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from lycosa.export.declared import DECLARED, stated
from lycosa.export.library.documents import LibraryDocuments

NAMESPACE = "urn:lycosa:library:1"
SUFFIX = ".xml"
SCHEMA = Path(__file__).with_name("library.xsd")
"""The schema of the files."""

FIELDS = (
    "url",
    "redirect_from",
    "canonical",
    "page_type",
    "charset",
    "language",
    "title",
    "headline",
    "published_at",
    "main_text",
    DECLARED,
)

_FORBIDDEN = [*(chr(code) for code in range(32) if code not in (9, 10, 13)), "\ufffe", "\uffff"]
_ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "\r": "&#13;",
    **dict.fromkeys(_FORBIDDEN, "\ufffd"),
}
_IN_ATTRIBUTE = {**_ESCAPES, '"': "&quot;", "\t": "&#9;", "\n": "&#10;"}
_LONG_TEXT_BYTES = 1_000_000
# characters; libxml2 refuses texts of more than 10 MB by default
_PARAGRAPH = 1_000_000
_MORE = '</p><p more="true">'


def header(language: str, day: str, number: int) -> bytes:
    """Return the beginning of a file. The attributes need no escaping."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<library xmlns="{NAMESPACE}" '
        f'language="{language}" date="{day}" number="{number}">\n'
    ).encode()


FOOTER = b"</library>\n"


def render(documents: LibraryDocuments) -> pl.Series:
    """Return each document as an element, in the order of the rows."""
    links = (
        documents.links.select(
            "doc",
            pl.concat_str(
                pl.lit('<link kind="'),
                _escaped("kind", _IN_ATTRIBUTE),
                pl.lit('" href="'),
                _escaped("target", _IN_ATTRIBUTE),
                pl.lit('">'),
                _escaped("anchor", _ESCAPES),
                pl.lit("</link>\n"),
            ).alias("links"),
        )
        .group_by("doc", maintain_order=True)
        .agg(pl.col("links").str.join(""))
    )
    rows = documents.rows.join(links, on="doc", how="left", maintain_order="left")
    text = rows.select(
        _escaped("main_text", _ESCAPES).str.replace_all("\n", "</p>\n<p>", literal=True)
    ).to_series()
    if rows.select((pl.col("main_text").str.len_bytes() > _LONG_TEXT_BYTES).any()).item():
        text = _cut(text, rows["main_text"])
    return rows.select(
        pl.concat_str(
            pl.lit("<document>\n"),
            _element("url"),
            _optional("redirected-from", "redirect_from"),
            _optional("canonical"),
            pl.lit("<fetched-at>"),
            _time("at"),
            pl.lit("</fetched-at>\n"),
            _optional("charset"),
            _optional("language"),
            _element("collection"),
            _optional("page-type", "page_type"),
            _optional("title"),
            _optional("headline"),
            pl.when(pl.col("published_at").dt.year().is_between(1, 9999))
            .then(
                pl.concat_str(
                    pl.lit("<published-at>"), _time("published_at"), pl.lit("</published-at>\n")
                )
            )
            .otherwise(pl.lit("")),
            pl.Series(map(_metadata, rows[DECLARED]), dtype=pl.String),
            pl.lit("<main-text>"),
            pl.when(pl.col("main_text") == "")
            .then(pl.lit(""))
            .otherwise(pl.concat_str(pl.lit("<p>"), text, pl.lit("</p>"))),
            pl.lit("</main-text>\n<links>"),
            pl.col("links").fill_null(""),
            pl.lit("</links>\n</document>\n"),
        )
    ).to_series()


_SIMPLE = (
    *("type", "modified_at", "description", "image", "site_name", "publisher", "section"),
    *("license", "availability"),
)
_REPEATED = {"authors": "author", "keywords": "keyword"}
_ATTRIBUTES = {
    "price": {"currency": "currency"},
    "rating": {"best_rating": "best", "rating_count": "count"},
}


def _metadata(values: dict[str, Any] | None) -> str:
    """Return the element with the declared metadata, "" if there is none."""
    facts = stated(values)
    parts = [_tag(name.replace("_", "-"), facts[name]) for name in _SIMPLE if name in facts]
    for name, element in _REPEATED.items():
        parts += [_tag(element, text) for text in facts.get(name, ())]
    for name, attributes in _ATTRIBUTES.items():
        if name in facts:
            present = {key: facts[field] for field, key in attributes.items() if field in facts}
            parts.append(_tag(name, facts[name], present))
    return f"<metadata>\n{''.join(parts)}</metadata>\n" if parts else ""


def _tag(name: str, value: object, attributes: Mapping[str, object] = MappingProxyType({})) -> str:
    pairs = (f' {key}="{str(text).translate(_TABLE)}"' for key, text in attributes.items())
    return f"<{name}{''.join(pairs)}>{str(value).translate(_TABLE)}</{name}>\n"


def _escaped(name: str, escapes: dict[str, str]) -> pl.Expr:
    return pl.col(name).fill_null("").str.replace_many(escapes)


def _time(name: str) -> pl.Expr:
    return pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")


def _element(name: str) -> pl.Expr:
    return pl.concat_str(pl.lit(f"<{name}>"), _escaped(name, _ESCAPES), pl.lit(f"</{name}>\n"))


def _optional(element: str, name: str = "") -> pl.Expr:
    column = name or element
    written = pl.concat_str(
        pl.lit(f"<{element}>"), _escaped(column, _ESCAPES), pl.lit(f"</{element}>\n")
    )
    return pl.when(pl.col(column).fill_null("") == "").then(pl.lit("")).otherwise(written)


def _cut(escaped: pl.Series, texts: pl.Series) -> pl.Series:
    """Return the texts with long paragraphs in several elements."""
    result = escaped.to_list()
    for place, text in enumerate(texts):
        if len(text) > _PARAGRAPH:
            result[place] = "</p>\n<p>".join(map(_cut_line, text.split("\n")))
    return pl.Series(result, dtype=pl.String)


def _cut_line(line: str) -> str:
    starts = range(0, len(line), _PARAGRAPH)
    pieces = [line[start : start + _PARAGRAPH].translate(_TABLE) for start in starts]
    return _MORE.join(pieces)


_TABLE = str.maketrans(_ESCAPES)
