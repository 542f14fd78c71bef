"""Title, authors and date of marked pages: the measures of `bench.extract`.

The pages are those of `wcxb`, in the same halves. A value is right if its words are those of the
marked value (authors: the same set of names). A date is right if it differs by at most one day:
marked dates are local, ours are in UTC. A value on a page without a marked value is wrong.
"""

from __future__ import annotations

import importlib
import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from lycosa.page.parse import ParseOptions, parse_page

FIELDS = ("title", "author", "date")
FETCHED = datetime(2026, 11, 26, tzinfo=UTC)
_WORD = re.compile(r"\w+")
_BETWEEN_NAMES = re.compile(r";|,| and | & ")


class Facts(NamedTuple):
    """Title, authors and ISO date of a page; "" or empty: none."""

    title: str
    authors: Sequence[str]
    date: str


NO_FACTS = Facts("", (), "")


@dataclass(slots=True)
class Score:
    """Counts over pages: marked values, returned values, right values."""

    true: int = 0
    returned: int = 0
    right: int = 0

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, self.true + self.returned)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.true)


def words(text: str) -> str:
    """Return the normalised words of a text."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def names(authors: Iterable[str]) -> frozenset[str]:
    """Return the names of authors as a set; a text may list several."""
    parts = (part for author in authors for part in _BETWEEN_NAMES.split(author))
    return frozenset(filter(None, map(words, parts)))


def true_facts(record: dict[str, Any]) -> Facts:
    """Return the marked values of a record of `wcxb`."""
    author = record["author"]
    return Facts(record["title"] or "", [author] if author else [], record["published"] or "")


def lycosa(payload: bytes, url: str) -> Facts:
    """Return the values that a crawl stores in the table `metadata`."""
    options = ParseOptions(at_ms=int(FETCHED.timestamp() * 1000))
    page = parse_page(
        payload, url=url or "http://example.org/", content_type="text/html", options=options
    )
    metadata = page.metadata
    moment = metadata.published_at
    day = "" if moment is None else datetime.fromtimestamp(moment / 1000, UTC).date().isoformat()
    return Facts(metadata.headline, metadata.authors, day)


def trafilatura(payload: bytes, url: str) -> Facts:
    """Return the values that trafilatura extracts."""
    document = importlib.import_module("trafilatura.metadata").extract_metadata(
        payload, default_url=url or None
    )
    return Facts(
        document.title or "", [document.author] if document.author else [], document.date or ""
    )


def extractor(name: str) -> Callable[[bytes, str], Facts] | None:
    """Return an extractor by name, None if it extracts no metadata."""
    if name == "trafilatura":
        logging.disable(logging.CRITICAL)
        return trafilatura
    return lycosa if name == "lycosa" else None


def metadata_scores(
    pages: Iterable[tuple[str, bytes, str, Facts]], extract: Callable[[bytes, str], Facts]
) -> dict[str, float]:
    """Return by half and field the F1 and the recall.

    Args:
        pages: half, payload, URL and marked values.
    """
    results: dict[str, Score] = {}
    for half, payload, url, true in pages:
        actual_facts = extract(payload, url)
        values = (
            (words(true.title), words(actual_facts.title)),
            (names(true.authors), names(actual_facts.authors)),
            (true.date, actual_facts.date),
        )
        for field, (expected, actual) in zip(FIELDS, values, strict=True):
            right = bool(expected) and (
                _is_near(expected, actual) if field == "date" else expected == actual
            )
            score = results.setdefault(f"{half} {field}", Score())
            score.true += bool(expected)
            score.returned += bool(actual)
            score.right += right
    return {
        figure: value
        for name, score in sorted(results.items())
        for figure, value in ((name, score.f1), (f"{name} found", score.recall))
    }


def _is_near(one: object, other: object) -> bool:
    try:
        days = date.fromisoformat(str(one)) - date.fromisoformat(str(other))
    except ValueError:
        return False
    return abs(days.days) <= 1
