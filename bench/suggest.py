"""Quality and cost of suggestions, spelling corrections and similar pages.

    python -m bench.suggest latency WORKSPACE      suggestions over an indexed workspace
                                                   (100,000 pages: bench.search)
    python -m bench.suggest spelling [WORKSPACE]   errors inserted into words of the documentation
                                                   sites, and of SIB-200 in 27 languages
    python -m bench.suggest similar [WORKSPACE]    pages of the same chapter, sentences of the same
                                                   topic, among the five most similar

WORKSPACE is one of the six documentation sites (`bench.search.fill`), made if it is not options. An
error is one letter deleted, inserted, replaced or transposed, by a seeded rule, with letters of the
same language. Words are sampled by the number of pages that contain them. Even words are measured;
odd ones (`--odd`) are for choosing constants.
"""

from __future__ import annotations

import csv
import random
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from icu4py.breakers import WordBreaker

from bench.corpora import SITES, commit_pages, fill
from bench.harness import arguments, quantile, report, table
from lycosa.config.settings import IndexSettings
from lycosa.core.records import Page
from lycosa.index.indexer import Indexer
from lycosa.index.suggest.normalise import folded
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.suggest.completion import SuggestRequest
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

SIB = Path("/work/shared/data/sib200")
BANDS = ((1, 2), (3, 9), (10, 99), (100, 10**9))
SITE_WORDS, LANGUAGE_WORDS, RARE_WORDS = 500, 60, 300
SHORTEST, LONGEST = 4, 14
_SIGNS = "\u0900-\u0903\u093a-\u094d\u0eb0-\u0ecd\u102b-\u103e\u0f71-\u0f84\u0f90-\u0fbc"
_WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{_SIGNS}])*")
_EAST_ASIAN = re.compile("^[\u3041-\u30ff\u3400-\u9fff]+$")
SCRIPTS = (
    ("Latin", "A-Za-z\u00c0-\u024f\u1e00-\u1eff"), ("Cyrillic", "\u0400-\u052f"),
    ("Arabic", "\u0600-\u06ff"), ("Devanagari", "\u0900-\u097f"),
    ("Hangul", "\uac00-\ud7a3"), ("Han and kana", "\u3041-\u30ff\u3400-\u9fff"), ("Lao", "\u0e80-\u0eff"), ("Burmese", "\u1000-\u109f"),
    ("Tibetan", "\u0f00-\u0fff"), ("Greek", "\u0370-\u03ff"),
)  # fmt: skip


def sentences() -> Iterator[tuple[str, str, str]]:
    """(language, topic, sentence) of SIB-200."""
    for file in sorted(SIB.glob("*.tsv")):
        if file.stem == "zh-hant":
            continue
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield file.stem, row["category"], row["text"]


def fill_sentences(root: str) -> None:
    """A workspace whose pages are SIB-200's sentences, at http://LANGUAGE.test/TOPIC/NUMBER."""
    commit_pages(
        root,
        (
            (
                f"http://{language}.test/{topic.replace('/', '-')}/{number}",
                Page(title="", main_text=text, text=text, language=language),
            )
            for number, (language, topic, text) in enumerate(sentences())
        ),
    )


def word_pages(root: str) -> dict[str, Counter[str]]:
    """By language, on how many pages each word stands: counted here, by another rule than what is
    measured.
    """
    page_counts: dict[str, Counter[str]] = defaultdict(Counter)
    for frame in LiveTables(Workspace.open(root)).ordered("pages", ("language", "main_text")):
        for language, text in frame.select("language", "main_text").iter_rows():
            if language in ("zh", "ja"):
                words = {
                    word
                    for word in WordBreaker(text[:3_000], language)
                    if len(word) >= 3 and _EAST_ASIAN.match(word)
                }
            else:
                words = set(_WORD.findall(text.lower()[:10_000]))
                words = {word for word in words if SHORTEST <= len(word) <= LONGEST}
            page_counts[language].update(words)
    return page_counts


