"""Documents in a crawl: parsed in child processes and searchable.

A document that crashes, hangs or fills the memory of its process affects only itself.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lycosa.core.records import Exchange
from lycosa.crawl.documents import pool as document_pool
from lycosa.crawl.documents.pool import DocumentPool
from lycosa.crawl.documents.wire import (
    CLOCK_SHARE,
    MAX_REPLY,
    BadReply,
    DocumentLimits,
    decode_reply,
    encode_reply,
)
from lycosa.crawl.processing.page_reader import Reader
from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document
from tests.crawl.kills import here, lycosa
from tests.page.document_files import MADE, docx, pdf
from tests.servers.nginx import Server, nginx

# takes some seconds to parse
LONG = docx("<w:p><w:r><w:t>some words</w:t></w:r></w:p>" + "<w:b/>" * 10_000_000)
# a paragraph of 20 million words, too large for the memory limit
VAST = docx("<w:p><w:r><w:t>" + "ы\t" * 20_000_000 + "</w:t></w:r></w:p>")


def _exchange(
    body: bytes, *, url: str = "http://h/d", head: bytes = b"HTTP/1.1 200 OK\r\n\r\n"
) -> Exchange:
    return Exchange(url, "page", 1_700_000_000_000, 1, response_head=head, body=body, status=200)


@pytest.fixture(scope="module")
def pool() -> Iterator[DocumentPool]:
    pool = DocumentPool(DocumentLimits(processes=1, timeout_ms=1_000, memory=400 * 2**20))
    yield pool
    pool.close()


@pytest.mark.parametrize("form", MADE)
def test_child_process_returns_the_same_page(pool: DocumentPool, form: str) -> None:
    payload = MADE[form]()
    kind = kind_of(payload)
    assert kind is not None
    parsed = pool.read(_exchange(payload))
    assert parsed.page == parse_document(payload, kind, url="http://h/d")
    assert parsed.error == ""


@pytest.mark.proves("isolation-document")
@pytest.mark.parametrize(
    ("body", "fault"), [(LONG, "document_timeout"), (docx()[:-200], "document_broken")]
)
def test_hostile_file_affects_no_other_document(
    pool: DocumentPool, body: bytes, fault: str
) -> None:
    assert_only_itself_affected(pool, body, fault)


@pytest.mark.proves("isolation-document", "isolation-document-limits")
def test_file_that_exhausts_memory_affects_no_other_document() -> None:
    # a long timeout: filling the memory takes seconds on a busy machine
    limits = DocumentLimits(processes=1, timeout_ms=20_000, memory=400 * 2**20)
    with closing(DocumentPool(limits)) as pool:
        assert_only_itself_affected(pool, VAST, "document_memory")


def assert_only_itself_affected(pool: DocumentPool, body: bytes, fault: str) -> None:
    parsed = pool.read(_exchange(body))
    assert parsed.page is not None
    assert fault in parsed.page.faults
    after = pool.read(_exchange(docx()))
    assert after.page is not None
    assert (after.page.faults, after.page.headline) == ([], "Wolf spiders")


@pytest.mark.proves("isolation-document-limits")
def test_child_process_has_resource_limits(pool: DocumentPool) -> None:
    pool.read(_exchange(docx()))
    pid = pool._children[0].process.pid
    assert resource.prlimit(pid, resource.RLIMIT_NPROC) == (0, 0)
    assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)
    assert resource.prlimit(pid, resource.RLIMIT_FSIZE)[0] == MAX_REPLY
    assert resource.prlimit(pid, resource.RLIMIT_AS)[0] == pool.limits.memory


@pytest.mark.proves("isolation-document")
def test_killed_child_process_loses_only_its_document(pool: DocumentPool) -> None:
    pool.read(_exchange(docx()))
    pool.begin(_exchange(LONG, url="http://h/long"))
    pool.begin(_exchange(docx(), url="http://h/next"))
    while pool._idle:  # it has not received the first document yet
        time.sleep(0.01)
    time.sleep(0.2)
    pool._children[0].process.kill()
    ended = {}
    while pool.pending:
        ended.update({exchange.url: parsed.page for exchange, parsed in pool.wait(1_000)})
    assert ended["http://h/long"] is not None
    assert ended["http://h/long"].faults == ["document_broken"]
    assert ended["http://h/next"] is not None
    assert ended["http://h/next"].headline == "Wolf spiders"


def test_stop_returns_the_unparsed_documents(pool: DocumentPool) -> None:
    pool.begin(_exchange(LONG, url="http://h/1"))
    pool.begin(_exchange(LONG, url="http://h/2"))
    assert {waiting.exchange.url for waiting in pool.stop()} == {"http://h/1", "http://h/2"}
    assert pool.pending == 0


def test_bodies_of_queued_documents_are_not_held_in_memory(
    pool: DocumentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_pool, "_MAX_HELD_BYTES", 0)
    documents = {
        f"http://h/{number}": docx(f"<w:p><w:r><w:t>number {number}</w:t></w:r></w:p>")
        for number in range(5)
    }
    for url, body in documents.items():
        pool.begin(_exchange(body, url=url), lambda body=body: body)  # type: ignore[misc]
    # at most the one that is being parsed has its body
    assert sum(bool(each.exchange.body) for each in pool._pending.values()) <= 1
    ended = {}
    while pool.pending:
        ended.update(
            {exchange.url: (exchange.body, parsed.page) for exchange, parsed in pool.wait(1_000)}
        )
    assert {url: body for url, (body, _) in ended.items()} == documents
    assert [page.text for _, page in ended.values() if page is not None] == [
        f"number {number}" for number in range(5)
    ]


@pytest.mark.proves("isolation-document")
def test_invalid_reply_of_a_child_process_is_refused() -> None:
    good = json.loads(
        encode_reply(parse_document(docx(), kind_of(docx()), url="http://h/"), "", False)  # type: ignore[arg-type]
    )
    assert decode_reply(json.dumps(good).encode())[0] is not None
    for change in (
        {"text": 1},
        {"links": [["http://h/", 1, "", "a", 0]]},
        {"size": -1},
        {"evil": 1},
        {"faults": "x"},
        {"title": "\ud800"},
    ):
        with pytest.raises(BadReply):
            decode_reply(json.dumps({**good, "page": {**good["page"], **change}}).encode())
    for junk in (b"", b"{}", b"[]", b"\x80\x04N.", b"[" * 100_000):
        with pytest.raises(BadReply):
            decode_reply(junk)


def test_encoded_document_is_detected_by_its_first_bytes(pool: DocumentPool) -> None:
    for payload in (docx(), pdf(b"They hunt at night.")):
        for head, body in (
            (b"Content-Encoding: gzip\r\n", gzip.compress(payload)),
            (b"Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(payload), payload)),
        ):
            assert pool.wants(
                _exchange(
                    body, head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + head + b"\r\n"
                )
            )
    page = gzip.compress(b"<title>PK and %PDF are no documents</title>" * 1_000)
    assert not pool.wants(
        _exchange(page, head=b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
    )


@pytest.mark.parametrize(
    "content_type",
    ["application/octet-stream", "text/html", "text/plain", "application/msword", ""],
)
def test_document_is_detected_whatever_its_content_type(
    pool: DocumentPool, content_type: str
) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode()
    reader = Reader(1 << 24, "lycosa", pool)
    page = reader(_exchange(pdf(b"They hunt at night."), head=head)).page
    assert page is not None
    assert page.text == "They hunt at night."
    html = b"<!doctype html><title>No such file</title><p>Sorry."
    assert not pool.wants(_exchange(html, head=head))


@pytest.mark.proves("isolation-documents-off")
def test_no_process_starts_if_documents_are_disabled() -> None:
    with closing(DocumentPool(DocumentLimits(processes=0))) as documents:
        body, head = (
            pdf(b"They hunt at night."),
            b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n",
        )
        assert Reader(1 << 24, "lycosa", documents)(_exchange(body, head=head)).page is None
        assert not documents._children


def _damaged(payload: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return payload[: chance.randrange(1, len(payload))]
    damaged = bytearray(payload)
    for _ in range(chance.choice((1, 5, 30))):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


@pytest.mark.parametrize("number", [20, pytest.param(2_000, marks=pytest.mark.prove)])
@pytest.mark.parametrize("form", MADE)
def test_damaged_documents_are_parsed_within_the_limits(
    pool: DocumentPool, form: str, number: int
) -> None:
    chance, payload = random.Random(number), MADE[form]()
    for _ in range(number):
        page = pool.read(_exchange(_damaged(payload, chance))).page
        assert page is None or not {"document_timeout", "document_memory"} & set(page.faults)


def damage(payload: bytes, chance: random.Random) -> bytes:
    """Return a damaged copy of a file.

    Truncated, or with flipped bits, moved parts or overwritten numbers.
    """
    kind = chance.randrange(4)
    if kind == 0:
        return payload[: chance.randrange(1, len(payload))]
    changed = bytearray(payload)
    if kind == 1:
        for _ in range(chance.randint(1, 200)):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    start, other = chance.randrange(len(changed)), chance.randrange(len(changed))
    length = chance.randint(1, max(1, len(changed) // 20))
    if kind == 2:
        changed[start : start + length] = changed[other : other + length] * chance.randint(0, 3)
    else:  # numbers: lengths, offsets, object numbers
        for _ in range(chance.randint(1, 50)):
            place = chance.randrange(len(changed))
            changed[place : place + 4] = chance.choice(
                (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"9999", b"-1 0")
            )
    return bytes(changed)


def fuzz(files: list[Path], count: int, seed: int = 5) -> tuple[Counter[str], float]:
    """Parse `count` damaged files in one child process.

    Returns the number of faults by name, and the longest wall-clock time in seconds.

    Raises:
        AssertionError: the pool no longer parses an undamaged file.
    """
    chance, slowest_s = random.Random(seed), 0.0
    faults: Counter[str] = Counter()
    pool = DocumentPool(DocumentLimits(processes=1))
    undamaged = next(
        payload
        for path in files
        if (page := pool.read(_exchange(payload := path.read_bytes())).page)
        and page.text
        and not page.faults
    )
    try:
        for number in range(count):
            payload = damage(files[number % len(files)].read_bytes(), chance)
            started = time.perf_counter()
            page = pool.read(_exchange(payload)).page
            slowest_s = max(slowest_s, time.perf_counter() - started)
            faults.update(page.faults if page is not None else ())
            if number % 100 == 99:
                after = pool.read(_exchange(undamaged)).page
                assert after is not None, "an undamaged file is no longer parsed"
                assert not after.faults, after.faults
    finally:
        pool.close()
    return faults, slowest_s


@pytest.mark.prove
@pytest.mark.parametrize(
    "suffix", [".pdf", ".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".rtf", ".epub"]
)
def test_many_damaged_real_documents(suffix: str) -> None:
    """2,000 damaged copies of real files are parsed within the limits.

    The files are below $LYCOSA_DOCUMENTS, by default those of Debian packages and test sites.
    """
    folder_name = os.environ.get("LYCOSA_DOCUMENTS")
    folders = (
        [Path(folder_name)]
        if folder_name
        else [Path("/usr/share/doc"), Path.home() / ".cache/lycosa-sites"]
    )
    paths = (path for folder in folders for path in sorted(folder.rglob(f"*{suffix}")))
    files = [path for path in paths if path.is_file() and path.stat().st_size < 1_500_000]
    if not files:
        pytest.skip(f"no {suffix} files: set LYCOSA_DOCUMENTS to a folder of them")
    faults, slowest_s = fuzz(files, 2_000)
    assert slowest_s * 1000 < DocumentLimits().timeout_ms * (CLOCK_SHARE + 1)
    assert faults["document_timeout"] + faults["document_memory"] <= 20, faults


def test_search_finds_documents_of_each_kind(tmp_path: Path) -> None:
    """`lycosa search` finds all documents that `lycosa crawl` fetched."""
    root, workspace = tmp_path / "root", tmp_path / "workspace"
    root.mkdir()
    for form, make in MADE.items():
        (root / f"d.{form}").write_bytes(make())
    (root / "nameless").write_bytes(MADE["docx"]())
    (root / "hostile.docx").write_bytes(LONG)
    names = [*(f"d.{form}" for form in MADE), "nameless", "hostile.docx"]
    (root / "index.html").write_text(
        "<title>All</title>" + "".join(f"<a href='{name}'>{name}</a>" for name in names)
    )
    with nginx([Server("127.0.0.1", root)]) as served:
        limits = ["--set", "crawl.document_timeout=1s", "--set", "crawl.patience=1s"]
        lycosa(workspace, "crawl", f"http://127.0.0.1:{served.port}/", "--delay", "0s", *limits)
    hits = json.loads(here(workspace, "search", "hunt night", "--copies", "--json", "-n", "50"))[
        "hits"
    ]
    assert {hit["url"].rpartition("/")[2] for hit in hits} == {
        name for name in names if name != "hostile.docx"
    }
    rows = json.loads(here(workspace, "sql", "select url, faults from pages", "--json"))
    faults = {row["url"].rpartition("/")[2]: row["faults"] for row in rows}
    assert faults["hostile.docx"] == ["document_timeout"]
    assert all(not each for name, each in faults.items() if name != "hostile.docx")
