"""What each kind of answer means for its URL and its host."""

from __future__ import annotations

import pytest

from lycosa.core.errors import FetchError
from lycosa.core.records import Exchange
from lycosa.crawl.policy.outcome import FetchOutcome, judge
from lycosa.http.decode import parse_head

NOW = 1_700_000_000_000


def exchange(status: int, head: str = "", error: str = "", body: bytes = b"") -> Exchange:
    fields = f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() if status else b""
    return Exchange(
        "http://h/", "page", NOW, 5, response_head=fields, body=body, status=status, error=error
    )


def outcome(answer: Exchange, last: bool = False) -> tuple[str, str, bool, int]:
    verdict = judge(answer, parse_head(answer.response_head), now_ms=NOW, last_attempt=last)
    return verdict.outcome.value, verdict.reason, verdict.host_failed, verdict.wait_ms


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, ("page", "", False, 0)),
        (203, ("page", "", False, 0)),
        (204, ("page", "", False, 0)),
        (206, ("page", "", False, 0)),
        (300, ("page", "", False, 0)),
        (304, ("unchanged", "http_304", False, 0)),
        (305, ("later", "http_305", False, 0)),
        (400, ("gone", "http_400", False, 0)),
        (403, ("gone", "http_403", False, 0)),
        (404, ("gone", "http_404", False, 0)),
        (410, ("gone", "http_410", False, 0)),
        (418, ("gone", "http_418", False, 0)),
        (408, ("retry", "http_408", False, 0)),
        (425, ("retry", "http_425", False, 0)),
        (429, ("retry", "http_429", True, 0)),
        (500, ("retry", "http_500", False, 0)),
        (501, ("later", "http_501", False, 0)),
        (502, ("retry", "http_502", True, 0)),
        (503, ("retry", "http_503", True, 0)),
        (504, ("retry", "http_504", True, 0)),
        (600, ("later", "http_600", False, 0)),
        (999, ("later", "http_999", False, 0)),
        (99, ("later", "http_99", False, 0)),
    ],
)
def test_statuses(status: int, expected: tuple[str, str, bool, int]) -> None:
    assert outcome(exchange(status)) == expected


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_need_a_location(status: int) -> None:
    answer = exchange(status, "Location: /x\r\n")
    verdict = judge(answer, parse_head(answer.response_head), now_ms=NOW, last_attempt=False)
    assert (verdict.outcome, verdict.location) == (FetchOutcome.REDIRECT, "/x")
    assert outcome(exchange(status)) == ("later", "bad_redirect", False, 0)
    assert outcome(exchange(status, "Location:  \r\n")) == ("later", "bad_redirect", False, 0)


def test_retry_after_is_heard_on_429_and_503_only() -> None:
    assert outcome(exchange(503, "Retry-After: 7\r\n")) == ("retry", "http_503", True, 7_000)
    assert outcome(exchange(429, "Retry-After: 7\r\n")) == ("retry", "http_429", True, 7_000)
    assert outcome(exchange(500, "Retry-After: 7\r\n")) == ("retry", "http_500", False, 0)
    assert outcome(exchange(502, "Retry-After: 7\r\n")) == ("retry", "http_502", True, 0)


def test_a_retry_after_of_a_server_whose_clock_is_slow_means_its_own_time() -> None:
    at = "Retry-After: Tue, 14 Nov 2023 22:10:00 GMT\r\n"  # 200 s before NOW
    assert outcome(exchange(503, at))[3] == 0
    assert outcome(exchange(503, at + "Date: Tue, 14 Nov 2023 22:08:30 GMT\r\n"))[3] == 90_000


@pytest.mark.parametrize("error", list(FetchError))
def test_every_error_has_an_outcome(error: FetchError) -> None:
    kind, reason, host_failed, _ = outcome(exchange(0, error=error))
    if error is FetchError.ADDRESS_REFUSED:
        assert kind == "excluded"
        return
    assert kind == ("retry" if error.retry else "later")
    assert reason == error
    assert host_failed == (
        error
        in {
            "dns",
            "name_unknown",
            "connect",
            "connect_refused",
            "connect_timeout",
            "first_byte_timeout",
        }
    )


def test_a_body_that_broke_off_is_read_when_no_attempt_is_left() -> None:
    broken = exchange(200, error="incomplete", body=b"<p>half")
    assert outcome(broken)[0] == "retry"
    assert outcome(broken, last=True)[:2] == ("page", "incomplete")
    assert outcome(exchange(200, error="incomplete"), last=True)[0] == "retry"
    assert outcome(exchange(500, error="incomplete", body=b"x"), last=True)[0] == "retry"
