"""Write a job for Heritrix and execute Heritrix with it.

    python -m bench.peers.heritrix_job LIB FOLDER SEED…

The job is the default profile of the distribution in LIB without politeness pauses, limited to the
seeds' hosts. If FOLDER contains the logs of a killed crawl, its recovery journal is moved to the
action directory, as the manual describes for a crash.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

PROFILE = "org/archive/crawler/restlet/profile-crawler-beans.cxml"
HEAP = "-Xmx256m"  # as in its start script

CHANGES = {
    "ENTER_AN_URL_WITH_YOUR_CONTACT_INFO_HERE_FOR_WEBMASTERS_AFFECTED_BY_YOUR_CRAWL": (
        "http://127.0.0.1/\ndisposition.delayFactor=0\ndisposition.minDelayMs=0\n"
        "crawlController.pauseAtStart=false\nactionDirectory.initialDelaySeconds=0"
    ),
    '<!-- <property name="maxTransHops" value="2" /> -->': (
        '<property name="maxTransHops" value="0" />'
    ),
    '<!-- <property name="maxSpeculativeHops" value="1" /> -->': (
        '<property name="maxSpeculativeHops" value="0" />'
    ),
}
SEED = "http://example.example/example"


def job(profile: str, seeds: Sequence[str]) -> str:
    """Return the profile with our settings."""
    for before, after in {**CHANGES, SEED: "\n".join(seeds)}.items():
        if profile.count(before) != 1:
            raise SystemExit(f"the profile of Heritrix does not have {before!r} once")
        profile = profile.replace(before, after)
    return profile


def main(library: Path, folder: Path, seeds: Sequence[str]) -> None:
    home = next(library.iterdir())
    here = folder / "jobs" / "crawl"
    (here / "action").mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(next(home.glob("lib/heritrix-engine-*.jar"))) as engine:
        (here / "crawler-beans.cxml").write_text(job(engine.read(PROFILE).decode(), seeds))
    for journal in sorted(here.glob("[0-9]*/logs/frontier.recover.gz")):
        shutil.move(journal, here / "action")
    os.chdir(folder)
    program = ["java", HEAP, f"-Dheritrix.home={folder}", "-cp", f"{home}/lib/*"]
    options = ["-a", "admin:admin", "-p", "0", "-j", str(folder / "jobs"), "--run-job", "crawl"]
    os.execvp("java", [*program, "org.archive.crawler.Heritrix", *options])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
