"""Responses of synthetic hosts, and their bytes on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus

CHUNK = 4_096


class Fault(StrEnum):
    """Network failures of an exchange."""

    NONE = ""
    UNRESOLVED = "unresolved"  # the name has no address
    REFUSED = "refused"  # the connection is refused
    RESET = "reset"  # RST after the request
    CLOSE = "close"  # FIN after the request
    CUT = "cut"  # FIN in the middle of the body
    HANG = "hang"  # no bytes, and the connection stays open
    STALL = "stall"  # half of the body, and the connection stays open


@dataclass(slots=True, frozen=True)
class Answer:
    """A response. Status 0: there is no response (see `fault`).

    `latency_ms`: time to the first byte. `transfer_ms`: time from the first to the last byte.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    latency_ms: int = 0
    transfer_ms: int = 0
    fault: Fault = Fault.NONE

    def header(self, name: str) -> str:
        """Return the value of a header field, "" without it. Names are case-sensitive."""
        return next((value for field, value in self.headers if field == name), "")

    def retry_after_ms(self, now_ms: int) -> int:
        """Return the delay that Retry-After (seconds or a date) requests; 0 without one."""
        value = self.header("Retry-After")
        if not value:
            return 0
        if value.isdigit():
            return int(value) * 1000
        return max(int(parsedate_to_datetime(value).timestamp()) * 1000 - now_ms, 0)


def head_bytes(answer: Answer) -> bytes:
    """Return the status line and the fields, with the final empty line."""
    phrase = HTTPStatus(answer.status).phrase
    lines = "".join([f"{name}: {value}\r\n" for name, value in answer.headers])
    return f"HTTP/1.1 {answer.status} {phrase}\r\n{lines}\r\n".encode("latin-1")


def body_bytes(answer: Answer) -> bytes:
    """Return the body as sent over HTTP/1.1.

    It is chunked if the head declares it. With the faults CUT and STALL, half of it is sent.
    """
    body = answer.body
    if ("Transfer-Encoding", "chunked") in answer.headers:
        pieces = [body[start : start + CHUNK] for start in range(0, len(body), CHUNK)]
        body = b"".join([b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]) + b"0\r\n\r\n"
    if answer.fault in (Fault.CUT, Fault.STALL):
        return body[: len(body) // 2]
    return body
