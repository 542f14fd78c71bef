"""A frontier that holds almost nothing at hand fetches the same as one that holds everything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.servers.sites import ServedSites

LYCOSA = Path(sys.executable).parent / "lycosa"


FEW = ("debian-reference", "maint-guide", "python-doc")
ALL = (*FEW, "apache-manual", "installation-guide", "tuxpaint-doc")


@pytest.mark.parametrize(
    ("names", "hosts", "urls", "commits"),
    [
        (FEW, 2, 100, 200),
        pytest.param(ALL, 2, 100, 200, marks=pytest.mark.prove),
        pytest.param(ALL, 20_000, 100, 50, marks=pytest.mark.prove),
        pytest.param(ALL, 1, 100, 1_000, marks=pytest.mark.prove),
    ],
    ids=["few", "all", "many hosts", "one host"],
)
def test_few_hosts_and_urls_at_hand(
    served: ServedSites,
    expected: dict[str, int],
    tmp_path: Path,
    names: Sequence[str],
    hosts: int,
    urls: int,
    commits: int,
) -> None:
    bounds = (
        f"crawl.active_hosts={hosts}",
        f"crawl.waiting_urls={urls}",
        f"crawl.commit_pages={commits}",
        "collection.media_types=*",
    )
    settings = [part for bound in bounds for part in ("--set", bound)]
    workspace = ["-w", str(tmp_path / "workspace")]
    origins = tuple(f"{served.origin(name)}/" for name in names)  # no site links to another
    seeds = [seed for seed in served.seeds() if seed.startswith(origins)]
    awaited = {url: status for url, status in expected.items() if url.startswith(origins)}
    assert len(awaited) > 5 * urls
    crawl = subprocess.run(
        [
            str(LYCOSA),
            *workspace,
            "crawl",
            *seeds,
            "--delay",
            "0",
            *settings,
            "--no-index",
            "--json",
            "--quiet",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert crawl.returncode == 0, crawl.stderr
    assert json.loads(crawl.stdout)["left_for_later"] == {}
    query = "SELECT url, http_status FROM visits WHERE kind = 'page'"
    rows = subprocess.run(
        [str(LYCOSA), *workspace, "sql", query, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert Counter((row["url"], row["http_status"]) for row in json.loads(rows.stdout)) == Counter(
        awaited.items()
    )
