"""Write a topology for StormCrawler and run it in Storm's local mode until it is idle.

    python -m bench.peers.stormcrawler_topology LIB FOLDER CONCURRENCY PER_HOST SEED…

The topology is that of StormCrawler's archetype with its filters. It differs as follows:

- A WARC bolt archives all responses, with the settings of that module's manual.
- `MemoryStatusUpdater` makes the crawl recursive; the archetype only prints the links. No release
  keeps URLs on disk without a server, so a restart begins at the seeds.
- The Tika bolts are missing, because their module is not in the registry. They parse no HTML.
- URLs outside the seeds' hosts are dropped, and those on loopback addresses are not. All suffixes
  are allowed, so that the URLs are those of the other programs.

A topology never ends. The fetcher reports its numbers of queued and active URLs each second instead
of every ten seconds; Storm is terminated once they were zero twice and no page is being parsed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SC = "com.digitalpebble.stormcrawler"
OKHTTP = f"{SC}.protocol.okhttp.HttpProtocol"
HEAP = "-Xmx2g"  # of a worker, as in the archetype; `storm local` sets none
LIFETIME_S = 86_400  # of the local cluster; its default is 20
POLL_S = 0.25
IDLE_REPORTS = 4  # two gauges, each second

BASIC, JSOUP, PARSE = f"{SC}.filtering.basic", f"{SC}.jsoup", f"{SC}.parse.filter"

ARCHETYPE = {
    "topology.workers": 1,
    "topology.message.timeout.secs": 300,
    "topology.max.spout.pending": 100,
    "topology.kryo.register": [f"{SC}.Metadata", f"{SC}.persistence.Status"],
    "http.protocol.implementation": OKHTTP,
    "https.protocol.implementation": OKHTTP,
    "parsefilters.config.file": "parsefilters.json",
    "urlfilters.config.file": "urlfilters.json",
    "jsoup.filters.config.file": "jsoupfilters.json",
    "textextractor.include.pattern": [
        'DIV[id="maincontent"]',
        'DIV[itemprop="articleBody"]',
        "ARTICLE",
    ],
    "textextractor.exclude.tags": ["STYLE", "SCRIPT"],
    "indexer.md.mapping": [
        *("parse.title=title", "parse.keywords=keywords", "parse.description=description"),
        *("domain", "format"),
    ],
    "topology.metrics.consumer.register": [
        {"class": "org.apache.storm.metric.LoggingMetricsConsumer", "parallelism.hint": 1}
    ],
}
WARC = {
    "http.store.headers": True,
    "http.protocol.versions": ["http/1.1"],
    "warc": {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem"},
}
CHANGES = {
    "fetcher.server.delay": 0,
    "http.content.limit": 10_000_000,  # the archetype's 64 KiB would truncate pages
    "fetcher.metrics.time.bucket.secs": 1,  # to notice the end
}
LOG4J = """
appender.log.type=Console
appender.log.name=log
appender.log.target=SYSTEM_ERR
appender.log.layout.type=PatternLayout
appender.log.layout.pattern=%c{1} %m%n
rootLogger.level=info
rootLogger.appenderRef.log.ref=log
"""

_GAUGE = re.compile(r":fetcher\s+(?:activethreads|in_queues)\s+(\d+)")


def topology(folder: Path, concurrency: int, per_host: int, seeds: Sequence[str]) -> dict[str, Any]:
    """Return the topology as Flux reads it."""
    bolts = {
        "partitioner": ("bolt.URLPartitionerBolt", "spout"),
        "fetcher": ("bolt.FetcherBolt", "partitioner"),
        "warc": ("warc.WARCHdfsBolt", "fetcher"),
        "sitemap": ("bolt.SiteMapParserBolt", "fetcher"),
        "feed": ("bolt.FeedParserBolt", "sitemap"),
        "parse": ("bolt.JSoupParserBolt", "feed"),
        "index": ("indexing.StdOutIndexer", "parse"),
    }
    streams: list[dict[str, Any]] = [
        {"from": source, "to": name, "grouping": _grouping(name)}
        for name, (_, source) in bolts.items()
    ] + [
        {"from": name, "to": "status", "grouping": _fields("url", streamId="status")}
        for name in ("fetcher", "sitemap", "feed", "parse", "index")
    ]
    definitions: list[dict[str, Any]] = [
        {"id": name, "className": f"{SC}.{bolt}", "parallelism": 1}
        for name, bolt in [
            *((name, bolt) for name, (bolt, _) in bolts.items()),
            ("status", "persistence.MemoryStatusUpdater"),
        ]
    ]
    warc = next(bolt for bolt in definitions if bolt["id"] == "warc")
    warc["configMethods"] = [
        {"name": "withFileNameFormat", "args": [{"ref": "name"}]},
        {"name": "withRequestRecords"},
        {"name": "withConfigKey", "args": ["warc"]},
        # the default of 10 would lose records when Storm is terminated
        {"name": "withSyncPolicy", "args": [{"ref": "sync"}]},
    ]
    threads = {"fetcher.threads.number": concurrency, "fetcher.threads.per.queue": per_host}
    return {
        "name": "crawler",
        "includes": [{"resource": True, "file": "/crawler-default.yaml", "override": False}],
        "config": {**ARCHETYPE, **WARC, **CHANGES, **threads},
        "components": [
            {
                "id": "name",
                "className": f"{SC}.warc.WARCFileNameFormat",
                "configMethods": [{"name": "withPath", "args": [str(folder / "warc")]}],
            },
            {
                "id": "sync",
                "className": "org.apache.storm.hdfs.bolt.sync.CountSyncPolicy",
                "constructorArgs": [1],
            },
        ],
        "spouts": [
            {
                "id": "spout",
                "className": f"{SC}.spout.MemorySpout",
                "parallelism": 1,
                "constructorArgs": [[*seeds]],
            }
        ],
        "bolts": definitions,
        "streams": streams,
    }


def _grouping(bolt: str) -> dict[str, Any]:
    if bolt == "fetcher":
        return _fields("key")
    return {"type": "SHUFFLE" if bolt == "partitioner" else "LOCAL_OR_SHUFFLE"}


def _fields(name: str, **options: str) -> dict[str, Any]:
    return {"type": "FIELDS", "args": [name], **options}


def filters(seeds: Sequence[str]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the files of the archetype's filters."""
    hosts = sorted({urlsplit(seed).netloc for seed in seeds})
    rules = [f"+^https?://{re.escape(host)}(/|$)" for host in hosts]
    normalizer = {"unmangleQueryString", "checkValidURI", "removeHashes", "hostIDNtoASCII"}
    url = [
        _filter(f"{BASIC}.BasicURLFilter", maxPathRepetition=3, maxLength=1024),
        _filter(
            f"{BASIC}.BasicURLNormalizer", removeAnchorPart=True, **dict.fromkeys(normalizer, True)
        ),
        _filter(f"{SC}.filtering.regex.RegexURLFilter", urlFilters=rules),
        _filter(f"{BASIC}.SelfURLFilter"),
        _filter(f"{SC}.filtering.sitemap.SitemapFilter"),
    ]
    jsoup = [
        _filter(
            f"{JSOUP}.XPathFilter",
            **{
                "canonical": '//*[@rel="canonical"]/@href',
                "parse.description": [
                    '//*[@name="description"]/@content',
                    '//*[@name="Description"]/@content',
                ],
                "parse.title": ["//TITLE/tidyText()", '//META[@name="title"]/@content'],
                "parse.keywords": '//META[@name="keywords"]/@content',
            },
        ),
        _filter(f"{JSOUP}.LinkParseFilter", pattern="//FRAME/@src"),
    ]
    parse = [
        _filter(f"{PARSE}.DomainParseFilter", key="domain", byHost=False),
        _filter(f"{PARSE}.MimeTypeNormalization"),
        _filter(f"{PARSE}.CommaSeparatedToMultivaluedMetadata", keys=["parse.keywords"]),
    ]
    return {
        "urlfilters.json": {f"{SC}.filtering.URLFilters": url},
        "jsoupfilters.json": {f"{SC}.parse.JSoupFilters": jsoup},
        "parsefilters.json": {f"{SC}.parse.ParseFilters": parse},
    }


