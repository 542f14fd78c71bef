"""What a shorter way to a known URL changes: the row where it is at hand, else the links to be walked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lycosa.core.clock import ManualClock
from lycosa.core.config import Collection, Config
from lycosa.core.records import UrlRow, UrlState
from lycosa.crawl.ledger import Job, Ledger
from lycosa.store.workspace import Workspace


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    workspace = Workspace.create(str(tmp_path / "workspace"), 4)
    job = Job(Collection.model_validate({"delay": 0, "courtesy_factor": 0.0}), ("http://h/",))
    made = Ledger(
        workspace.claim("test"), Config(), [job], domains=workspace.domains, partitions=workspace.partitions, clock=ManualClock(), info={}
    )
    yield made
    made.close()


def admit(ledger: Ledger, url: str, depth: int) -> UrlRow:
    assert not ledger.assignments["default"].gate.admit(url, depth, 0, referrer="http://h/")
    row = ledger.find("default", ledger.identifier.identify(url))
    assert row is not None
    return row


def test_a_shorter_way_lowers_what_waits_and_brings_it_forward(ledger: Ledger) -> None:
    row = admit(ledger, "http://h/waits", 5)
    admit(ledger, "http://h/other", 3)
    assert admit(ledger, "http://h/waits", 2) is row
    assert row.depth == 2
    assert ledger.frontier.next(ledger.clock.monotonic_ms()) == (row,)
    assert not ledger.assignments["default"].fallen
    admit(ledger, "http://h/waits", 4)  # a longer way changes nothing
    assert row.depth == 2


def test_a_url_in_flight_takes_the_lesser_depth_at_once(ledger: Ledger) -> None:
    row = admit(ledger, "http://h/x", 5)
    assert ledger.frontier.next(ledger.clock.monotonic_ms()) == (row,)
    ledger.in_flight[row.key] = (row,)
    admit(ledger, "http://h/x", 1)
    assert row.depth == 1
    assert not ledger.assignments["default"].fallen


def test_a_visited_url_that_lies_nearer_is_walked_from_again(ledger: Ledger) -> None:
    row = admit(ledger, "http://h/done", 5)
    assert ledger.frontier.next(ledger.clock.monotonic_ms()) == (row,)
    ledger.settle(row, UrlState.VISITED)
    admit(ledger, "http://h/done", 2)
    assert ledger.assignments["default"].fallen == {row.id.url_key: row.id.host_key}
