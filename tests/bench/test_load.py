"""The evaluation of `bench.load`."""

from __future__ import annotations

from bench.daemon import Response
from bench.load import Time, evaluate


def rounds(
    alone: tuple[int, int] = (600, 600), loaded: int = 550, slow: int = 0, status: int = 200
) -> list[Time]:
    """Two rounds of ten seconds. `slow`: responses in a hundred that take a second."""
    responses = [
        Response(0, 1_000.0 if number < slow else 20.0, 200, "api") for number in range(99)
    ]
    times = []
    for pages in alone:
        times.append(Time("crawl alone", 10.0, pages, {"worker": 1.0}))
        times.append(
            Time(
                "with load",
                10.0,
                loaded,
                {"worker": 1.0, "pages": 2.0},
                [*responses, Response(0, 20.0, status, "page")],
            )
        )
    return times


def test_a_calm_run_has_no_fault() -> None:
    text, faults = evaluate(rounds())
    assert faults == []
    assert "The crawl keeps 92% of its rate" in text


def test_errors_are_reported() -> None:
    assert "p99 1000 ms" in evaluate(rounds(slow=3))[1][0]
    assert "page 503" in evaluate(rounds(status=503))[1][0]
    assert "keeps 75%" in evaluate(rounds(loaded=450))[1][0]


def test_a_crawl_with_variable_speed_is_a_fault() -> None:
    assert "too variable to compare" in evaluate(rounds(alone=(600, 200), loaded=400))[1][0]
