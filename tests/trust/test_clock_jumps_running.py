"""Changes of the system date for all processes of a daemon.

Pages are fetched again, the index is updated, delays are kept, and the daemon stops cleanly.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from lycosa.index.shards.shards import current_generation
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from tests.daemon.daemons import QUICK, daemon
from tests.servers.nginx import Nginx
from tests.trust.dates import Dates
from tests.trust.test_clock_jumps import DAY, HOSTS, HOUR, PAGES, PAUSE_MS, YEAR, seeds, web

__all__ = ["web"]

_LIMIT_S = 300.0
_SETTINGS = """
[store]
merge_commits = 4
[[collection]]
name = "c"
seeds = {seeds}
delay = "{pause}ms"
courtesy_factor = 0
traps = false
recrawl = "age"
max_age = "12s"
"""


def fetched(web: Nginx, mark: int) -> Counter[str]:
    return Counter(request.url for request in web.requests(mark) if request.uri != "/robots.txt")


def indexed_entry(workspace: Path) -> int:
    """Return the log entry up to which the index is complete."""
    generation = current_generation(str(workspace))
    return generation.log_entry if generation is not None else 0


@pytest.mark.proves("durability-clock")
@pytest.mark.prove
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "jumps",
    [(-HOUR,), (YEAR, 0), (-DAY, DAY, -YEAR)],
    ids=["an hour back", "a year ahead and back", "three jumps"],
)
def test_daemon_continues_despite_clock_jumps(
    web: Nginx,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jumps: tuple[int, ...],
    workers: int,
) -> None:
    dates = Dates(tmp_path)
    for name, value in dates.environment.items():
        monkeypatch.setenv(name, value)
    mark = web.mark()
    shared = ("--engine", "local", "--workers", str(workers)) if workers > 1 else ()
    settings = QUICK + _SETTINGS.format(seeds=json.dumps(seeds(web)), pause=PAUSE_MS)
    with daemon(tmp_path / "w", settings, *shared) as running:
        monkeypatch.undo()
        for ahead_ms in (0, *jumps):
            dates.set(ahead_ms // 1_000)
            time.sleep(2 * PAUSE_MS / 1_000)  # earlier requests are finished
            since, before = web.mark(), indexed_entry(tmp_path / "w")

            def all_fetched_again(since: int = since) -> bool:
                result = fetched(web, since)
                return len(result) == HOSTS * (PAGES + 1) and min(result.values()) >= 2

            running.until(all_fetched_again, _LIMIT_S, f"{ahead_ms} ms ahead: pages not refetched")
            running.until(
                lambda before=before: indexed_entry(tmp_path / "w") > before,  # type: ignore[misc]
                _LIMIT_S,
                f"{ahead_ms} ms ahead: the index is not updated",
            )
        assert running.stop() == 0, running.errors
    for host in {request.host for request in web.requests(mark)}:
        times = sorted(request.at for request in web.requests(mark) if request.host == host)
        assert min(later - earlier for earlier, later in pairwise(times)) >= PAUSE_MS - 20
    report = verify(Workspace.open(str(tmp_path / "w")), deep=True)
    assert report.ok, report.findings
