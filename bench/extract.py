"""Main text on article-extraction: quality and cost of the extractor, beside others.

    .venv/bin/python -m bench.extract [--json] [--only lycosa|tags|resiliparse|trafilatura]

Quality is the measure of the data's authors (scrapinghub/article-extraction-benchmark): tokens
`\\w+`, multisets of 4-token shingles per page, true and false counts normalised to 1 a page,
precision and recall averaged over pages, F1 of the averages. The extractor was tuned on one half of
the pages (`tuned`); the other (`held`) was looked at only as a figure. Cost is CPU milliseconds a
page, cold: each way in a process of its own, every page once; bytes in, text out.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from lycosa.page.encoding import decode
from lycosa.page.html.document import read_html
from lycosa.page.html.main_text import main_text

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "article-extraction"
SHINGLE = 4
_TOKEN = re.compile(r"\w+")
WAYS = ("lycosa", "tags", "resiliparse", "trafilatura")


@dataclass(slots=True, frozen=True)
class Quality:
    """Averages over pages, 0 to 1."""

    f1: float
    precision: float
    recall: float


@dataclass(slots=True, frozen=True)
class Result:
    """One way of extracting, measured. `milliseconds`: CPU a page."""

    way: str
    milliseconds: float
    all: Quality
    tuned: Quality
    held: Quality


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
    wanted, given = shingles(true), shingles(predicted)
    counts = ((wanted & given).total(), (given - wanted).total(), (wanted - given).total())
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


def is_tuned(stem: str) -> bool:
    """Whether a page belongs to the half that the extractor was tuned on. Stems are SHA-256 in
    hexadecimal.
    """
    return int(stem[:8], 16) % 2 == 0


def lycosa(payload: bytes) -> str:
    """Our extractor: decode, parse, walk, choose."""
    return main_text(read_html(payload)[0])


def stripped_tags(payload: bytes) -> str:
    """The same decoding and parser, and all text that is no script or style."""
    tree = LexborHTMLParser(decode(payload).data)
    tree.strip_tags(["script", "style", "template", "noscript"])
    return tree.body.text(separator=" ") if tree.body else ""


def _way(name: str) -> Callable[[bytes], str] | None:
    if name == "lycosa":
        return lycosa
    if name == "tags":
        return stripped_tags
    try:
        if name == "resiliparse":
            extract = importlib.import_module("resiliparse.extract.html2text").extract_plain_text
            tree = importlib.import_module("resiliparse.parse.html").HTMLTree
            return lambda payload: str(
                extract(tree.parse_from_bytes(payload, "utf-8"), main_content=True)
            )
        extract = importlib.import_module("trafilatura").extract
        return lambda payload: extract(payload, include_comments=False) or ""
    except ImportError:
        return None


def measure(name: str) -> Result | None:
    """Run one way over all pages in this process; None if it is not installed."""
    way = _way(name)
    if way is None:
        return None
    truth = load_truth()
    pages = load_pages(truth)
    started = time.process_time()
    texts = {stem: way(payload) for stem, payload in pages.items()}
    milliseconds = (time.process_time() - started) / len(pages) * 1000
    return judged(name, milliseconds, truth, texts)


def judged(
    name: str, milliseconds: float, truth: Mapping[str, str], texts: Mapping[str, str]
) -> Result:
    """Quality over all pages and both halves."""
    matchings = {stem: matching(truth[stem], text) for stem, text in texts.items()}
    return Result(
        name,
        milliseconds,
        quality(list(matchings.values())),
        quality([counts for stem, counts in matchings.items() if is_tuned(stem)]),
        quality([counts for stem, counts in matchings.items() if not is_tuned(stem)]),
    )


def load_truth() -> dict[str, str]:
    """Stem -> the text that a person marked as the article."""
    records = json.loads((DATA / "ground-truth.json").read_text(encoding="utf-8"))
    return {stem: record.get("articleBody") or "" for stem, record in records.items()}


def load_pages(stems: Mapping[str, str]) -> dict[str, bytes]:
    """Stem -> the page's bytes."""
    return {
        stem: gzip.decompress((DATA / "html" / f"{stem}.html.gz").read_bytes())
        for stem in sorted(stems)
    }


def run(name: str) -> dict[str, object] | None:
    """Measure one way in a fresh process; None if it is not installed."""
    command = [sys.executable, "-m", "bench.extract", "--json", "--only", name]
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[1]
    ).stdout
    result: dict[str, object] | None = json.loads(output)
    return result


def main() -> None:
    """Print one line a way, or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=WAYS)
    arguments = parser.parse_args()
    if arguments.only and arguments.json:
        result = measure(arguments.only)
        print(json.dumps(asdict(result) if result else None))
        return
    results = {name: run(name) for name in ([arguments.only] if arguments.only else WAYS)}
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"{'':12} {'F1':>6} {'prec.':>6} {'recall':>6} {'tuned':>6} {'held':>6} {'ms/page':>8}")
    for name, values in results.items():
        print(_line(name, values))


def _line(name: str, values: dict[str, object] | None) -> str:
    if values is None:
        return f"{name:12} not installed"
    every, tuned, held = (values[part] for part in ("all", "tuned", "held"))
    assert isinstance(every, dict)
    assert isinstance(tuned, dict)
    assert isinstance(held, dict)
    figures = (every["f1"], every["precision"], every["recall"], tuned["f1"], held["f1"])
    return (
        f"{name:12} "
        + " ".join(f"{figure:6.4f}" for figure in figures)
        + f" {values['milliseconds']:8.2f}"
    )


if __name__ == "__main__":
    main()
