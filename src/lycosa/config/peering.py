"""`[search]`: what is searched together with the workspace."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from lycosa.config.section import DurationMs, SettingsSection


def _server(value: str) -> str:
    if not re.fullmatch(r"https?://[^/@\s?#]+(?:/[^@\s?#]*)?", value):
        raise ValueError("write it as http://HOST:PORT, without user, password, ? or #")
    return value.rstrip("/")


class SearchSettings(SettingsSection):
    """Other workspaces and Lycosa servers that searches include."""

    workspaces: tuple[str, ...] = Field(
        (), description="Further workspaces to search, each a folder or a URL."
    )
    peers: tuple[Annotated[str, AfterValidator(_server)], ...] = Field(
        (),
        description="Other Lycosa servers to search, as `http://HOST:PORT` of their `lycosa "
        "serve`. They can influence the "
        "ranking but nothing else.",
    )
    peer_timeout: DurationMs = Field(
        2_000,
        ge=50,
        le=60_000,
        description="Time limit for all peers together per search. "
        "Results of peers that are late are omitted.",
    )
    hops: int = Field(
        1,
        ge=0,
        le=3,
        description="How far searches are forwarded. 0: to no peer. "
        "1: to the peers. 2: also to their peers.",
    )
