"""Pages, texts, queries and baselines that several benchmarks share.

Real pages are the HTML files that `tests.servers.sites` creates. Large corpora are generated from
their blocks, so that words are as frequent as in real text and no two pages are equal. Queries are
drawn from the pages, in all languages of the sites.
"""

from __future__ import annotations

import csv
import html
import random
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import polars as pl
import tantivy
from tests.servers.sites import CACHE, SitesMissing, create_sites

from bench.harness import DATA
from lycosa.config.settings import IndexSettings
from lycosa.core.records import Link, Page, Visit
from lycosa.index.indexer import Indexer
from lycosa.page.parse import parse_page
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.digest import text_digest
from lycosa.text.identify import LANGUAGES
from lycosa.url.keys import Identifier
from lycosa.url.normalise import normalise

SITES = CACHE
COMMIT_PAGES = 2_000
MIXED_PAGES = 30  # per language
HITS = 10
DOCUMENT_BYTES = 4_000
HOSTS, LINKS = 400, 20  # of generated pages
FIRST_AT = 1_700_000_000_000  # fetch time of the first page, ms since 1970
_CJK = re.compile("[\u3041-\u30ff\u4e00-\u9fff]{4,}")
_WORD = re.compile(r"[^\W\d_]{3,}")


@dataclass(slots=True)
class Sample:
    """A page from which queries are drawn."""

    url: str
    title: str
    text: str
    language: str


class Sentence(NamedTuple):
    """A sentence of SIB-200; translations have the same number."""

    number: int
    topic: str
    text: str


def sib200(name: str, data: Path = DATA) -> list[Sentence]:
    """Read the sentences of SIB-200 in one language."""
    with (data / "sib200" / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]  # texts with quotation marks are quoted
    return [Sentence(int(number), topic, text.strip()) for number, topic, text in rows]


