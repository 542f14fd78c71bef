"""Price and rating of a product, or of anything else that has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from lycosa.core.dataclass import dataclass
from lycosa.page.metadata.linked_data import Entity, short_type, text_of, texts_of, value_of

MAX_OFFERS = 50
_MAX_PRICE = 1e12
_MAX_COUNT = 10**12
_NUMBER = re.compile(r"\d[\d.,\s\u00a0\u202f']*")
_CURRENCY = re.compile(r"\A[A-Z]{3}\Z")


class ReadOffer(NamedTuple):
    """The lowest price, its currency (ISO 4217), and the availability."""

    price: float | None = None
    currency: str = ""
    availability: str = ""


@dataclass(slots=True, frozen=True)
class ReadRating:
    """The mean rating, the best possible one, and the number of ratings or reviews."""

    value: float | None = None
    best: float | None = None
    count: int | None = None


def read_offer(main: Entity, meta: dict[str, str]) -> ReadOffer:
    """Return the offer of an entity, or of the Open Graph properties of a product."""
    offers = value_of(main, "offers")
    best = ReadOffer()
    for offer in _objects(offers):
        best = _cheaper(best, _offer(offer))
        for inner in _objects(value_of(offer, "offers")):
            best = _cheaper(best, _offer(inner))
    if best.price is None and main:
        best = _cheaper(best, _offer(main))
    if best.price is None:
        for prefix in ("product:price:", "og:price:", "product:sale_price:"):
            price = number(meta.get(f"{prefix}amount", ""))
            if price is not None:
                availability = meta.get("product:availability") or meta.get("og:availability", "")
                return ReadOffer(
                    price,
                    _currency(meta.get(f"{prefix}currency", "")),
                    _AVAILABILITY.get(availability.strip().lower(), best.availability),
                )
    return best


_AVAILABILITY = {
    "instock": "InStock",
    "in stock": "InStock",
    "in_stock": "InStock",
    "available for order": "InStock",
    "oos": "OutOfStock",
    "out of stock": "OutOfStock",
    "out_of_stock": "OutOfStock",
    "outofstock": "OutOfStock",
    "preorder": "PreOrder",
    "discontinued": "Discontinued",
}


def _cheaper(one: ReadOffer, other: ReadOffer) -> ReadOffer:
    if other.price is None:
        return one._replace(availability=one.availability or other.availability)
    return other if one.price is None or other.price < one.price else one


def _offer(offer: Entity) -> ReadOffer:
    specification: Entity = next(_objects(value_of(offer, "priceSpecification")), {})
    price = number(text_of(value_of(offer, "price", "lowPrice")))
    if price is None:
        price = number(text_of(value_of(specification, "price", "minPrice")))
    currency = text_of(value_of(offer, "priceCurrency") or value_of(specification, "priceCurrency"))
    availability = text_of(value_of(offer, "availability"))
    short = short_type(availability)
    return ReadOffer(price, _currency(currency), _AVAILABILITY.get(availability.lower(), short))


def _currency(text: str) -> str:
    text = text.strip()[:10].upper()
    return text if _CURRENCY.match(text) else ""


def _objects(value: Any) -> Iterator[Entity]:
    """Yield the objects of a value."""
    values = value if isinstance(value, list) else [value]
    return (each for each in values[:MAX_OFFERS] if isinstance(each, dict))


def read_rating(main: Entity) -> ReadRating:
    """Return the aggregate rating of an entity."""
    rating = next(_objects(value_of(main, "aggregateRating")), None)
    if rating is None:
        return ReadRating()
    value = number(text_of(value_of(rating, "ratingValue")))
    if value is None:
        return ReadRating()
    best = number(text_of(value_of(rating, "bestRating"))) or (5.0 if value <= 5 else None)
    counts = (number(text) for text in texts_of(value_of(rating, "ratingCount", "reviewCount")))
    count = next((count for count in counts if count is not None), None)
    whole = None if count is None or count > _MAX_COUNT else int(count)
    return ReadRating(value, best if best is None or best >= value else None, whole)


def number(text: str) -> float | None:
    """Return the first number of a text: `1,299.00`, `1.299,00` and `1 299` are one thousand two
    hundred and ninety-nine; None for none.
    """
    match = _NUMBER.search(text[:100])
    if match is None:
        return None
    digits = re.sub(r"[\s\u00a0\u202f']", "", match[0]).rstrip(".,")
    last = max(digits.rfind("."), digits.rfind(","))
    if last >= 0:
        separator, decimals = digits[last], len(digits) - last - 1
        repeated = digits.count(separator) > 1
        both = "." in digits and "," in digits
        if repeated or (decimals == 3 and not both and separator == ","):
            digits = digits.replace(separator, "")
            digits = digits.replace(",", "")
        else:
            whole = re.sub(r"[.,]", "", digits[:last])
            digits = f"{whole}.{digits[last + 1 :]}"
    try:
        value = float(digits)
    except ValueError:
        return None
    return value if 0 <= value <= _MAX_PRICE else None
