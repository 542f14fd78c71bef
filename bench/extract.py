"""Main text and metadata of marked pages, compared with other extractors.

    python -m bench.extract [--only lycosa|tags|trafilatura]

Two data sets of ../shared/data, each in two halves. The development half was used to train and
tune; the reported half was only measured.

- `wcxb`: seven types of pages. F1 of the words (multisets, lower case) of each page, then the mean.
- `article-extraction`: the measure of its authors (scrapinghub/article-extraction-benchmark):
  multisets of 4-token shingles, true and false counts normalised to 1 for each page, precision and
  recall averaged over pages, F1 of the averages.

Title, authors and date are measured on `wcxb`. A value is right if its words are those of the marked
value (authors: the same set of names). A date is right if it differs by at most one day: marked
dates are local, ours are in UTC. A value on a page without a marked value is wrong.

CPU is in milliseconds per page, from bytes to text; each extractor has a process of its own.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import logging
import re
import statistics
import subprocess
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from selectolax.lexbor import LexborHTMLParser

from bench.harness import DATA as DATA  # exported for the tests
from bench.harness import arguments, report, table, timed
from lycosa.page.encoding import decode
from lycosa.page.html.document import read_html
from lycosa.page.html.main_text import main_text
from lycosa.page.parse import PageSource, ParseOptions, build_page

SHINGLE = 4
EXTRACTORS = ("lycosa", "tags", "trafilatura")
ARTICLES = "article-extraction"
_TOKEN = re.compile(r"\w+")

Matching = tuple[float, float, float]

_read = lru_cache(maxsize=1)(read_html)  # the text and the facts of a page share its parsing

FIELDS = ("title", "author", "date")
FETCHED = datetime(2026, 11, 26, tzinfo=UTC)
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
    return " ".join(_TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()))


def names(authors: Iterable[str]) -> frozenset[str]:
    """Return the names of authors as a set; a text may list several."""
    parts = (part for author in authors for part in _BETWEEN_NAMES.split(author))
    return frozenset(filter(None, map(words, parts)))


def true_facts(record: dict[str, Any]) -> Facts:
    """Return the marked values of a record of `wcxb`."""
    author = record["author"]
    return Facts(record["title"] or "", [author] if author else [], record["published"] or "")


def lycosa_facts(payload: bytes, url: str) -> Facts:
    """Return the values that a crawl stores in the table `metadata`."""
    options = ParseOptions(at_ms=int(FETCHED.timestamp() * 1000))
    source = PageSource(url or "http://example.org/", options=options)
    parts, decoded = _read(payload)
    page = build_page(parts, source, size=len(payload), charset=decoded.charset, whole=False)
    metadata = page.metadata
    moment = metadata.published_at
    day = "" if moment is None else datetime.fromtimestamp(moment / 1000, UTC).date().isoformat()
    return Facts(metadata.headline, metadata.authors, day)


def trafilatura_facts(payload: bytes, url: str) -> Facts:
    """Return the values that trafilatura extracts."""
    document = importlib.import_module("trafilatura.metadata").extract_metadata(
        payload, default_url=url or None
    )
    return Facts(
        document.title or "", [document.author] if document.author else [], document.date or ""
    )


def facts_extractor(name: str) -> Callable[[bytes, str], Facts] | None:
    """Return an extractor by name, None if it extracts no metadata."""
    if name == "trafilatura":
        logging.disable(logging.CRITICAL)
        return trafilatura_facts
    return lycosa_facts if name == "lycosa" else None


def metadata_scores(pages: Iterable[tuple[str, Facts, Facts]]) -> dict[str, float]:
    """Return by half and field the F1 and the recall.

    Args:
        pages: half, marked values and extracted values.
    """
    results: dict[str, Score] = {}
    for half, true, actual_facts in pages:
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


@dataclass(slots=True, frozen=True)
class MarkedPage:
    """A page with its manually marked main text. `type`: as in `lycosa.page.html.page_type`."""

    url: str
    type: str
    payload: bytes
    text: str
    is_development: bool
    facts: Facts = NO_FACTS
    markdown: str = ""  # of the main text, where the data set has it
    path: Path = DATA  # of the compressed page

    @property
    def half(self) -> str:
        return "development" if self.is_development else "reported"


@dataclass(slots=True, frozen=True)
class Quality:
    """Averages over pages, 0 to 1."""

    f1: float
    precision: float
    recall: float


def load_wcxb() -> list[MarkedPage]:
    """Return the pages of `wcxb` that have a text.

    Sorted by the SHA-1 of their names, every second page of each type is in the development half.
    """
    with gzip.open(DATA / "wcxb" / "truth.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [record for record in map(json.loads, lines) if record["text"].strip()]
    records.sort(key=lambda record: hashlib.sha1(record["file"].encode()).hexdigest())
    seen: Counter[str] = Counter()
    pages = []
    for record in records:
        path = DATA / "wcxb/html" / f"{record['file']}.html.gz"
        development = seen[record["type"]] % 2 == 0
        seen[record["type"]] += 1
        pages.append(
            MarkedPage(
                record["url"] or "",
                record["type"],
                gzip.decompress(path.read_bytes()),
                record["text"],
                development,
                true_facts(record),
                record["markdown"] or "",
                path,
            )
        )
    return pages


def load_articles() -> list[MarkedPage]:
    """Return the pages of `article-extraction`; their names are SHA-256 in hexadecimal."""
    records = json.loads((DATA / ARTICLES / "ground-truth.json").read_text(encoding="utf-8"))
    return [
        MarkedPage(
            "",
            "article",
            gzip.decompress((DATA / ARTICLES / "html" / f"{name}.html.gz").read_bytes()),
            record.get("articleBody") or "",
            int(name[:8], 16) % 2 == 0,
        )
        for name, record in sorted(records.items())
    ]


def word_f1(true: str, predicted: str) -> float:
    """Return the F1 of the words of two texts, as multisets."""
    expected, actual = (Counter(_TOKEN.findall(text.lower())) for text in (true, predicted))
    total = expected.total() + actual.total()
    return 2 * (expected & actual).total() / total if total else 1.0


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """Return the multiset of 4-token shingles; a shorter text is one shingle."""
    tokens = _TOKEN.findall(text)
    count = max(1, len(tokens) - SHINGLE + 1) if tokens else 0
    return Counter(tuple(tokens[index : index + SHINGLE]) for index in range(count))


def matching(true: str, predicted: str) -> Matching:
    """Compare the shingles of a page."""
    return normalised(shingles(true), shingles(predicted))


def normalised(expected: Counter[tuple[str, ...]], actual: Counter[tuple[str, ...]]) -> Matching:
    """Return true positives, false positives and false negatives, their sum normalised to 1."""
    both = (expected & actual).total()
    counts = (both, actual.total() - both, expected.total() - both)
    first, second, third = (count / max(1, sum(counts)) for count in counts)
    return first, second, third


def quality(matchings: Sequence[Matching]) -> Quality:
    """Return precision and recall averaged over the pages that have them, and the F1 of both."""
    precision = statistics.mean([tp / (tp + fp) for tp, fp, _ in matchings if tp + fp > 0])
    recall = statistics.mean([tp / (tp + fn) for tp, _, fn in matchings if tp + fn > 0])
    return Quality(
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        precision,
        recall,
    )


def lycosa(payload: bytes, url: str = "") -> str:
    """Return the main text by Lycosa: decode, parse, walk, select."""
    return main_text(_read(payload)[0], url).text


def stripped_tags(payload: bytes, url: str = "") -> str:
    """Return all text except scripts and styles, with the same decoding and parser."""
    tree = LexborHTMLParser(decode(payload).data)
    tree.strip_tags(["script", "style", "template", "noscript"])
    return tree.body.text(separator=" ") if tree.body else ""


def _extractor(name: str) -> Callable[[bytes, str], str] | None:
    if name != "trafilatura":
        return lycosa if name == "lycosa" else stripped_tags
    try:
        extract = importlib.import_module("trafilatura").extract
    except ImportError:
        return None
    return lambda payload, _: extract(payload) or ""


def measure(name: str) -> dict[str, Any] | None:
    """Run one extractor over all pages in this process; None if it is not installed.

    Returns `cpu_ms`, and F1 by data set and half, such as `reported forum`.
    """
    extract = _extractor(name)
    if extract is None:
        return None
    scores: dict[str, list[float]] = defaultdict(list)
    matchings: dict[str, list[Matching]] = defaultdict(list)
    pages, articles = load_wcxb(), load_articles()
    read_facts = facts_extractor(name)
    facts: list[tuple[str, Facts, Facts]] = []
    total_ms = 0.0
    for number, page in enumerate((*pages, *articles)):
        text, _, cpu_ms = timed(partial(extract, page.payload, page.url))
        total_ms += cpu_ms
        half = page.half
        if read_facts and number < len(pages):
            facts.append((half, page.facts, read_facts(page.payload, page.url)))
        if page.url or page.type != "article":
            for group in ("all", page.type):
                scores[f"{half} {group}"].append(word_f1(page.text, text))
        else:
            matchings[f"{half} {ARTICLES}"].append(matching(page.text, text))
    return (
        {"cpu_ms": total_ms / (len(pages) + len(articles))}
        | {group: statistics.mean(values) for group, values in sorted(scores.items())}
        | {group: quality(values).f1 for group, values in matchings.items()}
        | metadata_scores(facts)
    )


def run(name: str) -> dict[str, Any] | None:
    """Measure one extractor in a fresh process; None if it is not installed."""
    command = [sys.executable, "-m", "bench.extract", "--only", name]
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[1]
    ).stdout
    result: dict[str, Any] | None = json.loads(output)
    return result


def main() -> None:
    """Print a table with a column for each extractor; with --only write JSON to standard output."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--only", choices=EXTRACTORS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only)))
        return
    results = {name: result for name in EXTRACTORS if (result := run(name))}
    figures = dict.fromkeys(figure for result in results.values() for figure in result)
    rows = [
        (figure, *(f"{each[figure]:.3f}" if figure in each else "" for each in results.values()))
        for figure in figures
    ]
    report(options, "Main text", table(("F1", *results), rows), results)


if __name__ == "__main__":
    main()
