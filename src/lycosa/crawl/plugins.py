"""Hooks through which features take part in a crawl without the crawl importing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lycosa.core.clock import Clock
from lycosa.crawl.policy.operations import OperationType
from lycosa.crawl.processing.page_matcher import PageMatcher
from lycosa.store.storage.storage import Storage


@dataclass(slots=True, frozen=True)
class CrawlPlugins:
    """What features add to every crawl session of a workspace.

    `page_matcher` makes the object that is shown every new or changed page. `operations`: by name
    of the type, what makes its `OperationType`. Both are module-level functions or classes, so that
    a worker in another process can be given them.
    """

    page_matcher: Callable[[Storage, Clock], PageMatcher] | None = None
    operations: Mapping[str, Callable[[Storage], OperationType]] = field(default_factory=dict)


NO_PLUGINS = CrawlPlugins()
