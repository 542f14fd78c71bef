"""Indexing and searching real pages: cost a page, latency of a query with its snippets, memory,
beside SQLite's FTS5.

    python -m bench.search [--sites DIR] [--pages N] [--queries N] [--results FILE] [--indexing
    ROUNDS [--mixed]]

Pages are the HTML files that `make_sites.sh` lays out, parsed as a crawl parses them and committed
to a workspace in a temporary folder. Queries are words, runs of words and phrases drawn from the
pages themselves (seeded), in every language of the sites. FTS5 gets the same texts, queries and
work: the ten best by BM25, the count of all, and a snippet each (`unicode61`, `snippet()`); it has
no stemmer for most languages and no words for Chinese and Japanese, which makes its work easier,
not harder. Absolute bars are checked by `make prove`, not here.

`--indexing` measures building the index alone, in rounds, beside a limit in the same rounds:
tantivy with its own English analysis over the same texts, one field, nothing else of ours but
reading them. `--mixed`: not the sites, but pages of 4 KB in the 27 languages and more of SIB-200
and the Declaration of Human Rights, as many of each.
"""

from __future__ import annotations

import argparse
import html
import random
import re
import resource
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import tantivy

from bench.analysis import DOCUMENT, documents
from bench.harness import append_results, load_average, quantile, table
from lycosa.config.settings import IndexSettings
from lycosa.core.records import Page, Visit
from lycosa.index.generation import newest
from lycosa.index.indexer import Indexer
from lycosa.page.parse import parse_page
from lycosa.search.engine.searcher import Searcher, SearchRequest
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import NativeAnalyzer, analyzer_for
from lycosa.text.identify import LANGUAGES
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise

SITES = Path("~/.cache/lycosa-sites").expanduser()
COMMIT_PAGES = 1_000
MIXED_PAGES = 30  # of a language
HITS = 10
FIRST_AT = 1_700_000_000_000  # ms: when the first page is said to have been fetched
_CJK = re.compile("[\u3041-\u30ff\u4e00-\u9fff]{4,}")
_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(slots=True)
class Sample:
    """What queries are drawn from: a page's URL, title, text and language."""

    url: str
    title: str
    text: str
    language: str


def html_files(sites: Path) -> Iterator[tuple[str, Path]]:
    """(URL, file) of every page, by the address that each site would have."""
    for site in sorted(path for path in sites.iterdir() if path.is_dir()):
        for file in sorted(site.rglob("*.html*")):
            if file.is_file():
                yield (
                    normalise(f"http://{site.name}.test/{file.relative_to(site).as_posix()}"),
                    file,
                )


def fill(
    root: str,
    sites: Path,
    most_pages: int,
    samples: list[Sample],
    moved: Callable[[str], str] | None = None,
    every: list[Sample] | None = None,
) -> int:
    """Parse the pages and commit them to a new workspace, each at its address or at what `moved`
    makes of it. Returns how many.

    `samples` gets a tenth of them, `every` all.
    """
    workspace = Workspace.create(root)
    identifier = Identifier(workspace.domains, workspace.partitions)
    claim = workspace.claim("bench")
    generator = random.Random(5)
    buffers, count = Buffers(), 0
    for url, file in html_files(sites):
        if count >= most_pages:
            break
        url = moved(url) if moved is not None else url
        page: Page = parse_page(file.read_bytes(), url=url, content_type="text/html")
        _, host, host_key, url_key, partition = identifier.identify(url)
        visit = Visit(
            url, host, partition, host_key, url_key, "page", "default", 0, FIRST_AT + count, 1
        )
        buffers.add_page(visit, page)
        buffers.links.add_links(visit, page.links)
        count += 1
        if every is not None and len(page.main_text) > 200:
            every.append(Sample(url, page.title, page.main_text, page.language))
        if generator.random() < 0.1 and len(page.main_text) > 200:
            samples.append(Sample(url, page.title, page.main_text, page.language))
        if buffers.pages.rows >= COMMIT_PAGES:
            claim.commit(claim.next_folder(), buffers.mapping())
            buffers = Buffers()
    claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    return count


