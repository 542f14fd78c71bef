"""What starting costs: CPU seconds of `lycosa --help`, and of a search: `python -m bench.start [-w
WORKSPACE] [--query WORDS]`.

Start-up is paid for each command, so what a command imports counts here; bytecode is kept, as in an
installation.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.harness import load_average, measure, table
from bench.rivals.commands import ENVIRONMENT

RUNS = 7


def cpu_s(command: Sequence[str], runs: int) -> list[float]:
    """CPU seconds of each of some runs of `lycosa`, in order of size; one more warms the caches and
    is not counted.

    Raises:
        RuntimeError: the command failed; the message holds what it said.
    """
    program = Path(sys.executable).parent / "lycosa"
    spent = []
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        for number in range(runs + 1):
            usage = measure([program, *command], output=said, environment=ENVIRONMENT)
            if usage.exit_code:
                raise RuntimeError(
                    f"lycosa {' '.join(command)} ended with {usage.exit_code}: "
                    f"{said.read_text(errors='replace')[-500:]}"
                )
            if number:
                spent.append(usage.cpu_s)
    return sorted(spent)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument(
        "-w", "--workspace", help="search in this one; without it only the help is measured"
    )
    parser.add_argument("--query", default="python", help="what to search for")
    parser.add_argument(
        "--runs", type=int, default=RUNS, metavar="N", help=f"of each command (default {RUNS})"
    )
    options = parser.parse_args(arguments)
    commands = [
        ["--help"],
        *([["-w", options.workspace, "search", options.query]] if options.workspace else []),
    ]
    rows = []
    for command in commands:
        spent = cpu_s(command, options.runs)
        rows.append(
            (
                f"lycosa {' '.join(command)}",
                f"{statistics.median(spent):.2f}",
                f"{spent[0]:.2f}",
                f"{spent[-1]:.2f}",
            )
        )
    print(
        f"load {load_average():.1f}\n\n{table(('command', 'CPU s, median', 'least', 'most'), rows)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
