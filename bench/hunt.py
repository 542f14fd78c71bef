"""Hunts compared with breadth-first crawls on webs with topics, and on two real sites.

    python -m bench.hunt [--webs N] [--share F] [--without-sites] [--without-webs]

1. Five synthetic webs with topics (tests/servers/synthetic/topics.py: the topic of each page is
   known, and the share of links within a topic): how many of the first 300 pages are about the
   topic whose three words are the query. The complete product in simulated time: `crawl`
   breadth-first and `hunt` with each strategy from the same first page, 15 connections.
2. Twenty questions on python-doc and debian-reference, served by nginx. They were written before
   any hunt was run for them. Measured: the fetch, counted from the home page, at which the right
   page came, and whether it is among the results.
3. The time to the first result, in the process that hunts and by the command, start-up included;
   and the time from the first to the second result.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.servers.sites import ServedSites, create_sites, serve_sites
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

from bench.harness import arguments, lycosa, report, table
from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.crawl.worker import Limits
from lycosa.hunt.hunt import STRATEGIES, StrategyName
from lycosa.hunt.session import Event, HuntEnvironment, HuntOrder, HuntRequest, hunt
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

FETCHES = 300
BARS = {"best": 2.5, "fish": 1.7}  # minimum ratios to breadth-first
RIGHT_WITHIN, RIGHT_OF_20 = 60, 16

TOPICS, PAGES, HOSTS, NAMED = 20, 6_000, 150, 0.3
SHARES = (0.3, 0.5)
"""Shares of links that stay within a topic, in addition to those by chance."""

# seeds of the webs and their topics; lycosa.hunt.strategies was tuned on webs 101 to 104
HELD_OUT, ASKED_TOPICS = (1, 2, 3, 4, 5), (3, 11)
_CONFIG = parse_config("", overrides=("crawl.patience=3s",))


@dataclass(slots=True, frozen=True)
class Question:
    """A question, its site, and the paths of the pages that answer it."""

    text: str
    site: str
    right: tuple[str, ...]


def _python(text: str, *right: str) -> Question:
    return Question(text, "python-doc", tuple(f"/{path}.html" for path in right))


def _debian(text: str, *right: str) -> Question:
    return Question(text, "debian-reference", tuple(f"/{path}.en.html" for path in right))


FIRST = _python("How do I read and write CSV files?", "library/csv")
"""The question of the time to the first result; it was used for tuning."""

QUESTIONS = (
    _python("How do I connect to an SQLite database?", "library/sqlite3"),
    _python("compress data with gzip", "library/gzip"),
    _python("send an email message over SMTP", "library/smtplib", "library/email.examples"),
    _python("How do I compute the SHA-256 digest of a file?", "library/hashlib"),
    _python("generate cryptographically strong random tokens", "library/secrets"),
    _python("What time zones are supported and how do I convert between them?", "library/zoneinfo"),
    _python("run a subprocess and capture its output", "library/subprocess"),
    _python("shell-style wildcards for matching file names", "library/fnmatch", "library/glob"),
    _python("How do I write a C extension module?", "extending/extending"),
    _python("replace text with regular expressions", "library/re", "howto/regex"),
    _python(
        "Why are floating-point calculations so inaccurate?", "faq/design", "tutorial/floatingpoint"
    ),
    _python("create a virtual environment", "library/venv", "tutorial/venv"),
    _python("profile a program to see where time is spent", "library/profile"),
    _python("weak references to objects that may be garbage collected", "library/weakref"),
    _debian("How do I share a clipboard between X applications?", "ch07"),
    _debian("convert the character encoding of a text file with iconv", "ch11"),
    _debian("scheduling tasks regularly with cron", "ch09"),
    _debian("configure the hostname resolution and network interfaces", "ch05"),
    _debian("backup and recovery of personal data", "ch10"),
    _debian("How does PAM authenticate users?", "ch04"),
)


def plan_of(seed: int, share: float) -> WebPlan:
    return WebPlan.calm(
        seed=seed,
        hosts=HOSTS,
        pages=PAGES,
        languages=("en",),
        topics=TOPICS,
        topic_links=share,
        topic_named=NAMED,
    )


def found_by_crawling(web: Web, topic: int, fetches: int = FETCHES) -> int:
    """Return the pages of the topic among the first of a breadth-first crawl."""
    with tempfile.TemporaryDirectory() as folder:
        clock = SimulatedClock(web.plan.epoch_ms)
        collection = Collection(
            name="default", scope="any", delay=0, courtesy_factor=0.0, connections=15, traps=False
        )
        order = CrawlOrder(
            f"{folder}/w",
            _CONFIG,
            collection,
            tuple(web.seeds()),
            Limits(max_pages=fetches),
            index=False,
        )
        crawl(order, clock=clock, fetcher=SimulatedFetcher(web, clock, _CONFIG.fetch))
        return _about(web, f"{folder}/w", topic)


def found_by_hunting(web: Web, topic: int, strategy: StrategyName, fetches: int = FETCHES) -> int:
    """Return the pages of the topic among the first of a hunt for its words."""
    with tempfile.TemporaryDirectory() as folder:
        clock = SimulatedClock(web.plan.epoch_ms)
        request = HuntRequest(
            " ".join(web.topics.words(topic)),
            tuple(web.seeds()),
            False,
            strategy,
            time_ms=None,
            pages=fetches,
            delay="0",
        )
        hunt(
            HuntOrder(f"{folder}/w", _CONFIG, request, index=False),
            HuntEnvironment(clock=clock, fetcher=SimulatedFetcher(web, clock, _CONFIG.fetch)),
        )
        return _about(web, f"{folder}/w", topic)


def _about(web: Web, root: str, topic: int) -> int:
    pages = LiveTables(Workspace.open(root)).scan("pages").select("url").collect()["url"].to_list()
    return sum(web.topic(url) == topic for url in pages)


def webs_table(webs: int, shares: Sequence[float]) -> tuple[str, dict[str, float]]:
    """Return a table by web and share, and each strategy's total ratio to breadth-first."""
    rows: list[Sequence[object]] = []
    totals: Counter[str] = Counter()
    for share in shares:
        for seed in HELD_OUT[:webs]:
            web = Web(plan_of(seed, share))
            counts = Counter(
                {"breadth-first": sum(found_by_crawling(web, topic) for topic in ASKED_TOPICS)}
            )
            for strategy in STRATEGIES:
                counts[strategy] = sum(
                    found_by_hunting(web, topic, strategy) for topic in ASKED_TOPICS
                )
            totals += counts
            base = counts["breadth-first"]
            cells = (f"{counts[name]} ({counts[name] / max(base, 1):.1f})" for name in STRATEGIES)
            rows.append((seed, share, base, *cells))
            print(rows[-1], flush=True)
    base = max(totals["breadth-first"], 1)
    ratios: dict[str, float] = {name: totals[name] / base for name in STRATEGIES}
    cells = (f"{totals[name]} (**{ratios[name]:.1f}**)" for name in STRATEGIES)
    rows.append(("all", "", base, *cells))
    return table(("web", "share within a topic", "breadth-first", *STRATEGIES), rows), ratios


