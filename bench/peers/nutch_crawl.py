"""Configure Nutch for some seeds and execute its script `crawl` until no URL is left.

    python -m bench.peers.nutch_crawl HOME FOLDER SEED…

Pages are not sent to an index, because that needs a server. If FOLDER contains a killed crawl, the
locks and the unfinished segment are deleted, and the script starts again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

THREADS = 32

SETTINGS = {
    "http.agent.name": "lycosa-bench",  # required
    "fetcher.server.delay": "0",  # no politeness pause
    "fetcher.threads.per.queue": "8",  # connections to one host
    "hadoop.tmp.dir": "{folder}/tmp",  # one for each crawl
}
ACCEPT_ALL = "\n+.\n"  # the last rule of the default URL filter


def site_xml(folder: Path) -> str:
    """Return nutch-site.xml, which overrides defaults."""
    rows = [
        f"<property><name>{name}</name><value>{value.format(folder=folder)}</value></property>"
        for name, value in SETTINGS.items()
    ]
    return "\n".join(["<configuration>", *rows, "</configuration>\n"])


def url_filter(rules: str, seeds: Sequence[str]) -> str:
    """Return the default URL filter, which accepts the seeds' hosts alone, as in the tutorial."""
    if not rules.endswith(ACCEPT_ALL):
        raise SystemExit(f"the URL filter of Nutch does not end with {ACCEPT_ALL!r}")
    origins = {"/".join(seed.split("/")[:3]) for seed in seeds}
    accepted = [f"+^{re.escape(origin)}/" for origin in sorted(origins)]
    return "\n".join([rules.removesuffix(ACCEPT_ALL), *accepted, ""])


def environment(home: Path, folder: Path) -> dict[str, str]:
    """Return the variables of Nutch's scripts for a crawl in a folder."""
    java = shutil.which("java")
    if java is None:
        raise SystemExit("java is not installed")
    return {
        **os.environ,
        "JAVA_HOME": str(Path(java).resolve().parents[1]),
        "NUTCH_CONF_DIR": f"{folder}/conf:{home}/conf",
        "NUTCH_LOG_DIR": f"{folder}/logs",
    }


def recover(home: Path, folder: Path) -> None:
    """Prepare a killed crawl: discard the unfinished segment, apply the last finished one."""
    crawl = folder / "crawl"
    for lock in crawl.glob("*/.locked"):
        lock.unlink()
    segments = sorted(crawl.glob("segments/*"))
    for segment in segments[-1:]:
        if (segment / "crawl_parse").exists() and not (segment / "_temporary").exists():
            for step, table in (("updatedb", "crawldb"), ("invertlinks", "linkdb")):
                command = [f"{home}/bin/nutch", step, f"{crawl}/{table}", str(segment)]
                subprocess.run(command, env=environment(home, folder), cwd=folder, check=True)
        else:
            shutil.rmtree(segment)


def main(home: Path, folder: Path, seeds: Sequence[str]) -> None:
    for name in ("conf", "urls"):
        (folder / name).mkdir(exist_ok=True)
    rules = (home / "conf" / "regex-urlfilter.txt").read_text()
    (folder / "conf" / "regex-urlfilter.txt").write_text(url_filter(rules, seeds))
    (folder / "conf" / "nutch-site.xml").write_text(site_xml(folder))
    (folder / "urls" / "seeds.txt").write_text("\n".join(seeds))
    recover(home, folder)
    os.chdir(folder)
    program = str(home / "bin" / "crawl")
    words = ["-s", "urls", "--num-threads", str(THREADS), "crawl", "-1"]
    os.execve(program, [program, *words], environment(home, folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
