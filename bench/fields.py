"""Items of archived pages: `lycosa reparse --fields` compared with Scrapy's selectors.

    python -m bench.fields [--pages N] [--runs N] [--only NAME,…]

Pages of the documentation sites (`bench.corpora`), repeated up to N, are written to the archive of
a workspace. Each contender then reads all of them with the same eight selectors, in a process of
its own. CPU seconds include its start.

lycosa      the command of a user: read the tables and the archive, extract, check and compare the
            values, commit rows of `items`
parsel      Parsel on the text of each page, as Scrapy calls it, but with our own reader of the
            archive and our encoding detection; values are written as JSON Lines, unchecked
scrapy      the same with `HtmlResponse.css`, as in a spider: Scrapy detects the encoding

Goal: three times the pages per CPU-second of Parsel. The values of both must be equal; the first
1,000 pages are compared.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin

from bench.corpora import FIRST_AT, SITES, html_files
from bench.harness import alternate, arguments, comparison, lycosa, measure, median_ratio, report
from lycosa.archive.warc.reader import read_response
from lycosa.config.reading import parse_config
from lycosa.core.records import Exchange, Page, Visit
from lycosa.crawl.state.batch import Batch
from lycosa.fields.extraction import FieldExtractor
from lycosa.http.decode import decode_body
from lycosa.page.encoding import decode
from lycosa.page.parse import parse_items
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from lycosa.url.keys import Identifier

CONTENDERS = ("lycosa", "parsel", "scrapy")
_COMMIT_PAGES = 2_000
_COMPARED = 1_000  # pages
_TYPE = "text/html"
T = TypeVar("T")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
SETTINGS = """
[[collection]]
name = "default"

[[collection.items]]
name = "run1"

