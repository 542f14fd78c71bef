"""The reading of py-spy's samples: package, function, native code and waiting."""

from __future__ import annotations

from bench.profile import IMPORTS, read_stacks, summarize

MAIN = "thread (7): MainThread;<module> (lycosa:8);command (lycosa/cli/crawl.py:80);"
LINES = [
    f"{MAIN}walk (lycosa/page/html/walk.py:12) 30",
    f"{MAIN}_read (lycosa/page/html/document.py:9);parse "
    "(selectolax/lexbor.cpython-311-x86_64-linux-gnu.so);0x7f (libc.so.6) 10",
    f"{MAIN}walk (lycosa/page/html/walk.py:30);unicode_split (libpython3.11.so.1.0);malloc "
    "(libc.so.6) 10",
    f"{MAIN}Driver.step (lycosa/fetch/driver.py:60);header_callback "
    "(easycb.c:168);pthread_cond_timedwait (libc.so.6);0x7f (libc.so.6) 500",
    "thread (7): MainThread;_find_and_load (<frozen importlib._bootstrap>:1);<module> "
    "(lycosa/app/crawling.py:3);compile (re.py:2) 50",
    "no stack at all",
]


def test_a_sample_counts_for_the_innermost_function() -> None:
    walked, read, split, started = read_stacks(LINES)  # the waiting stack is missing
    assert (walked.package, walked.function, walked.native, walked.samples) == (
        "page",
        "page.html.walk: walk",
        False,
        30,
    )
    assert (read.function, read.native) == ("page.html.document: _read", True)
    assert (split.function, split.native) == ("page.html.walk: walk", False)
    assert (started.package, started.native) == (IMPORTS, False)


def test_shares_count_only_running_samples() -> None:
    text = summarize(read_stacks(LINES), functions=2)
    assert "100 samples, 10% of them native" in text
    assert "| page | 50.0% | 20% |" in text
    assert "| page.html.walk: walk | 40.0% | 0% |" in text
    assert "page.html.document" not in text
