"""What content alerts and `find` add to a crawl."""

from __future__ import annotations

from lycosa.crawl.plugins import CrawlPlugins
from lycosa.monitor.find_work import FIND, find_type
from lycosa.monitor.watching import Watcher

PLUGINS = CrawlPlugins(Watcher, {FIND: find_type})
