"""Known-item search: ranks of pages for words of their title or of one of their sentences.

    python -m bench.known_item [--sites DIR] [--pages N] [--only sites|languages]

Each folder of DIR is one site of HTML files. Queries come from its English pages: the first six
words of the title, and six and four neighbouring words of a sentence. Pages whose title and URL
contradict the language of their text are no targets. Measured is the mean reciprocal rank of the
first ten; a page with the same text counts as the target. The baseline is tantivy with English
stemming, any of the words, the title weighted three times.

`languages`: all sites in one index. Queries come from pages in every language that has enough. Near
copies are grouped, and one of the target counts as the target. Measured with the language of the
query and without it; odd-numbered queries were used for tuning.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import tantivy

from bench.corpora import SITES, html_files, tantivy_baseline
from bench.harness import arguments, reciprocal_rank, report, table
from bench.relevance import index_pages
from lycosa.core.records import Page
from lycosa.graph.near_duplicates import near_groups
from lycosa.page.parse import parse_page
from lycosa.search.engine.searcher import SearchRequest
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analyzer_for
from lycosa.url.keys import Identifier

KINDS = ("title", "six words", "four words")
TARGETS = 120
TITLE_WORDS, TITLE_WEIGHT = 6, 3.0
_WORD = re.compile(r"[A-Za-z]{2,}")
LANGUAGE_TARGETS, MIN_PAGES = 40, 10  # pages per language for queries; pages that it must have

Site = list[tuple[str, Page]]
Search = Callable[[str], list[str]]


def sites(folder: Path, pages: int) -> dict[str, Site]:
    """Parse up to `pages` files of each site."""
    results: dict[str, Site] = {}
    for url, path in html_files(folder):
        site = results.setdefault(path.relative_to(folder).parts[0], [])
        if len(site) < pages:
            page = parse_page(path.read_bytes(), url=url, content_type="text/html")
            if page.may_index and page.text:
                site.append((url, page))
    return results


def targets_of(site: Site, language: str) -> Site:
    return [
        (url, page)
        for url, page in site
        if page.language == language and page.language_share == 1 and len(page.main_text) > 500
    ]


def queries(site: Site, kind: str) -> list[tuple[str, int]]:
    """Return queries with the text digest of their target."""
    generator = random.Random(8)
    targets = [page for _, page in targets_of(site, "en")]
    count = 6 if kind == "six words" else 4
    pairs = []
    for page in generator.sample(targets, min(TARGETS, len(targets))):
        words = re.findall(r"\w+", page.title)[:TITLE_WORDS]
        if kind != "title":
            sentences = map(_WORD.findall, page.main_text.split("\n"))
            lines = [words for words in sentences if len(words) > count]
            words = generator.choice(lines) if lines else []
            start = generator.randrange(len(words) - count) if words else 0
            words = words[start : start + count]
        if words:
            pairs.append((" ".join(words), page.text_digest))
    return pairs


def weighted_bm25(site: Site) -> Search:
    """Return a search by tantivy alone."""
    analyzer = (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.stemmer("english"))
    )
    documents = ((url, page.title, page.text) for url, page in site)
    search = tantivy_baseline(analyzer.build(), {"title": TITLE_WEIGHT, "body": 1.0}, documents)
    return lambda query: search(re.sub(r"[^\w\s]", " ", query), 10)


def mean_rank(
    search: Search, requests: Sequence[tuple[str, int]], digests: dict[str, int]
) -> float:
    """Return the mean reciprocal rank of the targets."""
    ranks = (
        reciprocal_rank([digests[url] for url in search(query)], {target})
        for query, target in requests
    )
    return sum(ranks) / max(1, len(requests))


def site_row(root: str, name: str, site: Site) -> tuple[str, ...]:
    """Return the figures of one site: for each kind of query Lycosa and the baseline."""
    searcher = index_pages(root, site)
    digests = {url: page.text_digest for url, page in site}

    def ours(query: str) -> list[str]:
        request = SearchRequest(query, language="en", per_host=0, spelling=False, snippets=False)
        return [hit.url for hit in searcher.search(request).hits]

    cells = [name, str(len(site))]
    plain = weighted_bm25(site)
    for kind in KINDS:
        requests = queries(site, kind)
        figures = (
            f"{mean_rank(ours, requests, digests):.3f}; "
            f"{mean_rank(plain, requests, digests):.3f} ({len(requests)})"
        )
        cells.append(figures if requests else "–")
    return tuple(cells)


def language_queries(pages: Site) -> dict[str, list[tuple[str, str]]]:
    """Return by language pairs of a query and the URL of its target.

    Alternately the first words of a title, and four neighbouring words of a sentence.
    """
    generator = random.Random(8)
    result: dict[str, list[tuple[str, str]]] = {}
    for language in sorted({page.language for _, page in pages if page.language}):
        targets = targets_of(pages, language)
        if len(targets) < MIN_PAGES:
            continue
        result[language] = []
        units = analyzer_for(language).units
        for url, page in generator.sample(targets, min(LANGUAGE_TARGETS, len(targets))):
            title = [unit.surface for unit in units(page.title)]
            line = generator.choice([line for line in page.main_text.split("\n") if line])
            words = [unit.surface for unit in units(line)]
            start = generator.randrange(max(1, len(words) - 3))
            texts = title[:TITLE_WORDS], words[start : start + 4]
            result[language] += [(" ".join(text), url) for text in texts]
    return result


def near_copies(root: str, pages: Site) -> dict[str, int]:
    """Return for each page a number that it shares with its copies."""
    workspace = Workspace.open(root)
    identifier = Identifier(workspace.domains, workspace.partitions)
    keys = {url: identifier.identify(url)[3] for url, _ in pages}
    priors = pl.DataFrame(
        {"url_key": list(keys.values()), "prior": 1.0}, schema_overrides={"url_key": pl.UInt64}
    )
    results = near_groups(LiveTables(workspace), priors, pl.Series([], dtype=pl.UInt64), Path(root))
    groups = dict(results.select("url_key", "group").iter_rows())
    return {url: groups.get(keys[url], page.text_digest) for url, page in pages}


def language_rows(root: str, pages: Site) -> list[tuple[str, ...]]:
    """Return ranks by language and their means, with the language of the query and without it."""
    searcher = index_pages(root, pages)
    groups = near_copies(root, pages)

    def rank(requests: Sequence[tuple[str, str]], language: str | None) -> float:
        ranks = []
        for query, target in requests:
            request = SearchRequest(
                query, 30, language=language, per_host=0, spelling=False, snippets=False
            )
            results = dict.fromkeys(groups[hit.url] for hit in searcher.search(request).hits)
            ranks.append(reciprocal_rank(list(results)[:10], {groups[target]}))
        return sum(ranks) / len(requests)

    figures: dict[str, list[float]] = {}
    for language, requests in language_queries(pages).items():
        # two queries come from each page
        halves = [
            [query for place, query in enumerate(requests) if place // 2 % 2 == half]
            for half in (0, 1)
        ]
        figures[f"{language} ({len(requests)})"] = [
            rank(half, each) for half in halves for each in (language, None)
        ]
    means = [sum(column) / len(figures) for column in zip(*figures.values(), strict=True)]
    return [
        (name, *(f"{figure:.3f}" for figure in row))
        for name, row in {**figures, "mean": means}.items()
    ]


def main() -> None:
    parser = arguments(__doc__, runs=1, sites=SITES, pages=700)
    parser.add_argument("--only", choices=("sites", "languages"))
    options = parser.parse_args()
    bodies = []
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        results = sites(options.sites, options.pages)
        if options.only != "languages":
            rows = [site_row(f"{folder}/{name}", name, site) for name, site in results.items()]
            kinds = (f"{kind}: Lycosa; BM25 (queries)" for kind in KINDS)
            bodies.append(table(("site", "pages", *kinds), rows))
        if options.only != "sites":
            pages = [page for site in results.values() for page in site]
            columns = ("language (queries)", "odd, given", "odd, none", "even, given", "even, none")
            bodies.append(table(columns, language_rows(f"{folder}/all", pages)))
    report(options, "Known-item search", "\n\n".join(bodies))


if __name__ == "__main__":
    main()
