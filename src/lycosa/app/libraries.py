"""Libraries: which language a collection's pages are filed under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lycosa.app.templates.news27 import LANGUAGES
from lycosa.core.config import Config
from lycosa.store.state import LogState


def library_languages(config: Config, state: LogState) -> Mapping[str, str]:
    """Collection -> language, of those that have one: what the configuration says, else what it said when they were last crawled,
    else the collection's name if it is the code of one of our languages. Pages of other collections go by what was identified."""
    known: dict[str, str] = {}
    said: dict[str, Mapping[str, Any]] = {**state.settings}
    configured = {collection.name: collection.language for collection in config.collection}
    for name in {*said, *configured, *LANGUAGES}:
        language = configured.get(name) or str(said.get(name, {}).get("language") or "") or (name if name in LANGUAGES else "")
        if language:
            known[name] = language
    return known
