"""Search over 100,000 pages: the API's latency and rate, the index's size and cost, beside SQLite's
FTS5 and Xapian.

    python -m bench.search_scale [--pages N] [--queries N] [--folder DIR] [--rivals fts5,xapian]
    [--results FILE]

Pages are made from those of the documentation sites (`make_sites.sh`): each takes runs of blocks
from one to three real pages of its language, and lies on one of 400 hosts, so that words are as
frequent as in real text and no two pages are the same. All engines get the same texts and the same
queries, drawn from these pages in every language (`bench.search.queries`), with the same work: the
count of all matches, the ten best by BM25, a snippet each. `lycosa serve` answers over HTTP from a
process of its own; FTS5 and Xapian are called in this one, without HTTP. Xapian (apt:
python3-xapian) gets English stemming and its own words; it has none for Chinese and Japanese, as
FTS5.
"""

from __future__ import annotations

import argparse
import functools
import http.client
import importlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import polars as pl

from bench.harness import append_results, quantile, table
from bench.search import HITS, SITES, Fts, Sample, fill, latencies, queries
from lycosa.config.settings import IndexSettings
from lycosa.core.records import Link, Page, Visit
from lycosa.index.indexer import Indexer
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.digest import text_digest
from lycosa.url.keys import Identifier

PAGES, HOSTS = 100_000, 400
WORDS = 12  # of a question
COMMIT_PAGES = 5_000
FIRST_AT = 1_700_000_000_000
LINKS = 20
_XAPIAN = "/usr/lib/python3/dist-packages"


def made_pages(samples: list[Sample], count: int) -> Iterator[tuple[str, Page]]:
    """`count` pages and their addresses, the same at every call."""
    generator = random.Random(17)
    by_language: dict[str, list[list[str]]] = {}
    titles: dict[str, list[str]] = {}
    for sample in samples:
        blocks = [block for block in sample.text.split("\n") if block]
        if len(blocks) > 5:
            by_language.setdefault(sample.language, []).append(blocks)
            titles.setdefault(sample.language, []).append(sample.title)
    languages = list(by_language)
    weights = [len(by_language[language]) for language in languages]
    urls: list[str] = []
    for number in range(count):
        (language,) = generator.choices(languages, weights)
        blocks = []
        for _ in range(generator.randint(1, 3)):
            source = generator.choice(by_language[language])
            start = generator.randrange(len(source))
            blocks += source[start : start + generator.randint(4, 40)]
        headings = [block for block in blocks if len(block) < 60][:10]
        text = "\n".join(blocks)
        url = f"http://host{number % HOSTS}.test/{language}/{generator.randrange(50)}/page{number}.html"
        links = [
            Link(generator.choice(urls), generator.choice(headings or [""]), "", "a", place)
            for place in range(LINKS if urls else 0)
        ]
        urls.append(url)
        title = f"{generator.choice(titles[language])} {number}"
        around = "Home Contents Index Next Previous"
        whole = f"{around}\n{text}"
        yield (
            url,
            Page(
                title=title,
                main_text=text,
                text=whole,
                headings=headings,
                language=language,
                text_digest=text_digest(whole),
                links=links,
            ),
        )


def prepare(root: str, sites: Path, count: int) -> tuple[list[Sample], int]:
    """Commit the made pages to a new workspace. Returns what queries are drawn from, and the bytes
    of all text.
    """
    real: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        fill(f"{folder}/w", sites, min(count, 10_000), [], None, every=real)
    workspace = Workspace.create(root)
    identifier = Identifier(workspace.domains, workspace.partitions)
    claim, buffers, size = workspace.claim("bench"), Buffers(), 0
    samples: list[Sample] = []
    generator = random.Random(5)
    for number, (url, page) in enumerate(made_pages(real, count)):
        _, host, host_key, url_key, partition = identifier.identify(url)
        visit = Visit(
            url,
            host,
            partition,
            host_key,
            url_key,
            "page",
            "default",
            0,
            FIRST_AT + number * 1000,
            1,
        )
        buffers.add_page(visit, page)
        buffers.links.add_links(visit, page.links)
        size += len(page.text.encode())
        if generator.random() < 0.01:
            samples.append(Sample(url, page.title, page.main_text, page.language))
        if buffers.pages.rows >= COMMIT_PAGES:
            claim.commit(claim.next_folder(), buffers.mapping())
            buffers = Buffers()
    claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    return samples, size


