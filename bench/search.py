"""Search and indexing: latency, rate, index size and CPU, compared with FTS5 and tantivy.

    python -m bench.search [--pages N] [--queries N] [--folder DIR]
    python -m bench.search --indexing sites|mixed [--pages N] [--runs N]

The first form generates pages from the documentation sites (`bench.corpora`), indexes them, and
sends queries to `lycosa serve` over HTTP. SQLite's FTS5 answers the same queries in this process:
the ten best by BM25, the count of all, and a snippet each. FTS5 has no stemmer for most languages
and no words for Chinese and Japanese, which makes its work easier.

`--indexing` compares the CPU of indexing with tantivy alone: its English analysis over the same
texts, one field. `mixed`: pages of 4 KB in all languages.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psutil
import tantivy

from bench.corpora import (
    HITS,
    SITES,
    fill,
    fill_generated,
    fill_mixed,
    queries,
    questions,
    stored_texts,
)
from bench.harness import (
    alternate,
    arguments,
    comparison,
    cpu_s,
    lycosa,
    quantile,
    report,
    server_process,
    table,
    timed,
    tree_cpu_s,
)
from lycosa.config.settings import IndexSettings
from lycosa.index.generation import newest
from lycosa.index.indexer import Indexer
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import NativeAnalyzer, analyzer_for

RATE_S = 10.0
MODES: dict[str, dict[str, str]] = {
    "one to six words": {},
    "with four facets": {"facets": "language,host,type,date"},
    "12 words, no feedback": {"feedback": "off"},
    "12 words, feedback": {"feedback": "on"},
}


def latencies(
    search: Callable[[str], object], requests: Sequence[str]
) -> tuple[list[float], list[float]]:
    """Return the wall and CPU milliseconds of each query."""
    times = [timed(functools.partial(search, query))[1:] for query in requests]
    return [wall for wall, _ in times], [cpu for _, cpu in times]


@contextmanager
def serving(root: str, processes: int = 1) -> Iterator[tuple[str, psutil.Process]]:
    """Run `lycosa serve`; yield its address and its process."""
    command = lycosa(root, "serve", "--port", 0, "--processes", processes)
    with server_process(command) as (process, line):
        address = next(word for word in line.split() if word.startswith("http://"))
        yield address, psutil.Process(process.pid)


class Client:
    """A client of the search API with one connection."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc)

    def search(self, query: str, **parameters: str) -> dict[str, Any]:
        path = "/api/v1/search?" + urlencode({"q": query, "n": HITS} | parameters)
        self._connection.request("GET", path)
        response: dict[str, Any] = json.loads(self._connection.getresponse().read())
        return response


def rate(
    address: str, server: psutil.Process, requests: list[str], clients: int, seconds: float
) -> tuple[float, float]:
    """Return responses per second for clients without pauses, and the server's CPU ms for each."""
    counts = [0] * clients
    end = time.monotonic() + seconds

    def run(number: int) -> None:
        client, place = Client(address), number * 37
        while time.monotonic() < end:
            client.search(requests[place % len(requests)])
            counts[number] += 1
            place += 1

    cpu = tree_cpu_s(server.pid)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds, (tree_cpu_s(server.pid) - cpu) * 1000 / sum(counts)


