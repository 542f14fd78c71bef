"""Main text and metadata of marked pages, compared with other extractors.

    python -m bench.extract [--only lycosa|tags|resiliparse|trafilatura]

Two data sets of ../shared/data, each in two halves. The development half was used to train and
tune; the reported half was only measured.

- `wcxb`: seven types of pages. F1 of the words (multisets, lower case) of each page, then the mean.
- `article-extraction`: the measure of its authors (scrapinghub/article-extraction-benchmark):
  multisets of 4-token shingles, true and false counts normalised to 1 for each page, precision and
  recall averaged over pages, F1 of the averages.

`bench.metadata` measures title, authors and date on `wcxb`.

CPU is in milliseconds per page, from bytes to text; each extractor has a process of its own.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from bench.harness import arguments, report, table
from bench.metadata import NO_FACTS, Facts, extractor, metadata_scores, true_facts
from lycosa.page.encoding import decode
from lycosa.page.html.document import read_html
from lycosa.page.html.main_text import main_text

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SHINGLE = 4
EXTRACTORS = ("lycosa", "tags", "resiliparse", "trafilatura")
ARTICLES = "article-extraction"
_TOKEN = re.compile(r"\w+")


@dataclass(slots=True, frozen=True)
class MarkedPage:
    """A page with the main text that a person marked. `type`: as `lycosa.page.html.page_type`."""

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
    """The pages of `wcxb` that have a text. By type, every second one is of the development half,
    in the order of the SHA-1 of their numbers.
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
    """The pages of `article-extraction`; their names are SHA-256 in hexadecimal."""
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
    """F1 of the words of two texts, as multisets."""
    expected, actual = (Counter(_TOKEN.findall(text.lower())) for text in (true, predicted))
    total = expected.total() + actual.total()
    return 2 * (expected & actual).total() / total if total else 1.0


def shingles(text: str) -> Counter[tuple[str, ...]]:
    """Multiset of 4-token shingles; a shorter text is one shingle, no token none."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        return Counter()
    return Counter(
        tuple(tokens[index : index + SHINGLE]) for index in range(max(1, len(tokens) - SHINGLE + 1))
    )


def matching(true: str, predicted: str) -> tuple[float, float, float]:
    """True positives, false positives, false negatives of one page, their sum normalised to 1 (or
    all 0).
    """
    expected, actual = shingles(true), shingles(predicted)
    counts = (
        (expected & actual).total(),
        (actual - expected).total(),
        (expected - actual).total(),
    )
    total = sum(counts)
    return (counts[0] / total, counts[1] / total, counts[2] / total) if total else (0.0, 0.0, 0.0)


def quality(matchings: Sequence[tuple[float, float, float]]) -> Quality:
    """Average precision and recall over the pages where each is defined, and the F1 of the
    averages.
    """
    precision = statistics.mean([tp / (tp + fp) for tp, fp, _ in matchings if tp + fp > 0])
    recall = statistics.mean([tp / (tp + fn) for tp, _, fn in matchings if tp + fn > 0])
    return Quality(
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        precision,
        recall,
    )


def lycosa(payload: bytes, url: str = "") -> str:
    """Our extractor: decode, parse, walk, select."""
    return main_text(read_html(payload)[0], url).text


def stripped_tags(payload: bytes, url: str = "") -> str:
    """The same decoding and parser, and all text that is no script or style."""
    tree = LexborHTMLParser(decode(payload).data)
    tree.strip_tags(["script", "style", "template", "noscript"])
    return tree.body.text(separator=" ") if tree.body else ""


def _extractor(name: str) -> Callable[[bytes, str], str] | None:
    if name == "lycosa":
        return lycosa
    if name == "tags":
        return stripped_tags
    try:
        if name == "resiliparse":
            extract = importlib.import_module("resiliparse.extract.html2text").extract_plain_text
            tree = importlib.import_module("resiliparse.parse.html").HTMLTree
            return lambda payload, _: str(
                extract(tree.parse_from_bytes(payload, "utf-8"), main_content=True)
            )
        extract = importlib.import_module("trafilatura").extract
        return lambda payload, _: extract(payload) or ""
    except ImportError:
        return None


def measure(name: str) -> dict[str, Any] | None:
    """Run one extractor over all pages in this process; None if it is not installed.

    Returns `cpu_ms`, and F1 by data set and half, such as `reported forum`.
    """
    extract = _extractor(name)
    if extract is None:
        return None
    scores: dict[str, list[float]] = defaultdict(list)
    matchings: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    pages, articles = load_wcxb(), load_articles()
    content_s = 0.0
    for page in (*pages, *articles):
        start = time.process_time()
        text = extract(page.payload, page.url)
        content_s += time.process_time() - start
        half = page.half
        if page.url or page.type != "article":
            for group in ("all", page.type):
                scores[f"{half} {group}"].append(word_f1(page.text, text))
        else:
            matchings[f"{half} {ARTICLES}"].append(matching(page.text, text))
    facts = extractor(name)
    declared = (
        {}
        if facts is None
        else metadata_scores(
            ((each.half, each.payload, each.url, each.facts) for each in pages), facts
        )
    )
    return (
        {"cpu_ms": content_s * 1000 / (len(pages) + len(articles))}
        | {group: statistics.mean(values) for group, values in sorted(scores.items())}
        | {group: quality(values).f1 for group, values in matchings.items()}
        | declared
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