class Served:
    """`lycosa serve` in processes of its own."""

    def __init__(self, root: str, processes: int = 1) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "lycosa.cli.main",
            "serve",
            "-w",
            root,
            "--port",
            str(self.port),
            "--processes",
            str(processes),
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while True:
            try:
                self.ask(http.client.HTTPConnection("127.0.0.1", self.port), "anything")
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def ask(
        self, connection: http.client.HTTPConnection, query: str, **more: str
    ) -> dict[str, Any]:
        connection.request("GET", "/api/v1/search?" + urlencode({"q": query, "n": HITS} | more))
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer

    def rate(self, asked: list[str], clients: int, seconds: float) -> float:
        """Answers a second to so many clients that ask without a pause."""
        counts = [0] * clients
        end = time.monotonic() + seconds

        def run(number: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port)
            place = number * 37
            while time.monotonic() < end:
                self.ask(connection, asked[place % len(asked)])
                counts[number] += 1
                place += 1

        threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.monotonic() - start)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


class Xapian:
    """Xapian over the same pages."""

    def __init__(self, path: str) -> None:
        sys.path.append(_XAPIAN)
        self._xapian: ModuleType = importlib.import_module("xapian")
        self._path = path

    def fill(self, root: str) -> None:
        xapian = self._xapian
        database = xapian.WritableDatabase(self._path, xapian.DB_CREATE_OR_OPEN)
        terms = xapian.TermGenerator()
        terms.set_stemmer(xapian.Stem("english"))
        for url, title, text in _texts(root):
            document = xapian.Document()
            terms.set_document(document)
            terms.index_text(title, 3)
            terms.increase_termpos()
            terms.index_text(text)
            document.set_data(f"{url}\n{text}")
            database.add_document(document)
        database.commit()
        database.close()

    def asker(self) -> Callable[[str], object]:
        xapian = self._xapian
        database = xapian.Database(self._path)
        parser = xapian.QueryParser()
        parser.set_stemmer(xapian.Stem("english"))
        parser.set_stemming_strategy(xapian.QueryParser.STEM_SOME)
        parser.set_default_op(xapian.Query.OP_AND)
        parser.set_database(database)

        def ask(query: str) -> object:
            enquire = xapian.Enquire(database)
            enquire.set_query(parser.parse_query(query, xapian.QueryParser.FLAG_PHRASE))
            found = enquire.get_mset(0, HITS, database.get_doccount())
            return [found.snippet(match.document.get_data().decode(), 240) for match in found]

        return ask


def _texts(root: str) -> Iterator[tuple[str, str, str]]:
    workspace = Workspace.open(root)
    for file in workspace.state().files["pages"]:
        yield from pl.read_parquet(
            workspace.path(file.path), columns=["url", "title", "text"]
        ).iter_rows()


@dataclass(slots=True)
class Made:
    """What lies in a folder: queries, bytes of text; CPU seconds and bytes of each engine's
    index.
    """

    pages: int
    text_bytes: int
    queries: list[str]
    seconds: dict[str, float]
    index_bytes: dict[str, int]


def make(folder: Path, sites: Path, pages: int, count: int, rivals: str) -> Made:
    """Make the pages and all indexes."""
    root = str(folder / "workspace")
    samples, size = prepare(root, sites, pages)
    print(f"{pages} pages, {size / 1e6:.0f} MB of text", file=sys.stderr, flush=True)
    made = Made(pages, size, queries(samples, count), {}, {})

    def timed(name: str, work: Callable[[], object], place: Callable[[], int]) -> None:
        start = time.process_time()
        work()
        made.seconds[name] = time.process_time() - start
        made.index_bytes[name] = place()
        print(
            f"{name}: {made.seconds[name]:.1f} s, {made.index_bytes[name] / size:.3f} of the text",
            file=sys.stderr,
            flush=True,
        )

    def ours() -> None:
        with Indexer(root, IndexSettings()) as indexer:
            indexer.update()

    timed(
        "Lycosa",
        ours,
        lambda: _bytes(max(path for path in Path(root, "index").iterdir() if path.name.isdigit())),
    )
    if "fts5" in rivals:
        timed(
            "FTS5",
            lambda: Fts(folder / "fts.db").fill(root),
            lambda: (folder / "fts.db").stat().st_size,
        )
    if "xapian" in rivals:
        timed(
            "Xapian",
            lambda: Xapian(str(folder / "xapian")).fill(root),
            lambda: _bytes(folder / "xapian"),
        )
    return made


