"""`[search]`: what is searched together with the workspace."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from lycosa.core.section import DurationMs, Section


def _server(value: str) -> str:
    if not re.fullmatch(r"https?://[^/@\s?#]+(?:/[^@\s?#]*)?", value):
        raise ValueError("write it as http://HOST:PORT, without user, password, ? or #")
    return value.rstrip("/")


class SearchSettings(Section):
    """What is searched together with this workspace: others, and other Lycosas."""

    workspaces: tuple[str, ...] = Field((), description="Further workspaces, each a folder or a URL, opened by the process that searches.")
    peers: tuple[Annotated[str, AfterValidator(_server)], ...] = Field(
        (),
        description="Other Lycosas, by the addresses of their `lycosa serve`: `http://HOST:PORT`. They are trusted with the order of "
        "results, and with nothing else.",
    )
    peer_timeout: DurationMs = Field(
        2_000, ge=50, le=60_000, description="How long one search waits for peers in all; those that are late are left out of it."
    )
    hops: int = Field(
        1, ge=0, le=3, description="How far a question is handed on: 0 to nobody, 1 to the peers, 2 to the peers of these as well."
    )
