"""`[serve]`: how the pages and the API are offered."""

from __future__ import annotations

from pydantic import Field

from lycosa.core.section import Section


class ServeSettings(Section):
    """The search page and the JSON API."""

    host: str = Field("127.0.0.1", description="The address to listen on. Loopback unless you know why not.")
    port: int = Field(8000, ge=0, le=65535, description="The port; 0 takes a free one.")
    processes: int = Field(1, ge=1, le=64, description="Processes that serve; each holds what it has opened of the index.")
    rate: int = Field(
        20,
        ge=0,
        le=100_000,
        description="Requests a second that one address may make, four seconds' worth at once; loopback is free; 0: no limit.",
    )
    library: str = Field("", description="The folder of `lycosa export`, whose files are offered. Empty: run/library in the workspace.")
    public_form: bool = Field(
        False, description="Let anybody propose sites at /propose; nothing is fetched before somebody with a token takes it."
    )
    writes: int = Field(600, ge=1, le=1_000_000, description="Changes a minute that the holder of one token may make.")
