"""Quality and cost of suggestions, spelling corrections and similar pages.

    python -m bench.suggest latency WORKSPACE      suggestions over an indexed workspace
                                                   (100,000 pages: bench.search)
    python -m bench.suggest spelling [WORKSPACE]   errors inserted into words of the documentation
                                                   sites, and of SIB-200 in 27 languages
    python -m bench.suggest similar [WORKSPACE]    pages of the same chapter, sentences of the same
                                                   topic, among the five most similar

WORKSPACE contains the six documentation sites; it is created if it is not given. An error is one
letter deleted, inserted, replaced or transposed, with letters of the same language. Words are
sampled by the number of pages that contain them. Even words are measured; odd ones (`--odd`) were
used to choose constants.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial

from icu4py.breakers import WordBreaker

from bench.corpora import SITES, commit_pages, fill, index_workspace, sib200
from bench.harness import DATA, arguments, quantiles, report, table, timed
from lycosa.core.records import Page
from lycosa.index.suggest.normalise import folded
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.search.suggest.completion import SuggestRequest
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

BANDS = ((1, 2), (3, 9), (10, 99), (100, 10**9))
SITE_WORDS, LANGUAGE_WORDS, RARE_WORDS = 500, 60, 300
MIN_LENGTH, MAX_LENGTH = 4, 14
_SIGNS = "\u0900-\u0903\u093a-\u094d\u0eb0-\u0ecd\u102b-\u103e\u0f71-\u0f84\u0f90-\u0fbc"
_WORD = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{_SIGNS}])*")
_EAST_ASIAN = re.compile("^[\u3041-\u30ff\u3400-\u9fff]+$")


def fill_sentences(root: str) -> None:
    """Commit the sentences of SIB-200 as pages at http://LANGUAGE.test/TOPIC/NUMBER."""
    names = sorted(path.stem for path in (DATA / "sib200").glob("*.tsv"))
    sentences = ((name, each) for name in names if name != "zh-hant" for each in sib200(name))
    pages = (
        (
            f"http://{name}.test/{each.topic.replace('/', '-')}/{number}",
            Page(title="", main_text=each.text, text=each.text, language=name),
        )
        for number, (name, each) in enumerate(sentences)
    )
    commit_pages(root, pages)


def word_pages(root: str) -> dict[str, Counter[str]]:
    """Return by language the number of pages with each word; independent of Lycosa's analysis."""
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
                words = {word for word in words if MIN_LENGTH <= len(word) <= MAX_LENGTH}
            page_counts[language].update(words)
    return page_counts


def typo(word: str, letters: str, generator: random.Random) -> str:
    """Return the word with one error; never the same word."""
    while True:
        place = generator.randrange(len(word))
        kind = generator.choice(("insert", "delete", "transpose", "substitute"))
        letter = generator.choice(letters)
        replacement = {
            "insert": letter + word[place],
            "delete": "",
            "transpose": word[place : place + 2][::-1],
            "substitute": letter,
        }[kind]
        end = place + (2 if kind == "transpose" else 1)
        result = word[:place] + replacement + word[end:]
        if folded(result) != folded(word) and result:
            return result


