"""Title, authors and date of marked pages: the measures of `bench.extract`.

The pages are those of `wcxb`, in the same halves. A value is right if its words are those of the
truth (authors: the same set of names), a date if it is at most one day off: the truth is a local
date, ours is in UTC. A value on a page without one in the truth is wrong.
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
    """Counts over pages: of values in the truth, of returned values, of right ones."""

    true: int = 0
    returned: int = 0
    right: int = 0

    def add(self, true: object, returned: object, *, right: bool) -> None:
        self.true += bool(true)
        self.returned += bool(returned)
        self.right += right

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, self.true + self.returned)

    @property
    def recall(self) -> float:
        return self.right / max(1, self.true)


def words(text: str) -> str:
    """The words of a text, for comparison."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def names(authors: Iterable[str]) -> frozenset[str]:
    """The names of authors as a set; a text may list several."""
    parts = (part for author in authors for part in _BETWEEN_NAMES.split(author))
    return frozenset(filter(None, map(words, parts)))


def true_facts(record: dict[str, Any]) -> Facts:
    """The truth of a record of `wcxb`."""
    author = record["author"]
    return Facts(record["title"] or "", [author] if author else [], record["published"] or "")


def lycosa(payload: bytes, url: str) -> Facts:
    """What a crawl stores in the table `metadata`."""
    options = ParseOptions(at_ms=int(FETCHED.timestamp() * 1000))
    page = parse_page(
        payload, url=url or "http://example.org/", content_type="text/html", options=options
    )
    declared = page.metadata
    moment = declared.published_at
    day = "" if moment is None else datetime.fromtimestamp(moment / 1000, UTC).date().isoformat()
    return Facts(declared.headline, declared.authors, day)


def trafilatura(payload: bytes, url: str) -> Facts:
    """Metadata as trafilatura extracts it."""
    found = importlib.import_module("trafilatura.metadata").extract_metadata(
        payload, default_url=url or None
    )
    return Facts(found.title or "", [found.author] if found.author else [], found.date or "")


def extractor(name: str) -> Callable[[bytes, str], Facts] | None:
    """The extractor of a name, None without one."""
    if name == "trafilatura":
        logging.disable(logging.CRITICAL)
        return trafilatura
    return lycosa if name == "lycosa" else None


def metadata_scores(
    pages: Iterable[tuple[str, bytes, str, Facts]], extract: Callable[[bytes, str], Facts]
) -> dict[str, float]:
    """F1 and the share of the truth that was found, of each field of each half.

    Args:
        pages: half, payload, URL and truth.
    """
    results: dict[str, Score] = {}
    for half, payload, url, true in pages:
        found = extract(payload, url)
        values = (
            (words(true.title), words(found.title)),
            (names(true.authors), names(found.authors)),
            (true.date, found.date),
        )
        for field, (expected, actual) in zip(FIELDS, values, strict=True):
            right = bool(expected) and (
                _is_near(expected, actual) if field == "date" else expected == actual
            )
            results.setdefault(f"{half} {field}", Score()).add(expected, actual, right=right)
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
