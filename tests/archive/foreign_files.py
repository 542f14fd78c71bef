"""Archives as other programs write them: WARC by warcio in every wrapping, ARC by hand after its
description.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import zstandard
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

HOST = "http://moths.example"
AT = "2026-11-21T10:00:00Z"


class Writer(WARCWriter):  # type: ignore[misc]
    """warcio's, without the temporary files that it does not close."""

    @staticmethod
    def _create_temp_file() -> io.BytesIO:
        return io.BytesIO()


class Answer(NamedTuple):
    """One page of the web that never was."""

    url: str
    body: bytes
    status: str = "200 OK"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),)


def html(
    title: str, *links: str, words: str = "Moths fly at night, and they are drawn to light."
) -> bytes:
    anchors = "".join(f'<p><a href="{link}">a link to {link}</a></p>' for link in links)
    return f"<html lang=en><head><title>{title}</title></head><body><p>{words} {title}.</p>{anchors}</body></html>".encode()


ANSWERS = (
    Answer(f"{HOST}/", html("Home", "/eyes", "/wings", "http://other.example/")),
    Answer(
        f"{HOST}/eyes",
        html(
            "Compound eyes", "/", words="An eye of many facets sees movement before it sees shape."
        ),
    ),
    Answer(f"{HOST}/old", b"", "301 Moved Permanently", (("Location", "/wings"),)),
    Answer(
        f"{HOST}/wings",
        html("Wings", "/", words="Scales cover the wings and give them their colours."),
    ),
    Answer(f"{HOST}/gone", b"gone", "404 Not Found"),
)


def warc(answers: tuple[Answer, ...] = ANSWERS, *, gzipped: bool = False, date: str = AT) -> bytes:
    """By warcio: warcinfo, then response and request of each."""
    output = io.BytesIO()
    writer = Writer(output, gzip=gzipped, warc_version="1.1")
    writer.write_record(writer.create_warcinfo_record("moths.warc", {"software": "somebody's"}))
    for answer in answers:
        head = StatusAndHeaders(answer.status, list(answer.headers), protocol="HTTP/1.1")
        record = writer.create_warc_record(
            answer.url, "response", io.BytesIO(answer.body), http_headers=head,
            warc_headers_dict={"WARC-Date": date, "WARC-IP-Address": "192.0.2.7"},
        )  # fmt: skip
        asked = StatusAndHeaders(
            "GET / HTTP/1.1", [("Host", "moths.example")], is_http_request=True
        )
        request = writer.create_warc_record(
            answer.url, "request", http_headers=asked, warc_headers_dict={"WARC-Date": date}
        )
        writer.write_request_response_pair(request, record)
    return output.getvalue()


def zstd(plain: bytes, *, dictionary: bool) -> bytes:
    """As .warc.zst: frames one after the other, the dictionary in a skippable frame before them."""
    if not dictionary:
        half = len(plain) // 2
        return b"".join(
            zstandard.ZstdCompressor().compress(part) for part in (plain[:half], plain[half:])
        )
    words = zstandard.ZstdCompressionDict(plain[:2000], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    packed = zstandard.ZstdCompressor().compress(words.as_bytes())
    frame = b"\x5d\x2a\x4d\x18" + len(packed).to_bytes(4, "little") + packed
    return frame + zstandard.ZstdCompressor(dict_data=words).compress(plain)


def wacz(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("datapackage.json", "{}")
        for name, content in members:
            archive.writestr(f"archive/{name}", content)
    return path


def arc(answers: tuple[Answer, ...] = ANSWERS, *, version: int = 1) -> list[bytes]:
    """The records of an ARC file, the first of them describing it
    (https://archive.org/web/researcher/ArcFileFormat.php).
    """
    if version == 1:
        names = "URL IP-address Archive-date Content-type Archive-length"
    else:
        names = (
            "URL IP-address Archive-date Content-type Result-code Checksum Location Offset "
            "Filename Archive-length"
        )
    about = f"{version} 0 SomeCrawler\n{names}\n".encode()
    more = "" if version == 1 else "200 - - 0 moths.arc "
    records = [
        f"filedesc://moths.arc 0.0.0.0 20261121100000 text/plain {more}{len(about)}\n".encode()
        + about
        + b"\n"
    ]
    records.append(
        b"dns:moths.example 192.0.2.1 20261121100000 text/dns " + more.encode() + b"4\nabcd\n"
    )
    for answer in answers:
        head = (
            f"HTTP/1.1 {answer.status}\r\n"
            + "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
            + "\r\n"
        )
        block = head.encode() + answer.body
        line = f"{answer.url} 192.0.2.7 20261121100000 text/html {more}{len(block)}\n"
        records.append(line.encode() + block + b"\n")
    return records


def every_kind(folder: Path) -> dict[str, Path]:
    """The same answers in every format and wrapping."""
    plain, members = warc(), warc(gzipped=True)
    files = {
        "plain.warc": plain,
        "members.warc.gz": members,
        "whole.warc.gz": gzip.compress(plain),
        "frames.warc.zst": zstd(plain, dictionary=False),
        "dictionary.warc.zst": zstd(plain, dictionary=True),
        "one.arc": b"".join(arc()),
        "two.arc": b"".join(arc(version=2)),
        "members.arc.gz": b"".join(map(gzip.compress, arc())),
    }
    paths = {}
    for name, content in files.items():
        paths[name] = folder / name
        paths[name].write_bytes(content)
    paths["moths.wacz"] = wacz(folder / "moths.wacz", ("a.warc.gz", members))
    return paths
