"""Tokens per CPU-second of each language's analyzer, beside plain ICU and plain tantivy in the same
rounds.

    python -m bench.analysis [--megabytes 1] [--runs 3] [--korean kiwi] [--check] [--json FILE]

A token is a word of ICU's that holds a letter or digit (a character or syllable that an analyzer
adds is not counted), so all columns count the same things. The texts are SIB-200 and the
Declaration of Human Rights, in documents of about 4 KB, in turn until there are enough bytes. So
`ours` is what an analyzer with a memo does once it knows the words, and `ours, new words` the other
end: its first pass over texts that do not repeat. A crawl lies between the two, nearer the first.
Native analyzers have no memo.

Plain ICU: one WordBreaker over the document, nothing else. Plain tantivy: its simple tokenizer,
lower case, and accents folded, by `TextAnalyzer.analyze`, which makes Python strings of the tokens;
native analyzers are asked the same way here, though in the index tantivy's threads do their work
without making strings.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import tantivy
from icu4py.breakers import WordBreaker

from bench.harness import arguments, report, table
from lycosa.text.analyze import BIGRAMS, KIWI, Analysis
from lycosa.text.identify import LANGUAGES

DATA = Path(
    os.environ.get("LYCOSA_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)
FLOORS = Path(__file__).with_name("floors.toml")
DOCUMENT = 4_000  # bytes
# whose words ICU or a rule must find; the bar of .6 M is for zh and ja
UNSPACED = ("zh", "ja", "lo", "my", "bo")
SPACED = tuple(sorted(set(LANGUAGES) - {*UNSPACED, "ko"}))


def sentences(language: str) -> list[str]:
    rows = (
        (DATA / "sib200" / f"{language}.tsv")
        .read_text(encoding="utf-8")
        .rstrip("\n")
        .split("\n")[1:]
    )
    root = ElementTree.parse(DATA / "udhr27" / f"{language}.xml").getroot()
    return [
        *(row.split("\t", 2)[2].strip() for row in rows),
        *(" ".join(text.split()) for text in root.itertext() if text.strip()),
    ]


def documents(language: str, limit: int) -> tuple[list[str], int]:
    """Documents of about 4 KB, `limit` bytes of them or more; and how many of them come before the
    texts repeat.
    """
    once: list[str] = []
    part: list[str] = []
    length = 0
    for sentence in sentences(language):
        part.append(sentence)
        length += len(sentence.encode())
        if length >= DOCUMENT:
            once.append("\n".join(part))
            part, length = [], 0
    return once * max(1, -(-limit // sum(len(text.encode()) for text in once))), len(once)


def words_in(language: str, texts: Sequence[str]) -> int:
    return sum(
        any(map(str.isalnum, word)) for text in texts for word in WordBreaker(text, language)
    )


def seconds(work: Callable[[str], object], texts: Sequence[str]) -> float:
    started = time.process_time()
    for text in texts:
        work(text)
    return time.process_time() - started


def measure(language: str, limit: int, rounds: int, analysis: Analysis) -> dict[str, float]:
    """Tokens per CPU-second by what makes them."""
    texts, once = documents(language, limit)
    words, new_words = words_in(language, texts), words_in(language, texts[:once])
    plain = (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .build()
    )
    analyzer = analysis.of(language)
    analyzer.terms("가")  # what is loaded at the first word is not the words'
    rates: dict[str, list[float]] = {"ours": [], "tantivy": [], "icu": []}
    fresh = seconds(analyzer.marked, texts[:once])
    for _ in range(rounds):
        rates["ours"].append(words / seconds(analyzer.marked, texts))
        rates["tantivy"].append(words / seconds(plain.analyze, texts))
        rates["icu"].append(words / seconds(lambda text: list(WordBreaker(text, language)), texts))
    return {name: statistics.median(values) for name, values in rates.items()} | {
        "new_words": new_words / fresh
    }


def main() -> int:
    parser = arguments(
        __doc__,
        megabytes=(1.0, "of text in each language"),
        check=(False, "fail below the floors of bench/floors.toml"),
    )
    parser.add_argument("--languages", nargs="*", default=sorted(LANGUAGES))
    parser.add_argument("--korean", choices=[BIGRAMS, KIWI], default=BIGRAMS)
    options = parser.parse_args()
    analysis = Analysis((options.korean,))
    results = {
        language: measure(language, int(options.megabytes * 1e6), options.runs, analysis)
        for language in options.languages
    }
    names = ("ours", "new_words", "tantivy", "icu")
    rows = [
        [language, analysis.of(language).name, *(f"{rates[name] / 1e6:.2f}" for name in names)]
        for language, rates in results.items()
    ]
    columns = ("language", "analyzer", "ours", "ours, new words", "plain tantivy", "plain ICU")
    body = f"{table(columns, rows)}\n\nMillion tokens per CPU-second, {options.megabytes} MB each\n"
    spaced = [rates["ours"] / 1e6 for language, rates in results.items() if language in SPACED]
    summary = {
        "spaced": statistics.geometric_mean(spaced) if spaced else 0.0,
        "zh_ja": min(
            (
                rates["ours"] / 1e6
                for language, rates in results.items()
                if language in ("zh", "ja")
            ),
            default=0.0,
        ),
    }
    body += ", ".join(f"{name} {value:.2f}" for name, value in summary.items())
    report(options, "Analysis", body, {"languages": results, "summary": summary})
    if options.check:
        floors = tomllib.loads(FLOORS.read_text(encoding="utf-8"))["analysis"]
        missed = [name for name, value in summary.items() if value < floors[name]]
        for name in missed:
            print(f"{name} is {summary[name]:.2f}, its floor {floors[name]}", file=sys.stderr)
        return 1 if missed else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
