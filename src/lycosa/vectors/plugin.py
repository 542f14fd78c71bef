"""The hook of vectors: a crawl encodes the chunks of its pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lycosa.hooks import hook

if TYPE_CHECKING:  # loading Polars and numpy slows the start of every command
    from lycosa.config.settings import Config
    from lycosa.vectors.service import EncodingService


@hook
def crawl_service(
    root: str, config: Config, report: Callable[[str], None]
) -> EncodingService | None:
    if not config.encoder.source:
        return None
    from lycosa.vectors.service import EncodingService

    return EncodingService(root, config, report)
