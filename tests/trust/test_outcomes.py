"""What a network does to a crawl is an outcome with a documented name, and nothing is archived as
whole that is not.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from lycosa.core.errors import FetchError
from tests.crawl.sessions import collection, select, work
from tests.servers.hostile import ENDPOINTS, HostileServer

BREAKS = {
    FetchError.TIMEOUT,
    FetchError.TOO_SLOW,
    FetchError.RESET,
    FetchError.INCOMPLETE,
    FetchError.HTTP2,
}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "fetch-errors.md"


def test_every_outcome_is_documented_and_says_whether_it_is_tried_again() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| (yes|no) \| ?[^|]* \|$",
        DOCS.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert dict(rows) == {error.value: "yes" if error.retry else "no" for error in FetchError}


@pytest.mark.prove
def test_nothing_is_archived_as_whole_that_is_not(tmp_path: Path) -> None:
    """Of every endpoint: what came with an error, or was cut at a limit, says so in the archive
    (WARC/1.1 section 5.13).
    """
    settings = (
        "fetch.first_byte_timeout=1500ms",
        "fetch.total_timeout=4s",
        "fetch.slow_time=1s",
        "fetch.retries=0",
        "fetch.max_body=2MiB",
    )
    with HostileServer() as server:
        seeds = [
            server.url(endpoint.name)
            for endpoint in ENDPOINTS
            if not endpoint.name.startswith("busy-")
        ]
        chosen = collection("c", depth=0, connections_per_host=8, backoff="1ms")
        work(tmp_path, [(chosen, seeds)], settings=settings)
    rows = select(tmp_path, "SELECT url, error, http_status FROM visits")
    broken = {str(row["url"]) for row in rows if row["error"] in BREAKS and row["http_status"]}
    assert len(broken) > 10
    cut: set[str] = set()
    whole: set[str] = set()
    for archive in tmp_path.glob("data/*/*.warc.gz"):
        for head in re.findall(
            rb"WARC/1\.1\r\n(.*?)\r\n\r\n", gzip.decompress(archive.read_bytes()), re.DOTALL
        ):
            fields = dict(
                re.findall(r"^([\w-]+): (.*?)\r?$", head.decode("utf-8", "replace"), re.MULTILINE)
            )
            if fields.get("WARC-Type") == "response":
                (cut if "WARC-Truncated" in fields else whole).add(fields["WARC-Target-URI"])
    assert broken <= cut
    assert not broken & whole
    limited = {server.url(endpoint.name) for endpoint in ENDPOINTS if endpoint.expected.truncated}
    assert limited & whole == set()
