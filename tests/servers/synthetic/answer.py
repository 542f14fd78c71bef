"""What a synthetic host answers, and the bytes that this is on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus

CHUNK = 4_096


class Fault(StrEnum):
    """How an exchange goes wrong below HTTP."""

    NONE = ""
    UNRESOLVED = "unresolved"  # the name has no address
    REFUSED = "refused"  # nobody listens
    RESET = "reset"  # RST after the request
    CLOSE = "close"  # FIN after the request
    CUT = "cut"  # FIN in the middle of the body
    HANG = "hang"  # nothing ever comes
    STALL = "stall"  # the head and a little of the body, then nothing more


@dataclass(slots=True, frozen=True)
class Answer:
    """`latency_ms` until the first byte, `transfer_ms` from there to the last. Status 0: there is
    none (see `fault`).
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    latency_ms: int = 0
    transfer_ms: int = 0
    fault: Fault = Fault.NONE

    def header(self, name: str) -> str:
        """The value of a header field, "" without it; `name` as it is written here
        (`Retry-After`).
        """
        return next((value for field, value in self.headers if field == name), "")

    def retry_after_ms(self, now_ms: int) -> int:
        """How long from now its Retry-After (seconds or a date) asks for; 0 without one."""
        value = self.header("Retry-After")
        if not value:
            return 0
        if value.isdigit():
            return int(value) * 1000
        return max(int(parsedate_to_datetime(value).timestamp()) * 1000 - now_ms, 0)


def head_bytes(answer: Answer) -> bytes:
    """Status line and fields, with the empty line."""
    phrase = HTTPStatus(answer.status).phrase
    lines = "".join([f"{name}: {value}\r\n" for name, value in answer.headers])
    return f"HTTP/1.1 {answer.status} {phrase}\r\n{lines}\r\n".encode("latin-1")


def body_bytes(answer: Answer) -> bytes:
    """The body as it goes over HTTP/1.1: in chunks if the head says so; of a cut or stalled one
    what gets through.
    """
    body = answer.body
    if ("Transfer-Encoding", "chunked") in answer.headers:
        pieces = [body[start : start + CHUNK] for start in range(0, len(body), CHUNK)]
        body = b"".join([b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]) + b"0\r\n\r\n"
    if answer.fault in (Fault.CUT, Fault.STALL):
        return body[: len(body) // 2]
    return body
