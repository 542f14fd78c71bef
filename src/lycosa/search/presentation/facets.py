"""Count the matches per facet value with tantivy's aggregations over columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lycosa.index.schema import COLLECTION, DATE, HOST_NAME, LANGUAGE, TYPE
from lycosa.search.query.syntax import date_ms

# counted values of a facet; with several shards the counts of the rarest may be too low
MAX_VALUES = 1_000
YEARS = 10  # with a value each; older pages share one
EARLIER = "earlier"

_FIELDS = {"language": LANGUAGE, "host": HOST_NAME, "collection": COLLECTION, "type": TYPE}


def aggregation(names: Sequence[str], now_ms: int) -> dict[str, Any]:
    """Return tantivy's aggregation request. Dates are counted by year, up to the next one."""
    request: dict[str, Any] = {}
    for name in names:
        if name in _FIELDS:
            request[name] = {"terms": {"field": _FIELDS[name], "size": MAX_VALUES}}
        elif name == "date":
            year = datetime.fromtimestamp(now_ms / 1000, UTC).year
            years = range(year - YEARS + 1, year + 2)
            ranges: list[dict[str, Any]] = [{"key": EARLIER, "to": date_ms(f"{years[0]}-01-01")}]
            ranges += [
                {
                    "key": str(each),
                    "from": date_ms(f"{each}-01-01"),
                    "to": date_ms(f"{each + 1}-01-01"),
                }
                for each in years
            ]
            request[name] = {"range": {"field": DATE, "ranges": ranges}}
    return request


def counted_values(answer: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the number of pages per value of each facet, from tantivy's response."""
    return {
        name: {
            str(bucket["key"]): int(bucket["doc_count"])
            for bucket in result["buckets"]
            if bucket["doc_count"] and bucket["key"] != ""
        }
        for name, result in answer.items()
    }