@dataclass(slots=True, frozen=True)
class Answer:
    """The fetch at which the right page came (0: never), its score and rank in the results."""

    fetch: int
    score: float
    rank: int
    first_ms: int


def ask(web: ServedSites, question: Question, pages: int = RIGHT_WITHIN) -> Answer:
    """Hunt for a question from the home page of its site."""
    origin = web.origin(question.site)
    times_ms: list[int] = []

    def observe(event: Event) -> None:
        if event["event"] == "found":
            times_ms.append(round(event["seconds"] * 1000))

    with tempfile.TemporaryDirectory() as folder:
        request = HuntRequest(
            question.text,
            (f"{origin}/",),
            False,
            "best",
            time_ms=None,
            pages=pages,
            scope="host",
            delay="0",
        )
        order = HuntOrder(f"{folder}/w", _CONFIG, request, index=False)
        result = hunt(order, HuntEnvironment(observe))
        visits = LiveTables(Workspace.open(f"{folder}/w")).scan("pages")
        fetched = visits.sort("fetched_at").select("url").collect()["url"].to_list()
    right = {f"{origin}{path}" for path in question.right}
    fetch = next((number for number, url in enumerate(fetched, 1) if url in right), 0)
    found = [(rank, each) for rank, each in enumerate(result["results"], 1) if each["url"] in right]
    ranks = [rank for rank, _ in found]
    scores = [each["score"] for _, each in found]
    return Answer(fetch, max(scores, default=0.0), min(ranks, default=0), min(times_ms, default=0))


def questions_table(web: ServedSites) -> tuple[str, int, int]:
    """Return a table by question; how often the right page was fetched, and was a result."""
    rows: list[Sequence[object]] = []
    answers = []
    for question in QUESTIONS:
        answer = ask(web, question)
        answers.append(answer)
        cells = (answer.fetch, f"{answer.score:.2f}", answer.rank) if answer.fetch else ("-",) * 3
        rows.append((question.text, question.site, *cells))
        print(rows[-1], flush=True)
    header = ("question", "site", "fetch at which the right page came", "its score", "its rank")
    fetched, listed = (
        sum(each.fetch > 0 for each in answers),
        sum(each.rank > 0 for each in answers),
    )
    return table(header, rows), fetched, listed


def first_result(web: ServedSites) -> dict[str, float]:
    """Return seconds to the first result: in the process, by the command, and to the second."""
    in_process_s = ask(web, FIRST, pages=20).first_ms / 1000
    with tempfile.TemporaryDirectory() as folder:
        words = ["hunt", FIRST.text, "--seed", f"{web.origin(FIRST.site)}/", "--pages", "20"]
        command = lycosa(f"{folder}/w", *words, "--delay", "0", "--scope", "host", "--jsonl")
        start = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            times_s = [
                time.monotonic() - start
                for line in process.stdout
                if json.loads(line)["event"] == "found"
            ]
    return {
        "in the process": in_process_s,
        "by the command": times_s[0],
        "second result after the first": times_s[1] - times_s[0],
    }


def main() -> int:
    parser = arguments(__doc__, runs=1, without_webs=False, without_sites=False, webs=len(HELD_OUT))
    parser.add_argument(
        "--share",
        type=float,
        action="append",
        help="share of links that stay within a topic; repeatable",
    )
    options = parser.parse_args()
    parts, missed = [], []
    if not options.without_webs:
        text, ratios = webs_table(options.webs, options.share or SHARES)
        parts.append(text)
        missed += [
            f"{name}: {ratios[name]:.2f}, the limit is {limit}"
            for name, limit in BARS.items()
            if ratios[name] < limit
        ]
    if not options.without_sites:
        with serve_sites(create_sites()) as web:
            text, fetched, listed = questions_table(web)
            times = first_result(web)
        if fetched < RIGHT_OF_20:
            missed.append(f"{fetched} of 20 questions, the limit is {RIGHT_OF_20}")
        seconds = ", ".join(f"{name} {each:.2f} s" for name, each in times.items())
        parts += [
            text,
            f"The right page was fetched for {fetched} of {len(QUESTIONS)} questions, and was "
            f"among the results for {listed}.",
            f"First result: {seconds}.",
        ]
    report(options, "Hunts", "\n\n".join([*parts, *(f"Missed: {each}" for each in missed)]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
