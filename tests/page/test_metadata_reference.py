"""Compare declared metadata of real pages with extruct, if installed.

docs/decisions/0030-metadata.md explains the differences.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.extract import DATA

from lycosa.page.html.document import read_html
from lycosa.page.metadata.embedded import EmbeddedItems, read_items
from lycosa.page.metadata.linked_data import read_scripts, short_type
from lycosa.page.page_parts import PageParts

extruct: Any = pytest.importorskip("extruct")

FORMATS = ("json-ld", "opengraph", "microdata", "rdfa")
MIN_SHARES = {"json-ld": 1.0, "opengraph": 1.0, "microdata": 0.995, "rdfa": 0.97}
"""Minimum share of the values of extruct that Lycosa must also read."""
Values = set[tuple[str, str]]


def pages() -> Iterator[tuple[str, bytes]]:
    for path in sorted(DATA.glob("*/html/*.gz")):
        yield path.stem, gzip.decompress(path.read_bytes())
    for path in sorted((Path.home() / ".cache" / "lycosa-sites").glob("*/**/*.html"))[::500]:
        yield path.name, path.read_bytes()


def without_spaces(text: object) -> str:
    return "".join(str(text).split())[:1_000]


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield (property, value) of nested JSON-LD items."""
    if isinstance(value, dict):
        if "@id" in value and name:
            yield name, without_spaces(value["@id"])
        for key, inner in value.items():
            if key == "@type":
                for kind in inner if isinstance(inner, list) else [inner]:
                    yield "@type", without_spaces(short_type(str(kind)) or kind)
            elif key != "@id":
                yield from leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, name)
    else:
        yield name, without_spaces(value)


def lycosa_values(parts: PageParts) -> dict[str, Values]:
    items = (
        read_items(parts.root) if parts.root is not None and parts.has_items else EmbeddedItems()
    )
    return {
        "json-ld": set(leaves(read_scripts(parts.linked_data))),
        "opengraph": {
            (name, without_spaces(content))
            for name, content in parts.properties
            if name[:3] == "og:"
        },
        "microdata": set(leaves(items.microdata)),
        "rdfa": set(leaves(items.rdfa)),
    }


def extruct_values(payload: str) -> dict[str, Values]:
    read = extruct.extract(payload, syntaxes=list(FORMATS), errors="ignore", uniform=False)
    return {
        "json-ld": set(leaves(read.get("json-ld", []))),
        "opengraph": {
            (name.lower(), without_spaces(value))
            for group in read.get("opengraph", [])
            for name, value in group["properties"]
            if name[:3].lower() == "og:"
        },
        "microdata": set(leaves([_item(each) for each in read.get("microdata", [])])),
        "rdfa": set(leaves([_rdfa(each) for each in read.get("rdfa", [])])),
    }


def _item(value: Any) -> Any:
    """Convert an item of extruct to JSON-LD."""
    if isinstance(value, list):
        return [_item(each) for each in value]
    if not isinstance(value, dict):
        return value
    item = {key: _item(each) for key, each in value.get("properties", {}).items()}
    named = {"@type": value.get("type"), "@id": value.get("id")}
    return {**{key: each for key, each in named.items() if each}, **item}


def _rdfa(node: dict[str, Any]) -> dict[str, Any]:
    """Shorten the names of an expanded JSON-LD node.

    References to nodes are left out.
    """
    short: dict[str, Any] = {}
    for name, values in node.items():
        if name == "@type":
            short[name] = values
        elif name.startswith(("http://schema.org/", "https://schema.org/")):
            short[short_type(name)] = [
                each.get("@value", each.get("@id", "")) if isinstance(each, dict) else each
                for each in values
                if not (isinstance(each, dict) and str(each.get("@id", "")).startswith("_:"))
            ]
    return short


@pytest.mark.prove
def test_values_equal_those_of_extruct() -> None:
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is missing")
    both, total, more = (dict.fromkeys(FORMATS, 0) for _ in range(3))
    differing: dict[str, list[str]] = {name: [] for name in FORMATS}
    for name, payload in pages():
        parts, decoded = read_html(payload)
        own, reference = (
            lycosa_values(parts),
            extruct_values(decoded.data.decode("utf-8", "replace")),
        )
        for kind in FORMATS:
            both[kind] += len(own[kind] & reference[kind])
            total[kind] += len(reference[kind])
            more[kind] += len(own[kind] - reference[kind])
            if missing := sorted(reference[kind] - own[kind]):
                differing[kind].append(json.dumps([name, *missing[:3]])[:600])
    shares = {kind: both[kind] / max(1, total[kind]) for kind in FORMATS}
    for kind in FORMATS:
        print(kind, both[kind], total[kind], more[kind], *differing[kind][:12], sep="\n")
    assert {kind: share for kind, share in shares.items() if share < MIN_SHARES[kind]} == {}
