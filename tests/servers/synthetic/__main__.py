"""Serve a synthetic web in a separate process.

Usage: python -m tests.servers.synthetic --seed 7 --hosts 200 --pages 5000 --log FILE

It prints one line of JSON when it accepts connections: port, connect_to, seeds. SIGTERM and SIGINT
stop it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from dataclasses import fields
from pathlib import Path

from tests.servers.synthetic.plan import TRAPS, Trap, WebPlan
from tests.servers.synthetic.server import NETWORK, WebServer
from tests.servers.synthetic.web import Web


def options_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.servers.synthetic", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--calm", action="store_true", help="only the features set with --set")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="set a number of the plan, repeatable",
    )
    parser.add_argument(
        "--traps", default="", help="kinds of traps, separated by commas; default: all"
    )
    parser.add_argument(
        "--epoch-ms", type=int, default=None, help="start of the web's time; default: now"
    )
    parser.add_argument("--network", default=NETWORK, help="address prefix, such as 127.0.16.")
    parser.add_argument("--addresses", type=int, default=1)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--pace", type=float, default=1.0, help="factor of latencies and transfer times"
    )
    parser.add_argument("--log", type=Path, default=None)
    return parser


def main(arguments: list[str]) -> int:
    options = options_parser().parse_args(arguments)
    server = WebServer(
        Web(read_plan(options)),
        network=options.network,
        addresses=options.addresses,
        port=options.port,
        pace=options.pace,
        log_file=options.log,
    )
    stop_signals = {signal.SIGTERM, signal.SIGINT}
    # blocked before threads start, so that only `sigwait` receives them
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)
    with server:
        print(
            json.dumps(
                {"port": server.port, "connect_to": server.connect_to, "seeds": server.web.seeds()}
            ),
            flush=True,
        )
        signal.sigwait(stop_signals)
    return 0


def read_plan(options: argparse.Namespace) -> WebPlan:
    """Return the plan that the options describe.

    Raises:
        SystemExit: --set has a name that is not a number of the plan.
    """
    types = {field.name: field.type for field in fields(WebPlan)}
    changes: dict[str, object] = {}
    for text in options.set:
        name, _, value = text.partition("=")
        if types.get(name) not in ("int", "float"):
            raise SystemExit(f"--set {text}: the plan has no number {name!r}")
        changes[name] = int(value) if types[name] == "int" else float(value)
    changes |= {"seed": options.seed, "hosts": options.hosts, "pages": options.pages}
    changes["epoch_ms"] = (
        time.time_ns() // 1_000_000 if options.epoch_ms is None else options.epoch_ms
    )
    changes["trap_kinds"] = (
        tuple(Trap(name) for name in options.traps.split(",")) if options.traps else TRAPS
    )
    return WebPlan.calm(**changes) if options.calm else WebPlan(**changes)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