def fill_mixed(root: str) -> int:
    """Commit pages in many languages to a new workspace, in turn. Returns how many."""
    workspace = Workspace.create(root)
    identifier = Identifier(workspace.domains, workspace.partitions)
    claim = workspace.claim("bench")
    buffers, count = Buffers(), 0
    texts = [
        documents(language, 2 * MIXED_PAGES * DOCUMENT)[0][:MIXED_PAGES] for language in LANGUAGES
    ]
    for page_number, alike in enumerate(zip(*texts, strict=True)):
        for language, text in zip(LANGUAGES, alike, strict=True):
            url = normalise(f"http://{language}.test/{page_number}")
            body = "".join(f"<p>{html.escape(line)}</p>" for line in text.split("\n"))
            source = f"<html lang={language}><meta charset=utf-8><title>{html.escape(text[:40])}</title><main>{body}</main>".encode()
            page = parse_page(source, url=url, content_type="text/html")
            _, host, host_key, url_key, partition = identifier.identify(url)
            buffers.add_page(
                Visit(
                    url,
                    host,
                    partition,
                    host_key,
                    url_key,
                    "page",
                    "default",
                    0,
                    FIRST_AT + count,
                    1,
                ),
                page,
            )
            count += 1
    claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    return count


def bare_s(root: str) -> float:
    """CPU seconds of tantivy alone for the texts of a workspace's pages: its English analysis, one
    field, one thread.
    """
    english = analyzer_for("en")
    assert isinstance(english, NativeAnalyzer)
    workspace = Workspace.open(root)
    schema = tantivy.SchemaBuilder().add_text_field("text", tokenizer_name=english.name).build()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        index = tantivy.Index(schema, path=folder)
        index.register_tokenizer(english.name, english.tokenizer)
        start = time.process_time()
        settings = IndexSettings()
        writer = index.writer(settings.heap, settings.threads)
        for file in workspace.state().files["pages"]:
            for text in pl.read_parquet(workspace.path(file.path), columns=["text"])["text"]:
                document = tantivy.Document()
                document.add_text("text", text)
                writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        return time.process_time() - start


def index_s(root: str, *, suggestions: bool) -> float:
    """CPU seconds of building the index from nothing, all threads."""
    shutil.rmtree(Path(root, "index"), ignore_errors=True)
    start = time.process_time()
    with Indexer(root, IndexSettings()) as indexer:
        indexer.update(suggestions=suggestions)
    return time.process_time() - start