def documents(language: str, limit: int) -> tuple[list[str], int]:
    """Return documents of about 4 KB: sentences of SIB-200, then the UDHR.

    They repeat until there are `limit` bytes; the second result is the number of documents before
    they repeat.
    """
    root = ElementTree.parse(DATA / "udhr27" / f"{language}.xml").getroot()
    sentences = [each.text for each in sib200(language)]
    sentences += [" ".join(text.split()) for text in root.itertext() if text.strip()]
    once: list[str] = []
    part: list[str] = []
    length = 0
    for sentence in sentences:
        part.append(sentence)
        length += len(sentence.encode())
        if length >= DOCUMENT_BYTES:
            once.append("\n".join(part))
            part, length = [], 0
    return once * max(1, -(-limit // sum(len(text.encode()) for text in once))), len(once)


def html_files(sites: Path) -> Iterator[tuple[str, Path]]:
    """Yield (URL, file) of every page of the sites, one host per site. Create `SITES` if needed."""
    if sites == SITES:
        try:
            create_sites()
        except SitesMissing as absent:
            raise SystemExit(str(absent)) from None
    for site in sorted(path for path in sites.iterdir() if path.is_dir()):
        for file in sorted(site.rglob("*.html*")):
            if file.is_file():
                path = file.relative_to(site).as_posix()
                yield normalise(f"http://{site.name}.test/{path}"), file


def commit_pages(root: str, pages: Iterable[tuple[str, Page]]) -> int:
    """Commit pages to a new workspace; return their number."""
    workspace = Workspace.create(root)
    identifier = Identifier(workspace.domains, workspace.partitions)
    claim, buffers, count = workspace.claim("bench"), Buffers(), 0
    for url, page in pages:
        _, host, host_key, url_key, partition = identifier.identify(url)
        at_ms = FIRST_AT + count
        visit = Visit(url, host, partition, host_key, url_key, "page", "default", 0, at_ms, 1)
        buffers.add_page(visit, page)
        buffers.links.add_links(visit, page.links)
        count += 1
        if buffers.pages.rows >= COMMIT_PAGES:
            claim.commit(claim.next_folder(), buffers.mapping())
            buffers = Buffers()
    claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    return count


def index_workspace(root: str, shards: int = 1) -> None:
    """Index the pages of a workspace."""
    with Indexer(root, IndexSettings(shards=shards)) as indexer:
        indexer.update()


def tantivy_baseline(
    tokenizer: tantivy.TextAnalyzer,
    weights: dict[str, float],
    documents: Iterable[tuple[str, ...]],
) -> Callable[[str, int], list[str]]:
    """Return a search by tantivy alone, from a query and a count to keys of documents.

    Args:
        weights: of the text fields, by name.
        documents: the key, then the text of each field.
    """
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("key", stored=True, tokenizer_name="raw")
    for name in weights:
        builder.add_text_field(name, tokenizer_name="baseline")
    index = tantivy.Index(builder.build())
    index.register_tokenizer("baseline", tokenizer)
    writer = index.writer(heap_size=50_000_000, num_threads=1)
    for values in documents:
        writer.add_document(tantivy.Document(**dict(zip(("key", *weights), values, strict=True))))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str, count: int) -> list[str]:
        parsed = index.parse_query(query, list(weights), field_boosts=weights)
        hits = searcher.search(parsed, count).hits
        return [str(searcher.doc(address).get_first("key")) for _, address in hits]

    return search


def fill(
    root: str,
    sites: Path,
    max_pages: int,
    samples: list[Sample],
    move: Callable[[str], str] | None = None,
    share: float = 0.1,
) -> int:
    """Parse the pages of the sites and commit them to a new workspace; return their number.

    `move` maps each URL to another one; `samples` receives a random `share` of the pages.
    """
    generator = random.Random(5)

    def pages() -> Iterator[tuple[str, Page]]:
        for number, (url, file) in enumerate(html_files(sites)):
            if number == max_pages:
                return
            url = move(url) if move is not None else url
            page = parse_page(file.read_bytes(), url=url, content_type="text/html")
            if generator.random() < share and len(page.main_text) > 200:
                samples.append(Sample(url, page.title, page.main_text, page.language))
            yield url, page

    return commit_pages(root, pages())


def fill_mixed(root: str) -> int:
    """Commit pages of 4 KB in every language to a new workspace; return their number."""
    texts = [
        documents(language, 2 * MIXED_PAGES * DOCUMENT_BYTES)[0][:MIXED_PAGES]
        for language in LANGUAGES
    ]

    def pages() -> Iterator[tuple[str, Page]]:
        for number, parallel in enumerate(zip(*texts, strict=True)):
            for language, text in zip(LANGUAGES, parallel, strict=True):
                url = normalise(f"http://{language}.test/{number}")
                body = "".join(f"<p>{html.escape(line)}</p>" for line in text.split("\n"))
                head = f"<meta charset=utf-8><title>{html.escape(text[:40])}</title>"
                source = f"<html lang={language}>{head}<main>{body}</main>".encode()
                yield url, parse_page(source, url=url, content_type="text/html")

    return commit_pages(root, pages())


def generated_pages(samples: list[Sample], count: int) -> Iterator[tuple[str, Page]]:
    """Yield `count` pages generated from blocks of the samples; the same pages at every call."""
    generator = random.Random(17)
    by_language: dict[str, list[tuple[str, list[str]]]] = {}
    for sample in samples:
        blocks = [block for block in sample.text.split("\n") if block]
        if len(blocks) > 5:
            by_language.setdefault(sample.language, []).append((sample.title, blocks))
    languages = list(by_language)
    weights = [len(by_language[language]) for language in languages]
    urls: list[str] = []
    for number in range(count):
        (language,) = generator.choices(languages, weights)
        blocks = []
        for _ in range(generator.randint(1, 3)):
            _, source = generator.choice(by_language[language])
            start = generator.randrange(len(source))
            blocks += source[start : start + generator.randint(4, 40)]
        headings = [block for block in blocks if len(block) < 60][:10]
        folder = f"{language}/{generator.randrange(50)}"
        url = f"http://host{number % HOSTS}.test/{folder}/page{number}.html"
        links = [
            Link(generator.choice(urls), generator.choice(headings or [""]), "", "a", place)
            for place in range(LINKS if urls else 0)
        ]
        urls.append(url)
        title, _ = generator.choice(by_language[language])
        text = "\n".join(blocks)
        page_text = f"Home Contents Index Next Previous\n{text}"
        yield (
            url,
            Page(
                title=f"{title} {number}",
                main_text=text,
                text=page_text,
                headings=headings,
                language=language,
                text_digest=text_digest(page_text),
                links=links,
            ),
        )


def fill_generated(root: str, sites: Path, count: int) -> list[Sample]:
    """Commit `count` generated pages to a new workspace; return samples of them."""
    real: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        fill(f"{folder}/w", sites, min(count, 10_000), real, share=1.0)
    samples: list[Sample] = []
    generator = random.Random(5)

    def pages() -> Iterator[tuple[str, Page]]:
        for url, page in generated_pages(real, count):
            if generator.random() < max(0.01, 100 / count):
                samples.append(Sample(url, page.title, page.main_text, page.language))
            yield url, page

    commit_pages(root, pages())
    return samples


def stored_texts(root: str) -> Iterator[tuple[str, str, str]]:
    """Yield (URL, title, text) of the stored pages."""
    workspace = Workspace.open(root)
    for file in workspace.state().files["pages"]:
        path = workspace.path(file.path)
        yield from pl.read_parquet(path, columns=["url", "title", "text"]).iter_rows()


def queries(samples: list[Sample], count: int) -> list[str]:
    """Return one to four words or a phrase of a page, languages in turn.

    Chinese and Japanese queries have two to six characters.
    """
    generator = random.Random(11)
    by_language: dict[str, list[Sample]] = {}
    for sample in samples:
        by_language.setdefault(sample.language, []).append(sample)
    languages = sorted(by_language)
    result: list[str] = []
    while len(result) < count:
        sample = generator.choice(by_language[languages[len(result) % len(languages)]])
        if sample.language in ("zh", "ja"):
            runs = _CJK.findall(sample.text)
            if runs:
                run = generator.choice(runs)
                length = generator.randint(2, 6)
                start = generator.randrange(max(1, len(run) - length))
                result.append(run[start : start + length])
            continue
        words = list(_WORD.finditer(sample.text))
        if len(words) < 8:
            continue
        number = generator.randint(1, 4)
        place = generator.randrange(len(words) - number)
        if generator.random() < 0.25 and number > 1:
            phrase = sample.text[words[place].start() : words[place + number - 1].end()]
            phrase = phrase.replace("\n", " ").replace('"', "")
            result.append(f'"{phrase}"')
        else:
            places = sorted(generator.sample(range(len(words)), number))
            result.append(" ".join(words[index][0] for index in places))
    return result


def questions(root: str, count: int, words: int = 12) -> list[str]:
    """Return runs of `words` words from texts all over the collection."""
    generator = random.Random(5)
    runs = []
    for number, (_, _, text) in enumerate(stored_texts(root)):
        terms = text.split()
        if number % 97 == 0 and len(terms) > 10 * words:
            start = generator.randrange(len(terms) - words)
            runs.append(" ".join(terms[start : start + words]))
    return generator.sample(runs, min(count, len(runs)))
