"""Where a whole crawl's CPU goes, by package and function: `python -m bench.profile [--target
python-doc] [--flame FILE.svg]`.

Crawls twice. The first crawl runs undisturbed: /proc says what CPU it used, and which part of it
threads of Rust and C++ used (tantivy's, polars'), by their names. In the second py-spy samples
every thread that runs Python, native frames included; the rest of the CPU is shared out over these
samples, but for those that wait: for the interpreter's lock, the disk or the network. (py-spy stops
and wakes every thread for each sample, so the CPU of that crawl says nothing.) Native is what
libraries compute (curl, lexbor, ICU, compression, tantivy, polars, numpy, the C library on their
behalf); the interpreter and its own types are not.

Where there is perf, one more crawl says which library's code the CPU ran, interpreter and kernel
among them. That is exact, and its native share is the one to believe: py-spy counts a thread that
waits for a core like one that has it, and on a busy machine libraries look larger for that.

Needs py-spy (`pip install -e .[bench]`) and the right to trace one's own children. With `--flame`
another crawl is drawn as a flame graph.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import psutil
from tests.servers.sites import NAMES, SitesAbsent, lay_sites, serve_sites

from bench.crawl import HERE, targets
from bench.harness import append_results, table
from bench.rivals.build import RivalAbsent
from bench.rivals.commands import COMMANDS, ENVIRONMENT, nginx_program

LIMIT_S = 900
RATE = 100  # samples a second: more would stop the crawl for most of its time
_LOOK_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")

_FRAME = re.compile(r"^(.*) \(([^()]*?)(?::\d+)?\)$")
_OURS = re.compile(r"(?:^|/)lycosa/(\w+)/([\w/]+)\.py$")
_WAITS = frozenset(
    (
        "pthread_cond_timedwait",
        "pthread_cond_wait",
        "PyThread_acquire_lock_timed",
        "epoll_wait",
        "fsync",
        "os_fsync",
        "syscall",
    )
)  # by "syscall" Rust waits
# work for whoever calls them
_SYSTEM = ("libc.so", "libc-", "ld-linux", "libpthread", "libm.so", "libstdc++", "[vdso]")
_INTERPRETER = re.compile(r"^(?:libpython|python)[\d.]")
_NATIVE_THREADS = (  # by the beginning of their names
    (
        ("thrd-tantivy", "thread-tantivy", "docstore", "segment_up", "merge_thread"),
        "index (tantivy's threads)",
    ),
    (("polars", "async-exec", "tokio", "jemalloc"), "store, index (polars' threads)"),
)
STARTING = "start (imports)"

_LIBRARIES = (  # by the beginning of the file's name; what is in none of them is Python's
    (("tantivy.",), "tantivy"),
    (("_polars_runtime",), "polars"),
    (("lexbor.",), "lexbor"),
    (("libcurl", "_pycurl", "libnghttp", "libngtcp", "libssl", "libcrypto"), "curl, TLS, digests"),
    (("isal_", "igzip", "libz", "backend_c.", "_zstd", "_brotli"), "compression"),
    (("libicu", "breakers."), "ICU"),
    (("_multiarray", "_umath"), "numpy"),
    (("_pycld2",), "cld2"),
    (("Stemmer.",), "stemmer"),
    (("_xxhash", "_ada", "ahocorasick", "_pydantic", "nh3"), "other libraries"),
    (("[kernel", "[vdso]"), "kernel"),
    (
        ("libc.so", "libc-", "ld-linux", "libm.", "libpthread", "libstdc++", "libgcc"),
        "C library (memory, copies)",
    ),
)
_PYTHON = "Python itself"
_NOT_NATIVE = frozenset((_PYTHON, "kernel", "C library (memory, copies)"))
_PERF_RATE = 499  # no divisor of what the machine does by the clock


@dataclass(frozen=True)
class Stack:
    """One stack of a thread and how often it was met."""

    package: str
    function: str  # the deepest of ours
    native: bool
    waits: bool
    samples: int


@dataclass
class Cost:
    """CPU seconds, and how many of them were native."""

    total: float = 0.0
    native: float = 0.0

    def add(self, seconds: float, native: bool) -> None:
        self.total += seconds
        self.native += seconds if native else 0.0


@dataclass
class Profile:
    """What a crawl cost, in CPU seconds as /proc counts them."""

    pages: int
    packages: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    functions: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))

    @property
    def total(self) -> Cost:
        costs = self.packages.values()
        return Cost(sum(cost.total for cost in costs), sum(cost.native for cost in costs))


def read_stacks(lines: Iterable[str]) -> Iterator[Stack]:
    """The stacks of py-spy's `raw` format: frames from the outermost in, joined by `;`, and a
    count.
    """
    for line in lines:
        text, _, count = line.rstrip("\n").rpartition(" ")
        frames = text.split(";")
        if not frames[0].startswith("thread (") or not count.isdigit():
            continue
        places = [(match[1], match[2]) for frame in frames[1:] if (match := _FRAME.match(frame))]
        package, function = _ours(places)
        waits = any(name in _WAITS for name, _ in places[-4:])
        yield Stack(package, function, _is_native(places), waits, int(count))


def _ours(places: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The package and the function of the deepest frame of ours; what an import runs is the
    start's.
    """
    if any(name == "_find_and_load" for name, _ in places):
        return STARTING, STARTING
    for name, file in reversed(places):
        match = _OURS.search(file)
        if match:
            return match[1], f"{match[1]}.{match[2].replace('/', '.')}: {name}"
    return "other", "other"


