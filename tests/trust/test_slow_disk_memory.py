"""What waits for a slow disk stays bounded: a crawl holds the batch that is being written and the
next one, however long that takes.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crawl.conftest import ServeWeb, page, serve

__all__ = ["serve"]

PAGES, WORDS = 500, 12_000
CRAWL = """
import json, os, resource, sys, threading, time, weakref
from pathlib import Path
from lycosa.processes.memory import tune_memory
from lycosa.crawl import crawl
from tests.crawl.sessions import collection, work

tune_memory()
root, url, delay_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
batches, most, over = weakref.WeakSet(), {"batches": 0, "text": 0, "slow_s": 0.0}, threading.Event()
begin = crawl.Batch.__init__

def watched(self, *arguments):
    begin(self, *arguments)
    batches.add(self)

def look():
    while not over.wait(0.02):
        texts = [batch.text_bytes for batch in list(batches)]
        most["batches"] = max(most["batches"], sum(map(bool, texts)))
        most["text"] = max(most["text"], sum(texts))

def slow(descriptor, fsync=os.fsync):
    time.sleep(delay_s)
    most["slow_s"] += delay_s
    fsync(descriptor)

crawl.Batch.__init__ = watched
os.fsync = slow
watcher = threading.Thread(target=look)
watcher.start()
crawled = work(Path(root), [(collection("c"), [url])], settings=("fetch.connections=32",))
over.set()
watcher.join()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps({**most, "pages": crawled.progress.pages, "commits": crawled.progress.commits, "peak_mb": peak}))
"""


def crawl(root: Path, url: str, delay_s: float) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", CRAWL, str(root), url, str(delay_s)],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(done.stdout)
    print(delay_s, result)
    return result


@pytest.mark.prove
def test_two_batches_wait_for_a_slow_disk_and_no_more(serve: ServeWeb, tmp_path: Path) -> None:
    chance = random.Random(7)
    words = [f"{chance.randrange(16**6):x}" for _ in range(3_000)]
    site = {
        f"/{number}.html": page(text=" ".join(chance.choices(words, k=WORDS)))
        for number in range(PAGES)
    }
    web = serve({"/index.html": page(*site), **site})
    usual = crawl(tmp_path / "usual", web.url(), 0.0)
    slow = crawl(tmp_path / "slow", web.url(), 0.3)
    assert usual["pages"] == slow["pages"] == PAGES + 1
    # crawl.commit_text, and what ends in one turn of the loop
    limit = 12 * 2**20 + 32 * 2 * 8 * WORDS
    assert slow["commits"] > 3
    assert slow["slow_s"] > 10
    assert slow["batches"] <= 2
    assert slow["text"] <= 2 * limit
    assert slow["peak_mb"] < 1.2 * usual["peak_mb"]
