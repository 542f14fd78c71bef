"""Extract items from pages in this process."""

from __future__ import annotations

import json
import pickle
from functools import partial
from typing import Any

from lycosa.config.collection import Collection
from lycosa.config.reading import parse_config
from lycosa.core.records import Item
from lycosa.fields.extraction import FieldExtractor
from lycosa.page.parse import ParseOptions, parse_items, parse_page

URL = "http://shop.test/dir/page"
TYPE = "text/html; charset=utf-8"


def shop(toml: str) -> Collection:
    """Return the collection `shop` with these settings."""
    return parse_config(f'[[collection]]\nname = "shop"\n{toml}').collection[0]


def items(
    collection: Collection, payload: bytes | str, url: str = URL, content_type: str = TYPE
) -> list[Item]:
    """Return the items of a page.

    Assert that a full parse and `parse_items` agree.
    """
    data = payload.encode() if isinstance(payload, str) else payload
    extractor: FieldExtractor = pickle.loads(pickle.dumps(FieldExtractor([collection])))
    read = partial(extractor.read, [collection.name])
    alone = parse_items(data, read, url=url, content_type=content_type)
    page = parse_page(
        data, url=url, content_type=content_type, options=ParseOptions(read_items=read)
    )
    assert page.items == alone
    return alone


def values(collection: Collection, payload: bytes | str, url: str = URL) -> dict[str, Any]:
    """Return the values of the only item of a page."""
    [item] = items(collection, payload, url)
    result: dict[str, Any] = json.loads(item.values)
    return result


def field_value(rule: str, payload: str) -> Any:
    """Return the value of one field, given as TOML."""
    return values(shop(f"[collection.fields]\nx = {rule}"), payload)["x"]
