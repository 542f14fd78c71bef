"""Write the configuration of an agent of BUbiNG and execute the agent.

    python -m bench.peers.bubing_agent LIB FOLDER CONNECTIONS SEED…

The configuration is the example of its manual without politeness delays, limited to the seeds'
hosts, with the sizes of memory of a smaller machine. An agent saves its state at `stop` only, and
one that is started on the folder of a killed agent crawls nothing and does not end. So after a
kill, a new agent starts from the seeds in a new folder.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

# Example of the manual (overview.html of version 0.9.15) for a machine with 64 cores and 64 GiB.
# Its filter also excludes .gz, .bz2, .Z, .z and .zip, which nginx serves as text/html here.
IGNORED = (
    ".axd .xls .rar .sflb .tmb .pdf .js .swf .rss .kml .m4v .tif .avi .iso .mov .ppt .bib .docx "
    ".css .fits .png .gif .jpg .jpeg .ico .doc .wmv .mp3 .mp4 .aac .ogg .wma"
).replace(" ", "\\,")
TEXT = (
    "( ContentTypeStartsWith(text/) or PathEndsWithOneOf(.html\\,.htm\\,.txt) )"
    " and not IsProbablyBinary()"
)
EXAMPLE = {
    "fetchFilter": "true",
    "followFilter": "true",
    "parseFilter": TEXT,
    "storeFilter": TEXT,
    "dnsThreads": 50,
    "socketTimeout": "60s",
    "connectionTimeout": "60s",
    "fetchDataBufferByteSize": "200K",
    "cookiePolicy": "compatibility",
    "cookieMaxByteSize": 2000,
    "userAgent": "BUbiNG (+http://law.di.unimi.it/BUbiNG.html)",
    "userAgentFrom": "youremail@yourdomain.com",
    "robotsExpiration": "1h",
    "responseBodyMaxByteSize": "2M",
    "digestAlgorithm": "MurmurHash3",
    "parserSpec": "HTMLParser(MurmurHash3)",
    "bloomFilterPrecision": "1E-8",
    "startPaused": "false",
    "keepAliveTime": "1s",
}
CHANGES = {
    "schemeAuthorityDelay": 0,  # no politeness delays
    "ipDelay": 0,
    "maxUrls": "8M",  # a 64th, as everything that determines the size of memory
    "workbenchMaxByteSize": "8Mi",
    "urlCacheMaxByteSize": "16Mi",
    "sieveSize": "1Mi",
    "maxUrlsPerSchemeAuthority": "8M",  # sites are crawled completely
}
"""Settings whose values differ from those of the example."""
# The options for a collector that Java 17 does not have are left out.
JAVA = (
    *("java", "-server", "-Xss256K", "-Xms320M"),  # a 64th of 20 GiB
    *("-Djava.net.preferIPv4Stack=true", "-Djava.rmi.server.hostname=127.0.0.1"),
    *("-Djgroups.bind_addr=127.0.0.1", "-Dcom.sun.management.jmxremote.port=0"),
    "-Dcom.sun.management.jmxremote.host=127.0.0.1",  # not in the example: it has no password
    "-Dcom.sun.management.jmxremote.ssl=false",
    "-Dcom.sun.management.jmxremote.authenticate=false",
)
LOGGING = """<configuration>
  <appender name="all" class="ch.qos.logback.core.FileAppender">
    <file>{folder}/bubing.log</file>
    <encoder><pattern>%d %r %p [%t] %logger{{1}} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="all"/></root>
  <logger name="net.htmlparser.jericho" level="OFF"/>
  <logger name="org.apache.http" level="WARN"/>
</configuration>
"""


def configuration(seeds: Sequence[str], connections: int) -> str:
    """Return the properties of an agent that crawls the seeds' hosts."""
    origins = sorted({"://".join(urlsplit(seed)[:2]) for seed in seeds})
    hosts = " or ".join(f"URLMatchesRegex({re.escape(origin)}/.*)" for origin in origins)
    settings = {
        **EXAMPLE,
        **CHANGES,
        "fetchingThreads": connections,
        "parsingThreads": os.cpu_count(),  # "usually, the number of available cores"
        "scheduleFilter": f"( {hosts} ) and not PathEndsWithOneOf({IGNORED})"
        " and URLShorterThan(2048) and DuplicateSegmentsLessThan(3)",
    }
    lines = [f"{name}={value}".replace("\\.", "[.]") for name, value in settings.items()]
    return "\n".join([*lines, *(f"seed={seed}" for seed in seeds)]) + "\n"


def main(library: Path, folder: Path, connections: int, seeds: Sequence[str]) -> None:
    number = len(list(folder.glob("crawl-*")))
    properties, logging = folder / "bubing.properties", folder / "logback.xml"
    properties.write_text(configuration(seeds, connections))
    logging.write_text(LOGGING.format(folder=folder))
    classes = ["-cp", f"{library.parent / 'classes'}:{library}/*"]
    program = [*JAVA, f"-Dlogback.configurationFile={logging}", *classes]
    group = f"crawl-{os.getpid()}"  # agents of one group would share the crawl
    options = ["-h", "127.0.0.1", "-P", str(properties), "-g", group, "-n"]
    root = ["-r", str(folder / f"crawl-{number}")]
    main_class = "it.unimi.di.law.bubing.frontier.UntilEmpty"
    os.execvp("java", [*program, main_class, *options, *root, "agent"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