def draw_words(
    words: dict[str, Counter[str]], per_language: int, generator: random.Random, odd: bool
) -> Iterator[tuple[str, str, int]]:
    """Yield (language, word, band), with the same number of words in each band."""
    for language in sorted(words):
        for band, (low, high) in enumerate(BANDS):
            counts = words[language].items()
            of_band = sorted(word for word, count in counts if low <= count <= high)[odd::2]
            for word in generator.sample(of_band, min(len(of_band), per_language // len(BANDS))):
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
    """Return a table by number of pages, and how many correct words get a suggestion."""
    generator = random.Random(11)
    words, searcher = word_pages(root), Searcher(root)
    counts: Counter[tuple[str, str]] = Counter()
    times: list[float] = []
    for language, word, band in draw_words(words, per_language, generator, odd):
        letters = "".join(sorted(set(filter(str.isalpha, "".join(list(words[language])[:2_000])))))
        wrong = typo(word, letters, generator)
        for key in (f"on {BANDS[band][0]} pages or more", "all"):
            counts[key, "typos"] += 1
            counts.update((key, outcome) for outcome in outcomes(searcher, word, wrong, language))
        times.append(timed(partial(searcher.search, SearchRequest(wrong)))[2])
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
    p50, p95 = quantiles(times, 0.5, 0.95, digits=1)
    return [
        table(("corpus", "words", "typos", *OUTCOMES), rows),
        f"\n{name}: {doubted[True]} of {doubted.total()} correct words on one or two pages get a "
        f"suggestion; CPU of the search p50 {p50}, p95 {p95} ms\n",
    ]


def similar(name: str, root: str, pattern: str, count: int = 200) -> str:
    """Return the share of the five most similar pages in the page's group, and that by chance."""
    group_of = re.compile(pattern)
    groups: dict[str, str] = {}
    for frame in LiveTables(Workspace.open(root)).ordered("pages", ("url",)):
        for (url,) in frame.select("url").iter_rows():
            if match := group_of.match(url):
                groups[url] = match[1] + "/" + match[2]
    sizes = Counter(groups.values())
    sites = Counter(group.partition("/")[0] for group in groups.values())
    searcher, generator = Searcher(root), random.Random(3)
    hits = same = 0
    chance: list[float] = []
    times: list[float] = []
    for url in generator.sample(sorted(groups), min(count, len(groups))):
        request = SearchRequest(f'similar:"{url}"', count=5, per_host=0)
        result, _, cpu_ms = timed(partial(searcher.search, request))
        times.append(cpu_ms)
        hits += len(result.hits)
        same += sum(groups.get(hit.url) == groups[url] for hit in result.hits)
        chance.append((sizes[groups[url]] - 1) / max(1, sites[groups[url].partition("/")[0]] - 1))
    p50, p95 = quantiles(times, 0.5, 0.95, digits=1)
    return (
        f"{name}: {same / max(1, hits):.3f} of {hits} pages among the five most similar are of the "
        f"same group, by chance {sum(chance) / len(chance):.3f}; CPU p50 {p50}, p95 {p95} ms"
    )


def latency(root: str, count: int = 2_000) -> list[str]:
    """Return wall and CPU time by number of typed letters: starts of titles and of their words."""
    searcher, generator = Searcher(root), random.Random(7)
    titles = []
    for frame in LiveTables(Workspace.open(root)).ordered("pages", ("title",)):
        titles += [title for (title,) in frame.select("title").iter_rows() if title]
    by_length: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(count):
        words = generator.choice(titles).split()
        typed = " ".join(words[generator.randrange(len(words)) :])[: generator.randint(1, 12)]
        _, *times = timed(partial(searcher.suggest, SuggestRequest(typed)))
        key = "1 letter" if len(typed) == 1 else "2 and 3" if len(typed) < 4 else "4 to 12"
        for each in (key, "all"):
            by_length[each].append((times[0], times[1]))
    rows = []
    for key, values in sorted(by_length.items()):
        wall, cpu = zip(*values, strict=True)
        figures = (quantiles(each, 0.5, 0.95, digits=2) for each in (wall, cpu))
        rows.append([key, len(values), *(cell for pair in figures for cell in pair)])
    return [table(["typed", "times", "p50 ms", "p95 ms", "CPU p50 ms", "CPU p95 ms"], rows)]


def create(folder: str, *, sites: bool) -> str:
    """Index the documentation sites, or the sentences of SIB-200, in a new workspace."""
    root = f"{folder}/{'sites' if sites else 'sentences'}"
    if sites:
        fill(root, SITES, 100_000, [])
    else:
        fill_sentences(root)
    index_workspace(root)
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
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        root = options.workspace or create(folder, sites=True)
        if options.what == "latency":
            lines = latency(root)
        elif options.what == "spelling":
            sentences = create(folder, sites=False)
            lines = correct_typos("six sites", root, SITE_WORDS // 8, options.odd)
            lines += correct_typos("SIB-200", sentences, LANGUAGE_WORDS, options.odd)
        else:
            sentences = create(folder, sites=False)
            chapters, topics = (
                rf"^http://({host})\.test/([^/]+)/" for host in ("python-doc", "[a-z]+")
            )
            lines = [
                similar("python-doc, by chapter", root, chapters),
                similar("SIB-200, by topic", sentences, topics),
            ]
    report(options, "Suggestions, spelling, similar pages", "\n".join(lines))


if __name__ == "__main__":
    main()
