"""What checks of availability cost, and how soon outages are found: `python -m bench.uptime
[--monitors N] [--seconds T] [--hosts H]`.

A real nginx serves H loopback addresses, a fifth of them over TLS; `lycosa uptime watch`, a process
as a user starts it, checks N URLs there every 60 s. Five more servers go wrong half a minute after
the start: one stops, one answers 500, one says something else, one shows an expired certificate,
one takes too long. Printed: CPU-seconds of the process and of what it starts, from its first good
check on and in all; checks a minute; for each planted outage the time from planting to the line
that says so.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import polars as pl
import psutil
from tests.servers.certificates import make_certificate
from tests.servers.moody import Moody, expired_certificate
from tests.servers.nginx import Server, nginx

from bench.harness import load_average
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

EVERY_S = 60
_PLANT_AT_S = 30.0
_TLS_EACH = 5  # every so manieth host
_PAGE = (
    "<title>Page</title><p>All is well here.\n"
    + "<p>The quick brown fox jumps over the lazy dog.\n" * 400
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--monitors", type=int, default=1_000)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=150.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        run(Path(folder), stack, chosen.monitors, chosen.hosts, chosen.seconds)


def run(folder: Path, stack: ExitStack, monitors: int, hosts: int, seconds: float) -> None:
    pages, root = folder / "pages", folder / "ws"
    pages.mkdir()
    (pages / "index.html").write_text(_PAGE)
    addresses = [f"127.6.{place // 200}.{place % 200 + 1}" for place in range(hosts)]
    authority = make_certificate(folder, "authority", "")
    names = ",".join(f"IP:{address}" for address in [*addresses, "127.0.0.1"])
    good = make_certificate(folder, "good", names, authority)
    expired = expired_certificate(folder, "expired", "IP:127.0.0.1", authority)
    with socket.socket() as free:
        free.bind((addresses[0], 0))
        port = free.getsockname()[1]
    tls = (
        f"ssl_certificate {good.certificate};\nssl_certificate_key {good.key};\nlisten "
        f"{{}}:{port} ssl;"
    )
    servers = [
        Server(each, pages, extra=tls.format(each) if place % _TLS_EACH == 0 else "")
        for place, each in enumerate(addresses)
    ]
    web = stack.enter_context(nginx(servers))
    planted = {
        name: stack.enter_context(Moody(certificate=good if name == "expired" else None))
        for name in _PLANS
    }
    urls = []
    for place in range(monitors - len(planted)):
        address = addresses[place % hosts]
        start = (
            f"https://{address}:{port}"
            if place % hosts % _TLS_EACH == 0
            else f"http://{address}:{web.port}"
        )
        urls.append(f"{start}/?{place}")
    urls += [server.url for server in planted.values()]
    Workspace.create(str(root))
    settings = "".join(
        f"[[monitor]]\nurl = '{url}'\nevery = '{EVERY_S}s'\nexpect = 'well'\ncertificate = '1h'\n"
        for url in urls
    )
    (root / "lycosa.toml").write_text(f"[fetch]\nca_file = '{authority.certificate}'\n{settings}")
    process = subprocess.Popen(
        [sys.executable, "-m", "lycosa.cli.main", "-w", str(root), "uptime", "watch"],
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.callback(process.kill)
    found: dict[str, float] = {}
    threading.Thread(
        target=_listen,
        args=(process, {server.url: name for name, server in planted.items()}, found),
        daemon=True,
    ).start()
    while not (root / "run" / "uptime.json").exists():
        time.sleep(0.1)
    began, before = time.monotonic(), _cpu_s(process.pid)
    time.sleep(_PLANT_AT_S)
    for name, server in planted.items():
        _PLANS[name](server)
        if name == "expired":
            server.stop()
            server.certificate = expired
            server.start()
    planted_at = time.monotonic()
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    elapsed, after = time.monotonic() - began, _cpu_s(process.pid)
    memory = psutil.Process(process.pid).memory_info().rss / 1e6
    process.terminate()
    process.wait(60)
    print(
        f"{monitors} monitors every {EVERY_S} s at {hosts} hosts, {elapsed:.0f} s, load "
        f"{load_average()}"
    )
    print(
        f"CPU {after - before:.2f} s: {(after - before) / elapsed:.1%} of one; {after:.2f} s in "
        f"all with the start; {memory:.0f} MB"
    )
    _print_checks(root)
    for name in _PLANS:
        seen = found.get(name)
        print(f"{name}: found after {seen - planted_at:.0f} s" if seen else f"{name}: NOT FOUND")
    false = sorted(found.keys() - _PLANS.keys())
    print(f"false alerts: {len(false)}" + (f", as {false[0]}" if false else ""))


def _nothing(server: Moody) -> None:
    """Its certificate is changed."""


def _answer_500(server: Moody) -> None:
    server.status = 500


def _say_else(server: Moody) -> None:
    server.text = "sold"


def _be_slow(server: Moody) -> None:
    server.delay_s = 30.0


_PLANS: dict[str, Callable[[Moody], None]] = {
    "stopped": Moody.stop,
    "http 500": _answer_500,
    "other text": _say_else,
    "expired": _nothing,
    "slow": _be_slow,
}


def _listen(process: subprocess.Popen[str], names: dict[str, str], found: dict[str, float]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if " has been down since " in line:
            url = line.split()[2]
            found.setdefault(names.get(url, url), time.monotonic())


def _cpu_s(pid: int) -> float:
    process = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:4]) for each in [process, *process.children(recursive=True)])


def _print_checks(root: Path) -> None:
    rows = (
        LiveTables(Workspace.open(str(root)))
        .scan("visits")
        .select("fetched_at", "verdict", "duration_ms")
        .collect()
    )
    minutes = (rows["fetched_at"].max() - rows["fetched_at"].min()).total_seconds() / 60  # type: ignore[operator, union-attr]
    good = rows.filter(pl.col("verdict") == "up")["duration_ms"]
    size = {
        name: sum(path.stat().st_size for path in root.rglob(name))
        for name in ("*.warc.gz", "*.parquet")
    }
    verdicts = rows.group_by("verdict").len().sort("len", descending=True)
    print("verdicts", dict(verdicts.iter_rows()))
    told = {
        "checks": rows.height,
        "a minute": round(rows.height / minutes),
        "p50_ms": good.median(),
        "p95_ms": good.quantile(0.95),
    }
    print(
        json.dumps(
            told
            | {
                f"bytes a check in {name}": round(number / rows.height)
                for name, number in size.items()
            }
        )
    )


if __name__ == "__main__":
    main()
