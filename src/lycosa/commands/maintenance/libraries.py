"""Libraries: which language a collection's pages are filed under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lycosa.config.settings import Config
from lycosa.store.log.state import LogState


def library_languages(config: Config, state: LogState) -> Mapping[str, str]:
    """Collection -> language, of those that have one: what the configuration says, else what it
    said when they were last crawled. Pages of other collections go by what was identified.
    """
    known: dict[str, str] = {}
    said: dict[str, Mapping[str, Any]] = {**state.settings}
    configured = {collection.name: collection.language for collection in config.collection}
    for name in {*said, *configured}:
        language = configured.get(name) or str(said.get(name, {}).get("language") or "")
        if language:
            known[name] = language
    return known