[collection.items.fields]
title = "h1"
lead = "p"
headings = { css = "h2", list = true }
generator = { css = "meta[name=generator]", attribute = "content" }
language = { css = "html", attribute = "lang" }
next = { css = "link[rel=next], a[rel=next]", type = "url" }
first_link = { css = "a[href]", type = "url" }
code = { css = "pre", list = true }
"""


def fill(root: str, pages: int) -> int:
    """Archive pages of the sites under different URLs; return their size in bytes."""
    workspace = Workspace.create(root)
    identifier = Identifier(workspace.domains, workspace.partitions)
    claim = workspace.claim("bench", settings={"default": {}})
    size = 0
    files = islice(cycle(html_files(SITES)), pages)
    for numbered in batched(enumerate(files), _COMMIT_PAGES):
        batch = Batch(claim, {})
        for number, (url, file) in numbered:
            body = file.read_bytes()
            size += len(body)
            address = url.replace(".test/", f".test/copy{number}/", 1)
            _, host, host_key, url_key, partition = identifier.identify(address)
            place = (address, host, partition, host_key, url_key)
            at_ms = FIRST_AT + number
            visit = Visit(*place, "page", "default", 0, at_ms, 1, http_status=200)
            exchange = Exchange(
                address, "page", at_ms, 1, response_head=_HEAD, body=body, status=200
            )
            batch.archive(exchange, visit)
            batch.add_visit(visit)
            batch.add_page(visit, Page(text_digest=number), "", {})
        batch.cut({})
        batch.commit()
    claim.release()
    return size


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` items; `itertools.batched` needs Python 3.12."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def archived(root: str) -> Iterator[tuple[str, bytes]]:
    """Yield (URL, body) of all archived pages in the order of the archive."""
    workspace = Workspace.open(root)
    rows = (
        LiveTables(workspace)
        .scan("visits")
        .select("url", "warc_file", "warc_offset", "warc_length")
        .sort("warc_file", "warc_offset")
        .collect()
    )
    for url, path, offset, length in rows.iter_rows():
        response = read_response(workspace.path(path), offset, length)
        exchange = Exchange(
            url, "page", 0, 0, response_head=response.head, body=response.body, status=200
        )
        yield url, decode_body(exchange, 1 << 26).payload


def parsel_values(url: str, body: bytes) -> dict[str, Any]:
    from parsel import Selector

    return _selected(Selector(text=decode(body, _TYPE).data.decode(errors="replace")), url)


def scrapy_values(url: str, body: bytes) -> dict[str, Any]:
    from scrapy.http import HtmlResponse

    return _selected(HtmlResponse(url, body=body, headers={"Content-Type": _TYPE}), url)


def _selected(page: Any, url: str) -> dict[str, Any]:
    """Return the values of `SETTINGS` by Parsel, without checks."""

    def link(css: str) -> str | None:
        href = page.css(css).get()
        return None if href is None else urljoin(url, href)

    return {
        "title": page.css("h1").xpath("normalize-space()").get(),
        "lead": page.css("p").xpath("normalize-space()").get(),
        "headings": page.css("h2").xpath("normalize-space()").getall(),
        "generator": page.css("meta[name=generator]::attr(content)").get(),
        "language": page.css("html::attr(lang)").get(),
        "next": link("link[rel=next]::attr(href), a[rel=next]::attr(href)"),
        "first_link": link("a[href]::attr(href)"),
        "code": page.css("pre").xpath("normalize-space()").getall(),
    }


def lycosa_values(url: str, body: bytes, extractor: FieldExtractor) -> dict[str, Any]:
    [item] = parse_items(body, partial(extractor.read, ["default"]), url=url, content_type=_TYPE)
    values: dict[str, Any] = json.loads(item.values)
    return values


def contend(name: str, root: str) -> None:
    """Read all pages by a contender; write the values as JSON Lines."""
    values = {"parsel": parsel_values, "scrapy": scrapy_values}[name]
    with open(f"{root}/items.jsonl", "w", encoding="utf-8") as file:
        for url, body in archived(root):
            file.write(json.dumps({"url": url, **values(url, body)}) + "\n")


def differing(root: str) -> dict[str, int]:
    """Return by field the number of pages where Lycosa and Parsel read different values."""
    [collection] = parse_config(SETTINGS).collection
    extractor = FieldExtractor([collection])
    differences = dict.fromkeys(collection.fields, 0)
    for url, body in islice(archived(root), _COMPARED):
        ours, theirs = lycosa_values(url, body, extractor), parsel_values(url, body)
        for name in differences:
            differences[name] += (ours[name] or None) != (theirs[name] or None)
    return differences


def cpu_of(name: str, root: str, run: Iterator[int]) -> float:
    """Return the CPU seconds of a contender."""
    command = [sys.executable, "-m", "bench.fields", "--contend", name, "--root", root]
    if name == "lycosa":
        # another name of the schema, so that all rows are new
        settings = SETTINGS.replace("run1", f"run{next(run)}")
        Path(f"{root}/lycosa.toml").write_text(settings)
        command = lycosa(root, "reparse", "--fields")
    output = Path(f"{root}/output")
    usage = measure(command, output=output)
    if usage.exit_code:
        raise SystemExit(output.read_text())
    return usage.cpu_s


def main() -> None:
    options = arguments(
        __doc__, runs=5, pages=4_000, only=",".join(CONTENDERS), contend="", root=""
    ).parse_args()
    if options.contend:
        contend(options.contend, options.root)
        return
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
        root = f"{folder}/w"
        size = fill(root, options.pages)
        run = count(2)
        contenders = {name: partial(cpu_of, name, root, run) for name in options.only.split(",")}
        readings = alternate(contenders, options.runs)
        different = {name: number for name, number in differing(root).items() if number}
    ratio = median_ratio(readings["parsel"], readings["lycosa"])
    rates = {name: [options.pages / cpu for cpu in values] for name, values in readings.items()}
    lines = [
        f"{options.pages:,} pages of {size / options.pages / 1000:.0f} KB; pages per CPU-second:",
        "",
        comparison(rates, "parsel", "contender"),
        "",
        f"Lycosa reads {ratio:.1f} times the pages per CPU-second of Parsel (goal: 3).",
        f"Pages with different values: {different or 'none'}.",
    ]
    report(options, "Items of archived pages", "\n".join(lines), {"ratio": ratio, **rates})


if __name__ == "__main__":
    main()
