"""CPU of availability checks, and the time until outages are detected.

    python -m bench.uptime [--monitors N] [--seconds T] [--hosts H]

nginx serves H loopback addresses, a fifth of them with TLS. `lycosa monitor run` checks N URLs
there every 60 s. Half a minute after the start five more servers fail: one stops, one answers 500,
one changes its text, one has an expired certificate, one is slow. Goals: 10 % of a core, detection
within 120 s.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import polars as pl
import psutil
from tests.servers.certificates import Certificate, make_certificate
from tests.servers.controllable_server import ControllableServer, expired_certificate
from tests.servers.nginx import Server, free_port, nginx

from bench.harness import arguments, lycosa, report, tree_cpu_s
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

EVERY_S = 60
_FAIL_AFTER_S = 30.0
_TLS_EACH = 5  # every fifth host
_PAGE = (
    "<title>Page</title><p>All is well here.\n"
    + "<p>The quick brown fox jumps over the lazy dog.\n" * 400
)


def main() -> None:
    options = arguments(__doc__, runs=1, monitors=1_000, hosts=100, seconds=150.0).parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        lines = run(Path(folder), stack, options.monitors, options.hosts, options.seconds)
    report(options, "Availability", "\n".join(lines))


def configure(
    folder: Path, stack: ExitStack, monitors: int, hosts: int
) -> tuple[dict[str, ControllableServer], Certificate]:
    """Serve the URLs and write the workspace; return the failing servers, an expired certificate."""
    pages, root = folder / "pages", folder / "ws"
    pages.mkdir()
    (pages / "index.html").write_text(_PAGE)
    addresses = [f"127.6.{place // 200}.{place % 200 + 1}" for place in range(hosts)]
    authority = make_certificate(folder, "authority", "")
    names = ",".join(f"IP:{address}" for address in [*addresses, "127.0.0.1"])
    good = make_certificate(folder, "good", names, authority)
    expired = expired_certificate(folder, "expired", "IP:127.0.0.1", authority)
    port = free_port(addresses[:1])
    tls = f"ssl_certificate {good.certificate};\nssl_certificate_key {good.key};\nlisten "
    servers = [
        Server(each, pages, extra=f"{tls}{each}:{port} ssl;" if place % _TLS_EACH == 0 else "")
        for place, each in enumerate(addresses)
    ]
    web = stack.enter_context(nginx(servers))
    failing = {
        name: stack.enter_context(
            ControllableServer(certificate=good if name == "expired" else None)
        )
        for name in _FAILURES
    }
    origins = [
        f"https://{each}:{port}" if place % _TLS_EACH == 0 else f"http://{each}:{web.port}"
        for place, each in enumerate(addresses)
    ]
    urls = [f"{origins[each % hosts]}/?{each}" for each in range(monitors - len(failing))]
    urls += [server.url for server in failing.values()]
    Workspace.create(str(root))
    settings = "".join(
        f"[[monitor]]\nurl = '{url}'\nevery = '{EVERY_S}s'\nexpect = 'well'\ncertificate = '1h'\n"
        for url in urls
    )
    (root / "lycosa.toml").write_text(f"[fetch]\nca_file = '{authority.certificate}'\n{settings}")
    return failing, expired


def run(folder: Path, stack: ExitStack, monitors: int, hosts: int, seconds: float) -> list[str]:
    """Monitor the URLs, make the servers fail, and return the figures."""
    failing, expired = configure(folder, stack, monitors, hosts)
    root = folder / "ws"
    command = lycosa(root, "monitor", "run")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    stack.callback(process.kill)
    alerts: dict[str, float] = {}
    names = {server.url: name for name, server in failing.items()}
    reading = partial(_read_alerts, process, names, alerts)
    threading.Thread(target=reading, daemon=True).start()
    while not (root / "run" / "uptime.json").exists():
        time.sleep(0.1)
    start, before_s = time.monotonic(), tree_cpu_s(process.pid)
    time.sleep(_FAIL_AFTER_S)
    for name, server in failing.items():
        vars(server).update(_FAILURES[name])
        if name in ("stopped", "expired"):
            server.stop()
        if name == "expired":
            server.certificate = expired
            server.start()
    failed_at = time.monotonic()
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    elapsed, cpu_s = time.monotonic() - start, tree_cpu_s(process.pid) - before_s
    memory = psutil.Process(process.pid).memory_info().rss / 1e6
    process.terminate()
    process.wait(60)
    delays = {
        name: f"{alerts[name] - failed_at:.0f} s" if name in alerts else "NOT DETECTED"
        for name in _FAILURES
    }
    return [
        f"{monitors} monitors every {EVERY_S} s at {hosts} hosts, {elapsed:.0f} s: "
        f"{cpu_s / elapsed:.1%} of a core, {memory:.0f} MB",
        _checks(root),
        "detected after: " + ", ".join(f"{name} {delay}" for name, delay in delays.items()),
        f"false alerts: {sorted(alerts.keys() - _FAILURES.keys())}",
    ]


_FAILURES: dict[str, dict[str, object]] = {
    "stopped": {},
    "http 500": {"status": 500},
    "other text": {"text": "sold"},
    "expired": {},
    "slow": {"delay_s": 30.0},
}
"""What each failing server changes; two of them stop, and one starts again with its certificate."""


def _read_alerts(
    process: subprocess.Popen[str], names: dict[str, str], alerts: dict[str, float]
) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if " has been down since " in line:
            url = line.split()[2]
            alerts.setdefault(names.get(url, url), time.monotonic())


def _checks(root: Path) -> str:
    tables = LiveTables(Workspace.open(str(root)))
    rows = tables.scan("visits").select("verdict", "duration_ms").collect()
    successes = rows.filter(pl.col("verdict") == "up")["duration_ms"]
    size = sum(
        path.stat().st_size for path in root.rglob("*") if path.suffix in (".gz", ".parquet")
    )
    verdicts = dict(rows.group_by("verdict").len().iter_rows())
    return (
        f"{rows.height} checks: {verdicts}; median {successes.quantile(0.5)} ms, 95th percentile "
        f"{successes.quantile(0.95)} ms; {size / rows.height:.0f} bytes per check"
    )


if __name__ == "__main__":
    main()