def _filter(name: str, **parameters: Any) -> dict[str, Any]:
    return {"class": name, "name": name.rpartition(".")[2], "params": parameters}


def wait_until_idle(lines: Iterator[str]) -> None:
    """Read the log until no URL is queued, fetched, stored or parsed, or until its end."""
    started = parsing = False
    idle = 0
    for line in lines:
        if gauge := _GAUGE.search(line):
            started = started or gauge[1] != "0"
            idle = idle + 1 if started and gauge[1] == "0" and not parsing else 0
            if idle == IDLE_REPORTS:
                return
        elif line.startswith(("FetcherBolt", "HDFSWriter", "JSoupParserBolt")):
            started, idle = started or "://" in line, 0
            if line.startswith("JSoup"):
                parsing = line.startswith("JSoupParserBolt Pars")  # "Parsing", then "Parsed"


def follow(path: Path, process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield the lines of a growing file until the process has ended."""
    with path.open(errors="replace") as log:
        part = ""
        while (running := process.poll() is None) or part:
            part += log.readline()
            if part.endswith("\n"):
                yield part
                part = ""
            elif not running:
                return
            else:
                time.sleep(POLL_S)


def main(library: Path, folder: Path, concurrency: int, per_host: int, seeds: Sequence[str]) -> int:
    conf, temporary, log = folder / "conf", folder / "storm", folder / "storm.log"
    shutil.rmtree(temporary, ignore_errors=True)  # the state of a killed cluster is not reused
    for path in (conf, temporary):
        path.mkdir(exist_ok=True)
    (conf / "log4j2.properties").write_text(LOG4J)
    for name, content in filters(seeds).items():
        (conf / name).write_text(json.dumps(content, indent=1))
    flux = conf / "crawler.flux"
    flux.write_text(json.dumps(topology(folder, concurrency, per_host, seeds), indent=1))
    jar = next(library.glob("storm-crawler-core-*.jar"))  # Storm requires one, and has all others
    command = [
        *("java", HEAP, "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={temporary}"),
        *(f"-Dstorm.local.sleeptime={LIFETIME_S}", f"-Dstorm.jar={jar}"),
        *("-cp", f"{conf}:{library}/*"),
        *("org.apache.storm.LocalCluster", "org.apache.storm.flux.Flux", str(flux)),
    ]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stderr=sink)
    wait_until_idle(follow(log, process))
    failed = process.poll() is not None
    process.terminate()
    process.wait()
    shutil.rmtree(temporary, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    place, directory, limit, host_limit, *urls = sys.argv[1:]
    sys.exit(main(Path(place), Path(directory), int(limit), int(host_limit), urls))
