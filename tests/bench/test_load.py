"""What `bench.load` makes of its figures."""

from __future__ import annotations

from bench.load import Time, report
from bench.soak_readers import Asked


def times(
    alone: tuple[int, int] = (600, 600), loaded: int = 550, slow: int = 0, status: int = 200
) -> list[Time]:
    """Two rounds of ten seconds. `slow`: answers of a hundred that took a second."""
    answers = [Asked(0, 1_000.0 if number < slow else 20.0, 200, "api") for number in range(99)]
    found = []
    for pages in alone:
        found.append(Time("crawl alone", 10.0, pages, {"worker": 1.0}))
        found.append(
            Time(
                "with load",
                10.0,
                loaded,
                {"worker": 1.0, "pages": 2.0},
                [*answers, Asked(0, 20.0, status, "page")],
            )
        )
    return found


def test_a_calm_run_has_no_fault() -> None:
    text, faults = report(times())
    assert faults == []
    assert "The crawl keeps 92% of its rate" in text


def test_what_is_wrong_is_said() -> None:
    assert "p99 1000 ms" in report(times(slow=3))[1][0]
    assert "page 503" in report(times(status=503))[1][0]
    assert "keeps 75%" in report(times(loaded=450))[1][0]


def test_a_crawl_that_slows_down_by_itself_keeps_nothing() -> None:
    assert "too variable to compare" in report(times(alone=(600, 200), loaded=400))[1][0]