def typo(word: str, letters: str, generator: random.Random) -> str:
    """The word with one slip; never the same word."""
    while True:
        place = generator.randrange(len(word))
        kind = generator.choice(("insert", "delete", "transpose", "substitute"))
        letter = generator.choice(letters)
        if kind == "insert":
            made = word[:place] + letter + word[place:]
        elif kind == "delete":
            made = word[:place] + word[place + 1 :]
        elif kind == "transpose":
            made = word[:place] + word[place : place + 2][::-1] + word[place + 2 :]
        else:
            made = word[:place] + letter + word[place + 1 :]
        if folded(made) != folded(word) and made:
            return made


def script_of(word: str) -> str:
    return next((name for name, letters in SCRIPTS if re.search(f"[{letters}]", word)), "other")


def drawn(
    words: dict[str, Counter[str]], a_language: int, generator: random.Random, odd: bool
) -> Iterator[tuple[str, str, int]]:
    """(language, word, band): as many of each band."""
    for language in sorted(words):
        for band, (least, most) in enumerate(BANDS):
            of_band = sorted(
                word for word, count in words[language].items() if least <= count <= most
            )[odd::2]
            for word in generator.sample(of_band, min(len(of_band), a_language // len(BANDS))):
                yield language, word, band


OUTCOMES = ("corrected", "language not named", "no suggestion", "found as typed")


def outcomes(searcher: Searcher, word: str, wrong: str, language: str) -> Iterator[str]:
    """Yield what happens to a typing error, with the language of the query and without it."""

    def suggestion(language: str | None) -> tuple[str, bool]:
        results = searcher.search(SearchRequest(wrong, language=language))
        query = results.did_you_mean.query if results.did_you_mean is not None else ""
        return folded(query), not results.notes and results.total > 2

    if suggestion(None)[0] == folded(word):
        yield "language not named"
    query, has_results = suggestion(language)
    if query == folded(word):
        yield "corrected"
    elif not query:
        yield "found as typed" if has_results else "no suggestion"


def correct_typos(name: str, root: str, per_language: int, odd: bool) -> list[str]:
    """Return a table by script and by number of pages, and how often correct words are doubted."""
    generator = random.Random(11)
    words, searcher = word_pages(root), Searcher(root)
    counts: Counter[tuple[str, str]] = Counter()
    times: list[float] = []
    for language, word, band in drawn(words, per_language, generator, odd):
        letters = "".join(sorted(set(filter(str.isalpha, "".join(list(words[language])[:2_000])))))
        wrong = typo(word, letters, generator)
        for key in (script_of(word), f"on {BANDS[band][0]} pages or more", "all"):
            counts[key, "typos"] += 1
            counts.update((key, outcome) for outcome in outcomes(searcher, word, wrong, language))
        start = time.process_time()
        searcher.search(SearchRequest(wrong))
        times.append((time.process_time() - start) * 1000)
    doubted: Counter[bool] = Counter()
    for language in sorted(words):
        rare = sorted(word for word, count in words[language].items() if count <= 2)[odd::2]
        for word in generator.sample(rare, min(len(rare), RARE_WORDS // len(words))):
            doubted[searcher.search(SearchRequest(word)).did_you_mean is not None] += 1
    rows = [
        (name, key, total, *(f"{counts[key, outcome] / total:.3f}" for outcome in OUTCOMES))
        for (key, kind), total in sorted(counts.items())
        if kind == "typos"
    ]
    return [
        table(("corpus", "words", "typos", *OUTCOMES), rows),
        f"\n{name}: {doubted[True]} of {doubted.total()} correct words on one or two pages "
        f"doubted; CPU of the search p50 {quantile(times, 0.5):.1f}, p95 "
        f"{quantile(times, 0.95):.1f} ms\n",
    ]


def similar(name: str, root: str, pattern: str, count: int = 200) -> str:
    """How many of the five most similar pages are of the page's own group, and how many would be by
    chance.
    """
    group_of = re.compile(pattern)
    groups: dict[str, str] = {}
    for frame in LiveTables(Workspace.open(root)).ordered("pages", ("url",)):
        for (url,) in frame.select("url").iter_rows():
            if match := group_of.match(url):
                groups[url] = match[1] + "/" + match[2]
    sizes, sites = (
        Counter(groups.values()),
        Counter(group.partition("/")[0] for group in groups.values()),
    )
    searcher, generator = Searcher(root), random.Random(3)
    hits = same = 0
    chance: list[float] = []
    times: list[float] = []
    for url in generator.sample(sorted(groups), min(count, len(groups))):
        start = time.process_time()
        found_pages = searcher.search(SearchRequest(f'similar:"{url}"', count=5, per_host=0)).hits
        times.append((time.process_time() - start) * 1000)
        hits += len(found_pages)
        same += sum(groups.get(hit.url) == groups[url] for hit in found_pages)
        chance.append((sizes[groups[url]] - 1) / max(1, sites[groups[url].partition("/")[0]] - 1))
    return (f"{name}: {same / max(1, hits):.3f} of {hits} pages among the five most similar are "
            "of the same group, by chance "
            f"{sum(chance) / len(chance):.3f}; CPU p50 {quantile(times, 0.5):.1f}, p95 "
            f"{quantile(times, 0.95):.1f} ms")  # fmt: skip


def latency(root: str, count: int = 2_000) -> list[str]:
    """What a suggestion costs, by how many letters were typed; what is typed are beginnings of
    titles and of words in them.
    """
    searcher, generator = Searcher(root), random.Random(7)
    titles = []
    for frame in LiveTables(Workspace.open(root)).ordered("pages", ("title",)):
        titles += [title for (title,) in frame.select("title").iter_rows() if title]
    by_length: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(count):
        words = generator.choice(titles).split()
        typed = " ".join(words[generator.randrange(len(words)) :])[: generator.randint(1, 12)]
        cpu, start = time.process_time(), time.perf_counter()
        searcher.suggest(SuggestRequest(typed))
        key = "1 letter" if len(typed) == 1 else "2 and 3" if len(typed) < 4 else "4 to 12"
        for each in (key, "all"):
            by_length[each].append(
                ((time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000)
            )
    rows = [
        [
            key,
            len(values),
            *(
                f"{quantile([value[kind] for value in values], share):.2f}"
                for kind in (0, 1)
                for share in (0.5, 0.95)
            ),
        ]
        for key, values in sorted(by_length.items())
    ]
    return [table(["typed", "times", "p50 ms", "p95 ms", "CPU p50 ms", "CPU p95 ms"], rows)]


def made(folder: str, sites: bool) -> str:
    """A workspace of the documentation sites, or of SIB-200's sentences, indexed."""
    root = f"{folder}/{'sites' if sites else 'sentences'}"
    if sites:
        fill(root, SITES, 100_000, [])
    else:
        fill_sentences(root)
    with Indexer(root, IndexSettings()) as indexer:
        indexer.update()
    return root


def main() -> None:
    parser = arguments(
        __doc__,
        runs=1,
        odd=(False, "the words for choosing constants, instead of those for measuring"),
    )
    parser.add_argument("what", choices=["latency", "spelling", "similar"])
    parser.add_argument("workspace", nargs="?", default="", help="one that is indexed")
    options = parser.parse_args()
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        root = options.workspace or made(folder, sites=True)
        if options.what == "latency":
            lines += latency(root)
        elif options.what == "spelling":
            lines += correct_typos("six sites", root, SITE_WORDS // 8, options.odd)
            lines += correct_typos(
                "SIB-200", made(folder, sites=False), LANGUAGE_WORDS, options.odd
            )
        else:
            lines.append(
                similar("python-doc, by chapter", root, r"^http://(python-doc)\.test/([^/]+)/")
            )
            lines.append(
                similar(
                    "SIB-200, by topic",
                    made(folder, sites=False),
                    r"^http://([a-z]+)\.test/([^/]+)/",
                )
            )
    report(options, "Suggestions, spelling, similar pages", "\n".join(lines))


if __name__ == "__main__":
    main()
