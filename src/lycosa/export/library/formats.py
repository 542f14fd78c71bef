"""The file formats of the library: XML, JSON lines, Parquet, plain text."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lycosa.core.version import VERSION
from lycosa.export.declared import DECLARED, METADATA_TYPE
from lycosa.export.library import xml
from lycosa.export.library.documents import LibraryDocuments
from lycosa.export.parquet import TIME_FORMAT, lines_to_parquet

DEFAULT_FILE_BYTES = 64 * 10**6

_NAMESPACE = uuid.UUID("5f1c7cc6-0d0e-5a51-8a0c-6f5f1f4a7f0d")
_RECORD_FIELDS = (
    *("url", "redirect_from", "charset", "language", "language_score", "other_languages"),
    *("title", "headline", "description", "page_type", "canonical"),
)


@dataclass(slots=True, frozen=True)
class Format:
    """A file format. `fields` are the exported columns of `pages`, and `DECLARED`; `render` returns
    the content of each document; `finish` converts a written file to its final form.
    """

    name: str
    suffix: str
    fields: tuple[str, ...]
    render: Callable[[LibraryDocuments], pl.Series]
    header: Callable[[str, str, int], bytes] = lambda language, day, number: b""
    footer: bytes = b""
    linked: bool = True
    finish: Callable[[Path], None] = lambda path: None


def _record(documents: LibraryDocuments) -> pl.DataFrame:
    """Return the documents as rows, with times as text for JSON."""
    rows, links = documents.rows, documents.links
    grouped = links.group_by("doc", maintain_order=True).agg(
        pl.struct("kind", "target", "anchor").alias("links")
    )
    return rows.join(grouped, on="doc", how="left", maintain_order="left").select(
        pl.col("library"),
        "day",
        "collection",
        pl.col("at").dt.strftime(TIME_FORMAT).alias("fetched_at"),
        pl.when(pl.col("published_at").dt.year().is_between(1, 9999)).then(
            pl.col("published_at").dt.strftime(TIME_FORMAT)
        ),
        *_RECORD_FIELDS,
        "main_text",
        DECLARED,
        pl.col("links").fill_null([]),
        pl.col("seen_in").alias("record_id"),
    )


def _json_lines(documents: LibraryDocuments) -> pl.Series:
    frame = _record(documents)
    return frame.select(pl.struct(pl.all()).struct.json_encode() + "\n").to_series()


def _to_parquet(path: Path) -> None:
    lines_to_parquet(path, _LINES, _TIMES, days=("day",))


_TIMES = ("fetched_at", "published_at")
_LINES = pl.Schema(
    {
        **{
            name: pl.String()
            for name in ("library", "day", "collection", *_TIMES, *_RECORD_FIELDS, "main_text")
        },
        DECLARED: METADATA_TYPE,
        "links": pl.List(
            pl.Struct({"kind": pl.String(), "target": pl.String(), "anchor": pl.String()})
        ),
        "record_id": pl.String(),
        "language_score": pl.Float64(),
        "other_languages": pl.List(pl.String()),
    }
)


def _conversions(documents: LibraryDocuments) -> pl.Series:
    """Return WARC conversion records of the visible text, as in Common Crawl's WET files."""
    columns = ("url", "seen_in", "at", "day", "collection", "language", "text")
    rows = documents.rows.with_columns(pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%SZ")).select(
        columns
    )
    return pl.Series([_conversion(*row) for row in rows.iter_rows()], dtype=pl.String)


def _conversion(
    url: str, record_id: str, at: str, day: object, collection: str, language: str, text: str
) -> str:
    name = uuid.uuid5(_NAMESPACE, f"{collection}\n{record_id}\n{url}\n{day}").urn
    refers = f"WARC-Refers-To: <{record_id.strip('<>')}>\r\n" if record_id else ""
    identified = f"WARC-Identified-Content-Language: {language}\r\n" if language else ""
    return (
        f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: {url}\r\nWARC-Date: "
        f"{at}\r\nWARC-Record-ID: <{name}>\r\n{refers}"
        f"{identified}Content-Type: text/plain; charset=utf-8\r\nContent-Length: "
        f"{len(text.encode())}\r\n\r\n{text}\r\n\r\n"
    )


def _text_header(language: str, day: str, number: int) -> bytes:
    body = (
        f"software: lycosa/{VERSION}\r\ndescription: visible text, {language}, {day}\r\n".encode()
    )
    name = uuid.uuid5(_NAMESPACE, f"{language}\n{day}\n{number}").urn
    return (
        f"WARC/1.0\r\nWARC-Type: warcinfo\r\nWARC-Date: {day}T00:00:00Z\r\nWARC-Record-ID: "
        f"<{name}>\r\n"
        f"Content-Type: application/warc-fields\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body + b"\r\n\r\n"  # fmt: skip


_ROW_FIELDS = (*_RECORD_FIELDS, "published_at", "main_text", DECLARED)

FORMATS = {
    kind.name: kind
    for kind in (
        Format("xml", xml.SUFFIX, xml.FIELDS, xml.render, xml.header, xml.FOOTER),
        Format("jsonl", ".jsonl", _ROW_FIELDS, _json_lines),
        Format("parquet", ".parquet", _ROW_FIELDS, _json_lines, finish=_to_parquet),
        Format(
            "text",
            ".warc.wet",
            ("url", "language", "text"),
            _conversions,
            _text_header,
            linked=False,
        ),
    )
}
"""All formats by name."""
