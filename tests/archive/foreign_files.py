"""Archives in the formats of other programs.

warcio writes the WARC records; ARC records are built after the ARC specification.
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
    """A WARC writer that uses no temporary files: those of warcio stay open."""

    @staticmethod
    def _create_temp_file() -> io.BytesIO:
        return io.BytesIO()


class Answer(NamedTuple):
    """A response of the archived site."""

    url: str
    body: bytes
    status: str = "200 OK"
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),)


def html(
    title: str, *links: str, words: str = "Moths fly at night, and they are drawn to light."
) -> bytes:
    anchors = "".join(f'<p><a href="{link}">a link to {link}</a></p>' for link in links)
    head = f"<html lang=en><head><title>{title}</title></head>"
    return f"{head}<body><p>{words} {title}.</p>{anchors}</body></html>".encode()


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
    """Return a WARC file: warcinfo, then a response and a request record per answer."""
    output = io.BytesIO()
    writer = Writer(output, gzip=gzipped, warc_version="1.1")
    writer.write_record(writer.create_warcinfo_record("moths.warc", {"software": "OtherCrawler"}))
    for answer in answers:
        head = StatusAndHeaders(answer.status, list(answer.headers), protocol="HTTP/1.1")
        record = writer.create_warc_record(
            answer.url, "response", io.BytesIO(answer.body), http_headers=head,
            warc_headers_dict={"WARC-Date": date, "WARC-IP-Address": "192.0.2.7"},
        )  # fmt: skip
        request_line = StatusAndHeaders(
            "GET / HTTP/1.1", [("Host", "moths.example")], is_http_request=True
        )
        request = writer.create_warc_record(
            answer.url, "request", http_headers=request_line, warc_headers_dict={"WARC-Date": date}
        )
        writer.write_request_response_pair(request, record)
    return output.getvalue()


def zstd(plain: bytes, *, dictionary: bool) -> bytes:
    """Compress as .warc.zst: two frames, or a dictionary in a skippable frame and one frame."""
    if not dictionary:
        half = len(plain) // 2
        return b"".join(
            zstandard.ZstdCompressor().compress(part) for part in (plain[:half], plain[half:])
        )
    prefix = zstandard.ZstdCompressionDict(plain[:2000], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    packed = zstandard.ZstdCompressor().compress(prefix.as_bytes())
    frame = b"\x5d\x2a\x4d\x18" + len(packed).to_bytes(4, "little") + packed
    return frame + zstandard.ZstdCompressor(dict_data=prefix).compress(plain)


def wacz(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("datapackage.json", "{}")
        for name, content in members:
            archive.writestr(f"archive/{name}", content)
    return path


def arc(answers: tuple[Answer, ...] = ANSWERS, *, version: int = 1) -> list[bytes]:
    """Return the records of an ARC file, starting with its version block.

    See https://archive.org/web/researcher/ArcFileFormat.php.
    """
    if version == 1:
        names = "URL IP-address Archive-date Content-type Archive-length"
    else:
        names = (
            "URL IP-address Archive-date Content-type Result-code Checksum Location Offset "
            "Filename Archive-length"
        )
    description = f"{version} 0 OtherCrawler\n{names}\n".encode()
    fields = "" if version == 1 else "200 - - 0 moths.arc "
    version_block = (
        f"filedesc://moths.arc 0.0.0.0 20261121100000 text/plain {fields}{len(description)}\n"
    )
    records = [
        version_block.encode() + description + b"\n",
        f"dns:moths.example 192.0.2.1 20261121100000 text/dns {fields}4\nabcd\n".encode(),
    ]
    for answer in answers:
        head = (
            f"HTTP/1.1 {answer.status}\r\n"
            + "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
            + "\r\n"
        )
        block = head.encode() + answer.body
        line = f"{answer.url} 192.0.2.7 20261121100000 text/html {fields}{len(block)}\n"
        records.append(line.encode() + block + b"\n")
    return records


def write_every_format(folder: Path) -> dict[str, Path]:
    """Write the same responses in every format and compression. Return the paths by file name."""
    plain, members = warc(), warc(gzipped=True)
    files = {
        "plain.warc": plain,
        "members.warc.gz": members,
        "one-member.warc.gz": gzip.compress(plain),
        "frames.warc.zst": zstd(plain, dictionary=False),
        "dictionary.warc.zst": zstd(plain, dictionary=True),
        "v1.arc": b"".join(arc()),
        "v2.arc": b"".join(arc(version=2)),
        "members.arc.gz": b"".join(map(gzip.compress, arc())),
    }
    paths = {}
    for name, content in files.items():
        paths[name] = folder / name
        paths[name].write_bytes(content)
    paths["moths.wacz"] = wacz(folder / "moths.wacz", ("a.warc.gz", members))
    return paths
