"""Reads WARC files: exchanges for replay, single responses by offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from lycosa.archive.warc import metadata
from lycosa.archive.warc.members import Damage, Record, RecordFile, read_record, read_records
from lycosa.archive.warc.metadata import Revisited
from lycosa.core.errors import ArchiveError
from lycosa.core.records import Exchange, Visit, VisitKind


class StoredExchange(NamedTuple):
    """One exchange as it was passed to `WarcWriter.append`.

    Differences: `token` is None, and a revisit has no body. Pass `revisit_of` again when the
    exchange is appended to another file.
    """

    exchange: Exchange
    visit: Visit
    revisit_of: Revisited | None


class StoredResponse(NamedTuple):
    """One archived response, with `head` and `body` as in its record.

    The head of an HTTP/2 response has HTTP/1.1 syntax. The body includes chunk framing. The head of
    a `resource` record is generated and has its type.
    """

    url: str
    status: int  # 0: the exchange had no response
    head: bytes
    body: bytes  # empty for a revisit: see WARC-Refers-To in `headers`
    headers: dict[str, str]  # the WARC fields, names in lower case

    def exchange(
        self,
        url: str,
        *,
        kind: str = VisitKind.PAGE,
        started_at: int = 0,
        truncated: str = "",
        rendered: bytes = b"",
    ) -> Exchange:
        """Return the response as it was fetched from `url`, to parse or decode it.

        `truncated`: as its visit states it; not `decoded`, because the archived body is whole.
        """
        return Exchange(
            url,
            kind,
            started_at,
            0,
            response_head=self.head,
            body=self.body,
            status=self.status,
            truncated="" if truncated == "decoded" else truncated,
            rendered=rendered,
        )


def read_exchanges(
    path: str | Path,
    *,
    relative_path: str | None = None,
    on_damage: Callable[[Damage], None] | None = None,
) -> Iterator[StoredExchange]:
    """Yield the complete exchanges of a file that `WarcWriter` wrote, in their order.

    An exchange is complete if all its records are. `visit.warc_file` is `relative_path`, else the
    name that the file was written under. `on_damage` as in `read_records`. Records of other
    programs are skipped.

    Raises:
        ArchiveError: as `read_records`; or a metadata record has an unsupported version.
    """
    filename = relative_path
    answer: Record | None = None
    request: Record | None = None
    rendered: Record | None = None
    for record in read_records(path, on_damage=on_damage):
        kind = record.type
        if kind in ("response", "revisit", "resource"):
            answer, request, rendered = record, None, None
        elif kind == "request":
            request = record
        elif kind == "conversion":
            rendered = record
        elif kind == "metadata" and metadata.is_ours(
            record.headers.get("content-type", ""), record.block
        ):
            about = record.id("warc-refers-to")
            if answer is not None and answer.id() != about:
                answer = None
            if request is not None and request.id("warc-concurrent-to") != about:
                request = None
            if rendered is not None and rendered.id("warc-refers-to") != about:
                rendered = None
            stored = _assemble(path, record, answer, request, rendered)
            if stored is not None:
                place = record if answer is None else answer
                visit = stored.visit
                file = Path(path).name if filename is None else filename
                visit.set_location(place.id(), file, place.offset, place.length)
                yield stored
            answer = request = rendered = None
        elif kind == "warcinfo" and filename is None:
            filename = record.headers.get("warc-filename")


def read_response(path: str | Path, offset: int, length: int) -> StoredResponse:
    """Return the response whose record is at `visits.warc_offset`, with `warc_length` bytes.

    Raises:
        ArchiveError: there is no response record; the message names the file and the offset.
    """
    record = read_record(path, offset, length)
    url = record.headers.get("warc-target-uri", "")
    if record.type in ("response", "revisit"):
        head, body = split_head(record.block)
        return StoredResponse(url, _status(head), head, body, record.headers)
    if record.type == "resource":
        return StoredResponse(url, 200, _resource_head(record), record.block, record.headers)
    if record.type == "metadata" and metadata.is_ours(
        record.headers.get("content-type", ""), record.block
    ):
        exchange = _decode(path, record, b"", b"", b"").exchange
        return StoredResponse(
            url, exchange.status, exchange.response_head, exchange.body, record.headers
        )
    raise ArchiveError(
        f"{path}: the record at offset {offset} is of type "
        f"{record.type or 'unknown'!r}, not a response; run `lycosa check`"
    )


def read_group(file: RecordFile, offset: int) -> Iterator[Record]:
    """Yield the records of an exchange, in the order of the file.

    `offset`: of its first record (`visits.warc_offset`).

    Raises:
        ArchiveError: the next one is incomplete.
    """
    record = file.read(offset)
    first = record.id()
    yield record
    while record.type != "metadata":
        record = file.read(record.offset + record.length)
        # a conversion record has WARC-Refers-To but no WARC-Concurrent-To
        if first not in (record.id("warc-concurrent-to"), record.id("warc-refers-to")):
            raise ArchiveError(
                f"{file.path}: the exchange at offset {offset} has no metadata "
                "record; run `lycosa check`"
            )
        yield record


def split_head(block: bytes) -> tuple[bytes, bytes]:
    """Split an HTTP message into its head, up to and including the empty line, and its body."""
    end = block.find(b"\r\n\r\n")
    return (block, b"") if end < 0 else (block[: end + 4], block[end + 4 :])


def read_rendered(path: str | Path, offset: int) -> bytes:
    """Return the rendered document of a response; b"" if it has none.

    `offset`: the end of the response record, where its `conversion` record starts.

    Raises:
        ArchiveError: the record is damaged.
    """
    with RecordFile(path) as file:
        record = file.read(offset)
    return record.block if record.type == "conversion" else b""


def _assemble(
    path: str | Path,
    record: Record,
    answer: Record | None,
    request: Record | None,
    rendered: Record | None,
) -> StoredExchange | None:
    head, body = (
        (b"", b"")
        if answer is None
        else (b"", answer.block)
        if answer.type == "resource"
        else split_head(answer.block)
    )
    understood = _decode(path, record, b"" if request is None else request.block, head, body)
    if understood.records != 1 + (answer is not None) + (request is not None) + (
        rendered is not None
    ):
        return None  # one of its records was lost to damage
    if rendered is not None:
        understood.exchange.set_rendered(rendered.block)
    return StoredExchange(understood.exchange, understood.visit, understood.revisit_of)


def _decode(
    path: str | Path, record: Record, request_head: bytes, head: bytes, body: bytes
) -> metadata.ParsedMetadata:
    try:
        return metadata.decode(record.block, request_head, head, body)
    except ArchiveError as error:
        raise ArchiveError(
            f"{path}, offset {record.offset}: {error}; read it with the program that wrote it"
        ) from None


def _resource_head(record: Record) -> bytes:
    """Return a response head with the type of a `resource` record.

    The metadata record has the complete head.
    """
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {record.headers.get('content-type', '')}\r\n\r\n".encode(
            "latin-1", "replace"
        )
    )


def _status(head: bytes) -> int:
    code = head[9:12]
    return int(code) if code.isdigit() else 0
