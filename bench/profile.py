"""Where the CPU time of a crawl goes, by package and function.

    python -m bench.profile [--target python-doc] [--functions 30] [--flame FILE.svg]

py-spy (`pip install -e .[bench]`) samples every thread that runs Python, native frames included.
Samples that wait for the interpreter's lock, the disk or the network do not count. Native is code
of libraries; the interpreter is not. The threads of tantivy and polars run no Python and are not
sampled. `--flame` draws a flame graph of another crawl.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.servers.sites import NAMES, SitesMissing, create_sites, serve_sites

from bench.crawl import targets
from bench.harness import arguments, measure, report, table
from bench.peers.build import PeerAbsent
from bench.peers.commands import COMMANDS, ENVIRONMENT, nginx_program

IMPORTS = "imports"
_FRAME = re.compile(r"^(.*) \(([^()]*?)(?::\d+)?\)$")
_OURS = re.compile(r"(?:^|/)lycosa/(\w+)/([\w/]+)\.py$")
_WAITING = frozenset(
    [
        "pthread_cond_timedwait",
        "pthread_cond_wait",
        "PyThread_acquire_lock_timed",
        "epoll_wait",
        "fsync",
        "os_fsync",
        "syscall",
    ]
)
_SYSTEM = ("libc.so", "libc-", "ld-linux", "libpthread", "libm.so", "libstdc++", "[vdso]")
_INTERPRETER = re.compile(r"^(?:libpython|python)[\d.]")


class Stack(NamedTuple):
    """A stack of a thread: package and innermost function of Lycosa."""

    package: str
    function: str
    native: bool
    samples: int


def read_stacks(lines: Iterable[str]) -> Iterator[Stack]:
    """Parse py-spy's `raw` format (frames joined by `;`, a count); skip waiting stacks."""
    for line in lines:
        text, _, count = line.rstrip("\n").rpartition(" ")
        frames = text.split(";")
        if frames[0].startswith("thread (") and count.isdigit():
            places = [(each[1], each[2]) for frame in frames[1:] if (each := _FRAME.match(frame))]
            if not any(name in _WAITING for name, _ in places[-4:]):
                yield Stack(*_innermost(places), _is_native(places), int(count))


def _innermost(places: Sequence[tuple[str, str]]) -> tuple[str, str]:
    if any(name == "_find_and_load" for name, _ in places):
        return IMPORTS, IMPORTS
    for name, file in reversed(places):
        if match := _OURS.search(file):
            return match[1], f"{match[1]}.{match[2].replace('/', '.')}: {name}"
    return "other", "other"


def _is_native(places: Sequence[tuple[str, str]]) -> bool:
    """Return whether code of a native library ran, or the C library called by it."""
    for _, file in reversed(places):
        name = file.rpartition("/")[2]
        if not name.startswith(_SYSTEM):
            return not (name.endswith((".py", ">")) or _INTERPRETER.match(name))
    return False


def summarize(stacks: Iterable[Stack], functions: int) -> str:
    """Return tables of the packages and of the functions with most samples."""
    running = list(stacks)
    total = sum(stack.samples for stack in running)
    native_total = sum(stack.samples for stack in running if stack.native)
    parts = [f"{total} samples, {native_total / total:.0%} of them native"]
    for column, limit in (("package", len(running)), ("function", functions)):
        samples: Counter[str] = Counter()
        native: Counter[str] = Counter()
        for stack in running:
            name = getattr(stack, column)
            samples[name] += stack.samples
            native[name] += stack.samples if stack.native else 0
        rows = [
            (name, f"{count / total:.1%}", f"{native[name] / count:.0%}")
            for name, count in samples.most_common(limit)
        ]
        parts.append(table((column, "share of CPU", "native"), rows))
    return "\n\n".join(parts)


def sample_crawl(target: str, form: str, output: Path) -> None:
    """Crawl under py-spy, which writes its samples to `output`.

    Raises:
        PeerAbsent: py-spy or nginx is not installed.
        RuntimeError: the crawl failed.
    """
    program = shutil.which(Path(sys.executable).parent / "py-spy") or shutil.which("py-spy")
    if program is None:
        raise PeerAbsent("py-spy is not installed: pip install -e .[bench]")
    spy = [program, "record", "--rate", "100", "--native", "--threads", "--format", form]
    spy += ["--output", str(output.absolute()), "--"]
    sites = tuple(site for site in create_sites() if site.name in dict(targets(target))[target])
    with (
        tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder,
        serve_sites(sites, program=nginx_program()) as served,
    ):
        log = Path(folder, "output")
        command = [*spy, *COMMANDS["lycosa"](served.seeds(), Path(folder))]
        usage = measure(command, output=log, environment=ENVIRONMENT)
        if usage.exit_code:
            raise RuntimeError(f"py-spy ended with {usage.exit_code}: {log.read_text()[-2000:]}")


def main() -> int:
    parser = arguments(__doc__, runs=1, functions=(30, "number of functions listed"))
    parser.add_argument("--target", choices=("all", *NAMES), default="all")
    parser.add_argument("--flame", type=Path, metavar="FILE", help="draw a flame graph (SVG)")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as folder:
            raw = Path(folder, "raw")
            sample_crawl(options.target, "raw", raw)
            stacks = read_stacks(raw.read_text(errors="replace").splitlines())
            report(options, "CPU by package", summarize(stacks, options.functions))
        if options.flame:
            sample_crawl(options.target, "flamegraph", options.flame)
    except (PeerAbsent, SitesMissing, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