class Fts:
    """SQLite's full text index over the same pages."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS pages USING fts5(url UNINDEXED, title, body, "
            "tokenize='unicode61')"
        )

    def fill(self, root: str) -> None:
        self._connection.executemany("INSERT INTO pages VALUES (?, ?, ?)", stored_texts(root))
        self._connection.commit()

    def search(self, query: str) -> list[tuple[str, str]]:
        words = [query.strip('"')] if query.startswith('"') else query.split()
        match = " AND ".join(f'"{word}"' for word in words)
        count = "SELECT count(*) FROM pages WHERE pages MATCH ?"
        self._connection.execute(count, (match,)).fetchone()
        best = (
            "SELECT url, snippet(pages, 2, '[', ']', '…', 40) FROM pages WHERE pages MATCH ? "
            "ORDER BY bm25(pages, 0, 3, 1) LIMIT ?"
        )
        return self._connection.execute(best, (match, HITS)).fetchall()


def build_index(root: str, *, suggestions: bool = True) -> None:
    """Index the workspace from scratch."""
    shutil.rmtree(Path(root, "index"), ignore_errors=True)
    with Indexer(root, IndexSettings()) as indexer:
        indexer.update(suggestions=suggestions, last=True)


def build_tantivy(root: str) -> None:
    """Index the texts of the workspace by tantivy alone: one field, one thread."""
    english = analyzer_for("en")
    assert isinstance(english, NativeAnalyzer)
    schema = tantivy.SchemaBuilder().add_text_field("text", tokenizer_name=english.name).build()
    settings = IndexSettings()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        index = tantivy.Index(schema, path=folder)
        index.register_tokenizer(english.name, english.tokenizer)
        writer = index.writer(settings.heap, settings.threads)
        for _, _, text in stored_texts(root):
            document = tantivy.Document()
            document.add_text("text", text)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()


def compare_indexing(root: str, pages: int, runs: int) -> tuple[str, dict[str, list[float]]]:
    """Return the CPU per page of indexing, in alternating rounds."""
    builds: dict[str, Callable[[], None]] = {
        "Lycosa": lambda: build_index(root, suggestions=False),
        "with suggestions": lambda: build_index(root),
        "tantivy": lambda: build_tantivy(root),
    }
    contenders = {
        name: functools.partial(lambda build: cpu_s(build) * 1000 / pages, build)
        for name, build in builds.items()
    }
    alternate(contenders, 1)  # warms the caches
    readings = alternate(contenders, runs)
    return comparison(readings, "tantivy", f"CPU ms per page, {pages} pages"), readings


def index_shares(root: str) -> dict[str, float]:
    """Return the bytes of each kind of index file as a share of the bytes of the texts."""
    size = sum(len(text.encode()) for _, _, text in stored_texts(root))
    generation = newest(Workspace.open(root).storage)
    assert generation is not None
    sizes: dict[str, float] = {}
    for path in generation.path.iterdir():
        kind = path.suffix[1:] or path.name.partition("-")[0]
        sizes[kind] = sizes.get(kind, 0) + path.stat().st_size / size
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def compare_search(folder: Path, requests: list[str]) -> tuple[str, dict[str, float]]:
    """Return the latencies of the API and of FTS5, and the rate of the API."""
    root = str(folder / "workspace")
    sentences = questions(root, len(requests) // 2)
    figures: dict[str, float] = {}
    rows = []

    def add(name: str, milliseconds: list[float]) -> None:
        pair = [quantile(milliseconds, share) for share in (0.5, 0.95)]
        figures.update({f"{name} p50": pair[0], f"{name} p95": pair[1]})
        rows.append((name, *(f"{each:.1f}" for each in pair)))

    with serving(root) as (address, server):
        client = Client(address)
        latencies(client.search, requests[:100])
        for name, parameters in MODES.items():
            texts = sentences if "12 words" in name else requests
            if texts:
                add(name, latencies(functools.partial(client.search, **parameters), texts)[0])
        figures["rate, one process"], figures["CPU"] = rate(address, server, requests, 4, RATE_S)
    cores = os.cpu_count() or 1
    with serving(root, cores) as (address, server):
        rate(address, server, requests, 8, RATE_S / 2)  # every process opens its files
        figures[f"rate, {cores} processes"], _ = rate(address, server, requests, 8, RATE_S)
    fts = Fts(folder / "fts.db")
    latencies(fts.search, requests[:50])
    add("FTS5, one to six words", latencies(fts.search, requests)[0])
    ratio = figures["one to six words p50"] / figures["FTS5, one to six words p50"]
    rates = [
        f"{name}: {value:.0f} queries/s" for name, value in figures.items() if name[:4] == "rate"
    ]
    body = table(("queries", "p50 ms", "p95 ms"), rows)
    rates.append(f"CPU per query {figures['CPU']:.1f} ms")
    return f"{body}\n\nMedian to FTS5: {ratio:.2f}; {'; '.join(rates)}", figures


def generate(folder: Path, pages: int, count: int) -> dict[str, Any]:
    """Generate pages and both indexes; return the queries and the CPU per page."""
    root = str(folder / "workspace")
    samples = fill_generated(root, SITES, pages)
    ours = cpu_s(lambda: build_index(root)) * 1000 / pages
    fts = cpu_s(lambda: Fts(folder / "fts.db").fill(root)) * 1000 / pages
    return {"pages": pages, "queries": queries(samples, count), "index_ms": ours, "fts_ms": fts}


def main() -> None:
    parser = arguments(
        __doc__,
        pages=100_000,
        queries=400,
        folder=(Path, "where to keep and reuse pages and indexes"),
    )
    parser.add_argument("--indexing", choices=("sites", "mixed"), help="CPU of indexing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        if options.indexing:
            root = f"{temporary}/w"
            is_mixed = options.indexing == "mixed"
            pages = fill_mixed(root) if is_mixed else fill(root, SITES, options.pages, [])
            report(options, "Indexing", *compare_indexing(root, pages, options.runs))
            return
        state = folder / "generated.json"
        if not state.exists():
            state.write_text(json.dumps(generate(folder, options.pages, options.queries)))
        generated = json.loads(state.read_text())
        rounds = [compare_search(folder, generated["queries"]) for _ in range(options.runs)]
        shares = index_shares(str(folder / "workspace"))
        median = {
            name: statistics.median(figures[name] for _, figures in rounds) for name in rounds[0][1]
        }
        body = "\n\n".join(text for text, _ in rounds)
        body += f"\n\n{generated['pages']} pages. Indexing, CPU ms per page: {generated['index_ms']:.2f}, "
        body += f"FTS5 {generated['fts_ms']:.2f}. Index to text: {sum(shares.values()):.3f} ("
        body += ", ".join(f"{name} {share:.3f}" for name, share in shares.items()) + ")"
        report(
            options, "Search", body, median | {"index_ms": generated["index_ms"], "shares": shares}
        )


if __name__ == "__main__":
    main()
