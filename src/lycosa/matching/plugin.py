"""What content alerts and `find` add to a crawl."""

from __future__ import annotations

from collections.abc import Mapping

from lycosa.core.clock import Clock
from lycosa.crawl.policy.operations import OperationType
from lycosa.hooks.specs import hook
from lycosa.matching import find_operation
from lycosa.matching.page_watcher import Watcher
from lycosa.store.storage.storage import Storage


@hook
def page_matcher(storage: Storage, clock: Clock) -> Watcher:
    return Watcher(storage, clock)


@hook
def operation_types(storage: Storage) -> Mapping[str, OperationType]:
    return {find_operation.FIND: find_operation.find_type(storage)}
