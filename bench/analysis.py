"""Tokens per CPU-second of each language's analyzer, compared with plain ICU and plain tantivy.

    python -m bench.analysis [--megabytes 1] [--runs 3] [--korean kiwi] [--check] [--json FILE]

A token is a word of ICU that contains a letter or digit, so all columns count the same tokens; a
character or syllable that an analyzer adds is not counted. The texts are SIB-200 and the Universal
Declaration of Human Rights, in documents of about 4 KB, repeated until there are enough bytes.
`ours` is therefore the speed of an analyzer whose cache has all words. `ours, new words` is its
first pass over texts that do not repeat. A crawl is between both, nearer to the first. Native
analyzers have no cache.

Plain ICU: one WordBreaker over the document. Plain tantivy: its simple tokenizer, lower case and
folded accents, by `TextAnalyzer.analyze`, which makes Python strings of the tokens. Native
analyzers are called the same way here, although tantivy's threads index without making strings.
"""

from __future__ import annotations

import statistics
import sys
from collections import deque
from collections.abc import Callable, Sequence

import tantivy
from icu4py.breakers import WordBreaker

from bench.corpora import documents
from bench.harness import arguments, cpu_s, read_floors, report, table
from lycosa.text.analyze import BIGRAMS, KIWI, Analysis
from lycosa.text.identify import LANGUAGES

UNSPACED = ("zh", "ja", "lo", "my", "bo")  # ICU or a rule must find the words
SPACED = sorted(set(LANGUAGES) - {*UNSPACED, "ko"})
COLUMNS = {
    "ours": "ours",
    "new_words": "ours, new words",
    "tantivy": "plain tantivy",
    "icu": "plain ICU",
}


def count_words(language: str, texts: Sequence[str]) -> int:
    return sum(
        any(map(str.isalnum, word)) for text in texts for word in WordBreaker(text, language)
    )


def seconds(work: Callable[[str], object], texts: Sequence[str]) -> float:
    return cpu_s(lambda: deque(map(work, texts), maxlen=0))


def measure(language: str, limit: int, rounds: int, analysis: Analysis) -> dict[str, float]:
    """Return tokens per CPU-second by analyzer."""
    texts, once = documents(language, limit)
    plain = (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .build()
    )
    analyzer = analysis.of(language)
    analyzer.terms("가")  # loads what the first word needs
    new_words = count_words(language, texts[:once]) / seconds(analyzer.marked, texts[:once])
    contenders: dict[str, Callable[[str], object]] = {
        "ours": analyzer.marked,
        "tantivy": plain.analyze,
        "icu": lambda text: list(WordBreaker(text, language)),
    }
    rounds_s = [
        {name: seconds(work, texts) for name, work in contenders.items()} for _ in range(rounds)
    ]
    words = count_words(language, texts)
    rates = {
        name: statistics.median(words / each[name] for each in rounds_s) for name in contenders
    }
    return rates | {"new_words": new_words}


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
    rows = [
        [language, analysis.of(language).name, *(f"{rates[name] / 1e6:.2f}" for name in COLUMNS)]
        for language, rates in results.items()
    ]
    speeds = {language: rates["ours"] / 1e6 for language, rates in results.items()}
    spaced = [speeds[language] for language in SPACED if language in speeds]
    summary = {
        "spaced": statistics.geometric_mean(spaced) if spaced else 0.0,
        "zh_ja": min((speeds[name] for name in ("zh", "ja") if name in speeds), default=0.0),
    }
    body = table(("language", "analyzer", *COLUMNS.values()), rows)
    body += f"\n\nMillion tokens per CPU-second, {options.megabytes} MB each\n"
    body += ", ".join(f"{name} {value:.2f}" for name, value in summary.items())
    report(options, "Analysis", body, {"languages": results, "summary": summary})
    floors = read_floors("analysis") if options.check else {}
    missed = [name for name, floor in floors.items() if summary[name] < floor]
    for name in missed:
        print(f"{name} is {summary[name]:.2f}, its floor {floors[name]}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