def questions(root: str, count: int) -> list[str]:
    """Runs of words from texts all over the collection, as many as a question has."""
    generator = random.Random(5)
    runs = []
    for number, (_, _, text) in enumerate(_texts(root)):
        words = text.split()
        if number % 97 == 0 and len(words) > 10 * WORDS:
            start = generator.randrange(len(words) - WORDS)
            runs.append(" ".join(words[start : start + WORDS]))
    return generator.sample(runs, min(count, len(runs)))


def measure(folder: Path, made: Made) -> str:
    """Ask all that are there."""
    asked = made.queries
    found: dict[str, tuple[list[float], list[float]]] = {}
    server = Served(str(folder / "workspace"))
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        latencies(lambda query: server.ask(connection, query), asked[:100])
        took: list[float] = []
        wall, _ = latencies(
            lambda query: took.append(server.ask(connection, query)["took_ms"]), asked
        )
        found["Lycosa"] = wall, took
        faceted, _ = latencies(
            lambda query: server.ask(connection, query, facets="language,host,type,date"),
            asked[:200],
        )
        sentences = questions(str(folder / "workspace"), 200)
        asking = {
            mode: latencies(functools.partial(server.ask, connection, feedback=mode), sentences)[0]
            for mode in ("off", "on")
        }
        rate = server.rate(asked, clients=4, seconds=10)
    finally:
        server.close()
    cores = os.cpu_count() or 1
    server = Served(str(folder / "workspace"), processes=cores)
    try:
        server.rate(asked, clients=8, seconds=5)  # each of the processes opens what it needs
        together = server.rate(asked, clients=8, seconds=10)
    finally:
        server.close()
    if "FTS5" in made.seconds:
        fts = Fts(folder / "fts.db")
        latencies(fts.ask, asked[:50])
        found["FTS5"] = latencies(fts.ask, asked)
    if "Xapian" in made.seconds:
        ask = Xapian(str(folder / "xapian")).asker()
        latencies(ask, asked[:50])
        found["Xapian"] = latencies(ask, asked)
    rows = []
    for name, (wall, inside) in found.items():
        costs = made.seconds[name] * 1000 / made.pages, made.index_bytes[name] / made.text_bytes
        figures = (
            *costs,
            quantile(wall, 0.5),
            quantile(wall, 0.95),
            quantile(inside, 0.5),
            quantile(inside, 0.95),
        )
        rows.append((name, *(f"{figure:.2f}" for figure in figures)))
    body = table(
        (
            "engine",
            "index CPU ms a page",
            "index / text",
            "query p50 ms",
            "p95 ms",
            "inside p50 ms",
            "p95 ms",
        ),
        rows,
    )
    body += (
        f"\n\n{made.pages} pages, {made.text_bytes / 1e6:.0f} MB of text, {len(asked)} "
        f"queries, {HITS} snippets each. "
    )
    body += (
        f"On {cores} cores, the clients' share included: {rate:.0f} queries/s to 4 clients by "
        "one process, "
    )
    body += f"{together:.0f} to 8 by {cores}; "
    body += (
        f"with four facets p50 {quantile(faceted, 0.5):.1f}, p95 {quantile(faceted, 0.95):.1f} ms. "
    )
    for mode, times in asking.items():
        body += (
            f"Questions of {WORDS} words, feedback {mode}: p50 {quantile(times, 0.5):.1f}, "
            f"p95 {quantile(times, 0.95):.1f} ms. "
        )
    body += "Inside: of Lycosa without HTTP, of the others CPU time"
    slow = sorted(zip(found["Lycosa"][0], asked, strict=True), reverse=True)[:5]
    print(
        "slowest:",
        *(f"  {milliseconds:.1f} ms  {query}" for milliseconds, query in slow),
        sep="\n",
        file=sys.stderr,
    )
    return body


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=Path, default=SITES)
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument(
        "--folder",
        type=Path,
        help="directory of the indexes; existing indexes are reused",
    )
    parser.add_argument("--rivals", default="fts5,xapian")
    parser.add_argument("--make-only", action="store_true")
    parser.add_argument("--results", type=Path, help="append the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        note = folder / "made.json"
        if note.exists():
            made = Made(**json.loads(note.read_text()))
        else:
            made = make(folder, options.sites, options.pages, options.queries, options.rivals)
            note.write_text(json.dumps(asdict(made)))
        if options.make_only:
            return
        body = measure(folder, made)
        print(body)
        if options.results:
            append_results(
                options.results, "Search over 100,000 pages", "python -m bench.search_scale", body
            )


def _bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


if __name__ == "__main__":
    main()