def building(root: str, pages: int, rounds: int) -> str:
    """What building the index costs, beside the limit, the order turning; the first round warms
    up.
    """
    ways: dict[str, Callable[[], float]] = {
        "index": lambda: index_s(root, suggestions=False),
        "with suggestions": lambda: index_s(root, suggestions=True),
        "tantivy alone, English": lambda: bare_s(root),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items() if number % 2 else reversed(ways.items()):
            seconds = way()
            if number:
                spent[name].append(seconds)
    limit = spent["tantivy alone, English"]
    rows = []
    for name, found in spent.items():
        ratio = statistics.median(one / other for one, other in zip(found, limit, strict=True))
        cost = statistics.median(found)
        rows.append(
            (
                name,
                f"{cost * 1000 / pages:.2f}",
                f"{min(found) * 1000 / pages:.2f}",
                f"{pages / cost:.0f}",
                f"{ratio:.2f}",
            )
        )
    body = table(
        (
            "what",
            "CPU ms a page",
            "least",
            "pages a CPU-second",
            "times the limit (median of rounds)",
        ),
        rows,
    )
    return f"{body}\n\n{pages} pages, {rounds} rounds, load {load_average()}"


def queries(samples: list[Sample], count: int) -> list[str]:
    """One to four words or a phrase out of a page's text, from all languages alike; for Chinese and
    Japanese two to six characters.
    """
    generator = random.Random(11)
    by_language: dict[str, list[Sample]] = {}
    for sample in samples:
        by_language.setdefault(sample.language, []).append(sample)
    languages = sorted(by_language)
    drawn: list[str] = []
    while len(drawn) < count:
        sample = generator.choice(by_language[languages[len(drawn) % len(languages)]])
        if sample.language in ("zh", "ja"):
            runs = _CJK.findall(sample.text)
            if runs:
                run = generator.choice(runs)
                length = generator.randint(2, 6)
                start = generator.randrange(max(1, len(run) - length))
                drawn.append(run[start : start + length])
            continue
        words = list(_WORD.finditer(sample.text))
        if len(words) < 8:
            continue
        number = generator.randint(1, 4)
        place = generator.randrange(len(words) - number)
        kind = generator.random()
        if kind < 0.25 and number > 1:
            phrase = (
                sample.text[words[place].start() : words[place + number - 1].end()]
                .replace("\n", " ")
                .replace('"', "")
            )
            drawn.append(f'"{phrase}"')
        else:
            drawn.append(
                " ".join(
                    words[index][0] for index in sorted(generator.sample(range(len(words)), number))
                )
            )
    return drawn


def latencies(ask: Callable[[str], object], asked: list[str]) -> tuple[list[float], list[float]]:
    """Wall and CPU milliseconds of each query."""
    wall, cpu = [], []
    for query in asked:
        start, start_cpu = time.perf_counter(), time.process_time()
        ask(query)
        wall.append((time.perf_counter() - start) * 1000)
        cpu.append((time.process_time() - start_cpu) * 1000)
    return wall, cpu


class Fts:
    """SQLite's full text index over the same pages."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        create = (
            "CREATE VIRTUAL TABLE IF NOT EXISTS pages USING fts5(url UNINDEXED, title, "
            "headings, body, tokenize='unicode61')"
        )
        self._connection.execute(create)

    def fill(self, root: str) -> None:
        workspace = Workspace.open(root)
        for file in workspace.state().files["pages"]:
            frame = pl.read_parquet(
                workspace.path(file.path), columns=["url", "title", "headings", "text"]
            )
            rows = (
                (url, title, "\n".join(headings), text)
                for url, title, headings, text in frame.iter_rows()
            )
            self._connection.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)
        self._connection.commit()

    def ask(self, query: str) -> list[tuple[str, str]]:
        words = (
            [f'"{query.strip(chr(34))}"']
            if query.startswith('"')
            else [f'"{word}"' for word in query.split()]
        )
        match = " AND ".join(words)
        self._connection.execute(
            "SELECT count(*) FROM pages WHERE pages MATCH ?", (match,)
        ).fetchone()
        best = (
            "SELECT url, snippet(pages, 3, '[', ']', '…', 40) FROM pages WHERE pages MATCH ? "
            "ORDER BY bm25(pages, 0, 3, 1, 1) LIMIT ?"
        )
        return self._connection.execute(best, (match, HITS)).fetchall()


def known_item(searcher: Searcher, samples: list[Sample]) -> dict[str, float]:
    """Mean reciprocal rank of the page itself: by its title, and by six words of a sentence of its
    text.
    """
    generator = random.Random(3)
    by_title, by_text = [], []
    for sample in samples[:300]:
        by_title.append(_reciprocal(searcher, sample.title, sample))
        lines = [line for line in sample.text.split("\n") if len(line) > 60]
        if lines:
            terms = _WORD.findall(generator.choice(lines))
            if len(terms) >= 8:
                by_text.append(_reciprocal(searcher, " ".join(generator.sample(terms, 6)), sample))
    return {"title": sum(by_title) / len(by_title), "text": sum(by_text) / max(1, len(by_text))}


def _reciprocal(searcher: Searcher, query: str, sample: Sample) -> float:
    hits = searcher.search(SearchRequest(query, HITS)).hits
    for place, hit in enumerate(hits, 1):
        if hit.url == sample.url or hit.title == sample.title:  # the manuals hold some pages twice
            return 1 / place
    return 0.0


def analysis_ms(samples: list[Sample]) -> dict[str, float]:
    """CPU milliseconds of `joined` for 10,000 characters of text, by kind of analyzer, in the order
    the pages came.
    """
    spent: dict[str, tuple[float, int]] = {}
    for sample in samples:
        analyzer = analyzer_for(sample.language)
        start = time.process_time()
        analyzer.joined(sample.text)
        seconds, characters = spent.get(analyzer.name, (0.0, 0))
        spent[analyzer.name] = seconds + time.process_time() - start, characters + len(sample.text)
    return {
        name: seconds * 1e7 / max(1, characters) for name, (seconds, characters) in spent.items()
    }


def shares(root: str) -> tuple[int, dict[str, float]]:
    """Bytes of the pages' text (UTF-8), and what each kind of the index's files takes of them:
    `texts` (for snippets), `pos` (positions), `idx` (postings), `term`, `suggestions` and so on.
    """
    workspace = Workspace.open(root)
    text = 0
    for file in workspace.state().files["pages"]:
        text += int(
            pl.read_parquet(workspace.path(file.path), columns=["text"])["text"]
            .str.len_bytes()
            .sum()
        )
    generation = newest(workspace.storage)
    sizes: dict[str, int] = {}
    for path in generation.path.iterdir() if generation is not None else ():
        kind = path.suffix[1:] or path.name.partition("-")[0]
        sizes[kind] = sizes.get(kind, 0) + path.stat().st_size
    return text, {
        kind: size / max(1, text) for kind, size in sorted(sizes.items(), key=lambda item: -item[1])
    }


def _row(
    name: str, indexing_s: float, wall_ms: list[float], cpu_ms: list[float]
) -> tuple[str, ...]:
    figures = (
        indexing_s * 1000,
        quantile(wall_ms, 0.5),
        quantile(wall_ms, 0.95),
        sum(cpu_ms) / len(cpu_ms),
        quantile(cpu_ms, 0.95),
    )
    return (name, *(f"{figure:.2f}" for figure in figures))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=Path, default=SITES)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--results", type=Path, help="append the figures to this file")
    parser.add_argument(
        "--indexing",
        type=int,
        default=0,
        metavar="ROUNDS",
        help="measure only what building the index costs",
    )
    parser.add_argument(
        "--mixed", action="store_true", help="with --indexing: pages in many languages"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        root = f"{folder}/workspace"
        samples: list[Sample] = []
        if options.indexing:
            count = (
                fill_mixed(root)
                if options.mixed
                else fill(root, options.sites, options.pages, samples)
            )
            body = building(root, count, options.indexing)
            print(body)
            if options.results:
                append_results(
                    options.results, "Indexing", "python -m bench.search --indexing", body
                )
            return
        pages = fill(root, options.sites, options.pages, samples)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        with Indexer(root, IndexSettings()) as indexer:
            indexer.update()
            indexing = time.process_time() - start
        searcher = Searcher(root)
        asked = queries(samples, options.queries)
        latencies(lambda query: searcher.search(SearchRequest(query, HITS)), asked[:20])
        ours, ours_cpu = latencies(lambda query: searcher.search(SearchRequest(query, HITS)), asked)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        fts = Fts(Path(folder) / "fts.db")
        start = time.process_time()
        fts.fill(root)
        fts_indexing = time.process_time() - start
        latencies(fts.ask, asked[:20])
        theirs, theirs_cpu = latencies(fts.ask, asked)
        ranks = known_item(searcher, samples)
        rows = [
            _row("Lycosa", indexing / pages, ours, ours_cpu),
            _row("FTS5", fts_indexing / pages, theirs, theirs_cpu),
        ]
        body = table(
            (
                "engine",
                "index CPU ms a page",
                "query p50 ms",
                "p95 ms",
                "CPU mean ms",
                "CPU p95 ms",
            ),
            rows,
        )
        ratio = quantile(ours_cpu, 0.95) / quantile(theirs_cpu, 0.95)
        body += (
            f"\n\n{pages} pages, {len(asked)} queries, {HITS} snippets each; CPU p95 ours / "
            f"FTS5: {ratio:.2f}"
        )
        body += f"; peak memory {peak / 1000:.0f} MB (before indexing {before / 1000:.0f} MB)"
        body += (
            f"; known item, mean reciprocal rank: by title {ranks['title']:.3f}, by six words "
            f"of a sentence {ranks['text']:.3f}"
        )
        text, parts = shares(root)
        body += f"\n\nThe index takes {sum(parts.values()):.3f} of {text / 1e6:.1f} MB of text: "
        body += ", ".join(f"{kind} {share:.3f}" for kind, share in parts.items() if share >= 0.001)
        body += "\n\nAnalysis in Python, CPU ms for 10,000 characters: "
        body += ", ".join(
            f"{name} {cost:.2f}" for name, cost in sorted(analysis_ms(samples).items())
        )
        print(body)
        slow = sorted(zip(ours, asked, strict=True), reverse=True)[:5]
        print(
            "\nslowest:",
            *(f"  {milliseconds:.1f} ms  {query}" for milliseconds, query in slow),
            sep="\n",
        )
        if options.results:
            append_results(options.results, "Search", "python -m bench.search", body)


if __name__ == "__main__":
    main()