def _is_native(places: Sequence[tuple[str, str]]) -> bool:
    """Whether a library's own code ran, or the C library on its behalf."""
    for _, file in reversed(places):
        name = file.rpartition("/")[2]
        if not name.startswith(_SYSTEM):
            return not (name.endswith((".py", ">")) or _INTERPRETER.match(name))
    return False


def assemble(
    stacks: Iterable[Stack], native_s: Mapping[str, float], python_s: float, pages: int
) -> Profile:
    """Share the CPU of Python's threads out over their samples that did not wait; `native_s`: CPU
    of the other threads, by package.
    """
    profile = Profile(pages)
    for package, spent in native_s.items():
        for costs in (profile.packages, profile.functions):
            costs[package].add(spent, native=True)
    met = [stack for stack in stacks if not stack.waits]
    share = python_s / max(1, sum(stack.samples for stack in met))
    for stack in met:
        profile.packages[stack.package].add(stack.samples * share, stack.native)
        profile.functions[stack.function].add(stack.samples * share, stack.native)
    return profile


class NativeThreads:
    """CPU seconds of the threads of a process and of its children that run no Python, as last seen
    in /proc.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._seconds: dict[int, tuple[str, float]] = {}  # by thread

    def look(self) -> None:
        """Read /proc once: call it often, for what ends between two looks is seen only until the
        first.
        """
        try:
            process = psutil.Process(self._root)
            pids = [self._root, *(child.pid for child in process.children(recursive=True))]
        except psutil.NoSuchProcess:
            return
        for stat in chain.from_iterable(Path(f"/proc/{pid}/task").glob("*/stat") for pid in pids):
            try:
                text = stat.read_text()
            except OSError:
                continue  # it has ended meanwhile
            name, (user, system) = (
                text[text.index("(") + 1 : text.rindex(")")],
                text.rpartition(")")[2].split()[11:13],
            )
            package = next(
                (package for starts, package in _NATIVE_THREADS if name.startswith(starts)), ""
            )
            if package:
                self._seconds[int(stat.parent.name)] = package, (int(user) + int(system)) / _TICKS

    def by_package(self) -> dict[str, float]:
        """The sums."""
        sums: dict[str, float] = defaultdict(float)
        for package, spent in self._seconds.values():
            sums[package] += spent
        return sums


def spy() -> str:
    """py-spy's path.

    Raises:
        RivalAbsent: it is not installed.
    """
    beside = Path(sys.executable).parent / "py-spy"
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if not program:
        raise RivalAbsent("py-spy is not installed: pip install -e .[bench]")
    return program


@dataclass(frozen=True)
class Crawl:
    """One crawl: distinct pages that nginx served, CPU seconds, and those of native threads by
    package.
    """

    pages: int
    cpu_s: float
    native_s: Mapping[str, float]


def crawl(target: str, before: Sequence[str] = ()) -> Crawl:
    """Crawl once; `before` stands before the command.

    Raises:
        RuntimeError: the crawl failed; the message holds the end of what it said.
    """
    sites = tuple(site for site in lay_sites() if site.name in dict(targets(target))[target])
    folder = Path(tempfile.mkdtemp(prefix="lycosa-bench-profile-"))
    try:
        with (
            serve_sites(sites, program=nginx_program()) as served,
            (folder / "said").open("wb") as said,
        ):
            mark = served.server.mark()
            command = [*before, *COMMANDS["lycosa"](served.seeds(), folder)]
            process = subprocess.Popen(
                command, stdout=said, stderr=said, cwd=folder, env={**os.environ, **ENVIRONMENT}
            )
            threads, until = NativeThreads(process.pid), time.monotonic() + LIMIT_S
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                threads.look()
                time.sleep(_LOOK_S)
                if time.monotonic() > until:
                    process.kill()
            # `wait4` has reaped it: Popen must not wait again
            process.returncode = os.waitstatus_to_exitcode(ended[1])
            pages = {
                line.url
                for line in served.server.requests(mark)
                if line.status == 200 and line.content_type.startswith("text/html")
            }
        if process.returncode or not pages:
            said_last = (folder / "said").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{said_last}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Crawl(len(pages), ended[2].ru_utime + ended[2].ru_stime, threads.by_package())


def under_spy(form: str, output: Path, rate: int) -> list[str]:
    """What to put before a command to have it sampled. Raises RivalAbsent as `spy` does."""
    return [
        spy(),
        "record",
        "--rate",
        str(rate),
        "--native",
        "--threads",
        "--format",
        form,
        "--output",
        str(output.absolute()),
        "--",
    ]


def library(file: str) -> str:
    """Whose code a shared object is."""
    return next((name for starts, name in _LIBRARIES if file.startswith(starts)), _PYTHON)


def read_shares(lines: Iterable[str]) -> dict[str, float]:
    """Shares of the CPU by library, largest first, of what `perf report -F overhead,dso -t ,`
    says.
    """
    shares: dict[str, float] = defaultdict(float)
    for line in lines:
        share, comma, file = line.partition(",")
        if comma and share.rstrip().endswith("%"):
            shares[library(file.strip())] += float(share.rstrip(" %")) / 100
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def perf_shares(target: str) -> dict[str, float]:
    """One crawl under perf: shares of the CPU by library; empty where there is no perf, or it may
    not be used.
    """
    program = shutil.which("perf")
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        trial = [
            program or "",
            "record",
            "-q",
            "-e",
            "cpu-clock",
            "-F",
            str(_PERF_RATE),
            "-o",
            data,
            "--",
        ]
        if (
            program is None
            or subprocess.run([*trial, "true"], capture_output=True, check=False).returncode
        ):
            return {}
        crawl(target, trial)
        command = [program, "report", "-i", data, "--stdio", "-F", "overhead,dso", "-t", ","]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    return read_shares(said.stdout.splitlines())


def report_shares(shares: Mapping[str, float]) -> str:
    """A table as Markdown: the libraries, and what they have of the CPU together."""
    native = sum(share for name, share in shares.items() if name not in _NOT_NATIVE)
    rows = [(name, f"{share:.1%}") for name, share in shares.items()]
    return (
        f"{native:.0%} of the CPU is in libraries, by "
        f"perf\n\n{table(('code of', 'share of the CPU'), rows)}"
    )


def report(profile: Profile, functions: int) -> str:
    """Two tables as Markdown: packages, then the costliest functions."""
    total = profile.total

    def rows(costs: Mapping[str, Cost]) -> list[tuple[object, ...]]:
        ordered = Counter({name: cost.total for name, cost in costs.items()}).most_common()
        return [
            (
                name,
                f"{spent:.2f}",
                f"{1000 * spent / profile.pages:.3f}",
                f"{spent / total.total:.1%}",
                f"{costs[name].native / max(spent, 1e-9):.0%}",
            )
            for name, spent in ordered
        ]

    header = ("CPU s", "ms a page", "share", "of it native")
    whole = (
        f"{profile.pages} pages, {total.total:.1f} CPU-seconds, "
        f"{total.native / total.total:.0%} of them native"
    )
    packages = table(("package", *header), rows(profile.packages))
    return f"{whole}\n\n{packages}\n\n{table(('function', *header), rows(profile.functions)[:functions])}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.profile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--target", choices=("all", *NAMES), default="all", help="sites to crawl (default all)"
    )
    parser.add_argument("--rate", type=int, default=RATE, help=f"samples a second (default {RATE})")
    parser.add_argument(
        "--functions",
        type=int,
        default=30,
        metavar="N",
        help="how many functions are listed (default 30)",
    )
    parser.add_argument(
        "--flame", type=Path, metavar="FILE", help="crawl once more and draw a flame graph (SVG)"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="append the tables to bench/RESULTS.md"
    )
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            raw = Path(folder) / "raw"
            sampled = under_spy("raw", raw, options.rate)
            plain = crawl(options.target)
            crawl(options.target, sampled)
            with raw.open(encoding="utf-8", errors="replace") as lines:
                python_s = plain.cpu_s - sum(plain.native_s.values())
                text = report(
                    assemble(read_stacks(lines), plain.native_s, python_s, plain.pages),
                    options.functions,
                )
            shares = perf_shares(options.target)
            text += f"\n\n{report_shares(shares)}" if shares else ""
        print(text)
        if options.flame:
            crawl(options.target, under_spy("flamegraph", options.flame, options.rate))
    except (RivalAbsent, SitesAbsent, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.markdown:
        append_results(
            HERE / "RESULTS.md",
            "CPU by package",
            f"python -m bench.profile --target {options.target}",
            text,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
