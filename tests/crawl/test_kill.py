"""kill -9 loses nothing: five random kills here, the rest in `make prove`."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.crawl.kills import assert_nothing_lost, kill_until
from tests.servers.sites import require_sites, serve_sites
from tests.sites.walk import expected_urls


@pytest.mark.parametrize("kills", [5, pytest.param(60, marks=pytest.mark.prove)])
def test_kill_nine_loses_nothing(tmp_path: Path, kills: int) -> None:
    seed = int(os.environ.get("LYCOSA_KILL_SEED", "20261121"))
    chance = random.Random(seed)
    site = next(site for site in require_sites() if site.name == "tuxpaint-doc")
    done = rounds = 0
    while done < kills:
        rounds += 1
        with serve_sites((site,)) as served:
            home = f"{served.origin(site.name)}/"
            crawl = kill_until(served.server, tmp_path / f"workspace-{rounds}", home, kills=kills - done, chance=chance)
            done += len(crawl.kills)
            assert_nothing_lost(crawl, served.server, expected_urls(served.roots(), [home]))
    print(f"{done} kills in {rounds} crawls, seed {seed}")
