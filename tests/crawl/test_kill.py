"""kill -9 loses nothing: some random kills here, the rest in `make prove`."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.crawl import lively
from tests.crawl.kills import assert_nothing_lost, kill_until
from tests.servers.nginx import nginx
from tests.servers.sites import require_sites, serve_sites
from tests.sites.walk import expected_urls

SEED = int(os.environ.get("LYCOSA_KILL_SEED", "20261121"))


@pytest.mark.parametrize("kills", [5, pytest.param(60, marks=pytest.mark.prove)])
def test_kill_nine_fetches_nothing_twice(tmp_path: Path, kills: int) -> None:
    chance = random.Random(SEED)
    site = next(site for site in require_sites() if site.name == "tuxpaint-doc")
    done = rounds = 0
    while done < kills:
        rounds += 1
        with serve_sites((site,)) as served:
            home = f"{served.origin(site.name)}/"
            crawl = kill_until(
                served.server,
                tmp_path / f"workspace-{rounds}",
                home,
                kills=kills - done,
                chance=chance,
            )
            done += len(crawl.kills)
            assert_nothing_lost(crawl, served.server, expected_urls(served.roots(), [home]))
    print(f"{done} kills in {rounds} crawls, seed {SEED}")


@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.prove)])
def test_kill_nine_with_recrawl_merges_sitemaps_and_an_inbox_loses_nothing(
    tmp_path: Path, kills: int
) -> None:
    web = lively.LivelyWeb((tmp_path / "one", tmp_path / "two"))
    with nginx(web.servers()) as server:
        web.lay(server.port)
        crawl = lively.LivelyCrawl(web, tmp_path / "workspace")
        lively.kill_lively(crawl, server, kills=kills, chance=random.Random(SEED))
        lively.assert_nothing_lost(crawl)
    print(
        f"{crawl.kills} kills, {crawl.children_killed} of merges; {len(crawl.whole)} exchanges, "
        f"{len(crawl.sent)} sent, seed {SEED}"
    )
