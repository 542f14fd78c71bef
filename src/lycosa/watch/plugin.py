"""The hooks of content alerts: a crawl delivers their matches."""

from __future__ import annotations

from collections.abc import Callable

from lycosa.config.settings import Config
from lycosa.hooks import hook
from lycosa.watch.delivery import MatchDelivery


@hook
def crawl_service(root: str, config: Config, report: Callable[[str], None]) -> MatchDelivery:
    return MatchDelivery(root, config, report)
