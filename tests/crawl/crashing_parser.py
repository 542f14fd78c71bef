"""Crawl with a parser that crashes on one page.

For `test_kill`: `python crashing_parser.py WORKSPACE SEED`. The patch is at module level, so
spawned child processes apply it too.
"""

from __future__ import annotations

import os
import signal
import sys

from lycosa.commands.crawling.crawl import CrawlOrder, crawl
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.core.records import Page
from lycosa.crawl.processing import page_reader as parse
from lycosa.page.parse import parse_page


def _crashing(payload: bytes, **about: object) -> Page:
    if b"kills the parser" in payload:
        os.kill(os.getpid(), signal.SIGSEGV)
    return parse_page(payload, **about)  # type: ignore[arg-type]


parse.parse_page = _crashing  # type: ignore[attr-defined]

if __name__ == "__main__":
    config = parse_config("", overrides=("crawl.patience=1s",))
    collection = Collection.model_validate({"delay": 0, "courtesy_factor": 0.0})
    print(crawl(CrawlOrder(sys.argv[1], config, collection, (sys.argv[2],), index=False)).ended)
