"""What content alerts and `find` add to a crawl."""

from __future__ import annotations

from lycosa.crawl.plugins import CrawlPlugins
from lycosa.matching.find_operation import FIND, find_type
from lycosa.matching.page_watcher import Watcher

PLUGINS = CrawlPlugins(Watcher, {FIND: find_type})
