"""Libraries: which language a collection's pages are filed under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lycosa.config.settings import Config
from lycosa.store.log.state import LogState


def library_languages(config: Config, state: LogState) -> Mapping[str, str]:
    """Return the language of each collection that has one: configured, or of its last crawl.

    Pages of other collections are filed under their identified language.
    """
    languages: dict[str, str] = {}
    settings: dict[str, Mapping[str, Any]] = {**state.settings}
    configured = {collection.name: collection.language for collection in config.collection}
    for name in {*settings, *configured}:
        language = configured.get(name) or str(settings.get(name, {}).get("language") or "")
        if language:
            languages[name] = language
    return languages
