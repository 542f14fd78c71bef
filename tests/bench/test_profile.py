"""What the profile makes of py-spy's lines: whose work a sample is, whether it is native, and what
only waits.
"""

from __future__ import annotations

import os
import time

import pytest
from bench.profile import (
    STARTING,
    NativeThreads,
    assemble,
    read_shares,
    read_stacks,
    report,
    report_shares,
)

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


def test_a_sample_is_the_work_of_the_deepest_function_of_ours() -> None:
    walked, read, split, waited, started = read_stacks(LINES)
    assert (walked.package, walked.function, walked.native, walked.samples) == (
        "page",
        "page.html.walk: walk",
        False,
        30,
    )
    assert (read.function, read.native) == ("page.html.document: _read", True)
    assert (split.function, split.native) == ("page.html.walk: walk", False)
    assert waited.waits
    assert not walked.waits
    assert (started.package, started.native) == (STARTING, False)


def test_cpu_is_shared_out_over_what_did_not_wait() -> None:
    profile = assemble(read_stacks(LINES), {"index (tantivy's threads)": 3.0}, 10.0, pages=100)
    assert {package: cost.total for package, cost in profile.packages.items()} == pytest.approx(
        {"index (tantivy's threads)": 3, "page": 5, STARTING: 5}
    )
    assert profile.packages["page"].native == pytest.approx(1)
    assert profile.total.native == pytest.approx(4)
    said = report(profile, functions=2)
    assert "100 pages, 13.0 CPU-seconds, 31% of them native" in said
    assert "| page.html.walk: walk | 4.00 | 40.000 | 30.8% | 0% |" in said
    assert "page.html.document" not in said


def test_threads_of_polars_are_seen_by_their_names() -> None:
    polars = pytest.importorskip("polars")
    threads = NativeThreads(os.getpid())
    numbers, until = polars.DataFrame({"n": range(1_000_000)}), time.monotonic() + 20
    name = "store, index (polars' threads)"
    while name not in threads.by_package() and time.monotonic() < until:
        numbers.lazy().select(polars.col("n").shuffle().sort().sum()).collect()
        threads.look()
    assert name in threads.by_package()


def test_what_perf_says_is_summed_by_library() -> None:
    said = [
        "# Overhead ,Shared Object",
        " 51.50% ,libpython3.11.so.1.0      ",
        " 10.00% ,tantivy.abi3.so           ",
        " 8.00%  ,libc.so.6                 ",
        " 1.50%  ,isal_zlib.cpython-311-x86_64-linux-gnu.so",
        " 1.00%  ,backend_c.cpython-311-x86_64-linux-gnu.so",
        " 0.50% ,_json.cpython-311-x86_64-linux-gnu.so",
        "",
    ]
    shares = read_shares(said)
    assert shares == pytest.approx(
        {
            "Python itself": 0.52,
            "tantivy": 0.1,
            "C library (memory, copies)": 0.08,
            "compression": 0.025,
        }
    )
    assert next(iter(shares)) == "Python itself"
    assert report_shares(shares).startswith("12% of the CPU is in libraries")
