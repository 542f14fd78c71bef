"""What `bench.soak` is to be like: the web, the crawl's settings, the readers, how often somebody
dies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.servers.synthetic.__main__ import options_parser, read_plan
from tests.servers.synthetic.web import Web

FEATURES = (
    *(
        "subdomains=0.2",
        "size_exponent=0.3",
        "traps=0",
        "static=0.2",
        "changes_per_day=24",
        "news=0.15",
        "births_per_day=24",
    ),
    *(
        "deaths_per_day=1.5",
        "failing=0.05",
        "limiting=0.05",
        "resetting=0.03",
        "closing=0.02",
        "hanging=0.02",
        "stalling=0.02",
    ),
)


@dataclass(slots=True, frozen=True)
class Plan:
    """What a soak is to be like; written beside what it measures. Times in seconds."""

    seconds: float = 7_200.0
    hosts: int = 2_000
    pages: int = 8_000
    queries: float = 20.0  # a second
    workers: int = 2
    seed: int = 1
    delay_s: float = 20.0  # between two requests to a host
    max_age_s: float = 300.0  # after which a page is fetched again
    shortest_s: float = 60.0  # between two kills
    longest_s: float = 300.0
    hold_s: float = 5.0
    epoch_ms: int = 0  # when the web's time begins; 0: with the soak

    def web_options(self, log: Path) -> list[str]:
        """For `python -m tests.servers.synthetic`."""
        features = [part for feature in FEATURES for part in ("--set", feature)]
        size = ["--seed", str(self.seed), "--hosts", str(self.hosts), "--pages", str(self.pages)]
        return [*size, *features, "--epoch-ms", str(self.epoch_ms), "--log", str(log)]

    def web(self, log: Path) -> Web:
        """The same web in this process."""
        return Web(read_plan(options_parser().parse_args(self.web_options(log))))

    def settings(self, connect_to: list[str], seeds: Path) -> str:
        """The lycosa.toml. What is replaced goes after ten minutes, so that sweeps are part of
        it.
        """
        return f"""
[fetch]
first_byte_timeout = "5s"
total_timeout = "20s"
slow_time = "4s"
retry_later = "10m"
connect_to = {json.dumps(connect_to)}
[store]
keep_replaced = "10m"
[run]
restarts = 1000
[cluster]
ping_interval = "500ms"
hold = "{self.hold_s:g}s"
reassign = "{2 * self.hold_s:g}s"
[[collection]]
name = "soak"
seed_file = {json.dumps(str(seeds))}
scope = "any"
delay = "{round(self.delay_s * 1000)}ms"
backoff = "60s"
connections = 100
address_connections = 256
traps = false
recrawl = "age"
max_age = "{round(self.max_age_s)}s"
"""
